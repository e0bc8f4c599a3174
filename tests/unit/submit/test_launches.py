"""How many jobs may launch at once."""

from __future__ import annotations

import pytest

from fairshare.config.jobs import LaunchPeak, Limits
from fairshare.submit.launches import (
    FIRST,
    SLOW_SLACK_MS,
    THROTTLE_BURST,
    Forecast,
    Launch,
    LaunchControl,
    launch_warnings,
    predict_auto,
)
from fairshare.submit.waves import Wave

GIB = 1024**3


def launches(count: int, **fields: object) -> list[Launch]:
    return [Launch(index, **fields) for index in range(count)]  # type: ignore[arg-type]


def admitted(control: LaunchControl, jobs: list[Launch]) -> list[Launch]:
    """Jobs that launch at once, in order, when each is asked for in turn."""
    taken: list[Launch] = []
    for job in jobs:
        if control.admits(job, taken):
            taken.append(job)
    return taken


def launch_a_window(control: LaunchControl, now: int, took_ms: int = 10_000) -> int:
    """Fill the window and let all of it launch well; return the time after it."""
    window = admitted(control, launches(control.ceiling + 1))
    for job in window:
        control.started(job, took_ms, now + took_ms)
    return now + took_ms


def test_without_limits_four_jobs_launch_at_once() -> None:
    control = LaunchControl(Limits())

    assert (control.ceiling, len(admitted(control, launches(60)))) == (FIRST, FIRST) == (4, 4)


@pytest.mark.parametrize(
    ("limits", "first", "ceiling"),
    [
        (Limits(concurrent_launches=8), None, 8),
        (Limits(concurrent_launches=8), 2, 2),
        (Limits(concurrent_launches=8), 20, 8),
        (Limits(image_pulls=16), None, 16),
        (Limits(concurrent_launches=8, image_pulls=6), None, 6),
        (Limits(read_bandwidth=GIB), None, 4),
        (Limits(), 1, 1),
    ],
)
def test_the_window_begins_with_what_is_named(limits: Limits, first: int | None, ceiling: int) -> None:
    assert LaunchControl(limits, first=first).ceiling == ceiling


def test_image_pulls_count_instances() -> None:
    assert len(admitted(LaunchControl(Limits(image_pulls=16)), launches(60, instances=3))) == 5


def test_read_bandwidth_counts_the_declared_reads_and_nothing_for_the_others() -> None:
    control = LaunchControl(Limits(concurrent_launches=50, read_bandwidth=1000))
    readers = launches(10, peak=LaunchPeak(read=400))
    silent = launches(10, peak=LaunchPeak(memory=5))

    assert len(admitted(control, readers)) == 2
    assert len(admitted(control, silent)) == 10


def test_memory_is_the_sum_of_the_peaks_and_a_smaller_job_may_go_beside() -> None:
    control = LaunchControl(Limits(concurrent_launches=50, memory=24 * GIB))
    jobs = [Launch(0, peak=LaunchPeak(memory=16 * GIB)), Launch(1, peak=LaunchPeak(memory=12 * GIB))]

    assert admitted(control, jobs) == jobs[:1]
    assert control.admits(Launch(2, peak=LaunchPeak(memory=8 * GIB)), jobs[:1])


def test_a_job_above_every_limit_launches_alone() -> None:
    control = LaunchControl(Limits(image_pulls=4, memory=GIB))
    large = Launch(0, instances=8, peak=LaunchPeak(memory=2 * GIB))

    assert control.admits(large, [])
    assert not control.admits(large, [Launch(1)])
    assert not control.admits(Launch(1), [large])


def test_the_window_grows_by_one_after_a_full_window_has_launched_well() -> None:
    control = LaunchControl(Limits())
    now, seen = 0, []
    for _ in range(4):
        now = launch_a_window(control, now)
        seen.append(control.ceiling)

    assert seen == [5, 6, 7, 8]


def test_the_window_never_grows_above_the_limits() -> None:
    control = LaunchControl(Limits(concurrent_launches=5), first=4)
    now = 0
    for _ in range(5):
        now = launch_a_window(control, now)

    assert control.ceiling == 5


def test_a_window_that_nobody_fills_does_not_grow() -> None:
    control = LaunchControl(Limits())
    for turn in range(20):
        assert control.admits(Launch(turn), [Launch(99)])
        control.started(Launch(turn), 10_000, (turn + 1) * 10_000)

    assert control.ceiling == 4


def test_a_capacity_error_halves_the_window_down_to_one_and_never_below() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    seen = []
    for minute in range(1, 6):
        control.capacity_error(minute * 100_000)
        seen.append(control.ceiling)

    assert seen == [4, 2, 1, 1, 1]
    assert control.admits(Launch(0), [])


def test_signs_of_one_and_the_same_trouble_halve_the_window_once() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    for job in range(8):
        control.capacity_error(500_000 + job)

    assert control.ceiling == 4


def test_single_throttled_calls_mean_nothing_and_a_burst_halves_the_window() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    for turn in range(20):
        control.throttled(turn)
        control.accepted(turn)
    assert control.ceiling == 8

    for turn in range(THROTTLE_BURST):
        control.throttled(turn)
    assert control.ceiling == 4


