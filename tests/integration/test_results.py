"""``results``, ``submit --only-failed`` and ``--notify`` against a local AWS."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from fairshare.config.paths import local_ready_file
from fairshare.local.server import LocalServer

PROJECT = """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
queues:
  train:
    service_environment: pool
    fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}
defaults: {queue: train, share: HIGHPRI, instance_type: ml.m5.large, role: MLTraining}
"""
JOBS = """\
jobs:
  - name: good
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 1, FAIRSHARE_SIM_METRICS: '{"accuracy": 0.75}'}
    sweep: {seed: {range: [0, 3]}}
  - name: bad
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 1, FAIRSHARE_SIM_EXIT_CODE: 3}
    sweep: {seed: [7, 8]}
"""
ONE_JOB = """\
jobs:
  - name: real
    source: {dir: src, entry: train.py}
    metrics: {accuracy: 'accuracy ([0-9.]+)'}
    hyperparameters: {seed: 1}
"""
SCRIPT = """\
import os, pathlib
print("accuracy 0.25")
print("accuracy 0.75")
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text("weights")
"""

Fairshare = Callable[..., tuple[int, Any]]


@pytest.fixture
def project(write_project: Callable[[str, str], Path]) -> Path:
    return write_project(PROJECT, JOBS)


@pytest.fixture
def process_server(tmp_path: Path) -> Iterator[LocalServer]:
    """A local AWS that runs scripts."""
    ready = local_ready_file({"FAIRSHARE_STATE_DIR": str(tmp_path / "state")})
    with LocalServer(state_dir=tmp_path / "aws", ready_file=ready, launcher="process") as server:
        yield server


def statuses(document: Any) -> dict[str, str]:
    return {job["job_name"].rsplit("-", 1)[0]: job["status"] for job in document["jobs"]}


def test_c29_results_are_kept_and_what_failed_is_sent_again(
    project: Path, fast_server: LocalServer, on_local: Fairshare
) -> None:
    on_local("setup", "--yes")
    (project / "tell.py").write_text("import sys; open('told.json', 'w').write(sys.stdin.read())")
    tell = f"cmd:{shlex.quote(sys.executable)} tell.py"

    code, sent = on_local("submit", "--run-id", "first", "--wait", "--notify", tell)

    assert (code, len(sent["jobs"])) == (3, 5)
    told = json.loads((project / "told.json").read_text())
    assert (told["event"], told["run_id"], told["counts"]["failed"], len(told["failed"])) == ("ended", "first", 2, 2)

    code, found = on_local("results", "first", "--sort", "accuracy")
    assert (code, found["kind"], found["parameters"], found["metrics"]) == (0, "Results", ["seed"], ["accuracy"])
    good, bad = found["jobs"][0], found["jobs"][-1]
    assert (good["metrics"], good["attempts"], good["reason"]) == ({"accuracy": 0.75}, 1, good["reason"])
    assert isinstance(good["training_seconds"], int)
    assert (bad["status"], bad["metrics"]) == ("FAILED", {"accuracy": None})
    assert "exit code: 3" in bad["reason"]

    code, again = on_local("submit", "--run-id", "second", "--only-failed")
    assert code == 0
    assert [job["job_name"].rsplit("-", 1)[0] for job in again["jobs"]] == ["bad-seed7", "bad-seed8"]
    assert "2 of 5 jobs of run first failed, were refused or never sent" in again["err"]
    assert on_local("wait", "--run", "second")[0] == 1

    (project / "jobs.yaml").write_text(JOBS.replace("[7, 8]", "[8]"))
    code, third = on_local("submit", "--run-id", "third", "--only-failed", "--run", "first", "--dry-run")
    assert (code, len(third["requests"])) == (0, 1)
    assert "warning: 1 job of them not found any more: bad-seed7" in third["err"]

    fast_server.stop()
    code, kept = on_local("results", "first", "--sort", "accuracy")
    assert (code, kept) == (0, found)
    code, kept = on_local("results", "second")
    assert (code, statuses(kept)) == (0, {"bad-seed7": "FAILED", "bad-seed8": "FAILED"})
    assert "warning: shown is what this machine knows of the run: No local AWS is running" in kept["err"]


@pytest.mark.usefixtures("fast_server")
def test_nothing_failed(project: Path, on_local: Fairshare) -> None:
    (project / "jobs.yaml").write_text(JOBS[: JOBS.index("  - name: bad")])
    on_local("setup", "--yes")
    on_local("submit", "--wait")

    code, nothing = on_local("submit", "--only-failed")

    assert (code, nothing["kind"], nothing["jobs"]) == (0, "Run", [])
    assert nothing["err"].endswith("Nothing was sent\n")
    assert on_local("submit", "--run", "x")[1]["error"]["message"] == "--run is for --only-failed"


def test_metrics_and_model_of_a_script(project: Path, process_server: LocalServer, on_local: Fairshare) -> None:
    (project / "jobs.yaml").write_text(ONE_JOB)
    (project / "src" / "train.py").write_text(SCRIPT)
    on_local("setup", "--yes")
    assert on_local("submit", "--run-id", "real", "--wait")[0] == 0

    code, found = on_local("results", "real", "--get", "models")

    (job,) = found["jobs"]
    assert (code, job["metrics"], found["parameters"]) == (0, {"accuracy": 0.75}, [])
    assert job["model_artifacts"].endswith("/output/model.tar.gz")
    assert Path(job["directory"]) == project / "models" / job["job_name"]
    assert (Path(job["directory"]) / "model.txt").read_text() == "weights"


@pytest.mark.usefixtures("project")
def test_a_topic_of_the_local_aws(fast_server: LocalServer, on_local: Fairshare) -> None:
    on_local("setup", "--yes")
    address = fast_server.address
    keys = {"aws_access_key_id": address.access_key_id, "aws_secret_access_key": address.secret_access_key}
    where: dict[str, Any] = {"endpoint_url": address.endpoint_url, "region_name": "us-east-1", **keys}
    topic = boto3.client("sns", **where).create_topic(Name="training")["TopicArn"]
    queue = boto3.client("sqs", **where)
    url = queue.create_queue(QueueName="inbox")["QueueUrl"]
    arn = queue.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    boto3.client("sns", **where).subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    code, sent = on_local("submit", "--run-id", "first", "--notify", f"sns:{topic}")

    assert (code, "not notified" in sent["err"]) == (0, False)
    (message,) = queue.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"])["Subject"] == "fairshare: run first sent: 5 submitted"
