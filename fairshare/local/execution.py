"""Joins the engine of a region to a launcher: attempts become SageMaker training jobs, reports come back.

A report goes two ways. The engine gets it for AWS Batch's view (a job that was terminated ends FAILED whatever the
report says); the training job gets it for SageMaker's view. Both act on it when its instant has come. What changes is
told to `fairshare.local.job_events` and `fairshare.local.batch_metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from fairshare.local.batch_metrics import CAPACITY_REASON, BatchMetrics
from fairshare.local.job_events import JobEvents
from fairshare.local.launcher import Attempt, Launcher, Report
from fairshare.local.region import AttemptRecord, JobRecord, Region
from fairshare.local.training_jobs import TrainingJob, is_refusal, problem_of, training_job_name
from fairshare.model import JobStatus
from fairshare.scheduler.driver import settle
from fairshare.scheduler.jobs import EngineJob
from fairshare.scheduler.outcomes import Transition

Publish = Callable[[Region, TrainingJob], None]
"""Makes a training job known to SageMaker's API; unknown again when it is deleted."""

_REASON_PREFIX: Final = "Received status from SageMaker: "
_DEFAULT_REASONS: Final = {
    JobStatus.SUCCEEDED: "Training job completed",
    JobStatus.FAILED: "Training job failed",
}


class Execution:
    """The executor (`fairshare.scheduler.driver.Executor`) of one region.

    Args:
        region: whose jobs are run.
        launcher: runs them; shared with other regions.
        collect: takes the launcher's reports at an instant, in milliseconds, to the regions they belong to. Called
            after each order to the launcher, so that what it reports at once takes part in time.
        publish: see `Publish`.
        events: is told what happens to jobs.
        metrics: is told the same.
    """

    def __init__(
        self,
        region: Region,
        launcher: Launcher,
        collect: Callable[[int], None],
        publish: Publish,
        events: JobEvents,
        metrics: BatchMetrics,
    ) -> None:
        self._region = region
        self._launcher = launcher
        self._collect = collect
        self._publish = publish
        self._events = events
        self._metrics = metrics
        self._due: list[tuple[int, int, Report, TrainingJob]] = []
        self._sequence = count()

    def advance(self, now: int) -> None:
        """Move the region to ``now`` ms: everything due happens, in order of time."""
        engine = self._region.engine
        for attempt in self._region.take_stop_requests():
            self._stop(attempt, now)
        while (at := engine.next_event_at()) is not None and at <= now:
            self._go_to(at)
        self._go_to(now)
        while self._due and self._due[0][0] <= now:
            _, _, report, training_job = heappop(self._due)
            training_job.apply(report)
        self._region.forget_deleted()

    def start(self, job: EngineJob, at: int) -> None:
        """Begin the present attempt of a job at ``at`` ms."""
        region, record = self._region, self._region.jobs[job.id]
        name = training_job_name(record.training_request, region.new_id().hex)
        arn = region.arn(f"training-job/{name}", "sagemaker")
        attempt = AttemptRecord(job.id, job.attempt, TrainingJob(name, arn, record.training_request, at))
        self._delete_futile(record)
        record.attempts[job.attempt] = attempt
        if (problem := problem_of(record.training_request)) is not None:
            self.receive(Report(job.id, job.attempt, JobStatus.FAILED, at, problem))
            return
        launch = Attempt(job.id, job.attempt, name, record.training_request, region.name, region.account_id)
        self._launcher.start(launch, at)
        self._collect(at)
        if not attempt.was_refused:
            region.attempts_by_training_job[name] = attempt
            self._publish(region, attempt.training_job)

    def stop(self, job: EngineJob, at: int) -> None:
        """Ask the present attempt of a job to end."""
        self._stop(self._attempt(job.id, job.attempt), at)

    def receive(self, report: Report) -> None:
        """Take a launcher's report; it acts once the region has advanced to its instant. Late ones are ignored."""
        attempt = self._region.jobs[report.job_id].attempts.get(report.attempt)
        if attempt is None:
            return
        reason = None
        if report.status.is_terminal:
            reason = _REASON_PREFIX + (report.reason or _DEFAULT_REASONS[report.status])
        if is_refusal(report) and attempt.training_job.name not in self._region.attempts_by_training_job:
            attempt.was_refused = True
        self._region.engine.report(report.job_id, report.attempt, report.status, report.at, reason)
        heappush(self._due, (report.at, next(self._sequence), report, attempt.training_job))

    def abandon(self) -> None:
        """Stop every attempt that runs; what the launcher still reports about it finds no region."""
        for job in self._region.engine.jobs():
            if job.status.is_in_use:
                self._launcher.stop(job.id, job.attempt)

    def _stop(self, attempt: AttemptRecord, at: int) -> None:
        attempt.training_job.stop(at)
        self._launcher.stop(attempt.job_id, attempt.number)
        self._collect(at)

    def _delete_futile(self, job: JobRecord) -> None:
        """Delete the training jobs of dispatches that found no instances, all but the newest.

        Source: https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html.
        """
        for attempt in [attempt for attempt in job.attempts.values() if attempt.lacked_capacity][:-1]:
            attempt.training_job.is_deleted = True
            self._publish(self._region, attempt.training_job)
            del job.attempts[attempt.number]
            self._region.attempts_by_training_job.pop(attempt.training_job.name, None)

    def _go_to(self, at: int) -> None:
        """Let an instant happen, and tell what did."""
        transitions = settle(self._region.engine, self, at)
        preemptions = self._region.engine.take_preemptions()
        for preemption in preemptions:
            if preemption.is_completed:
                self._attempt(preemption.job_id, preemption.attempt).was_preempted = True
        self._follow(transitions)
        for preemption in preemptions:
            self._events.preempted(preemption)
            self._metrics.preempted(preemption)
        for notice in self._region.engine.take_notices():
            self._events.blocked(notice.job_id, notice.reason, notice.at)

    def _follow(self, transitions: Iterable[Transition]) -> None:
        """Write down when attempts began to run and how they ended, as AWS Batch sees it, and tell what happened."""
        for transition in transitions:
            if transition.from_status.is_in_use:
                attempt = self._attempt(transition.job_id, transition.attempt)
                if transition.to_status is JobStatus.RUNNING:
                    attempt.started_at = transition.at
                elif not transition.to_status.is_in_use:
                    attempt.stopped_at, attempt.status_reason = transition.at, transition.reason
                    attempt.lacked_capacity = (transition.reason or "").startswith(CAPACITY_REASON)
            self._events.changed(transition)
            self._metrics.changed(transition)

    def _attempt(self, job_id: str, number: int) -> AttemptRecord:
        return self._region.jobs[job_id].attempts[number]
