"""What is said while a run is sent, where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairshare.cli.output import Output
from fairshare.cli.progress import SubmitProgress
from fairshare.model import JobRef, JobRequest, JobSummary
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.conditions import Skip
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.events import (
    Event,
    JobEnded,
    JobMoved,
    JobsAwaited,
    JobSent,
    JobSkipped,
    LaunchIsSlow,
    LookFailed,
    WaveStarted,
)
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import plan_waves

JOB = PlannedJob(0, 1, JobRequest("train-1", "p4", "{}", "t"))
SEEN = JobSummary("id", "arn", "train-1", "SUCCEEDED", 0)

Say = Callable[..., list[str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """The lines that are said about events of a run of so many jobs, in waves of two, 90 s apart."""

    def lines(*events: Event, jobs: int = 1, rate: float = 0, done_at: int | None = None) -> list[str]:
        plan = SubmitPlan(RunIdentity("run", 0, "us-west-2", "1"), plan_waves(jobs, 2, 90, 0), (JOB,) * jobs)
        with SubmitProgress(plan, Output(), VirtualClock(), rate, done_at) as progress:
            for event in events:
                progress.on_event(event)
        return capsys.readouterr().err.splitlines()

    return lines


def test_each_wave_says_what_is_expected_of_those_that_are_left(say: Say) -> None:
    first, second, third = plan_waves(6, 2, 90, 0)

    assert say(WaveStarted(first, 0), WaveStarted(second, 95_000), WaveStarted(third, 185_000), jobs=6) == [
        "Wave 1 of 3: 2 jobs (next in 1 min 30 s, all sent in 3 min)",
        "Wave 2 of 3: 2 jobs (next in 1 min 30 s, all sent in 1 min 30 s)",
        "Wave 3 of 3: 2 jobs",
    ]


def test_the_predicted_finish_is_kept_current(say: Say) -> None:
    first, second, third = plan_waves(6, 2, 90, 0)
    late = [WaveStarted(first, 0), WaveStarted(second, 150_000), WaveStarted(third, 240_000)]

    assert say(*late, jobs=6, done_at=600_000) == [
        "Wave 1 of 3: 2 jobs (next in 1 min 30 s, all sent in 3 min, all done in 10 min)",
        "Wave 2 of 3: 2 jobs (next in 1 min 30 s, all sent in 1 min 30 s, all done in 8 min 30 s)",
        "Wave 3 of 3: 2 jobs (all done in 7 min)",
    ]


def test_waves_after_the_timetable_count_on(say: Say) -> None:
    (wave,) = plan_waves(2, 2, 90, 0)

    assert say(WaveStarted(wave, 0), WaveStarted(plan_waves(4, 2, 90, 0)[1], 90_000), jobs=2) == [
        "Wave 1 of 1: 2 jobs",
        "Wave 2 of 2: 2 jobs",
    ]


def test_what_is_not_as_usual_is_said(say: Say) -> None:
    assert say(
        JobSent(JOB, JobRef("id", "arn", "train-1")),
        JobEnded(JOB, SEEN),
        JobSkipped(JOB, Skip("prepare failed")),
        JobMoved(JOB, "p5", "no capacity"),
        LaunchIsSlow(JOB, 125_000),
    ) == [
        "skipped train-1: prepare failed",
        "moved train-1 from queue p5 to p4: no capacity",
        "slow: train-1 has been launching for 2 min 5 s and is not waited for any longer",
    ]


def test_what_is_waited_for_is_said_once(say: Say) -> None:
    waiting = JobsAwaited("3 jobs in flight")

    assert say(waiting, waiting, LookFailed("internal error", 100), waiting, LookFailed("internal error", 200)) == [
        "Waiting: 3 jobs in flight",
        "Waiting: the jobs cannot be looked at, trying again: internal error",
    ]
