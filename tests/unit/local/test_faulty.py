"""Faults between the queues and the launcher, and in front of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.local.faults import CAPACITY_REASON, CONTENTION_REASON, CallFate, Faults
from fairshare.local.faulty import FaultyLauncher, LostReplyError, answer_with_fate
from fairshare.local.guard import Refusal
from fairshare.local.launcher import Attempt, Report
from fairshare.local.simulated import SimulatedLauncher
from fairshare.model import JobStatus
from fairshare.scheduler.clock import VirtualClock


class HandTimer:
    """A timer that a test lets ring."""

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self.seconds, self.ring = seconds, ring
        self.is_started = self.is_cancelled = False

    def start(self) -> None:
        self.is_started = True

    def cancel(self) -> None:
        self.is_cancelled = True


class Noting(SimulatedLauncher):
    def __init__(self) -> None:
        super().__init__()
        self.started: list[tuple[str, int]] = []
        self.stopped: list[str] = []

    def start(self, attempt: Attempt, at: int) -> None:
        self.started.append((attempt.job_id, at))

    def stop(self, job_id: str, attempt: int) -> None:
        self.stopped.append(job_id)


def attempt(job_id: str) -> Attempt:
    environment = {"FAIRSHARE_SIM_SECONDS": "10"}
    return Attempt(job_id, 1, job_id, {"Environment": environment}, "us-west-2", "123456789012")


@pytest.fixture
def timers() -> list[HandTimer]:
    return []


@pytest.fixture
def make(timers: list[HandTimer]) -> Callable[..., FaultyLauncher]:
    def make_launcher(launcher: Any, rule: str, **options: Any) -> FaultyLauncher:
        def new_timer(seconds: float, ring: Callable[[], None]) -> HandTimer:
            timers.append(HandTimer(seconds, ring))
            return timers[-1]

        return FaultyLauncher(launcher, Faults([rule]), new_timer=new_timer, **options)

    return make_launcher


def test_a_simulated_attempt_begins_late(make):
    launcher = make(SimulatedLauncher(), "launch_slowdown_ms=2000", foresees=True)
    launcher.start(attempt("a"), 1_000)
    assert [(report.status, report.at) for report in launcher.poll(1_000)] == [
        (JobStatus.STARTING, 3_000),
        (JobStatus.RUNNING, 3_000),
        (JobStatus.SUCCEEDED, 13_000),
    ]


def test_an_attempt_without_capacity_fails_and_says_so(make):
    noticed: list[int] = []
    inner = Noting()
    launcher = make(inner, "capacity_error=1", foresees=False, notify=lambda: noticed.append(1))
    launcher.start(attempt("a"), 1_000)
    assert launcher.poll(1_000) == [Report("a", 1, JobStatus.FAILED, 1_000, CAPACITY_REASON)]
    assert (inner.started, noticed) == ([], [1])


def test_a_process_waits_for_its_time(make, timers):
    inner = Noting()
    launcher = make(inner, "launch_slowdown_ms=2000", foresees=False)
    launcher.start(attempt("a"), 1_000)
    assert (inner.started, timers[0].seconds, timers[0].is_started) == ([], 2.0, True)
    timers[0].ring()
    assert inner.started == [("a", 3_000)]
    launcher.stop("a", 1)
    assert inner.stopped == ["a"]


def test_what_was_stopped_while_it_waited_never_begins(make, timers):
    noticed: list[int] = []
    inner = Noting()
    launcher = make(inner, "launch_slowdown_ms=2000", foresees=False, notify=lambda: noticed.append(1))
    launcher.start(attempt("a"), 1_000)
    launcher.stop("a", 1)
    assert launcher.poll(1_500) == [Report("a", 1, JobStatus.FAILED, 1_500, "The training job was stopped")]
    timers[0].ring()
    assert (inner.started, inner.stopped, timers[0].is_cancelled, noticed) == ([], [], True, [1])


def test_closing_gives_up_what_waits(make, timers):
    inner = Noting()
    launcher = make(inner, "launch_slowdown_ms=2000", foresees=False)
    launcher.start(attempt("a"), 1_000)
    launcher.close()
    timers[0].ring()
    assert (timers[0].is_cancelled, inner.started) == (True, [])


# -- contention -------------------------------------------------------------------------------------------------------

CROWDED = "contention=2,launch_seconds=10,contention_slowdown=3"


def story(reports: list[Report]) -> list[tuple[str, str, int]]:
    return [(report.job_id, report.status.value, report.at) for report in reports]


def test_a_third_launch_beside_two_is_slow(make):
    launcher = make(SimulatedLauncher(), f"{CROWDED},contention_failure=0", foresees=True)
    runs = []
    for job_id in ("a", "b", "c"):
        launcher.start(attempt(job_id), 1_000)
        runs.append(story(launcher.poll(1_000))[-2:])
    assert runs == [
        [("a", "RUNNING", 11_000), ("a", "SUCCEEDED", 21_000)],
        [("b", "RUNNING", 11_000), ("b", "SUCCEEDED", 21_000)],
        [("c", "RUNNING", 31_000), ("c", "SUCCEEDED", 41_000)],
    ]
    launcher.start(attempt("d"), 11_000)
    assert story(launcher.poll(11_000)) == [
        ("d", "STARTING", 11_000),
        ("d", "STARTING", 21_000),
        ("d", "RUNNING", 21_000),
        ("d", "SUCCEEDED", 31_000),
    ], "a and b run by now, only c still launches"


def test_a_launch_in_a_crowd_fails_at_its_end(make):
    launcher = make(SimulatedLauncher(), f"{CROWDED},contention_failure=1", foresees=True)
    for job_id in ("a", "b", "c"):
        launcher.start(attempt(job_id), 1_000)
    failed = [report for report in launcher.poll(1_000) if report.status is JobStatus.FAILED]
    assert failed == [Report("c", 1, JobStatus.FAILED, 31_000, CONTENTION_REASON)]


def test_speed_shortens_launches_as_it_shortens_runs(make):
    launcher = make(SimulatedLauncher(10), "launch_seconds=10", foresees=True, speed=10)
    launcher.start(attempt("a"), 1_000)
    assert story(launcher.poll(1_000))[-2:] == [("a", "RUNNING", 2_000), ("a", "SUCCEEDED", 3_000)]


def test_a_stopped_launch_is_no_company_any_more(make):
    launcher = make(SimulatedLauncher(), f"{CROWDED},contention_failure=1", foresees=True)
    for job_id in ("a", "b"):
        launcher.start(attempt(job_id), 1_000)
        launcher.poll(1_000)
    launcher.stop("a", 1)
    launcher.poll(2_000)
    launcher.start(attempt("c"), 2_000)
    assert story(launcher.poll(2_000))[-1] == ("c", "SUCCEEDED", 22_000)


class Reporting(Noting):
    """Says what a test lets it say."""

    said: list[Report]

    def poll(self, now: int) -> list[Report]:
        reports, self.said = self.said, []
        return reports


def test_a_process_launches_until_it_says_that_it_runs(make, timers):
    inner = Reporting()
    inner.said = []
    launcher = make(inner, "contention=1,launch_seconds=10,contention_failure=1", foresees=False)
    launcher.start(attempt("a"), 1_000)
    assert story(launcher.poll(1_000)) == [("a", "STARTING", 1_000)]
    timers[0].ring()
    assert inner.started == [("a", 11_000)]

    launcher.start(attempt("b"), 12_000)
    assert (timers[1].seconds, inner.started) == (20.0, [("a", 11_000)]), "a still downloads"
    timers[1].ring()
    assert story(launcher.poll(32_000)) == [("b", "STARTING", 12_000), ("b", "FAILED", 32_000)]

    inner.said = [Report("a", 1, JobStatus.RUNNING, 40_000)]
    launcher.poll(40_000)
    launcher.start(attempt("c"), 40_001)
    timers[2].ring()
    assert inner.started == [("a", 11_000), ("c", 50_001)]


def test_a_launch_that_would_fail_can_be_stopped(make, timers):
    inner = Noting()
    launcher = make(inner, "contention=1,launch_seconds=10,contention_failure=1", foresees=False)
    launcher.start(attempt("a"), 1_000)
    launcher.start(attempt("b"), 1_000)
    launcher.stop("b", 1)
    timers[1].ring()
    assert story(launcher.poll(5_000)) == [
        ("a", "STARTING", 1_000),
        ("b", "STARTING", 1_000),
        ("b", "FAILED", 5_000),
    ]


# -- calls ------------------------------------------------------------------------------------------------------------


def answered(fate: CallFate, clock: VirtualClock) -> tuple[list[str], list[Any]]:
    """Return the statuses begun and the effects of a call with a fate."""
    statuses: list[str] = []
    effects: list[Any] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        effects.append(clock.now())
        start_response("200 OK", [])
        return [b"{}"]

    def start_response(status: str, headers: Any) -> None:
        statuses.append(status)

    try:
        list(answer_with_fate(fate, clock, app, {}, start_response))
    except LostReplyError:
        statuses.append("lost")
    return statuses, effects


def test_calls_are_late_refused_or_lose_their_reply():
    assert answered(CallFate(latency_ms=50), VirtualClock(100)) == (["200 OK"], [150])
    refusal = Refusal("ServerException", "no", "500 Internal Server Error")
    assert answered(CallFate(refusal=refusal, loses_reply=True), VirtualClock(0)) == (["500 Internal Server Error"], [])
    statuses, effects = answered(CallFate(loses_reply=True), VirtualClock(0))
    assert (statuses[-1], effects) == ("lost", [0])
