"""What must hold between quota shares, their queue and its service environment in a ``fairshare.yaml``.

Part of `fairshare.config.project_checks`; like it, the checks read the tree, so that they work in a file with other
mistakes. Rules: https://docs.aws.amazon.com/batch/latest/userguide/quota-management.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairshare.config.errors import did_you_mean
from fairshare.config.yaml_source import Document, Steps
from fairshare.model import Problem

MAX_NAME_LENGTH: Final = 128
"""Of a quota share; its name has no stack before it."""

_ENVIRONMENTS: Final = "service_environments"
_LIMITS: Final = "capacity_limits"


def check_quotas(document: Document) -> list[Problem]:
    """Return the problems of quota shares, errors and warnings, in no particular order."""
    return [
        *(problem for queue in document.keys("queues") for problem in _check_queue(document, queue)),
        *_check_one_queue(document),
        *_check_default(document),
    ]


def _check_queue(document: Document, queue: str) -> Iterator[Problem]:
    """Quota shares need limits by type; nothing else can use them."""
    has_quotas = _has_quotas(document, queue)
    for share in document.keys("queues", queue, "quota_shares"):
        if len(share) > MAX_NAME_LENGTH:
            message = f"quota share {share[:20]}... has {len(share)} characters; AWS accepts {MAX_NAME_LENGTH}"
            yield document.problem(("queues", queue, "quota_shares", share), message, at_key=True)
    environment = document.text("queues", queue, "service_environment")
    if environment is None or environment not in document.keys(_ENVIRONMENTS):
        return
    by_type = _is_by_type(document, environment)
    steps: Steps = ("queues", queue, "service_environment")
    if has_quotas and not by_type:
        message = f"queue {queue} has quota shares, and service environment {environment} has no limits by type"
        hint = f"give {environment} capacity_limits: {{ml.c5.2xlarge: 8}} instead of capacity and instance_types"
        yield document.problem(steps, message, hint=hint)
    elif by_type and not has_quotas:
        message = f"queue {queue} has no quota shares, and service environment {environment} has limits by type"
        hint = f"give {environment} capacity and instance_types instead of capacity_limits, or {queue} quota_shares"
        yield document.problem(steps, message, hint=hint)
    elif has_quotas:
        yield from _check_types(document, queue, environment)


def _check_types(document: Document, queue: str, environment: str) -> Iterator[Problem]:
    known = document.keys(_ENVIRONMENTS, environment, _LIMITS)
    for share in document.keys("queues", queue, "quota_shares"):
        steps: Steps = ("queues", queue, "quota_shares", share, _LIMITS)
        for instance_type in document.keys(*steps):
            if instance_type not in known:
                message = f"quota share {share} has {instance_type}, and service environment {environment} has none"
                hint = did_you_mean(instance_type, known, "instance types")
                yield document.problem((*steps, instance_type), message, hint=hint, at_key=True)


def _check_one_queue(document: Document) -> Iterator[Problem]:
    for environment in document.keys(_ENVIRONMENTS):
        users = [
            queue
            for queue in document.keys("queues")
            if document.text("queues", queue, "service_environment") == environment and _has_quotas(document, queue)
        ]
        for queue in users[1:]:
            message = f"queues {users[0]} and {queue} share service environment {environment}"
            hint = "an environment with limits by type serves one queue only; give each its own"
            yield document.problem(("queues", queue, "service_environment"), message, hint=hint)


def _check_default(document: Document) -> Iterator[Problem]:
    """The default quota share exists in the default queue, or in some queue."""
    share = document.text("defaults", "quota_share")
    if share is None:
        return
    steps: Steps = ("defaults", "quota_share")
    queues = [queue for queue in document.keys("queues") if _has_quotas(document, queue)]
    if not queues:
        message = "defaults.quota_share has no effect: no queue of this file has quota shares"
        yield document.problem(steps, message, severity="warning")
        return
    stack, default = document.text("stack"), document.text("defaults", "queue")
    chosen = [queue for queue in queues if default in (queue, f"{stack}-{queue}")] or queues
    known = list(dict.fromkeys(name for queue in chosen for name in document.keys("queues", queue, "quota_shares")))
    if share not in known:
        message = f'unknown quota share "{share}" in queue {" or ".join(chosen)}'
        yield document.problem(steps, message, hint=did_you_mean(share, known, "quota shares"))


def _has_quotas(document: Document, queue: str) -> bool:
    return "quota_shares" in document.keys("queues", queue)


def _is_by_type(document: Document, environment: str) -> bool:
    return _LIMITS in document.keys(_ENVIRONMENTS, environment)
