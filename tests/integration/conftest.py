"""What several tests of whole commands start from: a project directory, and a local AWS that ``--local`` finds.

Also what tests with real processes need: a server that can be killed, patience, and a training request of a script.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from fairshare.cli.main import run
from fairshare.config.paths import local_ready_file
from fairshare.local.server import LocalServer

Request = dict[str, Any]
WriteProject = Callable[[str, str], Path]
Fairshare = Callable[..., tuple[int, Any]]
REGION = "us-west-2"
"""Of the servers below."""
PATIENCE = 1_500
"""Looks, 20 ms apart."""


@pytest.fixture
def write_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteProject:
    """Make a directory with a project file, a job file and a script, and change to it."""

    def write(project: str, jobs: str) -> Path:
        folder = tmp_path / "project"
        (folder / "src").mkdir(parents=True)
        (folder / "fairshare.yaml").write_text(project)
        (folder / "jobs.yaml").write_text(jobs)
        (folder / "src" / "train.py").write_text("print('hello')\n")
        monkeypatch.chdir(folder)
        return folder

    return write


@pytest.fixture
def lab() -> str:
    """A project file with one fair-share queue of two shares on four instances."""
    return """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
queues:
  train:
    service_environment: pool
    fairshare: {shares: {HIGHPRI: {weight_factor: 1}, LOWPRI: {weight_factor: 3}}}
defaults: {queue: train, share: LOWPRI, instance_type: ml.m5.large, role: MLTraining}
"""


@pytest.fixture
def on_local(capsys: pytest.CaptureFixture[str]) -> Fairshare:
    """Run one command line with ``--local -o json``; returns its exit code, and its document with "err", its stderr."""

    def call(*argv: str) -> tuple[int, Any]:
        code = run([*argv, "--local", "-o", "json"])
        out, err = capsys.readouterr()
        return code, {"err": err} | (json.loads(out) if out else {})

    return call


@pytest.fixture
def fast_server(tmp_path: Path) -> Iterator[LocalServer]:
    """A local AWS that ``--local`` finds, with simulated runs a hundred times as fast."""
    ready = local_ready_file({"FAIRSHARE_STATE_DIR": str(tmp_path / "state")})
    with LocalServer(state_dir=tmp_path / "aws", ready_file=ready, speed=100) as server:
        yield server


@pytest.fixture
def raw_request() -> Request:
    """A CreateTrainingJob request that runs for a second where run times are simulated."""
    return {
        "TrainingJobName": "raw",
        "RoleArn": "arn:aws:iam::123456789012:role/MLTraining",
        "AlgorithmSpecification": {
            "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1",
            "TrainingInputMode": "File",
        },
        "OutputDataConfig": {"S3OutputPath": "s3://sagemaker-us-east-1-123456789012/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "Environment": {"FAIRSHARE_SIM_SECONDS": "1"},
    }


@pytest.fixture
def script_request() -> Callable[..., Request]:
    """Make a CreateTrainingJob request that runs a bash script on one instance."""

    def make(name: str, text: str, instance_type: str = "ml.g5.xlarge") -> Request:
        return {
            "TrainingJobName": name,
            "RoleArn": "arn:aws:iam::123456789012:role/MLTraining",
            "AlgorithmSpecification": {
                "TrainingImage": "any",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["/bin/bash", "-c"],
                "ContainerArguments": [text],
            },
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "ResourceConfig": {"InstanceType": instance_type, "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }

    return make


def _wait_for(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE):
        if is_so():
            return
        pause.wait(0.02)
    raise AssertionError("it did not happen in time")


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Wait until something is so, half a minute at most."""
    return _wait_for


class Server:
    """``fairshare local start --foreground`` on one state directory, killed and started again."""

    def __init__(self, folder: Path, session: boto3.session.Session, *arguments: str) -> None:
        self._ready = folder / "ready.json"
        self._session = session
        self._command = [sys.executable, "-m", "fairshare", "local", "start", "--foreground", *arguments]
        self._command += ["--state-dir", str(folder / "local"), "--ready-file", str(self._ready)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._ready.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE)
        _wait_for(lambda: self._ready.exists() or self._process is None or self._process.poll() is not None)
        if self._process.poll() is not None:
            assert self._process.stderr is not None
            raise AssertionError(self._process.stderr.read().decode())

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None

    def client(self, service: str) -> Any:
        ready = json.loads(self._ready.read_text())
        return self._session.client(
            service,
            endpoint_url=ready["endpoint_url"],
            aws_access_key_id=ready["access_key_id"],
            aws_secret_access_key=ready["secret_access_key"],
            config=Config(retries={"total_max_attempts": 1}, max_pool_connections=16),
        )


@pytest.fixture(scope="module")
def session() -> boto3.session.Session:
    return boto3.session.Session(region_name=REGION)


@pytest.fixture
def make_server(tmp_path: Path, session: boto3.session.Session) -> Iterator[Callable[..., Server]]:
    """Make a server with arguments of ``fairshare local start``; whatever is made is killed in the end."""
    servers: list[Server] = []

    def make(*arguments: str) -> Server:
        servers.append(Server(tmp_path, session, *arguments))
        return servers[-1]

    yield make
    for server in servers:
        server.kill()
