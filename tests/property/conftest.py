"""Random workloads for the scheduler, and the executor that plays them.

Times lie on a coarse grid, with some odd milliseconds: same-instant events and equal usage are where rules meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from fairshare.model import (
    CapacityLimit,
    FairsharePolicy,
    JobStatus,
    QuotaSharePolicy,
    ShareAttributes,
    SharingStrategy,
)
from fairshare.scheduler.driver import settle
from fairshare.scheduler.engine import (
    Blocking,
    Change,
    Engine,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    RemoveQueue,
    RemoveQuotaShare,
    RetryAction,
    RetryRule,
    TimeLimit,
    Transition,
    VictimRule,
)
from fairshare.scheduler.queues import EngineJob

END_OF_TIME = 10**9

Course = tuple[tuple[int, JobStatus, str], ...]
"""What execution reports of an attempt: (ms after the dispatch, status, reason), in order."""


@dataclass(frozen=True)
class PlannedJob:
    """A submission at ``at`` ms, and the course of each of its dispatches; the last one is that of all later ones."""

    submission: JobSubmission
    at: int
    courses: tuple[Course, ...]

    def course(self, attempt: int) -> Course:
        """Return the course of the dispatch with this number, from 1."""
        return self.courses[min(attempt, len(self.courses)) - 1]


@dataclass(frozen=True)
class Workload:
    """Everything that comes from outside. ``setup`` is in force before anything else happens."""

    setup: tuple[Change, ...]
    jobs: tuple[PlannedJob, ...]
    changes: tuple[tuple[int, Change], ...] = ()
    terminations: tuple[tuple[int, str], ...] = ()
    updates: tuple[tuple[int, str, int], ...] = ()
    stop_takes: int = 0
    options: EngineOptions = field(default_factory=EngineOptions)


class Player:
    """Loads a workload into an engine and executes what the engine decides, as planned.

    With ``submits=False`` it leaves the submissions to the test.
    """

    def __init__(self, workload: Workload, submits: bool = True) -> None:
        self.workload = workload
        self.stopped: list[str] = []
        self._plans = {planned.submission.job_id: planned for planned in workload.jobs}
        self.engine = Engine(workload.options)
        for change in workload.setup:
            self.engine.reconfigure(change, 0)
        self.engine.advance(0)
        for planned in workload.jobs if submits else ():
            self.engine.submit(planned.submission, planned.at)
        for at, job_id in workload.terminations:
            self.engine.terminate(job_id, f"terminated at {at}", at)
        for at, job_id, priority in workload.updates:
            self.engine.update(job_id, priority, at)
        for at, change in workload.changes:
            self.engine.reconfigure(change, at)

    def settle(self, now: int) -> list[Transition]:
        """Settle what is due by ``now`` ms."""
        return settle(self.engine, self, now)

    def play(self) -> list[Transition]:
        """Settle everything in one go."""
        return self.settle(END_OF_TIME)

    def start(self, job: EngineJob, at: int) -> None:
        """Executor port."""
        for delay, status, reason in self._plans[job.id].course(job.attempt):
            self.engine.report(job.id, job.attempt, status, at + delay, reason)

    def stop(self, job: EngineJob, at: int) -> None:
        """Executor port."""
        self.stopped.append(job.id)
        self.engine.report(job.id, job.attempt, JobStatus.FAILED, at + self.workload.stop_takes)


# -- strategies --------------------------------------------------------------------------------------------------------

SHARES = ("A", "B", "User1", "User2", "unlisted")
WEIGHTS = ("1", "2", "3", "5", "0.5", "0.125", "1.5")

COMPLETED = "Training job completed"
NO_CAPACITY = "Received status from SageMaker: CapacityError: no ml.p5.48xlarge"
ENDINGS = (COMPLETED, COMPLETED, "AlgorithmError: x", "Received status from SageMaker: InternalServerError: y")
RETRY_STRATEGIES = (
    (),
    (RetryRule(RetryAction.EXIT, "*AlgorithmError*"),),
    (
        RetryRule(RetryAction.RETRY, "Received status from SageMaker: InternalServerError*"),
        RetryRule(RetryAction.EXIT, "*"),
    ),
)
TIME_LIMITS = (
    (),
    (),
    (TimeLimit("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", 300_000),),
    (
        TimeLimit("MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE", 60_000),
        TimeLimit("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", 30_500),
    ),
)

instants = st.one_of(st.integers(0, 30).map(lambda n: n * 30_000), st.integers(0, 2_000_000))
arrivals = st.one_of(st.just(0), st.integers(0, 10).map(lambda n: n * 60_000), st.integers(0, 1_500_000))
run_times = st.one_of(
    st.integers(1, 30).map(lambda n: n * 30_000), st.integers(0, 1_500_000), st.sampled_from((0, 600_000, 3_600_000))
)


@st.composite
def policies(draw: st.DrawFn, reservations: tuple[int, ...] = (0, 0, 0, 25, 50, 99)) -> FairsharePolicy:
    """Any fair-share policy over `SHARES`, one of which is never listed."""
    entries = [ShareAttributes(share, draw(st.sampled_from(WEIGHTS))) for share in ("User*", "A", "B")]
    return FairsharePolicy(
        tuple(entries[: draw(st.sampled_from((3, 3, 2, 1, 0)))]),
        share_decay_seconds=draw(st.sampled_from((0, 60, 900, 3600))),
        compute_reservation=draw(st.sampled_from(reservations)),
    )


@st.composite
def courses(draw: st.DrawFn, endings: tuple[str, ...] = ENDINGS) -> Course:
    """An attempt's course: some statuses are skipped, and it always ends. Late reports may follow."""
    end = draw(run_times)
    course: list[tuple[int, JobStatus, str]] = []
    if draw(st.booleans()):
        course.append((draw(st.integers(0, min(end, 90_000))), JobStatus.STARTING, "downloading"))
    if draw(st.booleans()):
        course.append((draw(st.integers(course[0][0] if course else 0, end)), JobStatus.RUNNING, "training"))
    ending = draw(st.sampled_from(endings))
    course.append((end, JobStatus.SUCCEEDED if ending == COMPLETED else JobStatus.FAILED, ending))
    if draw(st.integers(0, 9)) == 0:
        course.append((end + draw(run_times), draw(st.sampled_from((JobStatus.RUNNING, JobStatus.FAILED))), "late"))
    return tuple(course)


