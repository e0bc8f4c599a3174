"""Fair-share queues: the share that used least, measured by its weight, goes first.

The choice is exact and lazy. A share's score at an instant costs a look at its usage window; but as use fades no faster
than a known rate, most shares can be ruled out by a lower bound from the last look.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import lcm
from typing import Final, Self

from fairshare.model import FairsharePolicy
from fairshare.scheduler.commands import EngineOptions
from fairshare.scheduler.jobs import EngineJob
from fairshare.scheduler.policy import (
    DEFAULT_WEIGHT,
    DEFAULT_WINDOW_MS,
    UsageWindow,
    matching_entry,
    parse_weight,
    usable_instances,
)
from fairshare.scheduler.queues import Environment, LineQueue
from fairshare.scheduler.shares import Lane, Rank, RankOf, Share

NEVER: Final = -1
"""Before every instant."""


@dataclass(slots=True, eq=False, kw_only=True)
class WeightedShare(Share):
    """One share identifier of a fair-share queue, and what it used."""

    window: UsageWindow
    group: str | None = None
    """The prefix entry of the policy that covers it, if one does: its weight is that of the whole group."""
    weight: int = 1
    """The entry's weight, scaled to an integer common to the queue."""
    last_start: int = NEVER
    """When it was last given instances."""
    last_end: int = NEVER
    """When its last job ended."""
    looked_at: int = NEVER
    """Instant of the last look at the window, what it showed, and how fast that fades at most, per ms."""
    history: int = 0
    fading: int = 0

    def history_at(self, now: int) -> int:
        """Return history times window squared."""
        if self.looked_at != now:
            self.history, area = self.window.measure(now)
            self.fading = 2 * area
            self.looked_at = now
        return self.history

    def take(self, job: EngineJob, now: int) -> None:
        """Hold the instances of a job that is placed."""
        self.held += job.demand
        self.window.change(job.demand, now)
        self.last_start = now

    def give_back(self, job: EngineJob, now: int) -> None:
        """Hold them no longer."""
        self.held -= job.demand
        self.window.change(-job.demand, now)

    def clone(self) -> Self:
        """Return a copy whose jobs can be taken without touching this one."""
        return replace(self, window=self.window.copy(), lanes={name: lane.copy() for name, lane in self.lanes.items()})


