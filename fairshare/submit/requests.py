"""One SubmitServiceJob request, complete and frozen, from a resolved job and its built payload.

What is frozen here is what makes a repeated call harmless: the payload is one canonical text and the client token
follows from it, so the same job of the same run is the same request for ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairshare.config.jobs import JobSpec, LaunchPeak, SecretRef
from fairshare.model import RUN_TAG, JobRequest, UsageError, to_camel
from fairshare.submit.naming import MAX_BATCH_NAME, JobNames
from fairshare.submit.ports import BuiltPayload
from fairshare.submit.resolve import QueueFacts
from fairshare.submit.retries import retry_strategy

DEFAULT_RUNTIME_SECONDS: Final = 86_400
"""SageMaker's own MaxRuntimeInSeconds when a request has none (API_StoppingCondition)."""

MIN_ATTEMPT_SECONDS: Final = 60
"""Shortest attemptDurationSeconds (https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html)."""


@dataclass(frozen=True)
class RunIdentity:
    """What all jobs of a run have in common. ``created_at`` is milliseconds since the epoch."""

    run_id: str
    created_at: int
    region: str
    account_id: str
    job_file: str | None = None
    """Absolute path of the job file that was submitted, when it was one."""


After = tuple[tuple[int, ...], str]
"""Indexes of jobs that must have ended, and how: ``ok``, ``any`` or ``failed`` (`fairshare.submit.conditions`)."""


@dataclass(frozen=True)
class Alternative:
    """Another queue that a job may move to, and what it sends there (`fairshare.submit.fallback`).

    ``instance_type`` None leaves what the payload says.
    """

    job_queue: str
    share_identifier: str | None = None
    scheduling_priority: int | None = None
    instance_type: str | None = None
    quota_share: str | None = None


@dataclass(frozen=True)
class PlannedJob:
    """A request with its place in the run: ``index`` counts from 0, ``wave`` from 1.

    ``secrets`` tells where the values of secret environment keys in the payload came from. ``attempt`` is 1, and more
    for a job that is sent again after it failed, or on another queue (`again`).
    """

    index: int
    wave: int
    request: JobRequest
    secrets: Mapping[str, SecretRef] = field(default_factory=dict)
    attempt: int = 1
    after: tuple[After, ...] = ()
    """All of these must hold before the job is sent."""
    launch_peak: LaunchPeak | None = None
    """What it takes while it launches, as far as the user said."""
    base: JobRequest | None = None
    """The request without the name and token of a later attempt; None = ``request`` has those of the first."""
    alternatives: tuple[Alternative, ...] = ()
    """Queues that the job may still move to, in order."""
    fallback_after: int | None = None
    """Seconds it may wait for its start before it moves; None = only a lack of capacity moves it."""


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces, characters as they are, strict.

    Raises:
        ValueError: NaN or an infinity, or text that is not valid Unicode.
        TypeError: something JSON does not have.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


def build_request(
    job: JobSpec,
    built: BuiltPayload,
    *,
    queue: QueueFacts,
    names: JobNames,
    run_id: str,
    index: int,
    attempt_timeout: int | None = None,
) -> JobRequest:
    """Return the request of one job.

    The user's tags win over those the SDK made; the run's tag wins over both. The attempt may last as long as the
    training job (case C20) unless ``attempt_timeout`` seconds are given.

    Raises:
        UsageError: the payload is not strict JSON, or its run-time limit is no number of seconds.
    """
    payload = {**built.payload, "TrainingJobName": names.training_job_name}
    try:
        text = canonical_json(payload)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f'job "{job.name}": its training request is not JSON: {error}',
            hint="use finite numbers and valid text in hyperparameters, environment and training_job",
        ) from None
    attempt = attempt_timeout if attempt_timeout is not None else max(MIN_ATTEMPT_SECONDS, max_runtime_of(payload))
    return JobRequest(
        job_name=names.job_name,
        job_queue=queue.name,
        payload=text,
        client_token=client_token(run_id, index, text),
        share_identifier=job.share,
        scheduling_priority=job.priority,
        retry_strategy=retry_strategy(job.retry),
        attempt_duration_seconds=attempt,
        tags=tags_of(job, built, run_id),
        quota_share=job.quota_share,
        preemption_retries=_preemption_retries(job, queue),
    )


