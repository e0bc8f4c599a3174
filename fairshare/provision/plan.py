"""The plan: what `setup` or `teardown` would change, computed from desired and observed state and nothing else.

A plan never replaces a resource. What AWS cannot change in place is refused with the way out (case C05), because the
jobs of a queue would be lost with it. A resource that does not carry the stack's ownership tag is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from fairshare.model import (
    OWNER_TAG,
    FairsharePolicy,
    InfeasibleError,
    JobQueue,
    ResourceType,
    SchedulingPolicy,
    ServiceEnvironment,
)
from fairshare.provision.compare import FieldChange, ObservedResource, changed_fields, weight_text
from fairshare.provision.desired import Desired, DesiredEnvironment, DesiredQueue, DesiredResource
from fairshare.scheduler.policy import share_fractions

if TYPE_CHECKING:
    from fairshare.provision.ports import Observed

_GOING: Final = frozenset({"DELETING", "DELETED"})
_DELETION_ORDER: Final = (ResourceType.JOB_QUEUE, ResourceType.SCHEDULING_POLICY, ResourceType.SERVICE_ENVIRONMENT)
_LABELS: Final = {
    ResourceType.SERVICE_ENVIRONMENT: ("service environment", "service_environments"),
    ResourceType.SCHEDULING_POLICY: ("scheduling policy", "queues"),
    ResourceType.JOB_QUEUE: ("job queue", "queues"),
}
"""Words for people, and the section of ``fairshare.yaml`` a resource comes from."""


class Action(StrEnum):
    """What happens to a resource. NOOP is explicit: it was looked at and is right."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    NOOP = "NOOP"


@dataclass(frozen=True)
class Change:
    """One resource and what happens to it.

    ``desired`` is None with DELETE and ``observed`` with CREATE, unless a resource of that name is still being deleted:
    then the new one can only be made once that is gone.
    """

    action: Action
    resource_type: ResourceType
    name: str
    key: str
    fields: tuple[FieldChange, ...] = ()
    desired: DesiredResource | None = None
    observed: ObservedResource | None = None

    @property
    def arn(self) -> str | None:
        """ARN of the resource; None as long as it does not exist."""
        return None if self.observed is None else self.observed.arn

    @property
    def label(self) -> str:
        """For people: ``job queue search-ml-gpu``."""
        return f"{_LABELS[self.resource_type][0]} {self.name}"


@dataclass(frozen=True)
class ShareEffect:
    """What the plan makes of one share: its weight, and its portion of the queue when every share is busy."""

    queue: str
    """Key of the queue in ``fairshare.yaml``."""
    share_identifier: str
    weight_factor: str
    fraction: Fraction
    fraction_before: Fraction | None
    """None when the queue or the share is new."""


