"""The ``AWS/Batch`` metrics of service jobs: what a transition of a job counts, and how long its phases took.

Source: https://docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_metrics.html. They have one dimension,
``JobQueueName``. AWS publishes them at best effort, here every one is published. JobsMovedToPending and JobsCancelled
never occur: a service job has no dependencies, and ending one is a termination. AWS's text leaves open whether a retry
after a failure counts as JobsMovedToScheduled; in this model it does, a second try for want of capacity does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairshare.local.region import Region
from fairshare.model import JobStatus
from fairshare.scheduler.jobs import Preemption
from fairshare.scheduler.outcomes import PreemptionNotice, Transition

NAMESPACE: Final = "AWS/Batch"
DIMENSION: Final = "JobQueueName"
CAPACITY_REASON: Final = "CAPACITY:"
"""How the reason of a job begins that went back to RUNNABLE because SageMaker had no instances."""

_PREEMPTED: Final = frozenset(kind.value for kind in Preemption)
"""Reasons of a job that went back to RUNNABLE because it was preempted: that is no retry."""

_MOVED: Final = {
    JobStatus.RUNNABLE: "JobsMovedToRunnable",
    JobStatus.SCHEDULED: "JobsMovedToScheduled",
    JobStatus.STARTING: "JobsMovedToStarting",
    JobStatus.RUNNING: "JobsMovedToRunning",
    JobStatus.SUCCEEDED: "JobsMovedToSucceeded",
    JobStatus.FAILED: "JobsMovedToFailed",
}


@dataclass(frozen=True)
class MetricPoint:
    """One data point. ``unit`` is Count or Milliseconds, ``at`` integer milliseconds."""

    account_id: str
    region: str
    queue: str
    name: str
    unit: str
    value: int
    at: int


@dataclass
class _Times:
    """When a job entered the phases of its present attempt."""

    runnable_at: int | None = None
    scheduled_at: int | None = None
    starting_at: int | None = None
    running_at: int | None = None
    was_scheduled: bool = False
    returns_for_capacity: bool = False


class BatchMetrics:
    """Turns the transitions of a region's jobs into data points.

    Args:
        region: whose jobs they are.
        put: takes each point.
    """

    def __init__(self, region: Region, put: Callable[[MetricPoint], None]) -> None:
        self._region = region
        self._put = put
        self._times: dict[str, _Times] = {}

    def changed(self, transition: Transition) -> None:
        """A job went from one status to the next."""
        times = self._times.setdefault(transition.job_id, _Times())
        if transition.from_status is JobStatus.SUBMITTED:
            self._count(transition, "JobsSubmitted")
        if transition.from_status.is_in_use and not transition.to_status.is_in_use:
            self._attempt_ended(transition, times)
        if not (transition.to_status is JobStatus.SCHEDULED and times.returns_for_capacity):
            self._count(transition, _MOVED[transition.to_status])
        match transition.to_status:
            case JobStatus.RUNNABLE:
                self._runnable(transition, times)
            case JobStatus.SCHEDULED:
                self._scheduled(transition, times)
            case JobStatus.STARTING:
                times.starting_at = transition.at
                self._duration(transition, "JobAttemptScheduledToStartingDuration", times.scheduled_at)
            case JobStatus.RUNNING:
                times.running_at = transition.at
                self._duration(transition, "JobAttemptStartingToRunningDuration", times.starting_at)
            case JobStatus.FAILED if self._region.engine.job(transition.job_id).is_terminated:
                self._count(transition, "JobsTerminated")
        if transition.to_status.is_terminal:
            del self._times[transition.job_id]

    def preempted(self, notice: PreemptionNotice) -> None:
        """An attempt is being preempted, or has been: it counts when it has."""
        if notice.is_completed:
            self._point(notice.job_id, notice.at, "JobsPreempted", "Count", 1)

    def _runnable(self, transition: Transition, times: _Times) -> None:
        times.returns_for_capacity = (transition.reason or "").startswith(CAPACITY_REASON)
        if transition.from_status is JobStatus.SUBMITTED:
            created_at = self._region.engine.job(transition.job_id).created_at
            self._duration(transition, "JobSubmittedToRunnableDuration", created_at)
        elif not times.returns_for_capacity and transition.reason not in _PREEMPTED:
            self._count(transition, "JobsRetried")
        times.runnable_at = transition.at

    def _scheduled(self, transition: Transition, times: _Times) -> None:
        if not times.returns_for_capacity:
            self._duration(transition, "JobAttemptRunnableToScheduledDuration", times.runnable_at)
        if not times.was_scheduled:
            created_at = self._region.engine.job(transition.job_id).created_at
            self._duration(transition, "JobSubmittedToFirstScheduledDuration", created_at)
        times.was_scheduled = True
        times.scheduled_at = transition.at

    def _attempt_ended(self, transition: Transition, times: _Times) -> None:
        self._duration(transition, "JobAttemptExecutionDuration", times.running_at)
        self._duration(transition, "JobAttemptDuration", times.starting_at)
        times.starting_at = times.running_at = None

    def _count(self, transition: Transition, name: str) -> None:
        self._point(transition.job_id, transition.at, name, "Count", 1)

    def _duration(self, transition: Transition, name: str, since: int | None) -> None:
        if since is not None:
            self._point(transition.job_id, transition.at, name, "Milliseconds", transition.at - since)

    def _point(self, job_id: str, at: int, name: str, unit: str, value: int) -> None:
        region, queue = self._region, self._region.jobs[job_id].queue.name
        self._put(MetricPoint(region.account_id, region.name, queue, name, unit, value, at))
