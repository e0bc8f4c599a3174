"""Joins the engine of a region to a launcher: attempts become SageMaker training jobs, reports come back.

A report goes two ways. The engine gets it for AWS Batch's view (a job that was terminated ends FAILED whatever the
report says); the training job gets it for SageMaker's view. Both act on it when its instant has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from fairshare.local.launcher import Attempt, Launcher, Report
from fairshare.local.region import AttemptRecord, Region
from fairshare.local.training_jobs import TrainingJob, training_job_name
from fairshare.model import JobStatus
from fairshare.scheduler.driver import settle
from fairshare.scheduler.engine import Transition
from fairshare.scheduler.queues import EngineJob

Publish = Callable[[Region, TrainingJob], None]
"""Makes a new training job known to SageMaker's API."""

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
    """

    def __init__(self, region: Region, launcher: Launcher, collect: Callable[[int], None], publish: Publish) -> None:
        self._region = region
        self._launcher = launcher
        self._collect = collect
        self._publish = publish
        self._due: list[tuple[int, int, Report]] = []
        self._sequence = count()

    def advance(self, now: int) -> None:
        """Move the region to ``now`` ms: everything due happens, in order of time."""
        transitions = settle(self._region.engine, self, now)
        self._follow(transitions)
        while self._due and self._due[0][0] <= now:
            report = heappop(self._due)[2]
            self._attempt(report.job_id, report.attempt).training_job.apply(report)
        self._region.forget_deleted_queues()

    def start(self, job: EngineJob, at: int) -> None:
        """Begin the present attempt of a job at ``at`` ms."""
        region, record = self._region, self._region.jobs[job.id]
        name = training_job_name(record.training_request, region.new_id().hex)
        arn = region.arn(f"training-job/{name}", "sagemaker")
        training_job = TrainingJob(name, arn, record.training_request, at)
        record.attempts.append(AttemptRecord(training_job))
        self._publish(region, training_job)
        attempt = Attempt(job.id, job.attempt, name, record.training_request, region.name, region.account_id)
        self._launcher.start(attempt, at)
        self._collect(at)

    def stop(self, job: EngineJob, at: int) -> None:
        """Ask the present attempt of a job to end."""
        self._attempt(job.id, job.attempt).training_job.stop(at)
        self._launcher.stop(job.id, job.attempt)
        self._collect(at)

    def receive(self, report: Report) -> None:
        """Take a launcher's report; it acts once the region has advanced to its instant."""
        reason = None
        if report.status.is_terminal:
            reason = _REASON_PREFIX + (report.reason or _DEFAULT_REASONS[report.status])
        self._region.engine.report(report.job_id, report.attempt, report.status, report.at, reason)
        heappush(self._due, (report.at, next(self._sequence), report))

    def abandon(self) -> None:
        """Stop every attempt that runs; what the launcher still reports about it finds no region."""
        for job in self._region.engine.jobs():
            if job.status.is_in_use:
                self._launcher.stop(job.id, job.attempt)

    def _follow(self, transitions: Iterable[Transition]) -> None:
        """Write down when attempts began to run and how they ended, as AWS Batch sees it."""
        for transition in transitions:
            if transition.from_status.is_in_use:
                attempt = self._attempt(transition.job_id, transition.attempt)
                if transition.to_status is JobStatus.RUNNING:
                    attempt.started_at = transition.at
                elif transition.to_status.is_terminal:
                    attempt.stopped_at, attempt.status_reason = transition.at, transition.reason

    def _attempt(self, job_id: str, number: int) -> AttemptRecord:
        return self._region.jobs[job_id].attempts[number - 1]
