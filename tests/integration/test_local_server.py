"""The local AWS as a server: who gets in, what it leaves behind, and time that passes by itself."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from fairshare.local.server import LocalAddress, LocalServer
from fairshare.local.simulated import SimulatedLauncher
from fairshare.model import FairshareError, UsageError
from fairshare.scheduler.clock import VirtualClock

OTHER_KEY = "AKIAZZZZZZZZZZZZZZZZ"


@pytest.fixture(scope="module")
def session() -> boto3.session.Session:
    """One for all tests: botocore's service models are read once."""
    return boto3.session.Session(region_name="us-east-1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(state_dir=tmp_path / "local", clock=VirtualClock(1_790_000_000_000)) as server:
        yield server


@pytest.fixture
def client(session: boto3.session.Session) -> Any:
    def make(address: LocalAddress, service: str, key: str | None = None) -> Any:
        return session.client(
            service,
            endpoint_url=address.endpoint_url,
            aws_access_key_id=key or address.access_key_id,
            aws_secret_access_key=address.secret_access_key,
            config=Config(retries={"total_max_attempts": 1}),
        )

    return make


def ask(address: LocalAddress, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str]:
    """Send a request by hand, as anybody on this machine can."""
    connection = http.client.HTTPConnection(urlsplit(address.endpoint_url).netloc, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def authorization(key: str) -> str:
    scope = f"{key}/20261130/us-east-1/batch/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"


def set_up(batch: Any, capacity: int = 1) -> None:
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": capacity, "capacityUnit": "NUM_INSTANCES"}],
    )
    batch.create_job_queue(
        jobQueueName="gpu", priority=1, serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}]
    )


def submit(batch: Any, seconds: float = 60) -> str:
    payload = {
        "TrainingJobName": "a",
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)},
    }
    request = {"jobName": "a", "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING"}
    return str(batch.submit_service_job(**request, serviceRequestPayload=json.dumps(payload))["jobId"])


# -- who gets in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", ["batch", "s3", "iam", "sts", "logs", "cloudwatch", "sagemaker", "events"])
def test_another_key_is_refused_in_words_that_boto3_reads(server, client, service):
    calls = {
        "batch": "describe_job_queues",
        "s3": "list_buckets",
        "iam": "list_roles",
        "sts": "get_caller_identity",
        "logs": "describe_log_groups",
        "cloudwatch": "list_metrics",
        "sagemaker": "list_training_jobs",
        "events": "list_rules",
    }
    with pytest.raises(ClientError) as refused:
        getattr(client(server.address, service, OTHER_KEY), calls[service])()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"
    assert "This is not the access key of the local AWS" in refused.value.response["Error"]["Message"]
    assert server.call_log.calls() == []


def test_a_presigned_url_of_another_key_is_refused(server, client):
    client(server.address, "s3").create_bucket(Bucket="bucket")
    for key, status in ((server.address.access_key_id, 404), (OTHER_KEY, 403)):
        s3 = client(server.address, "s3", key)
        url = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"}))
        assert ask(server.address, f"{url.path}?{url.query}")[0] == status


@pytest.mark.parametrize("path", ["/", "/moto-api/data.json", "/moto-api/fairshare/calls", "/latest/meta-data/"])
def test_an_unsigned_request_is_refused_whatever_it_asks(server, path):
    assert ask(server.address, path)[0] == 403
    assert ask(server.address, path, Authorization=authorization(OTHER_KEY))[0] == 403


def test_an_unsigned_reset_resets_nothing(server, client):
    set_up(client(server.address, "batch"))
    assert ask(server.address, "/moto-api/reset", "POST")[0] == 403
    assert len(client(server.address, "batch").describe_job_queues()["jobQueues"]) == 1


def test_another_host_and_an_origin_are_refused_even_with_the_right_key(server):
    signed = {"Authorization": authorization(server.address.access_key_id)}
    path = "/moto-api/fairshare/calls"
    port = urlsplit(server.address.endpoint_url).port
    assert ask(server.address, path, **signed)[0] == 200
    assert ask(server.address, path, Host=f"localhost:{port}", **signed)[0] == 200
    assert ask(server.address, path, Host=f"attacker.example:{port}", **signed)[0] == 403
    assert ask(server.address, path, Origin="http://127.0.0.1", **signed)[0] == 403
    assert ask(server.address, path, "OPTIONS", Origin="https://attacker.example")[0] == 403


def test_only_loopback_listens(server):
    assert urlsplit(server.address.endpoint_url).hostname == "127.0.0.1"


