"""The rules AWS Batch checks before it accepts a request, with its texts.

botocore's model of Batch holds almost no constraints, so these rules are what the service enforces. Texts without a
rule in brackets were measured on AWS by a third party (https://github.com/badmintoncryer/cdk-preflight, rules/batch).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.model import SharingStrategy
from fairshare.scheduler.policy import parse_weight

SERVICE_TYPE: Final = "SAGEMAKER_TRAINING"
"""Type of service environments, of their queues and of service jobs: AWS has no other."""

NUM_INSTANCES: Final = "NUM_INSTANCES"
"""Capacity unit that counts instances whatever their type; the unit of FIFO and fair-share queues."""

MAX_CAPACITY_LIMITS: Final = 5
MAX_SHARES: Final = 500
MAX_DECAY_SECONDS: Final = 604_800
MAX_RESERVATION: Final = 99
MAX_SCHEDULING_PRIORITY: Final = 9_999
MAX_QUEUE_PRIORITY: Final = 1_000
ATTEMPTS_MISSING: Final = "RetryAttempts must be provided with retry strategy."
MAX_ATTEMPTS: Final = 10
MAX_EXIT_RULES: Final = 5
MAX_REASON_PATTERN: Final = 512
MIN_TIMEOUT_SECONDS: Final = 60
MAX_TAGS: Final = 50
MAX_TAG_KEY: Final = 128
MAX_TAG_VALUE: Final = 256
MAX_TOKEN: Final = 64
MAX_PAYLOAD_BYTES: Final = 10 * 1024
MAX_REQUEST_BYTES: Final = 30 * 1024

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_JOB_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,127}")
_SHARE: Final = re.compile(r"[a-zA-Z0-9_-]{1,255}")
_SHARE_ENTRY: Final = re.compile(r"[a-zA-Z0-9_-]{1,254}[a-zA-Z0-9_*-]?|\*")
_STATES: Final = ("ENABLED", "DISABLED")
_TIME_LIMIT_SECONDS: Final = (600, 86_400)
_TIME_LIMIT_REASONS: Final = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED",
)
"""What can hold up the head of a service queue (sm_job_stuck_in_runnable_capacity and its neighbours, user guide)."""


def check_name(name: str, kind: str) -> None:
    """Check the name of a resource; ``kind`` as AWS writes it: ``Service environment``."""
    if _NAME.fullmatch(name) is None:
        raise ClientException(f"{kind} name should match a valid pattern.")


def check_job_name(name: str) -> None:
    """Check the name of a service job (case C12)."""
    if _JOB_NAME.fullmatch(name) is None:
        raise ClientException("Job name should match valid pattern")


def check_service_type(field: str, value: str) -> None:
    """Check the type of an environment or a job."""
    if value != SERVICE_TYPE:
        raise ClientException(f"{field}: {value!r} is unknown ({SERVICE_TYPE})")


def check_state(state: str) -> None:
    """Check the state of a queue or environment."""
    if state not in _STATES:
        raise ClientException(f"state: {state!r} is unknown (ENABLED or DISABLED)")


def check_tags(tags: Mapping[str, str]) -> None:
    """Check all the tags that a resource would have (https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html)."""
    if len(tags) > MAX_TAGS:
        raise ClientException(f"tags: {len(tags)} are too many (at most {MAX_TAGS})")
    for key, value in tags.items():
        if not 1 <= len(key) <= MAX_TAG_KEY:
            raise ClientException(f"tags: key {key!r} has {len(key)} characters (1 - {MAX_TAG_KEY})")
        if len(value) > MAX_TAG_VALUE:
            raise ClientException(f"tags: the value of {key} has {len(value)} characters (at most {MAX_TAG_VALUE})")
        if key.lower().startswith("aws:"):
            raise ClientException(f"tags: key {key} is reserved (keys must not start with aws:)")


# -- service environments ---------------------------------------------------------------------------------------------


def check_capacity_limits(limits: list[Mapping[str, Any]]) -> None:
    """Check ``capacityLimits``: one limit in NUM_INSTANCES, or one for each of 1 - 5 instance types."""
    if not limits:
        raise ClientException("Capacitylimits are required.")
    if len(limits) > MAX_CAPACITY_LIMITS:
        raise ClientException(f"Number of capacity limits exceeds {MAX_CAPACITY_LIMITS}.")
    units = [limit.get("capacityUnit", "") for limit in limits]
    for limit, unit in zip(limits, units, strict=True):
        if limit.get("maxCapacity", 0) < 1:
            raise ClientException("Max capacity must be more than 0.")
        if unit != NUM_INSTANCES and unit not in _instance_types():
            raise ClientException(f"{unit} is unknown capacity unit in [{', '.join(sorted(_instance_types()))}]")
    if NUM_INSTANCES in units and set(units) != {NUM_INSTANCES}:
        raise ClientException("Capacity units must specify either number of instances OR instance type, but not both")
    if len(set(units)) < len(units):
        raise ClientException("capacityLimits: the same capacityUnit is there twice (one limit for each unit)")


def counts_instances(limits: list[Mapping[str, Any]]) -> bool:
    """Whether checked ``capacityLimits`` count instances whatever their type: what FIFO and fair-share queues need."""
    return bool(limits[0]["capacityUnit"] == NUM_INSTANCES)


# -- quota shares -----------------------------------------------------------------------------------------------------


def check_quota_limits(limits: list[Mapping[str, Any]]) -> None:
    """Check the ``capacityLimits`` of a quota share: 1 - 5 instance types."""
    check_capacity_limits(limits)
    if counts_instances(limits):
        raise ClientException(f"capacityLimits: a quota share is measured by instance type, not in {NUM_INSTANCES}")


def check_sharing(sharing: Mapping[str, Any]) -> None:
    """Check a ``resourceSharingConfiguration`` (API_QuotaShareResourceSharingConfiguration)."""
    strategy, borrow_limit = sharing["strategy"], sharing.get("borrowLimit")
    if strategy not in list(SharingStrategy):
        raise ClientException(f"strategy: {strategy!r} is unknown ({', '.join(SharingStrategy)})")
    if borrow_limit is None:
        return
    if strategy != SharingStrategy.LEND_AND_BORROW:
        raise ClientException(f"borrowLimit: a {strategy} quota share does not borrow (LEND_AND_BORROW does)")
    if borrow_limit < -1:
        raise ClientException(f"borrowLimit: {borrow_limit} is out of range (-1 or more)")


def check_in_share_preemption(setting: str) -> None:
    """Check ``inSharePreemption`` of a quota share's ``preemptionConfiguration``."""
    if setting not in _STATES:
        raise ClientException(f"inSharePreemption: {setting!r} is unknown (ENABLED or DISABLED)")


