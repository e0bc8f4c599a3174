"""Fakes that a command line runs against: AWS Batch, its resources, logs, and a clock that does not wait."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.context import AppContext, Options
from fairshare.cli.main import run
from fairshare.cli.output import Output, OutputFormat
from fairshare.model import (
    IN_USE_STATUSES,
    CapacityLimit,
    FairsharePolicy,
    FrontOfQueueJob,
    JobDetail,
    JobQueue,
    JobSummary,
    QueueSnapshot,
    SchedulingPolicy,
    ServiceEnvironment,
    ShareAttributes,
)
from fairshare.provision.observed import Observed
from fairshare.scheduler.clock import VirtualClock

NOW = 1_796_061_600_000
"""2026-11-30T18:00:00Z."""

ARN = "arn:aws:batch:eu-west-1:111122223333:"

PROJECT = """\
version: 1
stack: search
region: eu-west-1
service_environments:
  gpu: {capacity: 16, instance_types: [ml.g6.12xlarge]}
queues:
  gpu:
    service_environment: gpu
    fairshare:
      shares:
        HIGHPRI: {weight_factor: 1}
        MIDPRI: {weight_factor: 3}
        LOWPRI: {weight_factor: 5}
"""


def make_job(number: int, **changes: Any) -> JobDetail:
    """Job ``train-<number>``: RUNNABLE, share HIGHPRI, priority 80, one instance, created ``number`` minutes ago."""
    job_id = f"{number:08x}-0000-4000-8000-000000000000"
    job = JobDetail(
        job_id=job_id,
        job_arn=f"{ARN}service-job/{job_id}",
        job_name=f"train-{number}",
        status="RUNNABLE",
        created_at=NOW - number * 60_000,
        share_identifier="HIGHPRI",
        scheduling_priority=80,
        instances=1,
        job_queue=f"{ARN}job-queue/search-gpu",
        payload={"ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 1}},
    )
    return replace(job, **changes)


class FakeBatch:
    """Service jobs by id. ListServiceJobs does not carry the priority, so listings do not either."""

    def __init__(self, jobs: Iterable[JobDetail] = ()) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.terminated: list[tuple[str, str]] = []
        self.on_terminate: Callable[[str], None] = lambda job_id: None
        self.listed: list[str] = []

    def list(self, queue: str, statuses: Any = None) -> list[JobSummary]:
        self.listed.append(queue)
        names = [field.name for field in fields(JobSummary)]
        found = [job for job in self.jobs.values() if statuses is None or job.status in statuses]
        known = [{name: getattr(job, name) for name in names} for job in found]
        return [JobSummary(**values | {"scheduling_priority": None}) for values in known]

    def walk(self, queue: str, created_before: int | None = None) -> Iterator[list[JobSummary]]:
        found = [job for job in self.list(queue) if created_before is None or job.created_at < created_before]
        found.sort(key=lambda job: -job.created_at)
        for first in range(0, len(found) or 1, 100):
            yield found[first : first + 100]

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        return {job_id: self.jobs[job_id] for job_id in job_ids if job_id in self.jobs}

    def snapshot(self, queue: str) -> QueueSnapshot:
        waiting = sorted((job for job in self.jobs.values() if job.status == "RUNNABLE"), key=lambda j: j.created_at)
        held: dict[str, dict[str, int]] = {}
        for job in self.jobs.values():
            if job.quota_share is not None and job.status in IN_USE_STATUSES:
                types = held.setdefault(job.quota_share, {})
                instance_type = job.payload["ResourceConfig"]["InstanceType"]
                types[instance_type] = types.get(instance_type, 0) + (job.instances or 0)
        return QueueSnapshot(tuple(FrontOfQueueJob(job.job_arn) for job in waiting), instances_by_quota_share=held)

    def terminate(self, job_id: str, reason: str) -> None:
        self.on_terminate(job_id)
        self.terminated.append((job_id, reason))


class FakeResources:
    """The project's resources as AWS has them."""

    def observe(self, names: Any, stack: str) -> Observed:
        environment = ServiceEnvironment("search-gpu", f"{ARN}service-environment/search-gpu", (CapacityLimit(16),))
        shares = [ShareAttributes(*share) for share in (("HIGHPRI", "1"), ("MIDPRI", "3"), ("LOWPRI", "5"))]
        policy = SchedulingPolicy("search-gpu", f"{ARN}scheduling-policy/search-gpu", FairsharePolicy(tuple(shares)))
        fair = JobQueue("search-gpu", f"{ARN}job-queue/search-gpu", 1, (environment.arn,), policy.arn)
        fifo = JobQueue("fifo", f"{ARN}job-queue/fifo", 1, (environment.arn,))
        return Observed({environment.name: environment}, {policy.name: policy}, {fair.name: fair, fifo.name: fifo})


