"""Traps of queues with quota shares, for `fairshare.insight.lint`. What shares promise, lend and lose.

The arithmetic is that of `fairshare.scheduler.books`; sources are named there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.config.errors import did_you_mean
from fairshare.config.jobs import JobSpec
from fairshare.config.project import Project, QuotaShareConfig
from fairshare.config.yaml_source import Steps
from fairshare.insight.traps import Trap
from fairshare.model import SharingStrategy
from fairshare.scheduler.books import Terms, obstacle

_LONG_RUN: Final = 3600
"""Seconds: a run that may last longer and has no checkpoint is told about."""

Shares = Mapping[str, QuotaShareConfig]


def quota_traps(project: Project, queue: str) -> Iterator[Trap]:
    """Yield the traps in the quota shares of a queue."""
    config = project.queues[queue]
    shares = config.quota_shares or {}
    limits = project.service_environments[config.service_environment].capacity_limits or {}
    steps: Steps = ("queues", queue, "quota_shares")
    for instance_type, capacity in limits.items():
        yield from _promises(shares, instance_type, capacity, queue, steps)
        yield from _nobody_may(shares, instance_type, queue, steps)
    for name, share in shares.items():
        if share.sharing is SharingStrategy.LEND_AND_BORROW and share.borrow_limit == 0:
            owned = sum(share.capacity_limits.values())
            yield Trap(
                "P12",
                f"quota share {name} of queue {queue} is LEND_AND_BORROW with borrow_limit 0: it lends, and never "
                f"holds more than its own {owned}",
                f"write borrow_limit: 100, for up to {2 * owned} in all; or sharing: LEND, which says the same",
                (*steps, name, "borrow_limit"),
            )


def _promises(shares: Shares, instance_type: str, capacity: int, queue: str, steps: Steps) -> Iterator[Trap]:
    """P09, P10: the shares own more than there is, or leave some that nobody owns."""
    owned = {name: share.capacity_limits.get(instance_type, 0) for name, share in shares.items()}
    total = sum(owned.values())
    largest = max(owned, key=lambda name: owned[name])
    if total > capacity:
        yield Trap(
            "P09",
            f"quota shares of queue {queue} own {total} {instance_type}, and the service environment has {capacity}: "
            f"when all are busy, who comes first keeps what the others are owed",
            f"lower capacity_limits to {capacity} in all, or raise the environment's to {total}",
            (*steps, largest, "capacity_limits", instance_type),
        )
    elif total < capacity:
        yield Trap(
            "P10",
            f"quota shares of queue {queue} own {total} of {capacity} {instance_type}: only what a share owns is used "
            f"or lent, so {capacity - total} stay idle whoever waits",
            f"raise capacity_limits to {capacity} in all; a share that lends loses nothing by owning more",
            (*steps, largest, "capacity_limits") if total else steps,
        )


def _nobody_may(shares: Shares, instance_type: str, queue: str, steps: Steps) -> Iterator[Trap]:
    """P11: there are several owners of a type, and what one of them leaves idle no other may use."""
    owners = {name: share for name, share in shares.items() if share.capacity_limits.get(instance_type, 0)}
    lends = [name for name, share in owners.items() if share.sharing is not SharingStrategy.RESERVE]
    borrows = [name for name, share in shares.items() if share.sharing is SharingStrategy.LEND_AND_BORROW]
    if len(owners) < 2 or (lends and borrows):
        return
    name, share = next(iter(owners.items()))
    number = share.capacity_limits[instance_type]
    reason = "every share reserves what it does not use" if not lends else "shares lend, and none of them borrows"
    yield Trap(
        "P11",
        f"no quota share of queue {queue} ever uses idle {instance_type} of another: {reason}. When {name} is idle, "
        f"its {number} are, too",
        "make shares LEND_AND_BORROW; what they borrow goes back as soon as its owner needs it",
        (*steps, name, "sharing"),
    )


def quota_job_traps(project: Project, job: JobSpec, queue: str) -> Iterator[Trap]:
    """Yield the traps of a job that goes to a queue with quota shares."""
    shares = project.queues[queue].quota_shares or {}
    name = job.quota_share or project.defaults.quota_share
    share = shares.get(name or "")
    if name is None or share is None:
        if name is not None:
            yield Trap(
                "P06",
                f"job {job.name} goes to quota share {name}, which queue {queue} does not have: AWS refuses it",
                did_you_mean(name, shares, "quota shares"),
                origin=job.origin.at("quota_share"),
            )
        return
    yield from _never_starts(project, job, queue, name)
    yield from _loses_work(project, job, share, name)
    yield from _ends_at_once(job, share, name)


def _never_starts(project: Project, job: JobSpec, queue: str, name: str) -> Iterator[Trap]:
    instance_type = job.instance_type or project.defaults.instance_type
    shares = project.queues[queue].quota_shares or {}
    terms = {
        each: Terms(share.capacity_limits, share.sharing, share.borrow_limit, share.in_share_preemption)
        for each, share in shares.items()
    }
    if instance_type is None:
        return
    if (why := obstacle(name, ((instance_type, job.instance_count),), terms)) is not None:
        owned = terms[name].limit(instance_type)
        yield Trap(
            "P05",
            f"job {job.name} needs {job.instance_count} {instance_type} at once, and quota share {name} owns {owned}: "
            f"it never starts, and nothing of {name} behind it does ({why})",
            "lower compute.instance_count, or raise capacity_limits or borrow_limit of the quota share",
            origin=job.origin.at("compute", "instance_count"),
        )


def _loses_work(project: Project, job: JobSpec, share: QuotaShareConfig, name: str) -> Iterator[Trap]:
    """P13: a long run that may be preempted and has no checkpoint."""
    longest = job.max_runtime or project.defaults.max_runtime
    if job.checkpoint is not None or job.is_finished or longest is None or longest <= _LONG_RUN:
        return
    if (cause := _preempted(share)) is not None:
        yield Trap(
            "P13",
            f"job {job.name} of quota share {name} may run for {format_duration(longest)} and be preempted {cause}; it "
            "has no checkpoint, so each time all of its work is lost",
            "write checkpoint: s3://... and have the script go on from /opt/ml/checkpoints",
            origin=job.origin.at("quota_share"),
        )


def _ends_at_once(job: JobSpec, share: QuotaShareConfig, name: str) -> Iterator[Trap]:
    """P14: a job that may be preempted and is not queued again when it is."""
    if job.retry is None or job.retry.preemption_retries != 0 or (cause := _preempted(share)) is None:
        return
    yield Trap(
        "P14",
        f"job {job.name} of quota share {name} may be preempted {cause}, and preemption_retries 0 ends it the first "
        "time: somebody has to submit it again",
        "leave preemption_retries out, and it is queued again however often; or write how often it may lose its place",
        origin=job.origin.at("retry", "preemption_retries"),
    )


def _preempted(share: QuotaShareConfig) -> str | None:
    """Return when jobs of a quota share are preempted; None = never."""
    if share.in_share_preemption:
        return "by jobs of a higher priority"
    return "when it runs on borrowed instances" if share.sharing is SharingStrategy.LEND_AND_BORROW else None
