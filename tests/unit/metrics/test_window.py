import pytest

from fairshare.metrics.window import MAX_POINTS, choose_window
from fairshare.model import UsageError

MINUTE = 60_000
DAY = 86_400_000
NOW = 1_796_061_600_000 + 5 * MINUTE + 40_000  # 18:05:40
HOUR_18 = 1_796_061_600_000


def points(window):
    return (window.end - window.start) // (window.period * 1000)


@pytest.mark.parametrize(("minutes", "first"), [(5, 0), (2, 3)])
def test_c37_the_end_is_exclusive_and_the_unfinished_minute_left_out(minutes, first):
    window = choose_window(NOW - minutes * MINUTE, NOW, NOW, period=60)

    assert (window.start, window.end) == (HOUR_18 + first * MINUTE, HOUR_18 + 5 * MINUTE)
    assert points(window) == minutes


def test_c37_a_window_within_one_minute_is_not_empty():
    window = choose_window(NOW - 5_000, NOW, NOW, period=60)

    assert points(window) == 1


def test_the_last_minute_of_a_job_that_has_ended_is_asked_for_whole():
    window = choose_window(HOUR_18 - 10 * MINUTE, HOUR_18 - MINUTE + 1_000, NOW, period=60)

    assert window.end == HOUR_18


@pytest.mark.parametrize(("days", "period", "used"), [(20, 60, 300), (70, 300, 3600), (20, 420, 600), (10, 60, 60)])
def test_c39_a_period_that_has_expired_becomes_the_one_that_is_kept(days, period, used):
    window = choose_window(NOW - days * DAY, NOW, NOW, period=period)

    assert window.period == used
    assert bool(window.notices) == (used != period)


def test_c39_the_notice_names_both_periods_and_the_age():
    window = choose_window(NOW - 20 * DAY, NOW, NOW, period=60)

    assert window.notices == ("a period of 1 min is no longer kept for 20 d ago: 5 min is used",)


def test_c39_the_start_is_snapped_to_the_period_so_that_results_repeat():
    five_to = HOUR_18 - 13 * 3_600_000 - 5 * MINUTE  # 04:55
    window = choose_window(five_to + 4 * MINUTE + 37_000, NOW, NOW, period=300)

    assert window.start == five_to


@pytest.mark.parametrize("period", [0, 90, -60, 2, 45])
def test_c39_a_period_that_cloudwatch_does_not_have_is_a_local_error(period):
    with pytest.raises(UsageError, match=f"--period: CloudWatch has no period of {period} s") as caught:
        choose_window(NOW - DAY, NOW, NOW, period=period)

    assert caught.value.hint == "give 1, 5, 10, 20, 30 or a multiple of 60"


def test_what_is_older_than_cloudwatch_keeps_is_cut_off_and_told():
    window = choose_window(NOW - 500 * DAY, NOW, NOW)

    assert window.start >= NOW - 455 * DAY - 3_600_000
    assert "455 days" in window.notices[0]


def test_the_period_grows_until_the_request_fits_into_one_answer():
    window = choose_window(NOW - 10 * DAY, NOW, NOW, queries=80)

    assert window.period == 900
    assert points(window) * 80 <= MAX_POINTS


def test_seconds_are_chosen_only_where_they_are_published_and_few():
    assert choose_window(NOW - 90_000, NOW, NOW).period == 60
    assert choose_window(NOW - 90_000, NOW, NOW, finest=1).period == 1
    assert choose_window(NOW - 20 * MINUTE, NOW, NOW, finest=1).period == 5
    assert choose_window(NOW - 4 * 3_600_000, NOW, NOW, finest=1).period == 60
