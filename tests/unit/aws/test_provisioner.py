from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.aws.provisioner import BatchProvisioner
from fairshare.model import (
    OWNER_TAG,
    InfeasibleError,
    ServiceError,
    WaitTimeoutError,
)
from fairshare.provision.apply import apply
from fairshare.provision.tags import RECORD_TAG


def test_setup_makes_everything_and_the_second_plan_is_all_noop(bench: Callable[..., Any]) -> None:
    here = bench(slow=2)

    here.setup(here.desired(team="search"))

    assert here.changes() == [
        "create_service_environment",
        "create_scheduling_policy",
        "create_job_queue",
        "create_job_queue",
    ]
    arn = "arn:aws:batch:us-west-2:111122223333"
    queue = here.fake.queues["ml-gpu"]
    assert queue["jobQueueType"] == "SAGEMAKER_TRAINING"
    assert queue["serviceEnvironmentOrder"] == [{"order": 1, "serviceEnvironment": f"{arn}:service-environment/ml-gpu"}]
    assert queue["schedulingPolicyArn"] == f"{arn}:scheduling-policy/ml-gpu"
    assert queue["tags"] == {"team": "search", RECORD_TAG: "team", OWNER_TAG: "ml"}
    assert "schedulingPolicyArn" not in here.fake.queues["ml-fifo"]
    assert here.fake.queues["ml-fifo"]["priority"] == 0
    assert here.fake.policies[f"{arn}:scheduling-policy/ml-gpu"]["fairsharePolicy"] == {
        "shareDecaySeconds": 3600,
        "computeReservation": 0,
        "shareDistribution": [
            {"shareIdentifier": "HIGHPRI", "weightFactor": 0.1},
            {"shareIdentifier": "LOWPRI", "weightFactor": 5.0},
        ],
    }
    assert not here.plan(here.desired(team="search")).has_changes


def test_setup_waits_until_each_resource_is_valid(bench: Callable[..., Any]) -> None:
    here = bench(slow=3, poll_ms=2_000)

    here.setup(here.desired())

    assert {detail["status"] for detail in (*here.fake.environments.values(), *here.fake.queues.values())} == {"VALID"}
    assert here.clock.now() == here.start + 3 * 3 * 2_000  # one environment and two queues; a policy has no status


def test_an_update_sends_only_what_changed(bench: Callable[..., Any]) -> None:
    here = bench(slow=1)
    here.setup(here.desired())
    here.changes()

    here.setup(here.desired(capacity=8, priority=3, low="8", team="search"))

    sent = {method: request for method, request in here.client.calls if not method.startswith(("describe", "list"))}
    assert sent["update_service_environment"] == {
        "serviceEnvironment": "ml-gpu",
        "capacityLimits": [{"maxCapacity": 8, "capacityUnit": "NUM_INSTANCES"}],
    }
    assert sent["update_job_queue"] == {"jobQueue": "ml-gpu", "priority": 3}
    assert sent["update_scheduling_policy"]["arn"].endswith(":scheduling-policy/ml-gpu")
    assert sent["update_scheduling_policy"]["fairsharePolicy"]["shareDistribution"][1]["weightFactor"] == 8.0
    assert sent["tag_resource"]["tags"] == {"team": "search", RECORD_TAG: "team"}
    assert here.changes().count("tag_resource") == 4
    assert not here.plan(here.desired(capacity=8, priority=3, low="8", team="search")).has_changes


