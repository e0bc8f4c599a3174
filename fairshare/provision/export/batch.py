"""Service environments, scheduling policies, job queues and quota shares as resources of a CloudFormation template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairshare.model import CapacityLimit, FairsharePolicy, SharingStrategy
from fairshare.provision.desired import Desired, DesiredEnvironment, DesiredPolicy, DesiredQueue, DesiredQuotaShare
from fairshare.provision.export.template import LogicalIds, Resource, ref

_SERVICE_TYPE: Final = "SAGEMAKER_TRAINING"
"""Type of service environments and queues alike."""


def batch_resources(desired: Desired, ids: LogicalIds) -> dict[str, Resource]:
    """Return the resources by logical id, in the order in which `setup` makes them.

    Queues refer to the other two, and quota shares to their queue, so CloudFormation makes and deletes all in the
    right order. Names are those of `setup`: a change that needs a replacement is refused by AWS, because the name is
    taken, and no jobs are lost.
    """
    environments = {each.name: ids.of("ServiceEnvironment", each.key) for each in desired.service_environments}
    policies = {each.name: ids.of("SchedulingPolicy", each.key) for each in desired.scheduling_policies}
    resources = {environments[each.name]: _environment(each) for each in desired.service_environments}
    resources |= {policies[each.name]: _policy(each) for each in desired.scheduling_policies}
    queues = {each.name: ids.of("JobQueue", each.key) for each in desired.job_queues}
    resources |= {queues[each.name]: _queue(each, environments, policies) for each in desired.job_queues}
    return resources | {ids.of("QuotaShare", each.key): _quota_share(each, queues) for each in desired.quota_shares}


def _environment(desired: DesiredEnvironment) -> Resource:
    return Resource(
        "AWS::Batch::ServiceEnvironment",
        {
            "ServiceEnvironmentName": desired.name,
            "ServiceEnvironmentType": _SERVICE_TYPE,
            "State": desired.state,
            "CapacityLimits": _limits(desired.capacity_limits),
            "Tags": dict(desired.tags),
        },
    )


def _limits(limits: tuple[CapacityLimit, ...]) -> list[dict[str, Any]]:
    return [{"MaxCapacity": limit.max_capacity, "CapacityUnit": limit.capacity_unit} for limit in limits]


def _policy(desired: DesiredPolicy) -> Resource:
    policy: dict[str, Any] = (
        {"QuotaSharePolicy": {"IdleResourceAssignmentStrategy": "FIFO"}}
        if desired.fairshare_policy is None
        else {"FairsharePolicy": _fairshare(desired.fairshare_policy)}
    )
    return Resource("AWS::Batch::SchedulingPolicy", {"Name": desired.name} | policy | {"Tags": dict(desired.tags)})


def _fairshare(policy: FairsharePolicy) -> dict[str, Any]:
    return {
        "ShareDecaySeconds": policy.share_decay_seconds,
        "ComputeReservation": policy.compute_reservation,
        "ShareDistribution": [
            {"ShareIdentifier": share.share_identifier, "WeightFactor": _number(share.weight_factor)}
            for share in policy.share_distribution
        ],
    }


def _queue(desired: DesiredQueue, environments: Mapping[str, str], policies: Mapping[str, str]) -> Resource:
    properties: dict[str, Any] = {
        "JobQueueName": desired.name,
        "JobQueueType": _SERVICE_TYPE,
        "State": desired.state,
        "Priority": desired.priority,
        "ServiceEnvironmentOrder": [{"Order": 1, "ServiceEnvironment": ref(environments[desired.service_environment])}],
    }
    if desired.time_limits:
        properties["JobStateTimeLimitActions"] = [
            {"Reason": reason, "State": "RUNNABLE", "MaxTimeSeconds": seconds, "Action": "TERMINATE"}
            for reason, seconds in desired.time_limits
        ]
    if desired.scheduling_policy is not None:
        properties["SchedulingPolicyArn"] = ref(policies[desired.scheduling_policy])
    return Resource("AWS::Batch::JobQueue", properties | {"Tags": dict(desired.tags)})


def _quota_share(desired: DesiredQuotaShare, queues: Mapping[str, str]) -> Resource:
    sharing: dict[str, Any] = {"Strategy": desired.sharing.value}
    if desired.sharing is SharingStrategy.LEND_AND_BORROW:
        sharing["BorrowLimit"] = desired.borrow_limit
    return Resource(
        "AWS::Batch::QuotaShare",
        {
            "QuotaShareName": desired.share,
            "JobQueue": ref(queues[desired.queue]),
            "CapacityLimits": _limits(desired.capacity_limits),
            "ResourceSharingConfiguration": sharing,
            "PreemptionConfiguration": {"InSharePreemption": "ENABLED" if desired.in_share_preemption else "DISABLED"},
            "State": desired.state,
            "Tags": dict(desired.tags),
        },
    )


def _number(weight: str) -> int | float:
    value = float(weight)
    return int(value) if value.is_integer() else value