@dataclass(frozen=True)
class Plan:
    """Changes in the order in which they have to be made."""

    stack: str
    region: str
    account_id: str
    changes: tuple[Change, ...]
    shares: tuple[ShareEffect, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def pending(self) -> tuple[Change, ...]:
        """The changes without those that are NOOP."""
        return tuple(change for change in self.changes if change.action is not Action.NOOP)

    @property
    def has_changes(self) -> bool:
        """Whether applying the plan would do anything."""
        return bool(self.pending)


def plan_setup(desired: Desired, observed: Observed, *, region: str, account_id: str) -> Plan:
    """Compare what a project asks for with what exists.

    Order: environments, policies, queues, because a queue names the other two. Resources of the stack that the file no
    longer has stay as they are and are named in the warnings.

    Raises:
        InfeasibleError: a resource of that name belongs to somebody else, or what is asked for cannot be changed in
            place (case C05). One line for each problem.
    """
    existing = _by_type(observed)
    changes: list[Change] = []
    refusals: list[_Refusal] = []
    for wanted in desired.resources:
        found = existing[wanted.resource_type].get(wanted.name)
        if found is None or _is_going(found):
            changes.append(_change(Action.CREATE, wanted, found, changed_fields(wanted, None)))
        elif refusal := _refusal(wanted, found, desired.stack):
            refusals.append(refusal)
        else:
            fields = changed_fields(wanted, found)
            changes.append(_change(Action.UPDATE if fields else Action.NOOP, wanted, found, fields))
    if refusals:
        hints = dict.fromkeys(refusal.hint for refusal in refusals)
        raise InfeasibleError("\n".join(refusal.message for refusal in refusals), hint=" ".join(hints))
    return Plan(
        stack=desired.stack,
        region=region,
        account_id=account_id,
        changes=tuple(changes),
        shares=tuple(_share_effects(desired, observed)),
        warnings=(*_health_warnings(changes), *_left_over_warnings(desired, observed)),
    )


def plan_teardown(
    observed: Observed,
    stack: str,
    *,
    region: str,
    account_id: str,
    active_jobs: Mapping[str, int] | None = None,
    end_jobs: bool = False,
) -> Plan:
    """Plan the deletion of everything that carries the stack's ownership tag, and of nothing else.

    Order: queues, policies, environments (case C04). Deleting a queue ends its jobs.

    Args:
        observed: what exists.
        stack: whose resources go.
        region: shown with the plan.
        account_id: shown with the plan.
        active_jobs: number of jobs that have not ended, by queue name.
        end_jobs: delete queues although they hold such jobs.

    Raises:
        InfeasibleError: a queue holds jobs that have not ended, and ``end_jobs`` is False.
    """
    changes = [
        Change(Action.DELETE, resource_type, name, name.removeprefix(f"{stack}-"), observed=found)
        for resource_type in _DELETION_ORDER
        for name, found in sorted(_by_type(observed)[resource_type].items())
        if found.tags.get(OWNER_TAG) == stack
    ]
    active = {
        change.name: number
        for change in changes
        if change.resource_type is ResourceType.JOB_QUEUE and (number := (active_jobs or {}).get(change.name, 0)) > 0
    }
    problems = tuple(
        f"job queue {name} holds {number} {'job that has' if number == 1 else 'jobs that have'} not ended"
        for name, number in active.items()
    )
    if problems and not end_jobs:
        hint = "Wait for them, end them with `fairshare cancel`, or say `--end-jobs` to end them with the queue."
        raise InfeasibleError("\n".join(problems), hint=hint)
    return Plan(
        stack=stack,
        region=region,
        account_id=account_id,
        changes=tuple(changes),
        warnings=tuple(f"{problem}: deleting the queue ends them" for problem in problems),
    )


def _by_type(observed: Observed) -> dict[ResourceType, Mapping[str, ObservedResource]]:
    return {
        ResourceType.SERVICE_ENVIRONMENT: observed.service_environments,
        ResourceType.SCHEDULING_POLICY: observed.scheduling_policies,
        ResourceType.JOB_QUEUE: observed.job_queues,
    }


def _change(
    action: Action, wanted: DesiredResource, found: ObservedResource | None, fields: tuple[FieldChange, ...]
) -> Change:
    return Change(action, wanted.resource_type, wanted.name, wanted.key, fields, wanted, found)


def _is_going(found: ObservedResource) -> bool:
    return not isinstance(found, SchedulingPolicy) and found.status in _GOING


# ---------------------------------------------------------------------------------------------------------------------
# What cannot be done


@dataclass(frozen=True)
class _Refusal:
    message: str
    hint: str


def _refusal(wanted: DesiredResource, found: ObservedResource, stack: str) -> _Refusal | None:
    """Return why a resource that exists cannot become what is wanted, or None when it can."""
    label, section = _LABELS[wanted.resource_type]
    where = f"{label} {wanted.name} ({section}.{wanted.key})"
    owner = found.tags.get(OWNER_TAG)
    if owner != stack:
        whose = f"belongs to stack {owner}" if owner else f"was not made by fairshare (it has no tag {OWNER_TAG})"
        return _Refusal(
            f"{where} exists already and {whose}",
            "Choose another `stack` or key in fairshare.yaml; fairshare changes only what carries its own tag.",
        )
    reason = _immutable(wanted, found)
    if reason is None:
        return None
    return _Refusal(
        f"{where} {reason}",
        f"Give it a new key, for example `{wanted.key}-2`: setup then makes a new one beside it, and the jobs in the "
        "old one are not lost.",
    )


def _immutable(wanted: DesiredResource, found: ObservedResource) -> str | None:
    match found:
        case ServiceEnvironment() if isinstance(wanted, DesiredEnvironment):
            units = {limit.capacity_unit for limit in found.capacity_limits}
            if units != {limit.capacity_unit for limit in wanted.capacity_limits}:
                return f"counts {', '.join(sorted(units))} in AWS: what an environment counts cannot be changed"
        case SchedulingPolicy(fairshare_policy=None):
            return "is a quota-share policy in AWS: the type of a policy cannot be changed"
        case JobQueue() if isinstance(wanted, DesiredQueue):
            if not found.service_environments:
                return "is a queue for compute jobs in AWS, not for SageMaker training jobs: that cannot be changed"
            if found.scheduling_policy_arn is None and wanted.scheduling_policy is not None:
                return "is FIFO in AWS and has shares in fairshare.yaml: AWS cannot add a scheduling policy to a queue"
            if found.scheduling_policy_arn is not None and wanted.scheduling_policy is None:
                return "has shares in AWS and is FIFO in fairshare.yaml: AWS cannot take a scheduling policy away"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# What people want to know


def _share_effects(desired: Desired, observed: Observed) -> Iterator[ShareEffect]:
    for policy in desired.scheduling_policies:
        found = observed.scheduling_policies.get(policy.name)
        before = _fractions(None if found is None else found.fairshare_policy)
        weights = {share.share_identifier: share.weight_factor for share in policy.fairshare_policy.share_distribution}
        for share, fraction in share_fractions(weights).items():
            yield ShareEffect(policy.key, share, weight_text(weights[share]), fraction, before.get(share))


def _fractions(policy: FairsharePolicy | None) -> dict[str, Fraction]:
    if policy is None:
        return {}
    return share_fractions({share.share_identifier: share.weight_factor for share in policy.share_distribution})


def _health_warnings(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        found = change.observed
        if isinstance(found, ServiceEnvironment | JobQueue) and found.status == "INVALID":
            reason = found.status_reason if isinstance(found, JobQueue) else None
            yield f"{change.label} is INVALID in AWS" + (f": {reason}" if reason else "")


def _left_over_warnings(desired: Desired, observed: Observed) -> Iterator[str]:
    wanted = {(resource.resource_type, resource.name) for resource in desired.resources}
    for resource_type, resources in _by_type(observed).items():
        for name, found in sorted(resources.items()):
            is_ours = found.tags.get(OWNER_TAG) == desired.stack
            if is_ours and (resource_type, name) not in wanted and not _is_going(found):
                yield (
                    f"{_LABELS[resource_type][0]} {name} carries the tag of stack {desired.stack} but is not in "
                    "fairshare.yaml: it stays as it is"
                )