def test_an_update_is_tried_again_while_an_earlier_change_settles(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    here.fake.slow = 3
    here.fake.update_job_queue(jobQueue="ml-gpu", priority=99)  # somebody else, just now
    plan = here.plan(here.desired())
    here.changes()
    tries: list[int] = []
    original = here.fake.update_job_queue

    def update(**request: Any) -> Any:
        tries.append(here.clock.now())
        if len(tries) == 3:
            here.fake.queues["ml-gpu"]["status"] = "VALID"
        return original(**request)

    here.fake.update_job_queue = update
    apply(plan, here.provisioner, lambda change: None)

    assert len(tries) == 3
    assert here.fake.queues["ml-gpu"]["priority"] == 10


def test_c04_teardown_disables_waits_deletes_and_waits(bench: Callable[..., Any]) -> None:
    here = bench(slow=3)
    here.setup(here.desired())
    here.changes()

    here.teardown()

    assert here.changes() == [
        "update_job_queue",
        "delete_job_queue",
        "update_job_queue",
        "delete_job_queue",
        "delete_scheduling_policy",
        "update_service_environment",
        "delete_service_environment",
    ]
    assert (here.fake.queues, here.fake.policies, here.fake.environments) == ({}, {}, {})
    here.teardown()
    assert here.changes() == []


def test_c04_what_is_deleting_or_gone_is_not_an_error(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    plan = here.plan_teardown()
    here.fake.slow = 2
    here.fake.queues["ml-gpu"].update(status="DELETING", state="DISABLED")
    del here.fake.queues["ml-fifo"]
    here.fake.policies.clear()
    here.changes()

    apply(plan, here.provisioner, lambda change: None)

    assert here.changes() == ["update_service_environment", "delete_service_environment"]
    assert here.fake.queues == {}


def test_c04_a_queue_that_vanishes_between_the_look_and_the_call_is_not_an_error(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())

    def gone(**request: Any) -> Any:
        here.fake.queues.pop(request["jobQueue"])
        return here.fake._settled(here.fake.queues, request["jobQueue"])

    here.fake.update_job_queue = gone
    here.teardown()

    assert here.fake.environments == {}


def test_c04_an_invalid_queue_can_be_deleted(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    here.fake.queues["ml-gpu"].update(status="INVALID", state="DISABLED")

    here.teardown()

    assert here.fake.queues == {}


def test_c04_jobs_that_came_after_the_plan_are_not_ended(bench: Callable[..., Any]) -> None:
    here = bench(slow=1)
    here.setup(here.desired())
    here.fake.jobs["ml-fifo"] = ["SUCCEEDED", "RUNNABLE", "RUNNING"]

    with pytest.raises(InfeasibleError) as caught:
        here.teardown()

    assert caught.value.message == (
        "job queue ml-fifo holds 2 jobs that have not ended: they came after this plan was made"
    )
    assert caught.value.hint is not None
    assert "The queue is DISABLED now" in caught.value.hint
    assert set(here.fake.queues) == {"ml-gpu", "ml-fifo"}
    here.setup(here.desired())
    assert here.fake.queues["ml-fifo"]["state"] == "ENABLED"
    here.teardown(end_jobs=True)
    assert here.fake.queues == {}


def test_c04_a_timeout_names_what_is_stuck(bench: Callable[..., Any]) -> None:
    here = bench(timeout_ms=60_000)
    here.setup(here.desired())
    here.fake.slow = 1_000_000

    with pytest.raises(WaitTimeoutError) as caught:
        here.teardown()

    assert caught.value.message == ("job queue ml-fifo is still being disabled after 60 s: it is UPDATING and DISABLED")
    assert caught.value.hint is not None
    assert "Run the same command again" in caught.value.hint
    assert here.clock.now() >= here.start + 60_000


def test_c04_a_timeout_of_a_deletion_that_somebody_else_began_says_so(bench: Callable[..., Any]) -> None:
    here = bench(timeout_ms=60_000)
    here.setup(here.desired())
    here.fake.slow = 1_000_000
    here.fake.queues["ml-fifo"]["state"] = "DISABLED"
    here.fake.delete_job_queue(jobQueue="ml-fifo")

    with pytest.raises(
        WaitTimeoutError, match="ml-fifo is still being deleted after 60 s: it is DELETING and DISABLED"
    ):
        here.teardown()


def test_c04_a_timeout_of_a_refusal_that_should_pass_says_what_aws_says(
    bench: Callable[..., Any], refusal: Callable[[str], Exception]
) -> None:
    here = bench(timeout_ms=60_000)
    here.setup(here.desired())

    def refuse(**request: Any) -> Any:
        raise refusal("Cannot delete, found existing JobQueue relationship")

    here.fake.delete_service_environment = refuse
    with pytest.raises(WaitTimeoutError) as caught:
        here.teardown()

    assert caught.value.message == (
        "Cannot delete service environment ml-gpu: Cannot delete, found existing JobQueue relationship "
        "(ClientException), still after 60 s; service environment ml-gpu is VALID and DISABLED"
    )


def test_c04_a_timeout_of_a_creation_names_what_is_stuck(bench: Callable[..., Any]) -> None:
    here = bench(slow=1_000_000, timeout_ms=60_000)

    with pytest.raises(WaitTimeoutError, match="environment ml-gpu is not VALID yet after 60 s: it is CREATING and EN"):
        here.setup(here.desired())


def test_c04_setup_right_after_teardown_waits_until_the_old_one_is_gone(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    here.fake.slow = 4
    here.fake.queues["ml-gpu"].update(status="DELETING")
    here.fake._pending[id(here.fake.queues["ml-gpu"])] = 4

    here.setup(here.desired())

    assert here.fake.queues["ml-gpu"]["status"] == "VALID"


def test_an_environment_that_is_still_tied_to_a_deleted_queue_is_tried_again(
    bench: Callable[..., Any], refusal: Callable[[str], Exception]
) -> None:
    here = bench()
    here.setup(here.desired())
    refusals = iter([refusal("Cannot delete, found existing JobQueue relationship")] * 2)
    original = here.fake.delete_service_environment

    def delete(**request: Any) -> Any:
        if error := next(refusals, None):
            raise error
        return original(**request)

    here.fake.delete_service_environment = delete
    here.teardown()

    assert here.fake.environments == {}


def test_a_queue_that_becomes_invalid_is_an_error_with_its_reason(bench: Callable[..., Any]) -> None:
    here = bench()
    original = here.fake.create_job_queue

    def create(**request: Any) -> Any:
        answer = original(**request)
        here.fake.queues[request["jobQueueName"]].update(status="INVALID", statusReason="no such environment")
        return answer

    here.fake.create_job_queue = create
    with pytest.raises(ServiceError, match="job queue ml-gpu became INVALID: no such environment"):
        here.setup(here.desired())


def test_observe_reads_what_is_named_and_what_is_tagged_and_nothing_else(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    environment = {
        "serviceEnvironmentType": "SAGEMAKER_TRAINING",
        "capacityLimits": [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
        "state": "ENABLED",
    }
    for name in ("foreign", "ml-cpu", "ml-gone"):
        here.fake.create_service_environment(serviceEnvironmentName=name, **environment)
    here.fake.environments["ml-gone"]["status"] = "DELETED"
    here.fake.slow = 1_000
    here.fake._pending[id(here.fake.environments["ml-gone"])] = 1_000

    observed = here.provisioner.observe({"ml-cpu", "ml-gone", "ml-nothing"}, "ml")

    assert set(observed.service_environments) == {"ml-gpu", "ml-cpu"}
    assert set(observed.scheduling_policies) == {"ml-gpu"}
    assert set(observed.job_queues) == {"ml-gpu", "ml-fifo"}
    assert {method for method, _ in here.client.calls if not method.startswith("create")} == {
        "describe_service_environments",
        "list_scheduling_policies",
        "describe_scheduling_policies",
        "describe_job_queues",
    }


def test_observe_also_reads_the_queues_of_others_that_use_what_is_ours(bench: Callable[..., Any]) -> None:
    here = bench()
    here.setup(here.desired())
    arn = "arn:aws:batch:us-west-2:111122223333"
    theirs = {"jobQueueType": "SAGEMAKER_TRAINING", "state": "ENABLED", "priority": 1}
    for name, environment in (("theirs", "ml-gpu"), ("unrelated", "other")):
        order = [{"order": 1, "serviceEnvironment": f"{arn}:service-environment/{environment}"}]
        here.fake.create_job_queue(jobQueueName=name, serviceEnvironmentOrder=order, **theirs)

    assert set(here.provisioner.observe((), "ml").job_queues) == {"ml-gpu", "ml-fifo", "theirs"}
    with pytest.raises(InfeasibleError, match="service environment ml-gpu is in use by job queue theirs"):
        here.teardown()
    assert set(here.fake.queues) == {"ml-gpu", "ml-fifo", "theirs", "unrelated"}


def test_observe_describes_at_most_100_policies_in_a_call(bench: Callable[..., Any]) -> None:
    here = bench()
    for number in range(205):
        here.fake.create_scheduling_policy(name=f"p{number}", fairsharePolicy={}, tags={OWNER_TAG: "ml"})

    observed = here.provisioner.observe((), "ml")

    assert len(observed.scheduling_policies) == 205
    described = [request["arns"] for method, request in here.client.calls if method == "describe_scheduling_policies"]
    assert [len(arns) for arns in described] == [100, 100, 5]


@pytest.mark.parametrize(("endpoint_url", "pause"), [(None, 2_000), ("http://127.0.0.1:5000", 50)])
def test_polling_is_quick_on_this_machine_only(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, endpoint_url: str | None, pause: int
) -> None:
    here = bench(slow=1)
    monkeypatch.setattr(here.session, "endpoint_url", endpoint_url)
    provisioner = BatchProvisioner(here.session, here.clock)

    apply(here.plan(here.desired()), provisioner, lambda change: None)

    assert here.clock.now() == here.start + 3 * pause
