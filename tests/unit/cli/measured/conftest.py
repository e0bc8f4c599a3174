"""Command lines on jobs that CloudWatch has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairshare.metrics.instance_types import instance_types
from fairshare.metrics.ports import MetricQuery, Phase, Point
from fairshare.model import JobAttempt, JobDetail, JobRef, JobRequest
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

MINUTE = 60_000
AT = 1_796_061_600_000


@dataclass
class FakeMetrics:
    """Values by metric and the value of the only dimension, from ``start`` on; ``asked`` holds each request."""

    values: dict[tuple[str, str], list[Point]] = field(default_factory=dict)
    asked: list[Sequence[MetricQuery]] = field(default_factory=list)

    def add(self, name: str, dimension: str, start: int, values: Sequence[float | None], step: int = MINUTE) -> None:
        points = [Point(start + n * step, value) for n, value in enumerate(values) if value is not None]
        self.values.setdefault((name, dimension), []).extend(points)

    def series(self, queries: Sequence[MetricQuery], start: int, end: int) -> Mapping[MetricQuery, tuple[Point, ...]]:
        self.asked.append(queries)
        return {
            query: tuple(
                point for point in self.values.get((query.name, query.dimensions[0][1]), []) if start <= point.at < end
            )
            for query in queries
        }


@dataclass
class FakePhases:
    """Phases by training job."""

    known: dict[str, tuple[Phase, ...]] = field(default_factory=dict)

    def phases(self, training_job_name: str) -> tuple[Phase, ...]:
        return self.known.get(training_job_name, ())


@dataclass
class Observatory:
    """A command line, and jobs that ran an hour ago."""

    cli: Any
    make: Any
    now: int
    metrics: FakeMetrics = field(default_factory=FakeMetrics)
    phases: FakePhases = field(default_factory=FakePhases)

    def __call__(self, *argv: str) -> int:
        code: int = self.cli(*argv)
        return code

    @property
    def out(self) -> str:
        text: str = self.cli.out
        return text

    @property
    def err(self) -> str:
        text: str = self.cli.err
        return text

    def add_job(
        self,
        number: int,
        name: str,
        *,
        minutes: int = 60,
        instance_type: str = "ml.g6.12xlarge",
        hosts: int = 1,
        ended: int = 0,
        seconds: int = 0,
        **values: Sequence[float | None] | Sequence[Sequence[float | None]],
    ) -> JobDetail:
        """A job that ended ``ended`` minutes ago; ``gpu``, ``cpu``, ``memory`` per device, ``gpu`` of each host."""
        stop = self.now - ended * MINUTE
        start = stop - minutes * MINUTE - seconds * 1000
        training = f"AWSBatch{name}{number:032x}"
        job: JobDetail = self.make(
            number,
            job_name=name,
            status="SUCCEEDED",
            created_at=start - 5 * MINUTE,
            scheduled_at=start,
            started_at=start,
            stopped_at=stop,
            share_identifier="LOWPRI",
            instances=hosts,
            training_job_name=training,
            attempts=(JobAttempt(training, start, stop),),
            payload={"ResourceConfig": {"InstanceType": instance_type, "InstanceCount": hosts}},
        )
        self.cli.batch.jobs[job.job_id] = job
        spec = instance_types().get(instance_type)
        scales = {"gpu": spec.gpus, "cpu": spec.vcpus} if spec else {}
        names = {"gpu": "GPUUtilization", "cpu": "CPUUtilization", "memory": "MemoryUtilization"}
        begin = -(-start // MINUTE) * MINUTE
        for key, given in values.items():
            of_hosts = [given] if not isinstance(given[0], list) else given
            for host, of_host in enumerate(of_hosts, 1):
                raw = [None if value is None else value * scales.get(key, 1) for value in of_host]
                self.metrics.add(names[key], f"{training}/algo-{host}", begin, raw)
        return job


@pytest.fixture
def measured(cli, job, now) -> Observatory:
    found = Observatory(cli, job, now)
    cli.more |= {"metrics": found.metrics, "training_phases": found.phases}
    return found


@pytest.fixture
def journal(project: Path) -> Any:
    """Write the journal of a run that has sent the given jobs, and one more that it could not send."""

    def write(run_id: str, jobs: Sequence[JobDetail]) -> None:
        planned = [
            PlannedJob(index, 1, JobRequest(f"job-{index}", "search-gpu", "{}", f"t{index}", "LOWPRI", 0))
            for index in range(len(jobs) + 1)
        ]
        with Journal.create(project / "state" / "runs", run_id, Holder("fairshare submit", AT)) as journal:
            identity = RunIdentity(run_id, AT, "eu-west-1", "111122223333")
            journal.begin(identity, [Wave(1, AT, 0, len(planned))], planned)
            journal.intend(planned[: len(jobs)], AT)
            for index, job in enumerate(jobs):
                journal.sent(index, JobRef(job.job_id, job.job_arn, job.job_name), AT)

    return write
