"""A process launcher against a moto server on loopback, and jobs that are a few lines of Python."""

from __future__ import annotations

import io
import os
import socket
import sys
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from fairshare.local.endpoint import LocalEndpoint
from fairshare.local.launcher import Attempt, Report
from fairshare.local.processes.attempt_run import OWNER_MARK
from fairshare.local.processes.launcher import ProcessLauncher
from fairshare.local.processes.tree import marked_processes
from fairshare.scheduler.clock import SystemClock

REGION = "us-west-2"
BUCKET = "training-data"
TIMEOUT_SECONDS = 60
SHOWN = ["pid", "ppid", "status", "cmdline"]


class Rendezvous:
    """A place where a test and a training script meet: the script connects when it has come to a certain point."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TIMEOUT_SECONDS)
        self.port = str(self._listener.getsockname()[1])

    def wait(self) -> str:
        """Return what the script sent when it connected."""
        connection, _ = self._listener.accept()
        with connection:
            return connection.recv(1000).decode()

    def close(self) -> None:
        self._listener.close()


class Bench:
    """What a test needs: a launcher, its S3 and Logs, and the reports that came."""

    def __init__(self, endpoint: LocalEndpoint, directory: Path, **options: Any) -> None:
        self.endpoint = endpoint
        self.s3 = endpoint.client("s3", REGION)
        self.jobs_dir = directory
        self.reports: list[Report] = []
        self._news = threading.Event()
        self._options = options
        self._launcher: ProcessLauncher | None = None

    @property
    def launcher(self) -> ProcessLauncher:
        if self._launcher is None:
            self._launcher = self.make_launcher()
        return self._launcher

    def make_launcher(self) -> ProcessLauncher:
        options = {"environ": dict(os.environ), "stop_grace_seconds": 60, **self._options}
        return ProcessLauncher(
            endpoint_url=self.endpoint.url,
            access_key_id=self.endpoint.access_key_id,
            secret_access_key=self.endpoint.secret_access_key,
            jobs_dir=self.jobs_dir,
            python=Path(sys.executable),
            notify=self._news.set,
            clock=SystemClock(),
            **options,
        )

    def configure(self, **options: Any) -> None:
        """Set arguments of the launcher, before its first use."""
        self._options.update(options)

    def put(self, key: str, body: str | bytes) -> str:
        """Store an object; return its URI."""
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        return f"s3://{BUCKET}/{key}"

    def get(self, uri: str) -> bytes:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        body: bytes = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def unpack(self, uri: str) -> dict[str, str]:
        """Contents of a gzipped tar in S3."""
        with tarfile.open(fileobj=io.BytesIO(self.get(uri)), mode="r:gz") as tar:
            return {
                member.name: file.read().decode() for member in tar.getmembers() if (file := tar.extractfile(member))
            }

    def stored(self, prefix: str = "") -> list[str]:
        return [item["Key"] for item in self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())]

    def request(self, script: str, **fields: Any) -> dict[str, Any]:
        """A CreateTrainingJob request that runs ``script`` (Python) without the SDK's drivers."""
        uri = self.put(f"code/{uuid.uuid4().hex}/train.py", script).rpartition("/")[0]
        return {
            "AlgorithmSpecification": {
                "TrainingImage": "image",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["/bin/bash", "-c"],
                "ContainerArguments": ["cd /opt/ml/input/data/code && exec python3 train.py"],
            },
            "RoleArn": "arn:aws:iam::123456789012:role/Training",
            "InputDataConfig": [channel("code", uri)],
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/output"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            **fields,
        }

    def start(self, request: Mapping[str, Any], name: str | None = None) -> Attempt:
        job_id = str(uuid.uuid4())
        name = name or f"AWSBatchtest{uuid.uuid4().hex}"
        attempt = Attempt(job_id, 1, name, request, REGION, "123456789012")
        self.launcher.start(attempt, at=1)
        return attempt

    def stop(self, attempt: Attempt) -> None:
        self.launcher.stop(attempt.job_id, attempt.number)

    def end(self, attempt: Attempt) -> Report:
        """Wait for the last report of an attempt."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            for report in self.of(attempt):
                if report.status.is_terminal:
                    return report
            news = self._news.wait(deadline - time.monotonic())
            assert news, f"only {self.of(attempt)}; alive: {[process.as_dict(SHOWN) for process in self.processes()]}"
            self._news.clear()

    def run(self, request: Mapping[str, Any], name: str | None = None) -> Report:
        return self.end(self.start(request, name))

    def of(self, attempt: Attempt) -> list[Report]:
        """Reports of an attempt so far."""
        self.reports += self.launcher.poll(0)
        return [report for report in self.reports if report.job_id == attempt.job_id]

    def log(self, attempt: Attempt) -> list[str]:
        """Lines that CloudWatch Logs has of an attempt."""
        group = "/aws/sagemaker/TrainingJobs"
        logs = self.endpoint.client("logs", REGION)
        streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{attempt.training_job_name}/")
        (stream,) = [entry["logStreamName"] for entry in streams["logStreams"]]
        events = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True, limit=10_000)
        return [event["message"] for event in events["events"]]

    def processes(self) -> list[psutil.Process]:
        """Processes that carry this launcher's mark."""
        return list(marked_processes(OWNER_MARK, str(self.jobs_dir.resolve())))

    def close(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
        assert self.processes() == []


def channel(name: str, uri: str, **source: Any) -> dict[str, Any]:
    """One entry of InputDataConfig."""
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri, **source}},
        "InputMode": "File",
    }


@pytest.fixture(name="channel")
def channel_fixture() -> Any:
    return channel


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bench(moto_url: str, tmp_path: Path) -> Iterator[Bench]:
    endpoint = LocalEndpoint(moto_url, "AKIALOCAL", "local-secret")
    endpoint.client("s3", REGION).create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    bench = Bench(endpoint, tmp_path / "jobs")
    yield bench
    bench.close()
    empty(bench)
    endpoint.close()


def empty(bench: Bench) -> None:
    for key in bench.stored():
        bench.s3.delete_object(Bucket=BUCKET, Key=key)
    bench.s3.delete_bucket(Bucket=BUCKET)


@pytest.fixture
def rendezvous() -> Iterator[Rendezvous]:
    place = Rendezvous()
    yield place
    place.close()
