"""Raw requests, stdin, arrays and sweeps of the command line, through the whole command against the local AWS."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.main import run
from fairshare.local.server import LocalServer
from fairshare.model import ThrottledError

PROJECT = """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
queues:
  train: {service_environment: pool, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
defaults: {share: HIGHPRI, instance_type: ml.m5.large, role: MLTraining}
tags: {team: search}
"""

Submit = Callable[..., tuple[int, Any]]


@pytest.fixture
def project(write_project: Callable[[str, str], Path]) -> Path:
    return write_project(PROJECT, "jobs: [{name: unused}]\n")


@pytest.fixture
def submit(project: Path, fast_server: LocalServer, capsys: pytest.CaptureFixture[str]) -> Submit:
    """Run ``submit`` on a local AWS that has the project's queue; returns exit code and document."""
    assert run(["setup", "--yes", "--local"]) == 0
    capsys.readouterr()

    def call(*argv: str) -> tuple[int, Any]:
        code = run(["submit", *argv, "--local", "-o", "json"])
        return code, json.loads(capsys.readouterr().out)

    return call


def test_a_raw_request_is_swept_and_runs(submit: Submit, project: Path, raw_request: dict[str, Any]) -> None:
    (project / "raw.json").write_text(json.dumps({**raw_request, "Tags": [{"Key": "kind", "Value": "raw"}]}))

    code, sent = submit("--payload", "raw.json", "--sweep", "lr=0.1,0.01", "--wait")

    assert code == 0, sent
    assert [job["job_name"].rsplit("-", 1)[0] for job in sent["jobs"]] == ["raw-lr0-1", "raw-lr0-01"]
    assert {job["outcome"] for job in sent["jobs"]} == {"SUCCEEDED"}


def test_a_raw_request_is_sent_as_it_is_written(submit: Submit, project: Path, raw_request: dict[str, Any]) -> None:
    (project / "raw.json").write_text(json.dumps(raw_request))

    code, plan = submit("raw.json", "--dry-run", "--priority", "7")

    (request,) = plan["requests"]
    sent = request["payload"]
    assert code == 0
    assert {key: value for key, value in sent.items() if key != "TrainingJobName"} == {
        key: value for key, value in raw_request.items() if key != "TrainingJobName"
    }
    assert (request["scheduling_priority"], request["tags"]["team"], plan["uploads"]) == (7, "search", [])


def test_a_wrong_raw_request_is_refused_with_all_that_is_wrong(
    submit: Submit, project: Path, raw_request: dict[str, Any]
) -> None:
    wrong = {
        **raw_request,
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 9},
        "HyperParameters": {"n": 1},
    }
    (project / "raw.jsonl").write_text(json.dumps(raw_request) + "\n" + json.dumps(wrong) + "\n")

    code, error = submit("raw.jsonl")

    problems = [(problem["line"], problem["message"]) for problem in error["error"]["problems"]]
    assert code == 2
    assert problems == [
        (2, 'job "raw": hyperparameter n must be text, not int'),
        (2, 'job "raw": it needs 9 instances at once and queue train has 4: it could never start'),
    ]


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "stopped waiting: 1 submitted (run waits), and the jobs go on"),
        (ThrottledError("no answer"), 7, "no answer: 1 submitted (run waits), and the jobs go on"),
    ],
)
def test_c23_what_ends_waiting_says_that_the_jobs_go_on(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, end: BaseException, code: int, message: str
) -> None:
    def wait_for_jobs(*arguments: object, **more: object) -> None:
        raise end

    monkeypatch.setattr("fairshare.insight.wait.wait_for_jobs", wait_for_jobs)

    got, error = submit("src/train.py", "--run-id", "waits", "--wait")

    assert (got, error["error"]["message"]) == (code, message)
    assert "`fairshare wait --run waits --local` waits again" in error["error"]["hint"]


def test_a_quota_of_the_account_that_is_too_small_is_a_warning(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairshare.cli.quotas.training_quotas", lambda context: {"ml.m5.large": 0})

    code, plan = submit("src/train.py", "--dry-run")

    assert code == 0
    assert [warning for warning in plan["warnings"] if "quota" in warning] == [
        'command line: warning: job "train": it needs 1 ml.m5.large and the account\'s quota for training jobs is 0: '
        "SageMaker would refuse it (ResourceLimitExceeded)"
    ]


def test_an_unknown_queue_of_a_job_file_is_told_with_everything_else(submit: Submit, project: Path) -> None:
    (project / "jobs.yaml").write_text("jobs:\n- {name: a, source: src/gone.py, queues: [train, nirvana], share: X}\n")

    code, error = submit("jobs.yaml")

    problems = [(problem["column"], problem["message"]) for problem in error["error"]["problems"]]
    assert code == 2
    assert problems == [
        (21, 'job "a": entry file "gone.py" is not in ' + str(project / "src")),
        (50, 'job "a": unknown queue "nirvana"'),
        (67, 'job "a": unknown share "X" in queue train: AWS would give it weight 1'),
    ]
    code, error = submit("jobs.yaml", "--queue", "train,nirvana")
    assert (code, error["error"]["message"]) == (4, "there is no job queue nirvana")
    assert "`fairshare setup --local`" in error["error"]["hint"]


def test_a_job_file_from_stdin_with_dependencies_and_an_array(
    submit: Submit, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "jobs: [{name: prepare, source: src/train.py, array: 2}, {name: eval, source: src/train.py, after: prepare}]"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))

    code, plan = submit("-", "--dry-run", "--env", "FAIRSHARE_SIM_SECONDS=1")

    assert code == 0, plan
    assert [request["job_name"].rsplit("-", 1)[0] for request in plan["requests"]] == ["prepare-0", "prepare-1", "eval"]
    assert plan["prediction"]["basis"] == "FAIRSHARE_SIM_SECONDS"
    assert plan["prediction"]["finish_at"] > plan["waves"][0]["starts_at"]


def test_a_cycle_is_refused_by_name(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "jobs:\n- {name: a, source: src/train.py, after: b}\n- {name: b, source: src/train.py, after: a}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))

    code, error = submit("-", "--dry-run")

    assert code == 2
    errors = [problem["message"] for problem in error["error"]["problems"] if problem["severity"] == "error"]
    assert errors == ['job "a": it comes after itself: a -> b -> a']
