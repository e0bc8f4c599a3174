"""The state of a queue in numbers: what its gauges say, from its jobs and from what was published before.

Pure. A gauge whose value cannot be known is left out: a gap is not zero (case C38).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Final

from fairshare.insight.jobs import latest_by_id, total_instances
from fairshare.insight.shares import ShareRow, share_table
from fairshare.metrics.gauges import QueueGauges
from fairshare.metrics.ports import Point
from fairshare.model import IN_USE_STATUSES, JobStatus, JobSummary
from fairshare.scheduler.commands import EngineOptions
from fairshare.scheduler.policy import DEFAULT_WINDOW_MS, UsageWindow, parse_weight, usable_instances

_BLOCKED: Final = ("CAPACITY:", "MISCONFIGURATION:")
"""How AWS begins the reason of a RUNNABLE job that cannot start
(https://docs.aws.amazon.com/batch/latest/userguide/sm_job_stuck_in_runnable_capacity.html)."""

_BRIDGED: Final = 5
"""Periods for which a published value counts when the next ones are missing."""

_MILLI: Final = 1000
"""Means of instances are counted in thousandths: `UsageWindow` is exact, in integers."""


@dataclass(frozen=True)
class QueueFacts:
    """What decides how a queue shares its capacity, as AWS has it. JSON types only."""

    name: str
    capacity: int
    """Instances that its environments allow."""
    stack: str = ""
    """Value of its tag ``fairshare:stack``; "" when others made it."""
    environments: tuple[str, ...] = ()
    """ARNs: queues that name the same ones divide the capacity."""
    weights: Mapping[str, str] | None = None
    """Weight factor by policy entry; None = first in, first out."""
    share_decay_seconds: int = 0
    compute_reservation: int = 0
    quota_shares: tuple[str, ...] = ()
    """Names of those of the queue: one without jobs has gauges, too."""

    @property
    def window(self) -> int:
        """Milliseconds over which the policy remembers use."""
        return max(DEFAULT_WINDOW_MS, self.share_decay_seconds * 1000)


@dataclass(frozen=True)
class History:
    """Instances in use as published from ``begin`` to ``end`` ms, one value each ``period`` s: of queue and shares."""

    begin: int
    end: int
    period: int
    queue: tuple[Point, ...] = ()
    shares: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether the queue was watched for nine tenths of the time."""
        watched = sum(end - begin for begin, end, _ in self.steps(self.queue))
        return watched * 10 >= (self.end - self.begin) * 9

    def steps(self, points: Sequence[Point]) -> list[tuple[int, int, float]]:
        """Return from when to when each value counts: until the next one, but for a few periods at most."""
        known = [point for point in points if self.begin <= point.at < self.end]
        ends = [following.at for _, following in pairwise(known)]
        longest = _BRIDGED * self.period * 1000
        return [
            (point.at, min(until, point.at + longest), point.value)
            for point, until in zip(known, [*ends, self.end], strict=False)
        ]


def gauges_of(
    facts: QueueFacts,
    jobs: Iterable[JobSummary],
    *,
    now: int,
    history: History | None = None,
    ended: Sequence[JobSummary] | None = None,
    used_by_others: int = 0,
) -> QueueGauges:
    """Return the gauges of a queue and of its shares.

    Args:
        facts: about the queue.
        jobs: those that have not ended; a job listed twice counts once.
        now: milliseconds.
        history: None = not read: WeightedUsage is left out, and StarvedShare where it depends on it.
        ended: jobs that ended since the last run; None = not known.
        used_by_others: instances that other queues hold in the same environments.
    """
    found = latest_by_id(jobs)
    used = total_instances(job for job in found if job.status in IN_USE_STATUSES)
    values = _of_jobs(found, now) | _of_ends(ended)
    values |= {
        "CapacityLimit": facts.capacity,
        "IdleCapacityWhileWaiting": _idle(facts, found, used + used_by_others),
        "CollectorRuns": 1,
    }
    if facts.capacity:
        values["CapacityUtilization"] = 100 * used / facts.capacity
    if facts.weights is None:
        shares = _quota_shares(facts.quota_shares, found, ended, now)
    else:
        shares = _shares(facts, facts.weights, found, history, ended, now)
    return QueueGauges(facts.name, facts.stack, values, shares)


def gauges_of_end(queue: str, stack: str, job: JobSummary) -> QueueGauges:
    """Return what the end of one job adds to the gauges of its queue and its share, for who is told of each end."""
    values = _of_ends([job])
    share = job.quota_share if job.share_identifier is None else job.share_identifier
    shares = {} if share is None else {share: values}
    return QueueGauges(queue, stack, values, shares)


def _of_jobs(jobs: Sequence[JobSummary], now: int) -> dict[str, float]:
    """What a queue and a share have in common."""
    status = [job.status for job in jobs]
    runnable = [job for job in jobs if job.status == JobStatus.RUNNABLE]
    oldest = min((job.created_at for job in runnable), default=now)
    return {
        "RunnableJobs": len(runnable),
        "LaunchingJobs": status.count(JobStatus.SCHEDULED) + status.count(JobStatus.STARTING),
        "RunningJobs": status.count(JobStatus.RUNNING),
        "OldestWaitSeconds": max(0, now - oldest) / 1000,
        "CapacityUsed": total_instances(job for job in jobs if job.status in IN_USE_STATUSES),
        "Blocked": int(any((job.status_reason or "").startswith(_BLOCKED) for job in runnable)),
    }


def _of_ends(ended: Sequence[JobSummary] | None) -> dict[str, float]:
    if ended is None:
        return {}
    status = [job.status for job in ended]
    return {"SucceededJobs": status.count(JobStatus.SUCCEEDED), "FailedJobs": status.count(JobStatus.FAILED)}


def _idle(facts: QueueFacts, jobs: Sequence[JobSummary], used: int) -> int:
    waiting = sum(job.status == JobStatus.RUNNABLE for job in jobs)
    active = len({job.share_identifier for job in jobs})
    return idle_while_waiting(facts.capacity, facts.compute_reservation, active=active, used=used, waiting=waiting)


def idle_while_waiting(capacity: int, compute_reservation: int, *, active: int, used: int, waiting: int) -> int:
    """Return the instances that a waiting job could have: what is reserved for shares that are not active is not idle.

    Args:
        capacity: instances.
        compute_reservation: of the policy, in per cent.
        active: shares with a job that has not ended.
        used: instances in use, by other queues of the same environments, too.
        waiting: jobs in RUNNABLE; without any, nothing is idle while somebody waits.
    """
    return max(0, usable_instances(capacity, compute_reservation, active) - used) if waiting else 0


def _quota_shares(
    names: Sequence[str], jobs: Sequence[JobSummary], ended: Sequence[JobSummary] | None, now: int
) -> dict[str, dict[str, float]]:
    """Return the gauges of quota shares: of those that are known by name, and of those that have jobs."""
    used = total_instances(job for job in jobs if job.status in IN_USE_STATUSES)
    shares: dict[str, dict[str, float]] = {}
    for share in {*names, *(job.quota_share for job in (*jobs, *(ended or ())))} - {None}:
        values = _of_jobs([job for job in jobs if job.quota_share == share], now)
        values["UsageShare"] = 100 * values["CapacityUsed"] / used if used else 0
        own_ends = None if ended is None else [job for job in ended if job.quota_share == share]
        shares[str(share)] = values | _of_ends(own_ends)
    return shares


def _shares(
    facts: QueueFacts,
    weights: Mapping[str, str],
    jobs: Sequence[JobSummary],
    history: History | None,
    ended: Sequence[JobSummary] | None,
    now: int,
) -> dict[str, dict[str, float]]:
    found = share_table(facts.name, weights, jobs, now=now)
    rows = [row for row in found.rows if not row.share_identifier.endswith("*")]
    members: dict[str, int] = {}
    for row in rows:
        if row.entry is not None and row.entry.endswith("*"):
            members[row.entry] = members.get(row.entry, 0) + 1
    shares: dict[str, dict[str, float]] = {}
    for row in rows:
        own = [job for job in jobs if job.share_identifier == row.share_identifier]
        values = _of_jobs(own, now) | {
            "UsageShare": 100 * row.instances / found.instances_in_use if found.instances_in_use else 0,
            "TargetShare": float(100 * row.target),
        }
        if (starved := _is_starved(row, history, facts.window)) is not None:
            values["StarvedShare"] = int(starved)
        if history is not None:
            weight = parse_weight(row.weight_factor) * members.get(row.entry or "", 1)
            values["WeightedUsage"] = float(_usage(row, history, facts.window, now) * weight)
        shares[row.share_identifier] = values
    for share in {*shares, *(job.share_identifier for job in ended or () if job.share_identifier is not None)}:
        own_ends = None if ended is None else [job for job in ended if job.share_identifier == share]
        shares[share] = shares.get(share, {}) | _of_ends(own_ends)
    return shares


def _is_starved(row: ShareRow, history: History | None, window: int) -> bool | None:
    """Whether a job waited for the whole window while the share used nothing; None = nobody watched long enough."""
    if row.instances or row.oldest_wait is None or row.oldest_wait < window:
        return False
    if history is None:
        return None
    if any(point.value > 0 for point in history.shares.get(row.share_identifier, ())):
        return False
    return True if history.is_whole else None


def _usage(row: ShareRow, history: History, window: int, now: int) -> Fraction:
    """Use as the scheduling core counts it: most of it decays over the window, the rest is held now."""
    counted = UsageWindow(window, history.begin)
    for begin, end, value in history.steps(history.shares.get(row.share_identifier, ())):
        counted.advance(begin)
        held = round(value * _MILLI)
        counted.change(held)
        counted.advance(end)
        counted.change(-held)
    counted.advance(now)
    past = EngineOptions().history_weight
    return past * Fraction(counted.history(), window**2 * _MILLI) + (1 - past) * row.instances
