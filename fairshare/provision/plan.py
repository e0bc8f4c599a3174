"""The plan: what `setup` or `teardown` would change, computed from desired and observed state and nothing else.

A plan never replaces a resource. What AWS cannot change in place is refused with the way out (case C05), because the
jobs of a queue would be lost with it. A resource that does not carry the stack's ownership tag is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from fairshare.model import (
    OWNER_TAG,
    FairsharePolicy,
    JobQueue,
    QuotaShare,
    ResourceType,
    SchedulingPolicy,
    ServiceEnvironment,
)
from fairshare.provision.compare import (
    FieldChange,
    ObservedResource,
    changed_fields,
    is_going,
    label_of,
)
from fairshare.provision.desired import Desired, DesiredPolicy, DesiredResource
from fairshare.provision.observed import Observed
from fairshare.provision.refusals import Refusal, jobs_problem, raise_refusals, setup_refusal, teardown_refusals
from fairshare.scheduler.policy import share_fractions, weight_text

_DELETION_ORDER: Final = (
    ResourceType.DASHBOARD,
    ResourceType.ALARM,
    ResourceType.QUOTA_SHARE,
    ResourceType.JOB_QUEUE,
    ResourceType.SCHEDULING_POLICY,
    ResourceType.SERVICE_ENVIRONMENT,
)
_WATCHING: Final = (ResourceType.ALARM, ResourceType.DASHBOARD)
"""Kinds of resource that hold nothing: what the file no longer has is deleted."""


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
    end_jobs: bool = False
    """With DELETE: delete a queue or quota share although it holds jobs that have not ended."""

    @property
    def adopts(self) -> bool:
        """Whether the change takes over a resource that fairshare did not make."""
        return self.action is Action.UPDATE and self.observed is not None and OWNER_TAG not in self.observed.tags

    @property
    def arn(self) -> str | None:
        """ARN of the resource; None as long as it does not exist."""
        return None if self.observed is None else self.observed.arn

    @property
    def label(self) -> str:
        """For people: ``job queue search-ml-gpu``."""
        return label_of(self.resource_type, self.name)


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
    warnings: tuple[str, ...] = ()
    is_teardown: bool = False
    """Whether the plan deletes the whole stack."""

    @property
    def shares(self) -> tuple[ShareEffect, ...]:
        """What the plan makes of every share, queue by queue."""
        return tuple(effect for change in self.changes for effect in _share_effects(change))

    @property
    def pending(self) -> tuple[Change, ...]:
        """The changes without those that are NOOP."""
        return tuple(change for change in self.changes if change.action is not Action.NOOP)

    @property
    def has_changes(self) -> bool:
        """Whether applying the plan would do anything."""
        return bool(self.pending)


def plan_setup(desired: Desired, observed: Observed, *, region: str, account_id: str, adopt: bool = False) -> Plan:
    """Compare what a project asks for with what exists.

    Order: environments, policies, queues, because a queue names the other two; then quota shares and alarms. Resources
    of the stack that the file no longer has stay as they are and are named in the warnings; but its alarms and its
    dashboard go, as nothing is lost, and quota shares of a queue that stays, once their jobs have ended.

    Args:
        desired: what should exist.
        observed: what exists.
        region: of the plan.
        account_id: of the plan.
        adopt: take over resources of these names that carry no stack's tag; never those of another stack.

    Raises:
        InfeasibleError: a resource of that name belongs to somebody else, or what is asked for cannot be changed in
            place (case C05). One line for each problem.
    """
    changes: list[Change] = []
    refusals: list[Refusal] = []
    for wanted in desired.resources:
        found = observed.of_type(wanted.resource_type).get(wanted.name)
        if found is None or is_going(found):
            changes.append(_change(Action.CREATE, wanted, found, changed_fields(wanted, None)))
        elif refusal := setup_refusal(label_of(wanted.resource_type, wanted.name), wanted, found, adopt=adopt):
            refusals.append(refusal)
        else:
            fields = changed_fields(wanted, found)
            changes.append(_change(Action.UPDATE if fields else Action.NOOP, wanted, found, fields))
    raise_refusals(refusals)
    changes += _to_delete(desired, observed)
    warnings = (
        *_health_warnings(changes),
        *_deletion_warnings(changes),
        *_adoption_warnings(changes),
        *_left_over_warnings(desired, observed),
    )
    return Plan(desired.stack, region, account_id, tuple(changes), warnings)


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

    Order: alarms, quota shares, queues, policies, environments (case C04). Deleting a queue ends its jobs.

    Args:
        observed: what exists.
        stack: whose resources go.
        region: shown with the plan.
        account_id: shown with the plan.
        active_jobs: number of jobs that have not ended, by queue name.
        end_jobs: delete queues although they hold such jobs.

    Raises:
        InfeasibleError: a queue holds jobs that have not ended, and ``end_jobs`` is False; or a queue of somebody else
            uses one of the resources.
    """
    changes = tuple(
        Change(Action.DELETE, resource_type, name, name.removeprefix(f"{stack}-"), observed=found, end_jobs=end_jobs)
        for resource_type in _DELETION_ORDER
        for name, found in sorted(observed.of_type(resource_type).items())
        if found.tags.get(OWNER_TAG) == stack
    )
    problems = [
        jobs_problem(change.label, number)
        for change in changes
        if change.resource_type is ResourceType.JOB_QUEUE and (number := (active_jobs or {}).get(change.name, 0)) > 0
    ]
    doomed = {(change.resource_type, change.name) for change in changes}
    refusals = list(teardown_refusals(doomed, observed.job_queues.values(), observed.quota_shares.values(), stack))
    if not end_jobs:
        hint = "Wait for them, end them with `fairshare cancel`, or say `--end-jobs` to end them with the queue."
        refusals += [Refusal(problem, hint) for problem in problems]
    raise_refusals(refusals)
    warnings = tuple(f"{problem}: deleting the queue ends them" for problem in problems)
    return Plan(stack, region, account_id, changes, warnings, is_teardown=True)


