"""Operations on service jobs: submit, describe, update, terminate.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitServiceJob.html and its neighbours.
``retryStrategy`` and ``timeoutConfig`` are checked, kept and described; an attempt that failed is not retried yet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.local.region import AttemptRecord, JobRecord, QueueRecord, Region
from fairshare.local.validation import (
    SERVICE_TYPE,
    check_client_token,
    check_job_name,
    check_request_size,
    check_retry_strategy,
    check_scheduling_priority,
    check_service_type,
    check_share_identifier,
    check_tags,
    check_timeout,
)
from fairshare.scheduler.engine import JobSubmission

MAX_ACTIVE_SHARES: Final = 500
"""Share identifiers with unfinished jobs that a queue can have (https://docs.aws.amazon.com/general/latest/gr/batch.html)."""


def submit_service_job(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """SubmitServiceJob. The same ``clientToken`` and request again is answered with the first job (case C22)."""
    _check_fields(request)
    queue = region.get_queue(request["jobQueue"])
    earlier = _same_request_before(region, request)
    if earlier is not None:
        return _reference(earlier)
    if queue.is_being_deleted or queue.state != "ENABLED":
        state = "being deleted" if queue.is_being_deleted else queue.state
        raise ClientException(f"jobQueue: {queue.name} is {state} (only an ENABLED queue takes jobs)")
    _check_share(region, queue, request)
    job = _make_job(region, queue, request, _decode(request["serviceRequestPayload"]))
    submission = JobSubmission(
        job_id=job.id,
        queue=queue.name,
        demand=sum(job.demand.values()),
        share_identifier=request.get("shareIdentifier"),
        scheduling_priority=request.get("schedulingPriority", 0),
    )
    region.engine.submit(submission, region.now)
    return _reference(job)


def describe_service_job(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeServiceJob, by id or ARN."""
    job = region.get_job(request["jobId"])
    state, asked = region.state_of(job), job.request
    return summarise(region, job) | {
        "attempts": [_describe_attempt(attempt) for attempt in job.attempts],
        "isTerminated": state.is_terminated,
        "jobQueue": job.queue.arn,
        "retryStrategy": asked.get("retryStrategy") or {"attempts": 1},
        "schedulingPriority": job.scheduling_priority,
        "serviceRequestPayload": asked["serviceRequestPayload"],
        "tags": job.tags,
        "timeoutConfig": asked.get("timeoutConfig"),
    }


def update_service_job(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """UpdateServiceJob: the scheduling priority, which orders the jobs of a share; without shares it has no effect."""
    job = region.get_job(request["jobId"])
    check_scheduling_priority(request["schedulingPriority"])
    job.scheduling_priority = request["schedulingPriority"]
    if job.queue.policy is not None:
        region.engine.update(job.id, request["schedulingPriority"], region.now)
    return _reference(job)


def terminate_service_job(region: Region, request: Mapping[str, Any]) -> None:
    """TerminateServiceJob: the job ends FAILED with the reason given. No effect on one that has ended."""
    region.engine.terminate(region.get_job(request["jobId"]).id, request["reason"], region.now)


def summarise(region: Region, job: JobRecord) -> dict[str, Any]:
    """Return what ListServiceJobs tells of a job; times in milliseconds, absent until they are known."""
    state = region.state_of(job)
    return _reference(job) | {
        "latestAttempt": {"serviceResourceId": _resource(job.attempts[-1])} if job.attempts else None,
        "capacityUsage": [{"capacityUnit": unit, "quantity": float(count)} for unit, count in job.demand.items()],
        "createdAt": state.created_at,
        "scheduledAt": state.scheduled_at,
        "startedAt": state.started_at,
        "stoppedAt": state.stopped_at,
        "serviceJobType": SERVICE_TYPE,
        "shareIdentifier": job.request.get("shareIdentifier"),
        "status": state.status.value,
        "statusReason": state.status_reason,
        "isTerminated": True if state.is_terminated else None,
    }


def _check_fields(request: Mapping[str, Any]) -> None:
    """Check what can be checked without looking at the queue."""
    check_job_name(request["jobName"])
    check_service_type("serviceJobType", request["serviceJobType"])
    check_request_size(request)
    check_tags(request.get("tags") or {})
    optional: dict[str, Callable[[Any], None]] = {
        "retryStrategy": check_retry_strategy,
        "timeoutConfig": check_timeout,
        "schedulingPriority": check_scheduling_priority,
        "clientToken": check_client_token,
    }
    for field, check in optional.items():
        if request.get(field) is not None:
            check(request[field])


def _same_request_before(region: Region, request: Mapping[str, Any]) -> JobRecord | None:
    """Return the job that an earlier call with this token made.

    AWS's text says that the second request "is rejected"; usual idempotency returns the first answer, and so do we.
    """
    job = region.jobs_by_token.get(request.get("clientToken") or "")
    if job is not None and job.request != request:
        raise ClientException("clientToken: it was used with another request (a token stands for one request)")
    return job


def _check_share(region: Region, queue: QueueRecord, request: Mapping[str, Any]) -> None:
    """Check that share and priority fit the queue (case C17). An identifier the policy does not list is accepted."""
    identifier = request.get("shareIdentifier")
    for field in ("quotaShareName", "preemptionConfiguration"):
        if request.get(field) is not None:
            raise ClientException(f"{field}: {queue.name} has no quota shares (leave it out)")
    if queue.policy is None:
        if identifier is not None or request.get("schedulingPriority") is not None:
            raise ClientException(
                "Job with shareIdentifier or schedulingPriority can onlybe submitted to job queue with fair share "
                "scheduling policy."
            )
        return
    if not identifier:
        raise ClientException("shareIdentifier must be specified.")
    check_share_identifier(identifier)
    if len(queue.share_identifiers) >= MAX_ACTIVE_SHARES:
        active = {job.request["shareIdentifier"] for job in queue.jobs if not region.state_of(job).status.is_terminal}
        if len(active | {identifier}) > MAX_ACTIVE_SHARES:
            raise ClientException(
                f"shareIdentifier: {queue.name} has {len(active)} active ones (at most {MAX_ACTIVE_SHARES})"
            )
    queue.share_identifiers.add(identifier)


def _decode(payload: str) -> Mapping[str, Any]:
    try:
        request = json.loads(payload)
    except ValueError as error:
        raise ClientException(f"serviceRequestPayload: not JSON, {error} (a CreateTrainingJob request)") from None
    if not isinstance(request, dict):
        raise ClientException("serviceRequestPayload: not a JSON object (a CreateTrainingJob request)")
    return request


def _demand(training_request: Mapping[str, Any]) -> Mapping[str, int]:
    """Return instances by type: ``InstanceCount``, or the groups of a heterogeneous cluster."""
    config = training_request.get("ResourceConfig")
    groups = (config.get("InstanceGroups") or [config]) if isinstance(config, dict) else []
    demand: Counter[str] = Counter()
    for group in groups:
        count = group.get("InstanceCount") if isinstance(group, dict) else None
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ClientException(f"serviceRequestPayload: InstanceCount is {count!r} (a whole number of at least 1)")
        demand[str(group.get("InstanceType", "unknown"))] += count
    if not demand:
        raise ClientException("serviceRequestPayload: ResourceConfig is missing (Batch reads the instance count in it)")
    return demand


def _make_job(
    region: Region, queue: QueueRecord, request: Mapping[str, Any], training_request: Mapping[str, Any]
) -> JobRecord:
    job_id = str(region.new_id())
    job = JobRecord(
        id=job_id,
        arn=region.arn(f"service-job/{job_id}"),
        sequence=len(queue.jobs),
        queue=queue,
        request=request,
        training_request=training_request,
        demand=_demand(training_request),
        scheduling_priority=request.get("schedulingPriority"),
        tags=dict(request.get("tags") or {}),
    )
    region.jobs[job.id] = job
    queue.jobs.append(job)
    if request.get("clientToken"):
        region.jobs_by_token[request["clientToken"]] = job
    return job


def _reference(job: JobRecord) -> dict[str, Any]:
    return {"jobArn": job.arn, "jobName": job.name, "jobId": job.id}


def _resource(attempt: AttemptRecord) -> dict[str, str]:
    return {"name": "TrainingJobArn", "value": attempt.training_job.arn}


def _describe_attempt(attempt: AttemptRecord) -> dict[str, Any]:
    return {
        "serviceResourceId": _resource(attempt),
        "startedAt": attempt.started_at,
        "stoppedAt": attempt.stopped_at,
        "statusReason": attempt.status_reason,
    }
