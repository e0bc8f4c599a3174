"""State of environments and queues inside the engine, and the choice of the next job.

A fair-share queue keeps a heap of RUNNABLE jobs per share, ordered by priority, age and sequence. A pass looks once at
each waiting share and then pays O(log n) per job it places; it never scans jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from fairshare.model import FairsharePolicy
from fairshare.scheduler.commands import Blocking, EngineOptions
from fairshare.scheduler.heads import HeadOfLine
from fairshare.scheduler.jobs import EngineJob
from fairshare.scheduler.policy import (
    DEFAULT_WEIGHT,
    DEFAULT_WINDOW_MS,
    UsageWindow,
    matching_entry,
    parse_weight,
    usable_instances,
)
from fairshare.scheduler.shares import NEVER, DispatchOrder, Lane, Rank, RankOf, Share

__all__ = ["EngineJob", "Environment", "Queue"]


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

    def __init__(self, name: str, environment: str, options: EngineOptions) -> None:
        self.name = name
        self.environment = environment
        self.priority = 1
        self.enabled = True
        self.time_limits: dict[str, int] = {}
        """Milliseconds at the head, by the code of the reason."""
        self.line = HeadOfLine()
        self.shares: dict[str, Share] = {}
        self._policy: FairsharePolicy | None = None
        self._options = options
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
        lane = job.demand if self._options.blocking == Blocking.NONE else 0
        share.push(job, job.scheduling_priority if self._policy else 0, lane)  # first in, first out knows no priority
        self._changed_at = now

    def add(self, job: EngineJob, now: int) -> None:
        """Take in a job that became RUNNABLE."""
        name = self._key(job)
        share = self.shares.get(name)
        if share is None or not share.is_active(now):
            share = self.shares[name] = Share(name, UsageWindow(self._window, now))
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
        self._give_back(job, now)
        self._close(job, now)

    def take_back(self, job: EngineJob, now: int) -> None:
        """Let a job whose attempt ended wait again."""
        self._push(self._give_back(job, now), job, now)

    def _give_back(self, job: EngineJob, now: int) -> Share:
        share = self.shares[self._key(job)]
        share.window.advance(now)
        share.window.change(-job.demand)
        return share

    def _close(self, job: EngineJob, now: int) -> None:
        share = self.shares[self._key(job)]
        share.open_jobs -= 1
        share.last_end = now
        self._changed_at = now

    # -- the choice ----------------------------------------------------------------------------------------------

    def place(self, environment: Environment, now: int) -> tuple[list[EngineJob], EngineJob | None]:
        """Return the jobs to place at this instant, in order, each already counted as held, and the queue's head.

        The head is the first job that could not be placed. Unless the options say otherwise it holds up the queue.
        """
        self._forget_idle(now)
        free = self._usable(environment, now) - environment.held if environment.enabled else 0
        order = self._order(self.shares.values(), now)
        placed: list[EngineJob] = []
        head = None
        while (turn := order.head()) is not None:
            share, job = turn
            fits = job.demand <= free
            if fits and job.ready_at <= now:
                free -= job.demand
                environment.held += job.demand
                share.take(job.demand, now)
                placed.append(job)
                order.place()
                continue
            head = head or job
            if free <= 0 or self._options.blocking == Blocking.QUEUE:
                break
            if self._options.blocking == Blocking.SHARE:
                order.pass_over_share()
            elif fits:
                order.pass_over_job()
            else:
                order.pass_over_demand()  # what is free becomes less within a pass, so none of that size will fit
        order.end()
        if placed:
            self._changed_at = now
        return placed, head

    def dispatch_order(self, now: int, limit: int) -> list[EngineJob]:
        """Return up to ``limit`` RUNNABLE jobs in the order they would go now if there were room for all."""
        for share in self.shares.values():
            share.window.advance(now)  # before it is copied: copies share their past with the original
        order = self._order([share.clone() for share in self.shares.values()], now)
        jobs: list[EngineJob] = []
        while len(jobs) < limit and (turn := order.head()) is not None:
            share, job = turn
            share.take(job.demand, now)
            jobs.append(job)
            order.place()
        return jobs

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

    def _order(self, shares: Iterable[Share], now: int) -> DispatchOrder:
        return DispatchOrder(shares, _by_age if self._policy is None else self._by_usage(now))

    def _by_usage(self, now: int) -> RankOf:
        """Return the sort key of a share's head: usage times weight, last start, weight, age, sequence. All integers.

        The last start counts only where nothing was used, or a share could starve: on one instance, jobs that outlast
        the window leave all others without use for ever. A group's weight is the entry's times its active members, so
        that all of them together get what one identifier of that weight would (prefix entries,
        scheduling-policy-parameters of the user guide).
        """
        members: dict[str, int] = {}
        for share in self.shares.values():
            if share.group is not None and share.is_active(now):
                members[share.group] = members.get(share.group, 0) + 1
        past, whole = self._options.history_weight.numerator, self._options.history_weight.denominator
        present = (whole - past) * self._window**2

        def rank(share: Share, lane: Lane) -> Rank:
            window = share.window
            window.advance(now)
            weight = share.weight if share.group is None else share.weight * members[share.group]
            score = (past * window.history() + present * window.held) * weight
            _, created_at, sequence, _, _ = lane[0]
            return score, NEVER if score else share.last_start, weight, created_at, sequence, share, lane

        return rank

    def _usable(self, environment: Environment, now: int) -> int:
        if self._policy is None or not self._policy.compute_reservation:
            return environment.max_capacity
        active = sum(share.is_active(now) for share in self.shares.values())
        return usable_instances(environment.max_capacity, self._policy.compute_reservation, active)

    def _forget_idle(self, now: int) -> None:
        """Drop shares that are no longer active: by then the window has forgotten their use as well."""
        for name in [name for name, share in self.shares.items() if not share.is_active(now)]:
            del self.shares[name]


def _by_age(share: Share, lane: Lane) -> Rank:
    _, created_at, sequence, _, _ = lane[0]
    return 0, 0, 0, created_at, sequence, share, lane
