from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from fairshare.config.project import FairshareConfig, Project, QueueConfig
from fairshare.model import (
    OWNER_TAG,
    CapacityLimit,
    FairsharePolicy,
    InfeasibleError,
    JobQueue,
    ServiceEnvironment,
    ShareAttributes,
)
from fairshare.provision.compare import FieldChange
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Action, Change, Plan, plan_setup, plan_teardown
from fairshare.provision.tags import RECORD_TAG

NOTHING = Observed({}, {}, {})


def setup_plan(desired: Desired, observed: Observed, *, adopt: bool = False) -> Plan:
    return plan_setup(desired, observed, region="us-west-2", account_id="111122223333", adopt=adopt)


def teardown_plan(
    observed: Observed, stack: str = "ml", *, active_jobs: Mapping[str, int] | None = None, end_jobs: bool = False
) -> Plan:
    return plan_teardown(
        observed, stack, region="us-west-2", account_id="111122223333", active_jobs=active_jobs, end_jobs=end_jobs
    )


def actions(plan: Plan) -> list[tuple[str, str, str]]:
    return [(change.action.value, change.resource_type.value, change.name) for change in plan.changes]


def only_update(plan: Plan) -> Change:
    (change,) = plan.pending
    assert change.action is Action.UPDATE
    return change


# -- create, update, no change ---------------------------------------------------------------------------------------


def test_an_empty_account_gets_environments_then_policies_then_queues(desired: Desired) -> None:
    plan = setup_plan(desired, NOTHING)

    assert actions(plan) == [
        ("CREATE", "service_environment", "ml-gpu"),
        ("CREATE", "scheduling_policy", "ml-gpu"),
        ("CREATE", "job_queue", "ml-gpu"),
        ("CREATE", "job_queue", "ml-batch"),
    ]
    assert plan.has_changes
    assert plan.changes[0].arn is None
    assert FieldChange("capacity_limits.NUM_INSTANCES", None, "16") in plan.changes[0].fields
    assert FieldChange("weight_factor.LOWPRI", None, "1") in plan.changes[1].fields


def test_what_is_right_is_an_explicit_noop(desired: Desired, observed: Callable[..., Observed]) -> None:
    plan = setup_plan(desired, observed(desired))

    assert {change.action for change in plan.changes} == {Action.NOOP}
    assert len(plan.changes) == 4
    assert not plan.has_changes
    assert plan.pending == ()
    assert plan.warnings == ()


def test_c01_the_order_of_a_list_and_missing_defaults_are_no_change(
    desired: Desired, observed: Callable[..., Observed], weights: Callable[..., FairsharePolicy]
) -> None:
    for answer in (
        weights(LOWPRI="1.0", HIGHPRI="0.25", MIDPRI="0.5"),
        weights(MIDPRI="0.5", HIGHPRI="0.25"),  # LOWPRI has the weight of shares that are not listed
        weights(LOWPRI="1", HIGHPRI="0.25", MIDPRI="0.5", OTHER="1"),
    ):
        plan = setup_plan(desired, observed(desired, policy={"fairshare_policy": answer}))
        assert not plan.has_changes, answer


def test_c01_a_prefix_entry_of_weight_1_is_not_the_default(
    project: Callable[..., Project], observed: Callable[..., Observed]
) -> None:
    wanted = desired_state(project(shares={"TEAM*": "1"}))
    without = FairsharePolicy((), share_decay_seconds=3600)

    change = only_update(setup_plan(wanted, observed(wanted, policy={"fairshare_policy": without})))

    assert change.fields == (FieldChange("weight_factor.TEAM*", None, "1"),)


def test_c02_a_weight_read_back_as_a_32_bit_float_is_no_change(
    project: Callable[..., Project], observed: Callable[..., Observed], weights: Callable[..., FairsharePolicy]
) -> None:
    wanted = desired_state(project(shares={"A": "0.10", "B": "0.7"}))
    same = weights(A="0.10000000149011612", B="0.699999988079071")
    other = weights(A="0.10001000016927719", B="0.699999988079071")

    assert not setup_plan(wanted, observed(wanted, policy={"fairshare_policy": same})).has_changes
    change = only_update(setup_plan(wanted, observed(wanted, policy={"fairshare_policy": other})))
    assert change.fields == (FieldChange("weight_factor.A", "0.10001", "0.1"),)


