"""Tells what happens to the jobs of a region as events of AWS Batch.

The scheduler hands over the transitions of an instant together, when the jobs are already further on; an event shows
its job as it was right after its own transition.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from fairshare.local.events import (
    PREEMPTION_COMPLETED,
    PREEMPTION_STARTED,
    QUEUE_BLOCKED,
    STATE_CHANGE,
    BatchEvent,
    EventBus,
)
from fairshare.local.region import JobRecord, Region
from fairshare.local.service_jobs import describe, describe_attempts, preemption_summary
from fairshare.model import JobStatus
from fairshare.scheduler.engine import PREEMPTION_IN_PROGRESS
from fairshare.scheduler.outcomes import PreemptionNotice, Transition


@dataclass
class _Seen:
    """What the transitions up to now say of a job."""

    status_reason: str | None = None
    scheduled_at: int | None = None
    started_at: int | None = None
    stopped_at: int | None = None

    def follow(self, transition: Transition) -> None:
        if transition.reason is not None:
            self.status_reason = transition.reason
        match transition.to_status:
            case JobStatus.RUNNABLE:
                self.scheduled_at = self.started_at = None
            case JobStatus.SCHEDULED:
                self.scheduled_at = transition.at
            case JobStatus.RUNNING:
                self.started_at = transition.at
            case status if status.is_terminal:
                self.stopped_at = transition.at

    def fields(self) -> dict[str, Any]:
        return {
            "statusReason": self.status_reason,
            "scheduledAt": self.scheduled_at,
            "startedAt": self.started_at,
            "stoppedAt": self.stopped_at,
        }


class JobEvents:
    """Publishes the events of a region's jobs.

    Args:
        region: whose jobs they are.
        bus: where events go.
    """

    def __init__(self, region: Region, bus: EventBus) -> None:
        self._region = region
        self._bus = bus
        self._seen: dict[str, _Seen] = {}
        self._numbers = count(1)

    def changed(self, transition: Transition) -> None:
        """A job went from one status to the next. Its submission is no event."""
        seen = self._seen.setdefault(transition.job_id, _Seen())
        seen.follow(transition)
        job = self._region.jobs[transition.job_id]
        fields = {"status": transition.to_status.value} | seen.fields()
        self._publish(STATE_CHANGE, job, transition.at, fields, transition.attempt)
        if transition.to_status.is_terminal:
            del self._seen[transition.job_id]

    def blocked(self, job_id: str, reason: str, at: int) -> None:
        """The job at the head of its queue cannot be placed, and why."""
        fields = {"status": JobStatus.RUNNABLE.value, "statusReason": reason}
        self._publish(QUEUE_BLOCKED, self._region.jobs[job_id], at, fields, None)

    def preempted(self, notice: PreemptionNotice) -> None:
        """An attempt is being stopped for another job, or has been. A job without retries left is FAILED then."""
        job = self._region.jobs[notice.job_id]
        detail: dict[str, Any] = {"preemptedJobArn": job.arn}
        if notice.is_completed:
            status = self._region.state_of(job).status
            is_over = status is JobStatus.FAILED
            detail["status"] = (status if is_over else JobStatus.RUNNABLE).value
            detail["preemptionSummary"] = preemption_summary(self._region, job)
            self._put(PREEMPTION_COMPLETED, job, notice.at, detail)
        else:
            detail |= {"status": JobStatus.RUNNING.value, "statusReason": PREEMPTION_IN_PROGRESS + notice.kind.value}
            self._put(PREEMPTION_STARTED, job, notice.at, detail)

    def _publish(self, kind: str, job: JobRecord, at: int, fields: dict[str, Any], attempt: int | None) -> None:
        detail = describe(self._region, job) | describe_attempts(job, attempt) | fields
        for name in ("tags", "serviceRequestPayload"):
            del detail[name]
        self._put(kind, job, at, detail)

    def _put(self, kind: str, job: JobRecord, at: int, detail: dict[str, Any]) -> None:
        region = self._region
        # derived, not drawn: the same history gives the same ids when it is replayed
        event_id = str(uuid5(NAMESPACE_URL, f"{job.arn}/{next(self._numbers)}"))
        self._bus.publish(BatchEvent(event_id, kind, region.account_id, region.name, at, (job.arn,), _known(detail)))


def _known(value: Any) -> Any:
    """Leave out, at every depth, what is not known yet."""
    if isinstance(value, dict):
        return {name: _known(item) for name, item in value.items() if item is not None}
    return [_known(item) for item in value] if isinstance(value, list) else value
