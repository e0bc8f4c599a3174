"""Operations on service jobs: submit, describe, update, terminate.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitServiceJob.html and its neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.local.region import AttemptRecord, JobRecord, QueueRecord, Region
from fairshare.local.request_shape import read_json
from fairshare.local.validation import (
    SERVICE_TYPE,
    check_client_token,
    check_job_name,
    check_preemption_retries,
    check_request_size,
    check_retry_strategy,
    check_scheduling_priority,
    check_service_type,
    check_share_identifier,
    check_tags,
    check_timeout,
)
from fairshare.scheduler.commands import JobSubmission, RetryAction, RetryRule

MAX_ACTIVE_SHARES: Final = 500
"""Share identifiers with unfinished jobs that a queue can have (https://docs.aws.amazon.com/general/latest/gr/batch.html)."""

MOST_TERMINATIONS: Final = 50
"""Jobs that one TerminateServiceJobs takes."""

_MOST_INSTANCES: Final = 2**31 - 1


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
    training_request = read_json(
        request["serviceRequestPayload"], "serviceRequestPayload", "a CreateTrainingJob request"
    )
    job = _make_job(region, queue, request, training_request)
    region.engine.submit(_submission(job), region.now)
    return _reference(job)


def describe_service_job(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeServiceJob, by id or ARN."""
    return describe(region, region.get_job(request["jobId"]))


def describe(region: Region, job: JobRecord) -> dict[str, Any]:
    """Return what DescribeServiceJob tells of a job; None stands for what is not known yet."""
    asked = job.request
    return summarise(region, job) | {
        "attempts": [_describe_attempt(attempt) for attempt in job.attempts_up_to(None)],
        "preemptionConfiguration": asked.get("preemptionConfiguration"),
        "preemptionSummary": preemption_summary(region, job),
        "isTerminated": region.state_of(job).is_terminated,
        "jobQueue": job.queue.arn,
        "retryStrategy": asked.get("retryStrategy") or {"attempts": 1},
        "schedulingPriority": job.scheduling_priority,
        "serviceRequestPayload": asked["serviceRequestPayload"],
        "tags": job.tags,
        "timeoutConfig": asked.get("timeoutConfig"),
    }


def update_service_job(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """UpdateServiceJob: the scheduling priority, which orders the jobs of a share.

    It has no effect on a job that has ended, nor on the order of a queue without shares.
    """
    job = region.get_job(request["jobId"])
    check_scheduling_priority(request["schedulingPriority"])
    if region.state_of(job).status.is_terminal:
        return _reference(job)
    job.scheduling_priority = request["schedulingPriority"]
    if job.queue.policy is not None:
        region.engine.update(job.id, request["schedulingPriority"], region.now)
    return _reference(job)


def terminate_service_job(region: Region, request: Mapping[str, Any]) -> None:
    """TerminateServiceJob: the job ends FAILED with the reason given. No effect on one that has ended."""
    region.engine.terminate(region.get_job(request["jobId"]).id, request["reason"], region.now)


def terminate_service_jobs(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """TerminateServiceJobs: up to 50 at once. A job that is not there counts as ended; what is no job is an error."""
    if not 1 <= len(request["jobs"]) <= MOST_TERMINATIONS:
        raise ClientException(f"jobs: {len(request['jobs'])} were given (1 - {MOST_TERMINATIONS})")
    successful: list[str] = []
    errors: list[dict[str, str]] = []
    for reference in request["jobs"]:
        if not reference or (reference.startswith("arn:") and ":service-job/" not in reference):
            text = f"jobs: {reference!r} is no service job (an id or the ARN of one)"
            errors.append({"job": reference, "code": "ValidationException", "message": text})
            continue
        if (job := region.find_job(reference)) is not None:
            region.engine.terminate(job.id, request["reason"], region.now)
        successful.append(reference)
    return {"successful": successful, "errors": errors}


def summarise(region: Region, job: JobRecord) -> dict[str, Any]:
    """Return what ListServiceJobs tells of a job; times in milliseconds, absent until they are known."""
    state = region.state_of(job)
    return _reference(job) | {
        "latestAttempt": _describe_latest(job, None),
        "capacityUsage": [{"capacityUnit": unit, "quantity": float(count)} for unit, count in job.demand.items()],
        "createdAt": state.created_at,
        "scheduledAt": state.scheduled_at,
        "startedAt": state.started_at,
        "stoppedAt": state.stopped_at,
        "serviceJobType": SERVICE_TYPE,
        "shareIdentifier": job.request.get("shareIdentifier"),
        "quotaShareName": job.request.get("quotaShareName"),
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
        "preemptionConfiguration": check_preemption_retries,
    }
    for field, check in optional.items():
        if request.get(field) is not None:
            check(request[field])


def _same_request_before(region: Region, request: Mapping[str, Any]) -> JobRecord | None:
    """Return the job that an earlier call with this token made.

    AWS's text says that the second request "is rejected"; usual idempotency returns the first answer, and so do we,
    unless a fault wants it otherwise (``repeated_token`` in `fairshare.local.faults`).
    """
    job = region.jobs_by_token.get(request.get("clientToken") or "")
    if job is not None and job.request != request:
        raise ClientException("clientToken: it was used with another request (a token stands for one request)")
    if job is not None and region.faults.reject_repeated_tokens:
        raise ClientException(f"clientToken: it was used before, for the service job {job.id} (a token works once)")
    return job


def _check_share(region: Region, queue: QueueRecord, request: Mapping[str, Any]) -> None:
    """Check that share and priority fit the queue (case C17). An identifier the policy does not list is accepted."""
    identifier = request.get("shareIdentifier")
    if queue.has_quota_shares:
        _check_quota_share(queue, request)
        return
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


def _check_quota_share(queue: QueueRecord, request: Mapping[str, Any]) -> None:
    """Check that a job belongs to a quota share that takes jobs (API_SubmitServiceJob: exactly one of the shares)."""
    if request.get("shareIdentifier") is not None:
        raise ClientException(f"shareIdentifier: {queue.name} has quota shares (give quotaShareName instead)")
    name = request.get("quotaShareName")
    if not name:
        raise ClientException(f"quotaShareName: missing (every job of {queue.name} belongs to a quota share)")
    share = queue.quota_shares.get(name)
    if share is None:
        raise ClientException(f"quotaShareName: {name} does not exist in {queue.name}")
    if share.life.is_changing or share.state != "ENABLED":
        state = share.life.status if share.life.is_changing else share.state
        raise ClientException(f"quotaShareName: {name} is {state} (only a VALID and ENABLED share takes jobs)")


def _demand(training_request: Mapping[str, Any]) -> Mapping[str, int]:
    """Return instances by type: ``InstanceCount``, or the groups of a heterogeneous cluster."""
    config = training_request.get("ResourceConfig")
    groups = (config.get("InstanceGroups") or [config]) if isinstance(config, dict) else []
    if not isinstance(groups, list):
        raise ClientException("serviceRequestPayload: InstanceGroups is no list (one entry for each instance type)")
    demand: Counter[str] = Counter()
    for group in groups:
        count = group.get("InstanceCount") if isinstance(group, dict) else None
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ClientException(f"serviceRequestPayload: InstanceCount is {count!r} (a whole number of at least 1)")
        if count > _MOST_INSTANCES:
            raise ClientException(f"serviceRequestPayload: InstanceCount is too large (at most {_MOST_INSTANCES})")
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


def _submission(job: JobRecord) -> JobSubmission:
    """Return what the scheduler needs to know. A rule of ``evaluateOnExit`` without a reason matches every one."""
    request = job.request
    strategy, timeout = request.get("retryStrategy") or {}, request.get("timeoutConfig") or {}
    seconds = timeout.get("attemptDurationSeconds")
    return JobSubmission(
        job_id=job.id,
        queue=job.queue.name,
        demand=sum(job.demand.values()),
        share_identifier=request.get("shareIdentifier"),
        scheduling_priority=request.get("schedulingPriority", 0),
        attempts=strategy.get("attempts", 1),
        evaluate_on_exit=tuple(
            RetryRule(RetryAction(rule["action"].upper()), rule.get("onStatusReason", "*"))
            for rule in strategy.get("evaluateOnExit") or []
        ),
        attempt_duration_ms=None if seconds is None else seconds * 1000,
        quota_share=request.get("quotaShareName"),
        demand_by_type=tuple(sorted(job.demand.items())) if job.queue.has_quota_shares else (),
        preemption_retries=(request.get("preemptionConfiguration") or {}).get("preemptionRetriesBeforeTermination"),
    )


def _reference(job: JobRecord) -> dict[str, Any]:
    return {"jobArn": job.arn, "jobName": job.name, "jobId": job.id}


def preemption_summary(region: Region, job: JobRecord) -> dict[str, Any] | None:
    """Return ``preemptionSummary`` of a job: how often it was preempted, and the last of those attempts, oldest first.

    They are not among its ``attempts``. None before the first preemption.
    """
    state = region.state_of(job)
    if not state.preempted_count:
        return None
    recent = [job.attempts[attempt.number] for attempt in state.preempted_attempts if attempt.number in job.attempts]
    return {
        "preemptedAttemptCount": state.preempted_count,
        "recentPreemptedAttempts": [_describe_attempt(attempt) for attempt in recent if not attempt.was_refused],
    }


def describe_attempts(job: JobRecord, number: int | None) -> dict[str, Any]:
    """Return ``attempts`` and ``latestAttempt`` as they were at dispatch ``number``; None = now."""
    return {
        "attempts": [_describe_attempt(attempt) for attempt in job.attempts_up_to(number)],
        "latestAttempt": _describe_latest(job, number),
    }


def _describe_latest(job: JobRecord, number: int | None) -> dict[str, Any] | None:
    attempt = job.latest_attempt(number)
    return None if attempt is None else {"serviceResourceId": _resource(attempt)}


def _resource(attempt: AttemptRecord) -> dict[str, str]:
    return {"name": "TrainingJobArn", "value": attempt.training_job.arn}


def _describe_attempt(attempt: AttemptRecord) -> dict[str, Any]:
    return {
        "serviceResourceId": _resource(attempt),
        "startedAt": attempt.started_at,
        "stoppedAt": attempt.stopped_at,
        "statusReason": attempt.status_reason,
    }
