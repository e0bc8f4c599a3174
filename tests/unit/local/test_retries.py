"""Retries, want of capacity, time-outs and time limits of service jobs, through the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairshare.local import job_queues, service_jobs
from fairshare.local.launcher import Attempt, Report
from fairshare.model import JobStatus

START = 1_790_000_000_000
SAGEMAKER = "Received status from SageMaker: "
LACKING = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Unable to provision requested compute resources"


def failing(*reasons: str) -> dict[str, str]:
    """The environment of a job whose first dispatches fail so."""
    return {"FAIRSHARE_SIM_FAILURES": json.dumps(reasons)}


def retry(attempts: int, *rules: tuple[str, str]) -> dict[str, Any]:
    return {"attempts": attempts, "evaluateOnExit": [{"action": a, "onStatusReason": r} for a, r in rules]}


def pass_time(cloud: Any, seconds: int) -> None:
    cloud.clock.advance(seconds * 1000)
    cloud.call(job_queues.describe_job_queues)


def reasons(described: dict[str, Any]) -> list[str | None]:
    return [attempt["statusReason"] for attempt in described["attempts"]]


def test_a_failed_attempt_is_retried_and_each_has_a_training_job_of_its_own(cloud):
    cloud.fifo_queue()
    job = cloud.submit("a", seconds=10, environment=failing("InternalServerError: x"), retryStrategy=retry(2))
    pass_time(cloud, 10)
    described = cloud.describe(job)
    assert described["status"] == "RUNNING"
    assert reasons(described) == [SAGEMAKER + "InternalServerError: x", None]
    assert described["createdAt"] == START
    pass_time(cloud, 10)
    described = cloud.describe(job)
    assert described["status"] == "SUCCEEDED"
    assert reasons(described) == [SAGEMAKER + "InternalServerError: x", SAGEMAKER + "Training job completed"]
    arns = [attempt["serviceResourceId"]["value"] for attempt in described["attempts"]]
    assert len(set(arns)) == 2
    assert described["latestAttempt"]["serviceResourceId"]["value"] == arns[1]
    assert [job.describe()["TrainingJobStatus"] for job in cloud.training_jobs.values()] == ["Failed", "Completed"]


def test_attempts_are_the_runs_in_all(cloud):
    cloud.fifo_queue()
    job = cloud.submit("a", seconds=1, environment={"FAIRSHARE_SIM_EXIT_CODE": "1"}, retryStrategy=retry(3))
    pass_time(cloud, 60)
    described = cloud.describe(job)
    assert (described["status"], len(described["attempts"])) == ("FAILED", 3)


def test_the_first_rule_that_matches_decides(cloud):
    """The rules that fairshare sends: a user's own bug runs once, a failure of SageMaker twice."""
    cloud.fifo_queue(capacity=2)
    rules = retry(2, ("retry", SAGEMAKER + "InternalServerError*"), ("EXIT", "*"))
    own = cloud.submit("own", seconds=1, environment=failing("AlgorithmError: bug"), retryStrategy=rules)
    theirs = cloud.submit("theirs", seconds=1, environment=failing("InternalServerError: x"), retryStrategy=rules)
    pass_time(cloud, 60)
    assert (cloud.status(own), len(cloud.describe(own)["attempts"])) == ("FAILED", 1)
    assert (cloud.status(theirs), len(cloud.describe(theirs)["attempts"])) == ("SUCCEEDED", 2)


def test_c34_waiting_for_capacity_uses_no_attempt(cloud):
    """Two attempts; five capacity errors, then an algorithm error: one attempt is used, the second is made."""
    cloud.fifo_queue()
    environment = failing(*["CapacityError: no p5"] * 5, "AlgorithmError: x")
    job = cloud.submit("a", seconds=10, environment=environment, retryStrategy=retry(2))
    waiting = cloud.describe(job)
    assert (waiting["status"], waiting["statusReason"], waiting["attempts"]) == ("RUNNABLE", LACKING, [])
    pass_time(cloud, 5)
    described = cloud.describe(job)
    assert (described["status"], reasons(described)) == ("RUNNING", [None])
    pass_time(cloud, 10)
    described = cloud.describe(job)
    assert (described["status"], reasons(described)) == ("RUNNING", [SAGEMAKER + "AlgorithmError: x", None])
    pass_time(cloud, 10)
    described = cloud.describe(job)
    assert described["status"] == "SUCCEEDED"
    assert len(described["attempts"]) == 2
    assert [job.failure_reason for job in cloud.training_jobs.values()] == [
        "CapacityError: no p5",  # the newest of five
        "AlgorithmError: x",
        None,
    ]


def test_c34_an_account_limit_is_no_want_of_capacity(cloud):
    cloud.fifo_queue()
    reason = "ResourceLimitExceeded: limit is 0 Instances, with current utilization of 0 and a request delta of 1"
    job = cloud.submit("a", environment=failing(reason, reason), retryStrategy=retry(2))
    pass_time(cloud, 1)
    described = cloud.describe(job)
    assert (described["status"], described["statusReason"]) == ("FAILED", SAGEMAKER + reason)
    assert described["attempts"] == []