@st.composite
def planned_jobs(draw: st.DrawFn, queues: tuple[str, ...], fails: bool = False) -> tuple[PlannedJob, ...]:
    """Jobs of any share, size, priority and course; if ``fails``, with a retry strategy, time-outs and lost capacity.

    A course that lacks capacity is never the last, or the job would be tried for ever.
    """
    jobs = []
    for number in range(draw(st.integers(4, 20))):
        submission = JobSubmission(
            f"job-{number}",
            draw(st.sampled_from(queues)),
            demand=draw(st.sampled_from((1, 1, 1, 2, 3, 5))),
            share_identifier=draw(st.sampled_from(SHARES)),
            scheduling_priority=draw(st.integers(0, 3)),
        )
        earlier: list[Course] = []
        if fails:
            submission = replace(
                submission,
                attempts=draw(st.integers(1, 4)),
                evaluate_on_exit=draw(st.sampled_from(RETRY_STRATEGIES)),
                attempt_duration_ms=draw(st.sampled_from((None, None, 60_000, 600_000))),
            )
            earlier = draw(st.lists(courses((*ENDINGS, NO_CAPACITY, NO_CAPACITY, "MaxPendingTime")), max_size=4))
        jobs.append(PlannedJob(submission, draw(arrivals), (*earlier, draw(courses()))))
    return tuple(jobs)


@st.composite
def queues(draw: st.DrawFn, policy: FairsharePolicy | None, name: str, rich: bool) -> PutQueue:
    """A queue on ``env``."""
    limits = draw(st.sampled_from(TIME_LIMITS)) if rich else ()
    return PutQueue(name, "env", draw(st.sampled_from((1, 5, 9))), policy, time_limits=limits)


@st.composite
def options(draw: st.DrawFn) -> EngineOptions:
    """Any choice among those that AWS leaves open."""
    return EngineOptions(
        history_weight=draw(st.sampled_from((Fraction(9, 10), Fraction(9, 10), Fraction(0), Fraction(1)))),
        blocking=draw(st.sampled_from(Blocking)),
        capacity_backoff_ms=draw(st.sampled_from((0, 0, 30_000))),
    )


@st.composite
def workloads(draw: st.DrawFn, rich: bool = False) -> Workload:
    """One environment, one to three queues, fair-share or FIFO, jobs, and everything a person may do meanwhile.

    If ``rich``, jobs fail and are retried, queues have time limits, and the engine has any options.
    """
    some_policy = st.one_of(st.none(), policies(), policies(), policies())
    names = draw(st.sampled_from((("q",), ("q", "other"), ("q", "other", "third"))))
    setup = [draw(queues(draw(some_policy), name, rich)) for name in names]
    jobs = draw(planned_jobs(names, fails=rich))
    ids = st.sampled_from([planned.submission.job_id for planned in jobs])
    change: st.SearchStrategy[Change] = st.builds(
        PutEnvironment, st.just("env"), st.integers(0, 8), st.sampled_from((True, True, False))
    )
    if setup[0].policy is not None:
        change |= policies().flatmap(lambda policy: queues(policy, "q", rich))
    if "other" in names:
        change |= st.just(RemoveQueue("other"))
    return Workload(
        setup=(PutEnvironment("env", draw(st.integers(1, 6))), *setup),
        jobs=jobs,
        changes=tuple(draw(st.lists(st.tuples(instants, change), max_size=4))),
        terminations=tuple(draw(st.lists(st.tuples(instants, ids), max_size=6))),
        updates=tuple(draw(st.lists(st.tuples(instants, ids, st.integers(0, 3)), max_size=6))),
        stop_takes=draw(st.sampled_from((0, 20_000, 120_000))),
        options=draw(options()) if rich else EngineOptions(),
    )


