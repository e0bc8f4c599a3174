from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from fairshare.model import OWNER_TAG, FairshareError, JobQueue, ServiceError
from fairshare.provision.apply import RESUME_HINT, apply
from fairshare.provision.desired import Desired
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Change, Plan, plan_setup, plan_teardown
from fairshare.provision.stale import StalePlanError

NOTHING = Observed({}, {}, {})


class RecordingProvisioner:
    """Notes what it is asked to do, and answers each look with the next of what it is given."""

    def __init__(self, *looks: Observed, fail_at: str = "", hint: str | None = None) -> None:
        self.made: list[str] = []
        self.asked: list[tuple[set[str], str]] = []
        self._looks = iter(looks)
        self._fail_at = fail_at
        self._hint = hint

    def observe(self, names: Collection[str], stack: str) -> Observed:
        self.asked.append((set(names), stack))
        return next(self._looks)

    def execute(self, change: Change) -> None:
        if change.resource_type.value == self._fail_at:
            raise ServiceError("boom", http_status=400, hint=self._hint)
        self.made.append(change.label)


def plan_of(desired: Desired, observed: Observed) -> Plan:
    return plan_setup(desired, observed, region="us-west-2", account_id="111122223333")


def changed(found: Observed, **changes: object) -> Observed:
    """The same with another queue ``ml-gpu``."""
    return replace(found, job_queues={**found.job_queues, "ml-gpu": replace(found.job_queues["ml-gpu"], **changes)})


def ignore(change: Change) -> None:
    """Nobody is told."""


def test_changes_are_made_in_order_and_told_one_by_one(desired: Desired, observed: Callable[..., Observed]) -> None:
    found = observed(desired, queue={"priority": 0})
    found.service_environments.clear()
    provisioner, told = RecordingProvisioner(found, observed(desired)), []

    apply(plan_of(desired, found), provisioner, lambda change: told.append(change.label))

    assert provisioner.made == ["service environment ml-gpu", "job queue ml-gpu"]
    assert told == provisioner.made
    assert provisioner.asked == [({"ml-gpu", "ml-batch"}, "ml")] * 2


@pytest.mark.parametrize(("hint", "told"), [(None, RESUME_HINT), ("Do this.", f"Do this. {RESUME_HINT}")])
def test_the_first_failure_stops_and_says_how_to_go_on(desired: Desired, hint: str | None, told: str) -> None:
    provisioner, made = RecordingProvisioner(NOTHING, fail_at="scheduling_policy", hint=hint), []

    with pytest.raises(ServiceError, match="boom") as caught:
        apply(plan_of(desired, NOTHING), provisioner, lambda change: made.append(change.label))

    assert caught.value.hint == told
    assert made == ["service environment ml-gpu"]


def test_a_plan_without_changes_calls_nothing(desired: Desired, observed: Callable[..., Observed]) -> None:
    provisioner = RecordingProvisioner()

    apply(plan_of(desired, observed(desired)), provisioner, lambda change: pytest.fail(change.label))

    assert provisioner.made == []
    assert provisioner.asked == []


def test_what_moved_after_the_plan_was_made_stops_it_before_the_first_change(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    planned_on = observed(desired, queue={"priority": 0})
    provisioner = RecordingProvisioner(changed(planned_on, priority=3, state="DISABLED"))

    with pytest.raises(StalePlanError) as caught:
        apply(plan_of(desired, planned_on), provisioner, ignore)

    assert caught.value.message.splitlines() == [
        "stack ml has changed since this plan was made:",
        "  job queue ml-gpu: priority was 0, is now 3",
        "  job queue ml-gpu: state was ENABLED, is now DISABLED",
    ]
    assert caught.value.hint == (
        "Nothing was changed. Make a new plan of what there is now, and look at it before you apply it."
    )
    assert (caught.value.exit_code, caught.value.code) == (5, "StalePlan")
    assert provisioner.made == []


def test_what_somebody_else_changed_meanwhile_is_told_at_the_end(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    before = observed(desired, queue={"priority": 0})
    after = observed(desired, queue={"priority": 3}, policy={"tags": {OWNER_TAG: "ml"}})
    del after.job_queues["ml-batch"]

    with pytest.raises(StalePlanError) as caught:
        apply(plan_of(desired, before), RecordingProvisioner(before, after), ignore)

    assert caught.value.message.splitlines() == [
        "somebody else changed stack ml while this plan was applied:",
        "  scheduling policy ml-gpu: tags.team was search, is gone",
        "  scheduling policy ml-gpu: tags.fairshare:tags was team, is gone",
        "  job queue ml-gpu: priority was 10, is now 3",
        "  job queue ml-batch is gone",
    ]
    assert caught.value.hint == RESUME_HINT


def test_a_teardown_looks_only_before_its_first_change(desired: Desired, observed: Callable[..., Observed]) -> None:
    found = observed(desired)
    plan = plan_teardown(found, "ml", region="us-west-2", account_id="111122223333")
    provisioner = RecordingProvisioner(found)

    apply(plan, provisioner, ignore)

    assert len(provisioner.made) == 4


def test_an_error_keeps_its_kind(desired: Desired) -> None:
    provisioner = RecordingProvisioner(NOTHING, fail_at="job_queue")

    with pytest.raises(FairshareError) as caught:
        apply(plan_of(desired, NOTHING), provisioner, ignore)

    assert type(caught.value) is ServiceError
    assert provisioner.made == ["service environment ml-gpu", "scheduling policy ml-gpu"]


def test_a_queue_that_somebody_else_made_meanwhile_is_named(
    desired: Desired, observed: Callable[..., Observed]
) -> None:
    there = Observed({}, {}, {"ml-gpu": JobQueue("ml-gpu", "arn", 1, ("arn",), tags={})})
    provisioner = RecordingProvisioner(there)

    with pytest.raises(StalePlanError, match=r"\n  job queue ml-gpu is new$"):
        apply(plan_of(desired, NOTHING), provisioner, ignore)
