"""Case C46, for everything that ``submit`` and ``results`` write: a planted secret is in none of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.main import run
from fairshare.local.server import LocalServer

PROJECT = """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
  spare: {capacity: 1, instance_types: [ml.m5.large]}
queues:
  train: {service_environment: pool, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
  more: {service_environment: spare, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
defaults: {queue: train, share: HIGHPRI, instance_type: ml.m5.large, role: MLTraining}
"""
JOBS = """\
jobs:
  - name: first
    source: src/train.py
    queues: [train, more]
    environment: {HF_TOKEN: {from_env: HF_TOKEN}, FAIRSHARE_SIM_SECONDS: "1", URL: "https://me:pl4nted_2@host/x"}
    hyperparameters: {password: pl4nted_3, nested: {api_key: pl4nted_4}}
    sweep: {token: [pl4nted_5, pl4nted_6]}
  - {name: second, source: src/train.py, after: [{job: first, when: failed}]}
"""

Say = Callable[..., str]


@pytest.fixture
def say(
    write_project: Callable[[str, str], Path],
    fast_server: LocalServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Say:
    """Run a command on a local AWS that has the project's queues; returns all that it prints."""
    monkeypatch.setenv("HF_TOKEN", "hf_pl4nted_1")
    write_project(PROJECT, JOBS)
    assert run(["setup", "--yes", "--local"]) == 0
    capsys.readouterr()

    def call(*argv: str, code: int = 0) -> str:
        assert run([*argv, "--local"]) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.out + printed.err

    return call


def test_c46_no_output_of_a_run_shows_a_planted_secret(say: Say, tmp_path: Path) -> None:
    said = [
        say("submit", "--dry-run"),
        say("submit", "--dry-run", "-o", "yaml"),
        say("submit", "--run-id", "kept", "--wait", "--debug", "--notify", "cmd:cat"),
        say("runs", "show", "kept"),
        say("results", "kept"),
        say("results", "kept", "-o", "csv"),
        say("results", "kept", "-o", "json"),
        say("submit", "--export-triggers", "sh", code=2),
    ]

    said.append((tmp_path / "state" / "runs" / "kept.jsonl").read_text())
    assert "***" in said[0]
    assert [text for text in said if "pl4nted" in text] == []


def test_c46_a_raw_request_from_stdin_shows_no_planted_secret(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw_request: dict[str, Any]
) -> None:
    secret = raw_request | {
        "Environment": {"MY_SECRET": "pl4nted_7", "FAIRSHARE_SIM_SECONDS": "1"},
        "HyperParameters": {"url": "https://host/x?token=pl4nted_8"},
    }
    said = []
    for flags, request, code in [
        (("--dry-run",), secret, 0),
        (("--run-id", "raw"), secret, 0),
        (("--debug",), secret | {"StoppingCondition": {"MaxRuntimeInSeconds": "pl4nt"}}, 2),
    ]:
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))
        said.append(say("submit", "-", *flags, code=code))

    said.append((tmp_path / "state" / "runs" / "raw.jsonl").read_text())
    assert [text for text in said if "pl4nted" in text] == []
