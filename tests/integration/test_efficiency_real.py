"""``examples/diagnosis`` as its page says: real scripts, measured while they run, and told apart by that alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairshare.cli.main import run
from fairshare.config.paths import local_ready_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "diagnosis"
RIGHT = {
    "cpu-bound": ["cpu-bound"],
    "idle": ["idle"],
    "memory-grows": ["memory-growth"],
    "slow-input": ["input-waits-cpu"],
}


def page_commands() -> list[list[str]]:
    (block,) = re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    return [shlex.split(line)[1:] for line in block.splitlines()]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copytree(EXAMPLE, tmp_path / "diagnosis")
    monkeypatch.chdir(tmp_path / "diagnosis")
    yield
    if local_ready_file(os.environ).exists():
        start_or_stop("stop")


def start_or_stop(*words: str) -> int:
    """Run ``fairshare local ...`` as a process: the server outlives it, which is no concern of this one."""
    command = [sys.executable, "-m", "fairshare", "local", *words]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode


def test_four_scripts_get_four_diagnoses_from_what_was_measured(
    project: None, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {}
    for words in page_commands():
        code = start_or_stop(*words[1:]) if words[0] == "local" else run(words)
        assert code == 0, f"{words}: {capsys.readouterr().err}"
        shown[" ".join(words)] = capsys.readouterr().out
        if words == ["submit", "--local", "--wait"]:
            assert run(["efficiency", "--local", "--share", "RESEARCH", "--since", "10m", "-o", "json"]) == 0
            document = json.loads(capsys.readouterr().out)

    jobs = {job["job_name"].rpartition("-")[0]: job for job in document["jobs"]}
    assert {name: [one["id"] for one in job["diagnoses"]] for name, job in jobs.items()} == RIGHT
    assert all(job["cpu_points"] >= 5 and job["memory_points"] >= 5 for job in jobs.values()), "11 on an idle machine"
    assert jobs["cpu-bound"]["cpu_mean_percent"] > jobs["slow-input"]["cpu_mean_percent"]
    assert jobs["slow-input"]["cpu_mean_percent"] > jobs["idle"]["cpu_mean_percent"]
    table = shown["efficiency --local"].splitlines()
    for name, (diagnosis,) in RIGHT.items():
        (row,) = [line for line in table if line.startswith(f"{name}-")]
        assert row.endswith(f"  {diagnosis}")
    assert "Diagnosis input-waits-cpu: the script waits for data" in shown["efficiency slow-input --local"]
    assert "CPUUtilization" in shown["metrics slow-input --local"]
    assert "cpu use" in shown["compare idle cpu-bound --local"]