def test_weights_decay_and_reservation_are_changed_in_place(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    old = FairsharePolicy((ShareAttributes("HIGHPRI", "1"), ShareAttributes("OLD", "9")), 0, 50)

    change = only_update(setup_plan(desired, observed(desired, policy={"fairshare_policy": old})))

    assert set(change.fields) == {
        FieldChange("weight_factor.HIGHPRI", "1", "0.25"),
        FieldChange("weight_factor.MIDPRI", None, "0.5"),
        FieldChange("weight_factor.OLD", "9", None),
        FieldChange("share_decay_seconds", "0", "3600"),
        FieldChange("compute_reservation", "50", "0"),
    }
    assert change.arn == "arn:aws:batch:us-west-2:111122223333:scheduling-policy/ml-gpu"


@pytest.mark.parametrize(
    ("kind", "answer", "field"),
    [
        (
            "environment",
            {"capacity_limits": (CapacityLimit(8),)},
            FieldChange("capacity_limits.NUM_INSTANCES", "8", "16"),
        ),
        ("environment", {"state": "DISABLED"}, FieldChange("state", "DISABLED", "ENABLED")),
        ("queue", {"priority": 0}, FieldChange("priority", "0", "10")),
        ("queue", {"state": "DISABLED"}, FieldChange("state", "DISABLED", "ENABLED")),
        ("queue", {"tags": {RECORD_TAG: "team", OWNER_TAG: "ml"}}, FieldChange("tags.team", None, "search")),
        (
            "queue",
            {"service_environments": ("arn:aws:batch:us-west-2:111122223333:service-environment/other",)},
            FieldChange("service_environment", "other", "ml-gpu"),
        ),
    ],
)
def test_one_field_that_differs_is_one_update(
    desired: Desired, observed: Callable[..., Observed], kind: str, answer: dict[str, object], field: FieldChange
) -> None:
    change = only_update(setup_plan(desired, observed(desired, **{kind: answer})))

    assert change.fields == (field,)


def test_tags_of_others_are_left_alone(desired: Desired, observed: Callable[..., Observed]) -> None:
    tags = {OWNER_TAG: "ml", RECORD_TAG: "team", "team": "search", "aws:cloudformation:stack-name": "x", "cost": "7"}

    assert not setup_plan(desired, observed(desired, queue={"tags": tags})).has_changes


def test_c05_replacing_one_policy_by_another_is_an_update_in_place(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    other = "arn:aws:batch:us-west-2:111122223333:scheduling-policy/other"

    change = only_update(setup_plan(desired, observed(desired, queue={"scheduling_policy_arn": other})))

    assert change.fields == (FieldChange("scheduling_policy", "other", "ml-gpu"),)


def test_a_queue_that_is_still_being_deleted_is_created_again(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    plan = setup_plan(desired, observed(desired, queue={"status": "DELETING", "scheduling_policy_arn": None}))

    (change,) = plan.pending
    assert (change.action, change.name) == (Action.CREATE, "ml-gpu")
    assert isinstance(change.observed, JobQueue)
    assert change.observed.status == "DELETING"


# -- refusals --------------------------------------------------------------------------------------------------------


def test_c05_a_fifo_queue_cannot_get_shares(desired: Desired, observed: Callable[..., Observed]) -> None:
    with pytest.raises(InfeasibleError) as caught:
        setup_plan(desired, observed(desired, queue={"scheduling_policy_arn": None}))

    assert caught.value.message == (
        "job queue ml-gpu (queues.gpu) is FIFO in AWS and has shares in fairshare.yaml: AWS cannot add a scheduling "
        "policy to a queue"
    )
    assert caught.value.hint is not None
    assert "Give it a new key, for example `gpu-2`" in caught.value.hint
    assert "not lost" in caught.value.hint


def test_c05_a_fair_share_queue_cannot_become_fifo(
    desired: Desired, observed: Callable[..., Observed], project: Callable[..., Project]
) -> None:
    without = desired_state(project(queues={"gpu": QueueConfig(service_environment="gpu", priority=10)}))

    with pytest.raises(InfeasibleError, match=r"has shares in AWS and is FIFO in fairshare\.yaml: AWS cannot take"):
        setup_plan(without, observed(desired))


def test_an_environment_that_counts_by_type_cannot_be_changed(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    by_type = {"capacity_limits": (CapacityLimit(3, "ml.g5.xlarge"), CapacityLimit(1, "ml.c5.large"))}

    with pytest.raises(InfeasibleError, match=r"\.gpu\) counts ml\.c5\.large, ml\.g5\.xlarge in AWS"):
        setup_plan(desired, observed(desired, environment=by_type))


def test_a_quota_share_policy_and_a_compute_queue_cannot_be_changed(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    with pytest.raises(InfeasibleError) as caught:
        setup_plan(desired, observed(desired, policy={"fairshare_policy": None}, queue={"service_environments": ()}))

    assert caught.value.message.splitlines() == [
        "scheduling policy ml-gpu (queues.gpu) is a quota-share policy in AWS: the type of a policy cannot be changed",
        "job queue ml-gpu (queues.gpu) is a queue for compute jobs in AWS, not for SageMaker training jobs: that "
        "cannot be changed",
    ]


@pytest.mark.parametrize("adopt", [False, True])
def test_a_resource_of_another_stack_is_never_touched(
    desired: Desired, observed: Callable[..., Observed], adopt: bool
) -> None:
    with pytest.raises(InfeasibleError) as caught:
        setup_plan(desired, observed(desired, environment={"tags": {OWNER_TAG: "other"}}), adopt=adopt)

    assert caught.value.message == (
        "service environment ml-gpu (service_environments.gpu) exists already and belongs to stack other"
    )
    assert caught.value.hint == (
        "A resource of another stack is never changed, with --adopt neither: choose another `stack` or key in "
        "fairshare.yaml."
    )


# -- adoption --------------------------------------------------------------------------------------------------------


def test_what_fairshare_did_not_make_is_refused_with_the_way_to_adopt_it(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    with pytest.raises(InfeasibleError) as caught:
        setup_plan(desired, observed(desired, environment={"tags": {}}, queue={"tags": {"team": "x"}}))

    assert caught.value.message.splitlines() == [
        "service environment ml-gpu (service_environments.gpu) exists already and was not made by fairshare (it has no "
        "tag fairshare:stack)",
        "job queue ml-gpu (queues.gpu) exists already and was not made by fairshare (it has no tag fairshare:stack)",
    ]
    assert caught.value.hint == (
        "If it is yours, `fairshare setup --adopt` shows what taking it over would change; else choose another `stack` "
        "or key in fairshare.yaml."
    )


def test_adoption_sets_the_tags_and_corrects_what_differs_in_place(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    found = observed(desired, queue={"tags": {"team": "ads", "cost": "7"}, "priority": 3})

    plan = setup_plan(desired, found, adopt=True)

    change = only_update(plan)
    assert change.adopts
    assert set(change.fields) == {
        FieldChange("priority", "3", "10"),
        FieldChange("tags.team", "ads", "search"),
        FieldChange(f"tags.{RECORD_TAG}", None, "team"),
        FieldChange(f"tags.{OWNER_TAG}", None, "ml"),
    }
    assert plan.warnings == (
        "job queue ml-gpu was not made by fairshare: once it is adopted, teardown deletes it, too",
    )


def test_adoption_changes_nothing_about_what_is_ours(desired: Desired, observed: Callable[..., Observed]) -> None:
    assert not setup_plan(desired, observed(desired), adopt=True).has_changes
    drifted = only_update(setup_plan(desired, observed(desired, queue={"priority": 3}), adopt=True))
    assert not drifted.adopts


def test_c05_adoption_does_not_replace_either(desired: Desired, observed: Callable[..., Observed]) -> None:
    fifo = observed(desired, queue={"tags": {}, "scheduling_policy_arn": None})

    with pytest.raises(InfeasibleError, match="AWS cannot add a scheduling policy to a queue"):
        setup_plan(desired, fifo, adopt=True)


# -- tags ------------------------------------------------------------------------------------------------------------


def test_a_tag_that_left_the_file_goes_and_one_of_others_stays(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    tags = {OWNER_TAG: "ml", RECORD_TAG: "cost team", "team": "search", "cost": "7", "patch-group": "a"}

    change = only_update(setup_plan(desired, observed(desired, queue={"tags": tags})))

    assert set(change.fields) == {
        FieldChange("tags.cost", "7", None),
        FieldChange(f"tags.{RECORD_TAG}", "cost team", "team"),
    }


def test_the_last_tag_that_leaves_the_file_takes_the_list_with_it(
    project: Callable[..., Project], observed: Callable[..., Observed], desired: Desired
) -> None:
    without = desired_state(project(tags={}))

    plan = setup_plan(without, observed(desired))

    assert {change.fields for change in plan.changes} == {
        (FieldChange("tags.team", "search", None), FieldChange(f"tags.{RECORD_TAG}", "team", None))
    }


# -- shares and warnings ---------------------------------------------------------------------------------------------


def test_shares_tell_the_effective_fraction_now_and_before(
    project: Callable[..., Project], observed: Callable[..., Observed], weights: Callable[..., FairsharePolicy]
) -> None:
    desired = desired_state(project(shares={"HIGHPRI": "1", "MIDPRI": "3", "NEWPRI": "5.0"}))
    before = weights(HIGHPRI="1", MIDPRI="1")

    plan = setup_plan(desired, observed(desired, policy={"fairshare_policy": before}))

    assert [(s.queue, s.share_identifier, s.weight_factor, s.fraction, s.fraction_before) for s in plan.shares] == [
        ("gpu", "HIGHPRI", "1", Fraction(15, 23), Fraction(1, 2)),
        ("gpu", "MIDPRI", "3", Fraction(5, 23), Fraction(1, 2)),
        ("gpu", "NEWPRI", "5", Fraction(3, 23), None),
    ]
    assert {share.fraction_before for share in setup_plan(desired, NOTHING).shares} == {None}


def test_a_policy_without_shares_is_allowed(project: Callable[..., Project]) -> None:
    gpu = QueueConfig(service_environment="gpu", fairshare=FairshareConfig())

    assert setup_plan(desired_state(project(queues={"gpu": gpu})), NOTHING).shares == ()


def test_a_sick_resource_and_one_that_the_file_no_longer_has_are_warnings(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    found = observed(desired, queue={"status": "INVALID", "status_reason": "no environment"})
    arn = "arn:aws:batch:us-west-2:111122223333:service-environment/ml-old"
    old = ServiceEnvironment("ml-old", arn, (CapacityLimit(1),), tags={OWNER_TAG: "ml"})
    going = replace(old, name="ml-going", status="DELETING")
    foreign = replace(old, name="ml-foreign", tags={OWNER_TAG: "other"})
    found.service_environments.update({env.name: env for env in (old, going, foreign)})

    plan = setup_plan(desired, found)

    assert plan.warnings == (
        "job queue ml-gpu is INVALID in AWS: no environment",
        "service environment ml-old carries the tag of stack ml but is not in fairshare.yaml: it stays as it is",
    )
    assert not plan.has_changes


# -- teardown --------------------------------------------------------------------------------------------------------


def test_c04_teardown_deletes_queues_then_policies_then_environments(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    plan = teardown_plan(observed(desired))

    assert actions(plan) == [
        ("DELETE", "job_queue", "ml-batch"),
        ("DELETE", "job_queue", "ml-gpu"),
        ("DELETE", "scheduling_policy", "ml-gpu"),
        ("DELETE", "service_environment", "ml-gpu"),
    ]
    assert [change.key for change in plan.changes] == ["batch", "gpu", "gpu", "gpu"]


def test_teardown_touches_only_what_carries_the_tag(desired: Desired, observed: Callable[..., Observed]) -> None:
    found = observed(desired, environment={"tags": {}}, policy={"tags": {OWNER_TAG: "other"}})

    assert actions(teardown_plan(found)) == [("DELETE", "job_queue", "ml-batch"), ("DELETE", "job_queue", "ml-gpu")]


def test_what_a_queue_of_others_uses_is_not_deleted(desired: Desired, observed: Callable[..., Observed]) -> None:
    found = observed(desired)
    theirs = replace(found.job_queues["ml-gpu"], name="theirs", tags={OWNER_TAG: "other"})
    found.job_queues["theirs"] = theirs

    with pytest.raises(InfeasibleError) as caught:
        teardown_plan(found)

    assert caught.value.message.splitlines() == [
        "service environment ml-gpu is in use by job queue theirs, which is not of stack ml",
        "scheduling policy ml-gpu is in use by job queue theirs, which is not of stack ml",
    ]
    assert caught.value.hint == (
        "Move that queue to another one, or delete it, first: teardown touches only its own stack."
    )
    found.job_queues["theirs"] = replace(theirs, status="DELETING")
    assert len(teardown_plan(found).changes) == 4


def test_c04_a_second_teardown_has_nothing_to_do() -> None:
    assert not teardown_plan(NOTHING).has_changes


def test_c04_a_queue_with_jobs_is_refused_until_it_is_said(desired: Desired, observed: Callable[..., Observed]) -> None:
    jobs = {"ml-gpu": 3, "ml-batch": 1, "unrelated": 5}
    with pytest.raises(InfeasibleError) as caught:
        teardown_plan(observed(desired), active_jobs=jobs)

    assert caught.value.message.splitlines() == [
        "job queue ml-batch holds 1 job that has not ended",
        "job queue ml-gpu holds 3 jobs that have not ended",
    ]
    assert caught.value.hint is not None
    assert "`--end-jobs`" in caught.value.hint
    plan = teardown_plan(observed(desired), active_jobs=jobs, end_jobs=True)
    assert plan.warnings[1] == "job queue ml-gpu holds 3 jobs that have not ended: deleting the queue ends them"
    assert {change.end_jobs for change in plan.changes} == {True}
    assert teardown_plan(observed(desired), active_jobs={"ml-gpu": 0}).warnings == ()
