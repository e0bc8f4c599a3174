from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from fairshare.config.times import load_zone, moment, parse_start, parse_window
from fairshare.model import UsageError
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.waves import Timetable, Wave, moved, plan_waves, remaining, sent_after_seconds, timetable
from fairshare.submit.windows import Gate

HOUR = 3_600_000
NIGHTS = parse_window("20:00-06:00 Europe/Berlin")
EVENING = int(datetime(2026, 12, 1, 18, 0, tzinfo=UTC).timestamp() * 1000)
"""19:00 in Berlin, an hour before the window opens."""


def utc(milliseconds: int) -> str:
    return f"{moment(milliseconds, UTC):%m-%dT%H:%MZ}"


def starts(
    table: Timetable, clock: VirtualClock, upset: Callable[[int, VirtualClock], None] = lambda look, clock: None
) -> list[tuple[int, int]]:
    """Wait for each wave as sending does; return when they started by both clocks. ``upset`` comes after each look."""
    began, look = [], 0
    while (due := table.due(clock.now(), clock.wall())) is not None:
        if due <= clock.now():
            began.append((clock.now(), clock.wall()))
            table.started(clock.now())
        clock.sleep_until(min(max(due, clock.now()), clock.now() + 60_000))
        upset(look, clock)
        look += 1
    return began


def test_waves_are_counted_from_start_to_start() -> None:
    assert plan_waves(20, 8, 90, 1_000) == (Wave(1, 1_000, 0, 8), Wave(2, 91_000, 8, 8), Wave(3, 181_000, 16, 4))


def test_without_a_size_all_jobs_are_one_wave() -> None:
    assert plan_waves(5, None, 90, 0) == (Wave(1, 0, 0, 5),)
    assert plan_waves(0, None, 0, 0) == plan_waves(0, 3, 0, 0) == ()


def test_interval_zero_is_an_interval() -> None:
    assert [wave.starts_at for wave in plan_waves(4, 2, 0, 7)] == [7, 7]


