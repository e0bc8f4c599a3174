"""Environments, policies, queues and quota shares: AWS's answers as models, models as AWS's requests.

Pure translation; `fairshare.aws.provisioner` makes the calls. The kinds of resource behave alike in the API, so what
differs between them is a table: `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from fairshare.aws.answers import SERVICE_TYPE, environment_from, policy_from, queue_from, quota_share_from
from fairshare.model import FairsharePolicy, ResourceType, SharingStrategy, to_camel
from fairshare.provision.compare import ObservedBatchResource
from fairshare.provision.desired import (
    DesiredBatchResource,
    DesiredEnvironment,
    DesiredPolicy,
    DesiredQueue,
    DesiredQuotaShare,
)


@dataclass(frozen=True)
class Kind:
    """How the API names a kind of resource.

    The methods of the client are ``create_<type>``, ``update_<type>``, ``delete_<type>`` and ``describe_<plural>``.
    """

    resource_type: ResourceType
    plural: str
    lookup_field: str
    """Field of the describe request that holds names (for policies: ARNs)."""
    answer_field: str
    """Field of the describe answer that holds the resources; "" = the answer is the resource."""
    reference_field: str
    """Field of the update and delete requests that says which one."""
    read: Callable[[Mapping[str, Any]], ObservedBatchResource]


KINDS: Final = {
    kind.resource_type: kind
    for kind in (
        Kind(
            ResourceType.SERVICE_ENVIRONMENT,
            plural="service_environments",
            lookup_field="serviceEnvironments",
            answer_field="serviceEnvironments",
            reference_field="serviceEnvironment",
            read=environment_from,
        ),
        Kind(
            ResourceType.SCHEDULING_POLICY,
            plural="scheduling_policies",
            lookup_field="arns",
            answer_field="schedulingPolicies",
            reference_field="arn",
            read=policy_from,
        ),
        Kind(
            ResourceType.JOB_QUEUE,
            plural="job_queues",
            lookup_field="jobQueues",
            answer_field="jobQueues",
            reference_field="jobQueue",
            read=queue_from,
        ),
        Kind(
            ResourceType.QUOTA_SHARE,
            plural="quota_share",
            lookup_field="quotaShareArn",
            answer_field="",
            reference_field="quotaShareArn",
            read=quota_share_from,
        ),
    )
}

ArnOf = Callable[[ResourceType, str], str]
"""Gives the ARN of a resource by its name; AWS takes scheduling policies by ARN only."""


def create_request(desired: DesiredBatchResource, arn_of: ArnOf) -> dict[str, Any]:
    """Return the request that creates a resource."""
    identity: dict[str, Any]
    match desired:
        case DesiredEnvironment():
            identity = {"serviceEnvironmentName": desired.name, "serviceEnvironmentType": SERVICE_TYPE}
        case DesiredPolicy():
            identity = {"name": desired.name}
        case DesiredQueue():
            identity = {"jobQueueName": desired.name, "jobQueueType": SERVICE_TYPE}
        case DesiredQuotaShare():
            identity = {"quotaShareName": desired.share, "jobQueue": desired.queue}
    settings = {name: value for name, value in _settings(desired, arn_of).items() if value != []}
    return identity | settings | {"tags": dict(desired.tags)}


def update_request(desired: DesiredBatchResource, fields: frozenset[str], arn_of: ArnOf) -> dict[str, Any]:
    """Return the part of an update request that sets ``fields`` (names as in `fairshare.provision.compare`), or {}.

    A policy is always sent whole: UpdateSchedulingPolicy replaces it. Tags are not part of an update.
    """
    changed = {field.split(".")[0] for field in fields}
    settings = _settings(desired, arn_of)
    return {name: settings[name] for name, sources in _SOURCES.items() if name in settings and changed & sources}


_SOURCES: Final = {
    "state": {"state"},
    "capacityLimits": {"capacity_limits"},
    "fairsharePolicy": {"weight_factor", "share_decay_seconds", "compute_reservation"},
    "priority": {"priority"},
    "serviceEnvironmentOrder": {"service_environment"},
    "schedulingPolicyArn": {"scheduling_policy"},
    "jobStateTimeLimitActions": {"time_limits"},
    "resourceSharingConfiguration": {"sharing", "borrow_limit"},
    "preemptionConfiguration": {"in_share_preemption"},
}
"""Field of an update request -> the fields of a plan that it carries."""


def _settings(desired: DesiredBatchResource, arn_of: ArnOf) -> dict[str, Any]:
    """Return what can be set at creation and changed later."""
    match desired:
        case DesiredEnvironment():
            return {
                "state": desired.state,
                "capacityLimits": [to_camel(asdict(limit)) for limit in desired.capacity_limits],
            }
        case DesiredPolicy():
            return _policy_request(desired.fairshare_policy)
        case DesiredQuotaShare():
            sharing: dict[str, Any] = {"strategy": desired.sharing.value}
            if desired.sharing is SharingStrategy.LEND_AND_BORROW:
                sharing["borrowLimit"] = desired.borrow_limit
            return {
                "state": desired.state,
                "capacityLimits": [to_camel(asdict(limit)) for limit in desired.capacity_limits],
                "resourceSharingConfiguration": sharing,
                "preemptionConfiguration": {
                    "inSharePreemption": "ENABLED" if desired.in_share_preemption else "DISABLED"
                },
            }
        case DesiredQueue():
            environment = arn_of(ResourceType.SERVICE_ENVIRONMENT, desired.service_environment)
            settings: dict[str, Any] = {
                "state": desired.state,
                "priority": desired.priority,
                "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": environment}],
                "jobStateTimeLimitActions": [
                    {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": seconds, "action": "TERMINATE"}
                    for reason, seconds in desired.time_limits
                ],
            }
            if desired.scheduling_policy is not None:
                settings["schedulingPolicyArn"] = arn_of(ResourceType.SCHEDULING_POLICY, desired.scheduling_policy)
            return settings


def _policy_request(policy: FairsharePolicy | None) -> dict[str, Any]:
    """Return the policy of a request; None is one for quota shares."""
    if policy is None:
        return {"quotaSharePolicy": {"idleResourceAssignmentStrategy": "FIFO"}}
    fairshare = {
        "shareDecaySeconds": policy.share_decay_seconds,
        "computeReservation": policy.compute_reservation,
        "shareDistribution": [
            {"shareIdentifier": share.share_identifier, "weightFactor": float(share.weight_factor)}
            for share in policy.share_distribution
        ],
    }
    return {"fairsharePolicy": fairshare}