@cache
def _instance_types() -> frozenset[str]:
    """Return the instance types SageMaker trains on, from botocore's model; read only when a type is used as a unit."""
    import botocore.session

    model = botocore.session.get_session().get_service_model("sagemaker")
    return frozenset(model.shape_for("TrainingInstanceType").enum)


# -- scheduling policies ----------------------------------------------------------------------------------------------


def check_fairshare_policy(policy: Mapping[str, Any]) -> None:
    """Check a ``fairsharePolicy`` (https://docs.aws.amazon.com/batch/latest/APIReference/API_FairsharePolicy.html)."""
    _check_range("shareDecaySeconds", policy.get("shareDecaySeconds", 0), 0, MAX_DECAY_SECONDS)
    _check_range("computeReservation", policy.get("computeReservation", 0), 0, MAX_RESERVATION)
    entries = policy.get("shareDistribution") or []
    if len(entries) > MAX_SHARES:
        raise ClientException(f"ShareDistribution size cannot be greater than {MAX_SHARES}.")
    for entry in entries:
        if _SHARE_ENTRY.fullmatch(entry["shareIdentifier"]) is None:
            raise ClientException("ShareIdentifier name should match a valid pattern.")
        try:
            parse_weight(str(entry.get("weightFactor", 1)))
        except ValueError:
            raise ClientException("Weight factor should be between 0.0001 and 999.9999.") from None
    _check_no_overlap([entry["shareIdentifier"] for entry in entries])


def _check_no_overlap(identifiers: list[str]) -> None:
    """Refuse duplicates, and identifiers that a prefix entry covers (case C03)."""
    if len(set(identifiers)) < len(identifiers):
        raise ClientException("Cannot have two or more identical shareIdentifiers.")
    for prefix in (identifier for identifier in identifiers if identifier.endswith("*")):
        for covered in identifiers:
            if covered != prefix and covered.startswith(prefix[:-1]):
                raise ClientException(f"Share identifier {covered} matches another share identifier {prefix}.")


# -- job queues -------------------------------------------------------------------------------------------------------


def check_queue_priority(priority: int) -> None:
    """Check the priority of a queue."""
    _check_range("priority", priority, 0, MAX_QUEUE_PRIORITY)


