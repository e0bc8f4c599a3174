"""A small laboratory: one engine on virtual time, an executor whose jobs run as long as a test says, and their log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from fairshare.model import FairsharePolicy, JobStatus, ShareAttributes
from fairshare.scheduler.driver import settle
from fairshare.scheduler.engine import (
    Engine,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
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
