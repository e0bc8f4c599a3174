"""`fairshare.LocalAWS`, the public test kit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fairshare
from fairshare import LocalAWS
from fairshare.model import UsageError
from fairshare.scheduler.clock import VirtualClock


def set_up(batch: Any) -> None:
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
    )
    batch.create_job_queue(
        jobQueueName="gpu", priority=1, serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}]
    )


def submit(batch: Any, seconds: float = 60) -> str:
    payload = {
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)},
    }
    request = {"jobName": "a", "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING"}
    return str(batch.submit_service_job(**request, serviceRequestPayload=json.dumps(payload))["jobId"])


def test_time_stands_still_until_it_is_moved():
    with LocalAWS() as aws:
        batch = aws.client("batch")
        set_up(batch)
        job = submit(batch, seconds=90.5)
        aws.advance(90.4)
        assert batch.describe_service_job(jobId=job)["status"] == "RUNNING"
        aws.advance(0.1)
        ended = batch.describe_service_job(jobId=job)
        assert (ended["status"], ended["stoppedAt"]) == ("SUCCEEDED", 1_767_225_600_000 + 90_500)


def test_speed_divides_run_times_in_either_mode():
    for mode in ("in_process", "server"):
        with LocalAWS(mode, speed=60, clock=VirtualClock(0)) as aws:
            batch = aws.client("batch")
            set_up(batch)
            job = submit(batch, seconds=60)
            aws.advance(1)
            assert batch.describe_service_job(jobId=job)["status"] == "SUCCEEDED"


def test_each_block_begins_from_empty():
    for _ in range(2):
        with LocalAWS() as aws:
            assert aws.client("batch").describe_job_queues()["jobQueues"] == []
            set_up(aws.client("batch"))
            assert [call.operation for call in aws.calls if call.is_write] == [
                "CreateServiceEnvironment",
                "CreateJobQueue",
            ]


def test_a_server_keeps_a_state_directory_and_loses_its_own(tmp_path: Path):
    for _ in range(2):
        with LocalAWS("server", state_dir=tmp_path, clock=VirtualClock(0)) as aws:
            if not aws.client("batch").describe_job_queues()["jobQueues"]:
                set_up(aws.client("batch"))
    assert (tmp_path / "calls.jsonl").exists()
    with LocalAWS("server") as aws:
        assert aws.client("batch").describe_job_queues()["jobQueues"] == []


def test_the_environment_leads_any_client_to_the_server_and_to_no_account(monkeypatch, tmp_path):
    import boto3

    with LocalAWS("server", region="eu-west-1") as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        session = boto3.session.Session()
        assert session.client("sts").get_caller_identity()["Account"] == "123456789012"
        assert session.client("batch").meta.region_name == "eu-west-1"
        assert session.client("batch").meta.endpoint_url == aws.endpoint_url == os.environ["AWS_ENDPOINT_URL"]
        assert aws.client("s3").meta.region_name == "eu-west-1"
        assert aws.client("s3", "us-west-2").meta.region_name == "us-west-2"


def test_in_process_there_is_no_address():
    with LocalAWS() as aws:
        assert "AWS_ENDPOINT_URL" not in aws.environment()
        with pytest.raises(UsageError, match="This local AWS has no address") as refused:
            _ = aws.endpoint_url
        assert refused.value.hint == 'Enter LocalAWS("server") to get one.'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"launcher": "process"}, "The process launcher needs a server: its jobs are processes that call it"),
        ({"state_dir": Path("x")}, "An in-process AWS keeps nothing"),
        ({"faults": "eror=1"}, 'faults "eror=1": there is no fault "eror"'),
        ({"metrics_period": 2}, "the period of metrics is 2 s"),
    ],
)
def test_a_choice_that_cannot_be_is_a_clear_error(options, message):
    with pytest.raises(UsageError, match=message):
        LocalAWS(**options)


def test_outside_the_block_it_is_not_running():
    aws = LocalAWS()
    for use in (lambda: aws.calls, lambda: aws.client("s3"), aws.environment, lambda: aws.faults(error=1)):
        with pytest.raises(UsageError, match="This local AWS is not running"):
            use()
    with aws:
        assert aws.calls == []
    with pytest.raises(UsageError, match="This local AWS is not running"):
        _ = aws.calls


def test_the_machine_s_time_cannot_be_moved():
    with pytest.raises(UsageError, match="The time of this local AWS is the machine's and cannot be advanced"):
        LocalAWS("server").advance(1)


def test_public_names():
    assert fairshare.__all__ == ["LocalAWS", "__version__"]
    assert [getattr(fairshare, name) for name in fairshare.__all__] == [LocalAWS, "0.1.0"]
    with pytest.raises(AttributeError, match="module 'fairshare' has no attribute 'Nothing'"):
        _ = fairshare.Nothing


def test_neither_the_package_nor_the_plugin_nor_the_kit_loads_anything_heavy():
    code = (
        "import sys, fairshare, fairshare.pytest_plugin\n"
        "fairshare.LocalAWS()\n"
        "heavy = {'boto3', 'botocore', 'moto', 'sagemaker', 'werkzeug', 'psutil', 'rich', 'typer'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