def test_each_start_has_a_key_of_its_own(tmp_path):
    addresses = []
    for _ in range(2):
        with LocalServer(state_dir=tmp_path) as server:
            addresses.append(server.address)
    assert addresses[0].access_key_id != addresses[1].access_key_id
    assert addresses[0].secret_access_key != addresses[1].secret_access_key
    assert addresses[0].secret_access_key not in repr(addresses[0])


# -- the ready file ---------------------------------------------------------------------------------------------------


def test_the_ready_file_is_for_its_owner_only_and_goes_at_the_end(tmp_path, client):
    ready_file = tmp_path / "elsewhere" / "ready.json"
    with LocalServer(state_dir=tmp_path / "local", ready_file=ready_file) as server:
        assert stat.S_IMODE(ready_file.stat().st_mode) == 0o600
        content = json.loads(ready_file.read_text())
        assert content == {
            "endpoint_url": server.address.endpoint_url,
            "access_key_id": server.address.access_key_id,
            "secret_access_key": server.address.secret_access_key,
            "pid": os.getpid(),
            "launcher": "simulated",
        }
        assert list(ready_file.parent.iterdir()) == [ready_file]
        address = LocalAddress(content["endpoint_url"], content["access_key_id"], content["secret_access_key"])
        assert client(address, "sts").get_caller_identity()["Account"] == "123456789012"
    assert not ready_file.exists()


def test_the_state_directory_is_for_its_owner_only(tmp_path):
    with LocalServer(state_dir=tmp_path / "local"):
        assert stat.S_IMODE((tmp_path / "local").stat().st_mode) == 0o700


def test_a_second_server_of_a_state_directory_is_refused_truthfully(tmp_path):
    script = (
        "import sys, threading, pathlib\n"
        "from fairshare.local.server import LocalServer\n"
        "with LocalServer(state_dir=pathlib.Path(sys.argv[1])):\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        ready = json.loads((tmp_path / "ready.json").read_text())
        with pytest.raises(UsageError) as refused:
            LocalServer(state_dir=tmp_path).start()
        assert refused.value.message == (
            f"A local AWS already uses {tmp_path}: process {other.pid} at {ready['endpoint_url']}"
        )
        assert json.loads((tmp_path / "ready.json").read_text()) == ready
        other.communicate("")
    with LocalServer(state_dir=tmp_path):
        pass


# -- start and stop ---------------------------------------------------------------------------------------------------


def test_a_stop_leaves_no_thread_and_frees_the_port(tmp_path, client):
    before = set(threading.enumerate())
    server = LocalServer(state_dir=tmp_path)
    address = server.start()
    port = urlsplit(address.endpoint_url).port
    set_up(client(address, "batch"))
    submit(client(address, "batch"))
    with socket.create_connection(("127.0.0.1", port)) as idle:  # a client that never says anything
        server.stop()
        idle.settimeout(10)
        with contextlib.suppress(ConnectionResetError):  # closed either way: politely, or with the request unread
            assert idle.recv(1) == b""
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with LocalServer(state_dir=tmp_path, port=port) as again:
        assert again.address.endpoint_url == address.endpoint_url


def test_start_and_stop_can_be_repeated(tmp_path):
    server = LocalServer(state_dir=tmp_path)
    server.stop()
    first = server.start()
    assert server.start() == first
    server.stop()
    server.stop()
    with pytest.raises(FairshareError, match=r"^The local AWS is not running$"):
        _ = server.address
    assert server.start() != first
    server.stop()


def test_a_port_in_use_is_refused_and_nothing_is_left(tmp_path):
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError) as refused:
            LocalServer(state_dir=tmp_path, port=port).start()
    assert refused.value.message == f"Cannot listen on port {port} of 127.0.0.1: Address already in use"
    assert refused.value.hint == "Choose another with `--port`; 0 takes any free one."
    assert set(threading.enumerate()) == before
    assert not (tmp_path / "ready.json").exists()
    with LocalServer(state_dir=tmp_path):
        pass


def test_a_process_has_one_local_aws(tmp_path):
    with (
        LocalServer(state_dir=tmp_path / "a"),
        pytest.raises(UsageError, match=r"^This process already has a local AWS"),
    ):
        LocalServer(state_dir=tmp_path / "b").start()
    assert not (tmp_path / "b" / "ready.json").exists()


