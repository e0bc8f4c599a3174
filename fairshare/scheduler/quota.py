"""Queues with quota shares: capacity by instance type that each share owns, lends and borrows.

Each quota share is a queue of its own, with a head of its own: one that is blocked does not hold up another. A pass

1. gives what was taken back to those it was taken back for (`Claim`);
2. places jobs on their share's own capacity;
3. sets aside what waiting jobs are still owed of their shares' own capacity, so that nobody borrows it meanwhile;
4. gives what is idle after that to borrowers, first in, first out by the age of the heads;
5. stops attempts for those who are owed, and for higher priorities (`fairshare.scheduler.preemption`).

Inside a share: higher priority first, then older. The arithmetic is in `fairshare.scheduler.books`.

Sources: https://docs.aws.amazon.com/batch/latest/userguide/quota-management.html,
https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html,
https://docs.aws.amazon.com/batch/latest/userguide/create-quota-shares.html.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, takewhile
from operator import is_not
from typing import ClassVar, Final, Self

from fairshare.model import JobStatus
from fairshare.scheduler.books import Books, Needs, Terms, obstacle
from fairshare.scheduler.commands import Blocking, EngineOptions
from fairshare.scheduler.heads import NO_CAPACITY, TOO_LARGE, BlockedReason, HeadOfLine, over_quota
from fairshare.scheduler.jobs import EngineJob, Preemption
from fairshare.scheduler.outcomes import EngineSnapshot
from fairshare.scheduler.positions import Positions
from fairshare.scheduler.preemption import Preemptor
from fairshare.scheduler.queues import Environment, Placement, Queue, Victim
from fairshare.scheduler.shares import DispatchOrder, RankOf, Share, by_age

MAX_QUOTA_SHARES: Final = 20
"""Of a queue (https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html)."""

Owed = list[tuple[str, Needs]]
"""What is set aside in a pass: a quota share, and what a job needs."""


@dataclass(slots=True)
class Claim:
    """A job for which borrowed capacity is being taken back, and the jobs that are still to be stopped for it.

    It goes first when the last of them has stopped. Otherwise a larger job of its own share, stopped at the same time,
    might borrow once more what others are owed, be stopped for them again, and so on without end.
    """

    job: EngineJob
    stopping: set[str]


@dataclass(slots=True, eq=False, kw_only=True)
class QuotaShare(Share):
    """A quota share: its terms and the jobs it runs. What they hold by type is in the queue's books."""

    terms: Terms
    enabled: bool = True
    is_closing: bool = False
    line: HeadOfLine = field(default_factory=HeadOfLine)
    positions: Positions = field(default_factory=Positions)
    running: dict[str, EngineJob] = field(default_factory=dict)
    stopping: dict[str, EngineJob] = field(default_factory=dict)
    """Those of them whose attempts are being stopped."""

    def take(self, job: EngineJob, now: int) -> None:
        """Hold the instances of a job that is placed."""
        self.held += job.demand
        self.running[job.id] = job

    def give_back(self, job: EngineJob, now: int) -> None:
        """Hold them no longer."""
        self.held -= job.demand
        del self.running[job.id]
        self.stopping.pop(job.id, None)

    def clone(self) -> Self:
        """Return a copy whose jobs can be taken without touching this one."""
        lanes = {name: lane.copy() for name, lane in self.lanes.items()}
        return replace(self, lanes=lanes, running=self.running.copy())

    def use(self) -> dict[str, int]:
        """Return the instances that it holds, by type."""
        held: dict[str, int] = {}
        for job in self.running.values():
            for kind, number in job.demand_by_type:
                held[kind] = held.get(kind, 0) + number
        return held

    def head(self) -> EngineJob | None:
        """Return the job that goes first."""
        lane = self.first_lane()
        return None if lane is None else lane[0][4]


