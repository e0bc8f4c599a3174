"""What the engine tells: transitions, orders to execution, notices and snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fairshare.model import JobStatus
from fairshare.scheduler.jobs import Preemption

LEGAL_TRANSITIONS: Final[dict[JobStatus, frozenset[JobStatus]]] = {
    JobStatus.SUBMITTED: frozenset({JobStatus.RUNNABLE, JobStatus.FAILED}),
    JobStatus.RUNNABLE: frozenset({JobStatus.SCHEDULED, JobStatus.FAILED}),
    JobStatus.SCHEDULED: frozenset({JobStatus.STARTING, JobStatus.RUNNABLE, JobStatus.FAILED}),
    JobStatus.STARTING: frozenset({JobStatus.RUNNING, JobStatus.RUNNABLE, JobStatus.FAILED}),
    JobStatus.RUNNING: frozenset({JobStatus.SUCCEEDED, JobStatus.RUNNABLE, JobStatus.FAILED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset(),
}
"""Every step a job may take; back to RUNNABLE means another attempt.

PENDING is missing: a service job cannot express what leads to it.
"""


class Transition(NamedTuple):
    """A job went from one status to the next, at ``at`` ms; ``attempt`` counts dispatches from 1 and is 0 before."""

    job_id: str
    attempt: int
    from_status: JobStatus
    to_status: JobStatus
    at: int
    reason: str | None = None


@dataclass(frozen=True)
class StopOrder:
    """The engine wants an attempt ended. Its end arrives as a report; until then it holds its capacity.

    ``preemption``: the job itself goes on, unless its preemption retries are used up.
    """

    job_id: str
    attempt: int
    at: int
    reason: str
    preemption: Preemption | None = None


@dataclass(frozen=True)
class BlockedNotice:
    """The job at the head of a queue cannot be placed, and ``reason`` is AWS's whole text for why."""

    job_id: str
    queue: str
    reason: str
    at: int


@dataclass(frozen=True)
class PreemptionNotice:
    """An attempt is being preempted, or has been (``is_completed``). Its job stays RUNNING until it has.

    ``for_job_id`` is the job that gets the capacity. An attempt that ends by itself or is terminated while it is being
    preempted has no second notice.
    """

    job_id: str
    attempt: int
    kind: Preemption
    at: int
    for_job_id: str
    is_completed: bool = False


@dataclass(frozen=True)
class EngineSnapshot:
    """RUNNABLE jobs of a queue in dispatch order, each with since when it is at that position, and capacity in use.

    The last two are of a queue with quota shares: its first RUNNABLE job of each, and use by share and instance type.
    """

    front: tuple[tuple[str, int], ...]
    instances_in_use: int
    instances_by_share: dict[str, int]
    front_of_quota_shares: dict[str, tuple[str, int]] = field(default_factory=dict)
    instances_by_quota_share: dict[str, dict[str, int]] = field(default_factory=dict)