@pytest.mark.parametrize(
    ("size", "interval", "message"), [(0, 1, "cannot have 0 jobs"), (-1, 1, "-1 jobs"), (1, -5, "cannot be -5 seconds")]
)
def test_waves_that_make_no_sense_are_refused(size: int, interval: int, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_waves(4, size, interval, 0)
    assert message in caught.value.message


def test_sending_takes_as_long_as_the_rate_or_the_timetable() -> None:
    assert sent_after_seconds(plan_waves(10, None, 0, 0), 4.9) == 3
    assert sent_after_seconds(plan_waves(10, None, 0, 0), 0) == 0
    assert sent_after_seconds(plan_waves(10, 5, 60, 0), 5) == 61
    assert sent_after_seconds(plan_waves(1000, 500, 60, 0), 5) == 200
    assert sent_after_seconds((), 5) == 0


def test_the_timetable() -> None:
    assert timetable(plan_waves(20, 8, 90, 5), 4.9) == [
        "  wave   starts        jobs",
        "  1      now           8",
        "  2      +1 min 30 s   8",
        "  3      +3 min        4",
        "  Expected: all sent in 3 min 1 s",
    ]


def test_a_long_timetable_shows_its_beginning_and_its_end() -> None:
    assert timetable(plan_waves(240, 12, 90, 0), 0) == [
        "  wave   starts         jobs",
        "  1      now            12",
        "  2      +1 min 30 s    12",
        "  3      +3 min         12",
        "  4      +4 min 30 s    12",
        "  ...",
        "  20     +28 min 30 s   12",
        "  Expected: all sent in 28 min 30 s",
    ]


def test_a_timetable_is_shortened_only_when_that_saves_a_line() -> None:
    assert len(timetable(plan_waves(6, 1, 1, 0), 0)) == 8
    assert "  ..." not in timetable(plan_waves(6, 1, 1, 0), 0)
    assert "  ..." in timetable(plan_waves(7, 1, 1, 0), 0)


# ---------------------------------------------------------------------------------------------------------------------
# Absolute times and windows


def test_c27_waves_across_a_change_of_the_clocks_keep_their_distance() -> None:
    day_before = int(datetime(2026, 10, 24, 12, tzinfo=UTC).timestamp() * 1000)
    start = parse_start("2026-10-25T01:00 Europe/Amsterdam").resolve(day_before, None)
    waves = plan_waves(5, 1, 30 * 60, start.at, timed=True)
    assert [utc(wave.starts_at)[6:] for wave in waves] == ["23:00Z", "23:30Z", "00:00Z", "00:30Z", "01:00Z"]
    assert timetable(waves, 0, gate=Gate(start.at), zone=load_zone("Europe/Amsterdam"), now=day_before) == [
        "  wave   starts        at                          jobs",
        "  1      in 11 h       2026-10-25 01:00:00 +0200   1",
        "  2      +30 min       2026-10-25 01:30:00 +0200   1",
        "  3      +1 h          2026-10-25 02:00:00 +0200   1",
        "  4      +1 h 30 min   2026-10-25 02:30:00 +0200   1",
        "  5      +2 h          2026-10-25 02:00:00 +0100   1",
        "  Expected: all sent by 2026-10-25 02:00 +0100, 2 h after the first wave begins",
    ]


def test_a_wave_that_is_due_outside_the_window_waits_and_the_next_keep_their_distance() -> None:
    before_closing = EVENING + 10 * HOUR + 1_800_000  # 05:30
    waves = plan_waves(5, 1, 1200, before_closing, NIGHTS)
    assert [(utc(wave.starts_at), wave.gap) for wave in waves] == [
        ("12-02T04:30Z", None),
        ("12-02T04:50Z", None),
        ("12-02T19:00Z", 1_200_000),
        ("12-02T19:20Z", None),
        ("12-02T19:40Z", None),
    ]


def test_all_at_once_waits_for_the_window_too() -> None:
    assert plan_waves(9, None, 0, EVENING, NIGHTS) == (Wave(1, EVENING + HOUR, 0, 9, gap=0),)


def test_the_timetable_shows_the_window() -> None:
    waves = plan_waves(4, 2, 5 * 3600, EVENING, NIGHTS)
    assert timetable(waves, 4, gate=Gate(window=NIGHTS), now=EVENING) == [
        "  wave   starts   at                          jobs",
        "  1      in 1 h   2026-12-01 20:00:00 +0100   2",
        "  2      +5 h     2026-12-02 01:00:00 +0100   2",
        "  Waves start only in the window 20:00-06:00 Europe/Berlin",
        "  Expected: all sent by 2026-12-02 01:00 +0100, 5 h after the first wave begins",
    ]


# ---------------------------------------------------------------------------------------------------------------------
# While the run goes on


def test_waves_start_when_they_are_due() -> None:
    table = Timetable(plan_waves(6, 2, 90, 1_000))
    assert [now for now, _ in starts(table, VirtualClock(1_000))] == [1_000, 91_000, 181_000]
    assert table.next is None
    assert table.due(5, 5) is None


def test_lateness_is_carried_on() -> None:
    table = Timetable(plan_waves(3, 1, 90, 0))
    table.started(30_000)
    assert table.due(30_000, 30_000) == 120_000
    table.started(200_000)
    assert table.due(200_000, 200_000) == 290_000


@pytest.mark.parametrize("hours", [-25, -3, 3, 25])
def test_a_wall_clock_that_jumps_in_the_middle_of_a_wait_does_not_move_waves(hours: int) -> None:
    def jump(look: int, clock: VirtualClock) -> None:
        if look in (3, 8):
            clock.jump(hours * HOUR)

    began = starts(Timetable(plan_waves(3, 1, 600, EVENING)), VirtualClock(EVENING), jump)
    assert [now - EVENING for now, _ in began] == [0, 600_000, 1_200_000]
    assert began[-1][1] - began[-1][0] == 2 * hours * HOUR


@pytest.mark.parametrize(("hours", "waited"), [(-2, 7), (2, 3)])
def test_an_absolute_start_follows_a_wall_clock_that_is_set(hours: int, waited: int) -> None:
    start = EVENING + 5 * HOUR
    clock = VirtualClock(EVENING)
    table = Timetable(plan_waves(3, 1, 600, start, timed=True), Gate(start))
    began = starts(table, clock, lambda look, clock: clock.jump(hours * HOUR) if look == 30 else None)
    assert [now - EVENING for now, _ in began] == [waited * HOUR + each for each in (0, 600_000, 1_200_000)]
    assert began[0][1] == start


def test_a_start_that_the_wall_clock_has_jumped_over_begins_at_once() -> None:
    clock, start = VirtualClock(EVENING), EVENING + HOUR
    table = Timetable(plan_waves(2, 1, 600, start, timed=True), Gate(start))
    began = starts(table, clock, lambda look, clock: clock.jump(8 * HOUR) if look == 0 else None)
    assert [now - EVENING for now, _ in began] == [60_000, 660_000]


def test_a_wall_clock_set_back_over_the_start_does_not_hold_up_later_waves() -> None:
    start = EVENING + HOUR
    table = Timetable(plan_waves(3, 1, 600, start, timed=True), Gate(start))
    began = starts(table, VirtualClock(start), lambda look, clock: clock.jump(-3 * HOUR) if look == 4 else None)
    assert [now - start for now, _ in began] == [0, 600_000, 1_200_000]


@pytest.mark.parametrize(("hours", "minutes_late"), [(-2, 0), (2, 11)])
def test_a_window_follows_a_wall_clock_that_is_set(hours: int, minutes_late: int) -> None:
    table = Timetable(plan_waves(2, 1, 600, EVENING, NIGHTS), Gate(window=NIGHTS))
    clock = VirtualClock(EVENING - HOUR)
    began = starts(table, clock, lambda look, clock: clock.jump(hours * HOUR) if look == 10 else None)
    assert began[0][1] == EVENING + HOUR + minutes_late * 60_000
    assert began[1][0] - began[0][0] == 600_000
    assert all(Gate(window=NIGHTS).opens_at(wall) == wall for _, wall in began)


def test_a_window_that_closes_during_a_late_run_holds_the_rest_until_the_next_opening() -> None:
    opening = EVENING + HOUR
    table = Timetable(plan_waves(3, 1, 4 * 3600, opening, NIGHTS), Gate(window=NIGHTS))
    table.started(opening + 3 * HOUR)
    assert table.due(opening + 3 * HOUR, opening + 3 * HOUR) == opening + 7 * HOUR
    table.started(opening + 7 * HOUR)
    assert table.due(opening + 7 * HOUR, opening + 7 * HOUR) == opening + 24 * HOUR


def test_a_late_timetable_is_moved_as_a_whole() -> None:
    waves = plan_waves(6, 2, 90, 0)[1:]
    assert moved(waves, Gate(), 0) == waves
    assert [wave.starts_at for wave in moved(waves, Gate(), 500_000)] == [500_000, 590_000]
    assert moved((), Gate(), 5) == ()


def test_a_run_that_is_resumed_after_its_window_waits_for_the_next() -> None:
    planned = plan_waves(3, 1, 1200, EVENING + 10 * HOUR + 1_800_000, NIGHTS)
    assert planned[2].gap == 1_200_000
    noon = EVENING + 17 * HOUR
    assert [utc(wave.starts_at) for wave in moved(planned[1:], Gate(window=NIGHTS), noon)] == [
        "12-02T19:00Z",
        "12-02T19:20Z",
    ]
    table = Timetable(planned[2:], Gate(window=NIGHTS))
    still_open = EVENING + 10 * HOUR + 2_700_000
    assert table.due(still_open, still_open) == planned[2].starts_at


# ---------------------------------------------------------------------------------------------------------------------
# What is left


def test_the_forecast_knows_that_sending_takes_time() -> None:
    table = Timetable(plan_waves(30, 10, 1, 0))
    assert [wave.starts_at for wave in table.forecast(0, 0, 5)] == [0, 2_000, 4_000]
    table.started(0)
    assert [wave.starts_at for wave in table.forecast(1_000, 1_000, 5, unsent=6)] == [2_200, 4_200]


def test_the_forecast_is_in_wall_clock_time() -> None:
    table = Timetable(plan_waves(2, 1, 600, 0))
    table.started(0)
    assert [wave.starts_at for wave in table.forecast(60_000, 5 * HOUR, 0)] == [5 * HOUR + 540_000]


def test_what_remains_is_said_in_a_few_words() -> None:
    table = Timetable(plan_waves(30, 10, 60, 0))
    table.started(0)
    assert remaining(table, 19_000, 19_000, 5) == "next in 41 s, all sent in 1 min 43 s"
    table.started(60_000)
    table.started(120_000)
    assert remaining(table, 120_000, 120_000, 5, unsent=10) == "all sent in 2 s"
    assert remaining(table, 120_000, 120_000, 0, unsent=10) == ""
    assert remaining(table, 120_000, 120_000, 5) == ""