class QuotaQueue(Queue[QuotaShare]):
    """A queue with a quota-share policy."""

    heeds_running_priorities: ClassVar[bool] = True

    def __init__(self, name: str, environment: str, options: EngineOptions) -> None:
        super().__init__(name, environment, options)
        self._books: Books | None = None
        """What the shares hold under their present terms; None: those changed."""
        self._obstacles: dict[tuple[str, Needs], str | None] = {}
        """What was found, under the same terms."""
        self._claims: dict[str, Claim] = {}
        """By job, the oldest first."""

    # -- shares ------------------------------------------------------------------------------------------------------

    def put_share(self, name: str, terms: Terms, enabled: bool) -> None:
        """Create a quota share, or change what it may use."""
        share = self.shares.get(name)
        if share is None:
            if len(self.shares) >= MAX_QUOTA_SHARES:
                raise ValueError(f"queue {self.name} has {MAX_QUOTA_SHARES} quota shares: a queue has no more")
            share = self.shares[name] = QuotaShare(name, terms=terms)
        elif share.is_closing:
            raise ValueError(f"quota share {name} is being deleted")
        share.terms = terms
        share.enabled = enabled
        self._on_new_terms()

    def close_share(self, name: str) -> None:
        """Have a quota share go with the last of its jobs."""
        share = self.shares[name]
        share.is_closing = True
        self._drop_if_closed(share)

    def check(self, job: EngineJob) -> None:
        """Raise ValueError when the queue cannot take a job."""
        super().check(job)
        share = self.shares.get(job.quota_share)
        if share is None:
            raise ValueError(f"queue {self.name} has no quota share {job.quota_share or '(none was named)'}")
        if share.is_closing:
            raise ValueError(f"quota share {share.identifier} is being deleted")
        if not share.enabled:
            raise ValueError(f"quota share {share.identifier} is disabled: it takes no new jobs")
        for instance_type, number in job.demand_by_type:
            if number < 1:
                raise ValueError(f"a job needs at least 1 instance of {instance_type}, not {number}")
            if [kind for kind, _ in job.demand_by_type].count(instance_type) > 1:
                raise ValueError(f"a job names instance type {instance_type} twice")
        if sum(number for _, number in job.demand_by_type) != job.demand:
            raise ValueError(f"a job of {job.demand} instances needs as many by type in a queue with quota shares")

    def _share_of(self, job: EngineJob) -> QuotaShare:
        return self.shares[job.quota_share]

    def line_of(self, job: EngineJob) -> HeadOfLine:
        """Return the line of the job's share."""
        return self.shares[job.quota_share].line

    def _lane_of(self, job: EngineJob) -> Hashable:
        return job.demand_by_type if self._options.blocking == Blocking.NONE else 0

    def _close(self, share: QuotaShare, now: int) -> None:
        super()._close(share, now)
        self._drop_if_closed(share)

    def _drop_if_closed(self, share: QuotaShare) -> None:
        if share.is_closing and not share.open_jobs:
            del self.shares[share.identifier]
            self._on_new_terms()

    def _on_new_terms(self) -> None:
        self._books = None
        self._obstacles = {}

    # -- the choice --------------------------------------------------------------------------------------------------

    def place(self, environment: Environment, now: int) -> Placement:
        """Choose the jobs to place at this instant."""
        placed: list[EngineJob] = []
        books = self._kept_books(environment)
        if environment.enabled and self._claims:
            placed += self._redeem(books, now)
        if environment.enabled and self._waiting and books.has_room:
            owed: Owed = []
            placed += self._fill(self._waiting.values(), books, now)
            borrowers = [share for share in self._waiting.values() if not _set_aside(share, books, owed)]
            placed += self._fill(borrowers, books, now, owed)
            for name, needs in owed:
                books.give_back(name, needs)
        environment.held += sum(job.demand for job in placed)
        for job in placed:
            self._claims.pop(job.id, None)
            self._has_left(self._share_of(job), job, now)
        return placed, [(share.line, share.head()) for share in self.shares.values()]

    def _redeem(self, books: Books, now: int) -> list[EngineJob]:
        """Place the jobs whose victims have all stopped, and those before them in their shares that fit as well."""
        placed: list[EngineJob] = []
        for claim in [claim for claim in self._claims.values() if not claim.stopping]:
            del self._claims[claim.job.id]
            if claim.job.status is not JobStatus.RUNNABLE or claim.job in placed:
                continue
            share = self._share_of(claim.job)
            before = list(takewhile(partial(is_not, claim.job), share.in_order()))
            for job in (*before, claim.job):
                if job.ready_at <= now and books.fits(share.identifier, job.demand_by_type, may_borrow=False):
                    books.take(share.identifier, job.demand_by_type)
                    share.take(job, now)
                    job.entry += 1  # its entry in the lane is stale
                    placed.append(job)
            share.drop_stale()
        return placed

    def _fill(self, shares: Iterable[QuotaShare], books: Books, now: int, owed: Owed | None = None) -> list[EngineJob]:
        """Place what fits, the share with the oldest head first, and return it.

        ``owed`` says that shares may borrow, and gets what must be set aside meanwhile.
        """
        may_borrow = owed is not None
        order = DispatchOrder(shares, by_age)
        placed: list[EngineJob] = []
        while (turn := order.head()) is not None:
            share, job = turn
            fits = books.fits(share.identifier, job.demand_by_type, may_borrow)
            if fits and job.ready_at <= now:
                books.take(share.identifier, job.demand_by_type)
                share.take(job, now)
                placed.append(job)
                order.place()
            elif not self._fills_behind(share):
                if owed is not None:
                    _set_aside(share, books, owed)  # a borrower has come to a job that is owed own capacity
                order.pass_over_share()
            elif fits:
                order.pass_over_job()
            else:
                order.pass_over_lane(job.demand_by_type)
        order.end()
        return placed

    def _fills_behind(self, share: QuotaShare) -> bool:
        """Whether jobs of a share may pass one that does not fit.

        Not where that one may displace them: they would be stopped for it, begin again, and so on without end.
        """
        return self._options.blocking == Blocking.NONE and not share.terms.in_share_preemption

    def victims(self, environment: Environment, now: int) -> Sequence[Victim]:
        """Choose the attempts to preempt after a pass, for those that it could not place."""
        if not environment.enabled or not self._waiting or not self._may_preempt(environment):
            return ()
        books = self._kept_books(environment).copy()
        for name, share in self.shares.items():
            for job in share.stopping.values():
                books.give_back(name, job.demand_by_type)
        running = {name: share.running.values() for name, share in self.shares.items()}
        preemptor = Preemptor(books, running, self._options.victim_rule)
        lines: list[tuple[bool, Iterator[EngineJob]]] = []
        for share in sorted(self._waiting.values(), key=_age_of_head):
            left: Iterator[EngineJob] = takewhile(lambda job: job.ready_at <= now, share.in_order())
            if preemptor.is_own(_head(share)):
                first = next((job for job in left if not (preemptor.is_own(job) and preemptor.reclaim(job))), None)
                left = chain((first,) if first is not None else (), left)
            lines.append((share.terms.in_share_preemption, left))
        while lines and not lines[-1][0]:
            lines.pop()  # it takes nothing from anybody who has a say
        for may_displace, line in lines:
            for job in line:
                if not preemptor.admit(job, may_displace):
                    break
        self._note_claims(preemptor.victims)
        return preemptor.victims

    def _note_claims(self, victims: Iterable[Victim]) -> None:
        for victim, kind, for_job in victims:
            if kind is Preemption.CROSS_SHARE:
                self._claims.setdefault(for_job.id, Claim(for_job, set())).stopping.add(victim.id)

    def _may_preempt(self, environment: Environment) -> bool:
        """Whether there can be a victim: a share with more than its own, or one that displaces its own jobs."""
        if any(share.terms.in_share_preemption for share in self._waiting.values()):
            return True
        books = self._kept_books(environment)
        return any(books.has_excess(name, kind) for name in self.shares for kind in environment.limits)

    def blocked_reason(self, head: EngineJob, environment: Environment) -> BlockedReason | None:
        """Return why the head of a share is blocked. None: it waits for others to end or to be preempted."""
        if any(number > environment.limits.get(kind, 0) for kind, number in head.demand_by_type):
            return TOO_LARGE
        asked = head.quota_share, head.demand_by_type
        if asked not in self._obstacles:
            self._obstacles[asked] = obstacle(*asked, self._terms())
        if (text := self._obstacles[asked]) is not None:
            return over_quota(text)
        return NO_CAPACITY if head.lacks_capacity else None

    def release(self, job: EngineJob, now: int) -> None:
        """Give back the instances of a job that ends."""
        self._cross_off(job)
        super().release(job, now)

    def take_back(self, job: EngineJob, now: int, lacks_capacity: bool = False) -> None:
        """Let a job whose attempt ended wait again."""
        self._cross_off(job)
        super().take_back(job, now, lacks_capacity)

    def note_stop(self, job: EngineJob) -> None:
        """Count on the instances of an attempt that is being stopped."""
        self._share_of(job).stopping[job.id] = job

    def _cross_off(self, job: EngineJob) -> None:
        for claim in self._claims.values():
            claim.stopping.discard(job.id)
        if self._books is not None:
            self._books.give_back(job.quota_share, job.demand_by_type)

    def _kept_books(self, environment: Environment) -> Books:
        """Return what the shares hold now; they are kept from pass to pass while terms and limits are the same."""
        if self._books is None or self._books.limits is not environment.limits:
            self._books = Books(environment.limits, self._terms())
            for name, share in self.shares.items():
                for job in share.running.values():
                    self._books.take(name, job.demand_by_type)
        return self._books

    def _terms(self) -> Mapping[str, Terms]:
        return {name: share.terms for name, share in self.shares.items()}

    def _rank_at(self, now: int) -> RankOf[QuotaShare]:
        return by_age

    # -- views -------------------------------------------------------------------------------------------------------

    def snapshot(self, now: int, limit: int) -> EngineSnapshot:
        """Return the fronts of the queue and of its shares, and capacity in use."""
        fronts = {
            name: next(share.positions.see([head], self._changed_at, now))
            for name, share in self.shares.items()
            if (head := share.head()) is not None
        }
        use = {name: held for name, share in self.shares.items() if (held := share.use())}
        return replace(super().snapshot(now, limit), front_of_quota_shares=fronts, instances_by_quota_share=use)


def _set_aside(share: QuotaShare, books: Books, owed: Owed) -> bool:
    """Count waiting jobs as placed as far as their share's own capacity goes; returns whether there are such jobs."""
    is_owed = False
    head = share.head()
    if head is None or not books.is_own(share.identifier, head.demand_by_type):
        return is_owed
    for job in share.in_order():
        if not books.is_own(share.identifier, job.demand_by_type):
            break
        books.take(share.identifier, job.demand_by_type)
        owed.append((share.identifier, job.demand_by_type))
        is_owed = True
    return is_owed


def _age_of_head(share: QuotaShare) -> tuple[int, int]:
    head = _head(share)
    return head.created_at, head.sequence


def _head(share: QuotaShare) -> EngineJob:
    """Return the head of a share where a job waits."""
    head = share.head()
    assert head is not None
    return head
