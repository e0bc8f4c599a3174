"""Answers of AWS Batch about service environments, scheduling policies, job queues and quota shares, as models.

Imports nothing but the model: the collector, which runs where there is only boto3, reads them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairshare.model import (
    CapacityLimit,
    FairsharePolicy,
    JobQueue,
    QuotaShare,
    SchedulingPolicy,
    ServiceEnvironment,
    ShareAttributes,
    SharingStrategy,
    to_snake,
)
from fairshare.scheduler.policy import weight_text

SERVICE_TYPE: Final = "SAGEMAKER_TRAINING"
"""Type of service environments, queues and jobs alike."""


def environment_from(answer: Mapping[str, Any]) -> ServiceEnvironment:
    """Read one entry of DescribeServiceEnvironments."""
    detail = to_snake(answer)
    return ServiceEnvironment(
        name=detail["service_environment_name"],
        arn=detail["service_environment_arn"],
        capacity_limits=tuple(
            CapacityLimit(limit["max_capacity"], limit["capacity_unit"]) for limit in detail["capacity_limits"]
        ),
        state=detail.get("state", "ENABLED"),
        status=detail.get("status", "VALID"),
        tags=detail.get("tags", {}),
    )


def policy_from(answer: Mapping[str, Any]) -> SchedulingPolicy:
    """Read one entry of DescribeSchedulingPolicies. Fields that are missing hold their default."""
    detail = to_snake(answer)
    fairshare = detail.get("fairshare_policy")
    return SchedulingPolicy(
        name=detail["name"],
        arn=detail["arn"],
        fairshare_policy=None if fairshare is None else _fairshare_from(fairshare),
        tags=detail.get("tags", {}),
    )


def queue_from(answer: Mapping[str, Any]) -> JobQueue:
    """Read one entry of DescribeJobQueues. A queue for compute jobs has no service environments."""
    detail = to_snake(answer)
    order = sorted(detail.get("service_environment_order", []), key=lambda entry: int(entry["order"]))
    return JobQueue(
        name=detail["job_queue_name"],
        arn=detail["job_queue_arn"],
        priority=detail["priority"],
        service_environments=tuple(entry["service_environment"] for entry in order),
        scheduling_policy_arn=detail.get("scheduling_policy_arn"),
        time_limits=tuple(
            sorted(
                (limit["reason"], limit["max_time_seconds"])
                for limit in detail.get("job_state_time_limit_actions") or ()
            )
        ),
        state=detail["state"],
        status=detail.get("status", "VALID"),
        status_reason=detail.get("status_reason"),
        tags=detail.get("tags", {}),
    )


def quota_share_from(answer: Mapping[str, Any]) -> QuotaShare:
    """Read DescribeQuotaShare, or an entry of ListQuotaShares, which tells no tags."""
    detail = to_snake(answer)
    sharing = detail["resource_sharing_configuration"]
    queue = detail["job_queue_arn"].rsplit("/", 1)[-1]
    return QuotaShare(
        name=f"{queue}/{detail['quota_share_name']}",
        arn=detail["quota_share_arn"],
        capacity_limits=tuple(
            CapacityLimit(limit["max_capacity"], limit["capacity_unit"]) for limit in detail["capacity_limits"]
        ),
        sharing=SharingStrategy(sharing["strategy"]),
        borrow_limit=sharing.get("borrow_limit", -1),
        in_share_preemption=detail["preemption_configuration"]["in_share_preemption"] == "ENABLED",
        state=detail.get("state", "ENABLED"),
        status=detail.get("status", "VALID"),
        tags=detail.get("tags") or {},
    )


def _fairshare_from(fairshare: Mapping[str, Any]) -> FairsharePolicy:
    return FairsharePolicy(
        share_distribution=tuple(
            ShareAttributes(share["share_identifier"], weight_text(share.get("weight_factor", 1)))
            for share in fairshare.get("share_distribution", [])
        ),
        share_decay_seconds=fairshare.get("share_decay_seconds", 0),
        compute_reservation=fairshare.get("compute_reservation", 0),
    )
