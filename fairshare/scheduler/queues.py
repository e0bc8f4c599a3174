"""Environments and queues inside the engine: capacity that is shared, and what all kinds of queues have in common.

The kinds: `FifoQueue` (here), `fairshare.scheduler.fair_share.FairShareQueue`, `fairshare.scheduler.quota.QuotaQueue`.
A queue keeps a heap of RUNNABLE jobs per share, ordered by priority, age and sequence. A pass looks at each waiting
share at most once and then pays O(log n) per job it places; it never scans jobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, NamedTuple

from fairshare.scheduler.commands import Blocking, EngineOptions, TimeLimit
from fairshare.scheduler.heads import NO_CAPACITY, TOO_LARGE, BlockedReason, HeadOfLine
from fairshare.scheduler.jobs import EngineJob, Preemption
from fairshare.scheduler.outcomes import EngineSnapshot
from fairshare.scheduler.positions import Positions
from fairshare.scheduler.shares import DispatchOrder, RankOf, Share, ShareT, by_age, take_first

__all__ = ["NOTHING", "EngineJob", "Environment", "FifoQueue", "Heads", "LineQueue", "Placement", "Queue", "Victim"]


@dataclass(slots=True, eq=False)
class Environment:
    """A service environment: the capacity that its queues share, in instances."""

    name: str
    max_capacity: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    """By instance type; empty where all instances count alike."""
    enabled: bool = True
    held: int = 0
    queues: list[Queue[Any]] = field(default_factory=list)
    """In the order they are visited: priority descending, then name."""

    def attach(self, queue: Queue[Any]) -> None:
        """Add a queue, or put one whose priority changed where it belongs."""
        if queue not in self.queues:
            self.queues.append(queue)
        self.queues.sort(key=lambda q: (-q.priority, q.name))

    def detach(self, queue: Queue[Any]) -> None:
        """Take a queue away."""
        self.queues.remove(queue)


Heads = Sequence[tuple[HeadOfLine, EngineJob | None]]
"""Lines, each with the first job that could not be placed; None: every job of it could."""


Placement = tuple[Sequence[EngineJob], Heads]
"""What a pass over a queue did: the jobs to dispatch, in order, each already counted as held, and the heads left over.

