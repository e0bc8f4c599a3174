"""The server with the process launcher: a job runs from SubmitServiceJob to its artefact in S3, and nothing is left."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest

from fairshare.local.server import LocalServer

LOG_GROUP = "/aws/sagemaker/TrainingJobs"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(state_dir=tmp_path / "local", launcher="process") as server:
        yield server


@pytest.fixture
def client(server: LocalServer) -> Any:
    session = boto3.session.Session(
        aws_access_key_id=server.address.access_key_id,
        aws_secret_access_key=server.address.secret_access_key,
        region_name="us-west-2",
    )
    return lambda service: session.client(service, endpoint_url=server.address.endpoint_url)


@pytest.fixture
def submit(client: Any, script_request: Callable[..., dict[str, Any]]) -> Callable[[str, str], str]:
    """Submit a job that runs a bash script, on the queue ``gpu`` with room for one."""
    batch = client("batch")
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
    )
    batch.create_job_queue(
        jobQueueName="gpu", priority=1, serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}]
    )

    def send(name: str, script: str) -> str:
        request = {"jobName": name, "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING"}
        payload = json.dumps(script_request(name, script))
        return str(batch.submit_service_job(**request, serviceRequestPayload=payload)["jobId"])

    return send


def until(batch: Any, job: str, *statuses: str) -> dict[str, Any]:
    """Ask again and again, for half a minute."""
    pause = threading.Event()
    for _ in range(1500):
        described: dict[str, Any] = batch.describe_service_job(jobId=job)
        if described["status"] in statuses:
            return described
        pause.wait(0.02)
    raise AssertionError(f"job {job} is {described['status']}: {described.get('statusReason')}")


def test_a_job_runs_and_its_model_is_in_s3(client, submit):
    batch, s3 = client("batch"), client("s3")
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    job = submit("digits", "echo epoch 1; echo weights > /opt/ml/model/weights.txt")
    described = until(batch, job, "SUCCEEDED", "FAILED")
    assert (described["status"], described["statusReason"]) == (
        "SUCCEEDED",
        "Received status from SageMaker: Training job completed",
    )
    name = described["latestAttempt"]["serviceResourceId"]["value"].rsplit("/", 1)[-1]
    training_job = client("sagemaker").describe_training_job(TrainingJobName=name)
    phases = [phase["Status"] for phase in training_job["SecondaryStatusTransitions"]]
    assert phases == ["Pending", "Downloading", "Training", "Uploading", "Completed"]
    uri = training_job["ModelArtifacts"]["S3ModelArtifacts"]
    assert uri == f"s3://bucket/out/{name}/output/model.tar.gz"
    body = s3.get_object(Bucket="bucket", Key=uri.removeprefix("s3://bucket/"))["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        file = archive.extractfile("weights.txt")
        assert file is not None
        assert file.read() == b"weights\n"
    events = client("logs").filter_log_events(logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/")["events"]
    assert "epoch 1" in [event["message"] for event in events]


def test_a_failure_gives_its_room_to_the_next_job(client, submit):
    batch = client("batch")
    client("s3").create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    failing, following = submit("bad", "exit 3"), submit("good", "true")
    described = until(batch, failing, "SUCCEEDED", "FAILED")
    assert described["status"] == "FAILED"
    assert described["statusReason"].startswith("Received status from SageMaker: AlgorithmError: ")
    assert "exit code: 3" in described["statusReason"]
    assert until(batch, following, "SUCCEEDED", "FAILED")["status"] == "SUCCEEDED"


def test_terminate_stops_the_processes(client, submit):
    batch = client("batch")
    job = submit("long", "sleep 600")
    until(batch, job, "RUNNING")
    batch.terminate_service_job(jobId=job, reason="enough")
    described = until(batch, job, "FAILED")
    assert described["statusReason"] == "enough"


def test_a_stop_of_the_server_ends_what_runs_and_starts_nothing_new(tmp_path, server, client, submit):
    batch = client("batch")
    running, waiting = submit("long", "sleep 600"), submit("next", "sleep 600")
    until(batch, running, "RUNNING")
    assert batch.describe_service_job(jobId=waiting)["status"] == "RUNNABLE"
    before = {thread.name for thread in threading.enumerate() if thread.name.startswith("attempt-")}
    assert len(before) == 1
    server.stop()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith(("attempt-", "fairshare-local"))]
    assert not psutil.Process().children(recursive=True)
