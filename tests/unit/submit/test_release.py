"""Runs whose jobs wait for others, for room, or for launches: Batch in memory, whose jobs live on a virtual clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import AutoWaves, LaunchPeak, Limits
from fairshare.config.times import Window
from fairshare.model import (
    CredentialsError,
    JobDetail,
    JobRef,
    JobRequest,
    JobStatus,
    JobSummary,
    PartialError,
    ServiceError,
)
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.calls import CallsInTurn
from fairshare.submit.conditions import Skip
from fairshare.submit.dispatch import RunResult, SubmitPlan, dispatch
from fairshare.submit.events import (
    Event,
    JobEnded,
    JobsAwaited,
    JobSkipped,
    LaunchIsSlow,
    LookFailed,
    WaveStarted,
)
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.records import RunRecord
from fairshare.submit.recovery import recover
from fairshare.submit.requests import After, PlannedJob, RunIdentity
from fairshare.submit.rules import NO_RULES, RunRules
from fairshare.submit.watch import LOOPBACK_LOOKS
from fairshare.submit.waves import plan_waves
from fairshare.submit.windows import Gate

T0 = 1_764_500_000_000
RUN = "lunar-otter-3f2a"
SECOND = 1_000
NO_QUEUE = ServiceError("JobQueue gone not found.", aws_code="ClientException", http_status=400)

Life = tuple[tuple[int, str], ...]
"""Statuses of a job, each with the ms after its acceptance at which it begins."""

GOOD: Life = ((0, "RUNNABLE"), (1_000, "SCHEDULED"), (2_000, "STARTING"), (5_000, "RUNNING"), (10_000, "SUCCEEDED"))
BAD: Life = (*GOOD[:-1], (10_000, "FAILED"))


class LivingBatch:
    """Batch in memory. ``lives`` has the life of a job by its name; others live a `GOOD` one."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.jobs: dict[str, tuple[JobRequest, int]] = {}
        self.lives: dict[str, Life] = {}
        self.answers: dict[str, Exception] = {}
        self.look_errors: list[Exception] = []
        self.looks: list[int] = []
        self.forgotten: set[str] = set()

    def submit(self, request: JobRequest) -> JobRef:
        if request.job_name in self.answers:
            raise self.answers[request.job_name]
        job_id = f"id-{request.job_name}"
        self.jobs.setdefault(job_id, (request, self.clock.now()))
        return JobRef(job_id, "arn", request.job_name)

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        return self.seen(f"id-{job_name}") if f"id-{job_name}" in self.jobs else None

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        self.looks.append(self.clock.now())
        if self.look_errors:
            raise self.look_errors.pop(0)
        return {each: self.seen(each) for each in job_ids if each in self.jobs and each not in self.forgotten}

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        self.looks.append(self.clock.now())
        found = [self.seen(job_id) for job_id in self.jobs if job_id not in self.forgotten]
        return [job for job in found if statuses is None or job.status in statuses]

    def seen(self, job_id: str) -> JobDetail:
        request, at = self.jobs[job_id]
        begun = [(at + after, status) for after, status in self.life(job_id) if at + after <= self.clock.now()]
        started = next((began for began, status in begun if status == "RUNNING"), None)
        return JobDetail(
            job_id,
            "arn",
            request.job_name,
            begun[-1][1],
            at,
            status_reason="its reason",
            scheduled_at=next((began for began, status in begun if status == "SCHEDULED"), None),
            started_at=started,
            stopped_at=begun[-1][0] if begun[-1][1] in ("SUCCEEDED", "FAILED") else None,
            training_job_name=f"tj-{request.job_name}",
            tags=request.tags,
        )

    def life(self, job_id: str) -> Life:
        return self.lives.get(job_id.removeprefix("id-"), GOOD)

    def times(self) -> dict[str, float]:
        """When each job was accepted, in seconds after the start."""
        return {request.job_name: (at - T0) / SECOND for request, at in self.jobs.values()}


