"""Runtime and execution: launchers, regions and time."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.local import service_jobs
from fairshare.local.launcher import Attempt, Report
from fairshare.local.simulated import SimulatedLauncher
from fairshare.model import JobStatus

START = 1_790_000_000_000


class Scripted:
    """A launcher that notes what it is told and reports what the test puts in."""

    def __init__(self) -> None:
        self.started: list[tuple[Attempt, int]] = []
        self.stopped: list[tuple[str, int]] = []
        self.reports: list[Report] = []

    def start(self, attempt: Attempt, at: int) -> None:
        self.started.append((attempt, at))

    def stop(self, job_id: str, attempt: int) -> None:
        self.stopped.append((job_id, attempt))

    def poll(self, now: int) -> list[Report]:
        reports, self.reports = self.reports, []
        return reports

    def close(self) -> None: ...


@pytest.fixture
def launcher() -> Scripted:
    return Scripted()


@pytest.fixture
def cloud(launcher: Scripted, make_cloud: Any) -> Any:
    cloud = make_cloud(launcher)
    cloud.fifo_queue()
    return cloud


def test_an_attempt_carries_what_a_launcher_needs(cloud, launcher):
    job = cloud.submit("digits")
    ((attempt, at),) = launcher.started
    assert (attempt.job_id, attempt.number, at) == (job, 1, START)
    assert attempt.training_job_name == f"AWSBatchdigits{2:032x}"
    assert attempt.training_job["TrainingJobName"] == "digits"
    assert (attempt.region, attempt.account_id) == ("us-west-2", "123456789012")


def test_statuses_follow_the_reports(cloud, launcher):
    job = cloud.submit("a")
    training_job = next(iter(cloud.training_jobs.values()))
    seen = [(cloud.status(job), training_job.secondary_status)]
    for status, more in (
        (JobStatus.STARTING, {}),
        (JobStatus.RUNNING, {}),
        (JobStatus.RUNNING, {"secondary_status": "Uploading"}),
        (JobStatus.SUCCEEDED, {"model_artifact": "s3://b/model.tar.gz"}),
    ):
        cloud.clock.advance(1_000)
        launcher.reports = [Report(job, 1, status, cloud.clock.now(), **more)]
        seen.append((cloud.status(job), training_job.secondary_status))
    assert seen == [
        ("SCHEDULED", "Pending"),
        ("STARTING", "Downloading"),
        ("RUNNING", "Training"),
        ("RUNNING", "Uploading"),
        ("SUCCEEDED", "Completed"),
    ]
    assert cloud.describe(job)["attempts"][0]["startedAt"] == START + 2_000
    assert training_job.model_artifact == "s3://b/model.tar.gz"


def test_reports_that_arrive_together_act_in_order_of_their_time(cloud, launcher):
    job = cloud.submit("a")
    cloud.clock.advance(10_000)
    launcher.reports = [
        Report(job, 1, JobStatus.STARTING, START + 1_000),
        Report(job, 1, JobStatus.RUNNING, START + 2_000),
        Report(job, 1, JobStatus.RUNNING, START + 3_000, secondary_status="Uploading"),
        Report(job, 1, JobStatus.SUCCEEDED, START + 4_000),
    ]
    assert cloud.status(job) == "SUCCEEDED"
    training_job = next(iter(cloud.training_jobs.values()))
    assert [(phase.status, phase.begin - START) for phase in training_job.phases] == [
        ("Pending", 0),
        ("Downloading", 1_000),
        ("Training", 2_000),
        ("Uploading", 3_000),
        ("Completed", 4_000),
    ]


def test_a_terminated_job_holds_its_room_until_its_end_is_reported(cloud, launcher):
    job, following = cloud.submit("a"), cloud.submit("b")
    launcher.reports = [Report(job, 1, JobStatus.RUNNING, START)]
    cloud.call(service_jobs.terminate_service_job, jobId=job, reason="enough")
    assert launcher.stopped == [(job, 1)]
    described = cloud.describe(job)
    assert (described["status"], described["isTerminated"]) == ("RUNNING", True)
    assert next(iter(cloud.training_jobs.values())).status == "Stopping"
    assert cloud.status(following) == "RUNNABLE"
    cloud.clock.advance(20_000)
    launcher.reports = [Report(job, 1, JobStatus.SUCCEEDED, START + 20_000)]
    assert (cloud.status(job), cloud.describe(job)["statusReason"]) == ("FAILED", "enough")
    assert cloud.status(following) == "SCHEDULED"
    assert next(iter(cloud.training_jobs.values())).status == "Stopped"


def test_terminating_twice_stops_once(cloud, launcher):
    job = cloud.submit("a")
    for reason in ("first", "second"):
        cloud.call(service_jobs.terminate_service_job, jobId=job, reason=reason)
    assert launcher.stopped == [(job, 1)]


def test_a_failure_without_a_reason_gets_one(cloud, launcher):
    job = cloud.submit("a")
    launcher.reports = [Report(job, 1, JobStatus.FAILED, START)]
    assert cloud.describe(job)["statusReason"] == "Received status from SageMaker: Training job failed"


def test_regions_have_nothing_in_common(cloud):
    job = cloud.submit("a")
    cloud.runtime.open_region("123456789012", "eu-west-1")
    with cloud.runtime.operation("123456789012", "eu-west-1") as region:
        assert region.queues == {}
        assert job not in region.jobs


def test_opening_a_region_again_empties_it_and_stops_what_runs(cloud, launcher):
    job = cloud.submit("runs")
    cloud.submit("waits")
    cloud.runtime.open_region("123456789012", "us-west-2")
    assert launcher.stopped == [(job, 1)]
    launcher.reports = [Report(job, 1, JobStatus.FAILED, START)]
    with cloud.runtime.operation("123456789012", "us-west-2") as region:
        assert (region.jobs, region.queues) == ({}, {})


def test_the_next_event_is_the_earliest_of_all_regions(cloud, make_cloud):
    assert cloud.runtime.next_event_at() is None
    simulated = make_cloud(SimulatedLauncher())
    simulated.fifo_queue(capacity=2)
    simulated.submit("a", seconds=30)
    simulated.submit("b", seconds=10)
    simulated.runtime.open_region("123456789012", "eu-west-1")
    assert simulated.runtime.next_event_at() == START + 10_000


def test_after_close_no_attempt_is_started(cloud, launcher):
    first = cloud.submit("runs")
    cloud.submit("waits")
    cloud.runtime.close()
    launcher.reports = [Report(first, 1, JobStatus.SUCCEEDED, START)]
    cloud.runtime.pump()
    assert len(launcher.started) == 1


def test_a_failed_operation_changes_no_time_and_frees_the_lock(cloud):
    with pytest.raises(ZeroDivisionError), cloud.runtime.operation("123456789012", "us-west-2"):
        _ = 1 / 0
    assert cloud.status(cloud.submit("a")) == "SCHEDULED"


def test_arns_in_other_partitions(cloud):
    for name, partition in (("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")):
        cloud.runtime.open_region("111122223333", name)
        with cloud.runtime.operation("111122223333", name) as region:
            assert region.arn("job-queue/q") == f"arn:{partition}:batch:{name}:111122223333:job-queue/q"


def test_what_follows_the_regions_moves_after_them_and_is_waited_for(cloud, launcher):
    seen: list[tuple[int, int]] = []

    class Follower:
        def advance(self, now: int) -> None:
            seen.append((now, len(launcher.started)))

        def next_event_at(self) -> int | None:
            return START + 7_000

    cloud.runtime.followers.append(Follower())
    cloud.submit("a")

    assert seen[-1] == (START, 1)
    assert cloud.runtime.next_event_at() == START + 7_000
