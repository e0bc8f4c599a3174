"""State of environments, queues and shares inside the engine, and the choice of the next job.

A fair-share queue keeps one heap of RUNNABLE jobs per share, ordered by priority, age and sequence. A pass looks once
at each waiting share and then pays O(log n) per job it places; it never scans jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace
from math import lcm
from typing import Final

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.policy import (
    DEFAULT_WEIGHT,
    DEFAULT_WINDOW_MS,
    UsageWindow,
    matching_entry,
    parse_weight,
    usable_instances,
)

NEVER: Final = -1
"""Before every instant."""


@dataclass(slots=True)
class EngineJob:
    """Scheduling state of a job. Times are milliseconds; ``share_identifier`` is "" on a FIFO queue."""

    id: str
    queue: str
    share_identifier: str
    demand: int
    scheduling_priority: int
    created_at: int
    sequence: int
    status: JobStatus = JobStatus.SUBMITTED
    status_reason: str | None = None
    attempt: int = 0
    scheduled_at: int | None = None
    started_at: int | None = None
    stopped_at: int | None = None
    is_terminated: bool = False
    stop_reason: str | None = None
    """Why the present attempt was asked to end; None when it was not."""
    entry: int = 0
    """Number of its valid entry in the share's heap: priority changes leave stale entries behind."""


@dataclass(slots=True)
class Share:
    """One share identifier of a queue: its waiting jobs and what it used."""

    identifier: str
    window: UsageWindow
    group: str | None = None
    """The prefix entry of the policy that covers it, if one does: its weight is that of the whole group."""
    weight: int = 1
    """The entry's weight, scaled to an integer common to the queue."""
    waiting: list[tuple[int, int, int, int, EngineJob]] = field(default_factory=list)
    open_jobs: int = 0
    last_start: int = NEVER
    """When it was last given instances."""
    last_end: int | None = None

    def push(self, job: EngineJob, priority: int) -> None:
        """Add a RUNNABLE job, or a new position of it."""
        job.entry += 1
        heappush(self.waiting, (-priority, job.created_at, job.sequence, job.entry, job))

    def take(self, demand: int, now: int) -> None:
        """Hold the instances of a job that is placed."""
        self.window.change(demand)
        self.last_start = now

    def head(self) -> EngineJob | None:
        """Return the job that goes first, dropping stale entries on the way."""
        while self.waiting:
            *_, entry, job = self.waiting[0]
            if entry == job.entry and job.status is JobStatus.RUNNABLE:
                return job
            heappop(self.waiting)
        return None

    def is_active(self, now: int) -> bool:
        """Whether it counts for reservation and groups: an unfinished job, or one that ended within the window."""
        if self.open_jobs:
            return True
        return self.last_end is not None and now - self.last_end < self.window.window


@dataclass(slots=True)
class Environment:
    """A service environment: the capacity that its queues share, in instances."""

    name: str
    max_capacity: int = 0
    enabled: bool = True
    held: int = 0
    queues: list[Queue] = field(default_factory=list)
    """In the order they are visited: priority descending, then name."""

    def attach(self, queue: Queue) -> None:
        """Add a queue, or put one whose priority changed where it belongs."""
        if queue not in self.queues:
            self.queues.append(queue)
        self.queues.sort(key=lambda q: (-q.priority, q.name))

    def detach(self, queue: Queue) -> None:
        """Take a queue away."""
        self.queues.remove(queue)


