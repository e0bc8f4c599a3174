"""A job as the engine knows it, with every attempt that counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from fairshare.model import JobStatus
from fairshare.scheduler.commands import RetryRule


class AttemptRecord(NamedTuple):
    """An attempt that has ended and counts against ``attempts``. Times are milliseconds.

    ``number`` is the dispatch it was. Dispatches that ended for lack of capacity use no attempt and leave no record, so
    numbers may have gaps (case C34).
    """

    number: int
    scheduled_at: int
    started_at: int | None
    stopped_at: int
    reason: str | None


class Preemption(StrEnum):
    """Why a queue with quota shares stops an attempt. The values are the status reasons of the attempt.

    AWS publishes the first text (batch-service-job-preemption-events of the user guide); the second is the model's.
    """

    CROSS_SHARE = "Cross-share preemption triggered to reclaim borrowed capacity"
    IN_SHARE = "In-share preemption triggered by a higher priority job"


RECENT_PREEMPTIONS: Final = 10
"""How many preempted attempts a job remembers. AWS keeps "the most recent" ones, and does not say how many (model)."""


@dataclass(slots=True, eq=False)
class EngineJob:
    """Scheduling state of a job. Times are milliseconds; ``share_identifier`` is "" where the submission had none."""

    id: str
    queue: str
    share_identifier: str
    demand: int
    scheduling_priority: int
    created_at: int
    sequence: int
    max_attempts: int = 1
    retry_rules: tuple[RetryRule, ...] = ()
    attempt_duration_ms: int | None = None
    quota_share: str = ""
    demand_by_type: tuple[tuple[str, int], ...] = ()
    preemption_retries: int | None = None
    status: JobStatus = JobStatus.SUBMITTED
    status_reason: str | None = None
    attempt: int = 0
    """How often it was dispatched; the number of the present attempt while it is in use."""
    attempts: tuple[AttemptRecord, ...] = ()
    scheduled_at: int | None = None
    """Of the present attempt, or the last one of a job that has ended; None while it waits. So is ``started_at``."""
    started_at: int | None = None
    stopped_at: int | None = None
    is_terminated: bool = False
    """A person or a time limit of the queue ended it."""
    stop_reason: str | None = None
    """Why the present attempt was asked to end; None when it was not."""
    preemption: Preemption | None = None
    """Why the present attempt is being preempted; None when it is not."""
    preempted_for: str = ""
    """Id of the job that is to get, or got, what the attempt preempted last held."""
    preempted_count: int = 0
    preempted_attempts: tuple[AttemptRecord, ...] = ()
    """The last `RECENT_PREEMPTIONS` of them. They are not among ``attempts``."""
    lacks_capacity: bool = False
    """It waits because its last dispatch ended for lack of capacity."""
    ready_at: int = 0
    """Not placed before this instant."""
    head_since: int | None = None
    """Its clock at the head of the queue, see `fairshare.scheduler.heads`; None where the queue has no time limits."""
    blocked_reason: str | None = None
    """What was last said about it there."""
    entry: int = 0
    """Number of its valid entry in the share's heap: priority changes leave stale entries behind."""
