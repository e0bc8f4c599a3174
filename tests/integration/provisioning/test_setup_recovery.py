"""Whatever call fails, and however: what is left is a state from which the same command goes on to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from fairshare.aws.provisioner import BatchProvisioner
from fairshare.aws.session import AwsSession
from fairshare.local.inprocess import InProcessAws
from fairshare.model import FairshareError
from fairshare.provision.apply import RESUME_HINT, apply
from fairshare.provision.desired import desired_state
from fairshare.provision.plan import Plan, plan_setup, plan_teardown
from fairshare.scheduler.clock import Clock

PLACE = {"region": "us-east-1", "account_id": "123456789012"}
URL = "https://batch.us-east-1.amazonaws.com"


class Failing:
    """A client of Batch whose ``at``-th call that changes something fails: before it arrives, or after its effect."""

    def __init__(self, client: Any, at: int | None = None, *, after_effect: bool = False) -> None:
        self.changes = 0
        self._client = client
        self._at = at
        self._after_effect = after_effect

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name.startswith(("describe_", "list_")):
            return method

        def call(**request: Any) -> Any:
            self.changes += 1
            is_failing = self.changes == self._at
            if is_failing and not self._after_effect:
                raise ConnectTimeoutError(endpoint_url=URL)
            answer = method(**request)
            if is_failing:
                raise ReadTimeoutError(endpoint_url=URL)
            return answer

        return call


class OneClient(AwsSession):
    """A session whose client of Batch is given, and whose account is known without asking."""

    account_id = "123456789012"  # type: ignore[assignment]

    def __init__(self, batch: Any) -> None:
        super().__init__(region="us-east-1")
        self._batch = batch

    def client(self, service: str, *, retries: int | None = None) -> Any:
        return self._batch


class Step:
    """A command, as often as need be, each time on a client of its own."""

    def __init__(self, batch: Any, clock: Clock, make_plan: Callable[[BatchProvisioner], Plan]) -> None:
        self._batch = batch
        self._clock = clock
        self._make_plan = make_plan

    def run(self, at: int | None = None, *, after_effect: bool = False) -> int:
        """Plan and apply; return the number of calls that changed something."""
        client = Failing(self._batch, at, after_effect=after_effect)
        provisioner = BatchProvisioner(OneClient(client), self._clock)
        apply(self._make_plan(provisioner), provisioner, lambda change: None)
        return client.changes

    def plan(self) -> Plan:
        """Plan only."""
        return self._make_plan(BatchProvisioner(OneClient(self._batch), self._clock))


@pytest.fixture
def setup_step(aws: InProcessAws, batch: Any, folder: Any) -> Callable[..., Step]:
    """`setup` of the project with these changes."""

    def make(*, adopt: bool = False, **changes: Any) -> Step:
        desired = desired_state(folder.write(**changes))
        return Step(
            batch,
            aws.clock,
            lambda provisioner: plan_setup(
                desired, provisioner.observe(desired.names, desired.stack), **PLACE, adopt=adopt
            ),
        )

    return make


@pytest.fixture
def teardown_step(aws: InProcessAws, batch: Any) -> Step:
    """`teardown` of the stack."""
    return Step(batch, aws.clock, lambda provisioner: plan_teardown(provisioner.observe((), "lab"), "lab", **PLACE))


def every_failure(step: Step, begin: Callable[[], object]) -> Iterator[FairshareError]:
    """Let each call fail in both ways, on a fresh beginning, and go on; yield what the command raised, if it did."""
    begin()
    calls = step.run()
    assert not step.plan().has_changes
    assert calls >= 4
    for after_effect in (False, True):
        for at in range(1, calls + 1):
            begin()
            assert step.plan().has_changes
            try:
                step.run(at, after_effect=after_effect)
            except FairshareError as error:
                yield error
            step.run()
            assert not step.plan().has_changes, (at, after_effect)
            assert step.run() == 0


def test_setup_goes_on_after_any_failure_of_a_creation(
    setup_step: Callable[..., Step], teardown_step: Step, stack_now: Callable[[], dict[str, Any]]
) -> None:
    errors = list(every_failure(setup_step(), teardown_step.run))

    assert errors == []  # a creation whose answer is lost is tried again
    assert stack_now() == {"capacity": 4, "priority": 1, "low": "3"}


def test_setup_goes_on_after_any_failure_of_an_update(
    setup_step: Callable[..., Step], stack_now: Callable[[], dict[str, Any]]
) -> None:
    before = setup_step()
    before.run()
    after = setup_step(capacity=9, priority=2, low="7", tags="{owner: me}")

    errors = list(every_failure(after, before.run))

    assert len(errors) == 2 * 12  # untag, tag and update of four resources
    assert all(error.message.startswith(("Cannot tag ", "Cannot update ")) for error in errors)
    assert all(error.hint is not None and error.hint.endswith(RESUME_HINT) for error in errors)
    assert stack_now() == {"capacity": 9, "priority": 2, "low": "7"}


def test_setup_goes_on_after_any_failure_of_an_adoption(
    setup_step: Callable[..., Step], teardown_step: Step, batch: Any
) -> None:
    def begin() -> None:
        setup_step(capacity=9, priority=2, low="7").run()
        queues = batch.describe_job_queues()["jobQueues"]
        arns = [queue["jobQueueArn"] for queue in queues] + [queues[1]["schedulingPolicyArn"]]
        arns += [queues[0]["serviceEnvironmentOrder"][0]["serviceEnvironment"]]
        for arn in arns:
            batch.untag_resource(resourceArn=arn, tagKeys=["fairshare:stack", "fairshare:tags"])

    begin()
    setup_step(adopt=True).run()
    adoption = setup_step(adopt=True)

    assert len(list(every_failure(adoption, begin))) == 2 * 8


def test_teardown_goes_on_after_any_failure(setup_step: Callable[..., Step], teardown_step: Step, batch: Any) -> None:
    setup = setup_step()

    errors = list(every_failure(teardown_step, setup.run))

    assert len(errors) == 2 * 7  # disable and delete two queues and an environment, delete a policy
    assert batch.describe_job_queues()["jobQueues"] == []
    assert batch.list_scheduling_policies()["schedulingPolicies"] == []
    assert batch.describe_service_environments()["serviceEnvironments"] == []