def test_a_slow_launch_halves_the_window() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    for turn in range(1, 4):
        control.started(Launch(turn), 10_000, turn * 10_000)
    control.started(Launch(4), 20_000, 50_000)
    assert control.ceiling == 8

    control.started(Launch(5), 20_001, 60_000)
    assert control.ceiling == 4


def test_short_launches_need_more_than_a_little_delay_to_be_slow() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    for turn in range(1, 4):
        control.started(Launch(turn), 100, turn * 10_000)
    control.started(Launch(4), 100 + SLOW_SLACK_MS, 50_000)

    assert control.ceiling == 8


def test_a_large_image_is_not_slow_because_others_are_small() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    for turn in range(1, 8):
        control.started(Launch(turn, image="small"), 10_000, turn * 10_000)
    for turn in range(1, 8):
        control.started(Launch(turn, image="large"), 300_000, 100_000 + turn * 300_000)

    assert control.ceiling == 8


def test_a_declared_launch_time_is_what_the_first_launches_are_measured_by() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    control.started(Launch(0, peak=LaunchPeak(seconds=90)), 180_001, 200_000)

    assert control.ceiling == 4


def test_launches_that_began_before_the_window_was_halved_change_it_no_more() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    for turn in range(1, 4):
        control.started(Launch(turn), 10_000, turn * 10_000)
    control.slow(100_000)
    assert control.ceiling == 4

    for turn in range(8):
        control.started(Launch(turn), 30_000, 120_000)
    assert control.ceiling == 4


def test_the_window_recovers_after_trouble() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    control.capacity_error(100_000)
    now, seen = 200_000, []
    for _ in range(6):
        now = launch_a_window(control, now)
        seen.append(control.ceiling)

    assert seen == [5, 6, 7, 8, 8, 8]


def test_what_nobody_declared_and_what_is_too_large_is_told() -> None:
    jobs = [Launch(0, peak=LaunchPeak(read=500, memory=2 * GIB)), Launch(1), Launch(2, instances=9)]

    assert launch_warnings(jobs, Limits()) == []
    assert launch_warnings(jobs, Limits(image_pulls=8, read_bandwidth=900, memory=GIB)) == [
        "limits.read_bandwidth: 2 of 3 jobs do not say their resources.launch_peak.read and count as 0 there; "
        "`fairshare profile` measures it",
        "limits.memory: 2 of 3 jobs do not say their resources.launch_peak.memory and count as 0 there; "
        "`fairshare profile` measures it",
        "limits.memory: some jobs need more memory than that to launch; each of them launches alone",
        "limits.image_pulls: some jobs have more than 8 instances and launch alone",
    ]


# -- the forecast -----------------------------------------------------------------------------------------------------


def test_sixty_jobs_eight_at_once_are_sent_in_waves_of_eight() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))
    found = predict_auto(launches(60), control, 60, 100, run_seconds=[600] * 60, start_at=1_000)

    assert [wave.count for wave in found.waves] == [8] * 7 + [4]
    assert [wave.starts_at for wave in found.waves] == [1_000 + 60_000 * number for number in range(8)]
    assert [wave.first for wave in found.waves] == [8 * number for number in range(8)]
    assert (found.launched_at, found.finish_at) == (481_000, 1_081_000)
    assert control.ceiling == 8


def test_a_full_queue_takes_the_rest_at_once_because_waiting_jobs_hold_nothing() -> None:
    control = LaunchControl(Limits(concurrent_launches=2))
    found = predict_auto(launches(10), control, 10, 2, run_seconds=[100] * 10)

    assert found.waves == (Wave(1, 0, 0, 2), Wave(2, 10_000, 2, 8))
    assert found.finish_at == 550_000


def test_with_hold_runnable_waiting_jobs_hold_their_place() -> None:
    control = LaunchControl(Limits(concurrent_launches=2), hold_runnable=True)
    found = predict_auto(launches(6), control, 10, 2, run_seconds=[100] * 6)

    assert [(wave.starts_at, wave.count) for wave in found.waves] == [(0, 2), (10_000, 2), (120_000, 2)]
    assert found.finish_at == 330_000


def test_an_unknown_run_time_gives_no_finish_and_jobs_without_capacity_no_launch() -> None:
    control = LaunchControl(Limits(concurrent_launches=8))

    assert predict_auto(launches(8), control, 60, 8) == Forecast((Wave(1, 0, 0, 8),), 60_000, None)
    assert predict_auto(launches(9), control, 60, 8).launched_at is None


def test_the_forecast_grows_the_window_as_the_control_does() -> None:
    found = predict_auto(launches(15), LaunchControl(Limits()), 60, 100)

    assert [wave.count for wave in found.waves] == [4, 5, 6]


def test_a_declared_launch_time_beats_the_assumed_one() -> None:
    jobs = launches(4, peak=LaunchPeak(seconds=90))

    assert predict_auto(jobs, LaunchControl(Limits(concurrent_launches=2)), 10, 8).launched_at == 180_000
