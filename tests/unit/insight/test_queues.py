import pytest

from fairshare.insight.queues import observe_queue
from fairshare.model import (
    CapacityLimit,
    FairsharePolicy,
    JobQueue,
    NotFoundError,
    SchedulingPolicy,
    ServiceEnvironment,
    ShareAttributes,
)
from fairshare.provision.observed import Observed

ARN = "arn:aws:batch:eu-west-1:111122223333:"
ENVIRONMENTS = [
    ServiceEnvironment("env", f"{ARN}service-environment/env", (CapacityLimit(16),)),
    ServiceEnvironment("other", f"{ARN}service-environment/other", (CapacityLimit(99),)),
]
POLICIES = [
    SchedulingPolicy(
        "policy",
        f"{ARN}scheduling-policy/policy",
        FairsharePolicy((ShareAttributes("HIGHPRI", "0.10000000149011612"), ShareAttributes("LOWPRI", "5.0"))),
    )
]
QUEUES = [
    JobQueue("fair", f"{ARN}job-queue/fair", 1, (ENVIRONMENTS[0].arn,), POLICIES[0].arn),
    JobQueue("fifo", f"{ARN}job-queue/fifo", 1, (ENVIRONMENTS[0].arn,)),
]


class Resources:
    """A provisioner that answers only by the names asked for, as for resources of others."""

    def __init__(self):
        self.asked = []

    def observe(self, names, stack):
        self.asked.append(list(names))
        return Observed(*({r.name: r for r in kind if r.name in names} for kind in (ENVIRONMENTS, POLICIES, QUEUES)))

    def execute(self, change):
        raise NotImplementedError


@pytest.mark.parametrize("queue", ["fair", f"{ARN}job-queue/fair"])
def test_c02_a_queue_of_others_comes_with_policy_and_capacity_and_weights_as_written(queue):
    resources = Resources()

    view = observe_queue(resources, queue, "")

    assert view.weights == {"HIGHPRI": "0.1", "LOWPRI": "5"}
    assert view.capacity == 16
    assert resources.asked == [["fair"], ["fair", "env", "policy"]]


def test_a_fifo_queue_has_no_policy_and_no_weights():
    view = observe_queue(Resources(), "fifo", "")

    assert (view.policy, view.weights, view.capacity) == (None, {}, 16)


def test_our_own_queue_is_read_in_one_go():
    class Ours(Resources):
        def observe(self, names, stack):
            self.asked.append(list(names))
            return Observed(*({r.name: r for r in kind} for kind in (ENVIRONMENTS, POLICIES, QUEUES)))

    resources = Ours()

    assert observe_queue(resources, "fair", "stack").capacity == 16
    assert len(resources.asked) == 1


def test_a_queue_that_does_not_exist_is_not_found():
    with pytest.raises(NotFoundError) as caught:
        observe_queue(Resources(), "gpu", "")

    assert caught.value.message == "there is no job queue gpu"
    assert "`fairshare setup`" in caught.value.hint