def test_events_and_metrics_of_a_retry(cloud):
    cloud.fifo_queue()
    counts: list[str] = []
    cloud.runtime.metrics.subscribe(lambda point: counts.append(point.name))
    environment = failing("CapacityError: no p5", "InternalServerError: x")
    cloud.submit("a", seconds=10, environment=environment, retryStrategy=retry(2))
    pass_time(cloud, 60)
    events = cloud.runtime.events.after(0).events
    details = [event.detail for event in events if event.detail_type == "Batch Service Job State Change"]
    blocked = [event.detail for event in events if event.detail_type == "Batch Service Job Queue Blocked"]
    assert [(detail["status"], detail["statusReason"]) for detail in blocked] == [("RUNNABLE", LACKING)]
    assert [(detail["status"], detail.get("statusReason")) for detail in details] == [
        ("RUNNABLE", None),
        ("SCHEDULED", None),
        ("RUNNABLE", LACKING),
        ("SCHEDULED", LACKING),
        ("STARTING", LACKING),
        ("RUNNING", LACKING),
        ("RUNNABLE", SAGEMAKER + "InternalServerError: x"),
        ("SCHEDULED", SAGEMAKER + "InternalServerError: x"),
        ("STARTING", SAGEMAKER + "InternalServerError: x"),
        ("RUNNING", SAGEMAKER + "InternalServerError: x"),
        ("SUCCEEDED", SAGEMAKER + "Training job completed"),
    ]
    assert [len(detail["attempts"]) for detail in details] == [0, 1, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert (counts.count("JobsRetried"), counts.count("JobsMovedToScheduled")) == (1, 2)


def test_an_attempt_that_runs_too_long_is_stopped_and_not_retried(cloud):
    cloud.fifo_queue()
    timeout = {"attemptDurationSeconds": 60}
    job = cloud.submit("a", seconds=3600, timeoutConfig=timeout, retryStrategy=retry(3))
    pass_time(cloud, 59)
    assert cloud.status(job) == "RUNNING"
    pass_time(cloud, 1)
    described = cloud.describe(job)
    assert (described["status"], described["statusReason"]) == ("FAILED", "Job attempt duration exceeded timeout")
    assert len(described["attempts"]) == 1
    assert [job.status for job in cloud.training_jobs.values()] == ["Stopped"]


def test_a_terminated_job_is_not_retried(cloud):
    cloud.fifo_queue()
    job = cloud.submit("a", retryStrategy=retry(3))
    cloud.call(service_jobs.terminate_service_job, jobId=job, reason="enough")
    assert (cloud.status(job), len(cloud.describe(job)["attempts"])) == ("FAILED", 1)


MISFIT = "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE"
MISFIT_REASON = (
    f"{MISFIT} - Service environment(s) associated with the job queue cannot meet the capacity requirement of the job."
)


def time_limit(reason: str, seconds: int) -> dict[str, Any]:
    return {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": seconds, "action": "TERMINATE"}


def test_a_head_that_can_never_fit_says_so_and_is_told_once(cloud):
    cloud.fifo_queue(capacity=10)
    job = cloud.submit("big", instances=11)
    cloud.submit("behind")
    pass_time(cloud, 60)
    described = cloud.describe(job)
    assert (described["status"], described["statusReason"]) == ("RUNNABLE", MISFIT_REASON)
    blocked = [
        event.to_json()
        for event in cloud.runtime.events.after(0).events
        if event.detail_type == "Batch Service Job Queue Blocked"
    ]
    assert len(blocked) == 1
    assert blocked[0]["resources"] == [described["jobArn"]]
    detail = blocked[0]["detail"]
    assert (detail["status"], detail["statusReason"], detail["attempts"]) == ("RUNNABLE", MISFIT_REASON, [])


@pytest.mark.parametrize("when", ["at creation", "later"])
def test_a_time_limit_ends_the_head_that_holds_everybody_up(cloud, when):
    cloud.fifo_queue(capacity=10)
    job, behind = cloud.submit("big", instances=11), cloud.submit("behind")
    limits = [time_limit(MISFIT, 600)]
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", jobStateTimeLimitActions=limits)
    if when == "later":
        pass_time(cloud, 300)
    pass_time(cloud, 599 if when == "at creation" else 299)
    assert cloud.status(job) == "RUNNABLE"
    pass_time(cloud, 1)
    described = cloud.describe(job)
    assert described["status"] == "FAILED"
    assert described["statusReason"] == f"Terminated by JobStateTimeLimit action due to reason: {MISFIT}"
    assert cloud.status(behind) == "RUNNING"


class Nothing:
    """A launcher that never gets an instance."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def start(self, attempt: Attempt, at: int) -> None:
        self.reports.append(
            Report(attempt.job_id, attempt.number, JobStatus.FAILED, at + 5_000, "CapacityError: no p5")
        )

    def stop(self, job_id: str, attempt: int) -> None: ...

    def poll(self, now: int) -> list[Report]:
        reports, self.reports = self.reports, []
        return reports

    def close(self) -> None: ...


def test_a_time_limit_ends_a_job_that_finds_no_instances(make_cloud):
    cloud = make_cloud(Nothing())
    cloud.fifo_queue()
    code = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", jobStateTimeLimitActions=[time_limit(code, 600)])
    job = cloud.submit("a")
    pass_time(cloud, 590)
    assert cloud.status(job) in ("RUNNABLE", "SCHEDULED")
    pass_time(cloud, 20)
    described = cloud.describe(job)
    assert described["status"] == "FAILED"
    assert described["statusReason"] == f"Terminated by JobStateTimeLimit action due to reason: {code}"
    assert described["attempts"] == []
