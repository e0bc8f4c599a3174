"""The scheduling engine: AWS Batch's service-job queues as a state machine with an event heap. Pure.

One engine serves the local AWS, the simulator and every prediction. It reads no clock, starts no process and draws no
random number: commands carry the instant they happen at (integer milliseconds), and what execution did comes back
through `Engine.report`. `Engine.advance` works instant by instant: first all events due at an instant, then one
scheduling pass over the environments they touched.

The model, where AWS publishes no exact rule, is section 11.2 of the project's AWS notes:

* a queue without a policy is first-in-first-out by creation;
* a fair-share queue takes the head of the share with the lowest ``usage * effective weight``; ties go to the share
  served longest ago, then to the lower weight, then to the older head, then to the earlier submission;
* inside a share: higher priority first, then older. Priority never moves a job across shares;
* strict head of line: a head that does not fit holds up its queue. Fair-share never stops a running job;
* a pass is made when something happens (a job arrives, ends or moves, a limit changes), not as time goes by;
* queues on one environment are visited by priority, descending, then by name;
* a ``compute_reservation`` leaves ``floor(max * (1 - (cr/100)^n))`` instances usable with n active shares.

Sources: https://docs.aws.amazon.com/batch/latest/userguide/share-identifiers.html,
https://docs.aws.amazon.com/batch/latest/APIReference/API_FairsharePolicy.html,
https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from typing import Final

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.queues import EngineJob, Environment, Queue

LEGAL_TRANSITIONS: Final[dict[JobStatus, frozenset[JobStatus]]] = {
    JobStatus.SUBMITTED: frozenset({JobStatus.RUNNABLE, JobStatus.FAILED}),
    JobStatus.RUNNABLE: frozenset({JobStatus.SCHEDULED, JobStatus.FAILED}),
    JobStatus.SCHEDULED: frozenset({JobStatus.STARTING, JobStatus.FAILED}),
    JobStatus.STARTING: frozenset({JobStatus.RUNNING, JobStatus.FAILED}),
    JobStatus.RUNNING: frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset(),
}
"""Every step a job may take. PENDING is missing: a service job cannot express what leads to it."""

_EXECUTION: Final = (JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)
_REPORTABLE: Final = frozenset({JobStatus.STARTING, JobStatus.RUNNING, JobStatus.SUCCEEDED, JobStatus.FAILED})


@dataclass(frozen=True)
class EngineOptions:
    """Choices that AWS does not document; printed with every model result.

    ``history_weight`` is the part of a share's usage that comes from its decaying history; the rest is what it holds at
    the instant, so that jobs placed in the same instant count at once. 0 means "current use only".
    """

    history_weight: Fraction = Fraction(9, 10)


@dataclass(frozen=True)
class JobSubmission:
    """What the scheduler needs to know of a job. ``demand`` is in instances and is placed whole (a gang)."""

    job_id: str
    queue: str
    demand: int = 1
    share_identifier: str | None = None
    scheduling_priority: int = 0


@dataclass(frozen=True)
class PutEnvironment:
    """Create or change a service environment. A lower limit never stops what runs; disabled = no new placements."""

    name: str
    max_capacity: int
    enabled: bool = True


@dataclass(frozen=True)
class PutQueue:
    """Create or change a queue. ``policy`` None = first in, first out."""

    name: str
    environment: str
    priority: int = 1
    policy: FairsharePolicy | None = None


@dataclass(frozen=True)
class RemoveEnvironment:
    """Delete an environment without queues."""

    name: str


@dataclass(frozen=True)
class RemoveQueue:
    """Delete a queue; jobs of it that have not ended are ended."""

    name: str


Change = PutEnvironment | PutQueue | RemoveEnvironment | RemoveQueue


@dataclass(frozen=True)
class Transition:
    """A job went from one status to the next, at ``at`` ms; ``attempt`` counts dispatches from 1 and is 0 before."""

    job_id: str
    attempt: int
    from_status: JobStatus
    to_status: JobStatus
    at: int
    reason: str | None = None


@dataclass(frozen=True)
class StopOrder:
    """The engine wants an attempt ended. Its end arrives as a report; until then it holds its capacity."""

    job_id: str
    attempt: int
    at: int
    reason: str


@dataclass(frozen=True)
class EngineSnapshot:
    """RUNNABLE jobs of a queue in dispatch order, each with since when it is at that position, and capacity in use."""

    front: tuple[tuple[str, int], ...]
    instances_in_use: int
    instances_by_share: dict[str, int]


class _Kind(IntEnum):
    """Events of one instant are worked off in this order, then by sequence: execution first, then commands."""

    REPORT = 0
    COMMAND = 1


@dataclass(frozen=True)
class _Report:
    job_id: str
    attempt: int
    status: JobStatus
    reason: str | None


@dataclass(frozen=True)
class _Evaluate:
    job_id: str


@dataclass(frozen=True)
class _Terminate:
    job_id: str
    reason: str


@dataclass(frozen=True)
class _Update:
    job_id: str
    scheduling_priority: int


_Event = _Report | _Evaluate | _Terminate | _Update | Change


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

    # -- commands ------------------------------------------------------------------------------------------------

    def submit(self, submission: JobSubmission, at: int) -> str:
        """Accept a job at ``at`` ms; it is SUBMITTED until the engine has advanced to that instant. Returns its id.

        Raises:
            KeyError: no such queue.
            ValueError: the id is taken, the demand is below 1, or the queue is being deleted.
        """
        if submission.job_id in self._jobs:
            raise ValueError(f"job {submission.job_id} exists")
        if submission.demand < 1:
            raise ValueError(f"a job needs at least 1 instance, not {submission.demand}")
        queue = self._queues[submission.queue]
        if queue.is_closing:
            raise ValueError(f"queue {queue.name} is being deleted")
        at = max(at, self._now)
        self._jobs[submission.job_id] = EngineJob(
            id=submission.job_id,
            queue=queue.name,
            share_identifier=submission.share_identifier or "",
            demand=submission.demand,
            scheduling_priority=submission.scheduling_priority,
            created_at=at,
            sequence=next(self._sequence),
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

        A report of another attempt than the present one, or about a job that has ended, is ignored.

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
            case PutEnvironment() | PutQueue() | RemoveEnvironment() | RemoveQueue():
                self._configure(event)

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
            if job.stop_reason is None:
                job.stop_reason = reason
                self._stops.append(StopOrder(job.id, job.attempt, self._now, reason))
            return
        self._end(job, JobStatus.FAILED, reason)

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
        else:
            if report.status is JobStatus.SUCCEEDED:
                self._walk_to(job, JobStatus.RUNNING)
            self._end(job, report.status, report.reason)

    def _walk_to(self, job: EngineJob, target: JobStatus) -> None:
        """Go forward through the execution statuses; a report that skipped one does not skip its transition."""
        for status in _EXECUTION[_EXECUTION.index(job.status) + 1 : _EXECUTION.index(target) + 1]:
            if status is JobStatus.RUNNING:
                job.started_at = self._now
            self._move(job, status)

    def _end(self, job: EngineJob, status: JobStatus, reason: str | None) -> None:
        queue = self._queues[job.queue]
        if job.status.is_in_use:
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
            queue = Queue(change.name, change.environment, self.options.history_weight)
        elif queue.is_closing:
            raise ValueError(f"queue {change.name} is being deleted")
        elif queue.environment != change.environment:
            raise ValueError(f"queue {change.name} cannot move to another environment while the engine runs")
        elif queue.is_fair_share != (change.policy is not None):
            raise ValueError(f"queue {change.name} keeps its kind: a policy can be replaced, never added or removed")
        queue.set_policy(change.policy, self._now)
        queue.priority = change.priority
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
            environment = self._environments.get(name)
            if environment is not None and environment.enabled:
                for queue in environment.queues:
                    for job in queue.take_fitting(environment, self._now):
                        self._dispatch(job)
        self._touched.clear()

    def _dispatch(self, job: EngineJob) -> None:
        job.attempt += 1
        job.scheduled_at = self._now
        self._move(job, JobStatus.SCHEDULED)