class Desk:
    """A run, its backend and its journal; `go` begins it, `resume` goes on."""

    def __init__(self, tmp_path: Path, make_planned: Callable[..., PlannedJob]) -> None:
        self.clock = VirtualClock(T0)
        self.batch = LivingBatch(self.clock)
        self.runs = tmp_path / "runs"
        self.events: list[Event] = []
        self.stop: Callable[[], bool] = lambda: False
        self.rules = NO_RULES
        self.size: int | None = None
        self._make = make_planned

    def plan(self, after: dict[int, list[After]] | None = None, *, count: int = 0, **job: Any) -> SubmitPlan:
        """Jobs 0, 1, ... as many as are named or counted; each with what it comes after."""
        after = after or {}
        count = max(count, max(after, default=-1) + 1)
        waves = plan_waves(count, self.size, 90, T0, self.rules.gate.window)
        wave_of = [wave.number for wave in waves for _ in range(wave.count)]
        jobs = [replace(self._make(i, wave_of[i]), after=tuple(after.get(i, ())), **job) for i in range(count)]
        identity = RunIdentity(RUN, T0, "us-west-2", "111122223333")
        return SubmitPlan(identity, waves, tuple(jobs), rules=self.rules)

    def go(self, plan: SubmitPlan) -> RunResult:
        with Journal.create(self.runs, RUN, Holder("fairshare submit", T0)) as journal:
            return self._dispatch(plan, journal)

    def resume(self, *, failed: bool = False) -> RunResult:
        with Journal.open(self.runs / f"{RUN}.jsonl", Holder("fairshare resume", T0)) as journal:
            recovery = recover(journal, self.batch, lambda *_: [], self.clock.now(), failed=failed)  # type: ignore[arg-type]
            return self._dispatch(recovery.plan, journal, recovery.earlier)

    def _dispatch(self, plan: SubmitPlan, journal: Journal, *earlier: Any) -> RunResult:
        calls = CallsInTurn(self.batch, LOOPBACK_LOOKS)  # type: ignore[arg-type]
        calls.width = 4
        pace = Pace(random.Random(1), 0)
        return dispatch(plan, calls, journal, self.clock, pace, self.events.append, lambda: self.stop(), *earlier)

    @property
    def record(self) -> RunRecord:
        return read_run(self.runs / f"{RUN}.jsonl")

    def states(self) -> list[str]:
        return [job.state for job in self.record.jobs]

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def desk(tmp_path: Path, make_planned: Callable[..., PlannedJob]) -> Desk:
    return Desk(tmp_path, make_planned)


def seconds(desk: Desk, *names: str) -> list[int]:
    """When these jobs were accepted, in whole seconds after the start."""
    return [int(desk.batch.times()[name]) for name in names]


# -- after -------------------------------------------------------------------------------------------------------------


def test_a_job_is_sent_when_those_before_it_have_succeeded(desk: Desk) -> None:
    desk.batch.lives["job-1"] = ((0, "RUNNING"), (60_000, "SUCCEEDED"))

    result = desk.go(desk.plan({2: [((0, 1), "ok")], 3: [((2,), "ok")]}))

    assert seconds(desk, "job-0", "job-1", "job-2", "job-3") == [0, 0, 60, 70]
    assert result.error() is None
    assert result.summary() == "4 submitted"


def test_jobs_that_wait_do_not_hold_up_others(desk: Desk) -> None:
    desk.go(desk.plan({1: [((0,), "ok")]}, count=4))

    assert seconds(desk, "job-0", "job-2", "job-3", "job-1") == [0, 0, 0, 10]


def test_without_dependencies_nobody_looks(desk: Desk) -> None:
    desk.go(desk.plan(count=20))

    assert desk.batch.looks == []


def test_only_jobs_that_somebody_waits_for_are_looked_at(desk: Desk) -> None:
    desk.go(desk.plan({1: [((0,), "ok")]}, count=30))

    assert desk.told(JobEnded)[0].job.index == 0
    assert len(desk.told(JobEnded)) == 1
    assert len(desk.batch.looks) <= 10_000 / 100


def test_a_failure_skips_what_comes_after_and_runs_the_clean_up(desk: Desk) -> None:
    desk.batch.lives["job-0"] = BAD

    result = desk.go(desk.plan({1: [((0,), "ok")], 2: [((1,), "ok")], 3: [((0,), "failed")], 4: [((2,), "any")]}))

    assert sorted(desk.batch.times()) == ["job-0", "job-3", "job-4"]
    assert [(job.index, skip.reason) for job, skip in result.skipped] == [(1, "job-0 failed"), (2, "job-1 failed")]
    assert desk.states() == ["failed", "skipped", "skipped", "sent", "sent"]
    assert desk.record.jobs[1].skip == Skip("job-0 failed")
    assert [event.job.index for event in desk.told(JobSkipped)] == [1, 2]
    error = result.error()
    assert isinstance(error, PartialError)
    assert error.message == (
        "3 submitted, 2 skipped of run lunar-otter-3f2a\njob-1: skipped, job-0 failed\njob-2: skipped, job-1 failed"
    )
    assert error.hint == (
        "once the cause is removed, `fairshare resume lunar-otter-3f2a --failed` sends what failed and what was skipped"
    )
    assert result.to_json()["skipped"] == [
        {"job_name": "job-1", "reason": "job-0 failed"},
        {"job_name": "job-2", "reason": "job-1 failed"},
    ]


