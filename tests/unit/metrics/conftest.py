"""Builders of measured jobs: values are written per device, as people think, and published on SageMaker's scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairshare.metrics.instance_types import instance_types
from fairshare.metrics.phases import PhaseTimes
from fairshare.metrics.ports import MetricQuery, Point
from fairshare.metrics.training import JobSeries, TrainingMetric, hosts_of, queries_of, series_of
from fairshare.model import JobAttempt, JobDetail

START = 1_796_054_400_000
"""2026-11-30T16:00:00Z."""

MINUTE = 60_000

Values = Sequence[float | None]


def make_job(minutes: int = 60, instance_type: str = "ml.g6.12xlarge", count: int = 1, **changes: Any) -> JobDetail:
    """A job that waited 5 minutes, launched in 1 and then ran."""
    job = JobDetail(
        job_id="00000001-0000-4000-8000-000000000000",
        job_arn="",
        job_name="bert",
        status="SUCCEEDED",
        created_at=START - 6 * MINUTE,
        scheduled_at=START - MINUTE,
        started_at=START,
        stopped_at=START + minutes * MINUTE,
        share_identifier="LOWPRI",
        instances=count,
        training_job_name="AWSBatchbert1",
        attempts=(JobAttempt("AWSBatchbert1", START, START + minutes * MINUTE),),
        payload={"ResourceConfig": {"InstanceType": instance_type, "InstanceCount": count}},
    )
    return replace(job, **changes)


def make_answers(
    job: JobDetail, values: Mapping[TrainingMetric, Sequence[Values]], period: int = 60
) -> dict[MetricQuery, tuple[Point, ...]]:
    """What CloudWatch holds: for each metric a list of values a host, None where nothing was published."""
    answers = {}
    hosts = {f"AWSBatchbert1/{host.name}": index for index, host in enumerate(hosts_of(job.payload))}
    spec = instance_types().get(job.payload["ResourceConfig"]["InstanceType"])
    for query in queries_of(job, period):
        metric = TrainingMetric(query.name)
        scale = {"GPU": spec.gpus, "CPU": spec.vcpus}.get(query.name[:3], 1) if spec else 1
        of_hosts = values.get(metric, ())
        index = hosts.get(dict(query.dimensions)["Host"], len(of_hosts))
        points = of_hosts[index] if index < len(of_hosts) else ()
        answers[query] = tuple(
            Point(START + number * period * 1000, value * scale)
            for number, value in enumerate(points)
            if value is not None
        )
    return answers


def make_measured(
    job: JobDetail | None = None,
    *,
    gpu: Values | Sequence[Values] = (),
    gpu_memory: Values = (),
    cpu: Values = (),
    memory: Values = (),
    disk: Values = (),
    period: int = 60,
) -> JobSeries:
    """A job with the values of its only host; ``gpu`` may be a list for each of several hosts."""
    job = job or make_job()
    several = [gpu] if not gpu or not isinstance(gpu[0], Sequence) else gpu
    values: dict[TrainingMetric, Any] = {
        TrainingMetric.GPU: several,
        TrainingMetric.GPU_MEMORY: [gpu_memory],
        TrainingMetric.CPU: [cpu],
        TrainingMetric.MEMORY: [memory],
        TrainingMetric.DISK: [disk],
    }
    return series_of(job, make_answers(job, values, period), period)


def make_phases(training: int = 60 * MINUTE, **changes: int) -> PhaseTimes:
    return replace(
        PhaseTimes(waiting=5 * MINUTE, launching=MINUTE, downloading=0, training=training, uploading=0), **changes
    )


@pytest.fixture
def start() -> int:
    return START


@pytest.fixture
def job() -> Callable[..., JobDetail]:
    return make_job


@pytest.fixture
def answers() -> Callable[..., dict[MetricQuery, tuple[Point, ...]]]:
    return make_answers


@pytest.fixture
def measured() -> Callable[..., JobSeries]:
    return make_measured


@pytest.fixture
def phases() -> Callable[..., PhaseTimes]:
    return make_phases
