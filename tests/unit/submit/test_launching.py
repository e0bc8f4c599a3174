"""What looks at jobs tell about launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairshare.config.jobs import LaunchPeak, Limits
from fairshare.model import JobSummary
from fairshare.submit.events import Event, LaunchIsSlow
from fairshare.submit.launches import Launch, LaunchControl
from fairshare.submit.launching import UNKNOWN_MS, Launching, launch_of
from fairshare.submit.requests import PlannedJob

T0 = 1_764_500_000_000
MINUTE = 60_000


class NotingControl(LaunchControl):
    """Remembers what it is told."""

    def __init__(self, *, hold_runnable: bool = False) -> None:
        super().__init__(Limits(), hold_runnable=hold_runnable)
        self.told: list[tuple[str, int]] = []

    def capacity_error(self, now: int) -> None:
        self.told.append(("capacity", now - T0))

    def slow(self, now: int) -> None:
        self.told.append(("slow", now - T0))

    def started(self, launch: Launch, took_ms: int, now: int) -> None:
        self.told.append(("started", took_ms))


class Desk:
    """One job that was called at `T0`, and what is told about it."""

    def __init__(self, job: PlannedJob, *, hold_runnable: bool = False) -> None:
        self.control = NotingControl(hold_runnable=hold_runnable)
        self.events: list[Event] = []
        self.launching = Launching(self.control, self.events.append)
        self.launching.called(job, T0)

    def saw(self, after: int, status: str, **fields: int) -> int:
        """Look ``after`` ms; return how many launches count then."""
        self.launching.saw(0, JobSummary("id", "arn", "job-0", status, T0, **fields), T0 + after)  # type: ignore[arg-type]
        return self.launching.count


@pytest.fixture
def desk(make_planned: Callable[..., PlannedJob]) -> Desk:
    return Desk(make_planned(0))


def test_a_job_counts_until_it_is_seen_not_to_launch(desk: Desk) -> None:
    counts = [desk.launching.count]
    counts += [desk.saw(at, status) for at, status in enumerate(["SUBMITTED", "RUNNABLE", "SCHEDULED", "STARTING"])]
    counts.append(desk.saw(9, "RUNNING"))

    assert counts == [1, 0, 0, 1, 1, 0]
    assert not desk.launching.is_open(0)


def test_with_hold_runnable_it_counts_while_it_waits(make_planned: Callable[..., PlannedJob]) -> None:
    desk = Desk(make_planned(0), hold_runnable=True)

    assert [desk.saw(at, status) for at, status in enumerate(["RUNNABLE", "STARTING", "RUNNING"])] == [1, 1, 0]


def test_a_launch_took_as_long_as_aws_says(desk: Desk) -> None:
    desk.saw(50_000, "RUNNING", scheduled_at=T0 + 10_000, started_at=T0 + 32_000)

    assert desk.control.told == [("started", 22_000)]


def test_without_times_of_aws_it_took_from_look_to_look(desk: Desk) -> None:
    desk.saw(10_000, "SCHEDULED")
    desk.saw(12_000, "STARTING")
    desk.saw(30_000, "SUCCEEDED")

    assert desk.control.told == [("started", 20_000)]


def test_a_job_that_goes_back_to_waiting_had_no_capacity(desk: Desk) -> None:
    desk.saw(1_000, "SCHEDULED")
    assert desk.saw(2_000, "RUNNABLE") == 0
    desk.saw(3_000, "RUNNABLE")

    assert desk.control.told == [("capacity", 2_000)], "once"


def test_a_job_that_fails_before_it_runs_is_trouble_and_one_that_fails_later_is_not(
    make_planned: Callable[..., PlannedJob],
) -> None:
    before, later = Desk(make_planned(0)), Desk(make_planned(0))

    before.saw(1_000, "FAILED")
    later.saw(9_000, "FAILED", scheduled_at=T0, started_at=T0 + 5_000)

    assert before.control.told == [("capacity", 1_000)]
    assert later.control.told == [("started", 5_000)]


def test_a_slow_launch_is_told_once_and_holds_nothing_any_more(make_planned: Callable[..., PlannedJob]) -> None:
    desk = Desk(replace(make_planned(0), launch_peak=LaunchPeak(seconds=5)))
    counts = [desk.saw(minute * MINUTE, "STARTING") for minute in range(4)]
    desk.saw(5 * MINUTE, "RUNNING")

    assert counts == [1, 0, 0, 0]
    assert desk.control.told == [("slow", MINUTE)]
    assert [(type(event), event.took) for event in desk.events if isinstance(event, LaunchIsSlow)] == [
        (LaunchIsSlow, MINUTE)
    ]


def test_while_nothing_is_known_a_launch_may_take_long(desk: Desk) -> None:
    assert [desk.saw(after, "STARTING") for after in (0, UNKNOWN_MS - 1, UNKNOWN_MS)] == [1, 1, 0]


def test_three_times_the_median_is_slow(make_planned: Callable[..., PlannedJob]) -> None:
    desk = Desk(make_planned(0))
    for index in range(1, 4):
        desk.launching.called(make_planned(index), T0)
        launched = JobSummary("id", "arn", "job", "RUNNING", T0, scheduled_at=T0, started_at=T0 + index * MINUTE)
        desk.launching.saw(index, launched, T0)

    assert [desk.saw(minute * MINUTE, "STARTING") for minute in (0, 5, 6)] == [1, 1, 0]


def test_a_second_attempt_begins_a_new_launch(make_planned: Callable[..., PlannedJob]) -> None:
    desk = Desk(replace(make_planned(0), launch_peak=LaunchPeak(seconds=5)))
    for after in (0, MINUTE):
        desk.saw(after, "STARTING")
    desk.saw(2 * MINUTE, "RUNNABLE")

    assert desk.saw(3 * MINUTE, "STARTING") == 1


def test_what_a_launch_needs_is_in_the_payload(make_planned: Callable[..., PlannedJob]) -> None:
    payload = '{"AlgorithmSpecification":{"TrainingImage":"i:1"},"ResourceConfig":{"InstanceCount":4}}'
    groups = '{"ResourceConfig":{"InstanceGroups":[{"InstanceCount":2},{"InstanceCount":3}]}}'
    peak = LaunchPeak(memory=1)

    job = replace(make_planned(2, payload=payload), launch_peak=peak)
    assert launch_of(job) == Launch(2, 4, "i:1", peak)
    assert launch_of(make_planned(0, payload=groups)) == Launch(0, 5, None, None)
    assert launch_of(make_planned(0)) == Launch(0, 1, None, None)