@dataclass(frozen=True)
class FakeLine:
    """As `fairshare.aws.logs.LogLine`."""

    timestamp_ms: int
    message: str
    stream: str


@dataclass
class FakeLogs:
    """Lines by training job."""

    lines: dict[str, list[FakeLine]] = field(default_factory=dict)

    def add(self, training_job_name: str, *messages: str, host: str = "algo-1") -> None:
        stream = f"{training_job_name}/{host}-1796061600"
        lines = [FakeLine(NOW, message, stream) for message in messages]
        self.lines.setdefault(training_job_name, []).extend(lines)

    def read(self, training_job_name: str, *, start_from_head: bool = True) -> Iterable[FakeLine]:
        return iter(self.lines.get(training_job_name, []))

    def follow(self, training_job_name: str, is_done: Callable[[], bool], clock: VirtualClock) -> Iterable[FakeLine]:
        yield from self.read(training_job_name)
        while not is_done():
            clock.advance(2_000)


class SteppingClock(VirtualClock):
    """A virtual clock; ``on_sleep`` moves the world on while the program sleeps."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.on_sleep: Callable[[], None] = lambda: None

    def sleep_until(self, at: int) -> None:
        super().sleep_until(at)
        self.on_sleep()


@dataclass(frozen=True)
class FakeSession:
    """As `fairshare.aws.session.AwsSession`, as far as commands look at it."""

    account_id: str = "111122223333"
    region: str = "eu-west-1"
    endpoint_url: str | None = None
    is_loopback: bool = False


@dataclass
class CommandLine:
    """Runs command lines against the fakes, in a directory with a project."""

    cwd: Path
    capsys: pytest.CaptureFixture[str]
    batch: FakeBatch = field(default_factory=FakeBatch)
    logs: FakeLogs = field(default_factory=FakeLogs)
    clock: SteppingClock = field(default_factory=SteppingClock)
    width: int | None = None
    """Cells of the terminal; None = a pipe."""
    more: dict[str, Any] = field(default_factory=dict)
    """Other properties of the context, by name."""
    out: str = ""
    err: str = ""

    def __call__(self, *argv: str) -> int:
        code = run(argv, self.context)
        self.out, self.err = self.capsys.readouterr()
        return code

    def context(self, options: Options | None = None) -> AppContext:
        options = options or Options()
        context = AppContext(options, {"FAIRSHARE_STATE_DIR": str(self.cwd / "state")}, self.cwd)
        fakes = {
            "jobs": self.batch,
            "provisioner": FakeResources(),
            "logs": self.logs,
            "clock": self.clock,
            "session": FakeSession(),
            "out": Output(options.output or OutputFormat.TABLE, self.width),
            **self.more,
        }
        context.__dict__.update(fakes)  # cached properties are looked up here first
        return context


@pytest.fixture
def job() -> Callable[..., JobDetail]:
    return make_job


@pytest.fixture
def now() -> int:
    return NOW


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a project of one fair-share queue."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "fairshare.yaml").write_text(PROJECT)
    return tmp_path


@pytest.fixture
def cli(project: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(project, capsys)


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Answer the next question as a person at a terminal would."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    return lambda answer: monkeypatch.setattr(sys, "stdin", Terminal(answer))
