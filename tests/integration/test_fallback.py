"""Jobs that may use several queues, as a user submits them: full queues are left, and a kill -9 changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.local.server import LocalServer
from fairshare.submit.journal import read_run

PROJECT = """\
version: 1
stack: lab
service_environments:
  p5: {capacity: 1, instance_types: [ml.p5.48xlarge]}
  p4: {capacity: 4, instance_types: [ml.p4d.24xlarge]}
queues:
  p5: {service_environment: p5, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
  p4: {service_environment: p4, fifo: true}
defaults: {share: HIGHPRI, role: MLTraining}
"""
LONG = """\
jobs:
  - {name: long, queue: p5, environment: {FAIRSHARE_SIM_SECONDS: 100000}, compute: {instance_type: ml.p5.48xlarge}}
"""
JOBS = """\
jobs:
  - name: digits
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 1}
    queues: [p5, p4]
    fallback_after: 1s
    sweep: {seed: {range: [0, 3]}}
"""

Fairshare = Callable[..., tuple[int, Any]]


@pytest.fixture
def fairshare(write_project: Callable[[str, str], Path], fast_server: LocalServer, on_local: Fairshare) -> Fairshare:
    """Run one command line; the queues are set up, and a long job fills the first."""
    folder = write_project(PROJECT, JOBS)
    (folder / "long.yaml").write_text(LONG)
    assert on_local("setup", "--yes")[0] == 0
    assert on_local("submit", "long.yaml", "--run-id", "long")[0] == 0
    return on_local


def queue_of(fairshare: Fairshare, queue: str) -> list[tuple[str, str]]:
    jobs = fairshare("queue", "-q", queue, "--all")[1]["jobs"]
    return sorted((job["job_name"].split("-", 2)[1], job["status"]) for job in jobs if "digits" in job["job_name"])


def check_all_ran_in_p4(fairshare: Fairshare, runs: Path) -> None:
    """Each job was ended in the full queue, then sent once to the other one, where it ran."""
    assert queue_of(fairshare, "p5") == [(f"seed{seed}", "FAILED") for seed in range(3)]
    assert fairshare("wait", "--run", "digits")[0] == 0
    assert queue_of(fairshare, "p4") == [(f"seed{seed}", "SUCCEEDED") for seed in range(3)]
    for job in read_run(runs / "digits.jsonl").jobs:
        assert (job.attempt, job.request.job_queue, job.request.share_identifier) == (2, "lab-p4", None)
        assert json.loads(job.request.payload)["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"


def test_jobs_leave_a_full_queue_for_the_next_one(fairshare: Fairshare, tmp_path: Path) -> None:
    code, sent = fairshare("submit", "--run-id", "digits")

    assert code == 0, sent["err"]
    assert len(sent["jobs"]) == 3
    check_all_ran_in_p4(fairshare, tmp_path / "state" / "runs")


def test_after_a_kill_resume_goes_on_with_the_moves(fairshare: Fairshare, tmp_path: Path) -> None:
    journal = tmp_path / "state" / "runs" / "digits.jsonl"
    command = [sys.executable, "-m", "fairshare", "submit", "--run-id", "digits", "--local"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as process:
        while not (journal.exists() and journal.read_bytes().count(b'"type":"outcome"') == 3):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert {job.attempt for job in read_run(journal).jobs} == {1}

    code, resumed = fairshare("resume", "digits")

    assert code == 0, resumed["err"]
    check_all_ran_in_p4(fairshare, journal.parent)
