"""Runs a workload on the engine and a clock of its own: no thread, no sleep, no randomness. The same in, the same out.

Jobs run exactly as long as the workload says. An attempt that is preempted starts from the beginning the next time.
"""

from __future__ import annotations

from array import array
from typing import Final

from fairshare.model import IN_USE_STATUSES, JobStatus
from fairshare.scheduler.driver import collector_at_rest
from fairshare.scheduler.engine import Engine, JobSubmission, Preemption, Transition
from fairshare.simulate.course import NOT_YET, Course, GivenUp
from fairshare.simulate.feasible import hopeless_jobs
from fairshare.simulate.meter import Meter
from fairshare.simulate.settings import ONE_LINE, Setting
from fairshare.simulate.workload import Workload

_STOPPED = "preempted"

_KINDS: Final = {kind.value: kind for kind in Preemption}
"""By the status reason of the attempt."""


def simulate(workload: Workload, setting: Setting) -> Course:
    """Return what happens to a workload under a setting.

    Raises:
        UsageError: a job names a queue or a quota share that the setting does not have, or no instance type where its
            share has several.
        InfeasibleError: a job is larger than the pool of its queue, or than its quota share may become: its queue, or
            its share, would wait for ever. Where a time limit ends such jobs they are simulated.
    """
    hopeless = hopeless_jobs(workload, setting)
    with collector_at_rest():
        return _Run(workload, setting, hopeless).play()


class _Run:
    """One simulation. The engine's job ids are the indexes of the workload's jobs, as text."""

    def __init__(self, workload: Workload, setting: Setting, hopeless: frozenset[int]) -> None:
        self._workload = workload
        self._hopeless = hopeless
        self._setting = setting
        self._engine = Engine(setting.options)
        for environment in setting.environments.values():
            self._engine.reconfigure(environment, 0)
        for queue in setting.queues.values():
            self._engine.reconfigure(queue, 0)
        for shares in setting.quota_shares.values():
            for share in shares:
                self._engine.reconfigure(share, 0)
        self._engine.advance(0)
        names, share_of = _shares(workload, setting)
        count = len(workload.jobs)
        self._course = Course(workload, setting, names, share_of)
        self._course.first_starts = array("q", [NOT_YET]) * count
        self._course.last_ends = array("q", [NOT_YET]) * count
        self._present = array("q", [NOT_YET]) * count
        """The number of each job's present attempt."""
        self._meter = Meter(len(names))
        self._names = names

    def play(self) -> Course:
        """Go from instant to instant: jobs that come, then what the engine makes of it."""
        jobs = self._workload.jobs
        engine, count, next_job = self._engine, len(jobs), 0
        now: int | None
        while True:
            now = engine.next_event_at()
            if next_job < count and (now is None or jobs[next_job].submit_at <= now):
                now = jobs[next_job].submit_at
                while next_job < count and jobs[next_job].submit_at == now:
                    self._submit(next_job, now)
                    next_job += 1
            if now is None:
                break
            for transition in engine.advance(now):
                self._follow(transition)
            for order in engine.take_stops():
                engine.report(order.job_id, order.attempt, JobStatus.FAILED, order.at, _STOPPED)
            engine.take_preemptions()
            engine.take_notices()
        self._course.pressure = self._meter.read(engine.now, self._names)
        return self._course

    def _submit(self, index: int, now: int) -> None:
        job = self._workload.jobs[index]
        queue = job.queue or self._setting.queue
        if queue in self._setting.quota_shares:
            submission = self._of_quota_share(index, queue)
        else:
            submission = JobSubmission(str(index), queue, job.demand, job.share, job.priority)
        self._engine.submit(submission, now)
        if index not in self._hopeless:
            self._meter.waits(self._course.share_of[index], now)

    def _of_quota_share(self, index: int, queue: str) -> JobSubmission:
        """Return what the engine is told of a job; in one line of all jobs priorities do not count."""
        job = self._workload.jobs[index]
        share = self._setting.quota_share_of(queue, job.share)
        assert share is not None  # `hopeless_jobs` saw to it
        return JobSubmission(
            str(index),
            queue,
            job.demand,
            scheduling_priority=0 if share.name == ONE_LINE else job.priority,
            quota_share=share.name,
            demand_by_type=((job.instance_type or self._setting.only_type_of(queue, job.share), job.demand),),
        )

    def _follow(self, transition: Transition) -> None:
        to_status = transition.to_status
        if to_status is JobStatus.SCHEDULED:
            self._start(int(transition.job_id), transition)
        elif to_status is JobStatus.SUCCEEDED:
            self._stop(int(transition.job_id), transition.at)
        elif to_status is JobStatus.RUNNABLE and transition.from_status in IN_USE_STATUSES:
            self._preempt(int(transition.job_id), transition)
        elif to_status is JobStatus.FAILED:
            self._give_up(int(transition.job_id), transition)

    def _start(self, index: int, transition: Transition) -> None:
        course, job, now = self._course, self._workload.jobs[index], transition.at
        self._present[index] = len(course.jobs)
        course.jobs.append(index)
        course.starts.append(now)
        course.ends.append(NOT_YET)
        course.preempted.append(0)
        if course.first_starts[index] == NOT_YET:
            course.first_starts[index] = now
        self._meter.starts(course.share_of[index], job.demand, now)
        if self._setting.quota_shares:  # the choice of whom to preempt looks at when attempts began
            self._engine.report(transition.job_id, transition.attempt, JobStatus.RUNNING, now)
        self._engine.report(transition.job_id, transition.attempt, JobStatus.SUCCEEDED, now + job.run_time)

    def _stop(self, index: int, now: int) -> None:
        course = self._course
        course.ends[self._present[index]] = now
        course.last_ends[index] = now
        self._meter.stops(course.share_of[index], self._workload.jobs[index].demand, now)

    def _preempt(self, index: int, transition: Transition) -> None:
        course, now, present = self._course, transition.at, self._present[index]
        course.ends[present] = now
        course.preempted[present] = 1
        if (kind := _KINDS.get(transition.reason or "")) is not None:
            course.kinds[present] = kind
        self._meter.stops(course.share_of[index], self._workload.jobs[index].demand, now)
        self._meter.waits(course.share_of[index], now)

    def _give_up(self, index: int, transition: Transition) -> None:
        """A time limit ended a job. It never started, and was never among those that wait for instances."""
        assert index in self._hopeless  # nothing else makes a simulated job fail
        _, _, code = (transition.reason or "").rpartition("due to reason: ")
        self._course.given_up[index] = GivenUp(transition.at, code)


def _shares(workload: Workload, setting: Setting) -> tuple[list[str], array[int]]:
    """Return the names of all shares, sorted, and the index of each job's."""
    several = len({job.queue or setting.queue for job in workload.jobs}) > 1
    labels = [f"{job.queue or setting.queue}/{job.share}" if several else job.share for job in workload.jobs]
    names = sorted(set(labels))
    index = {name: number for number, name in enumerate(names)}
    return names, array("q", [index[label] for label in labels])
