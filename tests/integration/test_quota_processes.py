"""Preemption of a real process: it is told to stop (SIGTERM), its instances go to their owner, later it runs again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from fairshare.local.server import LocalServer

PATIENCE = 1_500
"""Looks, 20 ms apart."""
TYPE = "ml.g5.xlarge"
SCRIPT = """\
trap 'echo stop >> {log}; exit 143' TERM
echo start >> {log}
until [ -e {go} ]; do sleep 0.05; done
echo end >> {log}
"""


def wait_for(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE):
        if is_so():
            return
        pause.wait(0.02)
    raise AssertionError("it did not happen in time")


@pytest.fixture
def batch(tmp_path: Path) -> Iterator[Any]:
    """AWS Batch where scripts run: two instances, one of GUEST, who borrows, and one of OWNER, who lends."""
    with LocalServer(state_dir=tmp_path / "aws", ready_file=tmp_path / "ready.json", launcher="process") as server:
        batch = boto3.client(
            "batch",
            region_name="us-west-2",
            endpoint_url=server.address.endpoint_url,
            aws_access_key_id=server.address.access_key_id,
            aws_secret_access_key=server.address.secret_access_key,
        )
        batch.create_service_environment(
            serviceEnvironmentName="gpu",
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"maxCapacity": 2, "capacityUnit": TYPE}],
        )
        quotas = {"idleResourceAssignmentStrategy": "FIFO"}
        policy = batch.create_scheduling_policy(name="gpu", quotaSharePolicy=quotas)["arn"]
        order = [{"order": 1, "serviceEnvironment": "gpu"}]
        batch.create_job_queue(
            jobQueueName="gpu", priority=1, schedulingPolicyArn=policy, serviceEnvironmentOrder=order
        )
        for name, strategy in (("GUEST", "LEND_AND_BORROW"), ("OWNER", "LEND")):
            batch.create_quota_share(
                quotaShareName=name,
                jobQueue="gpu",
                capacityLimits=[{"maxCapacity": 1, "capacityUnit": TYPE}],
                resourceSharingConfiguration={"strategy": strategy},
                preemptionConfiguration={"inSharePreemption": "DISABLED"},
            )
        yield batch


def test_a_preempted_process_stops_and_runs_again_later(batch: Any, tmp_path: Path) -> None:
    def submit(name: str, share: str) -> str:
        text = SCRIPT.format(log=tmp_path / f"{name}.log", go=tmp_path / f"{name}.go")
        payload = {
            "TrainingJobName": name,
            "RoleArn": "arn:aws:iam::123456789012:role/MLTraining",
            "AlgorithmSpecification": {
                "TrainingImage": "any",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["/bin/bash", "-c"],
                "ContainerArguments": [text],
            },
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "ResourceConfig": {"InstanceType": TYPE, "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }
        request = {
            "jobName": name,
            "serviceJobType": "SAGEMAKER_TRAINING",
            "serviceRequestPayload": json.dumps(payload),
        }
        return str(batch.submit_service_job(jobQueue="gpu", quotaShareName=share, **request)["jobId"])

    def log(name: str) -> list[str]:
        path = tmp_path / f"{name}.log"
        return path.read_text().split() if path.exists() else []

    def status(job: str) -> str:
        return str(batch.describe_service_job(jobId=job)["status"])

    first = submit("first", "GUEST")
    wait_for(lambda: status(first) == "RUNNING")
    guest = submit("guest", "GUEST")  # the later to run goes first, however busy the machine
    wait_for(lambda: log("first") == log("guest") == ["start"])

    owner = submit("owner", "OWNER")
    wait_for(lambda: log("owner") == ["start"])
    assert log("guest") == ["start", "stop"], "its instance is free only when it has stopped"
    assert status(guest) == "RUNNABLE"
    summary = batch.describe_service_job(jobId=guest)["preemptionSummary"]
    assert summary["preemptedAttemptCount"] == 1

    (tmp_path / "owner.go").touch()
    wait_for(lambda: log("guest") == ["start", "stop", "start"])
    for name in ("first", "guest"):
        (tmp_path / f"{name}.go").touch()
    wait_for(lambda: {status(job) for job in (first, guest, owner)} == {"SUCCEEDED"})
    assert log("guest") == ["start", "stop", "start", "end"]
    assert len(batch.describe_service_job(jobId=guest)["attempts"]) == 1
