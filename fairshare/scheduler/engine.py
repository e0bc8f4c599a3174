"""The scheduling engine: AWS Batch's service-job queues as a state machine with an event heap. Pure.

One engine serves the local AWS, the simulator and every prediction. It reads no clock, starts no process and draws no
random number: commands carry the instant they happen at (integer milliseconds), and what execution did comes back
through `Engine.report`. `Engine.advance` works instant by instant: first all events due at an instant, then one
scheduling pass over the environments they touched.

The model, where AWS publishes no exact rule, is section 11.2 of the project's AWS notes:

* a queue without a policy is first-in-first-out by creation;
* a fair-share queue takes the head of the share with the lowest ``usage * effective weight``; ties go to the lower
  weight, then to the older head, then to the earlier submission. Only among shares without any use the one served
  longest ago goes first;
* inside a share: higher priority first, then older. Priority never moves a job across shares;
* strict head of line: a head that does not fit holds up its queue. Fair-share never stops a running job;
* an attempt that fails is judged by `fairshare.scheduler.retries`; a retried job waits in the place its age gives it,
  and lack of capacity uses no attempt. An attempt that outlasts its time is stopped, and its job is not retried;
* a head that is blocked is told about, and ended by a time limit of its queue (`fairshare.scheduler.heads`);
* a pass is made when something happens (a job arrives, ends or moves, a limit changes), not as time goes by;
* queues on one environment are visited by priority, descending, then by name;
* a ``compute_reservation`` leaves ``floor(max * (1 - (cr/100)^n))`` instances usable with n active shares.

Sources: https://docs.aws.amazon.com/batch/latest/userguide/share-identifiers.html,
https://docs.aws.amazon.com/batch/latest/APIReference/API_FairsharePolicy.html,
https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from fairshare.model import JobStatus
from fairshare.scheduler.commands import (
    MIN_CAPACITY_BACKOFF_MS,
    Blocking,
    Change,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    RemoveEnvironment,
    RemoveQueue,
    RetryAction,
    RetryRule,
    TimeLimit,
)
from fairshare.scheduler.heads import NO_CAPACITY, blocked_reason, say_blocked
from fairshare.scheduler.jobs import AttemptRecord, EngineJob
from fairshare.scheduler.outcomes import LEGAL_TRANSITIONS, BlockedNotice, EngineSnapshot, StopOrder, Transition
from fairshare.scheduler.queues import Environment, Queue
from fairshare.scheduler.retries import Verdict, judge

__all__ = [
    "LEGAL_TRANSITIONS",
    "AttemptRecord",
    "BlockedNotice",
    "Blocking",
    "Change",
    "Engine",
    "EngineJob",
    "EngineOptions",
    "EngineSnapshot",
    "JobSubmission",
    "PutEnvironment",
    "PutQueue",
    "RemoveEnvironment",
    "RemoveQueue",
    "RetryAction",
    "RetryRule",
    "StopOrder",
    "TimeLimit",
    "Transition",
]

TIMED_OUT: Final = "Job attempt duration exceeded timeout"
"""AWS's text for a compute job whose attempt outlasted its time; none is published for service jobs (model)."""

_EXECUTION: Final = (JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)
_REPORTABLE: Final = frozenset({JobStatus.STARTING, JobStatus.RUNNING, JobStatus.SUCCEEDED, JobStatus.FAILED})


class _Kind(IntEnum):
    """Events of one instant are worked off in this order, then by sequence: execution, commands, what falls due."""

    REPORT = 0
    COMMAND = 1
    TIMER = 2


class _Report(NamedTuple):
    job_id: str
    attempt: int
    status: JobStatus
    reason: str | None


class _Evaluate(NamedTuple):
    job_id: str


class _Terminate(NamedTuple):
    job_id: str
    reason: str


class _Update(NamedTuple):
    job_id: str
    scheduling_priority: int


class _TimeOut(NamedTuple):
    """An attempt has run for as long as it may."""

    job_id: str
    attempt: int


class _LookAgain(NamedTuple):
    """A waiting job may be placed from now on, or its time at the head is up: the next pass knows."""

    job_id: str
    attempt: int


_Event = _Report | _Evaluate | _Terminate | _Update | _TimeOut | _LookAgain | Change