def test_a_clean_up_that_is_not_needed_is_no_failure(desk: Desk) -> None:
    result = desk.go(desk.plan({1: [((0,), "failed")]}))

    assert result.error() is None
    assert result.summary() == "1 submitted, 1 skipped"
    assert desk.states() == ["sent", "skipped"]


def test_a_refused_job_counts_as_failed(desk: Desk) -> None:
    desk.batch.answers["job-0"] = NO_QUEUE

    result = desk.go(desk.plan({1: [((0,), "ok")], 2: [((0,), "failed")]}))

    assert [job.index for job, _ in result.skipped] == [1]
    assert list(desk.batch.times()) == ["job-2"]


def test_jobs_after_one_that_may_have_been_made_are_left(desk: Desk) -> None:
    desk.batch.answers["job-0"] = ServiceError("internal error", http_status=500)

    result = desk.go(desk.plan({1: [((0,), "any")], 3: [((2,), "ok")]}))

    assert [job.index for job in result.left] == [0, 1]
    assert [ref.job_name for _, ref in result.sent] == ["job-2", "job-3"], "the others go on"
    desk.batch.answers.clear()
    assert desk.resume().summary() == "2 submitted"


def test_a_job_that_batch_has_forgotten_is_not_waited_for(desk: Desk) -> None:
    desk.batch.forgotten = {"id-job-0"}

    result = desk.go(desk.plan({1: [((0,), "ok")], 2: [((0,), "any")]}))

    assert [skip.reason for _, skip in result.skipped] == ["how job-0 ended is not known any more"]
    assert "job-2" in desk.batch.times()


def test_the_end_of_a_job_is_noted_with_what_batch_says(desk: Desk) -> None:
    desk.go(desk.plan({1: [((0,), "ok")]}))

    job = desk.record.jobs[0]
    assert (job.status, job.reason, job.training_job_name) == ("SUCCEEDED", "its reason", "tj-job-0")
    assert (job.started_at, job.stopped_at) == (T0 + 5_000, T0 + 10_000)


