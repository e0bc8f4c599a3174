"""Shares of a queue: their waiting jobs, and the order in which the jobs of several shares go.

A share is a share identifier of a fair-share queue, a quota share, or all of a queue without shares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, heapreplace, merge
from typing import Generic, Self, TypeVar

from fairshare.scheduler.jobs import EngineJob

Entry = tuple[int, int, int, int, EngineJob]
"""A waiting job in order: priority (negative), age, sequence, number of the entry, job."""

Lane = list[Entry]
"""A heap."""


@dataclass(slots=True, eq=False)
class Share:
    """Waiting jobs of one share, and the instances it holds.

    Jobs wait in one lane, or in one for each demand where smaller jobs may overtake larger ones. The entry on top of a
    lane is always valid; further down there may be stale ones, of jobs that moved or ended.
    """

    identifier: str
    lanes: dict[Hashable, Lane] = field(default_factory=dict)
    open_jobs: int = 0
    held: int = 0

    def push(self, job: EngineJob, priority: int, lane: Hashable) -> None:
        """Add a RUNNABLE job, or a new position of it."""
        job.entry += 1
        entry = (-priority, job.created_at, job.sequence, job.entry, job)
        if lane in self.lanes:
            heappush(self.lanes[lane], entry)
        else:
            self.lanes[lane] = [entry]

    def drop_stale(self) -> None:
        """Make the tops of all lanes valid after a job moved or ended."""
        for lane in self.lanes.values():
            _drop_stale(lane)

    @property
    def is_waiting(self) -> bool:
        """Whether a job waits."""
        return any(self.lanes.values())

    def first_lane(self, closed: Collection[Hashable] = ()) -> Lane | None:
        """Return the lane with the job that goes first, at its top; lanes named by ``closed`` are passed over."""
        best: Lane | None = None
        for name, lane in self.lanes.items():
            if lane and name not in closed and (best is None or lane[0] < best[0]):
                best = lane
        return best

    def in_order(self) -> Iterator[EngineJob]:
        """Yield the waiting jobs in the order they go. The first k cost O(k log k); nothing may change meanwhile."""
        walks = [_walk(lane) for lane in self.lanes.values()]
        return (entry[4] for entry in (walks[0] if len(walks) == 1 else merge(*walks)))

    def take(self, job: EngineJob, now: int) -> None:
        """Hold the instances of a job that is placed."""
        self.held += job.demand

    def give_back(self, job: EngineJob, now: int) -> None:
        """Hold them no longer."""
        self.held -= job.demand

    def clone(self) -> Self:
        """Return a copy whose jobs can be taken without touching this one."""
        return replace(self, lanes={name: lane.copy() for name, lane in self.lanes.items()})


def _drop_stale(lane: Lane) -> None:
    while lane and lane[0][3] != lane[0][4].entry:
        heappop(lane)


def _walk(lane: Lane) -> Iterator[Entry]:
    """Yield the valid entries of a heap in order, without changing it."""
    ahead = [(lane[0], 0)] if lane else []
    while ahead:
        entry, index = heappop(ahead)
        if entry[3] == entry[4].entry:
            yield entry
        for child in (2 * index + 1, 2 * index + 2):
            if child < len(lane):
                heappush(ahead, (lane[child], child))


def take_first(lane: Lane) -> Entry:
    """Take out the job on top of a lane."""
    entry = heappop(lane)
    _drop_stale(lane)
    return entry


ShareT = TypeVar("ShareT", bound=Share)

Rank = tuple[int, int, int, int, int, ShareT, Lane]
"""Five numbers that order the heads of shares, the last of them unique; a share, and the lane with its head on top."""

RankOf = Callable[[ShareT, Lane], Rank[ShareT]]


class DispatchOrder(Generic[ShareT]):
    """The jobs of some shares in the order they go, in one pass.

    Ask for the `head`, then `place` it, or say what it holds up with one of the other methods, and so on. Costs
    O(log n) a job, after one look at each share.
    """

    def __init__(self, shares: Iterable[ShareT], rank: RankOf[ShareT]) -> None:
        self._rank = rank
        self._closed: dict[str, set[Hashable]] = {}
        self._aside: list[tuple[Lane, Entry]] = []
        self._ranking = [rank(share, lane) for share in shares if (lane := share.first_lane()) is not None]
        heapify(self._ranking)

    def head(self) -> tuple[ShareT, EngineJob] | None:
        """Return the job whose turn it is, and its share; None when no job is left."""
        if not self._ranking:
            return None
        share, lane = self._ranking[0][5:]
        return share, lane[0][4]

    def place(self) -> None:
        """Take the head out; its share's use has changed."""
        take_first(self._ranking[0][6])
        self._next_of_share()

    def pass_over_share(self) -> None:
        """Pass over everything in the head's share."""
        heappop(self._ranking)

    def pass_over_lane(self, name: Hashable) -> None:
        """Pass over the lane of the head's share that the head is in."""
        self._closed.setdefault(self._ranking[0][5].identifier, set()).add(name)
        self._next_of_share()

    def pass_over_job(self) -> None:
        """Pass over the head alone."""
        lane = self._ranking[0][6]
        self._aside.append((lane, take_first(lane)))
        self._next_of_share()

    def end(self) -> None:
        """Put the jobs back that were passed over alone."""
        for lane, entry in self._aside:
            heappush(lane, entry)

    def _next_of_share(self) -> None:
        share = self._ranking[0][5]
        lane = share.first_lane(self._closed.get(share.identifier, ()))
        if lane is None:
            heappop(self._ranking)
        else:
            heapreplace(self._ranking, self._rank(share, lane))


def by_age(share: ShareT, lane: Lane) -> Rank[ShareT]:
    """Rank the heads of shares by the age of the jobs."""
    _, created_at, sequence, _, _ = lane[0]
    return 0, 0, 0, created_at, sequence, share, lane