def check_time_limits(actions: Iterable[Mapping[str, Any]]) -> None:
    """Check ``jobStateTimeLimitActions`` of a SAGEMAKER_TRAINING queue."""
    seen = set()
    for action in actions:
        if action["action"] != "TERMINATE":
            raise ClientException("Invalid job action. Valid job actions: [TERMINATE]")
        if action["state"] != "RUNNABLE":
            raise ClientException(f"jobStateTimeLimitActions: state {action['state']!r} is unknown (RUNNABLE)")
        if action["reason"] not in _TIME_LIMIT_REASONS:
            raise ClientException(
                f"jobStateTimeLimitActions: reason {action['reason']!r} is unknown ({', '.join(_TIME_LIMIT_REASONS)})"
            )
        _check_range("maxTimeSeconds", action["maxTimeSeconds"], *_TIME_LIMIT_SECONDS)
        key = action["state"], action["reason"]
        if key in seen:
            raise ClientException("Duplicate job state limit actions are not allowed.")
        seen.add(key)


# -- service jobs -----------------------------------------------------------------------------------------------------


def check_share_identifier(identifier: str) -> None:
    """Check the share identifier of a job."""
    if _SHARE.fullmatch(identifier) is None:
        raise ClientException("ShareIdentifier name should match a valid pattern.")


def check_preemption_retries(configuration: Mapping[str, Any]) -> None:
    """Check the ``preemptionConfiguration`` of a job; without a number it is queued again without limit."""
    retries = configuration.get("preemptionRetriesBeforeTermination")
    if retries is not None and retries < 0:
        raise ClientException(f"preemptionRetriesBeforeTermination: {retries} is out of range (0 or more)")


def check_scheduling_priority(priority: int) -> None:
    """Check the scheduling priority of a job; 0 is one."""
    if not 0 <= priority <= MAX_SCHEDULING_PRIORITY:
        raise ClientException(f"Scheduling priority must be between 0 and {MAX_SCHEDULING_PRIORITY}.")


def check_retry_strategy(strategy: Mapping[str, Any]) -> None:
    """Check ``retryStrategy``. Actions are taken in any case: AWS's own examples write ``Retry``."""
    attempts = strategy.get("attempts")
    if attempts is None:
        raise ClientException(ATTEMPTS_MISSING)
    if not 1 <= attempts <= MAX_ATTEMPTS:
        raise ClientException(f"RetryAttempts must be between 1 and {MAX_ATTEMPTS}.")
    rules = strategy.get("evaluateOnExit") or []
    if len(rules) > MAX_EXIT_RULES:
        raise ClientException(f"evaluateOnExit: {len(rules)} rules are too many (at most {MAX_EXIT_RULES})")
    for rule in rules:
        if rule.get("action", "").upper() not in ("RETRY", "EXIT"):
            raise ClientException(f"evaluateOnExit: action {rule.get('action')!r} is unknown (RETRY or EXIT)")
        if len(rule.get("onStatusReason", "")) > MAX_REASON_PATTERN:
            raise ClientException(f"Evaluate on exit condition cannot exceed {MAX_REASON_PATTERN} characters.")


def check_timeout(timeout: Mapping[str, Any]) -> None:
    """Check ``timeoutConfig``; the text is the one of compute jobs."""
    if timeout.get("attemptDurationSeconds", 0) < MIN_TIMEOUT_SECONDS:
        raise ClientException(f"AttemptDurationSeconds in Timeout must be at least {MIN_TIMEOUT_SECONDS} seconds.")


def check_request_size(request: Mapping[str, Any]) -> None:
    """Check the sizes of a SubmitServiceJob request, in bytes of UTF-8 (service_limits of the user guide)."""
    payload = len(request["serviceRequestPayload"].encode())
    if payload > MAX_PAYLOAD_BYTES:
        raise ClientException(f"serviceRequestPayload: {payload} bytes are too many (at most {MAX_PAYLOAD_BYTES})")
    total = len(json.dumps(request, ensure_ascii=False).encode())
    if total > MAX_REQUEST_BYTES:
        raise ClientException(
            f"SubmitServiceJob: {total} bytes are too many for one request (at most {MAX_REQUEST_BYTES})"
        )


def check_client_token(token: str) -> None:
    """Check the length of ``clientToken``."""
    if not 1 <= len(token) <= MAX_TOKEN:
        raise ClientException(f"clientToken: it has {len(token)} characters (1 - {MAX_TOKEN})")


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ClientException(f"{field}: {value} is out of range ({low} - {high})")
