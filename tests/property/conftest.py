"""Random workloads for the scheduler, and the executor that plays them.

Times lie on a coarse grid, with some odd milliseconds: same-instant events and equal usage are where rules meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from fairshare.model import FairsharePolicy, JobStatus, ShareAttributes
from fairshare.scheduler.driver import settle
from fairshare.scheduler.engine import (
    Change,
    Engine,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    RemoveQueue,
    Transition,
)
from fairshare.scheduler.queues import EngineJob

END_OF_TIME = 10**9


@dataclass(frozen=True)
class PlannedJob:
    """A submission at ``at`` ms, and what execution will report: (ms after the dispatch, status), in order."""

    submission: JobSubmission
    at: int
    reports: tuple[tuple[int, JobStatus], ...]


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
        self._plans = {planned.submission.job_id: planned.reports for planned in workload.jobs}
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
        for delay, status in self._plans[job.id]:
            self.engine.report(job.id, job.attempt, status, at + delay, str(status))

    def stop(self, job: EngineJob, at: int) -> None:
        """Executor port."""
        self.stopped.append(job.id)
        self.engine.report(job.id, job.attempt, JobStatus.FAILED, at + self.workload.stop_takes)


# -- strategies --------------------------------------------------------------------------------------------------------

SHARES = ("A", "B", "User1", "User2", "unlisted")
WEIGHTS = ("1", "2", "3", "5", "0.5", "0.125", "1.5")

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
def reports(draw: st.DrawFn) -> tuple[tuple[int, JobStatus], ...]:
    """An attempt's course: some statuses are skipped, and it always ends."""
    end = draw(run_times)
    course: list[tuple[int, JobStatus]] = []
    if draw(st.booleans()):
        course.append((draw(st.integers(0, min(end, 90_000))), JobStatus.STARTING))
    if draw(st.booleans()):
        course.append((draw(st.integers(course[0][0] if course else 0, end)), JobStatus.RUNNING))
    return (*course, (end, draw(st.sampled_from((JobStatus.SUCCEEDED, JobStatus.SUCCEEDED, JobStatus.FAILED)))))


@st.composite
def planned_jobs(draw: st.DrawFn, queues: tuple[str, ...]) -> tuple[PlannedJob, ...]:
    """Jobs of any share, size, priority and course."""
    return tuple(
        PlannedJob(
            JobSubmission(
                f"job-{number}",
                draw(st.sampled_from(queues)),
                demand=draw(st.sampled_from((1, 1, 1, 2, 3, 5))),
                share_identifier=draw(st.sampled_from(SHARES)),
                scheduling_priority=draw(st.integers(0, 3)),
            ),
            at=draw(arrivals),
            reports=draw(reports()),
        )
        for number in range(draw(st.integers(4, 20)))
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """One environment; one or two queues, fair-share or FIFO; jobs; and everything a person may do meanwhile."""
    policy = draw(st.one_of(st.none(), policies(), policies(), policies()))
    setup: list[Change] = [PutEnvironment("env", draw(st.integers(1, 6))), PutQueue("q", "env", 5, policy)]
    other = draw(
        st.one_of(st.none(), st.builds(PutQueue, st.just("other"), st.just("env"), st.sampled_from((1, 5, 9))))
    )
    if other is not None:
        setup.append(replace(other, policy=draw(st.one_of(st.none(), policies()))))
    jobs = draw(planned_jobs(("q", "other") if other else ("q",)))
    ids = st.sampled_from([planned.submission.job_id for planned in jobs])
    change: st.SearchStrategy[Change] = st.builds(
        PutEnvironment, st.just("env"), st.integers(0, 8), st.sampled_from((True, True, False))
    )
    if policy is not None:
        change |= st.builds(PutQueue, st.just("q"), st.just("env"), st.sampled_from((1, 5)), policies())
    if other is not None:
        change |= st.just(RemoveQueue("other"))
    return Workload(
        setup=tuple(setup),
        jobs=jobs,
        changes=tuple(draw(st.lists(st.tuples(instants, change), max_size=4))),
        terminations=tuple(draw(st.lists(st.tuples(instants, ids), max_size=6))),
        updates=tuple(draw(st.lists(st.tuples(instants, ids, st.integers(0, 3)), max_size=6))),
        stop_takes=draw(st.sampled_from((0, 20_000, 120_000))),
    )


@pytest.fixture(scope="session")
def workload_kit() -> SimpleNamespace:
    """`Workload`, `PlannedJob`, `Player` and the strategies, for tests that draw with ``st.data()``."""
    return SimpleNamespace(
        Workload=Workload,
        PlannedJob=PlannedJob,
        Player=Player,
        workloads=workloads,
        planned_jobs=planned_jobs,
        policies=policies,
        reports=reports,
        shares=SHARES,
    )