def test_waves_keep_their_distance_when_jobs_become_free_together(desk: Desk) -> None:
    desk.size = 2

    desk.go(desk.plan({index: [((0,), "ok")] for index in range(1, 6)}))

    starts = [(event.wave.count, (event.at - T0) // SECOND) for event in desk.told(WaveStarted)]
    assert starts == [(1, 0), (2, 90), (2, 180), (1, 270)]


def test_a_late_wave_of_freed_jobs_keeps_its_distance_too(desk: Desk) -> None:
    """After the end of the timetable, waves of the same size and distance go on."""
    desk.size = 2
    desk.batch.lives["job-0"] = ((0, "RUNNING"), (400_000, "SUCCEEDED"))

    desk.go(desk.plan({index: [((0,), "ok")] for index in range(1, 8)}))

    starts = [(event.wave.count, (event.at - T0) // SECOND) for event in desk.told(WaveStarted)]
    assert starts == [(1, 0), (2, 400), (2, 490), (2, 580), (1, 670)]


def test_c23_ctrl_c_while_waiting_for_others_is_heard_within_a_second(desk: Desk) -> None:
    desk.batch.lives["job-0"] = ((0, "RUNNING"),)
    desk.stop = lambda: desk.clock.now() >= T0 + 60_000

    result = desk.go(desk.plan({1: [((0,), "ok")]}))

    assert result.interrupted
    assert desk.clock.now() <= T0 + 60_000 + 200
    assert result.summary() == "1 submitted, 1 not sent"
    assert desk.told(JobsAwaited)[-1].why == "1 waiting for other jobs"


def test_resume_goes_on_with_dependencies(desk: Desk) -> None:
    desk.batch.lives["job-0"] = ((0, "RUNNING"), (100_000, "SUCCEEDED"))
    desk.stop = lambda: desk.clock.now() >= T0 + 50_000
    desk.go(desk.plan({1: [((0,), "ok")], 2: [((1,), "ok")]}))
    desk.stop = lambda: False

    result = desk.resume()

    assert seconds(desk, "job-0", "job-1", "job-2") == [0, 100, 110]
    assert result.summary() == "2 submitted"


def test_resume_knows_from_the_journal_what_batch_has_forgotten(desk: Desk) -> None:
    desk.stop = lambda: bool(desk.told(JobEnded))
    desk.go(desk.plan({1: [((0,), "ok")], 2: [((1,), "ok")]}))
    desk.stop = lambda: False
    desk.batch.forgotten = {"id-job-0"}

    assert desk.resume().summary() == "2 submitted"


def test_resume_failed_sends_what_failed_and_then_what_was_skipped(desk: Desk) -> None:
    desk.batch.lives["job-0"] = BAD
    desk.go(desk.plan({1: [((0,), "ok")], 2: [((1,), "ok")]}))
    assert desk.resume().summary() == "0 submitted"

    result = desk.resume(failed=True)

    assert [ref.job_name for _, ref in result.sent] == ["job-0-try2", "job-1", "job-2"]
    assert desk.states() == ["sent"] * 3


# -- in flight ---------------------------------------------------------------------------------------------------------


def in_flight(batch: LivingBatch) -> int:
    """The most jobs that were between their acceptance and their end at any time."""
    spans = [(at, at + batch.life(job_id)[-1][0]) for job_id, (_, at) in batch.jobs.items()]
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


def test_never_more_in_flight_than_allowed(desk: Desk) -> None:
    desk.rules = RunRules(max_in_flight=3)

    result = desk.go(desk.plan(count=10))

    assert result.summary() == "10 submitted"
    assert in_flight(desk.batch) == 3
    assert max(desk.batch.times().values()) < 31
    assert desk.told(JobsAwaited)[0].why == "3 jobs in flight"


def test_a_refused_job_makes_room(desk: Desk) -> None:
    desk.rules = RunRules(max_in_flight=1)
    desk.batch.answers["job-0"] = NO_QUEUE

    desk.go(desk.plan(count=2))

    assert seconds(desk, "job-1") == [0]
    assert desk.batch.looks == [], "nothing is waited for"


def test_jobs_of_an_earlier_session_count_as_in_flight(desk: Desk) -> None:
    desk.rules = RunRules(max_in_flight=2)
    desk.stop = lambda: len(desk.batch.jobs) == 2
    desk.go(desk.plan(count=5))
    desk.stop = lambda: False

    desk.resume()

    assert in_flight(desk.batch) == 2
    assert desk.record.rules == desk.rules


# -- auto --------------------------------------------------------------------------------------------------------------


def launching(batch: LivingBatch) -> int:
    """The most jobs that were SCHEDULED or STARTING at any time."""
    spans = []
    for job_id, (_, at) in batch.jobs.items():
        times = dict((status, after) for after, status in reversed(batch.life(job_id)))
        spans.append((at + times["SCHEDULED"], at + times["RUNNING"]))
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


AT_ONCE: Life = ((0, "SCHEDULED"), (500, "STARTING"), (10_000, "RUNNING"), (1_000_000, "SUCCEEDED"))


def test_launches_stay_within_the_limit(desk: Desk) -> None:
    desk.rules = RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=3))
    desk.batch.lives = {f"job-{index}": AT_ONCE for index in range(12)}

    result = desk.go(desk.plan(count=12))

    assert result.summary() == "12 submitted"
    assert launching(desk.batch) == 3
    assert max(desk.batch.times().values()) < 33, "three at a time, ten seconds each"


def test_jobs_that_wait_in_the_queue_never_hold_a_launch(desk: Desk) -> None:
    desk.rules = RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=2))
    desk.batch.lives = {f"job-{index}": ((0, "RUNNABLE"),) for index in range(50)}

    result = desk.go(desk.plan(count=50))

    assert result.summary() == "50 submitted"
    assert desk.clock.now() - T0 < 25 * 300


