"""Simulations of what is there: they say in which order the jobs of a queue start, and then they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.paths import local_ready_file
from fairshare.local.server import LocalServer
from fairshare.scheduler.clock import SystemClock

Fairshare = Callable[..., tuple[int, Any]]
JOBS = """\
jobs:
  - name: a
    source: {dir: src, entry: train.py}
    share: LOWPRI
    environment: {FAIRSHARE_SIM_SECONDS: 400}
    sweep: {seed: {range: [0, 6]}}
  - name: b
    source: {dir: src, entry: train.py}
    share: HIGHPRI
    environment: {FAIRSHARE_SIM_SECONDS: 400}
    sweep: {seed: {range: [0, 4]}}
"""


class SkippingClock(SystemClock):
    """The machine's clock, and what was skipped."""

    skipped = 0

    def now(self) -> int:
        return super().now() + self.skipped


@pytest.fixture
def skipping(tmp_path: Path) -> Iterator[SkippingClock]:
    """The clock of a local AWS that ``--local`` finds: simulated runs take as long as they say, unless it skips."""
    clock = SkippingClock()
    ready = local_ready_file({"FAIRSHARE_STATE_DIR": str(tmp_path / "state")})
    with LocalServer(state_dir=tmp_path / "aws", ready_file=ready, clock=clock):
        yield clock


def test_the_order_of_a_queue_is_foretold(
    write_project: Callable[[str, str], Path], lab: str, skipping: SkippingClock, on_local: Fairshare
) -> None:
    write_project(lab, JOBS)
    assert on_local("setup", "--yes")[0] == 0
    assert on_local("submit", "jobs.yaml", "--run-id", "both")[0] == 0

    code, told = on_local(
        "simulate", "--from-queue", "train", "--policy", "fairshare.yaml", "--assume-runtime", "400s", "--starts"
    )
    assert code == 0, told
    (policy,) = told["policies"]
    assert policy["jobs"] == 10
    assert any("jobs run as long as assumed" in note for note in told["notes"])
    waiting = [start["job"] for start in policy["starts"] if start["submit_seconds"] > 0]

    line = [job for job in on_local("queue")[1]["jobs"] if job["position"] is not None]
    assert [job["job_name"] for job in sorted(line, key=lambda job: job["position"])] == waiting

    skipping.skipped = 3_600_000  # an hour: everything has run
    code, waited = on_local("wait", "--run", "both")
    assert code == 0
    started = {job["job_name"]: job["started_at"] for job in waited["jobs"]}
    assert [started[name] for name in waiting] == sorted(started[name] for name in waiting)
    code, again = on_local("simulate", "--from-run", "both", "--policy", "fifo", "--policy", "fairshare.yaml")
    assert code == 0, again
    assert [policy["jobs"] for policy in again["policies"]] == [10, 10]
    assert [policy["unfinished_jobs"] for policy in again["policies"]] == [0, 0]


def test_nothing_to_simulate_is_said(
    write_project: Callable[[str, str], Path], lab: str, fast_server: LocalServer, on_local: Fairshare
) -> None:
    write_project(lab, JOBS)
    assert on_local("setup", "--yes")[0] == 0
    code, refused = on_local("simulate", "--from-queue", "train")
    assert code == 2
    assert refused["error"]["message"] == "queue lab-train has no job that runs or waits"
    code, refused = on_local("simulate")
    assert "--from-queue QUEUE" in refused["error"]["hint"]
