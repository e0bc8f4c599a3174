"""What the engine tells: transitions, orders to execution, notices and snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from fairshare.model import JobStatus

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
    """The engine wants an attempt ended. Its end arrives as a report; until then it holds its capacity."""

    job_id: str
    attempt: int
    at: int
    reason: str


@dataclass(frozen=True)
class BlockedNotice:
    """The job at the head of a queue cannot be placed, and ``reason`` is AWS's whole text for why."""

    job_id: str
    queue: str
    reason: str
    at: int


@dataclass(frozen=True)
class EngineSnapshot:
    """RUNNABLE jobs of a queue in dispatch order, each with since when it is at that position, and capacity in use."""

    front: tuple[tuple[str, int], ...]
    instances_in_use: int
    instances_by_share: dict[str, int]
