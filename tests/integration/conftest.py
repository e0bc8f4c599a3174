"""What several tests of whole commands start from: a project directory, and a local AWS that ``--local`` finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.main import run
from fairshare.config.paths import local_ready_file
from fairshare.local.server import LocalServer

Request = dict[str, Any]
WriteProject = Callable[[str, str], Path]
Fairshare = Callable[..., tuple[int, Any]]


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
