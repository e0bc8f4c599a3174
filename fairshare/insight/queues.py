"""A queue as AWS has it now: what it may use and how it shares it. Works for queues that others made, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairshare.model import (
    FairsharePolicy,
    JobQueue,
    NotFoundError,
    QuotaShare,
    SchedulingPolicy,
    ServiceEnvironment,
)
from fairshare.provision.compare import name_of
from fairshare.provision.observed import Observed
from fairshare.provision.ports import Provisioner
from fairshare.scheduler.books import Terms
from fairshare.scheduler.policy import weight_text

NUM_INSTANCES: Final = "NUM_INSTANCES"
"""Unit of capacity that counts instances of any type."""


@dataclass(frozen=True)
class QueueView:
    """One job queue with its policy and its environments. ``policy`` is the fair-share one, None for other queues.

    ``quota_shares`` are by name; None where there are none.
    """

    queue: JobQueue
    policy: FairsharePolicy | None
    environments: tuple[ServiceEnvironment, ...]
    quota_shares: Mapping[str, QuotaShare] | None = None

    @property
    def weights(self) -> Mapping[str, str]:
        """Weight factor by share identifier, as the shortest decimal text (case C02); empty without a policy."""
        entries = self.policy.share_distribution if self.policy else ()
        return {entry.share_identifier: weight_text(entry.weight_factor) for entry in entries}

    @property
    def capacity(self) -> int:
        """Instances the queue may use at once: the limits of its environments added up."""
        return sum(limit.max_capacity for environment in self.environments for limit in environment.capacity_limits)

    @property
    def limits(self) -> Mapping[str, int]:
        """Instances by type where those are counted; {} elsewhere."""
        limits = [limit for environment in self.environments for limit in environment.capacity_limits]
        return {limit.capacity_unit: limit.max_capacity for limit in limits if limit.capacity_unit != NUM_INSTANCES}

    @property
    def quota_terms(self) -> Mapping[str, Terms] | None:
        """What each quota share may use; None where there are none."""
        if self.quota_shares is None:
            return None
        return {name: terms_of(share) for name, share in self.quota_shares.items()}


def terms_of(share: QuotaShare) -> Terms:
    """Return what a quota share may use, for the arithmetic of the model."""
    limits = {limit.capacity_unit: limit.max_capacity for limit in share.capacity_limits}
    return Terms(limits, share.sharing, share.borrow_limit, share.in_share_preemption)


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
        observed = provisioner.observe([name, *wanted], stack)
    fairshare = _fairshare_policy(observed.scheduling_policies, policy)
    return QueueView(
        queue=found,
        policy=fairshare,
        environments=tuple(
            environment
            for environment in observed.service_environments.values()
            if environment.arn in found.service_environments or environment.name in found.service_environments
        ),
        quota_shares=None if policy is None or fairshare is not None else _quota_shares(observed, name),
    )


def _quota_shares(observed: Observed, queue: str) -> dict[str, QuotaShare]:
    return {
        share.partition("/")[2]: found
        for share, found in sorted(observed.quota_shares.items())
        if share.partition("/")[0] == queue
    }


def _has_all(observed: Observed, names: list[str]) -> bool:
    known = set(observed.service_environments) | set(observed.scheduling_policies)
    return known.issuperset(names)


def _fairshare_policy(policies: Mapping[str, SchedulingPolicy], arn: str | None) -> FairsharePolicy | None:
    return next((policy.fairshare_policy for policy in policies.values() if policy.arn == arn), None)
