"""The engine against a second scheduler that is slow and plain.

`Reference` follows the same rules with lists and fractions. It keeps no running sums, no heaps and no index: what a
share used is computed anew from every job it ever had, and the next job is found by looking at all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import count
from math import floor
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.engine import Change, PutEnvironment, PutQueue, RemoveQueue, Transition

REPORT, COMMAND = 0, 1
IN_USE = (JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)
ENDED = (JobStatus.SUCCEEDED, JobStatus.FAILED)


@dataclass
class Job:
    """A job and all that ever happened to it. ``came_at`` is when it joined its queue."""

    id: str
    queue: str
    share: str
    demand: int
    priority: int
    created_at: int
    sequence: int
    reports: tuple[tuple[int, JobStatus], ...]
    status: JobStatus = JobStatus.SUBMITTED
    attempt: int = 0
    came_at: int | None = None
    placed_at: int | None = None
    ended_at: int | None = None
    stop_reason: str | None = None


class SlowQueue:
    """A queue: its policy, and since when it remembers what its shares did."""

    def __init__(self, jobs: list[Job], change: PutQueue) -> None:
        self.name = change.name
        self.priority = change.priority
        self.policy: FairsharePolicy | None = change.policy
        self.remembers_since = -1
        self.jobs = jobs

    @property
    def window(self) -> int:
        return max(600, self.policy.share_decay_seconds if self.policy else 0) * 1000

    def change(self, change: PutQueue, now: int) -> None:
        """What the old window has forgotten stays forgotten."""
        self.remembers_since = max(self.remembers_since, now - self.window)
        self.priority = change.priority
        self.policy = change.policy

    def jobs_of(self, share: str) -> list[Job]:
        return [job for job in self.jobs if (job.queue, job.share) == (self.name, share) and job.came_at is not None]

    def active_shares(self, now: int) -> set[str]:
        """Shares with a job that has not ended, or that ended within the window."""
        horizon = max(now - self.window, self.remembers_since)
        members = (job for job in self.jobs if job.queue == self.name and job.came_at is not None)
        return {job.share for job in members if job.ended_at is None or job.ended_at > horizon}

    def usage(self, share: str, now: int, history_weight: Fraction) -> Fraction:
        """History (an integral, job by job) and what is held now."""
        history = Fraction(0)
        holds = 0
        for job in self.jobs_of(share):
            if job.placed_at is None:
                continue
            holds += job.demand if job.ended_at is None else 0
            oldest = now - max(job.placed_at, now - self.window, self.remembers_since)
            newest = now - (now if job.ended_at is None else job.ended_at)
            if newest < oldest:
                faded = Fraction(oldest**2 - newest**2, 2 * self.window)
                history += job.demand * (oldest - newest - faded) * 2 / self.window
        return history_weight * history + (1 - history_weight) * holds

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

    def head(self, now: int, history_weight: Fraction) -> Job | None:
        """The one job that goes next."""
        waiting = [job for job in self.jobs if job.queue == self.name and job.status is JobStatus.RUNNABLE]
        if not self.policy:
            return min(waiting, key=lambda job: (job.created_at, job.sequence), default=None)
        heads = [
            min(
                (job for job in waiting if job.share == share),
                key=lambda job: (-job.priority, job.created_at, job.sequence),
            )
            for share in sorted({job.share for job in waiting})
        ]

        def rank(job: Job) -> tuple[Fraction, int, Fraction, int, int]:
            weight = self.weight(job.share, now)
            served = [other.placed_at for other in self.jobs_of(job.share) if other.placed_at is not None]
            score = self.usage(job.share, now, history_weight) * weight
            return score, max(served, default=-1), weight, job.created_at, job.sequence

        return min(heads, key=rank, default=None)

    def usable(self, capacity: int, now: int) -> int:
        """What the reservation leaves."""
        if not self.policy or self.policy.compute_reservation == 0:
            return capacity
        reserved = Fraction(self.policy.compute_reservation, 100) ** len(self.active_shares(now))
        return floor(capacity * (1 - reserved))


class Reference:
    """Plays a workload. Of the events of one instant, reports come first, then commands in the order of the calls."""

    def __init__(self, workload: Any) -> None:
        self.workload = workload
        self.log: list[Transition] = []
        self.jobs: list[Job] = []
        self.queues: dict[str, SlowQueue] = {}
        self.capacity, self.enabled = 0, True
        self.pending: list[tuple[int, int, int, Callable[[int], None]]] = []
        self.order = count()
        self.must_look = False
        self.to_stop: list[Job] = []
        for change in workload.setup:
            self.configure(change, 0)
        for planned in workload.jobs:
            new = planned.submission
            fields = (new.job_id, new.queue, new.share_identifier, new.demand, new.scheduling_priority)
            job = Job(*fields, planned.at, next(self.order), planned.reports)
            self.jobs.append(job)
            self.at(planned.at, COMMAND, partial(self.come, job))
        by_id = {job.id: job for job in self.jobs}
        for at, job_id in workload.terminations:
            self.at(at, COMMAND, partial(self.terminate, by_id[job_id], f"terminated at {at}"))
        for at, job_id, priority in workload.updates:
            self.at(at, COMMAND, partial(self.update, by_id[job_id], priority))
        for at, change in workload.changes:
            self.at(at, COMMAND, partial(self.configure, change))

    def at(self, at: int, kind: int, action: Callable[[int], None]) -> None:
        self.pending.append((at, kind, next(self.order), action))

    def play(self) -> list[Transition]:
        while self.pending:
            now = min(at for at, *_ in self.pending)
            due = sorted((event for event in self.pending if event[0] == now), key=lambda event: event[:3])
            self.pending = [event for event in self.pending if event[0] != now]
            for *_, action in due:
                action(now)
            placed = self.look(now) if self.must_look and self.enabled else []
            self.must_look = False
            self.execute(placed, now)
        return self.log

    def execute(self, placed: list[Job], now: int) -> None:
        """What is placed will report as planned; what is to stop reports its end in a while."""
        for job in placed:
            for delay, status in job.reports:
                self.at(now + delay, REPORT, partial(self.report, job, status))
        for job in self.to_stop:
            self.at(now + self.workload.stop_takes, REPORT, partial(self.report, job, JobStatus.FAILED))
        self.to_stop = []

    def look(self, now: int) -> list[Job]:
        """One scheduling pass."""
        placed = []
        for queue in sorted(self.queues.values(), key=lambda queue: (-queue.priority, queue.name)):
            while (job := queue.head(now, self.workload.options.history_weight)) is not None:
                held = sum(other.demand for other in self.jobs if other.status in IN_USE)
                if held + job.demand > queue.usable(self.capacity, now):
                    break
                job.attempt += 1
                job.placed_at = now
                self.move(job, JobStatus.SCHEDULED, now)
                placed.append(job)
        return placed

    def move(self, job: Job, status: JobStatus, now: int, reason: str | None = None) -> None:
        self.log.append(Transition(job.id, job.attempt, job.status, status, now, reason))
        job.status = status
        if status in ENDED:
            job.ended_at = now
            self.must_look = True

    def come(self, job: Job, now: int) -> None:
        if job.status is JobStatus.SUBMITTED:
            job.came_at = now
            self.move(job, JobStatus.RUNNABLE, now)
            self.must_look = True

    def terminate(self, job: Job, reason: str, now: int) -> None:
        if job.status in IN_USE and job.stop_reason is None:
            job.stop_reason = reason
            self.to_stop.append(job)
        elif job.status in (JobStatus.SUBMITTED, JobStatus.RUNNABLE):
            self.move(job, JobStatus.FAILED, now, reason)

    def update(self, job: Job, priority: int, now: int) -> None:
        if job.status not in ENDED and job.priority != priority:
            job.priority = priority
            self.must_look = self.must_look or job.status is JobStatus.RUNNABLE

    def report(self, job: Job, status: JobStatus, now: int) -> None:
        if job.status in ENDED:
            return
        if status in ENDED and job.stop_reason is not None:
            self.move(job, JobStatus.FAILED, now, job.stop_reason)
            return
        if status is not JobStatus.FAILED:
            course = (*IN_USE, JobStatus.SUCCEEDED)
            for following in course[course.index(job.status) + 1 : course.index(status) + 1]:
                self.move(job, following, now, str(status) if following is JobStatus.SUCCEEDED else None)
        else:
            self.move(job, JobStatus.FAILED, now, str(status))

    def configure(self, change: Change, now: int) -> None:
        self.must_look = True
        if isinstance(change, PutEnvironment):
            self.capacity, self.enabled = change.max_capacity, change.enabled
        elif isinstance(change, RemoveQueue):
            for job in self.jobs:
                if job.queue == change.name:
                    self.terminate(job, "Job queue deleted", now)
        elif isinstance(change, PutQueue):
            if change.name in self.queues:
                self.queues[change.name].change(change, now)
            else:
                self.queues[change.name] = SlowQueue(self.jobs, change)


@settings(max_examples=400)
@given(st.data())
def test_the_engine_does_what_the_reference_does(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.workloads())
    assert workload_kit.Player(workload).play() == Reference(workload).play()
