"""The head of a queue: why it is blocked, and for how long it has been there.

The head is the first job, in the order of a pass, that could not be placed. Its clock counts continuous time at the
head in RUNNABLE, and goes on while the job is SCHEDULED if that ends for lack of capacity and it is at the head again.
It starts when the job gets there, whatever it waits for then; a time limit looks at the reason only when it is reached.
A queue without time limits has no clocks. With quota shares, each share has a head of its own.

Source: https://docs.aws.amazon.com/batch/latest/userguide/sm_job_stuck_in_runnable_capacity.html; that the clock is
continuous is the model's reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairshare.model import JobStatus
from fairshare.scheduler.jobs import EngineJob


@dataclass(frozen=True)
class BlockedReason:
    """Why a head cannot be placed, in AWS's words."""

    code: str
    explanation: str

    def __str__(self) -> str:
        return f"{self.code} - {self.explanation}"


NO_CAPACITY: Final = BlockedReason(
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", "Unable to provision requested compute resources"
)
"""AWS has no instances: execution said so, and the job came back to RUNNABLE."""

TOO_LARGE: Final = BlockedReason(
    "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE",
    "Service environment(s) associated with the job queue cannot meet the capacity requirement of the job.",
)
"""The job needs more than the environment's limit and will never fit."""


def over_quota(explanation: str) -> BlockedReason:
    """Return the reason of a job that will never fit into its quota share."""
    return BlockedReason("MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED", explanation)


class HeadOfLine:
    """Who is at the head of one queue, or quota share. A waiting job elsewhere in it has no clock."""

    def __init__(self) -> None:
        self.watched: tuple[str, int, int] | None = None
        """Job, its dispatches so far, and instant of the time limit that an event was set for."""
        self._head: EngineJob | None = None
        self._came_back: list[EngineJob] = []

    @property
    def is_told_of(self) -> bool:
        """Whether something was said about the head that may have to be taken back."""
        return self._head is not None and self._head.blocked_reason is not None

    def leave(self, job: EngineJob, now: int) -> None:
        """A job is placed at ``now`` ms, so it was at the head now, if not before."""
        if job.head_since is None:
            job.head_since = now

    def come_back(self, job: EngineJob) -> None:
        """A job waits again for lack of capacity; its clock goes on if it is at the head again."""
        self._came_back.append(job)

    def take_place(self, head: EngineJob | None, now: int, has_clock: bool) -> None:
        """Note who could not be placed first in the pass at ``now`` ms, and start its clock if it has one."""
        if self._head is not head:
            if self._head is not None:
                _lose_place(self._head)
            self._head = head
        for job in self._came_back:
            if job is not head:
                _lose_place(job)
        self._came_back.clear()
        if has_clock and head is not None and head.head_since is None:
            head.head_since = now


def _lose_place(job: EngineJob) -> None:
    if job.status is JobStatus.RUNNABLE:
        say_blocked(job, None)
        job.head_since = None


def say_blocked(head: EngineJob, reason: BlockedReason | None) -> bool:
    """Make the reason a head's status reason; returns whether it is news."""
    text = None if reason is None else str(reason)
    if head.blocked_reason == text:
        return False
    if reason is not None or (head.status_reason or "").startswith("MISCONFIGURATION:"):
        head.status_reason = text
    head.blocked_reason = text
    return text is not None