def _to_delete(desired: Desired, observed: Observed) -> Iterator[Change]:
    """Yield what of the stack only watches and is switched off, or whose queue or share is no longer in the file."""
    wanted = {(resource.resource_type, resource.name) for resource in desired.resources}
    for name, share in sorted(observed.quota_shares.items()):
        has_queue = (ResourceType.JOB_QUEUE, name.partition("/")[0]) in wanted
        is_left = share.tags.get(OWNER_TAG) == desired.stack and (ResourceType.QUOTA_SHARE, name) not in wanted
        if is_left and has_queue and not is_going(share):
            yield Change(
                Action.DELETE, ResourceType.QUOTA_SHARE, name, name.removeprefix(f"{desired.stack}-"), observed=share
            )
    for kind in _WATCHING:
        for name, found in sorted(observed.of_type(kind).items()):
            if found.tags.get(OWNER_TAG) == desired.stack and (kind, name) not in wanted:
                yield Change(Action.DELETE, kind, name, name.removeprefix(f"{desired.stack}-"), observed=found)


def _change(
    action: Action, wanted: DesiredResource, found: ObservedResource | None, fields: tuple[FieldChange, ...]
) -> Change:
    return Change(action, wanted.resource_type, wanted.name, wanted.key, fields, wanted, found)


# ---------------------------------------------------------------------------------------------------------------------
# What people want to know


def _share_effects(change: Change) -> Iterator[ShareEffect]:
    if not isinstance(change.desired, DesiredPolicy):
        return
    found = change.observed if isinstance(change.observed, SchedulingPolicy) else None
    before = _fractions(None if found is None else found.fairshare_policy)
    policy = change.desired.fairshare_policy
    distribution = () if policy is None else policy.share_distribution
    weights = {share.share_identifier: share.weight_factor for share in distribution}
    for share, fraction in share_fractions(weights).items():
        yield ShareEffect(change.key, share, weight_text(weights[share]), fraction, before.get(share))


def _fractions(policy: FairsharePolicy | None) -> dict[str, Fraction]:
    if policy is None:
        return {}
    return share_fractions({share.share_identifier: share.weight_factor for share in policy.share_distribution})


def _health_warnings(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        found = change.observed
        if isinstance(found, ServiceEnvironment | JobQueue | QuotaShare) and found.status == "INVALID":
            reason = found.status_reason if isinstance(found, JobQueue) else None
            yield f"{change.label} is INVALID in AWS" + (f": {reason}" if reason else "")


def _deletion_warnings(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        if change.action is Action.DELETE and change.resource_type is ResourceType.QUOTA_SHARE:
            yield (
                f"{change.label} is not in fairshare.yaml: it takes no more jobs and is deleted; where jobs of it have "
                "not ended, setup stops there and goes on when it is run again"
            )


def _adoption_warnings(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        if change.adopts:
            yield f"{change.label} was not made by fairshare: once it is adopted, teardown deletes it, too"


def _left_over_warnings(desired: Desired, observed: Observed) -> Iterator[str]:
    wanted = {(resource.resource_type, resource.name) for resource in desired.resources}
    for resource_type in (ResourceType.SERVICE_ENVIRONMENT, ResourceType.SCHEDULING_POLICY, ResourceType.JOB_QUEUE):
        for name, found in sorted(observed.of_type(resource_type).items()):
            is_ours = found.tags.get(OWNER_TAG) == desired.stack
            if is_ours and (resource_type, name) not in wanted and not is_going(found):
                yield (
                    f"{label_of(resource_type, name)} carries the tag of stack {desired.stack} but is not in "
                    "fairshare.yaml: it stays as it is"
                )