Heads are looked for only where it matters who they are; otherwise there are none.
"""

NOTHING: Final[Placement] = ((), ())


class Victim(NamedTuple):
    """A job whose attempt is to be stopped, why, and for whom."""

    job: EngineJob
    kind: Preemption
    for_job: EngineJob


class Queue(ABC, Generic[ShareT]):
    """A job queue. What it does with a job depends on the job's share, which a kind of queue finds or makes."""

    knows_priorities: ClassVar[bool] = True
    """Whether priority decides who goes first in a share."""
    heeds_running_priorities: ClassVar[bool] = False
    """Whether the priority of a job that runs decides anything."""

    def __init__(self, name: str, environment: str, options: EngineOptions) -> None:
        self.name = name
        self.environment = environment
        self.priority = 1
        self.enabled = True
        self.time_limits: dict[str, int] = {}
        """Milliseconds at the head, by the code of the reason."""
        self.is_closing = False
        self.shares: dict[str, ShareT] = {}
        self._waiting: dict[str, ShareT] = {}
        """The shares with a waiting job."""
        self._options = options
        self._largest = 0
        """No waiting job is larger."""
        self._lacking = 0
        """How many waiting jobs came back for lack of capacity."""
        self._positions = Positions()
        self._changed_at = 0

    # -- what kinds of queues differ in ------------------------------------------------------------------------------

    @abstractmethod
    def place(self, environment: Environment, now: int) -> Placement:
        """Choose the jobs to place at this instant."""

    @abstractmethod
    def line_of(self, job: EngineJob) -> HeadOfLine:
        """Return the line in which a job becomes the head."""

    @abstractmethod
    def _share_of(self, job: EngineJob) -> ShareT:
        """Return the share of a job that was added."""

    @abstractmethod
    def _rank_at(self, now: int) -> RankOf[ShareT]:
        """Return what orders the heads of shares at ``now`` ms."""

    def victims(self, environment: Environment, now: int) -> Sequence[Victim]:
        """Choose the attempts to preempt after a pass, for those that it could not place."""
        return ()

    def blocked_reason(self, head: EngineJob, environment: Environment) -> BlockedReason | None:
        """Return why a head is blocked. None: it waits for others to end, which AWS has no reason for."""
        if head.demand > environment.max_capacity:
            return TOO_LARGE
        return NO_CAPACITY if head.lacks_capacity else None

    def _lane_of(self, job: EngineJob) -> Hashable:
        return job.demand if self._options.blocking == Blocking.NONE else 0

    # -- jobs ----------------------------------------------------------------------------------------------------

    def check(self, job: EngineJob) -> None:
        """Raise ValueError when the queue cannot take a job."""
        if self.is_closing:
            raise ValueError(f"queue {self.name} is being deleted")
        if not self.enabled:
            raise ValueError(f"queue {self.name} is disabled: it takes no new jobs")

    @property
    def is_empty(self) -> bool:
        """Whether every job that became RUNNABLE has ended."""
        return not any(share.open_jobs for share in self.shares.values())

    def add(self, job: EngineJob, now: int) -> None:
        """Take in a job that became RUNNABLE."""
        share = self._share_of(job)
        share.open_jobs += 1
        self._push(share, job, now)

    def reorder(self, job: EngineJob, now: int) -> None:
        """Put a RUNNABLE job where its new priority belongs."""
        share = self._share_of(job)
        self._push(share, job, now)
        share.drop_stale()

    def discard(self, job: EngineJob, now: int) -> None:
        """Drop a RUNNABLE job that ends without having run."""
        share = self._share_of(job)
        job.entry += 1  # its entry in the lane is stale
        share.drop_stale()
        self._has_left(share, job, now)
        self._close(share, now)

    def release(self, job: EngineJob, now: int) -> None:
        """Give back the instances of a job that ends."""
        share = self._share_of(job)
        share.give_back(job, now)
        self._close(share, now)

    def take_back(self, job: EngineJob, now: int, lacks_capacity: bool = False) -> None:
        """Let a job whose attempt ended wait again."""
        share = self._share_of(job)
        share.give_back(job, now)
        job.lacks_capacity = lacks_capacity
        self._lacking += lacks_capacity
        self._push(share, job, now)

    def note_stop(self, job: EngineJob) -> None:
        """Take note that the attempt of a job in use is being stopped: its instances will come back."""

    def set_time_limits(self, limits: Sequence[TimeLimit]) -> bool:
        """Put time limits in force; returns whether clocks at the head begin or cease to count."""
        had_clocks = bool(self.time_limits)
        self.time_limits = {limit.reason: limit.max_time_ms for limit in limits}
        return had_clocks != bool(self.time_limits)

    def _push(self, share: ShareT, job: EngineJob, now: int) -> None:
        share.push(job, job.scheduling_priority if self.knows_priorities else 0, self._lane_of(job))
        self._waiting[share.identifier] = share
        if job.demand > self._largest:
            self._largest = job.demand
        self._changed_at = now

    def _has_left(self, share: ShareT, job: EngineJob, now: int) -> None:
        """Note that a job waits no longer."""
        self._changed_at = now
        if job.lacks_capacity:
            self._lacking -= 1
        if not share.is_waiting:
            self._waiting.pop(share.identifier, None)
            if not self._waiting:
                self._largest = 0

    def _close(self, share: ShareT, now: int) -> None:
        share.open_jobs -= 1
        self._changed_at = now

    # -- views ---------------------------------------------------------------------------------------------------

    def dispatch_order(self, now: int, limit: int) -> Iterator[EngineJob]:
        """Yield up to ``limit`` RUNNABLE jobs in the order they would go now if there were room for all."""
        order = DispatchOrder([share.clone() for share in self._waiting.values()], self._rank_at(now))
        for _ in range(limit):
            if (turn := order.head()) is None:
                return
            share, job = turn
            share.take(job, now)
            order.place()
            yield job

    def snapshot(self, now: int, limit: int) -> EngineSnapshot:
        """Return the front of the queue, and capacity in use; changes nothing but the memory of positions."""
        return EngineSnapshot(
            front=tuple(self._positions.see(self.dispatch_order(now, limit), self._changed_at, now)),
            instances_in_use=sum(share.held for share in self.shares.values()),
            instances_by_share={name: share.held for name, share in self.shares.items() if share.held},
        )


