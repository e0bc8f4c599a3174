"""Share identifiers of a queue: their waiting jobs and their use, and the order in which their jobs go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from fairshare.model import JobStatus
from fairshare.scheduler.jobs import EngineJob
from fairshare.scheduler.policy import UsageWindow

NEVER: Final = -1
"""Before every instant."""

Entry = tuple[int, int, int, int, EngineJob]
"""A waiting job in order: priority (negative), age, sequence, number of the entry, job."""

Lane = list[Entry]
"""A heap."""


@dataclass(slots=True)
class Share:
    """One share identifier of a queue: its waiting jobs and what it used.

    Jobs wait in one lane, or in one for each demand where smaller jobs may overtake larger ones.
    """

    identifier: str
    window: UsageWindow
    group: str | None = None
    """The prefix entry of the policy that covers it, if one does: its weight is that of the whole group."""
    weight: int = 1
    """The entry's weight, scaled to an integer common to the queue."""
    lanes: dict[int, Lane] = field(default_factory=dict)
    open_jobs: int = 0
    last_start: int = NEVER
    """When it was last given instances."""
    last_end: int | None = None

    def push(self, job: EngineJob, priority: int, lane: int) -> None:
        """Add a RUNNABLE job, or a new position of it."""
        job.entry += 1
        if lane not in self.lanes:
            self.lanes[lane] = []
        heappush(self.lanes[lane], (-priority, job.created_at, job.sequence, job.entry, job))

    def take(self, demand: int, now: int) -> None:
        """Hold the instances of a job that is placed."""
        self.window.change(demand)
        self.last_start = now

    def first_lane(self, closed: Collection[int] = ()) -> Lane | None:
        """Return the lane with the job that goes first, at its top; lanes named by ``closed`` are passed over.

        Stale entries are dropped on the way.
        """
        best: Lane | None = None
        for name, lane in self.lanes.items():
            if closed and name in closed:
                continue
            while lane and (lane[0][3] != lane[0][4].entry or lane[0][4].status is not JobStatus.RUNNABLE):
                heappop(lane)
            if lane and (best is None or lane[0] < best[0]):
                best = lane
        return best

    def is_active(self, now: int) -> bool:
        """Whether it counts for reservation and groups: an unfinished job, or one that ended within the window."""
        if self.open_jobs:
            return True
        return self.last_end is not None and now - self.last_end < self.window.window

    def clone(self) -> Share:
        """Return a copy whose jobs can be taken and whose window can be changed without touching this one."""
        return replace(self, window=copy(self.window), lanes={name: lane.copy() for name, lane in self.lanes.items()})


Rank = tuple[int, int, int, int, int, Share, Lane]
"""Five numbers that order the heads of shares, the last of them unique; a share, and the lane with its head on top."""

RankOf = Callable[[Share, Lane], Rank]


class DispatchOrder:
    """The jobs of some shares in the order they go, in one pass.

    Ask for the `head`, then `place` it, or say what it holds up with one of the other methods, and so on. Costs
    O(log n) a job.
    """

    def __init__(self, shares: Iterable[Share], rank: RankOf) -> None:
        self._rank = rank
        self._closed: dict[str, set[int]] = {}
        self._aside: list[tuple[Lane, Entry]] = []
        self._ranking = [rank(share, lane) for share in shares if (lane := share.first_lane()) is not None]
        heapify(self._ranking)

    def head(self) -> tuple[Share, EngineJob] | None:
        """Return the job whose turn it is, and its share; None when no job is left."""
        if not self._ranking:
            return None
        share, lane = self._ranking[0][5:]
        return share, lane[0][4]

    def place(self) -> None:
        """Take the head out; its share's use has changed."""
        heappop(self._ranking[0][6])
        self._next_of_share()

    def pass_over_share(self) -> None:
        """Pass over everything in the head's share."""
        heappop(self._ranking)

    def pass_over_demand(self) -> None:
        """Pass over the jobs of the head's share that are as large as it; they have a lane of their own."""
        share, lane = self._ranking[0][5:]
        self._closed.setdefault(share.identifier, set()).add(lane[0][4].demand)
        self._next_of_share()

    def pass_over_job(self) -> None:
        """Pass over the head alone."""
        lane = self._ranking[0][6]
        self._aside.append((lane, heappop(lane)))
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
