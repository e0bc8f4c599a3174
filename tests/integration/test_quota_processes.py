"""Preemption of a real process: it is told to stop (SIGTERM), its instances go to their owner, later it runs again.

Also when the server is killed while the process still saves its work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TYPE = "ml.g5.xlarge"
SCRIPT = """\
trap 'echo stop >> {log}; {save}; exit 143' TERM
echo start >> {log}
until [ -e {go} ]; do sleep 0.05; done
echo end >> {log}
"""

WaitFor = Callable[[Callable[[], bool]], None]


class Jobs:
    """Scripts that note in a file that they start, are told to stop, and end: which they do when they are let."""

    def __init__(self, folder: Path, script_request: Callable[..., dict[str, Any]], batch: Any) -> None:
        self.batch = batch
        self._folder = folder
        self._script_request = script_request

    def submit(self, name: str, share: str, save: str = "true", **more: Any) -> str:
        """``save`` is what the script does when it is told to stop."""
        text = SCRIPT.format(log=self._log(name), go=self._folder / f"{name}.go", save=save)
        payload = json.dumps(self._script_request(name, text, TYPE))
        request = {"jobName": name, "serviceJobType": "SAGEMAKER_TRAINING", "serviceRequestPayload": payload, **more}
        return str(self.batch.submit_service_job(jobQueue="gpu", quotaShareName=share, **request)["jobId"])

    def log(self, name: str) -> list[str]:
        return self._log(name).read_text().split() if self._log(name).exists() else []

    def let_end(self, *names: str) -> None:
        for name in names:
            (self._folder / f"{name}.go").touch()

    def status(self, job: str) -> str:
        return str(self.batch.describe_service_job(jobId=job)["status"])

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@pytest.fixture
def server(make_server: Callable[..., Any]) -> Any:
    """Two instances, one of GUEST, who borrows, and one of OWNER, who lends and preempts in the share."""
    server = make_server("--launcher", "process")
    server.start()
    batch = server.client("batch")
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 2, "capacityUnit": TYPE}],
    )
    quotas = {"idleResourceAssignmentStrategy": "FIFO"}
    policy = batch.create_scheduling_policy(name="gpu", quotaSharePolicy=quotas)["arn"]
    order = [{"order": 1, "serviceEnvironment": "gpu"}]
    batch.create_job_queue(jobQueueName="gpu", priority=1, schedulingPolicyArn=policy, serviceEnvironmentOrder=order)
    for name, strategy, in_share in (("GUEST", "LEND_AND_BORROW", "DISABLED"), ("OWNER", "LEND", "ENABLED")):
        batch.create_quota_share(
            quotaShareName=name,
            jobQueue="gpu",
            capacityLimits=[{"maxCapacity": 1, "capacityUnit": TYPE}],
            resourceSharingConfiguration={"strategy": strategy},
            preemptionConfiguration={"inSharePreemption": in_share},
        )
    return server


@pytest.fixture
def jobs(tmp_path: Path, script_request: Callable[..., dict[str, Any]], server: Any) -> Jobs:
    return Jobs(tmp_path, script_request, server.client("batch"))


def test_a_preempted_process_stops_and_runs_again_later(jobs: Jobs, wait_for: WaitFor) -> None:
    first = jobs.submit("first", "GUEST")
    wait_for(lambda: jobs.status(first) == "RUNNING")
    guest = jobs.submit("guest", "GUEST")  # the later to run goes first, however busy the machine
    wait_for(lambda: jobs.log("first") == jobs.log("guest") == ["start"])

    owner = jobs.submit("owner", "OWNER")
    wait_for(lambda: jobs.log("owner") == ["start"])
    assert jobs.log("guest") == ["start", "stop"], "its instance is free only when it has stopped"
    assert jobs.status(guest) == "RUNNABLE"
    summary = jobs.batch.describe_service_job(jobId=guest)["preemptionSummary"]
    assert summary["preemptedAttemptCount"] == 1

    jobs.let_end("owner")
    wait_for(lambda: jobs.log("guest") == ["start", "stop", "start"])
    jobs.let_end("first", "guest")
    wait_for(lambda: {jobs.status(job) for job in (first, guest, owner)} == {"SUCCEEDED"})
    assert jobs.log("guest") == ["start", "stop", "start", "end"]
    assert len(jobs.batch.describe_service_job(jobId=guest)["attempts"]) == 1


def test_a_kill_during_a_preemption_loses_no_job_and_runs_none_twice(
    jobs: Jobs, server: Any, wait_for: WaitFor
) -> None:
    low = jobs.submit("low", "OWNER", save="sleep 600", schedulingPriority=1)
    wait_for(lambda: jobs.log("low") == ["start"])
    high = jobs.submit("high", "OWNER", schedulingPriority=9)
    wait_for(lambda: jobs.log("low") == ["start", "stop"])
    assert (jobs.status(low), jobs.status(high)) == ("RUNNING", "RUNNABLE")

    server.kill()
    server.start()
    jobs.batch = server.client("batch")

    wait_for(lambda: jobs.log("high") == ["start"])
    assert jobs.status(low) == "RUNNABLE"
    jobs.let_end("high")
    wait_for(lambda: jobs.log("low") == ["start", "stop", "start"])
    jobs.let_end("low")
    wait_for(lambda: {jobs.status(job) for job in (low, high)} == {"SUCCEEDED"})
    assert (jobs.log("low"), jobs.log("high")) == (["start", "stop", "start", "end"], ["start", "end"])
    described = jobs.batch.describe_service_job(jobId=low)
    assert described["preemptionSummary"]["preemptedAttemptCount"] == len(described["attempts"]) == 1
