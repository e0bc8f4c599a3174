"""``fairshare submit`` with absolute times, and its export as a script, against the local AWS."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairshare.cli.main import run
from fairshare.local.server import LocalServer

PROJECT = """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
queues:
  train: {service_environment: pool, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
defaults: {queue: train, share: HIGHPRI, instance_type: ml.m5.large}
"""
JOBS = """\
jobs:
  - name: digits
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 60}
    sweep: {lr: [0.1, 0.01, 0.001]}
waves: {size: 2, interval: 90s}
"""

WriteProject = Callable[[str, str], Path]


@pytest.fixture
def project(write_project: WriteProject, fast_server: LocalServer) -> Path:
    """The project above, set up in a local AWS."""
    folder = write_project(PROJECT, JOBS)
    assert run(["setup", "--yes", "--local"]) == 0
    fast_server.call_log.clear()
    return folder


def test_a_run_becomes_a_script_that_needs_no_fairshare(
    project: Path, fast_server: LocalServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    export = ["submit", "--local", "--run-id", "night", "--export-triggers", "sh", "--out", "night shift"]
    capsys.readouterr()
    assert run([*export, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    folder = project / "night shift"
    assert (answer["kind"], answer["script"], answer["jobs"]) == ("TriggerExport", str(folder / "submit.sh"), 3)
    assert answer["uploaded_objects"] > 0
    assert {call.service for call in fast_server.call_log.writes()} == {"s3"}
    assert oct((folder / "submit.sh").stat().st_mode)[-3:] == "700"
    requests = sorted(folder.glob("requests/*.json"))
    assert {oct(path.stat().st_mode)[-3:] for path in requests} == {"600"}
    sent = [json.loads(path.read_text()) for path in requests]
    assert {request["serviceJobType"] for request in sent} == {"SAGEMAKER_TRAINING"}
    assert [request["shareIdentifier"] for request in sent] == ["HIGHPRI"] * 3

    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, text in {
        "date": "echo 1000",
        "sleep": "exit 0",
        "aws": f'echo "$AWS_ENDPOINT_URL_BATCH $*" >>"{tmp_path}/calls"',
    }.items():
        (bin_folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_folder / name).chmod(0o700)
    script = (folder / "submit.sh").read_text()
    assert "fairshare" not in script.replace("Written by fairshare, which is not needed here.", "")
    (folder / "submit.sh").write_text(script.replace(" 90 0 0", " 0 0 0"))
    environment = {"PATH": f"{bin_folder}:{os.defpath}"}
    done = subprocess.run(
        ["/bin/sh", folder / "submit.sh"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("all 3 jobs are sent\n")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [line.split()[-1] for line in calls] == [f"file://requests/{path.name}" for path in requests]
    assert {line.split()[0] for line in calls} == {fast_server.start().endpoint_url}

    assert run(export) == 2
    assert f"{folder} is not an empty folder" in capsys.readouterr().err


def test_a_run_with_secrets_is_not_exported_and_leaves_nothing_behind(
    project: Path, fast_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--export-triggers", "bat", "--out", "out", "--env", "HF_TOKEN=planted"]
    assert run(["submit", "--local", *flags]) == 2
    captured = capsys.readouterr()
    assert "HF_TOKEN is secret, and would stand in a file" in captured.err
    assert "planted" not in captured.out + captured.err
    assert not (project / "out").exists()
    assert fast_server.call_log.writes() == []


def test_a_dry_run_shows_the_timetable_the_uploads_and_the_masked_requests(
    project: Path, fast_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    day = (datetime.now(UTC) + timedelta(days=2)).date()
    times = ["--start-at", f"{day} 05:59 UTC", "--window", "20:00-06:00 UTC"]
    capsys.readouterr()
    assert run(["submit", "--local", "--dry-run", *times, "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [wave["starts_at"] for wave in plan["waves"]] == [f"{day}T05:59:00.000Z", f"{day}T20:00:00.000Z"]
    assert run(["submit", "--local", "--dry-run", "--env", "HF_TOKEN=planted", *times]) == 0
    text = capsys.readouterr().out
    assert "planted" not in text
    assert '"HF_TOKEN": "***"' in text
    assert "source train.py" in text
    assert text.count("lab-train  HIGHPRI") == 3
    assert f"{day} 05:59:00 +0000   2" in text
    assert "Waves start only in the window 20:00-06:00 UTC" in text
    assert f"Prediction: all done by {day} 20:01 +0000" in text
    assert text.endswith("Nothing was written or sent.\n")
    assert fast_server.call_log.writes() == []


def test_the_next_run_of_the_same_jobs_is_predicted_from_the_last(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job_file = project / "jobs.yaml"
    job_file.write_text(JOBS.replace("FAIRSHARE_SIM_SECONDS: 60", "MODE: fast").replace("90s", "0s"))
    assert run(["submit", "--local", "--dry-run"]) == 0
    assert (
        "the finish is not known, since no run times are; max_runtime ends a job after 1 d" in capsys.readouterr().out
    )
    assert run(["submit", "--local", "--run-id", "yesterday", "--wait"]) == 0
    capsys.readouterr()
    assert run(["submit", "--local", "--dry-run"]) == 0
    assert "(run times: measured in run yesterday; 4 instances, nobody else in the queue)" in capsys.readouterr().out
