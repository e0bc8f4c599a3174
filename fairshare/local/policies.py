"""Operations on scheduling policies.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateSchedulingPolicy.html and its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from fairshare.local.errors import ClientException
from fairshare.local.paging import page
from fairshare.local.region import PolicyRecord, Region
from fairshare.local.validation import check_fairshare_policy, check_name, check_tags

_MOST_ARNS = 100
"""DescribeSchedulingPolicies takes no more."""


def create_scheduling_policy(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """CreateSchedulingPolicy. Without any policy it is a fair-share one without entries."""
    name = request["name"]
    check_name(name, "Scheduling policy")
    fairshare, quota = _policies(request)
    if fairshare is None and quota is None:
        fairshare = {}
    check_tags(request.get("tags") or {})
    if name in region.policies:
        raise ClientException("Object already exists")
    arn = region.arn(f"scheduling-policy/{name}")
    region.policies[name] = PolicyRecord(name, arn, fairshare, quota, dict(request.get("tags") or {}))
    return {"name": name, "arn": arn}


def describe_scheduling_policies(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeSchedulingPolicies. ARNs that do not exist are absent from the answer."""
    if len(request["arns"]) > _MOST_ARNS:
        raise ClientException(f"arns: {len(request['arns'])} are too many (at most {_MOST_ARNS})")
    by_arn = {policy.arn: policy for policy in region.policies.values()}
    return {"schedulingPolicies": [_describe(by_arn[arn]) for arn in request["arns"] if arn in by_arn]}


def list_scheduling_policies(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """ListSchedulingPolicies: ARNs, nothing else."""
    policies, token = page(
        lambda last: (region.policies[name] for name in sorted(region.policies) if last is None or name > last),
        lambda policy: policy.name,
        kind=str,
        operation="ListSchedulingPolicies",
        max_results=request.get("maxResults"),
        next_token=request.get("nextToken"),
    )
    return {"schedulingPolicies": [{"arn": policy.arn} for policy in policies], "nextToken": token}


def update_scheduling_policy(region: Region, request: Mapping[str, Any]) -> None:
    """UpdateSchedulingPolicy: replaces the policy whole, never its kind; queues that use it follow at once."""
    policy = region.get_policy(request["arn"])
    fairshare, quota = _policies(request)
    if fairshare is None and quota is None:
        return
    if (fairshare is None) != (policy.fairshare is None):
        kind = "fairsharePolicy" if policy.fairshare is not None else "quotaSharePolicy"
        raise ClientException(f"arn: {policy.name} has a {kind}, and always will (make another policy)")
    policy.fairshare, policy.quota = fairshare, quota
    for queue in region.queues.values():
        if queue.policy is policy and not queue.is_being_deleted:
            region.configure_queue(queue)


def delete_scheduling_policy(region: Region, request: Mapping[str, Any]) -> None:
    """DeleteSchedulingPolicy: not while a queue uses it."""
    policy = region.get_policy(request["arn"])
    users = sorted(queue.name for queue in region.queues.values() if queue.policy is policy)
    if users:
        raise ClientException(f"arn: {policy.name} is in use by job queue {', '.join(users)} (delete the queue first)")
    del region.policies[policy.name]


def _policies(request: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return the checked ``fairsharePolicy`` and ``quotaSharePolicy`` of a request; at most one is there."""
    fairshare: Mapping[str, Any] | None = request.get("fairsharePolicy")
    quota: Mapping[str, Any] | None = request.get("quotaSharePolicy")
    if quota is not None:
        if fairshare is not None:
            raise ClientException(
                "A scheduling policy can have either fairsharePolicy or quotaSharePolicy, but not both."
            )
        if quota["idleResourceAssignmentStrategy"] != "FIFO":
            raise ClientException("Idle resource assignment strategy must be one of [FIFO].")
    if fairshare is not None:
        check_fairshare_policy(fairshare)
    return fairshare, quota


def _describe(policy: PolicyRecord) -> dict[str, Any]:
    """Describe as AWS does: weights as 32-bit floats (case C02), entries in an order of its own (case C01)."""
    return {
        "name": policy.name,
        "arn": policy.arn,
        "fairsharePolicy": None if policy.fairshare is None else _describe_fairshare(policy.fairshare),
        "quotaSharePolicy": policy.quota,
        "tags": policy.tags,
    }


def _describe_fairshare(fairshare: Mapping[str, Any]) -> dict[str, Any]:
    entries = sorted(fairshare.get("shareDistribution") or [], key=lambda entry: str(entry["shareIdentifier"]))
    return {
        "shareDecaySeconds": fairshare.get("shareDecaySeconds", 0),
        "computeReservation": fairshare.get("computeReservation", 0),
        "shareDistribution": [
            {"shareIdentifier": entry["shareIdentifier"], "weightFactor": _float32(entry.get("weightFactor", 1.0))}
            for entry in entries
        ],
    }


def _float32(value: float) -> float:
    """Return the nearest 32-bit float: 0.1 comes back as 0.10000000149011612."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
