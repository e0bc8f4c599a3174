"""Alarms tried out on a Monday that has not come yet: no AWS is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.main import run

PROJECT = """\
version: 1
stack: lab
region: us-west-2
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
queues:
  train:
    service_environment: pool
    fairshare:
      share_decay_seconds: 86400
      shares: {HIGHPRI: {weight_factor: 1}, LOWPRI: {weight_factor: 3}, QUIET: {weight_factor: 9}}
"""
MONDAY = """\
duration: 1d
streams:
  HIGHPRI: {arrivals: {fixed: {every: 1h}}, run_time: 1h, size: 3}
  LOWPRI: {arrivals: {bursts: {every: 1d, jobs: 40}}, run_time: 2h}
"""


@pytest.fixture
def monday(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The project, and a simulation of its Monday in ``monday.json``; runs a command line and returns its document."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "fairshare.yaml").write_text(PROJECT)
    (tmp_path / "monday.yaml").write_text(MONDAY)
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, Any]:
        code = run([*argv, "-o", "json"])
        return code, json.loads(capsys.readouterr().out)

    for policies in (("fairshare.yaml",), ("fifo", "fairshare.yaml")):
        flags = [word for policy in policies for word in ("--policy", policy)]
        code, document = call("simulate", "monday.yaml", *flags, "--starts")
        assert code == 0
        (tmp_path / f"monday{len(policies)}.json").write_text(json.dumps(document))
    return call


def test_alarms_of_the_project_over_a_simulation(monday: Any) -> None:
    code, found = monday("alarms", "backtest", "--simulation", "monday1.json")
    assert code == 0
    alarms = {alarm["name"]: alarm for alarm in found["alarms"]}
    waits = next(alarm for name, alarm in alarms.items() if "oldest-wait" in name and name.endswith("LOWPRI"))
    assert waits["would_have_fired"], "forty jobs of two hours on what is left of four instances"
    quiet = next(alarm for name, alarm in alarms.items() if "oldest-wait" in name and name.endswith("QUIET"))
    assert quiet["would_have_fired"] == [], "a share without jobs waits for nothing"
    silent = next(alarm for name, alarm in alarms.items() if "silent" in name)
    assert silent["would_have_fired"] == []

    code, changed = monday("alarms", "backtest", "--simulation", "monday1.json", "--set", "threshold=1000d")
    assert code == 0
    again = next(alarm for alarm in changed["alarms"] if alarm["name"] == waits["name"])
    assert again["would_have_fired"] == []
    assert again["as_defined"] == waits["would_have_fired"]


def test_one_policy_of_several_is_named(monday: Any) -> None:
    code, refused = monday("alarms", "backtest", "--simulation", "monday2.json")
    assert code == 2
    assert refused["error"]["message"] == "the simulation has several policies: fifo, fairshare"
    assert monday("alarms", "backtest", "--simulation", "monday2.json", "--policy", "fairshare")[0] == 0
    code, refused = monday("alarms", "backtest", "--simulation", "fairshare.yaml")
    assert code == 2
    assert "fairshare.yaml is no simulation" in refused["error"]["message"]
    code, refused = monday("alarms", "backtest", "--policy", "fifo")
    assert refused["error"]["message"] == "--policy is of a simulation"