QUOTA_SHARES = ("QA", "QB", "QC", "QD")
TYPES = ("g5", "p5")
QUOTA_TIME_LIMITS = (*TIME_LIMITS, (TimeLimit("MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED", 120_000),))


@st.composite
def type_limits(draw: st.DrawFn, least: int, most: int) -> tuple[CapacityLimit, ...]:
    """Capacity limits of one or both instance types."""
    kinds = draw(st.sampled_from((TYPES, TYPES[:1], TYPES[:1])))
    return tuple(CapacityLimit(draw(st.integers(least, most)), kind) for kind in kinds)


@st.composite
def quota_shares(draw: st.DrawFn, name: str) -> PutQuotaShare:
    """Any terms for a quota share of ``q``."""
    sharing = draw(st.sampled_from((*SharingStrategy, SharingStrategy.LEND_AND_BORROW)))
    borrows = sharing == SharingStrategy.LEND_AND_BORROW
    return PutQuotaShare(
        name,
        "q",
        draw(type_limits(1, 4)),
        sharing,
        draw(st.sampled_from((-1, -1, 0, 50, 100, 200))) if borrows else -1,
        draw(st.booleans()),
    )


@st.composite
def quota_jobs(draw: st.DrawFn, shares: tuple[str, ...], fails: bool = True) -> tuple[PlannedJob, ...]:
    """`planned_jobs` for quota shares: of one or both types, with preemption retries."""
    jobs = []
    for planned in draw(planned_jobs(("q",), fails)):
        size = draw(st.sampled_from((1, 1, 1, 2, 3)))
        needs = draw(st.sampled_from(((("g5", size),), (("g5", size),), (("p5", size),), (("g5", size), ("p5", 1)))))
        submission = replace(
            planned.submission,
            demand=sum(number for _, number in needs),
            share_identifier=None,
            quota_share=draw(st.sampled_from(shares)),
            demand_by_type=needs,
            preemption_retries=draw(st.sampled_from((None, None, 0, 1))),
        )
        jobs.append(replace(planned, submission=submission))
    return tuple(jobs)


@st.composite
def quota_workloads(draw: st.DrawFn) -> Workload:
    """One queue with quota shares, jobs that fail and are retried, and everything a person may do meanwhile."""
    shares = draw(st.sampled_from((QUOTA_SHARES, QUOTA_SHARES[:3], QUOTA_SHARES[:2])))
    limits = draw(st.sampled_from(QUOTA_TIME_LIMITS))
    jobs = draw(quota_jobs(shares))
    ids = st.sampled_from([planned.submission.job_id for planned in jobs])
    environment = st.builds(
        PutEnvironment, st.just("env"), st.just(0), st.sampled_from((True, True, False)), type_limits(0, 10)
    )
    change = environment | st.sampled_from(shares[:-1]).flatmap(quota_shares)
    if draw(st.integers(0, 4)) == 0:
        change |= st.just(RemoveQuotaShare(shares[-1], "q"))
    if draw(st.booleans()):
        change |= st.just(PutQueue("q", "env", policy=QuotaSharePolicy(), time_limits=limits))
    return Workload(
        setup=(
            PutEnvironment("env", 0, capacity_limits=draw(type_limits(1, 10))),
            PutQueue("q", "env", policy=QuotaSharePolicy(), time_limits=draw(st.sampled_from(QUOTA_TIME_LIMITS))),
            *(draw(quota_shares(name)) for name in shares),
        ),
        jobs=jobs,
        changes=tuple(draw(st.lists(st.tuples(instants, change), max_size=4))),
        terminations=tuple(draw(st.lists(st.tuples(instants, ids), max_size=6))),
        updates=tuple(draw(st.lists(st.tuples(instants, ids, st.integers(0, 3)), max_size=6))),
        stop_takes=draw(st.sampled_from((0, 20_000, 120_000))),
        options=replace(draw(options()), victim_rule=draw(st.sampled_from(VictimRule))),
    )


@pytest.fixture(scope="session")
def workload_kit() -> SimpleNamespace:
    """`Workload`, `PlannedJob`, `Player` and the strategies, for tests that draw with ``st.data()``."""
    return SimpleNamespace(
        Workload=Workload,
        PlannedJob=PlannedJob,
        Player=Player,
        workloads=workloads,
        quota_workloads=quota_workloads,
        quota_shares=quota_shares,
        quota_jobs=quota_jobs,
        planned_jobs=planned_jobs,
        policies=policies,
        courses=courses,
        shares=SHARES,
    )
