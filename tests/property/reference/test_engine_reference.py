"""The engine against a second scheduler that is slow and plain.

`Reference` follows the same rules with lists and fractions. It keeps no running sums, no heaps, no index and no clocks:
what a share used or holds, and for how long a job has been at the head, is computed anew from all that ever happened,
and the next job is found by looking at all of them. What happens to jobs is here, the rules of queues in conftest.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from math import ceil
from typing import Any

import pytest
from hypothesis import given, seed, settings

from fairshare.model import JobStatus, QuotaSharePolicy
from fairshare.scheduler.engine import (
    AttemptRecord,
    BlockedNotice,
    Change,
    Preemption,
    PreemptionNotice,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    RemoveQueue,
    RemoveQuotaShare,
    Transition,
)

BATCH_SIZE = 400
BATCHES = ceil(int(os.environ.get("FAIRSHARE_REFERENCE_SCENARIOS", "400")) / BATCH_SIZE)
"""How many random scenarios are compared, in batches of one seed each; 10,000 take some minutes."""

REPORT, COMMAND, TIMER = 0, 1, 2
IN_USE = (JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)
ENDED = (JobStatus.SUCCEEDED, JobStatus.FAILED)


class Reference:
    """Plays a workload. Of the events of one instant, reports come first, then commands in the order of the calls."""

    def __init__(self, workload: Any, slow: Any) -> None:
        self.slow = slow
        self.options = workload.options
        self.stop_takes = workload.stop_takes
        self.log: list[Transition] = []
        self.notices: list[BlockedNotice] = []
        self.told: dict[str, str | None] = {}
        self.jobs: list[Any] = []
        self.queues: dict[str, Any] = {}
        self.preemptions: list[PreemptionNotice] = []
        self.capacity, self.enabled = 0, True
        self.limits: dict[str, int] = {}
        self.pending: list[tuple[int, int, int, Callable[[int], None]]] = []
        self.order = count()
        self.must_look = False
        self.to_stop: list[Any] = []
        for change in workload.setup:
            self.configure(change, 0)
        for planned in workload.jobs:
            new = planned.submission
            job = slow.Job(new, planned.at, next(self.order), planned.course, new.scheduling_priority)
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
                    if isinstance(queue, self.slow.SlowQuotaQueue) and self.enabled:
                        queue.preempt(now)
            for job in self.to_stop:
                self.at(now + self.stop_takes, REPORT, partial(self.report, job, job.attempt, JobStatus.FAILED, None))
            self.to_stop = []
        return self.log

    # -- one pass ------------------------------------------------------------------------------------------------------

    def look(self, queue: Any, now: int) -> bool:
        """Place what fits; returns whether the time of a head was up, so that it must be looked again."""
        heads = (
            self.look_at_shares(queue, now)
            if isinstance(queue, self.slow.SlowQuotaQueue)
            else self.look_at_line(queue, now)
        )
        for job in queue.waiting():
            job.story.append((now, "head" if job in heads else "behind"))
            if job not in heads:
                self.say_blocked(job, None, now)
        return any([self.is_over(head, queue, now) for head in heads])

    def look_at_line(self, queue: Any, now: int) -> list[Any]:
        passed_over: list[Any] = []
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
        return passed_over[:1]

    def look_at_shares(self, queue: Any, now: int) -> list[Any]:
        if self.enabled:
            queue.redeem(now)
            queue.fill(now, list(queue.shares), [], borrow=False)
            held = [job for job in queue.jobs() if job.status in IN_USE]
            owed = {share: queue.owed(share, held) for share in queue.shares}
            borrowers = [share for share in queue.shares if not owed[share]]
            queue.fill(now, borrowers, [job for jobs in owed.values() for job in jobs], borrow=True)
        return [line[0] for share in queue.shares if (line := queue.line(share))]

    def place(self, queue: Any, job: Any, now: int) -> None:
        queue.served[queue.share_of(job)] = now
        job.attempt += 1
        job.held.append((now, None))
        job.story.append((now, "placed"))
        self.move(job, JobStatus.SCHEDULED, now)
        job.status_reason = None
        for delay, status, reason in job.course(job.attempt):
            self.at(now + delay, REPORT, partial(self.report, job, job.attempt, status, reason))

    def is_over(self, head: Any, queue: Any, now: int) -> bool:
        """Say that the head is blocked, and end it when a time limit of the queue is reached."""
        reason = queue.blocked_reason(head)
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

    def say_blocked(self, job: Any, reason: str | None, now: int) -> None:
        told = self.told.get(job.id)
        self.told[job.id] = reason
        if reason is not None and reason != told:
            self.notices.append(BlockedNotice(job.id, job.asked.queue, reason, now))
            job.status_reason = reason
        elif reason is None and told is not None and (job.status_reason or "").startswith("MISCONFIGURATION:"):
            job.status_reason = None

    def look_again(self, job: Any, attempt: int, now: int) -> None:
        if job.status is JobStatus.RUNNABLE and job.attempt == attempt:
            self.must_look = True

    # -- what happens to a job -----------------------------------------------------------------------------------------

    def move(self, job: Any, status: JobStatus, now: int, reason: str | None = None) -> None:
        self.log.append(Transition(job.id, job.attempt, job.status, status, now, reason))
        job.status = status
        job.status_reason = reason or job.status_reason

    def come(self, job: Any, now: int) -> None:
        if job.status is JobStatus.SUBMITTED:
            queue = self.queues[job.asked.queue]
            if queue.share_of(job) not in queue.active_shares(now):
                queue.served.pop(queue.share_of(job), None)
            job.came_at = now
            self.move(job, JobStatus.RUNNABLE, now)
            self.must_look = True

    def terminate(self, job: Any, reason: str, now: int) -> None:
        if job.status in IN_USE:
            if job.preempting is not None:
                job.preempting, job.stop_reason = None, reason
            self.stop(job, reason)
        elif job.status not in ENDED:
            self.end(job, JobStatus.FAILED, now, reason)

    def stop(self, job: Any, reason: str) -> None:
        if job.stop_reason is None:
            job.stop_reason = reason
            self.to_stop.append(job)

    def end(self, job: Any, status: JobStatus, now: int, reason: str | None) -> None:
        if job.status in IN_USE:
            self.let_go(job, now)
            self.keep_attempt(job, now, reason)
        job.ended_at = now
        self.move(job, status, now, reason)
        self.must_look = True

    def let_go(self, job: Any, now: int) -> None:
        begin, _ = job.held[-1]
        job.held[-1] = (begin, now)

    def keep_attempt(self, job: Any, now: int, reason: str | None) -> None:
        job.attempts.append(AttemptRecord(job.attempt, job.held[-1][0], job.started_at, now, reason))

    def update(self, job: Any, priority: int, now: int) -> None:
        if job.status not in ENDED and job.priority != priority:
            job.priority = priority
            is_quota = isinstance(self.queues[job.asked.queue], self.slow.SlowQuotaQueue)
            heeds = job.status is JobStatus.RUNNABLE or (is_quota and job.status in IN_USE)
            self.must_look = self.must_look or heeds

    def report(self, job: Any, attempt: int, status: JobStatus, reason: str | None, now: int) -> None:
        if job.status not in IN_USE or job.attempt != attempt:
            return
        if job.preempting is not None and status is JobStatus.SUCCEEDED:
            job.preempting = job.stop_reason = job.status_reason = None
        if job.preempting is not None and status in ENDED:
            self.is_preempted(job, job.preempting, now)
        elif status in ENDED and job.stop_reason is not None:
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

    def preempt(self, job: Any, why: Preemption, for_job: Any, now: int) -> None:
        self.stop(job, why.value)
        job.preempting, job.preempted_for = why, for_job.id
        job.status_reason = f"PREEMPTION_IN_PROGRESS: {why.value}"
        self.preemptions.append(PreemptionNotice(job.id, job.attempt, why, now, for_job.id))

    def is_preempted(self, job: Any, why: Preemption, now: int) -> None:
        self.let_go(job, now)
        job.preempted.append(AttemptRecord(job.attempt, job.held[-1][0], job.started_at, now, why.value))
        self.preemptions.append(PreemptionNotice(job.id, job.attempt, why, now, job.preempted_for, True))
        job.preempting = job.stop_reason = None
        retries = job.asked.preemption_retries
        if retries is not None and len(job.preempted) > retries:
            job.ended_at = now
            self.move(job, JobStatus.FAILED, now, why.value)
            self.must_look = True
        else:
            self.wait_again(job, now, why.value, "failed")
            self.told[job.id] = None

    def time_out(self, job: Any, attempt: int, now: int) -> None:
        if job.status in IN_USE and job.attempt == attempt:
            self.stop(job, "Job attempt duration exceeded timeout")

    def fail(self, job: Any, now: int, reason: str) -> None:
        """An attempt failed by itself."""
        bare = reason.removeprefix("Received status from SageMaker: ")
        if bare.startswith(("CapacityError", "MaxPendingTime")):
            self.wait_again(job, now, self.slow.LACKS_CAPACITY, "lacked capacity")
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

    def wait_again(self, job: Any, now: int, reason: str, why: str) -> None:
        self.let_go(job, now)
        self.move(job, JobStatus.RUNNABLE, now, reason)
        job.story.append((now, why))
        job.started_at = None
        self.must_look = True

    def configure(self, change: Change, now: int) -> None:
        if isinstance(change, PutEnvironment):
            self.capacity, self.enabled = change.max_capacity, change.enabled
            self.limits = {limit.capacity_unit: limit.max_capacity for limit in change.capacity_limits}
            self.must_look = True
        elif isinstance(change, PutQuotaShare):
            self.must_look = True
            self.queues[change.queue].put[change.name] = change
        elif isinstance(change, RemoveQuotaShare):
            queue = self.queues[change.queue]
            for job in self.jobs if change.name in queue.shares else ():
                if job.asked.quota_share == change.name:
                    self.terminate(job, "Quota share deleted", now)
            queue.closing.add(change.name)
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
                is_quota = isinstance(change.policy, QuotaSharePolicy)
                kind = self.slow.SlowQuotaQueue if is_quota else self.slow.SlowQueue
                self.queues[change.name] = kind(self, change)


@pytest.mark.parametrize("kind", ["fifo and fair-share", "quota shares"])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_engine_does_what_the_reference_does(workload_kit: Any, slow: Any, batch: int, kind: str) -> None:
    """Transition by transition; and what it tells of attempts, reasons and blocked heads."""

    @seed(batch)
    @settings(max_examples=BATCH_SIZE, derandomize=False, database=None)
    @given(workload_kit.quota_workloads() if kind == "quota shares" else workload_kit.workloads(rich=True))
    def agree(workload: Any) -> None:
        player, reference = workload_kit.Player(workload), Reference(workload, slow)
        assert player.play() == reference.play()
        assert player.engine.take_notices() == reference.notices
        for job in reference.jobs:
            seen = player.engine.job(job.id)
            assert (list(seen.attempts), seen.status_reason) == (job.attempts, job.status_reason)
            assert list(seen.preempted_attempts) == job.preempted[-10:]
        assert player.engine.take_preemptions() == reference.preemptions

    agree()
