"""A queue as AWS has it now: what it may use and how it shares it. Works for queues that others made, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairshare.model import FairsharePolicy, JobQueue, NotFoundError, SchedulingPolicy, ServiceEnvironment
from fairshare.provision.compare import name_of
from fairshare.provision.observed import Observed
from fairshare.provision.ports import Provisioner
from fairshare.scheduler.policy import weight_text


@dataclass(frozen=True)
class QueueView:
    """One job queue with its policy and its environments. ``policy`` is None for a FIFO (or quota-share) queue."""

    queue: JobQueue
    policy: FairsharePolicy | None
    environments: tuple[ServiceEnvironment, ...]

    @property
    def weights(self) -> Mapping[str, str]:
        """Weight factor by share identifier, as the shortest decimal text (case C02); empty without a policy."""
        entries = self.policy.share_distribution if self.policy else ()
        return {entry.share_identifier: weight_text(entry.weight_factor) for entry in entries}

    @property
    def capacity(self) -> int:
        """Instances the queue may use at once: the limits of its environments added up."""
        return sum(limit.max_capacity for environment in self.environments for limit in environment.capacity_limits)


def observe_queue(provisioner: Provisioner, queue: str, stack: str) -> QueueView:
    """Return a queue with what it refers to.

    Args:
        provisioner: describes resources.
        queue: name or ARN.
        stack: ours, so that its resources come in the same reading; any text for a queue that is not ours.

    Raises:
        NotFoundError: there is no such queue.
    """
    name = name_of(queue)
    observed = provisioner.observe([name], stack)
    if name not in observed.job_queues:
        raise NotFoundError(
            f"there is no job queue {name}",
            hint="`fairshare setup` makes the queues of fairshare.yaml; check the region and the account as well",
        )
    found = observed.job_queues[name]
    policy = found.scheduling_policy_arn
    wanted = [name_of(arn) for arn in (*found.service_environments, *([policy] if policy else []))]
    if not _has_all(observed, wanted):
        observed = provisioner.observe(wanted, stack)
    return QueueView(
        queue=found,
        policy=_fairshare_policy(observed.scheduling_policies, policy),
        environments=tuple(
            environment
            for environment in observed.service_environments.values()
            if environment.arn in found.service_environments or environment.name in found.service_environments
        ),
    )


def _has_all(observed: Observed, names: list[str]) -> bool:
    known = set(observed.service_environments) | set(observed.scheduling_policies)
    return known.issuperset(names)


def _fairshare_policy(policies: Mapping[str, SchedulingPolicy], arn: str | None) -> FairsharePolicy | None:
    return next((policy.fairshare_policy for policy in policies.values() if policy.arn == arn), None)
