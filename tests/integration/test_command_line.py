"""The commands, one after the other, as a user types them: against the local AWS over HTTP and inside the process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from fairshare.cli.context import AppContext, Options
from fairshare.cli.main import run
from fairshare.local.inprocess import local_aws
from fairshare.local.server import LocalServer
from fairshare.scheduler.clock import VirtualClock

PROJECT = """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
queues:
  train:
    service_environment: pool
    fairshare:
      shares:
        HIGHPRI: {weight_factor: 1}
        LOWPRI: {weight_factor: 3}
  line: {service_environment: pool, fifo: true}
defaults:
  queue: train
  share: LOWPRI
  instance_type: ml.m5.large
  role: MLTraining
  image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1
"""
JOBS = """\
jobs:
  - name: digits
    source: {dir: src, entry: train.py}
    hyperparameters: {epochs: 3, amp: true, tag: "007"}
    environment: {FAIRSHARE_SIM_SECONDS: 1}
    sweep: {lr: [0.1, 0.01], seed: {range: [0, 2]}}
waves: {size: 2, interval: 1s}
"""

Fairshare = Callable[..., tuple[int, Any]]


@pytest.fixture
def project(write_project: Callable[[str, str], Path]) -> Path:
    """The project above; the working directory is in it."""
    return write_project(PROJECT, JOBS)


@pytest.fixture
def server(project: Path, fast_server: LocalServer) -> LocalServer:
    """A local AWS for the project."""
    return fast_server


@pytest.fixture
def fairshare(capsys: pytest.CaptureFixture[str]) -> Fairshare:
    """Run one command line with ``-o json``; returns its exit code and the one document on stdout."""

    def call(*argv: str, make_context: Callable[[Options], AppContext] | None = None) -> tuple[int, Any]:
        code = run([*argv, "-o", "json"], make_context)
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return call


@pytest.fixture
def local(fairshare: Fairshare, server: LocalServer) -> Fairshare:
    """The same with ``--local``."""
    return lambda *argv: fairshare(*argv, "--local")


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What boto3 needs before it lets moto answer."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def test_from_setup_to_teardown(local: Fairshare) -> None:
    code, plan = local("setup", "--yes")
    assert (code, plan["kind"], plan["applied"]) == (0, "Plan", True)
    made = [(change["action"], change["resource_type"], change["name"]) for change in plan["changes"]]
    assert made[:4] == [
        ("CREATE", "service_environment", "lab-pool"),
        ("CREATE", "scheduling_policy", "lab-train"),
        ("CREATE", "job_queue", "lab-train"),
        ("CREATE", "job_queue", "lab-line"),
    ]
    assert {(action, kind) for action, kind, _ in made[4:]} == {("CREATE", "alarm"), ("CREATE", "dashboard")}
    assert [(share["share_identifier"], share["percent"]) for share in plan["shares"]] == [
        ("HIGHPRI", 75.0),
        ("LOWPRI", 25.0),
    ]
    assert {change["action"] for change in local("setup", "--yes")[1]["changes"]} == {"NOOP"}

    code, sent = local("submit", "--share", "HIGHPRI", "--priority", "0", "--run-id", "first", "--wait")
    assert (code, sent["kind"], sent["run_id"]) == (0, "Run", "first")
    assert [(job["wave"], job["share_identifier"], job["scheduling_priority"]) for job in sent["jobs"]] == [
        (wave, "HIGHPRI", 0) for wave in (1, 1, 2, 2)
    ]
    assert {job["outcome"] for job in sent["jobs"]} == {"SUCCEEDED"}

    code, listed = local("queue", "--all")
    assert (code, listed["kind"]) == (0, "JobList")
    assert {job["job_id"] for job in listed["jobs"]} == {job["job_id"] for job in sent["jobs"]}
    assert {(job["status"], job["scheduling_priority"]) for job in listed["jobs"]} == {("SUCCEEDED", 0)}
    assert all(job["created_at"].endswith("Z") for job in listed["jobs"])

    code, waited = local("wait", "--run", "first")
    assert (code, len(waited["jobs"])) == (0, 4)
    code, gone = local("teardown", "--yes")
    assert (code, {change["action"] for change in gone["changes"]}) == (0, {"DELETE"})
    assert local("teardown", "--yes")[1]["changes"] == []


def test_jobs_can_be_cancelled_and_say_why(local: Fairshare) -> None:
    local("setup", "--yes")
    _, sent = local("submit", "src/train.py", "--env", "FAIRSHARE_SIM_SECONDS=100000", "--instance-count", "4")
    _, waiting = local("submit", "src/train.py", "--name", "second", "--env", "FAIRSHARE_SIM_SECONDS=100000")
    assert local("cancel", "second", "--yes", "--reason", "not needed")[0] == 0
    assert local("cancel", sent["jobs"][0]["job_id"], "--yes")[0] == 0
    code, waited = local("wait", waiting["jobs"][0]["job_id"], sent["jobs"][0]["job_id"], "--timeout", "60")
    assert code == 1
    assert [job["outcome"] for job in waited["jobs"]] == ["FAILED", "FAILED"]
    assert "not needed" in waited["jobs"][0]["status_reason"]
    assert local("job", "no-such-job")[0] == 4


def test_a_dry_run_writes_nothing(local: Fairshare, server: LocalServer) -> None:
    assert local("setup", "--dry-run")[1]["applied"] is False
    assert server.call_log.writes() == []
    local("setup", "--yes")
    server.call_log.clear()
    code, plan = local("submit", "--dry-run")
    assert (code, plan["kind"], len(plan["requests"])) == (0, "SubmitPlan", 4)
    assert [wave["jobs"] for wave in plan["waves"]] == [2, 2]
    assert {upload["s3_uri"].split("/")[2] for upload in plan["uploads"]} == {"sagemaker-us-east-1-123456789012"}
    assert server.call_log.writes() == []
    assert [call.operation for call in server.call_log.calls() if call.service == "s3"] == []


def test_the_same_file_gives_the_same_requests_over_http_and_inside_the_process(
    server: LocalServer, local: Fairshare, fairshare: Fairshare, inside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requests(client: Any, run: Any) -> list[dict[str, Any]]:
        described = [client.describe_service_job(jobId=job["job_id"]) for job in run["jobs"]]
        kept = (
            "jobName",
            "jobQueue",
            "serviceRequestPayload",
            "shareIdentifier",
            "schedulingPriority",
            "retryStrategy",
            "timeoutConfig",
            "tags",
        )
        return [{key: job[key] for key in kept} for job in described]

    local("setup", "--yes")
    address = server.address
    over_http = requests(
        boto3.client(
            "batch",
            region_name="us-east-1",
            endpoint_url=address.endpoint_url,
            aws_access_key_id=address.access_key_id,
            aws_secret_access_key=address.secret_access_key,
        ),
        local("submit", "--priority", "0", "--run-id", "same")[1],
    )
    server.stop()
    monkeypatch.setenv("FAIRSHARE_STATE_DIR", str(server.state_dir / "another"))
    with local_aws() as aws:
        fairshare("setup", "--yes")
        inside_process = requests(aws.client("batch"), fairshare("submit", "--priority", "0", "--run-id", "same")[1])
    assert over_http == inside_process
    assert [request["schedulingPriority"] for request in over_http] == [0, 0, 0, 0]
    payload = json.loads(over_http[0]["serviceRequestPayload"])
    assert payload["HyperParameters"] == {"epochs": "3", "amp": "true", "tag": "007", "lr": "0.1", "seed": "0"}


def test_jobs_made_in_the_same_second_have_different_names(project: Path, fairshare: Fairshare, inside: None) -> None:
    still = VirtualClock(1_796_061_600_000)

    class FrozenContext(AppContext):
        clock = still

    def frozen(options: Options) -> AppContext:
        return FrozenContext(
            options, {"FAIRSHARE_STATE_DIR": str(project / "state"), "AWS_REGION": "us-east-1"}, project
        )

    with local_aws(clock=still) as aws:
        fairshare("setup", "--yes", make_context=frozen)
        names = []
        for _ in range(2):
            _, sent = fairshare("submit", "src/train.py", make_context=frozen)
            detail = aws.client("batch").describe_service_job(jobId=sent["jobs"][0]["job_id"])
            names.append((detail["jobName"], json.loads(detail["serviceRequestPayload"])["TrainingJobName"]))
    (job_a, training_a), (job_b, training_b) = names
    assert job_a != job_b
    assert training_a != training_b


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("src/train.py", "--share", "HIGHPRIO"), 2, "did you mean HIGHPRI?"),
        (("src/train.py", "-q", "line", "--share", "HIGHPRI"), 2, "line"),
        (("src/train.py", "--instance-count", "5"), 5, "5 instances"),
        (("src/train.py", "--priority", "100"), 2, "between 0 and 99"),
        (("src/train.py", "--instance-type", "ml.p5.48xlarge"), 2, "ml.p5.48xlarge"),
        (("src/tain.py",), 4, "no script"),
        (("src/train.py", "--hp", "lr"), 2, "KEY=VALUE"),
    ],
)
def test_c08_c16_c17_what_cannot_work_is_refused_before_anything_is_sent(
    local: Fairshare, server: LocalServer, arguments: tuple[str, ...], code: int, message: str
) -> None:
    local("setup", "--yes")
    server.call_log.clear()
    result, error = local("submit", *arguments)
    assert result == code
    assert error["kind"] == "Error"
    assert message in json.dumps(error)
    assert server.call_log.writes() == []


def test_a_user_s_own_model_trainers_are_sent_as_they_are(project: Path, local: Fairshare, server: LocalServer) -> None:
    (project / "train_all.py").write_text(
        "from sagemaker.train import ModelTrainer\n"
        "from sagemaker.train.configs import Compute, SourceCode\n"
        "trainers = [\n"
        "    ModelTrainer(training_image='123456789012.dkr.ecr.us-east-1.amazonaws.com/x:1', role='MLTraining',\n"
        "        base_job_name=f'mine-{n}', compute=Compute(instance_type='ml.m5.large', instance_count=1),\n"
        "        source_code=SourceCode(source_dir='src', entry_script='train.py'), hyperparameters={'n': n},\n"
        "        environment={'FAIRSHARE_SIM_SECONDS': '1'})\n"
        "    for n in range(2)\n"
        "]\n"
    )
    local("setup", "--yes")
    code, sent = local("submit", "train_all.py:trainers", "--share", "HIGHPRI", "--wait")
    assert code == 0, sent
    assert [job["job_name"].rsplit("-", 1)[0] for job in sent["jobs"]] == ["mine-0", "mine-1"]
    assert {job["outcome"] for job in sent["jobs"]} == {"SUCCEEDED"}


def test_a_terminal_is_shown_a_progress_bar_and_stdout_stays_one_document(
    local: Fairshare, server: LocalServer
) -> None:
    local("setup", "--yes")
    ours, theirs = os.openpty()
    command = [
        sys.executable,
        "-m",
        "fairshare",
        "submit",
        "--run-id",
        "seen",
        "--interval",
        "0",
        "--local",
        "-o",
        "json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = bytearray()
    with contextlib.suppress(OSError):  # Linux says EIO when the other end is closed
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, shown.decode()
    assert "Wave 2 of 2" in shown.decode()
    assert "4 sent, 0 failed" in shown.decode()
    assert json.loads(out)["run_id"] == "seen"