class LineQueue(Queue[ShareT]):
    """A queue with one line: the first job, in order, that cannot be placed is its head."""

    def __init__(self, name: str, environment: str, options: EngineOptions) -> None:
        super().__init__(name, environment, options)
        self._line = HeadOfLine()

    def line_of(self, job: EngineJob) -> HeadOfLine:
        """Return the line of the queue."""
        return self._line

    def place(self, environment: Environment, now: int) -> Placement:
        """Choose the jobs to place at this instant. Unless the options say otherwise the head holds up the queue."""
        watches = self._watches_head(environment)
        usable = self._usable(environment, now)
        free = usable - environment.held if environment.enabled else 0
        if not watches and (free <= 0 or not self._waiting):
            return NOTHING
        if self._options.blocking == Blocking.QUEUE:
            placed, head = self._place_in_line(free, now, watches)
        else:
            placed, head = self._place_around(free, now)
        for job in placed:
            environment.held += job.demand
        return placed, ((self._line, head),) if watches else ()

    def _place_in_line(self, free: int, now: int, watches: bool) -> tuple[list[EngineJob], EngineJob | None]:
        """Place jobs until one does not fit, and return them and, where it matters, that one."""
        placed: list[EngineJob] = []
        while (free > 0 or watches) and (share := self._first(now)) is not None:
            lane = share.lanes[0]
            job = lane[0][4]
            if job.demand > free or job.ready_at > now:
                return placed, job
            free -= job.demand
            take_first(lane)
            share.take(job, now)
            placed.append(job)
            self._has_left(share, job, now)
        return placed, None

    def _place_around(self, free: int, now: int) -> tuple[list[EngineJob], EngineJob | None]:
        """Place what fits, also past jobs that do not, and return it and the first one that did not."""
        order = DispatchOrder(self._waiting.values(), self._rank_at(now))
        placed: list[tuple[ShareT, EngineJob]] = []
        head = None
        while (turn := order.head()) is not None:
            share, job = turn
            fits = job.demand <= free
            if fits and job.ready_at <= now:
                free -= job.demand
                share.take(job, now)
                placed.append(turn)
                order.place()
                continue
            head = head or job
            if free <= 0:
                break
            if self._options.blocking == Blocking.SHARE:
                order.pass_over_share()
            elif fits:
                order.pass_over_job()
            else:
                order.pass_over_lane(job.demand)  # free becomes less within a pass: none of that size will fit
        order.end()
        for share, job in placed:
            self._has_left(share, job, now)
        return [job for _, job in placed], head

    @abstractmethod
    def _first(self, now: int) -> ShareT | None:
        """Return the share whose head goes first, of the shares with a waiting job."""

    def _usable(self, environment: Environment, now: int) -> int:
        """Return how many instances may be in use at all; asked once at the beginning of a pass."""
        return environment.max_capacity

    def _watches_head(self, environment: Environment) -> bool:
        """Whether it matters who the head is: it may be blocked, or has a clock."""
        if self.time_limits or self._lacking or self._largest > environment.max_capacity:
            return True
        return self._line.is_told_of


class FifoQueue(LineQueue[Share]):
    """A queue without a policy: one nameless share, and creation order decides."""

    knows_priorities: ClassVar[bool] = False

    def __init__(self, name: str, environment: str, options: EngineOptions) -> None:
        super().__init__(name, environment, options)
        self.shares[""] = Share("")

    def _share_of(self, job: EngineJob) -> Share:
        return self.shares[""]

    def _rank_at(self, now: int) -> RankOf[Share]:
        return by_age

    def _first(self, now: int) -> Share | None:
        share = self.shares[""]
        return share if share.lanes.get(0) else None
