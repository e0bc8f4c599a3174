"""Jobs that come after others and a limit of jobs in flight, as a user asks for them, on the local AWS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.local.server import LocalServer

PIPELINE = """\
jobs:
  - {name: report, source: {dir: src, entry: train.py}, after: [train]}
  - name: train
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 20}
    sweep: {seed: {range: [0, 3]}}
    after: [prepare]
  - {name: cleanup, source: {dir: src, entry: train.py}, after: [{job: train, when: failed}]}
  - name: prepare
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 30}
"""
SWEEP = """\
jobs:
  - name: digits
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 20}
    sweep: {seed: {range: [0, 10]}}
"""

Fairshare = Callable[..., tuple[int, Any]]


@pytest.fixture
def fairshare(
    write_project: Callable[[str, str], Path], lab: str, fast_server: LocalServer, on_local: Fairshare
) -> Fairshare:
    """Run one command line; the queue is set up."""
    write_project(lab, PIPELINE)
    Path("sweep.yaml").write_text(SWEEP)
    assert on_local("setup", "--yes")[0] == 0
    return on_local


def label(job_name: str) -> str:
    return job_name.rsplit("-", 1)[0]


def spans(fairshare: Fairshare) -> dict[str, tuple[str, str | None]]:
    """When each job was created and when it ended, in the order of their creation."""
    jobs = sorted(fairshare("queue", "--all")[1]["jobs"], key=lambda job: job["created_at"])
    return {label(job["job_name"]): (job["created_at"], job["stopped_at"]) for job in jobs}


def test_a_pipeline_runs_in_its_order(fairshare: Fairshare) -> None:
    code, answer = fairshare("submit", "--run-id", "pipe", "--wait")

    assert code == 0, answer["err"]
    times = spans(fairshare)
    sweep = [f"train-seed{seed}" for seed in range(3)]
    assert sorted(times) == ["prepare", "report", *sweep]
    ends = {name: end or "" for name, (_, end) in times.items()}
    assert ends["prepare"] <= min(times[name][0] for name in sweep)
    assert max(ends[name] for name in sweep) <= times["report"][0]
    assert [(label(job["job_name"]), job["reason"]) for job in answer["skipped"]] == [
        ("cleanup", "nothing before it failed")
    ]
    (listed,) = fairshare("runs")[1]["runs"]
    assert (listed["total"], listed["submitted"], listed["skipped"], listed["failed"]) == (6, 5, 1, 0)


def test_a_failure_skips_what_comes_after_with_its_reason(fairshare: Fairshare) -> None:
    Path("jobs.yaml").write_text(PIPELINE.replace("SECONDS: 30", "SECONDS: 30, FAIRSHARE_SIM_EXIT_CODE: 1"))

    code, answer = fairshare("submit", "--run-id", "pipe")

    assert code == 3
    assert "2 submitted, 4 skipped" in answer["err"]
    assert {label(job["job_name"]) for job in answer["skipped"]} == {
        *(f"train-seed{seed}" for seed in range(3)),
        "report",
    }
    shown = {label(job["job_name"]): job for job in fairshare("runs", "show", "pipe")[1]["jobs"]}
    assert (shown["prepare"]["state"], shown["cleanup"]["state"]) == ("failed", "sent")
    assert (shown["train-seed0"]["state"], shown["train-seed0"]["error"]) == (
        "skipped",
        f"{shown['prepare']['job_name']} failed",
    )


def test_never_more_in_flight_than_asked_for(fairshare: Fairshare) -> None:
    code, answer = fairshare("submit", "sweep.yaml", "--max-in-flight", "3", "--wait")

    assert code == 0, answer["err"]
    times = list(spans(fairshare).values())
    assert len(times) == 10
    for begin, _ in times:
        assert sum(first <= begin < (end or "") for first, end in times) <= 3
