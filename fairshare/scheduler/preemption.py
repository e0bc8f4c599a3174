"""Preemption by a queue with quota shares: whose attempts are stopped, and for whom.

After a pass, the jobs it could not place are looked at once more, share by share, the share with the oldest head first:

1. cross-share: for jobs within their share's own capacity, jobs of shares that hold more than theirs are stopped, until
   there is room. Always on: lent capacity is taken back when its owner needs it;
2. in-share: for the others, and those still without room, jobs of lower priority of the same share are stopped, if the
   share allows that.

Capacity of attempts that are already being stopped counts as free, so that nobody is stopped twice for one job. Nobody
is stopped unless that makes room for the whole job, and no share is taken below its own capacity by more than the last
job that had to go. Who goes first is the `VictimRule` of the engine's options.

Sources: https://docs.aws.amazon.com/batch/latest/userguide/preemption.html,
https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html; the choice of victims is the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from fairshare.scheduler.books import Books
from fairshare.scheduler.commands import VictimRule
from fairshare.scheduler.jobs import EngineJob, Preemption
from fairshare.scheduler.queues import Victim

_NOT_YET: Final = 1 << 62
"""After every instant: an attempt that has not begun to run has no work to lose."""


def _late_start(job: EngineJob) -> tuple[int, int, int]:
    started = _NOT_YET if job.started_at is None else job.started_at
    return -started, -job.demand, -job.sequence


_FIRST_TO_GO: Final[Mapping[VictimRule, Callable[[EngineJob], tuple[int, ...]]]] = {
    VictimRule.LOWEST_PRIORITY: lambda job: (job.scheduling_priority, *_late_start(job)),
    VictimRule.LATEST_START: _late_start,
    VictimRule.LARGEST: lambda job: (-job.demand, job.scheduling_priority, *_late_start(job)),
}


class Preemptor:
    """One look at what a pass left waiting. Every job it finds or makes room for counts as placed from then on.

    Args:
        books: what is held, without the attempts that are already being stopped; changed as it goes.
        running: by quota share, the jobs in use.
        rule: who goes first.
    """

    def __init__(self, books: Books, running: Mapping[str, Collection[EngineJob]], rule: VictimRule) -> None:
        self.victims: list[Victim] = []
        self._books = books
        self._running = running
        self._first_to_go = _FIRST_TO_GO[rule]
        self._gone: set[str] = set()

    def is_own(self, job: EngineJob) -> bool:
        """Whether a job is within its share's own capacity."""
        return self._books.is_own(job.quota_share, job.demand_by_type)

    def admit(self, job: EngineJob, may_displace: bool) -> bool:
        """Find room for a job, own or borrowed, or make it within its share; returns whether there is."""
        if not self._books.fits(job.quota_share, job.demand_by_type, may_borrow=True):
            return may_displace and self._displace(job)
        self._books.take(job.quota_share, job.demand_by_type)
        return True

    def reclaim(self, job: EngineJob) -> bool:
        """Make room for a job within its share's own capacity; returns whether there is."""
        books = self._books

        def may_go(other: EngineJob) -> bool:
            return any(
                books.has_excess(other.quota_share, kind) and books.is_short(job.quota_share, kind, number)
                for kind, number in _of_types_of(other, job)
            )

        borrowers = (
            share
            for share in self._running
            if share != job.quota_share and any(books.has_excess(share, kind) for kind, _ in job.demand_by_type)
        )
        candidates = (other for share in borrowers for other in self._running[share])
        return self._make_room(job, Preemption.CROSS_SHARE, candidates, may_go)

    def _displace(self, job: EngineJob) -> bool:
        def may_go(other: EngineJob) -> bool:
            return any(
                self._books.is_short(job.quota_share, kind, number, may_borrow=True)
                for kind, number in _of_types_of(other, job)
            )

        candidates = (
            other
            for other in self._running.get(job.quota_share, ())
            if other.scheduling_priority < job.scheduling_priority
        )
        return self._make_room(job, Preemption.IN_SHARE, candidates, may_go)

    def _make_room(
        self, job: EngineJob, kind: Preemption, candidates: Iterable[EngineJob], may_go: Callable[[EngineJob], bool]
    ) -> bool:
        may_borrow = kind is Preemption.IN_SHARE
        going: list[EngineJob] = []
        fits = self._books.fits(job.quota_share, job.demand_by_type, may_borrow)
        if not fits:
            left = [other for other in candidates if other.stop_reason is None and other.id not in self._gone]
            for other in sorted(left, key=self._first_to_go):
                if may_go(other):
                    self._books.give_back(other.quota_share, other.demand_by_type)
                    going.append(other)
                    if fits := self._books.fits(job.quota_share, job.demand_by_type, may_borrow):
                        break
        if not fits:
            for other in going:
                self._books.take(other.quota_share, other.demand_by_type)
            return False
        self._books.take(job.quota_share, job.demand_by_type)
        self._gone.update(other.id for other in going)
        self.victims += [Victim(other, kind, job) for other in going]
        return True


def _of_types_of(other: EngineJob, job: EngineJob) -> Iterator[tuple[str, int]]:
    """Yield what a job needs of the instance types that another one holds."""
    return (need for need in job.demand_by_type if any(need[0] == held for held, _ in other.demand_by_type))