class FairShareQueue(LineQueue[WeightedShare]):
    """A queue with a fair-share policy."""

    def __init__(self, name: str, environment: str, options: EngineOptions) -> None:
        super().__init__(name, environment, options)
        self._policy = FairsharePolicy()
        self._window = DEFAULT_WINDOW_MS
        self._weights: dict[str, Fraction] = {}
        self._scale = 1
        self._past = self._present = 0
        """Factors of what a share used and of what it holds, in its score."""
        self._members: Counter[str] = Counter()
        """Active shares by prefix entry."""
        self._idle: deque[tuple[int, WeightedShare]] = deque()
        """(when its last open job ended, share), in order; some have had jobs again since."""

    # -- policy --------------------------------------------------------------------------------------------------

    def set_policy(self, policy: FairsharePolicy, now: int) -> None:
        """Put a policy in force; shares keep their jobs and as much of their history as the new window covers.

        Raises:
            ValueError: a weight is no weight. Nothing has changed then.
        """
        self._weights = {
            entry.share_identifier: parse_weight(entry.weight_factor) for entry in policy.share_distribution
        }
        self._forget_idle(now)
        self._policy = policy
        self._scale = lcm(*(weight.denominator for weight in self._weights.values()))
        self._window = max(DEFAULT_WINDOW_MS, policy.share_decay_seconds * 1000)
        weight = self._options.history_weight
        self._past, self._present = weight.numerator, (weight.denominator - weight.numerator) * self._window**2
        self._changed_at = now
        self._members.clear()
        for share in self.shares.values():
            share.window.advance(now)
            share.window.resize(self._window)
            share.looked_at, share.history, share.fading = NEVER, 0, 0
            self._weigh(share)

    def _weigh(self, share: WeightedShare) -> None:
        entry = matching_entry(share.identifier, self._weights)
        weight = self._weights[entry] if entry is not None else DEFAULT_WEIGHT
        share.weight = int(weight * self._scale)
        share.group = entry if entry is not None and entry.endswith("*") else None
        if share.group is not None:
            self._members[share.group] += 1

    # -- shares --------------------------------------------------------------------------------------------------

    def add(self, job: EngineJob, now: int) -> None:
        """Take in a job that became RUNNABLE."""
        self._forget_idle(now)
        share = self.shares.get(job.share_identifier)
        if share is None:
            share = WeightedShare(job.share_identifier, window=UsageWindow(self._window, now))
            self.shares[share.identifier] = share
            self._weigh(share)
        share.open_jobs += 1
        self._push(share, job, now)

    def _share_of(self, job: EngineJob) -> WeightedShare:
        return self.shares[job.share_identifier]

    def _close(self, share: WeightedShare, now: int) -> None:
        super()._close(share, now)
        if share.open_jobs == 0:
            share.last_end = now
            self._idle.append((now, share))

    def _forget_idle(self, now: int) -> None:
        """Drop shares that are no longer active: no job for a whole window, which has forgotten their use as well.

        A share is active with an unfinished job, or one that ended within the window.
        """
        while self._idle and self._idle[0][0] + self._window <= now:
            ended_at, share = self._idle.popleft()
            if not share.open_jobs and share.last_end == ended_at and self.shares.get(share.identifier) is share:
                del self.shares[share.identifier]
                if share.group is not None:
                    self._members[share.group] -= 1

    # -- the choice ----------------------------------------------------------------------------------------------

    def _usable(self, environment: Environment, now: int) -> int:
        if self._idle:
            self._forget_idle(now)
        if not self._policy.compute_reservation:
            return environment.max_capacity
        return usable_instances(environment.max_capacity, self._policy.compute_reservation, len(self.shares))

    def dispatch_order(self, now: int, limit: int) -> Iterator[EngineJob]:
        """Yield up to ``limit`` RUNNABLE jobs in the order they would go now if there were room for all."""
        self._forget_idle(now)
        return super().dispatch_order(now, limit)

    def _rank_at(self, now: int) -> RankOf[WeightedShare]:
        return partial(self._rank, now)

    def _rank(self, now: int, share: WeightedShare, lane: Lane) -> Rank[WeightedShare]:
        """Return the sort key of a share's head: usage times weight, last start, weight, age, sequence. All integers.

        The last start counts only where nothing was used, or a share could starve: on one instance, jobs that outlast
        the window leave all others without use for ever. A group's weight is the entry's times its active members, so
        that all of them together get what one identifier of that weight would (prefix entries,
        scheduling-policy-parameters of the user guide).
        """
        weight = self._weight_of(share)
        score = (self._past * share.history_at(now) + self._present * share.held) * weight
        _, created_at, sequence, _, _ = lane[0]
        return score, NEVER if score else share.last_start, weight, created_at, sequence, share, lane

    def _first(self, now: int) -> WeightedShare | None:
        """Return the share with the lowest rank, with few looks at windows: see the module's docstring."""
        past, present = self._past, self._present
        first: WeightedShare | None = None
        lowest = 0
        for share in self._waiting.values():
            weight = share.weight if share.group is None else self._weight_of(share)
            use = present * share.held
            age = now - share.looked_at
            if age and first is not None and (past * (share.history - share.fading * age) + use) * weight > lowest:
                continue
            score = (past * (share.history_at(now) if age else share.history) + use) * weight
            if first is None or score < lowest or (score == lowest and self._is_before(share, first, now)):
                first, lowest = share, score
        return first

    def _is_before(self, share: WeightedShare, other: WeightedShare, now: int) -> bool:
        return self._rank(now, share, share.lanes[0]) < self._rank(now, other, other.lanes[0])

    def _weight_of(self, share: WeightedShare) -> int:
        return share.weight if share.group is None else share.weight * self._members[share.group]
