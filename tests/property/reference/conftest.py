"""The rules of the slow scheduler: what a queue uses, has room for, and takes next, each time counted anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.engine import AttemptRecord, JobSubmission, Preemption, PutQueue, PutQuotaShare

IN_USE = (JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)

OVER_QUOTA = "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED - Job "
LACKS_CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Unable to provision requested compute resources"
TOO_LARGE = (
    "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE - Service environment(s) associated with the job queue cannot "
    "meet the capacity requirement of the job."
)


@dataclass
class Job:
    """A job and all that ever happened to it."""

    asked: JobSubmission
    created_at: int
    sequence: int
    course: Callable[[int], Any]
    priority: int
    status: JobStatus = JobStatus.SUBMITTED
    status_reason: str | None = None
    attempt: int = 0
    came_at: int | None = None
    ended_at: int | None = None
    stop_reason: str | None = None
    held: list[tuple[int, int | None]] = field(default_factory=list)
    """(from, to) of its dispatches; to is None while it holds its instances."""
    story: list[tuple[int, str]] = field(default_factory=list)
    """What passes and attempts did with it: placed, head, behind, lacked capacity, failed."""
    started_at: int | None = None
    attempts: list[AttemptRecord] = field(default_factory=list)
    may_go_at: int = 0
    preempting: Preemption | None = None
    preempted_for: str = ""
    preempted: list[AttemptRecord] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.asked.job_id

    @property
    def needs(self) -> dict[str, int]:
        return dict(self.asked.demand_by_type)

    def place_in_share(self) -> tuple[int, int, int]:
        return -self.priority, self.created_at, self.sequence

    def head_since(self, limits_since: int) -> int:
        """Since when it has been at the head, or on its way from there and back for lack of capacity.

        No clock runs before the queue has time limits, the last time since ``limits_since``.
        """
        since = None
        for at, what in reversed(self.story):
            if what in ("behind", "failed") or at < limits_since:
                break
            since = at
        assert since is not None
        return since

    def lacks_capacity(self) -> str | None:
        outcomes = [what for _, what in self.story if what in ("lacked capacity", "failed")]
        return LACKS_CAPACITY if outcomes and outcomes[-1] == "lacked capacity" else None


class SlowQueue:
    """A queue: its policy, and since when it remembers what its shares did."""

    def __init__(self, reference: Any, change: PutQueue) -> None:
        self.reference = reference
        self.name = change.name
        self.settings = change
        self.remembers_since = -1
        self.served: dict[str, int] = {}
        self.limits_since = 0

    @property
    def policy(self) -> FairsharePolicy | None:
        return self.settings.policy if isinstance(self.settings.policy, FairsharePolicy) else None

    @property
    def window(self) -> int:
        return max(600, self.policy.share_decay_seconds if self.policy else 0) * 1000

    def change(self, change: PutQueue, now: int) -> None:
        """What the old window has forgotten stays forgotten. Clocks start anew when limits come."""
        if change.time_limits and not self.settings.time_limits:
            self.limits_since = now
        self.remembers_since = max(self.remembers_since, now - self.window)
        self.settings = change

    def jobs(self) -> list[Job]:
        return [job for job in self.reference.jobs if job.asked.queue == self.name and job.came_at is not None]

    def waiting(self) -> list[Job]:
        return [job for job in self.jobs() if job.status is JobStatus.RUNNABLE]

    def share_of(self, job: Job) -> str:
        return (job.asked.share_identifier or "") if self.policy else ""

    def active_shares(self, now: int) -> set[str]:
        """Shares with a job that has not ended, or that ended within the window."""
        horizon = max(now - self.window, self.remembers_since)
        return {self.share_of(job) for job in self.jobs() if job.ended_at is None or job.ended_at > horizon}

    def usage(self, share: str, now: int) -> Fraction:
        """History (an integral, dispatch by dispatch) and what is held now."""
        history = Fraction(0)
        holds = 0
        for job in self.jobs():
            for begin, end in job.held if self.share_of(job) == share else []:
                holds += job.asked.demand if end is None else 0
                oldest = now - max(begin, now - self.window, self.remembers_since)
                newest = now - (now if end is None else end)
                if newest < oldest:
                    faded = Fraction(oldest**2 - newest**2, 2 * self.window)
                    history += job.asked.demand * (oldest - newest - faded) * 2 / self.window
        history_weight = self.reference.options.history_weight
        return Fraction(history_weight * history + (1 - history_weight) * holds)

    def weight(self, share: str, now: int) -> Fraction:
        """The entry's weight; members of a prefix entry weigh as many times more as there are active ones."""
        for entry in self.policy.share_distribution if self.policy else ():
            prefix = entry.share_identifier.removesuffix("*")
            if share == entry.share_identifier:
                return Fraction(entry.weight_factor)
            if prefix != entry.share_identifier and share.startswith(prefix):
                members = [other for other in self.active_shares(now) if other.startswith(prefix)]
                return Fraction(entry.weight_factor) * len(members)
        return Fraction(1)

    def first(self, jobs: list[Job], now: int) -> Job | None:
        """The one of some waiting jobs that goes next."""
        if not self.policy:
            return min(jobs, key=lambda job: (job.created_at, job.sequence), default=None)
        heads = [
            min(
                (job for job in jobs if self.share_of(job) == share),
                key=Job.place_in_share,
            )
            for share in sorted({self.share_of(job) for job in jobs})
        ]

        def rank(job: Job) -> tuple[Fraction, int, Fraction, int, int]:
            share = self.share_of(job)
            weight = self.weight(share, now)
            score = self.usage(share, now) * weight
            served = self.served.get(share, -1) if score == 0 else -1
            return score, served, weight, job.created_at, job.sequence

        return min(heads, key=rank, default=None)

    def blocked_reason(self, head: Job) -> str | None:
        return TOO_LARGE if head.asked.demand > self.reference.capacity else head.lacks_capacity()

    def usable(self, now: int) -> int:
        """What the reservation leaves; nothing in a disabled environment."""
        if not self.reference.enabled:
            return 0
        if not self.policy or self.policy.compute_reservation == 0:
            return self.reference.capacity
        reserved = Fraction(self.policy.compute_reservation, 100) ** len(self.active_shares(now))
        return floor(self.reference.capacity * (1 - reserved))


