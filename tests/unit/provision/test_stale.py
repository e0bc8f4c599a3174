from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairshare.model import OWNER_TAG, CapacityLimit, FairsharePolicy, JobQueue
from fairshare.provision.desired import Desired
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Plan, plan_setup, plan_teardown
from fairshare.provision.stale import Move, StalePlanError, refuse_moved, refuse_stale
from fairshare.provision.tags import RECORD_TAG

PLACE = {"region": "us-west-2", "account_id": "111122223333"}


def moves(plan: Plan, now: Observed) -> list[str]:
    """What `refuse_stale` tells; [] when the plan still holds."""
    try:
        refuse_stale(plan, now)
    except StalePlanError as error:
        return [str(move) for move in error.moves]
    return []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"environment": {"capacity_limits": (CapacityLimit(8),)}},
            "service environment ml-gpu: capacity_limits.NUM_INSTANCES was 16, is now 8",
        ),
        ({"queue": {"priority": 0}}, "job queue ml-gpu: priority was 10, is now 0"),
        (
            {"queue": {"tags": {OWNER_TAG: "ml", RECORD_TAG: "team"}}},
            "job queue ml-gpu: tags.team was search, is gone",
        ),
        ({"queue": {"status": "DELETING"}}, "job queue ml-gpu is gone"),
    ],
)
def test_every_field_that_moved_is_named_although_the_plan_did_not_change_it(
    desired: Desired, observed: Callable[..., Observed], changes: dict[str, Any], told: str
) -> None:
    plan = plan_setup(desired, observed(desired), **PLACE)

    assert not plan.has_changes
    assert moves(plan, observed(desired)) == []
    assert moves(plan, observed(desired, **changes)) == [told]


def test_a_share_that_was_added_is_named(
    desired: Desired, observed: Callable[..., Observed], weights: Callable[..., FairsharePolicy]
) -> None:
    now = weights(HIGHPRI="0.25", MIDPRI="0.5", LOWPRI="1.0", NEWPRI="4")

    assert moves(plan_setup(desired, observed(desired), **PLACE), observed(desired, policy={"fairshare_policy": now}))
    assert moves(
        plan_setup(desired, observed(desired), **PLACE), observed(desired, policy={"fairshare_policy": now})
    ) == ["scheduling policy ml-gpu: weight_factor.NEWPRI was not there, is now 4"]


def test_c01_c02_another_order_or_float_is_no_move(
    desired: Desired, observed: Callable[..., Observed], weights: Callable[..., FairsharePolicy]
) -> None:
    plan = plan_setup(desired, observed(desired), **PLACE)
    now = weights(MIDPRI="0.50", HIGHPRI="0.25")  # LOWPRI weighs 1, listed or not

    assert moves(plan, observed(desired, policy={"fairshare_policy": now})) == []


def test_tags_of_others_may_come_and_go(desired: Desired, observed: Callable[..., Observed]) -> None:
    plan = plan_setup(desired, observed(desired), **PLACE)
    tags = {**desired.job_queues[0].tags, "patch-group": "b", "aws:createdBy": "x"}

    assert moves(plan, observed(desired, queue={"tags": tags})) == []


def test_a_status_is_no_move(desired: Desired, observed: Callable[..., Observed]) -> None:
    plan = plan_setup(desired, observed(desired), **PLACE)

    assert moves(plan, observed(desired, queue={"status": "UPDATING", "status_reason": "wait"})) == []


def test_what_is_still_being_deleted_may_be_gone_by_now(desired: Desired, observed: Callable[..., Observed]) -> None:
    deleting = observed(desired, queue={"status": "DELETING"})
    gone = observed(desired)
    del gone.job_queues["ml-gpu"]
    plan = plan_setup(desired, deleting, **PLACE)

    assert moves(plan, gone) == []
    assert moves(plan, observed(desired)) == ["job queue ml-gpu is new"]


def test_a_teardown_minds_whose_it_is_and_nothing_else(desired: Desired, observed: Callable[..., Observed]) -> None:
    plan = plan_teardown(observed(desired), "ml", **PLACE)
    gone = observed(desired)
    del gone.job_queues["ml-gpu"]
    theirs = {**desired.job_queues[0].tags, OWNER_TAG: "other"}

    assert moves(plan, observed(desired, queue={"priority": 0, "state": "DISABLED"})) == []
    assert moves(plan, gone) == []
    assert moves(plan, observed(desired, queue={"tags": theirs})) == [
        f"job queue ml-gpu: tags.{OWNER_TAG} was ml, is now other"
    ]


def test_a_teardown_stops_when_there_is_more_to_delete_than_was_shown(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    plan = plan_teardown(observed(desired), "ml", **PLACE)
    now = observed(desired)
    new = JobQueue("ml-new", "arn", 1, ("arn",), tags={OWNER_TAG: "ml"})
    queues = {
        "ml-new": new,
        "ml-going": replace(new, name="ml-going", status="DELETING"),
        "theirs": replace(new, name="theirs", tags={}),
    }
    now.job_queues.update(queues)

    assert moves(plan, now) == ["job queue ml-new is new"]


def test_a_queue_made_again_during_a_teardown_is_not_deleted(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    plan = plan_teardown(observed(desired, queue={"status": "DELETING"}), "ml", **PLACE)

    assert moves(plan, observed(desired)) == ["job queue ml-gpu is new"]


def test_right_before_a_change_its_own_resource_counts(desired: Desired, observed: Callable[..., Observed]) -> None:
    plan = plan_setup(desired, observed(desired, queue={"priority": 0}), **PLACE)
    (change,) = plan.pending
    refuse_moved(change, observed(desired, queue={"priority": 0}).job_queues["ml-gpu"])

    with pytest.raises(StalePlanError) as caught:
        refuse_moved(change, observed(desired, queue={"priority": 7}).job_queues["ml-gpu"])

    assert caught.value.message == (
        "somebody else is changing this stack at the same time:\n  job queue ml-gpu: priority was 0, is now 7"
    )
    assert caught.value.moves == (Move("job queue ml-gpu", "priority", "0", "7"),)
    with pytest.raises(StalePlanError, match="job queue ml-gpu is gone"):
        refuse_moved(change, None)