class Queue:
    """A job queue. Without a policy it has one nameless share, and creation order decides."""

    def __init__(self, name: str, environment: str, history_weight: Fraction) -> None:
        self.name = name
        self.environment = environment
        self.priority = 1
        self.shares: dict[str, Share] = {}
        self._last_starts: dict[str, int] = {}  # of shares that were dropped
        self._policy: FairsharePolicy | None = None
        self._history_weight = history_weight
        self._window = DEFAULT_WINDOW_MS
        self._weights: dict[str, Fraction] = {}
        self._scale = 1
        self.is_closing = False
        self._positions: dict[str, tuple[int, int]] = {}
        self._seen_at = 0
        self._changed_at = 0

    # -- policy --------------------------------------------------------------------------------------------------

    def set_policy(self, policy: FairsharePolicy | None, now: int) -> None:
        """Put a policy in force; shares keep their jobs and as much of their history as the new window covers.

        Raises:
            ValueError: a weight is no weight. Nothing has changed then.
        """
        entries = policy.share_distribution if policy else ()
        self._weights = {entry.share_identifier: parse_weight(entry.weight_factor) for entry in entries}
        self._forget_idle(now)
        self._policy = policy
        self._scale = lcm(*(weight.denominator for weight in self._weights.values()))
        self._window = max(DEFAULT_WINDOW_MS, policy.share_decay_seconds * 1000 if policy else 0)
        self._changed_at = now
        for share in self.shares.values():
            share.window.advance(now)
            share.window.resize(self._window)
            self._weigh(share)

    def _weigh(self, share: Share) -> None:
        entry = matching_entry(share.identifier, self._weights)
        weight = self._weights[entry] if entry is not None else DEFAULT_WEIGHT
        share.weight = int(weight * self._scale)
        share.group = entry if entry is not None and entry.endswith("*") else None

    @property
    def is_fair_share(self) -> bool:
        """Whether a policy is in force; without one the queue is first in, first out."""
        return self._policy is not None

    @property
    def is_empty(self) -> bool:
        """Whether every job that became RUNNABLE has ended."""
        return not any(share.open_jobs for share in self.shares.values())

    # -- jobs ----------------------------------------------------------------------------------------------------

    def _key(self, job: EngineJob) -> str:
        return job.share_identifier if self._policy else ""

    def _push(self, share: Share, job: EngineJob, now: int) -> None:
        share.push(job, job.scheduling_priority if self._policy else 0)  # first in, first out knows no priority
        self._changed_at = now

    def add(self, job: EngineJob, now: int) -> None:
        """Take in a job that became RUNNABLE."""
        name = self._key(job)
        share = self.shares.get(name)
        if share is None:
            window = UsageWindow(self._window, now)
            share = self.shares[name] = Share(name, window, last_start=self._last_starts.pop(name, NEVER))
            self._weigh(share)
        share.open_jobs += 1
        self._push(share, job, now)

    def reorder(self, job: EngineJob, now: int) -> None:
        """Put a RUNNABLE job where its new priority belongs."""
        self._push(self.shares[self._key(job)], job, now)

    def discard(self, job: EngineJob, now: int) -> None:
        """Drop a RUNNABLE job that ends without having run. Its heap entry goes stale with its status."""
        self._close(job, now)

    def release(self, job: EngineJob, now: int) -> None:
        """Give back the instances of a job that ends."""
        share = self.shares[self._key(job)]
        share.window.advance(now)
        share.window.change(-job.demand)
        self._close(job, now)

    def _close(self, job: EngineJob, now: int) -> None:
        share = self.shares[self._key(job)]
        share.open_jobs -= 1
        share.last_end = now
        self._changed_at = now

    # -- the choice ----------------------------------------------------------------------------------------------

    def take_fitting(self, environment: Environment, now: int) -> Iterator[EngineJob]:
        """Yield the jobs to place at this instant, in order, each already counted as held.

        Ends at the first head that does not fit: it holds up the queue.
        """
        if environment.held >= environment.max_capacity:
            return
        self._forget_idle(now)
        usable = self._usable(environment, now)
        for share, job in self._in_order(self.shares.values(), now):
            if environment.held + job.demand > usable:
                return
            environment.held += job.demand
            share.take(job.demand, now)
            self._changed_at = now
            yield job

    def dispatch_order(self, now: int, limit: int) -> list[EngineJob]:
        """Return up to ``limit`` RUNNABLE jobs in the order they would go now if there were room for all."""
        copies = []
        for share in self.shares.values():
            share.window.advance(now)  # first, so that the copy does not touch what it shares with the original
            copies.append(replace(share, window=copy(share.window), waiting=share.waiting.copy()))
        order: list[EngineJob] = []
        for share, job in self._in_order(copies, now):
            if len(order) == limit:
                break
            share.take(job.demand, now)
            order.append(job)
        return order

    def positions(self, front: list[EngineJob], now: int) -> Iterator[tuple[str, int]]:
        """Yield (job id, since when it is at its position), as well as the calls of this method can tell.

        A position moves when the queue changes, and between two shares also as their use fades: a job that was seen
        at another position came to this one after it was seen there.
        """
        known, self._positions = self._positions, {}
        for position, job in enumerate(front):
            seen_position, since = known.get(job.id, (None, 0))
            if seen_position != position:
                seen_at = 0 if seen_position is None else self._seen_at
                since = max(self._changed_at, job.created_at, seen_at)
            self._positions[job.id] = (position, since)
            yield job.id, since
        self._seen_at = now

    def _in_order(self, shares: Iterable[Share], now: int) -> Iterator[tuple[Share, EngineJob]]:
        """Yield each next (share, head); going on means that the head was placed and its share's use was changed."""
        group_sizes = Counter(share.group for share in self.shares.values() if share.group and share.is_active(now))
        ranking = []
        for share in shares:
            if (job := share.head()) is not None:
                share.window.advance(now)
                ranking.append(self._rank(share, share.weight * (group_sizes[share.group] if share.group else 1), job))
        heapify(ranking)
        while ranking:
            _, _, weight, _, _, share, job = ranking[0]
            yield share, job
            heappop(share.waiting)
            if (following := share.head()) is None:
                heappop(ranking)
            else:
                heapreplace(ranking, self._rank(share, weight, following))

    def _rank(self, share: Share, weight: int, job: EngineJob) -> tuple[int, int, int, int, int, Share, EngineJob]:
        """Return the sort key of a share's head: usage times weight, last start, weight, age, sequence. All integers.

        The last start comes before the weight, or a share could starve where ties are the rule: on one instance, jobs
        that outlast the window leave the other shares with no usage at all. A group's weight is the entry's times its
        active members, so that all of them together get what one identifier of that weight would (prefix entries,
        scheduling-policy-parameters of the user guide).
        """
        if self._policy is None:
            return 0, 0, 0, job.created_at, job.sequence, share, job
        past = self._history_weight
        window = share.window
        usage = past.numerator * window.history() + (past.denominator - past.numerator) * window.held * window.window**2
        return usage * weight, share.last_start, weight, job.created_at, job.sequence, share, job

    def _usable(self, environment: Environment, now: int) -> int:
        if self._policy is None or not self._policy.compute_reservation:
            return environment.max_capacity
        active = sum(share.is_active(now) for share in self.shares.values())
        return usable_instances(environment.max_capacity, self._policy.compute_reservation, active)

    def _forget_idle(self, now: int) -> None:
        """Drop shares that are no longer active: by then the window has forgotten their use as well.

        Their last start is kept. A share that comes back must not pass for one that was never served.
        """
        idle = [name for name, share in self.shares.items() if not share.is_active(now)]
        for name in idle:
            self._last_starts[name] = self.shares.pop(name).last_start