class SlowQuotaQueue(SlowQueue):
    """A queue with quota shares. What is held is a list of jobs, and everything is counted anew each time."""

    def __init__(self, reference: Any, change: PutQueue) -> None:
        super().__init__(reference, change)
        self.put: dict[str, PutQuotaShare] = {}
        self.closing: set[str] = set()
        self.claims: dict[str, tuple[Job, list[tuple[Job, int]]]] = {}
        """Jobs that others were stopped for: those, and which of their attempts."""

    def share_of(self, job: Job) -> str:
        return job.asked.quota_share or ""

    @property
    def shares(self) -> dict[str, PutQuotaShare]:
        """All but those that were deleted and have no job left."""
        left = {self.share_of(job) for job in self.jobs() if job.ended_at is None}
        return {share: terms for share, terms in self.put.items() if share not in self.closing or share in left}

    def limit(self, share: str, kind: str) -> int:
        return sum(limit.max_capacity for limit in self.shares[share].capacity_limits if limit.capacity_unit == kind)

    def most(self, share: str, kind: str) -> int | None:
        """What a share may hold of a type; None: as much as it can borrow."""
        terms, own = self.shares[share], self.limit(share, kind)
        if terms.sharing != "LEND_AND_BORROW":
            return own
        return None if terms.borrow_limit == -1 else own + floor(Fraction(own * terms.borrow_limit, 100))

    def balance(self, share: str, kind: str, held: list[Job]) -> int:
        """How much a share has idle; below zero: how much it holds above its own."""
        use = sum(job.needs.get(kind, 0) for job in held if self.share_of(job) == share)
        return self.limit(share, kind) - use

    def fits(self, job: Job, held: list[Job], borrow: bool, kinds: tuple[str, ...] = ()) -> bool:
        """Whether all is well after a job has joined those that hold instances."""
        after, mine = [*held, job], self.share_of(job)
        for kind in kinds or job.needs:
            total = self.reference.limits.get(kind, 0)
            balances = {share: self.balance(share, kind, after) for share in self.shares}
            reserved = sum(
                max(0, balances[share])
                for share, terms in self.shares.items()
                if terms.sharing == "RESERVE" and share != mine
            )
            excess_of_promises = max(0, sum(self.limit(share, kind) for share in self.shares) - total)
            left = total - sum(other.needs.get(kind, 0) for other in after)
            if left < max(0, reserved - excess_of_promises):
                return False
            if balances[mine] >= 0:
                continue
            most = self.most(mine, kind)
            if not borrow or (most is not None and self.limit(mine, kind) - balances[mine] > most):
                return False
            borrowers = [share for share, terms in self.shares.items() if terms.sharing == "LEND_AND_BORROW"]
            lenders = [share for share, terms in self.shares.items() if terms.sharing != "RESERVE" and share != mine]
            borrowed = sum(max(0, -balances[share]) for share in borrowers)
            if mine not in borrowers or borrowed > sum(max(0, balances[share]) for share in lenders):
                return False
        return True

    def is_own(self, job: Job, held: list[Job]) -> bool:
        return all(
            self.balance(self.share_of(job), kind, held) >= number and number <= self.reference.limits.get(kind, 0)
            for kind, number in job.needs.items()
        )

    def line(self, share: str) -> list[Job]:
        return sorted((job for job in self.waiting() if self.share_of(job) == share), key=Job.place_in_share)

    def oldest_heads(self, jobs: list[Job]) -> list[Job]:
        shares = {self.share_of(job) for job in jobs}
        heads = [min((job for job in jobs if self.share_of(job) == share), key=Job.place_in_share) for share in shares]
        return sorted(heads, key=lambda job: (job.created_at, job.sequence))

    def owed(self, share: str, held: list[Job]) -> list[Job]:
        """The first jobs of a share that are within its own capacity, one after the other."""
        owed: list[Job] = []
        for job in self.line(share):
            if not self.is_own(job, held + owed):
                break
            owed.append(job)
        return owed

    def take(self, job: Job, now: int) -> None:
        self.reference.place(self, job, now)
        self.claims.pop(job.id, None)

    def redeem(self, now: int) -> None:
        """What was taken back goes to those it was taken back for, or to those before them who own enough."""
        for job, victims in list(self.claims.values()):
            if any(victim.status in IN_USE and victim.attempt == attempt for victim, attempt in victims):
                continue
            line = self.line(self.share_of(job)) if job.status is JobStatus.RUNNABLE else []
            for other in line[: line.index(job) + 1] if line else []:
                held = [each for each in self.jobs() if each.status in IN_USE]
                if other.may_go_at <= now and self.fits(other, held, borrow=False):
                    self.take(other, now)
            self.claims.pop(job.id, None)

    def fill(self, now: int, shares: list[str], owed: list[Job], borrow: bool) -> None:
        passed_over: list[Job] = []
        while heads := self.oldest_heads(
            [job for job in self.waiting() if self.share_of(job) in shares and job not in passed_over]
        ):
            job = heads[0]
            held = [other for other in self.jobs() if other.status in IN_USE]
            fits = self.fits(job, held + owed, borrow)
            if fits and job.may_go_at <= now:
                self.take(job, now)
            elif self.reference.options.blocking == "none" and not self.shares[self.share_of(job)].in_share_preemption:
                line = self.line(self.share_of(job))
                passed_over += [job] if fits else [other for other in line if other.needs == job.needs]
            else:
                if borrow:
                    owed += self.owed(self.share_of(job), held + owed)
                passed_over += self.line(self.share_of(job))

    def blocked_reason(self, head: Job) -> str | None:
        mine = self.share_of(head)
        if any(number > self.reference.limits.get(kind, 0) for kind, number in head.needs.items()):
            return TOO_LARGE
        for kind, number in head.needs.items():
            most = self.most(mine, kind)
            can_borrow = self.shares[mine].sharing == "LEND_AND_BORROW"
            if most is not None and number > most:
                more = " and borrow limits" if can_borrow else ""
                return f"{OVER_QUOTA}requirements exceed quota share capacity limits{more}."
            others = [share for share, terms in self.shares.items() if share != mine and terms.sharing != "RESERVE"]
            if can_borrow and number > self.limit(mine, kind) + sum(self.limit(share, kind) for share in others):
                return f"{OVER_QUOTA}requires borrowing that exceeds all configured borrowable capacity."
        return head.lacks_capacity()

    def preempt(self, now: int) -> None:
        """Make room for those who are owed, then for higher priorities of a share."""
        self.held = [job for job in self.jobs() if job.status in IN_USE and job.stop_reason is None]
        rest = []
        for head in self.oldest_heads(self.waiting()):
            line = self.line(self.share_of(head))
            while line and line[0].may_go_at <= now and self.is_own(line[0], self.held):
                if not self.make_room(line[0], Preemption.CROSS_SHARE, now):
                    break
                line.pop(0)
            rest.append(line)
        for line in rest:
            for job in line:
                if job.may_go_at > now:
                    break
                if self.fits(job, self.held, borrow=True):
                    self.held.append(job)
                elif not self.shares[self.share_of(job)].in_share_preemption or not self.make_room(
                    job, Preemption.IN_SHARE, now
                ):
                    break

    def make_room(self, job: Job, why: Preemption, now: int) -> bool:
        inside = why is Preemption.IN_SHARE
        gone: list[Job] = []
        running = sorted((other for other in self.held if other.status in IN_USE), key=self.first_to_go)
        for other in running:
            left = [each for each in self.held if each not in gone]
            if self.fits(job, left, inside):
                break
            short = [kind for kind in job.needs if kind in other.needs and not self.fits(job, left, inside, (kind,))]
            if inside:
                may_go = self.share_of(other) == self.share_of(job) and other.priority < job.priority and bool(short)
            else:
                may_go = self.share_of(other) != self.share_of(job) and any(
                    self.balance(self.share_of(other), kind, left) < 0 for kind in short
                )
            if may_go:
                gone.append(other)
        left = [each for each in self.held if each not in gone]
        if not self.fits(job, left, inside):
            return False
        self.held = [*left, job]
        for other in gone:
            self.reference.preempt(other, why, job, now)
            if not inside:
                self.claims.setdefault(job.id, (job, []))[1].append((other, other.attempt))
        return True

    def first_to_go(self, job: Job) -> tuple[Any, ...]:
        started = 10**18 if job.started_at is None else job.started_at
        youngest = (-started, -job.asked.demand, -job.sequence)
        rule = self.reference.options.victim_rule
        if rule == "latest-start":
            return youngest
        return (-job.asked.demand, job.priority, *youngest) if rule == "largest" else (job.priority, *youngest)


@pytest.fixture(scope="session")
def slow() -> SimpleNamespace:
    """`Job`, `SlowQueue` and `SlowQuotaQueue`, for the scheduler that plays workloads with them."""
    return SimpleNamespace(Job=Job, SlowQueue=SlowQueue, SlowQuotaQueue=SlowQuotaQueue, LACKS_CAPACITY=LACKS_CAPACITY)