def test_hold_runnable_counts_them(desk: Desk) -> None:
    desk.rules = RunRules(auto=AutoWaves(hold_runnable=True), limits=Limits(concurrent_launches=2))
    desk.batch.lives = {f"job-{index}": ((0, "RUNNABLE"),) for index in range(4)}
    desk.stop = lambda: desk.clock.now() > T0 + 100_000

    assert desk.go(desk.plan(count=4)).summary() == "2 submitted, 2 not sent"
    assert desk.told(JobsAwaited)[-1].why == "2 launching"


def test_one_job_that_launches_for_ever_does_not_stall_the_run(desk: Desk) -> None:
    desk.rules = RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=1))
    desk.batch.lives["job-0"] = ((0, "SCHEDULED"), (100, "STARTING"))

    result = desk.go(desk.plan(count=3))

    assert result.summary() == "3 submitted"
    (slow,) = desk.told(LaunchIsSlow)
    assert (slow.job.index, slow.took // SECOND) == (0, 900)


def test_a_declared_launch_may_take_three_times_as_long(desk: Desk) -> None:
    desk.rules = RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=1))
    desk.batch.lives["job-0"] = ((0, "STARTING"),)

    desk.go(desk.plan(count=2, launch_peak=LaunchPeak(seconds=100)))

    (slow,) = desk.told(LaunchIsSlow)
    assert slow.took // SECOND == 300


def test_a_job_that_fails_at_once_does_not_stall_the_run(desk: Desk) -> None:
    desk.rules = RunRules(auto=AutoWaves(first=4))
    desk.batch.lives = {f"job-{index}": ((0, "SCHEDULED"), (1_000, "FAILED")) for index in range(8)}

    assert desk.go(desk.plan(count=8)).summary() == "8 submitted"


def test_launches_of_an_earlier_session_count(desk: Desk) -> None:
    desk.rules = RunRules(auto=AutoWaves(first=2), limits=Limits(concurrent_launches=2))
    desk.batch.lives = {f"job-{index}": AT_ONCE for index in range(6)}
    desk.stop = lambda: len(desk.batch.jobs) == 2
    desk.go(desk.plan(count=6))
    desk.stop = lambda: False

    desk.resume()

    assert launching(desk.batch) == 2


def test_auto_waves_keep_to_their_window(desk: Desk) -> None:
    """T0 is 10:53:20 UTC; the window closes forty seconds later."""
    window = Window("10:00", "10:54", tuple(range(7)), "UTC")
    desk.rules = RunRules(Gate(window=window), auto=AutoWaves(first=1), limits=Limits(concurrent_launches=1))
    desk.batch.lives = {f"job-{index}": AT_ONCE for index in range(6)}
    desk.stop = lambda: desk.clock.now() > T0 + 3_600_000

    result = desk.go(desk.plan(count=6))

    assert len(result.sent) == 4
    assert max(desk.batch.times().values()) < 40


# -- looks -------------------------------------------------------------------------------------------------------------


def test_a_look_that_fails_is_made_again(desk: Desk) -> None:
    desk.batch.look_errors = [ServiceError("internal error", http_status=500)] * 30

    result = desk.go(desk.plan({1: [((0,), "ok")]}))

    assert result.summary() == "2 submitted"
    assert [event.message for event in desk.told(LookFailed)] == ["internal error"] * 30


def test_c24_a_look_with_expired_credentials_stops_the_run(desk: Desk) -> None:
    desk.batch.look_errors = [CredentialsError("The token has expired", hint="Log in.")]

    result = desk.go(desk.plan({1: [((0,), "ok")]}))

    error = result.error()
    assert isinstance(error, CredentialsError)
    assert error.hint == "Log in.\n`fairshare resume lunar-otter-3f2a` sends the rest"
    assert [job.index for job in result.left] == [1]


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-5, 7])
def test_a_wall_clock_that_is_set_by_hours_moves_no_wave(desk: Desk, hours: int) -> None:
    """It is set in the middle of the first wait."""
    desk.size = 2
    jumps = [hours * 3_600_000]

    def stop() -> bool:
        if desk.clock.now() >= T0 + 45_000 and jumps:
            desk.clock.jump(jumps.pop())
        return False

    desk.stop = stop
    desk.go(desk.plan({5: [((0,), "ok")]}))

    starts = [(event.wave.number, (event.at - T0) // SECOND) for event in desk.told(WaveStarted)]
    assert starts == [(1, 0), (2, 90), (3, 180)]
