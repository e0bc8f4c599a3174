"""A submission that is killed at every point goes on and makes every job once: real processes, real ``os._exit``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("crash_driver.py")
CRASHED = 17


def killed_at_every_point(*arguments: object) -> list[dict[str, Any]]:
    command = [sys.executable, str(DRIVER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    return outcomes


@pytest.mark.parametrize(("mode", "width"), [("return", 1), ("reject", 1), ("reject", 3)])
def test_c22_killed_before_and_after_each_write_and_each_call_every_job_runs_once(
    tmp_path: Path, mode: str, width: int
) -> None:
    outcomes = killed_at_every_point(tmp_path, mode, str(width), "flat")

    # One write begins the run; each job has an intent (shared by a batch), a call and an outcome: before and after.
    assert len(outcomes) == 2 + 5 * 6 if width == 1 else len(outcomes) >= 2 + 2 * 2 + 5 * 4
    for outcome in outcomes:
        assert outcome["codes"] == [CRASHED, 0], outcome
        assert outcome["names"] == [f"job-{index}" for index in range(5)], outcome
        assert outcome["states"] == ["sent"] * 5, outcome


def test_c22_killed_around_each_end_each_skip_and_each_move_every_job_runs_once(tmp_path: Path) -> None:
    outcomes = killed_at_every_point(tmp_path, "reject", 1, "linked")

    # Beside the header: five calls with intent and outcome, three ends that matter, one move, one skip.
    assert len(outcomes) == 2 * (1 + 5 * 3 + 3 + 1 + 1)
    for outcome in outcomes:
        assert outcome["codes"] == [CRASHED, 0], outcome
        assert outcome["names"] == ["job-0", "job-0-try2", "job-1", "job-2", "job-4"], outcome
        assert outcome["states"] == ["sent", "sent", "sent", "skipped", "sent"], outcome