class Engine:
    """AWS Batch service queues in virtual time.

    Instants must not go backwards: an ``at`` before the last `advance` counts as that instant. Unknown job ids raise
    KeyError, unknown queues and environments too; the API in front checks names first. A change is judged when its
    instant comes, so `advance` raises what is wrong with it. Such a change does nothing, and the engine can go on.
    """

    def __init__(self, options: EngineOptions | None = None) -> None:
        self.options = options or EngineOptions()
        self._now = 0
        self._events: list[tuple[int, _Kind, int, _Event]] = []
        self._sequence = count()
        self._jobs: dict[str, EngineJob] = {}
        self._environments: dict[str, Environment] = {}
        self._queues: dict[str, Queue] = {}
        self._touched: set[str] = set()
        self._transitions: list[Transition] = []
        self._stops: list[StopOrder] = []
        self._notices: list[BlockedNotice] = []

    # -- commands ------------------------------------------------------------------------------------------------

    def submit(self, submission: JobSubmission, at: int) -> str:
        """Accept a job at ``at`` ms; it is SUBMITTED until the engine has advanced to that instant. Returns its id.

        Raises:
            KeyError: no such queue.
            ValueError: the id is taken, the demand, the attempts or their duration are below 1, or the queue is
                disabled or being deleted.
        """
        if submission.job_id in self._jobs:
            raise ValueError(f"job {submission.job_id} exists")
        _check(submission)
        queue = self._queues[submission.queue]
        if queue.is_closing:
            raise ValueError(f"queue {queue.name} is being deleted")
        if not queue.enabled:
            raise ValueError(f"queue {queue.name} is disabled: it takes no new jobs")
        at = max(at, self._now)
        self._jobs[submission.job_id] = EngineJob(
            id=submission.job_id,
            queue=queue.name,
            share_identifier=submission.share_identifier or "",
            demand=submission.demand,
            scheduling_priority=submission.scheduling_priority,
            created_at=at,
            sequence=next(self._sequence),
            max_attempts=submission.attempts,
            retry_rules=submission.evaluate_on_exit,
            attempt_duration_ms=submission.attempt_duration_ms,
        )
        self._schedule(at, _Kind.COMMAND, _Evaluate(submission.job_id))
        return submission.job_id

    def terminate(self, job_id: str, reason: str, at: int) -> None:
        """End a job. One that has ended is left as it is; one that executes ends when its stop is reported."""
        self._jobs[job_id]
        self._schedule(at, _Kind.COMMAND, _Terminate(job_id, reason))

    def update(self, job_id: str, scheduling_priority: int, at: int) -> None:
        """Change the priority of a job; one that has ended is left as it is. A FIFO queue knows no priority."""
        self._jobs[job_id]
        self._schedule(at, _Kind.COMMAND, _Update(job_id, scheduling_priority))

    def report(self, job_id: str, attempt: int, status: JobStatus, at: int, reason: str | None = None) -> None:
        """Say what execution did: STARTING, RUNNING, SUCCEEDED or FAILED; ``at`` may lie in the future.

        ``reason`` of a failure is SageMaker's, with or without AWS Batch's words before it; it decides what follows
        (`fairshare.scheduler.retries`). A report of another attempt than the present one, or about a job that has
        ended, is ignored.

        Raises:
            KeyError: no such job.
            ValueError: any other status, which execution cannot bring about.
        """
        self._jobs[job_id]
        if status not in _REPORTABLE:
            raise ValueError(f"execution cannot report {status}")
        self._schedule(at, _Kind.REPORT, _Report(job_id, attempt, status, reason))

    def reconfigure(self, change: Change, at: int) -> None:
        """Apply a change of an environment or queue at ``at`` ms; in force once the engine has advanced to it."""
        self._schedule(at, _Kind.COMMAND, change)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_event_at(self) -> int | None:
        """Return the instant of the next event, or None when nothing will happen by itself."""
        while self._events and self._events[0][1] is _Kind.TIMER and self._is_stale(self._events[0][3]):
            heappop(self._events)
        return self._events[0][0] if self._events else None

    def advance(self, now: int) -> list[Transition]:
        """Work off everything due up to ``now`` ms, instant by instant, and return the transitions in order.

        Callers that start attempts must advance one instant at a time, so that reports of what was started take part
        in time: `fairshare.scheduler.driver.settle` does.

        Raises:
            KeyError, ValueError: a change that is due cannot be made. Call again for what else is due; transitions
                up to then are returned by that call.
        """
        while self._events and self._events[0][0] <= now:
            instant = self._events[0][0]
            self._now = max(self._now, instant)
            try:
                while self._events and self._events[0][0] == instant:
                    self._apply(heappop(self._events)[3])
            finally:
                self._run_passes()
        self._now = max(self._now, now)
        transitions, self._transitions = self._transitions, []
        return transitions

    def take_stops(self) -> list[StopOrder]:
        """Return, once, the attempts that the engine wants ended since the last call."""
        stops, self._stops = self._stops, []
        return stops

    def take_notices(self) -> list[BlockedNotice]:
        """Return, once, the heads found blocked since the last call: one notice for a job's stay and reason."""
        notices, self._notices = self._notices, []
        return notices

    # -- views ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The instant up to which the engine has worked."""
        return self._now

    def job(self, job_id: str) -> EngineJob:
        """Return the live record of a job; for reading only."""
        return self._jobs[job_id]

    def jobs(self) -> Iterator[EngineJob]:
        """Iterate over all jobs in order of submission; for reading only."""
        return iter(self._jobs.values())

    def instances_held(self, environment: str) -> int:
        """Return how many instances of an environment are in use (SCHEDULED, STARTING, RUNNING)."""
        return self._environments[environment].held

    def snapshot(self, queue: str, limit: int = 100) -> EngineSnapshot:
        """Return the first ``limit`` RUNNABLE jobs in the order they would be dispatched now, and capacity in use.

        The order is what the scheduler would do at this instant with room for everything; it changes as shares are
        used. Changes nothing but the memory of positions.
        """
        state = self._queues[queue]
        front = state.dispatch_order(self._now, limit)
        return EngineSnapshot(
            front=tuple(state.positions(front, self._now)),
            instances_in_use=sum(share.window.held for share in state.shares.values()),
            instances_by_share={name: share.window.held for name, share in state.shares.items() if share.window.held},
        )

    # -- events --------------------------------------------------------------------------------------------------

    def _schedule(self, at: int, kind: _Kind, event: _Event) -> None:
        heappush(self._events, (max(at, self._now), kind, next(self._sequence), event))

    def _apply(self, event: _Event) -> None:
        match event:
            case _Report():
                self._on_report(event)
            case _Evaluate(job_id):
                self._on_evaluate(self._jobs[job_id])
            case _Terminate(job_id, reason):
                self._on_terminate(self._jobs[job_id], reason)
            case _Update(job_id, scheduling_priority):
                self._on_update(self._jobs[job_id], scheduling_priority)
            case _TimeOut(job_id):
                if not self._is_stale(event):
                    self._stop(self._jobs[job_id], TIMED_OUT)
            case _LookAgain(job_id):
                if not self._is_stale(event):
                    self._touch(self._jobs[job_id])
            case PutEnvironment() | PutQueue() | RemoveEnvironment() | RemoveQueue():
                self._configure(event)

    def _is_stale(self, event: _Event) -> bool:
        """Whether what an event was set for has passed: nothing would happen then."""
        match event:
            case _TimeOut(job_id, attempt):
                job = self._jobs[job_id]
                return job.attempt != attempt or job.status is not JobStatus.RUNNING
            case _LookAgain(job_id, attempt):
                job = self._jobs[job_id]
                return job.attempt != attempt or job.status is not JobStatus.RUNNABLE
            case _:
                return False

    def _on_evaluate(self, job: EngineJob) -> None:
        if job.status is not JobStatus.SUBMITTED:
            return  # terminated before its instant came
        self._move(job, JobStatus.RUNNABLE)
        self._queues[job.queue].add(job, self._now)
        self._touch(job)

    def _on_terminate(self, job: EngineJob, reason: str) -> None:
        if job.status.is_terminal:
            return
        job.is_terminated = True
        if job.status.is_in_use:
            self._stop(job, reason)
        else:
            self._end(job, JobStatus.FAILED, reason)

    def _stop(self, job: EngineJob, reason: str) -> None:
        if job.stop_reason is None:
            job.stop_reason = reason
            self._stops.append(StopOrder(job.id, job.attempt, self._now, reason))

    def _on_update(self, job: EngineJob, scheduling_priority: int) -> None:
        if job.status.is_terminal or job.scheduling_priority == scheduling_priority:
            return
        job.scheduling_priority = scheduling_priority
        if job.status is JobStatus.RUNNABLE:
            self._queues[job.queue].reorder(job, self._now)
            self._touch(job)

    def _on_report(self, report: _Report) -> None:
        job = self._jobs[report.job_id]
        if not job.status.is_in_use or job.attempt != report.attempt:
            return
        if not report.status.is_terminal:
            self._walk_to(job, report.status)
        elif job.stop_reason is not None:
            self._end(job, JobStatus.FAILED, job.stop_reason)
        elif report.status is JobStatus.SUCCEEDED:
            self._walk_to(job, JobStatus.RUNNING)
            self._end(job, JobStatus.SUCCEEDED, report.reason)
        else:
            self._on_failure(job, report.reason)

    def _on_failure(self, job: EngineJob, reason: str | None) -> None:
        match judge(job, reason):
            case Verdict.FAIL:
                self._end(job, JobStatus.FAILED, reason)
            case Verdict.RETRY:
                self._keep_attempt(job, reason)
                self._wait_again(job, reason)
                job.head_since = job.blocked_reason = None
            case Verdict.WAIT_FOR_CAPACITY:
                self._wait_again(job, str(NO_CAPACITY))
                self._queues[job.queue].line.come_back(job)
                job.lacks_capacity = True
                job.ready_at = self._now + max(self.options.capacity_backoff_ms, MIN_CAPACITY_BACKOFF_MS)
                self._schedule(job.ready_at, _Kind.TIMER, _LookAgain(job.id, job.attempt))

    def _walk_to(self, job: EngineJob, target: JobStatus) -> None:
        """Go forward through the execution statuses; a report that skipped one does not skip its transition."""
        for status in _EXECUTION[_EXECUTION.index(job.status) + 1 : _EXECUTION.index(target) + 1]:
            if status is JobStatus.RUNNING:
                job.started_at = self._now
                if job.attempt_duration_ms is not None:
                    self._schedule(self._now + job.attempt_duration_ms, _Kind.TIMER, _TimeOut(job.id, job.attempt))
            self._move(job, status)

    def _keep_attempt(self, job: EngineJob, reason: str | None) -> None:
        assert job.scheduled_at is not None
        record = AttemptRecord(job.attempt, job.scheduled_at, job.started_at, self._now, reason)
        job.attempts = (*job.attempts, record)

    def _wait_again(self, job: EngineJob, reason: str | None) -> None:
        """Take a job back into its queue, where its age gives it the place it had."""
        queue = self._queues[job.queue]
        self._environments[queue.environment].held -= job.demand
        self._move(job, JobStatus.RUNNABLE, reason)
        job.scheduled_at = job.started_at = None
        job.lacks_capacity = False
        queue.take_back(job, self._now)
        self._touch(job)

    def _end(self, job: EngineJob, status: JobStatus, reason: str | None) -> None:
        queue = self._queues[job.queue]
        if job.status.is_in_use:
            self._keep_attempt(job, reason)
            self._environments[queue.environment].held -= job.demand
            queue.release(job, self._now)
        elif job.status is JobStatus.RUNNABLE:
            queue.discard(job, self._now)
        job.stopped_at = self._now
        self._move(job, status, reason)
        self._touched.add(queue.environment)
        self._drop_if_closed(queue)

    def _move(self, job: EngineJob, status: JobStatus, reason: str | None = None) -> None:
        if status not in LEGAL_TRANSITIONS[job.status]:
            raise AssertionError(f"job {job.id}: {job.status} -> {status} is no legal transition")
        self._transitions.append(Transition(job.id, job.attempt, job.status, status, self._now, reason))
        job.status = status
        if reason is not None:
            job.status_reason = reason

    # -- configuration -------------------------------------------------------------------------------------------

    def _configure(self, change: Change) -> None:
        match change:
            case PutEnvironment(name, max_capacity, enabled):
                environment = self._environments.setdefault(name, Environment(name))
                environment.max_capacity = max_capacity
                environment.enabled = enabled
                self._touched.add(name)
            case PutQueue():
                self._put_queue(change)
            case RemoveQueue(name):
                self._remove_queue(name)
            case RemoveEnvironment(name):
                if (gone := self._environments.get(name)) is not None and gone.queues:
                    raise ValueError(f"environment {name} still has queues")
                self._environments.pop(name, None)

    def _put_queue(self, change: PutQueue) -> None:
        environment = self._environments[change.environment]
        queue = self._queues.get(change.name)
        if queue is None:
            queue = Queue(change.name, change.environment, self.options)
        elif queue.is_closing:
            raise ValueError(f"queue {change.name} is being deleted")
        elif queue.environment != change.environment:
            raise ValueError(f"queue {change.name} cannot move to another environment while the engine runs")
        elif queue.is_fair_share != (change.policy is not None):
            raise ValueError(f"queue {change.name} keeps its kind: a policy can be replaced, never added or removed")
        queue.set_policy(change.policy, self._now)
        queue.priority = change.priority
        queue.enabled = change.enabled
        queue.time_limits = {limit.reason: limit.max_time_ms for limit in change.time_limits}
        self._queues[change.name] = queue
        environment.attach(queue)
        self._touched.add(change.environment)

    def _remove_queue(self, name: str) -> None:
        queue = self._queues.get(name)
        if queue is None:
            return
        for job in [job for job in self._jobs.values() if job.queue == name]:
            self._on_terminate(job, "Job queue deleted")
        queue.is_closing = True  # only now: the queue goes with the last job that is still executing
        self._drop_if_closed(queue)

    def _drop_if_closed(self, queue: Queue) -> None:
        """Forget a queue being deleted once its last job has ended."""
        if queue.is_closing and queue.is_empty:
            self._environments[queue.environment].detach(queue)
            del self._queues[queue.name]

    # -- the scheduling pass -------------------------------------------------------------------------------------

    def _touch(self, job: EngineJob) -> None:
        self._touched.add(self._queues[job.queue].environment)

    def _run_passes(self) -> None:
        for name in sorted(self._touched):
            if (environment := self._environments.get(name)) is not None:
                for queue in environment.queues:
                    self._run_pass(queue, environment)
        self._touched.clear()

    def _run_pass(self, queue: Queue, environment: Environment) -> None:
        """Place what fits, look at the head, and begin again where its time was up."""
        has_settled = False
        while not has_settled:
            placed, head = queue.place(environment, self._now)
            for job in placed:
                self._dispatch(job, queue)
            queue.line.take_place(head, self._now)
            has_settled = head is None or not self._ends_at_head(head, queue, environment)

    def _dispatch(self, job: EngineJob, queue: Queue) -> None:
        queue.line.leave(job, self._now)
        job.attempt += 1
        job.scheduled_at = self._now
        self._move(job, JobStatus.SCHEDULED)
        job.status_reason = None  # it told why the job waited

    def _ends_at_head(self, head: EngineJob, queue: Queue, environment: Environment) -> bool:
        """Tell that a head is blocked, and end it if a time limit of its queue says so; returns whether it did."""
        reason = blocked_reason(head, environment.max_capacity)
        if say_blocked(head, reason):
            self._notices.append(BlockedNotice(head.id, queue.name, str(reason), self._now))
        if reason is None or reason.code not in queue.time_limits:
            return False
        assert head.head_since is not None  # it took its place
        due = head.head_since + queue.time_limits[reason.code]
        if due <= self._now:
            head.is_terminated = True
            self._end(head, JobStatus.FAILED, f"Terminated by JobStateTimeLimit action due to reason: {reason.code}")
            return True
        if queue.line.watched != (watched := (head.id, head.attempt, due)):
            queue.line.watched = watched
            self._schedule(due, _Kind.TIMER, _LookAgain(head.id, head.attempt))
        return False


def _check(submission: JobSubmission) -> None:
    if submission.demand < 1:
        raise ValueError(f"a job needs at least 1 instance, not {submission.demand}")
    if submission.attempts < 1:
        raise ValueError(f"a job needs at least 1 attempt, not {submission.attempts}")
    if submission.attempt_duration_ms is not None and submission.attempt_duration_ms < 1:
        raise ValueError(f"an attempt needs at least 1 ms, not {submission.attempt_duration_ms}")
