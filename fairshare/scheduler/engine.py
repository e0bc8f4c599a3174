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
* strict head of line: a head that does not fit holds up its queue. First in, first out and fair-share never stop a
  running job;
* an attempt that fails is judged by `fairshare.scheduler.retries`; a retried job waits in the place its age gives it,
  and lack of capacity uses no attempt. An attempt that outlasts its time is stopped, and its job is not retried;
* a head that is blocked is told about, and ended by a time limit of its queue (`fairshare.scheduler.heads`);
* a pass is made when something happens (a job arrives, ends or moves, a limit changes), not as time goes by;
* queues on one environment are visited by priority, descending, then by name;
* a queue with quota shares counts by instance type, lends, borrows and preempts (`fairshare.scheduler.quota`);
* a ``compute_reservation`` leaves ``floor(max * (1 - (cr/100)^n))`` instances usable with n active shares.

Sources: https://docs.aws.amazon.com/batch/latest/userguide/share-identifiers.html,
https://docs.aws.amazon.com/batch/latest/APIReference/API_FairsharePolicy.html,
https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fairshare.model import JobStatus
from fairshare.scheduler.calendar import Calendar, Kind
from fairshare.scheduler.commands import (
    MIN_CAPACITY_BACKOFF_MS,
    Blocking,
    Change,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    RemoveEnvironment,
    RemoveQueue,
    RemoveQuotaShare,
    RetryAction,
    RetryRule,
    TimeLimit,
    VictimRule,
)
from fairshare.scheduler.heads import NO_CAPACITY, HeadOfLine, say_blocked
from fairshare.scheduler.jobs import RECENT_PREEMPTIONS, AttemptRecord, EngineJob, Preemption
from fairshare.scheduler.outcomes import (
    LEGAL_TRANSITIONS,
    BlockedNotice,
    EngineSnapshot,
    PreemptionNotice,
    StopOrder,
    Transition,
)
from fairshare.scheduler.queues import Environment, Heads, Queue
from fairshare.scheduler.resources import Resources
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
    "Preemption",
    "PreemptionNotice",
    "PutEnvironment",
    "PutQueue",
    "PutQuotaShare",
    "RemoveEnvironment",
    "RemoveQueue",
    "RemoveQuotaShare",
    "RetryAction",
    "RetryRule",
    "StopOrder",
    "TimeLimit",
    "Transition",
    "VictimRule",
]

TIMED_OUT: Final = "Job attempt duration exceeded timeout"
"""AWS's text for a compute job whose attempt outlasted its time; none is published for service jobs (model)."""

PREEMPTION_IN_PROGRESS: Final = "PREEMPTION_IN_PROGRESS: "
"""How the status reason of a job begins whose attempt is being preempted
(https://docs.aws.amazon.com/batch/latest/userguide/batch-service-job-preemption-events.html)."""

MOST_FUTILE: Final = 100_000
"""Attempts that may be begun and preempted at one instant. More is a mistake of the model, which must not hang."""

_EXECUTION: Final = (JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)
_ON_THE_WAY: Final = {
    (here, there): _EXECUTION[_EXECUTION.index(here) + 1 : _EXECUTION.index(there) + 1]
    for here in _EXECUTION
    for there in _EXECUTION
}
_new_tuple: Final = tuple.__new__
"""Makes a named tuple in half the time that its class takes; an engine makes six for every job."""

_REPORTABLE: Final = frozenset({JobStatus.STARTING, JobStatus.RUNNING, JobStatus.SUCCEEDED, JobStatus.FAILED})


