"""Answers about quota shares, their policies and their queues, each checked against AWS's own description of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.aws.answers import policy_from, queue_from, quota_share_from
from fairshare.model import CapacityLimit, FairsharePolicy, QuotaShare, SharingStrategy

ARN = "arn:aws:batch:us-west-2:111122223333:"
LIMIT = {"maxCapacity": 5, "capacityUnit": "ml.c5.2xlarge"}
BORROWS = {"strategy": "LEND_AND_BORROW", "borrowLimit": 100}
BRIEF = {
    "quotaShareName": "TEAMA",
    "quotaShareArn": f"{ARN}job-queue/ml-gpu/quota-share/TEAMA",
    "jobQueueArn": f"{ARN}job-queue/ml-gpu",
    "capacityLimits": [LIMIT, {"maxCapacity": 1, "capacityUnit": "ml.p5.48xlarge"}],
    "resourceSharingConfiguration": BORROWS,
    "preemptionConfiguration": {"inSharePreemption": "ENABLED"},
    "state": "ENABLED",
    "status": "VALID",
}
"""What DescribeQuotaShare and ListQuotaShares both tell."""
SHARE = QuotaShare(
    name="ml-gpu/TEAMA",
    arn=BRIEF["quotaShareArn"],  # type: ignore[arg-type]
    capacity_limits=(CapacityLimit(5, "ml.c5.2xlarge"), CapacityLimit(1, "ml.p5.48xlarge")),
    sharing=SharingStrategy.LEND_AND_BORROW,
    borrow_limit=100,
    in_share_preemption=True,
)
REQUESTS: dict[str, dict[str, Any]] = {
    "describe_quota_share": {"quotaShareArn": SHARE.arn},
    "list_quota_shares": {"jobQueue": "ml-gpu"},
    "describe_scheduling_policies": {"arns": ["a"]},
    "describe_job_queues": {},
}

Says = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def says(checked: Callable[[str, Any], Any]) -> Says:
    """An answer of an operation, once AWS's service model has let it pass."""

    def say(operation: str, answer: dict[str, Any]) -> dict[str, Any]:
        fake = SimpleNamespace(**{operation: lambda **request: answer})
        found: dict[str, Any] = getattr(checked("batch", fake), operation)(**REQUESTS[operation])
        return found

    return say


def test_a_quota_share_is_read_with_its_tags(says: Says) -> None:
    found = quota_share_from(says("describe_quota_share", BRIEF | {"tags": {"fairshare:stack": "ml", "My_Tag": "x"}}))

    assert found.tags == {"fairshare:stack": "ml", "My_Tag": "x"}
    assert quota_share_from(BRIEF) == SHARE


def test_a_listed_quota_share_is_the_same_without_tags(says: Says) -> None:
    (entry,) = says("list_quota_shares", {"quotaShares": [BRIEF]})["quotaShares"]

    assert quota_share_from(entry) == SHARE


@pytest.mark.parametrize(
    ("sharing", "limit"),
    [({"strategy": "RESERVE"}, -1), ({"strategy": "LEND"}, -1), (BORROWS | {"borrowLimit": 0}, 0)],
)
def test_c08_a_borrow_limit_of_0_is_not_the_same_as_none(says: Says, sharing: dict[str, Any], limit: int) -> None:
    answer = BRIEF | {
        "resourceSharingConfiguration": sharing,
        "preemptionConfiguration": {"inSharePreemption": "DISABLED"},
        "state": "DISABLED",
        "status": "UPDATING",
    }

    found = quota_share_from(says("describe_quota_share", answer))

    assert (found.sharing, found.borrow_limit, found.in_share_preemption) == (sharing["strategy"], limit, False)
    assert (found.state, found.status) == ("DISABLED", "UPDATING")


def test_a_policy_for_quota_shares_is_none_for_fair_share(says: Says) -> None:
    arn = f"{ARN}scheduling-policy/ml-gpu"
    quotas = {"name": "ml-gpu", "arn": arn, "quotaSharePolicy": {"idleResourceAssignmentStrategy": "FIFO"}}
    empty = {"name": "fair", "arn": arn, "fairsharePolicy": {}}

    answer = says("describe_scheduling_policies", {"schedulingPolicies": [quotas, empty]})

    assert [policy_from(each).fairshare_policy for each in answer["schedulingPolicies"]] == [None, FairsharePolicy()]


def test_time_limits_of_a_queue_are_in_no_order_of_aws(says: Says) -> None:
    reasons = ("MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED", "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
    queue = {
        "jobQueueName": "ml-gpu",
        "jobQueueArn": f"{ARN}job-queue/ml-gpu",
        "state": "ENABLED",
        "priority": 1,
        "computeEnvironmentOrder": [],
        "jobStateTimeLimitActions": [
            {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600 + number, "action": "TERMINATE"}
            for number, reason in enumerate(reasons)
        ],
    }

    (found,) = says("describe_job_queues", {"jobQueues": [queue]})["jobQueues"]

    assert queue_from(found).time_limits == ((reasons[1], 601), (reasons[0], 600))
