"""The AWS/Batch metrics of service jobs."""

from __future__ import annotations

from collections import defaultdict

import pytest

from fairshare.local import service_jobs
from fairshare.local.batch_metrics import BatchMetrics, MetricPoint
from fairshare.local.launcher import Report
from fairshare.model import JobStatus
from fairshare.scheduler.engine import Transition

START = 1_790_000_000_000
DURATIONS = {
    "JobSubmittedToRunnableDuration",
    "JobSubmittedToFirstScheduledDuration",
    "JobAttemptRunnableToScheduledDuration",
    "JobAttemptScheduledToStartingDuration",
    "JobAttemptStartingToRunningDuration",
    "JobAttemptExecutionDuration",
    "JobAttemptDuration",
}


class Slow:
    """A launcher whose attempts wait 5 s for instances, load data for 10 s and run for 60 s."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def start(self, attempt, at):
        job = attempt.job_id, attempt.number
        end = JobStatus.FAILED if attempt.training_job["TrainingJobName"] == "fails" else JobStatus.SUCCEEDED
        self.reports.append(Report(*job, JobStatus.STARTING, at + 5_000))
        self.reports.append(Report(*job, JobStatus.RUNNING, at + 15_000))
        self.reports.append(Report(*job, end, at + 75_000))

    def stop(self, job_id, attempt):
        raise AssertionError("nothing that runs is stopped")

    def poll(self, now):
        reports, self.reports = self.reports, []
        return reports

    def close(self): ...


@pytest.fixture
def points() -> list[MetricPoint]:
    return []


@pytest.fixture
def cloud(make_cloud, points):
    cloud = make_cloud(Slow())
    cloud.fifo_queue()
    cloud.runtime.metrics.subscribe(points.append)
    return cloud


def by_name(points: list[MetricPoint]) -> dict[str, list[int]]:
    values = defaultdict(list)
    for point in points:
        values[point.name].append(point.value)
    return dict(values)


def test_counts_and_durations_of_a_scripted_day(cloud, points):
    """One instance: a job that succeeds, one that fails after it had to wait, one that is ended while it waits."""
    for name in ("works", "fails", "ended"):
        job = cloud.submit(name)
    cloud.clock.advance(60_000)
    cloud.call(service_jobs.terminate_service_job, jobId=job, reason="enough")
    cloud.clock.advance(86_400_000)
    cloud.status(job)
    assert {(point.account_id, point.region, point.queue) for point in points} == {("123456789012", "us-west-2", "gpu")}
    values = by_name(points)
    counts = {name: sum(numbers) for name, numbers in values.items() if name not in DURATIONS}
    assert counts == {
        "JobsSubmitted": 3,
        "JobsMovedToRunnable": 3,
        "JobsMovedToScheduled": 2,
        "JobsMovedToStarting": 2,
        "JobsMovedToRunning": 2,
        "JobsMovedToSucceeded": 1,
        "JobsMovedToFailed": 2,
        "JobsTerminated": 1,
    }
    assert {name: values[name] for name in DURATIONS} == {
        "JobSubmittedToRunnableDuration": [0, 0, 0],
        "JobSubmittedToFirstScheduledDuration": [0, 75_000],
        "JobAttemptRunnableToScheduledDuration": [0, 75_000],
        "JobAttemptScheduledToStartingDuration": [5_000, 5_000],
        "JobAttemptStartingToRunningDuration": [10_000, 10_000],
        "JobAttemptExecutionDuration": [60_000, 60_000],
        "JobAttemptDuration": [70_000, 70_000],
    }
    ends = [point.at for point in points if point.name == "JobsMovedToSucceeded"]
    assert ends == [START + 75_000]
    units = {point.name: point.unit for point in points}
    assert {name for name, unit in units.items() if unit == "Milliseconds"} == DURATIONS
    assert set(units.values()) == {"Milliseconds", "Count"}


def test_a_retry_counts_again_and_a_second_try_for_capacity_does_not(cloud, points):
    """The transitions by hand: a capacity failure, then a failed attempt, then one that succeeds."""
    job = cloud.submit("works")
    points.clear()
    with cloud.runtime.operation("123456789012", "us-west-2") as region:
        metrics = BatchMetrics(region, points.append)
    runnable, scheduled, starting = JobStatus.RUNNABLE, JobStatus.SCHEDULED, JobStatus.STARTING
    lacking = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Unable to provision requested compute resources"
    steps = [
        (0, JobStatus.SUBMITTED, runnable, 0, None),
        (1, runnable, scheduled, 1_000, None),
        (1, scheduled, runnable, 2_000, lacking),
        (2, runnable, scheduled, 3_000, None),
        (2, scheduled, starting, 4_000, None),
        (2, starting, runnable, 6_000, "Received status from SageMaker: InternalServerError"),
        (3, runnable, scheduled, 7_000, None),
        (3, scheduled, starting, 8_000, None),
        (3, starting, JobStatus.RUNNING, 9_000, None),
        (3, JobStatus.RUNNING, JobStatus.SUCCEEDED, 19_000, None),
    ]
    for attempt, before, after, at, reason in steps:
        metrics.changed(Transition(job, attempt, before, after, START + at, reason))
    values = by_name(points)
    assert {name: len(numbers) for name, numbers in values.items() if name not in DURATIONS} == {
        "JobsSubmitted": 1,
        "JobsMovedToRunnable": 3,
        "JobsMovedToScheduled": 2,
        "JobsMovedToStarting": 2,
        "JobsMovedToRunning": 1,
        "JobsMovedToSucceeded": 1,
        "JobsRetried": 1,
    }
    assert values["JobSubmittedToFirstScheduledDuration"] == [1_000]
    assert values["JobAttemptRunnableToScheduledDuration"] == [1_000, 1_000]
    assert values["JobAttemptScheduledToStartingDuration"] == [1_000, 1_000]
    assert values["JobAttemptDuration"] == [2_000, 11_000]
    assert values["JobAttemptExecutionDuration"] == [10_000]