def _preemption_retries(job: JobSpec, queue: QueueFacts) -> int | None:
    """Only a queue with quota shares preempts, and only there AWS takes the number."""
    return job.retry.preemption_retries if job.retry is not None and queue.has_quota_shares else None


def tags_of(job: JobSpec, built: BuiltPayload, run_id: str) -> dict[str, str]:
    """Return all tags of a job: the SDK's, over them those of the project and the job, over all the run's."""
    return {**(built.tags or {}), **job.tags, RUN_TAG: run_id}


def client_token(run_id: str, index: int, payload: str) -> str:
    """Return the 64 characters that make a repeated SubmitServiceJob the same request (case C22)."""
    return hashlib.sha256(f"{run_id}\0{index}\0{payload}".encode()).hexdigest()


def again(job: PlannedJob, attempt: int) -> PlannedJob:
    """Return a job that failed as it is sent the ``attempt``-th time: with a name and a token of its own."""
    if attempt == 1:
        return job
    request, suffix = job.base or job.request, f"-try{attempt}"
    name = request.job_name[: MAX_BATCH_NAME - len(suffix)] + suffix
    token = client_token(request.tags.get(RUN_TAG, ""), job.index, f"{attempt}\0{request.payload}")
    later = replace(request, job_name=name, client_token=token)
    return replace(job, attempt=attempt, request=later, base=request)


def moved(job: PlannedJob, queue: str, attempt: int) -> PlannedJob:
    """Return a job as it is sent, for the ``attempt``-th time, to the alternative of that queue.

    Raises:
        ValueError: the job has no such alternative.
    """
    place = next((number for number, each in enumerate(job.alternatives) if each.job_queue == queue), None)
    if place is None:
        raise ValueError(f'the job has no alternative queue "{queue}"')
    there, request = job.alternatives[place], job.base or job.request
    request = replace(
        request,
        job_queue=there.job_queue,
        share_identifier=there.share_identifier,
        scheduling_priority=there.scheduling_priority,
        quota_share=there.quota_share,
        preemption_retries=None if there.quota_share is None else request.preemption_retries,
        payload=request.payload if there.instance_type is None else _with_type(request.payload, there.instance_type),
    )
    return again(replace(job, request=request, base=None, alternatives=job.alternatives[place + 1 :]), attempt)


def _with_type(payload: str, instance_type: str) -> str:
    training_job = json.loads(payload)
    training_job["ResourceConfig"] = {**training_job["ResourceConfig"], "InstanceType": instance_type}
    return canonical_json(training_job)


def payload_sha256(payload: str) -> str:
    """Return the hash under which the journal knows a payload."""
    return hashlib.sha256(payload.encode()).hexdigest()


def max_runtime_of(payload: Mapping[str, Any]) -> int:
    """Return the run-time limit of a training request in seconds, SageMaker's default when it has none.

    Raises:
        UsageError: it is not a whole number.
    """
    limit = (payload.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds", DEFAULT_RUNTIME_SECONDS)
    if type(limit) is not int:
        raise UsageError(f"MaxRuntimeInSeconds must be a whole number of seconds, not {limit!r}")
    return limit


def request_bytes(request: JobRequest) -> int:
    """Return the size of the SubmitServiceJob body in UTF-8 bytes; the payload is a JSON string in it."""
    body = {
        "jobName": request.job_name,
        "jobQueue": request.job_queue,
        "serviceJobType": "SAGEMAKER_TRAINING",
        "serviceRequestPayload": request.payload,
        "clientToken": request.client_token,
        "shareIdentifier": request.share_identifier,
        "schedulingPriority": request.scheduling_priority,
        "retryStrategy": to_camel(request.retry_strategy),
        "timeoutConfig": {"attemptDurationSeconds": request.attempt_duration_seconds},
        "tags": dict(request.tags),
        "quotaShareName": request.quota_share,
        "preemptionConfiguration": None
        if request.preemption_retries is None
        else {"preemptionRetriesBeforeTermination": request.preemption_retries},
    }
    return len(canonical_json({key: value for key, value in body.items() if value is not None}).encode())
