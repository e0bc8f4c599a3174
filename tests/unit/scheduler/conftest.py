"""A small laboratory: one engine on virtual time, an executor whose jobs run as long as a test says, and their log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest

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
    Engine,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    RemoveEnvironment,
    RemoveQueue,
    RetryRule,
    Transition,
)
from fairshare.scheduler.queues import EngineJob


def fair_share(weights: Mapping[str, str], decay: int = 0, reservation: int = 0) -> FairsharePolicy:
    """A fair-share policy of ``{share: weight}``; ``decay`` in seconds, ``reservation`` in per cent."""
    entries = tuple(ShareAttributes(share, weight) for share, weight in weights.items())
    return FairsharePolicy(entries, share_decay_seconds=decay, compute_reservation=reservation)


class Lab:
    """An engine with environment ``env`` and queue ``q``. Times are in seconds; a job without ``runs`` never ends."""

    def __init__(self, capacity: int, policy: FairsharePolicy | None, options: EngineOptions | None) -> None:
        self.engine = Engine(options)
        self.log: list[Transition] = []
        self.stopped: list[tuple[str, float]] = []
        self.stop_takes: float | None = None
        """How long an attempt that is asked to stop goes on; None = it does not end by itself."""
        self._runs: dict[str, float] = {}
        self.put(PutEnvironment("env", capacity), PutQueue("q", "env", policy=policy))

    def put(self, *changes: object, at: float = 0) -> None:
        """Apply changes at ``at``."""
        for change in changes:
            self.engine.reconfigure(change, int(at * 1000))  # type: ignore[arg-type]
        self.to(at)

    def submit(
        self,
        job_id: str,
        share: str | None = None,
        *,
        demand: int = 1,
        priority: int = 0,
        at: float = 0,
        runs: float | None = None,
        queue: str = "q",
        attempts: int = 1,
        rules: tuple[RetryRule, ...] = (),
        duration: float | None = None,
    ) -> str:
        """Submit a job; nothing is worked off yet. ``duration`` is the limit of an attempt, in seconds."""
        if runs is not None:
            self._runs[job_id] = runs
        limit = None if duration is None else int(duration * 1000)
        submission = JobSubmission(job_id, queue, demand, share, priority, attempts, rules, limit)
        return self.engine.submit(submission, int(at * 1000))

    def burst(self, jobs: Mapping[str, int], *, demand: int | Mapping[str, int] = 1, at: float = 0) -> None:
        """Submit ``{share: number of jobs}`` in one instant, share by share; jobs are named ``<share>-<number>``."""
        for share, number in jobs.items():
            for index in range(number):
                size = demand if isinstance(demand, int) else demand[share]
                self.submit(f"{share}-{index}", share, demand=size, at=at)

    def finish(
        self, *job_ids: str, at: float, status: JobStatus = JobStatus.SUCCEEDED, reason: str | None = None
    ) -> None:
        """Let present attempts end at ``at``, and work that off."""
        for job_id in job_ids:
            self.engine.report(job_id, self.engine.job(job_id).attempt, status, int(at * 1000), reason)
        self.to(at)

    def fail(self, *job_ids: str, at: float, reason: str = "AlgorithmError: x") -> None:
        """Let present attempts fail at ``at``, and work that off."""
        self.finish(*job_ids, at=at, status=JobStatus.FAILED, reason=reason)

    def run(self, *job_ids: str, at: float) -> None:
        """Let present attempts be RUNNING from ``at`` on, and work that off."""
        self.to(at)
        self.finish(*job_ids, at=at, status=JobStatus.RUNNING)

    def to(self, at: float) -> list[Transition]:
        """Work off everything up to ``at``; returns what was new."""
        transitions = settle(self.engine, self, int(at * 1000))
        self.log.extend(transitions)
        return transitions

    def start(self, job: EngineJob, at: int) -> None:
        """Executor port."""
        if job.id in self._runs:
            self.engine.report(job.id, job.attempt, JobStatus.SUCCEEDED, at + int(self._runs[job.id] * 1000))

    def stop(self, job: EngineJob, at: int) -> None:
        """Executor port."""
        self.stopped.append((job.id, at / 1000))
        if self.stop_takes is not None:
            self.engine.report(job.id, job.attempt, JobStatus.FAILED, at + int(self.stop_takes * 1000), "stopped")

    def started(self) -> list[str]:
        """Ids of the jobs placed so far, in order."""
        return [entry.job_id for entry in self.log if entry.to_status is JobStatus.SCHEDULED]

    def start_order(self) -> str:
        """Share identifiers of the jobs placed so far, joined."""
        return "".join(self.engine.job(job_id).share_identifier for job_id in self.started())

    def held(self) -> dict[str, int]:
        """Instances in use now, by share."""
        use: Counter[str] = Counter()
        for job in self.engine.jobs():
            if job.status.is_in_use:
                use[job.share_identifier] += job.demand
        return dict(use)

    def status(self, job_id: str) -> JobStatus:
        """Present status of a job."""
        return self.engine.job(job_id).status


def limits(by_type: Mapping[str, int]) -> tuple[CapacityLimit, ...]:
    """Capacity limits of ``{instance type: number}``."""
    return tuple(CapacityLimit(number, kind) for kind, number in by_type.items())


class QuotaLab(Lab):
    """A lab whose queue ``q`` has quota shares. One instance type unless a test names others: ``g5``."""

    def __init__(self, capacity: Mapping[str, int], options: EngineOptions | None) -> None:
        super().__init__(0, None, options)
        self.put(
            RemoveQueue("q"),
            RemoveEnvironment("env"),
            PutEnvironment("env", 0, capacity_limits=limits(capacity)),
            PutQueue("q", "env", policy=QuotaSharePolicy()),
        )
        self.stop_takes = 20

    def share(
        self,
        name: str,
        capacity: int | Mapping[str, int],
        sharing: str = "LEND_AND_BORROW",
        borrow_limit: int = -1,
        *,
        preempts: bool = False,
        enabled: bool = True,
        at: float = 0,
    ) -> None:
        """Create or change a quota share, and work that off."""
        by_type = {"g5": capacity} if isinstance(capacity, int) else capacity
        strategy = SharingStrategy(sharing)
        self.put(PutQuotaShare(name, "q", limits(by_type), strategy, borrow_limit, preempts, enabled), at=at)

    def job(
        self,
        job_id: str,
        share: str,
        instances: int | Mapping[str, int] = 1,
        *,
        priority: int = 0,
        at: float = 0,
        runs: float | None = None,
        retries: int | None = None,
        attempts: int = 1,
        rules: tuple[RetryRule, ...] = (),
        duration: float | None = None,
    ) -> str:
        """Submit a job to a quota share; nothing is worked off yet. ``retries`` are its preemption retries."""
        if runs is not None:
            self._runs[job_id] = runs
        by_type = {"g5": instances} if isinstance(instances, int) else instances
        submission = JobSubmission(
            job_id,
            "q",
            sum(by_type.values()),
            scheduling_priority=priority,
            attempts=attempts,
            evaluate_on_exit=rules,
            attempt_duration_ms=None if duration is None else int(duration * 1000),
            quota_share=share,
            demand_by_type=tuple(by_type.items()),
            preemption_retries=retries,
        )
        return self.engine.submit(submission, int(at * 1000))

    def use(self) -> dict[str, dict[str, int]]:
        """Instances in use now, by quota share and type."""
        return self.engine.snapshot("q").instances_by_quota_share

    def in_use(self) -> set[str]:
        """Ids of the jobs that hold instances now."""
        return {job.id for job in self.engine.jobs() if job.status.is_in_use}

    def preempted(self) -> list[str]:
        """Ids of the jobs whose preemption began since the last call, in order."""
        return [notice.job_id for notice in self.engine.take_preemptions() if not notice.is_completed]


@pytest.fixture
def make_quota_lab() -> Callable[..., QuotaLab]:
    """``make_quota_lab(capacity, options=None)``: capacity in instances of ``g5``, or by type. Stops take 20 s."""

    def build(capacity: int | Mapping[str, int], options: EngineOptions | None = None) -> QuotaLab:
        return QuotaLab({"g5": capacity} if isinstance(capacity, int) else capacity, options)

    return build


@pytest.fixture
def make_lab() -> Callable[..., Lab]:
    """``make_lab(capacity, weights=None, decay=0, reservation=0, options=None)``; without weights the queue is FIFO."""

    def build(
        capacity: int,
        weights: Mapping[str, str] | None = None,
        *,
        decay: int = 0,
        reservation: int = 0,
        options: EngineOptions | None = None,
    ) -> Lab:
        return Lab(capacity, None if weights is None else fair_share(weights, decay, reservation), options)

    return build


@pytest.fixture
def make_policy() -> Callable[..., FairsharePolicy]:
    """``make_policy(weights, decay=0, reservation=0)``."""
    return fair_share
