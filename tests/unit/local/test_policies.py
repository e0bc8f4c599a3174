"""Scheduling policies."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.local import job_queues, policies
from fairshare.local.errors import ClientException


def shares(*entries: tuple[str, float]) -> dict[str, Any]:
    return {"shareDistribution": [{"shareIdentifier": name, "weightFactor": weight} for name, weight in entries]}


def create(cloud: Any, fairshare: dict[str, Any]) -> Any:
    return cloud.call(policies.create_scheduling_policy, name="p", fairsharePolicy=fairshare)


def describe(cloud: Any, arn: str) -> Any:
    return cloud.call(policies.describe_scheduling_policies, arns=[arn])["schedulingPolicies"][0]


def test_described_with_defaults_in_an_order_of_its_own(cloud):
    arn = create(cloud, shares(("HIGHPRI", 0.25), ("MIDPRI", 0.5), ("LOWPRI", 1)))["arn"]
    assert arn == "arn:aws:batch:us-west-2:123456789012:scheduling-policy/p"
    described = describe(cloud, arn)["fairsharePolicy"]
    assert (described["shareDecaySeconds"], described["computeReservation"]) == (0, 0)
    order = [entry["shareIdentifier"] for entry in described["shareDistribution"]]
    assert order == ["HIGHPRI", "LOWPRI", "MIDPRI"]


@pytest.mark.parametrize(
    ("sent", "read"), [(0.1, 0.10000000149011612), (0.7, 0.699999988079071), (0.0001, 9.999999747378752e-05), (3, 3.0)]
)
def test_c02_weights_come_back_as_32_bit_floats_that_can_be_sent_again(cloud, sent, read):
    arn = create(cloud, shares(("A", sent)))["arn"]
    assert describe(cloud, arn)["fairsharePolicy"]["shareDistribution"][0]["weightFactor"] == read
    cloud.call(policies.update_scheduling_policy, arn=arn, fairsharePolicy=shares(("A", read)))


@pytest.mark.parametrize(
    ("fairshare", "text"),
    [
        (shares(("UserA1", 1), ("UserA*", 1)), "Share identifier UserA1 matches another share identifier UserA*."),
        (shares(("TEAM*", 1), ("TEAMA*", 2)), "Share identifier TEAMA* matches another share identifier TEAM*."),
        (shares(("A", 1), ("A", 2)), "Cannot have two or more identical shareIdentifiers."),
        (shares(("team A!", 1)), "ShareIdentifier name should match a valid pattern."),
        (shares(("A*B", 1)), "ShareIdentifier name should match a valid pattern."),
        (shares(("A" * 256, 1)), "ShareIdentifier name should match a valid pattern."),
        (shares(("A", 0)), "Weight factor should be between 0.0001 and 999.9999."),
        (shares(("A", -1)), "Weight factor should be between 0.0001 and 999.9999."),
        (shares(("A", 0.00009)), "Weight factor should be between 0.0001 and 999.9999."),
        (shares(("A", 1000)), "Weight factor should be between 0.0001 and 999.9999."),
        (shares(("A", float("nan"))), "Weight factor should be between 0.0001 and 999.9999."),
        (shares(*[(f"S{n}", 1) for n in range(501)]), "ShareDistribution size cannot be greater than 500."),
        ({"shareDecaySeconds": 604_801}, "shareDecaySeconds: 604801 is out of range (0 - 604800)"),
        ({"computeReservation": 100}, "computeReservation: 100 is out of range (0 - 99)"),
    ],
)
def test_what_a_policy_must_not_hold(cloud, fairshare, text):
    with pytest.raises(ClientException) as refused:
        create(cloud, fairshare)
    assert str(refused.value) == text


@pytest.mark.parametrize("names", [("TEAM1*", "TEAM2*"), ("TEAM-A", "TEAM_B"), ("*",), ("A" * 255,)])
def test_c03_what_a_policy_may_hold(cloud, names):
    create(cloud, shares(*[(name, 1) for name in names]))


def test_both_kinds_of_policy_at_once_are_refused(cloud):
    quota = {"idleResourceAssignmentStrategy": "FIFO"}
    with pytest.raises(ClientException) as refused:
        cloud.call(policies.create_scheduling_policy, name="p", fairsharePolicy={}, quotaSharePolicy=quota)
    assert str(refused.value) == (
        "A scheduling policy can have either fairsharePolicy or quotaSharePolicy, but not both."
    )
    with pytest.raises(ClientException, match=r"^Idle resource assignment strategy must be one of \[FIFO\]\.$"):
        cloud.call(
            policies.create_scheduling_policy, name="p", quotaSharePolicy={"idleResourceAssignmentStrategy": "LIFO"}
        )


def test_a_policy_for_quota_shares_stays_one(cloud):
    quota = {"idleResourceAssignmentStrategy": "FIFO"}
    arn = cloud.call(policies.create_scheduling_policy, name="p", quotaSharePolicy=quota)["arn"]
    described = cloud.call(policies.describe_scheduling_policies, arns=[arn])["schedulingPolicies"][0]
    assert (described["quotaSharePolicy"], described["fairsharePolicy"]) == (quota, None)
    cloud.call(policies.update_scheduling_policy, arn=arn, quotaSharePolicy=quota)
    with pytest.raises(ClientException) as refused:
        cloud.call(policies.update_scheduling_policy, arn=arn, fairsharePolicy={})
    assert str(refused.value) == "arn: p has a quotaSharePolicy, and always will (make another policy)"
    with pytest.raises(ClientException, match=r"^arn: shares has a fairsharePolicy, and always will"):
        cloud.call(policies.update_scheduling_policy, arn=cloud.policy(), quotaSharePolicy=quota)


def test_the_same_name_again_and_a_bad_name_are_refused(cloud):
    cloud.policy("p")
    with pytest.raises(ClientException, match=r"^Object already exists$"):
        cloud.policy("p")
    with pytest.raises(ClientException, match=r"^Scheduling policy name should match a valid pattern\.$"):
        cloud.policy("a policy")


def test_listed_by_arn_in_pages(cloud):
    arns = [cloud.policy(name) for name in ("b", "a")]
    first = cloud.call(policies.list_scheduling_policies, maxResults=1)
    second = cloud.call(policies.list_scheduling_policies, maxResults=1, nextToken=first["nextToken"])
    assert first["schedulingPolicies"] + second["schedulingPolicies"] == [{"arn": arns[1]}, {"arn": arns[0]}]


def test_a_policy_of_another_account_is_not_found(cloud):
    cloud.policy("p")
    other = "arn:aws:batch:us-west-2:999999999999:scheduling-policy/p"
    assert cloud.call(policies.describe_scheduling_policies, arns=[other])["schedulingPolicies"] == []
    with pytest.raises(ClientException) as refused:
        cloud.call(policies.delete_scheduling_policy, arn=other)
    assert str(refused.value) == f"SchedulingPolicy {other} not found."


def test_too_many_arns_are_refused(cloud):
    with pytest.raises(ClientException, match=r"^arns: 101 are too many \(at most 100\)$"):
        cloud.call(policies.describe_scheduling_policies, arns=["arn"] * 101)


def test_new_weights_order_the_waiting_jobs_at_once(cloud):
    cloud.environment()
    arn = cloud.policy(A=1, B=5)
    cloud.queue(policy=arn)
    cloud.submit("first", "A", seconds=60)
    waits_a, waits_b = cloud.submit("a", "A"), cloud.submit("b", "B")
    cloud.call(policies.update_scheduling_policy, arn=arn, fairsharePolicy=shares(("A", 5), ("B", 0.01)))
    cloud.clock.advance(60_000)
    assert (cloud.status(waits_a), cloud.status(waits_b)) == ("RUNNABLE", "RUNNING")


def test_an_update_without_policy_changes_nothing(cloud):
    arn = cloud.policy()
    before = describe(cloud, arn)
    cloud.call(policies.update_scheduling_policy, arn=arn)
    assert describe(cloud, arn) == before


def test_a_policy_in_use_is_not_deleted(cloud):
    cloud.fair_queue()
    arn = "arn:aws:batch:us-west-2:123456789012:scheduling-policy/shares"
    with pytest.raises(ClientException, match=r"^arn: shares is in use by job queue gpu \(delete the queue first\)$"):
        cloud.call(policies.delete_scheduling_policy, arn=arn)
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    cloud.call(policies.delete_scheduling_policy, arn=arn)
    assert cloud.call(policies.list_scheduling_policies)["schedulingPolicies"] == []
