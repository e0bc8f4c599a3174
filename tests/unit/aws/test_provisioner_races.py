"""What a call that changes something does when its answer is lost, when AWS is slow to agree, and when somebody else is
at work at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from fairshare.aws.resources import create_request
from fairshare.model import OWNER_TAG, CredentialsError, ServiceError, ThrottledError, WaitTimeoutError
from fairshare.provision.apply import apply
from fairshare.provision.stale import StalePlanError
from fairshare.provision.tags import RECORD_TAG


@pytest.mark.parametrize("answer", ["connection", 500])
def test_a_lost_answer_to_a_create_call_is_found_to_be_ours(
    bench: Callable[..., Any], refusal: Callable[..., Exception], answer: str | int
) -> None:
    here = bench()
    lost: Exception = ReadTimeoutError(endpoint_url="https://batch.us-west-2.amazonaws.com")
    if answer == 500:
        lost = refusal("null", "ServerException", 500)
    losses = iter([lost])

    def lose_the_first_answer() -> None:
        if error := next(losses, None):
            raise error

    here.fake.on_create = lose_the_first_answer
    here.setup(here.desired())

    assert here.changes().count("create_service_environment") == 2
    assert not here.plan(here.desired()).has_changes
    assert here.clock.now() == here.start + 2_000


def test_every_create_call_is_sent_without_retries_of_botocore(bench: Callable[..., Any]) -> None:
    here = bench()

    here.setup(here.desired())

    assert here.session.asked.count(("batch", 0)) == 4


def test_throttling_is_waited_out_and_told_when_it_does_not_end(
    bench: Callable[..., Any], refusal: Callable[..., Exception]
) -> None:
    here = bench()

    def throttle(**request: Any) -> Any:
        raise refusal("Too Many Requests", "TooManyRequestsException", 429)

    here.fake.create_service_environment = throttle
    with pytest.raises(ThrottledError, match="Cannot create service environment ml-gpu: Too Many Requests"):
        here.setup(here.desired())

    assert here.changes() == ["create_service_environment"] * 5
    assert here.clock.now() == here.start + 2_000 + 4_000 + 8_000 + 16_000


def test_a_refusal_is_not_tried_again(bench: Callable[..., Any], refusal: Callable[[str], Exception]) -> None:
    here = bench()

    def refuse(**request: Any) -> Any:
        raise refusal("Max capacity must be more than 0.")

    here.fake.create_service_environment = refuse
    with pytest.raises(ServiceError, match=r"Max capacity must be more than 0\."):
        here.setup(here.desired())

    assert here.changes() == ["create_service_environment"]


def test_a_deleted_name_that_is_not_free_at_once_is_waited_for(
    bench: Callable[..., Any], refusal: Callable[[str], Exception]
) -> None:
    here = bench()
    original = here.fake.create_service_environment
    refusals = iter([refusal("Object already exists")])

    def create(**request: Any) -> Any:
        if error := next(refusals, None):
            raise error
        return original(**request)

    here.fake.create_service_environment = create
    here.setup(here.desired())

    assert not here.plan(here.desired()).has_changes


# -- somebody else, at the same time ---------------------------------------------------------------------------------


def test_a_resource_that_somebody_else_makes_first_is_theirs(bench: Callable[..., Any]) -> None:
    here = bench()
    plan = here.plan(here.desired())
    (first, *_) = plan.changes
    theirs = create_request(here.desired(capacity=1).service_environments[0], lambda kind, name: name)
    here.fake.create_service_environment(**theirs)
    here.changes()

    with pytest.raises(StalePlanError) as caught:
        here.provisioner.execute(first)

    assert caught.value.message == (
        "somebody else is changing this stack at the same time:\n  service environment ml-gpu is new"
    )
    assert here.fake.environments["ml-gpu"]["capacityLimits"][0]["maxCapacity"] == 1
    assert here.changes() == ["create_service_environment"]


def test_a_resource_that_somebody_else_changes_first_is_left_as_it_is(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    plan = here.plan(here.desired(priority=3, team="search"))
    change = next(change for change in plan.pending if change.name == "ml-gpu" and "priority" in str(change.fields))
    here.fake.queues["ml-gpu"]["priority"] = 99
    here.changes()

    with pytest.raises(StalePlanError, match="job queue ml-gpu: priority was 10, is now 99"):
        here.provisioner.execute(change)

    assert here.changes() == []


def test_a_change_that_is_overwritten_at_once_is_told_with_the_value_that_is_there(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    original = here.fake.update_job_queue

    def update(**request: Any) -> Any:
        answer = original(**request)
        here.fake.queues["ml-gpu"]["priority"] = 99
        return answer

    here.fake.update_job_queue = update
    with pytest.raises(WaitTimeoutError) as caught:
        here.setup(here.desired(priority=3))

    assert caught.value.message == ("job queue ml-gpu shows priority 99, not 3 after 30 s: it is VALID and ENABLED")


def test_an_answer_from_before_the_change_is_not_taken_for_drift(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    original = here.fake.describe_job_queues
    stale = [dict(here.fake.queues["ml-gpu"], status="VALID")] * 3

    def describe(**request: Any) -> Any:
        if request.get("jobQueues") == ["ml-gpu"] and here.fake.queues["ml-gpu"]["priority"] == 3 and stale:
            return {"jobQueues": [stale.pop()]}
        return original(**request)

    here.fake.describe_job_queues = describe
    here.setup(here.desired(priority=3))

    assert stale == []
    assert not here.plan(here.desired(priority=3)).has_changes


def test_a_resource_that_lost_our_tag_is_not_deleted(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    plan = here.plan_teardown()
    here.fake.queues["ml-gpu"]["tags"] = {OWNER_TAG: "other"}
    here.changes()

    with pytest.raises(StalePlanError, match=r"job queue ml-gpu: tags\.fairshare:stack was ml, is now other"):
        here.provisioner.execute(next(change for change in plan.changes if change.name == "ml-gpu"))

    assert here.changes() == []


# -- tags and adoption -----------------------------------------------------------------------------------------------


def test_a_tag_that_left_the_file_is_removed_and_one_of_others_stays(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired(team="search", cost="7"))
    here.fake.queues["ml-gpu"]["tags"] |= {"patch-group": "a"}
    here.changes()

    here.setup(here.desired(team="search"))

    assert here.changes() == ["untag_resource", "tag_resource"] * 4
    assert here.fake.queues["ml-gpu"]["tags"] == {
        "team": "search",
        "patch-group": "a",
        RECORD_TAG: "team",
        OWNER_TAG: "ml",
    }


def test_a_tag_is_removed_before_it_leaves_the_list_of_ours(
    bench: Callable[..., Any], refusal: Callable[..., Exception]
) -> None:
    here = bench()
    here.setup(here.desired(cost="7"))

    def fail(**request: Any) -> Any:
        raise refusal("no", "AccessDeniedException", 403)

    original, here.fake.untag_resource = here.fake.untag_resource, fail
    with pytest.raises(CredentialsError):
        here.setup(here.desired())
    here.fake.untag_resource = original
    here.setup(here.desired())

    assert {tuple(queue["tags"]) for queue in here.fake.queues.values()} == {(OWNER_TAG,)}


def test_adoption_tags_first_so_that_a_failure_leaves_it_ours(
    bench: Callable[..., Any], refusal: Callable[[str], Exception]
) -> None:
    here = bench()
    here.fake.create_service_environment(
        serviceEnvironmentName="ml-gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
        state="ENABLED",
    )

    def refuse(**request: Any) -> Any:
        raise refusal("no")

    original, here.fake.update_service_environment = here.fake.update_service_environment, refuse
    with pytest.raises(ServiceError, match="no"):
        apply(here.plan(here.desired(), adopt=True), here.provisioner, lambda change: None)
    here.fake.update_service_environment = original
    here.setup(here.desired())

    assert here.fake.environments["ml-gpu"]["capacityLimits"][0]["maxCapacity"] == 16
