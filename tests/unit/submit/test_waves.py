from __future__ import annotations

import pytest

from fairshare.model import UsageError
from fairshare.submit.waves import Wave, plan_waves, sent_after_seconds, timetable


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
