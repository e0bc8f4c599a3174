"""What a queue holds: ListServiceJobs and GetJobQueueSnapshot.

Sources: https://docs.aws.amazon.com/batch/latest/APIReference/API_ListServiceJobs.html,
https://docs.aws.amazon.com/batch/latest/APIReference/API_GetJobQueueSnapshot.html,
https://docs.aws.amazon.com/batch/latest/userguide/track-capacity-utilization-service-jobs.html.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.local.paging import page
from fairshare.local.region import JobRecord, QueueRecord, Region
from fairshare.local.service_jobs import summarise
from fairshare.local.validation import NUM_INSTANCES
from fairshare.model import JobStatus
from fairshare.scheduler.outcomes import EngineSnapshot

FRONT_OF_QUEUE: Final = 100
"""RUNNABLE jobs that a snapshot tells."""

TOP_SHARES: Final = 20
"""Shares whose use of capacity a snapshot tells."""

_WITH_STATUS: Final = ("SHARE_IDENTIFIER", "QUOTA_SHARE_NAME")
"""Filters that combine with ``jobStatus``; the others make it count for nothing."""


def list_service_jobs(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """ListServiceJobs: RUNNING only unless a status or a filter is given, one filter at a time, newest first."""
    if not request.get("jobQueue"):
        raise ClientException("jobQueue: missing (name or ARN of a queue)")
    queue = region.get_queue(request["jobQueue"])
    name, values = _only_filter(request.get("filters") or [])
    matches = _filter(region, name, values)
    status = _status(request.get("jobStatus")) if name is None or name in _WITH_STATUS else None

    def older_than(sequence: int | None) -> Iterator[JobRecord]:
        start = len(queue.jobs) if sequence is None else sequence
        for job in reversed(queue.jobs[:start]):
            if (status is None or region.state_of(job).status == status) and matches(job):
                yield job

    jobs, token = page(
        older_than,
        lambda job: job.sequence,
        kind=int,
        operation="ListServiceJobs",
        max_results=request.get("maxResults"),
        next_token=request.get("nextToken"),
    )
    return {"jobSummaryList": [summarise(region, job) for job in jobs], "nextToken": token}


def get_job_queue_snapshot(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """GetJobQueueSnapshot: the first RUNNABLE jobs in dispatch order, and who uses how much capacity.

    Capacity is told in NUM_INSTANCES for a fair-share queue and by instance type for others, as in AWS's examples.
    """
    queue = region.get_queue(request["jobQueue"])
    snapshot = _snapshot(region, queue)
    front = [{"jobArn": region.jobs[job_id].arn, "earliestTimeAtPosition": since} for job_id, since in snapshot.front]
    utilization: dict[str, Any] = {"lastUpdatedAt": region.now}
    fronts: dict[str, Any] | None = None
    if queue.has_quota_shares:
        utilization["totalCapacityUsage"] = _usage(_in_use_by_type(region, queue))
        utilization["quotaShareUtilization"] = {"topCapacityUtilization": _quota_usage(snapshot)}
        fronts = {
            name: [{"jobArn": region.jobs[job_id].arn, "earliestTimeAtPosition": since}]
            for name, (job_id, since) in snapshot.front_of_quota_shares.items()
        }
    elif queue.policy is None:
        utilization["totalCapacityUsage"] = _usage(_in_use_by_type(region, queue))
    else:
        utilization["totalCapacityUsage"] = _usage({NUM_INSTANCES: snapshot.instances_in_use})
        by_use = sorted(snapshot.instances_by_share.items(), key=lambda share: (-share[1], share[0]))
        utilization["fairshareUtilization"] = {
            "activeShareCount": len(by_use),
            "topCapacityUtilization": [
                {"shareIdentifier": share, "capacityUsage": _usage({NUM_INSTANCES: held})}
                for share, held in by_use[:TOP_SHARES]
            ],
        }
    return {
        "frontOfQueue": {"jobs": front, "lastUpdatedAt": region.now},
        "frontOfQuotaShares": None if fronts is None else {"quotaShares": fronts, "lastUpdatedAt": region.now},
        "queueUtilization": utilization,
    }


def _quota_usage(snapshot: EngineSnapshot) -> list[dict[str, Any]]:
    """Return what each quota share uses, the largest first; there are no more shares than a snapshot tells."""
    used = sorted(snapshot.instances_by_quota_share.items(), key=lambda share: (-sum(share[1].values()), share[0]))
    return [{"quotaShareName": name, "capacityUsage": _usage(by_type)} for name, by_type in used]


def _only_filter(filters: list[Mapping[str, Any]]) -> tuple[str | None, list[str]]:
    """Return name and values of the one filter there may be."""
    if len(filters) > 1:
        raise ClientException(f"filters: {len(filters)} were given (only one filter can be used at a time)")
    if not filters:
        return None, []
    values = filters[0].get("values") or []
    if not values:
        raise ClientException("filters: values are missing (at least one)")
    return filters[0].get("name", ""), values


def _filter(region: Region, name: str | None, values: list[str]) -> Callable[[JobRecord], bool]:
    """Return the test that a filter stands for. Names of filters are case-sensitive, job names are not."""
    match name:
        case None:
            return lambda job: True
        case "JOB_NAME":
            patterns = [value.lower() for value in values]
            return lambda job: any(_names(pattern, job.name.lower()) for pattern in patterns)
        case "BEFORE_CREATED_AT":
            latest = _milliseconds(values)
            return lambda job: region.state_of(job).created_at < latest
        case "AFTER_CREATED_AT":
            earliest = _milliseconds(values)
            return lambda job: region.state_of(job).created_at > earliest
        case "SHARE_IDENTIFIER":
            return lambda job: job.request.get("shareIdentifier") in values
        case "QUOTA_SHARE_NAME":
            return lambda job: job.request.get("quotaShareName") in values
    known = "JOB_NAME, BEFORE_CREATED_AT, AFTER_CREATED_AT, SHARE_IDENTIFIER, QUOTA_SHARE_NAME"
    raise ClientException(f"filters: {name!r} is unknown ({known}; case counts)")


def _names(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _milliseconds(values: list[str]) -> int:
    if len(values) != 1 or not (values[0].isascii() and values[0].isdigit()):
        raise ClientException(f"filters: {', '.join(values)!r} is no time (one number of milliseconds since 1970)")
    return int(values[0])


def _status(text: str | None) -> JobStatus:
    try:
        return JobStatus.RUNNING if text is None else JobStatus(text)
    except ValueError:
        raise ClientException(f"jobStatus: {text!r} is unknown ({', '.join(JobStatus)})") from None


def _snapshot(region: Region, queue: QueueRecord) -> EngineSnapshot:
    """Ask the engine, which forgets a queue as soon as its last job has ended; it may be seen DELETING for longer."""
    if queue.is_being_deleted and region.is_empty(queue):
        return EngineSnapshot(front=(), instances_in_use=0, instances_by_share={})
    return region.engine.snapshot(queue.name, FRONT_OF_QUEUE)


def _in_use_by_type(region: Region, queue: QueueRecord) -> Counter[str]:
    in_use: Counter[str] = Counter()
    for job in queue.jobs:
        if region.state_of(job).status.is_in_use:
            in_use.update(job.demand)
    return in_use


def _usage(instances: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"capacityUnit": unit, "quantity": float(count)} for unit, count in sorted(instances.items())]
