"""The engine against a second scheduler that is slow and plain.

`Reference` follows the same rules with lists and fractions. It keeps no running sums, no heaps, no index and no clocks:
what a share used, and for how long a job has been at the head, is computed anew from all that ever happened, and the
next job is found by looking at all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import partial
from itertools import count
from math import ceil, floor
from typing import Any

import pytest
from hypothesis import given, seed, settings

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.engine import (
    AttemptRecord,
    BlockedNotice,
    Change,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    RemoveQueue,
    Transition,
)

BATCH_SIZE = 400
BATCHES = ceil(int(os.environ.get("FAIRSHARE_REFERENCE_SCENARIOS", "400")) / BATCH_SIZE)
"""How many random scenarios are compared, in batches of one seed each; 10,000 take some minutes."""

REPORT, COMMAND, TIMER = 0, 1, 2
IN_USE = (JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)
ENDED = (JobStatus.SUCCEEDED, JobStatus.FAILED)

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

    @property
    def id(self) -> str:
        return self.asked.job_id

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

    def blocked_reason(self, capacity: int) -> str | None:
        if self.asked.demand > capacity:
            return TOO_LARGE
        outcomes = [what for _, what in self.story if what in ("lacked capacity", "failed")]
        return LACKS_CAPACITY if outcomes and outcomes[-1] == "lacked capacity" else None


class SlowQueue:
    """A queue: its policy, and since when it remembers what its shares did."""

    def __init__(self, reference: Reference, change: PutQueue) -> None:
        self.reference = reference
        self.name = change.name
        self.settings = change
        self.remembers_since = -1
        self.served: dict[str, int] = {}
        self.limits_since = 0

    @property
    def policy(self) -> FairsharePolicy | None:
        return self.settings.policy

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
                key=lambda job: (-job.priority, job.created_at, job.sequence),
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

    def usable(self, now: int) -> int:
        """What the reservation leaves; nothing in a disabled environment."""
        if not self.reference.enabled:
            return 0
        if not self.policy or self.policy.compute_reservation == 0:
            return self.reference.capacity
        reserved = Fraction(self.policy.compute_reservation, 100) ** len(self.active_shares(now))
        return floor(self.reference.capacity * (1 - reserved))


class Reference:
    """Plays a workload. Of the events of one instant, reports come first, then commands in the order of the calls."""

    def __init__(self, workload: Any) -> None:
        self.options = workload.options
        self.stop_takes = workload.stop_takes
        self.log: list[Transition] = []
        self.notices: list[BlockedNotice] = []
        self.told: dict[str, str | None] = {}
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
            job = Job(new, planned.at, next(self.order), planned.course, new.scheduling_priority)
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
            if self.must_look:
                self.must_look = False
                for queue in sorted(self.queues.values(), key=lambda queue: (-queue.settings.priority, queue.name)):
                    while self.look(queue, now):
                        pass
            for job in self.to_stop:
                self.at(now + self.stop_takes, REPORT, partial(self.report, job, job.attempt, JobStatus.FAILED, None))
            self.to_stop = []
        return self.log

    # -- one pass ------------------------------------------------------------------------------------------------------

    def look(self, queue: SlowQueue, now: int) -> bool:
        """Place what fits; returns whether the head's time was up, so that it must be looked again."""
        passed_over: list[Job] = []
        while job := queue.first([job for job in queue.waiting() if job not in passed_over], now):
            held = sum(other.asked.demand for other in self.jobs if other.status in IN_USE)
            if held + job.asked.demand <= queue.usable(now) and job.may_go_at <= now:
                self.place(queue, job, now)
                continue
            passed_over.append(job)
            if self.options.blocking == "queue":
                break
            if self.options.blocking == "share":
                passed_over += [other for other in queue.waiting() if queue.share_of(other) == queue.share_of(job)]
        head = passed_over[0] if passed_over else None
        for job in queue.waiting():
            job.story.append((now, "head" if job is head else "behind"))
            if job is not head:
                self.say_blocked(job, None, now)
        return head is not None and self.is_over(head, queue, now)

    def place(self, queue: SlowQueue, job: Job, now: int) -> None:
        queue.served[queue.share_of(job)] = now
        job.attempt += 1
        job.held.append((now, None))
        job.story.append((now, "placed"))
        self.move(job, JobStatus.SCHEDULED, now)
        job.status_reason = None
        for delay, status, reason in job.course(job.attempt):
            self.at(now + delay, REPORT, partial(self.report, job, job.attempt, status, reason))

    def is_over(self, head: Job, queue: SlowQueue, now: int) -> bool:
        """Say that the head is blocked, and end it when a time limit of the queue is reached."""
        reason = head.blocked_reason(self.capacity)
        self.say_blocked(head, reason, now)
        for limit in queue.settings.time_limits:
            if reason is not None and reason.startswith(limit.reason):
                due = head.head_since(queue.limits_since) + limit.max_time_ms
                if due <= now:
                    self.end(
                        head,
                        JobStatus.FAILED,
                        now,
                        f"Terminated by JobStateTimeLimit action due to reason: {limit.reason}",
                    )
                    return True
                self.at(due, TIMER, partial(self.look_again, head, head.attempt))
        return False

    def say_blocked(self, job: Job, reason: str | None, now: int) -> None:
        told = self.told.get(job.id)
        self.told[job.id] = reason
        if reason is not None and reason != told:
            self.notices.append(BlockedNotice(job.id, job.asked.queue, reason, now))
            job.status_reason = reason
        elif reason is None and told is not None and job.status_reason == TOO_LARGE:
            job.status_reason = None

    def look_again(self, job: Job, attempt: int, now: int) -> None:
        if job.status is JobStatus.RUNNABLE and job.attempt == attempt:
            self.must_look = True

    # -- what happens to a job -----------------------------------------------------------------------------------------

    def move(self, job: Job, status: JobStatus, now: int, reason: str | None = None) -> None:
        self.log.append(Transition(job.id, job.attempt, job.status, status, now, reason))
        job.status = status
        job.status_reason = reason or job.status_reason

    def come(self, job: Job, now: int) -> None:
        if job.status is JobStatus.SUBMITTED:
            queue = self.queues[job.asked.queue]
            if queue.share_of(job) not in queue.active_shares(now):
                queue.served.pop(queue.share_of(job), None)
            job.came_at = now
            self.move(job, JobStatus.RUNNABLE, now)
            self.must_look = True

    def terminate(self, job: Job, reason: str, now: int) -> None:
        if job.status in IN_USE:
            self.stop(job, reason)
        elif job.status not in ENDED:
            self.end(job, JobStatus.FAILED, now, reason)

    def stop(self, job: Job, reason: str) -> None:
        if job.stop_reason is None:
            job.stop_reason = reason
            self.to_stop.append(job)

    def end(self, job: Job, status: JobStatus, now: int, reason: str | None) -> None:
        if job.status in IN_USE:
            self.let_go(job, now)
            self.keep_attempt(job, now, reason)
        job.ended_at = now
        self.move(job, status, now, reason)
        self.must_look = True

    def let_go(self, job: Job, now: int) -> None:
        begin, _ = job.held[-1]
        job.held[-1] = (begin, now)

    def keep_attempt(self, job: Job, now: int, reason: str | None) -> None:
        job.attempts.append(AttemptRecord(job.attempt, job.held[-1][0], job.started_at, now, reason))

    def update(self, job: Job, priority: int, now: int) -> None:
        if job.status not in ENDED and job.priority != priority:
            job.priority = priority
            self.must_look = self.must_look or job.status is JobStatus.RUNNABLE

    def report(self, job: Job, attempt: int, status: JobStatus, reason: str | None, now: int) -> None:
        if job.status not in IN_USE or job.attempt != attempt:
            return
        if status in ENDED and job.stop_reason is not None:
            self.end(job, JobStatus.FAILED, now, job.stop_reason)
        elif status is JobStatus.FAILED:
            self.fail(job, now, reason or "")
        else:
            until = JobStatus.RUNNING if status is JobStatus.SUCCEEDED else status
            for following in IN_USE[IN_USE.index(job.status) + 1 : IN_USE.index(until) + 1]:
                self.move(job, following, now)
                if following is JobStatus.RUNNING:
                    job.started_at = now
                    if job.asked.attempt_duration_ms is not None:
                        self.at(now + job.asked.attempt_duration_ms, TIMER, partial(self.time_out, job, attempt))
            if status is JobStatus.SUCCEEDED:
                self.end(job, status, now, reason)

    def time_out(self, job: Job, attempt: int, now: int) -> None:
        if job.status in IN_USE and job.attempt == attempt:
            self.stop(job, "Job attempt duration exceeded timeout")

    def fail(self, job: Job, now: int, reason: str) -> None:
        """An attempt failed by itself."""
        bare = reason.removeprefix("Received status from SageMaker: ")
        if bare.startswith(("CapacityError", "MaxPendingTime")):
            self.wait_again(job, now, LACKS_CAPACITY, "lacked capacity")
            job.may_go_at = now + max(self.options.capacity_backoff_ms, 1000)
            self.at(job.may_go_at, TIMER, partial(self.look_again, job, job.attempt))
            return
        text = f"Received status from SageMaker: {bare}"
        rules = [rule.action for rule in job.asked.evaluate_on_exit if fnmatchcase(text, rule.on_status_reason)]
        if len(job.attempts) + 1 < job.asked.attempts and rules[:1] != ["EXIT"]:
            self.keep_attempt(job, now, reason)
            self.wait_again(job, now, reason, "failed")
            self.told[job.id] = None
        else:
            self.end(job, JobStatus.FAILED, now, reason)

    def wait_again(self, job: Job, now: int, reason: str, why: str) -> None:
        self.let_go(job, now)
        self.move(job, JobStatus.RUNNABLE, now, reason)
        job.story.append((now, why))
        job.started_at = None
        self.must_look = True

    def configure(self, change: Change, now: int) -> None:
        if isinstance(change, PutEnvironment):
            self.capacity, self.enabled = change.max_capacity, change.enabled
            self.must_look = True
        elif isinstance(change, RemoveQueue):
            for job in self.jobs:
                if job.asked.queue == change.name:
                    self.terminate(job, "Job queue deleted", now)
        elif isinstance(change, PutQueue):
            self.must_look = True
            if change.name in self.queues:
                self.queues[change.name].change(change, now)
            else:
                self.queues[change.name] = SlowQueue(self, change)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_engine_does_what_the_reference_does(workload_kit: Any, batch: int) -> None:
    """Transition by transition; and what it tells of attempts, reasons and blocked heads."""

    @seed(batch)
    @settings(max_examples=BATCH_SIZE, derandomize=False, database=None)
    @given(workload_kit.workloads(rich=True))
    def agree(workload: Any) -> None:
        player, reference = workload_kit.Player(workload), Reference(workload)
        assert player.play() == reference.play()
        assert player.engine.take_notices() == reference.notices
        for job in reference.jobs:
            seen = player.engine.job(job.id)
            assert (list(seen.attempts), seen.status_reason) == (job.attempts, job.status_reason)

    agree()
