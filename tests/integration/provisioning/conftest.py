"""A project that tests rewrite, a local AWS inside the process, and the command line on both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.context import AppContext, Options
from fairshare.cli.main import run
from fairshare.config.project import Project, parse_project
from fairshare.local.inprocess import InProcessAws, local_aws
from fairshare.scheduler.clock import VirtualClock

NOW = 1_796_061_600_000
"""2026-11-30T18:00:00Z."""


def _text(
    *,
    capacity: int = 4,
    priority: int = 1,
    low: str = "3",
    tags: str = "{team: search}",
    queues: str | None = None,
    alarms: str = "{enabled: false}",
) -> str:
    """``fairshare.yaml`` of stack lab: an environment, a fair-share queue, a FIFO queue, and the alarms given."""
    queues = queues or (
        "  train:\n"
        "    service_environment: pool\n"
        f"    priority: {priority}\n"
        f"    fairshare: {{shares: {{HIGHPRI: {{weight_factor: 0.1}}, LOWPRI: {{weight_factor: {low}}}}}}}\n"
        f"  line: {{service_environment: pool, fifo: true, priority: {priority}}}\n"
    )
    return (
        "version: 1\nstack: lab\n"
        f"service_environments:\n  pool: {{capacity: {capacity}, instance_types: [ml.m5.large]}}\n"
        f"queues:\n{queues}tags: {tags}\nalarms: {alarms}\n"
        "defaults: {instance_type: ml.m5.large, role: MLTraining, image: python:local}\n"
    )


def _read_stack(batch: Any) -> dict[str, Any]:
    (environment,) = batch.describe_service_environments(serviceEnvironments=["lab-pool"])["serviceEnvironments"]
    queues = batch.describe_job_queues(jobQueues=["lab-train", "lab-line"])["jobQueues"]
    arn = f"{environment['serviceEnvironmentArn'].rsplit(':', 1)[0]}:scheduling-policy/lab-train"
    (policy,) = batch.describe_scheduling_policies(arns=[arn])["schedulingPolicies"]
    weights = {e["shareIdentifier"]: e["weightFactor"] for e in policy["fairsharePolicy"]["shareDistribution"]}
    (priority,) = {queue["priority"] for queue in queues}
    assert len(queues) == 2
    return {
        "capacity": environment["capacityLimits"][0]["maxCapacity"],
        "priority": priority,
        "low": f"{weights['LOWPRI']:g}",
    }


@dataclass
class ProjectFolder:
    """The directory of a project; the working directory is in it."""

    path: Path

    def write(self, **changes: Any) -> Project:
        """Write ``fairshare.yaml`` and return what it says."""
        text = _text(**changes)
        (self.path / "fairshare.yaml").write_text(text)
        return parse_project(text, self.path / "fairshare.yaml")


@dataclass
class CommandLine:
    """Runs command lines. ``document`` is what was printed last as JSON, ``out`` and ``err`` the texts."""

    capsys: pytest.CaptureFixture[str]
    document: Any = None
    out: str = ""
    err: str = ""

    def __call__(self, *argv: str, make_context: Callable[[Options], AppContext] | None = None) -> int:
        """Run with ``-o json`` and return the exit code."""
        code = self.text(*argv, "-o", "json", make_context=make_context)
        self.document = json.loads(self.out) if self.out else None
        return code

    def text(self, *argv: str, make_context: Callable[[Options], AppContext] | None = None) -> int:
        """Run as for people and return the exit code."""
        code = run(argv, make_context)
        self.out, self.err = self.capsys.readouterr()
        return code

    @property
    def error(self) -> str:
        """Message of the error that was printed last as JSON."""
        return str(self.document["error"]["message"])

    @property
    def hint(self) -> str:
        """Its hint."""
        return str(self.document["error"]["hint"])

    @property
    def actions(self) -> list[str]:
        """Actions of the plan that was printed last as JSON."""
        return [change["action"] for change in self.document["changes"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """The project, written with its defaults."""
    path = tmp_path / "project"
    (path / ".git").mkdir(parents=True)
    monkeypatch.chdir(path)
    folder = ProjectFolder(path)
    folder.write()
    return folder


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessAws]:
    """The local AWS inside this process, on a clock that stands still, and what boto3 needs to use it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with local_aws(clock=VirtualClock(NOW)) as aws:
        yield aws


@pytest.fixture
def fairshare(folder: ProjectFolder, aws: InProcessAws, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line, in the project's directory, against the local AWS."""
    return CommandLine(capsys)


@pytest.fixture
def batch(aws: InProcessAws) -> Any:
    """A boto3 client, as somebody else would use it."""
    return aws.client("batch")


@pytest.fixture
def read_stack() -> Callable[[Any], dict[str, Any]]:
    """Read stack lab with a client, in the terms of `ProjectFolder.write`: capacity, priority, low."""
    return _read_stack


@pytest.fixture
def stack_now(batch: Any) -> Callable[[], dict[str, Any]]:
    """Read stack lab in the local AWS inside this process."""
    return lambda: _read_stack(batch)
