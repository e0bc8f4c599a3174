"""What a plan refuses, and the way out of each: nothing is replaced, nothing of somebody else is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fairshare.model import (
    OWNER_TAG,
    Alarm,
    InfeasibleError,
    JobQueue,
    QuotaShare,
    ResourceType,
    SchedulingPolicy,
    ServiceEnvironment,
)
from fairshare.provision.compare import ObservedResource, is_going, label_of, name_of
from fairshare.provision.desired import DesiredEnvironment, DesiredPolicy, DesiredQueue, DesiredResource

_SECTIONS: Final = {
    ResourceType.SERVICE_ENVIRONMENT: "service_environments",
    ResourceType.SCHEDULING_POLICY: "queues",
    ResourceType.JOB_QUEUE: "queues",
    ResourceType.QUOTA_SHARE: "queues",
    ResourceType.ALARM: "alarms",
    ResourceType.DASHBOARD: "alarms",
}
"""Section of ``fairshare.yaml`` that a resource comes from."""


@dataclass(frozen=True)
class Refusal:
    """One thing that cannot be done, and what to do instead."""

    message: str
    hint: str


def raise_refusals(refusals: Iterable[Refusal]) -> None:
    """Raise when there is a refusal.

    Raises:
        InfeasibleError: a line for each refusal; each different hint once.
    """
    found = list(refusals)
    if found:
        hints = dict.fromkeys(refusal.hint for refusal in found)
        raise InfeasibleError("\n".join(refusal.message for refusal in found), hint=" ".join(hints))


def setup_refusal(label: str, wanted: DesiredResource, found: ObservedResource, *, adopt: bool) -> Refusal | None:
    """Return why a resource that exists cannot become what is wanted, or None when it can.

    Args:
        label: for people: ``job queue search-ml-gpu``.
        wanted: what it should be.
        found: what it is.
        adopt: whether a resource that carries no stack's tag may be taken over.
    """
    where = f"{label} ({_SECTIONS[wanted.resource_type]}.{wanted.key})"
    owner, stack = found.tags.get(OWNER_TAG), wanted.tags[OWNER_TAG]
    another = "choose another `stack` or key in fairshare.yaml"
    if owner is None and not adopt:
        return Refusal(
            f"{where} exists already and was not made by fairshare (it has no tag {OWNER_TAG})",
            f"If it is yours, `fairshare setup --adopt` shows what taking it over would change; else {another}.",
        )
    if owner not in (None, stack):
        return Refusal(
            f"{where} exists already and belongs to stack {owner}",
            f"A resource of another stack is never changed, with --adopt neither: {another}.",
        )
    if reason := _immutable(wanted, found):
        return Refusal(
            f"{where} {reason}",
            f"Give it a new key, for example `{wanted.key}-2`: setup then makes a new one beside it, and the jobs in "
            "the old one are not lost.",
        )
    return None


def _immutable(wanted: DesiredResource, found: ObservedResource) -> str | None:
    """Return what AWS cannot change in place (case C05): replacing the resource would lose the jobs of a queue."""
    match found:
        case ServiceEnvironment() if isinstance(wanted, DesiredEnvironment):
            units = {limit.capacity_unit for limit in found.capacity_limits}
            if units != {limit.capacity_unit for limit in wanted.capacity_limits}:
                return f"counts {', '.join(sorted(units))} in AWS: what an environment counts cannot be changed"
        case SchedulingPolicy(fairshare_policy=policy) if isinstance(wanted, DesiredPolicy):
            if (policy is None) != (wanted.fairshare_policy is None):
                kind = "quota-share" if policy is None else "fair-share"
                return f"is a {kind} policy in AWS: the type of a policy cannot be changed"
        case JobQueue() if isinstance(wanted, DesiredQueue):
            if not found.service_environments:
                return "is a queue for compute jobs in AWS, not for SageMaker training jobs: that cannot be changed"
            if found.scheduling_policy_arn is None and wanted.scheduling_policy is not None:
                return "is FIFO in AWS and has shares in fairshare.yaml: AWS cannot add a scheduling policy to a queue"
            if found.scheduling_policy_arn is not None and wanted.scheduling_policy is None:
                return "has shares in AWS and is FIFO in fairshare.yaml: AWS cannot take a scheduling policy away"
        case Alarm() if found.definition.rule is not None:
            return "is a composite alarm in AWS: that cannot be changed into one that watches a metric"
    return None


def jobs_problem(holder: str, number: int) -> str:
    """``job queue ml-gpu holds 3 jobs that have not ended``; ``holder`` is a queue or a quota share, with its kind."""
    return f"{holder} holds {number} {'job that has' if number == 1 else 'jobs that have'} not ended"


def teardown_refusals(
    doomed: Collection[tuple[ResourceType, str]],
    queues: Iterable[JobQueue],
    quota_shares: Iterable[QuotaShare],
    stack: str,
) -> Iterator[Refusal]:
    """Yield the queues and quota shares of others that need what is to be deleted: AWS would refuse that half-way.

    Args:
        doomed: type and name of what is to be deleted.
        queues: all job queues that are known.
        quota_shares: all quota shares that are known.
        stack: whose resources are deleted.
    """
    for share in quota_shares:
        queue_name = share.name.partition("/")[0]
        if share.tags.get(OWNER_TAG) != stack and (ResourceType.JOB_QUEUE, queue_name) in doomed:
            yield Refusal(
                f"job queue {queue_name} has quota share {share.name}, which is not of stack {stack}",
                "Delete that quota share first: teardown touches only its own stack.",
            )
    for queue in queues:
        if queue.tags.get(OWNER_TAG) == stack or is_going(queue):
            continue
        used = [(ResourceType.SERVICE_ENVIRONMENT, name_of(arn)) for arn in queue.service_environments]
        if queue.scheduling_policy_arn is not None:
            used.append((ResourceType.SCHEDULING_POLICY, name_of(queue.scheduling_policy_arn)))
        for resource in used:
            if resource in doomed:
                yield Refusal(
                    f"{label_of(*resource)} is in use by job queue {queue.name}, which is not of stack {stack}",
                    "Move that queue to another one, or delete it, first: teardown touches only its own stack.",
                )
