"""Who waited because of capacity that did nothing: the queue's history, played twice by the scheduler core.

Once every job holds its instances as long as it did, and once the wasteful job gives them back earlier. A job that
starts later in the first than in the second was delayed by the difference. Both are the model's (`MODEL_VERSION`):
what is compared is the model with itself, so what it does not know of AWS does not count as waste.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.driver import settle
from fairshare.scheduler.engine import Engine, EngineJob, EngineOptions, JobSubmission, PutEnvironment, PutQueue

_NAME: Final = "queue"


@dataclass(frozen=True)
class PastJob:
    """What a queue's history says about a job. Times are milliseconds."""

    job_id: str
    job_name: str
    share_identifier: str | None
    scheduling_priority: int
    instances: int
    created_at: int
    held: int
    """How long it held its instances; for one that still holds them or waits, how long it is taken to hold them."""


@dataclass(frozen=True)
class Victim:
    """A job that started ``delay`` ms later because of the waste."""

    job_id: str
    job_name: str
    share_identifier: str | None
    delay: int


def victims_of(
    job_id: str,
    wasted: int,
    history: Iterable[PastJob],
    capacity: int,
    policy: FairsharePolicy | None,
    *,
    until: int,
    options: EngineOptions | None = None,
) -> list[Victim]:
    """Return the jobs that waited because of one job's waste, the longest delay first.

    Args:
        job_id: of the wasteful job; part of ``history``.
        wasted: milliseconds for which it held its instances in vain.
        history: the jobs of its queue around it, itself included; of those made in the same instant, the one served
            first comes first.
        capacity: instances of the queue.
        policy: of the queue; None = first in, first out.
        until: now, in milliseconds: what comes later has delayed nobody yet.
        options: the model's choices where AWS publishes nothing.
    """
    jobs = [job for job in history if job.instances <= capacity]
    if wasted <= 0 or all(job.job_id != job_id for job in jobs):
        return []
    as_it_was = start_times(jobs, capacity, policy, options)
    shorter = {job.job_id: max(0, job.held - wasted) for job in jobs if job.job_id == job_id}
    without = start_times(jobs, capacity, policy, options, held=shorter)
    delays = {job.job_id: min(as_it_was[job.job_id], until) - min(without[job.job_id], until) for job in jobs}
    found = [
        Victim(job.job_id, job.job_name, job.share_identifier, delays[job.job_id])
        for job in jobs
        if delays[job.job_id] > 0 and job.job_id != job_id
    ]
    return sorted(found, key=lambda victim: (-victim.delay, victim.job_id))


def start_times(
    jobs: Sequence[PastJob],
    capacity: int,
    policy: FairsharePolicy | None,
    options: EngineOptions | None = None,
    *,
    held: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Return when the model gives each job its instances, in milliseconds, by job id.

    Args:
        jobs: none larger than the capacity.
        capacity: instances of the queue.
        policy: of the queue; None = first in, first out.
        options: the model's choices where AWS publishes nothing.
        held: times that replace those of the history, by job id.
    """
    engine = Engine(options)
    first = min((job.created_at for job in jobs), default=0)
    engine.reconfigure(PutEnvironment(_NAME, capacity), first)
    engine.reconfigure(PutQueue(_NAME, _NAME, policy=policy), first)
    engine.advance(first)
    for job in sorted(jobs, key=lambda job: job.created_at):
        engine.submit(_submission(job, policy), job.created_at)
    replay = _Replay(engine, {job.job_id: job.held for job in jobs} | dict(held or {}))
    while (at := engine.next_event_at()) is not None:
        settle(engine, replay, at)
    return replay.started


def _submission(job: PastJob, policy: FairsharePolicy | None) -> JobSubmission:
    return JobSubmission(
        job_id=job.job_id,
        queue=_NAME,
        demand=job.instances,
        share_identifier=None if policy is None else job.share_identifier,
        scheduling_priority=job.scheduling_priority,
    )


class _Replay:
    """Executes jobs by holding their instances as long as the history says."""

    def __init__(self, engine: Engine, held: Mapping[str, int]) -> None:
        self._engine = engine
        self._held = held
        self.started: dict[str, int] = {}

    def start(self, job: EngineJob, at: int) -> None:
        """Begin a job, and report its end at once for the instant it will have."""
        self.started[job.id] = at
        self._engine.report(job.id, job.attempt, JobStatus.SUCCEEDED, at + self._held[job.id])

    def stop(self, job: EngineJob, at: int) -> None:
        """Never asked: nobody ends a job of the past."""
        raise AssertionError(f"job {job.id} was asked to end at {at}")
