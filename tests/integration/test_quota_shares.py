"""A queue with quota shares as a team uses it: set up, submitted to, looked at; lent instances come back."""

from __future__ import annotations

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
  sweep: {capacity_limits: {ml.m5.large: 3}}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.m5.large: 1}, sharing: LEND_AND_BORROW, borrow_limit: 200}
      TEAMB: {capacity_limits: {ml.m5.large: 1}, sharing: LEND}
      TEAMC: {capacity_limits: {ml.m5.large: 1}, sharing: RESERVE}
prices: {ml.m5.large: 1.0}
defaults: {queue: sweep, quota_share: TEAMA, instance_type: ml.m5.large, role: MLTraining}
"""
JOBS = """\
jobs:
  - name: long
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 3000}
    sweep: {seed: {range: [0, 3]}}
"""
Fairshare = Callable[..., tuple[int, Any]]


@pytest.fixture
def fairshare(write_project: Callable[[str, str], Path], fast_server: LocalServer, on_local: Fairshare) -> Fairshare:
    """Run one command line; the queue is set up, and TEAMA has sent three long jobs."""
    write_project(PROJECT, JOBS)
    assert on_local("setup", "--yes")[0] == 0
    assert on_local("submit", "jobs.yaml", "--run-id", "a", "--preemption-retries", "5")[0] == 0
    return on_local


def owner(fairshare: Fairshare) -> dict[str, Any]:
    code, sent = fairshare(
        "submit", "src/train.py", "--quota-share", "TEAMB", "--env", "FAIRSHARE_SIM_SECONDS=3000", "--run-id", "b"
    )
    assert code == 0, sent
    return dict(sent["jobs"][0])


def shares(fairshare: Fairshare) -> dict[str, tuple[int, int, int, str]]:
    table = fairshare("shares")[1]
    assert table["kind"] == "QuotaShareList"
    return {
        row["quota_share"]: (row["held"], row["borrowed"], row["runnable"], row["standing"])
        for row in table["quota_shares"]
    }


def test_what_is_lent_is_borrowed_and_comes_back(fairshare: Fairshare) -> None:
    assert shares(fairshare) == {
        "TEAMA": (2, 1, 1, "borrows 1: preempted when their owners need them"),
        "TEAMB": (0, 0, 0, "lends up to 1"),
        "TEAMC": (0, 0, 0, "keeps 1 idle for itself"),
    }
    sent = owner(fairshare)
    assert (sent["quota_share"], sent["share_identifier"]) == ("TEAMB", None)
    assert shares(fairshare)["TEAMA"] == (1, 0, 2, "uses all it owns")
    assert shares(fairshare)["TEAMB"] == (1, 0, 0, "uses all it owns")

    jobs = fairshare("queue")[1]["jobs"]
    assert {job["quota_share"] for job in jobs} == {"TEAMA", "TEAMB"}
    details = [fairshare("job", job["job_id"])[1] for job in jobs if job["quota_share"] == "TEAMA"]
    (preempted,) = [detail for detail in details if detail["preemptions"]]
    assert (preempted["status"], preempted["preemptions"], preempted["attempts"]) == ("RUNNABLE", 1, [])
    (attempt,) = preempted["preempted_attempts"]
    assert attempt["status_reason"] == "Cross-share preemption triggered to reclaim borrowed capacity"

    code, waited = fairshare("wait", "--run", "a", "--timeout", "0")
    assert code == 8
    for found in (waited, fairshare("results", "a")[1]):
        told = {job["job_id"]: (job["preemptions"], job["preemption_reason"]) for job in found["jobs"]}
        assert told.pop(preempted["job_id"]) == (1, attempt["status_reason"])
        assert set(told.values()) == {(0, None)}

    code, cost = fairshare("cost", "a")
    assert code == 0, cost
    (bill,) = [job for job in cost["jobs"] if job["job_id"] == preempted["job_id"]]
    assert (bill["attempts"], bill["share_identifier"]) == (1, "TEAMA")
    assert bill["preempted_amount"] == bill["amount"]


def test_a_person_is_told_of_the_preemption(fairshare: Fairshare, capsys: pytest.CaptureFixture[str]) -> None:
    owner(fairshare)
    waiting = [job for job in fairshare("queue")[1]["jobs"] if job["status"] == "RUNNABLE"]
    texts = []
    for job in waiting:
        assert run(["job", job["job_id"], "--local"]) == 0
        texts.append(capsys.readouterr().out)
    (told,) = [text for text in texts if "preempted" in text]
    assert "1 time" in told
    assert "lately: Cross-share preemption triggered to reclaim borrowed capacity" in told
    assert "TEAMA, priority 0" in told

    assert run(["shares", "--local"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "QUOTA SHARE OWNS HOLDS MOST RUNNABLE OLDEST STANDING"
    assert lines[3].startswith("TEAMC 1 0 1 0 - keeps 1 idle")
    assert "2 of 3 ml.m5.large in use." in lines


def test_what_no_quota_share_allows_is_refused_before_anything_is_sent(fairshare: Fairshare) -> None:
    code, refused = fairshare("submit", "jobs.yaml", "--quota-share", "TEAMB", "--instance-count", "2")
    assert code == 5
    assert "quota share TEAMB owns 1 ml.m5.large: it could never start" in refused["error"]["message"]
    code, refused = fairshare("submit", "jobs.yaml", "--quota-share", "TEAMD")
    assert code == 2
    assert 'unknown quota share "TEAMD" in queue sweep' in refused["error"]["message"]
    assert len(fairshare("queue", "--all")[1]["jobs"]) == 3