class Engine:
    """AWS Batch service queues in virtual time.

    Instants must not go backwards: an ``at`` before the last `advance` counts as that instant. Unknown job ids raise
    KeyError, unknown queues and environments too; the API in front checks names first. A change is judged when its
    instant comes, so `advance` raises what is wrong with it. Such a change does nothing, and the engine can go on.
    """

    def __init__(self, options: EngineOptions | None = None) -> None:
        self.options = options or EngineOptions()
        self._now = 0
        self._calendar = Calendar()
        self._jobs: dict[str, EngineJob] = {}
        self._resources = Resources(self.options)
        self._touched: set[str] = set()
        self._transitions: list[Transition] = []
        self._starts: list[EngineJob] = []
        self._stops: list[StopOrder] = []
        self._blocked: list[BlockedNotice] = []
        self._preempted: list[PreemptionNotice] = []
        self._futile_at, self._futile = 0, 0
        """How many attempts were begun and preempted at one and the same instant, and which."""

    # -- commands ------------------------------------------------------------------------------------------------

    def submit(self, submission: JobSubmission, at: int) -> str:
        """Accept a job at ``at`` ms; it is SUBMITTED until the engine has advanced to that instant. Returns its id.

        Raises:
            KeyError: no such queue.
            ValueError: the id is taken, the demand, the attempts or their duration are below 1, the queue or the quota
                share is disabled or being deleted, or the queue has no such quota share.
        """
        if submission.job_id in self._jobs:
            raise ValueError(f"job {submission.job_id} exists")
        _check(submission)
        queue = self._resources.queues[submission.queue]
        at = max(at, self._now)
        job = EngineJob(
            id=submission.job_id,
            queue=queue.name,
            share_identifier=submission.share_identifier or "",
            demand=submission.demand,
            scheduling_priority=submission.scheduling_priority,
            created_at=at,
            sequence=len(self._jobs),
            max_attempts=submission.attempts,
            retry_rules=submission.evaluate_on_exit,
            attempt_duration_ms=submission.attempt_duration_ms,
            quota_share=submission.quota_share or "",
            demand_by_type=submission.demand_by_type,
            preemption_retries=submission.preemption_retries,
        )
        queue.check(job)
        self._jobs[job.id] = job
        self._calendar.add(at, Kind.COMMAND, self._on_evaluate, job)
        return job.id

    def terminate(self, job_id: str, reason: str, at: int) -> None:
        """End a job. One that has ended is left as it is; one that executes ends when its stop is reported."""
        self._calendar.add(max(at, self._now), Kind.COMMAND, self._on_terminate, self._jobs[job_id], reason)

    def update(self, job_id: str, scheduling_priority: int, at: int) -> None:
        """Change the priority of a job; one that has ended is left as it is. A FIFO queue knows no priority."""
        self._calendar.add(max(at, self._now), Kind.COMMAND, self._on_update, self._jobs[job_id], scheduling_priority)

    def report(self, job_id: str, attempt: int, status: JobStatus, at: int, reason: str | None = None) -> None:
        """Say what execution did: STARTING, RUNNING, SUCCEEDED or FAILED; ``at`` may lie in the future.

        ``reason`` of a failure is SageMaker's, with or without AWS Batch's words before it; it decides what follows
        (`fairshare.scheduler.retries`). A report of another attempt than the present one, or about a job that has
        ended, is ignored.

        Raises:
            KeyError: no such job.
            ValueError: any other status, which execution cannot bring about.
        """
        job = self._jobs[job_id]
        if status not in _REPORTABLE:
            raise ValueError(f"execution cannot report {status}")
        if at < self._now:
            at = self._now
        self._calendar.add(at, Kind.REPORT, self._on_report, job, attempt, status, reason)

    def reconfigure(self, change: Change, at: int) -> None:
        """Apply a change of an environment, queue or quota share at ``at`` ms; in force once the engine is there."""
        self._calendar.add(max(at, self._now), Kind.COMMAND, self._configure, change)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_event_at(self) -> int | None:
        """Return the instant of the next event, or None when nothing will happen by itself."""
        return self._calendar.first_at()

    def advance(self, now: int) -> list[Transition]:
        """Work off everything due up to ``now`` ms, instant by instant, and return the transitions in order.

        Callers that start attempts must advance one instant at a time, so that reports of what was started take part
        in time: `fairshare.scheduler.driver.settle` does.

        Raises:
            KeyError, ValueError: a change that is due cannot be made. Call again for what else is due; transitions
                up to then are returned by that call.
        """
        while self.step(now):
            pass
        self._now = max(self._now, now)
        self._starts.clear()
        transitions, self._transitions = self._transitions, []
        return transitions

    def step(self, now: int) -> bool:
        """Work off the first instant that has something due, if it is not after ``now`` ms; returns whether it was.

        Jobs that it placed are told by `take_starts`, transitions by the next `advance`.
        """
        instant = self._calendar.first_at()
        if instant is None or instant > now:
            return False
        self._now = instant
        try:
            self._calendar.work_off(instant)
        finally:
            self._run_passes()
        return True

    def take_starts(self) -> list[EngineJob]:
        """Return, once, the jobs that were placed since the last call or the last `advance`, in order."""
        starts, self._starts = self._starts, []
        return starts

    def take_stops(self) -> list[StopOrder]:
        """Return, once, the attempts that the engine wants ended since the last call."""
        stops, self._stops = self._stops, []
        return stops

    def take_notices(self) -> list[BlockedNotice]:
        """Return, once, the heads found blocked since the last call: one notice for a job's stay and reason."""
        notices, self._blocked = self._blocked, []
        return notices

    def take_preemptions(self) -> list[PreemptionNotice]:
        """Return, once, the preemptions that began or were completed since the last call, in order."""
        notices, self._preempted = self._preempted, []
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
        return self._resources.environments[environment].held

    def snapshot(self, queue: str, limit: int = 100) -> EngineSnapshot:
        """Return the first ``limit`` RUNNABLE jobs in the order they would be dispatched now, and capacity in use.

        The order is what the scheduler would do at this instant with room for everything; it changes as shares are
        used. Changes nothing but the memory of positions.
        """
        return self._resources.queues[queue].snapshot(self._now, limit)

    # -- events --------------------------------------------------------------------------------------------------

    def _on_evaluate(self, job: EngineJob) -> None:
        if job.status is not JobStatus.SUBMITTED:
            return  # terminated before its instant came
        queue = self._resources.queues[job.queue]
        self._move(job, JobStatus.RUNNABLE)
        queue.add(job, self._now)
        self._touched.add(queue.environment)

    def _on_terminate(self, job: EngineJob, reason: str) -> None:
        if job.status.is_terminal:
            return
        job.is_terminated = True
        if job.status.is_in_use:
            if job.preemption is not None:  # it is being stopped, and now for good
                job.preemption = None
                job.stop_reason = reason
            self._stop(job, reason)
        else:
            self._end(job, JobStatus.FAILED, reason)

    def _on_time_out(self, job: EngineJob) -> None:
        self._stop(job, TIMED_OUT)

    def _stop(self, job: EngineJob, reason: str) -> None:
        if job.stop_reason is None:
            job.stop_reason = reason
            self._resources.queues[job.queue].note_stop(job)
            self._stops.append(StopOrder(job.id, job.attempt, self._now, reason, job.preemption))

    def _on_update(self, job: EngineJob, scheduling_priority: int) -> None:
        if job.status.is_terminal or job.scheduling_priority == scheduling_priority:
            return
        job.scheduling_priority = scheduling_priority
        queue = self._resources.queues[job.queue]
        if job.status is JobStatus.RUNNABLE:
            queue.reorder(job, self._now)
            self._touched.add(queue.environment)
        elif queue.heeds_running_priorities:
            self._touched.add(queue.environment)

    def _on_report(self, job: EngineJob, attempt: int, status: JobStatus, reason: str | None) -> None:
        if job.attempt != attempt or job.status not in _EXECUTION:
            return
        if status in _EXECUTION:
            self._walk_to(job, status)
        elif job.stop_reason is None:
            if status is JobStatus.SUCCEEDED:
                self._succeed(job, reason)
            else:
                self._on_failure(job, reason)
        elif job.preemption is None:
            self._end(job, JobStatus.FAILED, job.stop_reason)
        elif status is JobStatus.SUCCEEDED:  # before it could be stopped
            job.preemption = job.stop_reason = job.status_reason = None
            self._succeed(job, reason)
        else:
            self._on_preempted(job, job.preemption)

    def _succeed(self, job: EngineJob, reason: str | None) -> None:
        self._walk_to(job, JobStatus.RUNNING)
        self._end(job, JobStatus.SUCCEEDED, reason)

    def _on_failure(self, job: EngineJob, reason: str | None) -> None:
        match judge(job, reason):
            case Verdict.FAIL:
                self._end(job, JobStatus.FAILED, reason)
            case Verdict.RETRY:
                job.attempts = (*job.attempts, self._record(job, reason))
                self._wait_again(job, reason)
                job.head_since = job.blocked_reason = None
            case Verdict.WAIT_FOR_CAPACITY:
                self._wait_again(job, str(NO_CAPACITY), lacks_capacity=True)
                self._resources.queues[job.queue].line_of(job).come_back(job)
                job.ready_at = self._now + max(self.options.capacity_backoff_ms, MIN_CAPACITY_BACKOFF_MS)
                self._calendar.add_timer(job.ready_at, self._look_again, job)

    def _on_preempted(self, job: EngineJob, kind: Preemption) -> None:
        """The attempt has been stopped: the job waits again, or ends when its preemption retries are used up."""
        record = self._record(job, kind.value)
        job.preempted_attempts = (*job.preempted_attempts, record)[-RECENT_PREEMPTIONS:]
        job.preempted_count += 1
        if job.scheduled_at == self._now:
            self._count_futile()
        job.preemption = job.stop_reason = None
        self._preempted.append(
            PreemptionNotice(job.id, job.attempt, kind, self._now, job.preempted_for, is_completed=True)
        )
        if job.preemption_retries is not None and job.preempted_count > job.preemption_retries:
            self._let_go(job, JobStatus.FAILED, kind.value)
        else:
            self._wait_again(job, kind.value)
            job.head_since = job.blocked_reason = None

    def _count_futile(self) -> None:
        """Fail where the scheduler would begin and stop the same jobs for ever, and never come to the next instant."""
        self._futile = self._futile + 1 if self._futile_at == self._now else 1
        self._futile_at = self._now
        if self._futile > MOST_FUTILE:
            raise RuntimeError(f"the scheduler begins and preempts the same jobs without end at {self._now} ms")

    def _walk_to(self, job: EngineJob, target: JobStatus) -> None:
        """Go forward through the execution statuses; a report that skipped one does not skip its transition."""
        for status in _ON_THE_WAY[job.status, target]:
            self._move(job, status)
            if status is JobStatus.RUNNING:
                job.started_at = self._now
                if job.attempt_duration_ms is not None:
                    self._calendar.add_timer(self._now + job.attempt_duration_ms, self._on_time_out, job)

    def _record(self, job: EngineJob, reason: str | None) -> AttemptRecord:
        assert job.scheduled_at is not None
        return _new_tuple(AttemptRecord, (job.attempt, job.scheduled_at, job.started_at, self._now, reason))

    def _wait_again(self, job: EngineJob, reason: str | None, lacks_capacity: bool = False) -> None:
        """Take a job back into its queue, where its age gives it the place it had."""
        queue = self._resources.queues[job.queue]
        self._resources.environments[queue.environment].held -= job.demand
        self._move(job, JobStatus.RUNNABLE, reason)
        job.scheduled_at = job.started_at = None
        queue.take_back(job, self._now, lacks_capacity)
        self._touched.add(queue.environment)

    def _end(self, job: EngineJob, status: JobStatus, reason: str | None) -> None:
        if job.status in _EXECUTION:
            job.attempts = (*job.attempts, self._record(job, reason))
        self._let_go(job, status, reason)

    def _let_go(self, job: EngineJob, status: JobStatus, reason: str | None) -> None:
        """End a job; what it had in its queue and environment is free."""
        queue = self._resources.queues[job.queue]
        if job.status in _EXECUTION:
            self._resources.environments[queue.environment].held -= job.demand
            queue.release(job, self._now)
        elif job.status is JobStatus.RUNNABLE:
            queue.discard(job, self._now)
        job.stopped_at = self._now
        self._move(job, status, reason)
        self._touched.add(queue.environment)
        if queue.is_closing:
            self._resources.drop_if_closed(queue)

    def _move(self, job: EngineJob, status: JobStatus, reason: str | None = None) -> None:
        self._transitions.append(_new_tuple(Transition, (job.id, job.attempt, job.status, status, self._now, reason)))
        job.status = status
        if reason is not None:
            job.status_reason = reason

    # -- configuration -------------------------------------------------------------------------------------------

    def _configure(self, change: Change) -> None:
        match change:
            case PutEnvironment(name):
                self._resources.put_environment(change)
                self._touched.add(name)
            case PutQueue():
                queue = self._resources.put_queue(change, self._now)
                if queue.set_time_limits(change.time_limits):
                    for job in self._jobs_of(queue):
                        job.head_since = None
                self._touched.add(queue.environment)
            case PutQuotaShare():
                self._touched.add(self._resources.put_quota_share(change).environment)
            case RemoveQueue(name):
                self._remove_queue(name)
            case RemoveQuotaShare():
                self._remove_quota_share(change)
            case RemoveEnvironment(name):
                self._resources.remove_environment(name)

    def _remove_queue(self, name: str) -> None:
        queue = self._resources.queues.get(name)
        if queue is None:
            return
        for job in self._jobs_of(queue):
            self._on_terminate(job, "Job queue deleted")
        queue.is_closing = True  # only now: the queue goes with the last job that is still executing
        self._resources.drop_if_closed(queue)

    def _remove_quota_share(self, change: RemoveQuotaShare) -> None:
        queue = self._resources.quota_queue(change.queue)
        if change.name not in queue.shares:
            return
        for job in self._jobs_of(queue):
            if job.quota_share == change.name:
                self._on_terminate(job, "Quota share deleted")
        queue.close_share(change.name)
        self._touched.add(queue.environment)

    def _jobs_of(self, queue: Queue[Any]) -> list[EngineJob]:
        return [job for job in self._jobs.values() if job.queue == queue.name]

    # -- the scheduling pass -------------------------------------------------------------------------------------

    def _look_again(self, job: EngineJob) -> None:
        """A waiting job may be placed from now on, or its time at the head is up: the next pass knows."""
        self._touched.add(self._resources.queues[job.queue].environment)

    def _run_passes(self) -> None:
        touched, self._touched = self._touched, set()
        for name in sorted(touched) if len(touched) > 1 else touched:
            if (environment := self._resources.environments.get(name)) is not None:
                for queue in environment.queues:
                    self._run_pass(queue, environment)

    def _run_pass(self, queue: Queue[Any], environment: Environment) -> None:
        """Place what fits, look at the heads, and begin again where the time of one was up; preempt for the rest."""
        has_settled = False
        while not has_settled:
            placed, heads = queue.place(environment, self._now)
            for job in placed:
                self._dispatch(job, queue)
            has_settled = not heads or not self._look_at_heads(heads, queue, environment)
        for victim, kind, for_job in queue.victims(environment, self._now):
            self._preempt(victim, kind, for_job)

    def _dispatch(self, job: EngineJob, queue: Queue[Any]) -> None:
        if queue.time_limits:
            queue.line_of(job).leave(job, self._now)
        job.attempt += 1
        job.scheduled_at = self._now
        self._move(job, JobStatus.SCHEDULED)
        self._starts.append(job)
        job.status_reason = None  # it told why the job waited

    def _preempt(self, job: EngineJob, kind: Preemption, for_job: EngineJob) -> None:
        job.preemption = kind
        job.preempted_for = for_job.id
        job.status_reason = PREEMPTION_IN_PROGRESS + kind.value
        self._stop(job, kind.value)
        self._preempted.append(PreemptionNotice(job.id, job.attempt, kind, self._now, for_job.id))

    def _look_at_heads(self, heads: Heads, queue: Queue[Any], environment: Environment) -> bool:
        """Let the heads take their places; returns whether the time of one of them was up."""
        for line, head in heads:
            line.take_place(head, self._now, has_clock=bool(queue.time_limits))
        ended = [
            head for line, head in heads if head is not None and self._ends_at_head(head, line, queue, environment)
        ]
        return bool(ended)

    def _ends_at_head(self, head: EngineJob, line: HeadOfLine, queue: Queue[Any], environment: Environment) -> bool:
        """Tell that a head is blocked, and end it if a time limit of its queue says so; returns whether it did."""
        reason = queue.blocked_reason(head, environment)
        if say_blocked(head, reason):
            self._blocked.append(BlockedNotice(head.id, queue.name, str(reason), self._now))
        if reason is None or reason.code not in queue.time_limits:
            return False
        assert head.head_since is not None  # it took its place
        due = head.head_since + queue.time_limits[reason.code]
        if due <= self._now:
            head.is_terminated = True
            self._end(head, JobStatus.FAILED, f"Terminated by JobStateTimeLimit action due to reason: {reason.code}")
            return True
        if line.watched != (watched := (head.id, head.attempt, due)):
            line.watched = watched
            self._calendar.add_timer(due, self._look_again, head)
        return False


def _check(submission: JobSubmission) -> None:
    if submission.demand < 1:
        raise ValueError(f"a job needs at least 1 instance, not {submission.demand}")
    if submission.attempts < 1:
        raise ValueError(f"a job needs at least 1 attempt, not {submission.attempts}")
    if submission.attempt_duration_ms is not None and submission.attempt_duration_ms < 1:
        raise ValueError(f"an attempt needs at least 1 ms, not {submission.attempt_duration_ms}")
    if submission.preemption_retries is not None and submission.preemption_retries < 0:
        raise ValueError(f"a job has 0 preemption retries or more, not {submission.preemption_retries}")
