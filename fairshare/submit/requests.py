"""One SubmitServiceJob request, complete and frozen, from a resolved job and its built payload.

What is frozen here is what makes a repeated call harmless: the payload is one canonical text and the client token
follows from it, so the same job of the same run is the same request for ever.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fairshare.config.jobs import JobSpec, SecretRef
from fairshare.model import RUN_TAG, JobRequest, UsageError, to_camel
from fairshare.submit.naming import JobNames
from fairshare.submit.ports import BuiltPayload
from fairshare.submit.resolve import QueueFacts

DEFAULT_RUNTIME_SECONDS: Final = 86_400
"""SageMaker's own MaxRuntimeInSeconds when a request has none (API_StoppingCondition)."""

MIN_ATTEMPT_SECONDS: Final = 60
"""Shortest attemptDurationSeconds (https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html)."""

_REASON: Final = "Received status from SageMaker:"
_RETRIED: Final = ("InternalServerError*", "ResourceLimitExceeded*")

RETRY_STRATEGY: Final[Mapping[str, Any]] = {
    "attempts": 2,
    "evaluate_on_exit": [
        *(
            {"action": "RETRY", "on_status_reason": f"{_REASON}{space}{error}"}
            for error in _RETRIED
            for space in (" ", "")
        ),
        {"action": "EXIT", "on_status_reason": "*"},
    ],
}
"""Two attempts: again for an internal error or an account quota that is used up, never for a bug of the user's.

AWS prints a space after the colon in some texts and none in others, so each rule exists twice
(https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html). Capacity errors use no attempt.
"""

MASK: Final = "***"
_SECRET_NAME: Final = re.compile(
    r"(^|[_-])(token|secret|passw(or)?d|passphrase|credentials?|(api|access|private|secret)[_-]?key)$", re.IGNORECASE
)


@dataclass(frozen=True)
class RunIdentity:
    """What all jobs of a run have in common. ``created_at`` is milliseconds since the epoch."""

    run_id: str
    created_at: int
    region: str
    account_id: str


@dataclass(frozen=True)
class PlannedJob:
    """A request with its place in the run: ``index`` counts from 0, ``wave`` from 1.

    ``secrets`` tells where the values of secret environment keys in the payload came from.
    """

    index: int
    wave: int
    request: JobRequest
    secrets: Mapping[str, SecretRef] = field(default_factory=dict)


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
        UsageError: the payload is not strict JSON.
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
        retry_strategy=RETRY_STRATEGY,
        attempt_duration_seconds=attempt,
        tags={**(built.tags or {}), **job.tags, RUN_TAG: run_id},
    )


def client_token(run_id: str, index: int, payload: str) -> str:
    """Return the 64 characters that make a repeated SubmitServiceJob the same request (case C22)."""
    return hashlib.sha256(f"{run_id}\0{index}\0{payload}".encode()).hexdigest()


def payload_sha256(payload: str) -> str:
    """Return the hash under which the journal knows a payload."""
    return hashlib.sha256(payload.encode()).hexdigest()


def max_runtime_of(payload: Mapping[str, Any]) -> int:
    """Return the run-time limit of a training request in seconds, SageMaker's default when it has none."""
    condition = payload.get("StoppingCondition") or {}
    return int(condition.get("MaxRuntimeInSeconds", DEFAULT_RUNTIME_SECONDS))


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
    }
    return len(canonical_json({key: value for key, value in body.items() if value is not None}).encode())


def with_references(payload: str, secrets: Mapping[str, SecretRef]) -> str:
    """Return a payload in which each secret value is replaced by where it came from, for the journal.

    Putting the values back and taking `canonical_json` gives the payload again, which its hash proves.
    """
    if not secrets:
        return payload
    document = json.loads(payload)
    environment = document.get("Environment", {})
    for key in environment.keys() & secrets.keys():
        source = asdict(secrets[key])
        environment[key] = {name: value for name, value in source.items() if value is not None}
    return canonical_json(document)


def masked_payload(job: PlannedJob) -> dict[str, Any]:
    """Return the training request for display: secrets, and values whose name looks like one, as ``***``."""
    document: dict[str, Any] = json.loads(job.request.payload)
    for section in ("Environment", "HyperParameters"):
        values = document.get(section) or {}
        for key in values:
            if _SECRET_NAME.search(key) or (section == "Environment" and key in job.secrets):
                values[key] = MASK
    return document