def test_serve_forever_serves_until_it_is_told_to_stop(tmp_path):
    server, stop = LocalServer(state_dir=tmp_path), threading.Event()
    address = server.start()
    thread = threading.Thread(target=server.serve_forever, args=(stop,))
    thread.start()
    assert ask(address)[0] == 403
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert not (tmp_path / "ready.json").exists()


# -- what it does -----------------------------------------------------------------------------------------------------


def test_time_passes_without_calls(tmp_path, client, monkeypatch):
    """The second job starts because the driver saw that the first one ended, while nobody calls."""
    second_started = threading.Event()

    class Noticing(SimulatedLauncher):
        starts = 0

        def start(self, attempt: Any, at: int) -> None:
            super().start(attempt, at)
            self.starts += 1
            if self.starts == 2:
                second_started.set()

    monkeypatch.setattr("fairshare.local.server.SimulatedLauncher", Noticing)
    with LocalServer(state_dir=tmp_path, speed=36_000) as server:
        batch = client(server.address, "batch")
        set_up(batch)
        jobs = [submit(batch, seconds=seconds) for seconds in (36_000, 10**9)]
        assert second_started.wait(30)
        first, second = (batch.describe_service_job(jobId=job) for job in jobs)
        assert (first["status"], second["status"]) == ("SUCCEEDED", "RUNNING")
        assert first["stoppedAt"] - first["startedAt"] == 1000  # 36,000 s / 36,000, in milliseconds
        assert second["startedAt"] == first["stoppedAt"]


def test_regions_come_into_being_while_time_passes(tmp_path, session):
    """moto makes the backends of a region at its first call, under a lock of its own, while the driver is at work."""
    failures: list[BaseException] = []

    def use(batch: Any) -> None:
        try:
            set_up(batch, capacity=2)
            for _ in range(10):
                submit(batch, seconds=1)
        except BaseException as failure:
            failures.append(failure)

    regions = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1", "ap-south-1", "sa-east-1")
    with LocalServer(state_dir=tmp_path, speed=1000) as server:
        keys = {
            "endpoint_url": server.address.endpoint_url,
            "aws_access_key_id": server.address.access_key_id,
            "aws_secret_access_key": server.address.secret_access_key,
        }
        clients = [session.client("batch", region_name=region, **keys) for region in regions]
        threads = [threading.Thread(target=use, args=(batch,)) for batch in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not [thread for thread in threads if thread.is_alive()]
    assert failures == []


def test_the_call_log_can_be_read_over_http(server, client):
    client(server.address, "batch").describe_job_queues(jobQueues=["gpu"])
    signed = authorization(server.address.access_key_id)
    status, body = ask(server.address, "/moto-api/fairshare/calls", Authorization=signed)
    assert status == 200
    call = {"service": "batch", "operation": "DescribeJobQueues", "is_write": False, "params": {}}
    assert json.loads(body) == {"calls": [call]}


def test_a_reset_stops_jobs_and_keeps_the_role(server, client):
    batch = client(server.address, "batch")
    set_up(batch)
    job = submit(batch)
    signed = authorization(server.address.access_key_id)
    assert ask(server.address, "/moto-api/reset", "POST", Authorization=signed)[0] == 200
    assert batch.describe_job_queues()["jobQueues"] == []
    with pytest.raises(ClientError, match=f"Service job {job} not found"):
        batch.describe_service_job(jobId=job)
    assert client(server.address, "iam").get_role(RoleName="MLTraining")["Role"]["RoleName"] == "MLTraining"
    set_up(batch)


def test_a_fault_of_ours_is_answered_and_logged(server, client, monkeypatch, caplog):
    from fairshare.local import moto_responses

    def fails(region: Any, request: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(
        moto_responses.BatchServiceResponse, "describe_job_queues", lambda self: self.run(fails), raising=True
    )
    with pytest.raises(ClientError) as failed:
        client(server.address, "batch").describe_job_queues()
    assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert failed.value.response["Error"]["Message"] == (
        "The local AWS failed: ZeroDivisionError: a bug. This is a fault of it, not of the request."
    )
    assert "the local AWS failed at POST /v1/describejobqueues" in caplog.text
    assert client(server.address, "batch").list_scheduling_policies()["schedulingPolicies"] == []


def test_nothing_is_printed(tmp_path, client, capfd):
    with LocalServer(state_dir=tmp_path) as server:
        client(server.address, "batch").describe_job_queues()
        with pytest.raises(ClientError):
            client(server.address, "s3", OTHER_KEY).list_buckets()
    assert capfd.readouterr() == ("", "")
