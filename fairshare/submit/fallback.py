"""Moving a job that does not start to the next of its queues, with at most one live attempt at any instant.

A job moves when it FAILED for lack of capacity, and when it still waits although AWS has no capacity for it or
``fallback_after`` has passed. One that waits is ended first: it moves when it has been *seen* to have ended by our
hand, and stays where it is when it has started in between. The order is: end the old attempt, see that it has ended,
note the move in the journal (on the disk), send the new one. Whatever is interrupted, the next session sees the same:
a job whose end carries our reason (`MARK`) and that has not moved yet moves then.

What counts as lack of capacity is in https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html and
https://docs.aws.amazon.com/batch/latest/userguide/sm_job_stuck_in_runnable_capacity.html.
"""

from __future__ import annotations

from typing import Final

from fairshare.config.durations import format_duration
from fairshare.model import TERMINAL_STATUSES, WAITING_STATUSES, JobStatus, JobSummary
from fairshare.scheduler.retries import REASON_PREFIX
from fairshare.submit.release import Stop
from fairshare.submit.requests import PlannedJob, moved

MARK: Final = "fairshare moves it: "
"""How the reason begins with which a waiting job is ended before it moves."""

ASK_AGAIN_MS: Final = 30_000
"""A job that was to be ended and still waits so much later is ended again: the call may have failed."""

_TIME_LIMIT: Final = "Terminated by JobStateTimeLimit action due to reason: "
_NO_CAPACITY: Final = (
    "CapacityError",
    "ResourceLimitExceeded",
    "MaxPendingTime",
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED",
)
_ACCOUNT_LIMIT: Final = "account-level service limit"
_OWN_FAILURE: Final = "AlgorithmError"
"""How the reason begins when the user's program failed, whatever it said."""


def is_lack_of_capacity(reason: str | None) -> bool:
    """Whether a status reason of Batch says that there were no instances for a job, or none allowed.

    An account's quota that is used up counts: another instance type has a quota of its own.
    """
    text = (reason or "").removeprefix(REASON_PREFIX).lstrip().removeprefix(_TIME_LIMIT)
    return text.startswith(_NO_CAPACITY) or (_ACCOUNT_LIMIT in text and not text.startswith(_OWN_FAILURE))


class Fallback:
    """The adapter of `fairshare.submit.release.Moves`: remembers nothing but which ends it has asked for."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        """Job id -> when its end was asked for, ms."""

    def may_move(self, job: PlannedJob, seen: JobSummary | None) -> bool:
        """Whether the job has another queue, and neither runs nor has ended."""
        if not job.alternatives:
            return False
        if seen is None or seen.status in WAITING_STATUSES:
            return True
        return not _is_terminal(seen) and (seen.status != JobStatus.RUNNING or seen.job_id in self._asked)

    def next_step(self, job: PlannedJob, seen: JobSummary, now: int) -> Stop | PlannedJob | None:
        """Return what is to happen to a job that was seen so at ``now`` ms, see `fairshare.submit.release.Moves`."""
        if not job.alternatives:
            return None
        if _is_terminal(seen):
            self._asked.pop(seen.job_id, None)
            return move_after(job, seen.status_reason) if seen.status == JobStatus.FAILED else None
        asked_at = self._asked.get(seen.job_id)
        was_asked_long_ago = asked_at is not None and now - asked_at >= ASK_AGAIN_MS
        if seen.status not in WAITING_STATUSES:
            if was_asked_long_ago and not seen.is_terminated:
                del self._asked[seen.job_id]  # it had started first, so it stays
            return None
        why = _why_leave(job, seen, now)
        if why is None or (asked_at is not None and not was_asked_long_ago):
            return None
        self._asked[seen.job_id] = now
        return Stop(f"{MARK}{why}")


def _is_terminal(seen: JobSummary) -> bool:
    """Whether a job has ended, in a status that this version knows."""
    return seen.status in TERMINAL_STATUSES


def move_after(job: PlannedJob, reason: str | None) -> PlannedJob | None:
    """Return a job that has FAILED with that status reason as it is sent to its next queue; None = it stays failed."""
    if not job.alternatives or not (MARK in (reason or "") or is_lack_of_capacity(reason)):
        return None
    return moved(job, job.alternatives[0].job_queue, job.attempt + 1)


def why_moved(reason: str | None) -> str:
    """Return for people what the status reason of a job says that has moved."""
    text = reason or ""
    return text.partition(MARK)[2] or text.removeprefix(REASON_PREFIX).strip()


def _why_leave(job: PlannedJob, seen: JobSummary, now: int) -> str | None:
    """Why a waiting job should not wait any longer; None = it should."""
    if is_lack_of_capacity(seen.status_reason):
        return "no capacity"
    limit = job.fallback_after
    if limit is None or seen.started_at is not None or now - seen.created_at < limit * 1000:
        return None
    return f"no start within {format_duration(limit)}"
