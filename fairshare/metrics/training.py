"""The series of a training job: every host, all attempts joined, on one scale.

SageMaker names a host ``<training job>/algo-<n>`` in the dimension ``Host``, so each attempt has names of its own, and
a prefix would match other jobs. CPUUtilization is the sum over vCPUs, GPUUtilization and GPUMemoryUtilization the sum
over GPUs; MemoryUtilization and DiskUtilization are 0 to 100 of the host (case C35).
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from fairshare.metrics.instance_types import InstanceType, instance_types
from fairshare.metrics.ports import TRAINING_NAMESPACE, MetricQuery, Point
from fairshare.metrics.series import Sample, Series, Use, in_order, spacing, summarise
from fairshare.model import JobDetail

UNIT: Final = "Percent"


class TrainingMetric(StrEnum):
    """What SageMaker publishes of each host."""

    GPU = "GPUUtilization"
    GPU_MEMORY = "GPUMemoryUtilization"
    CPU = "CPUUtilization"
    MEMORY = "MemoryUtilization"
    DISK = "DiskUtilization"

    @property
    def short_name(self) -> str:
        """``gpu``, ``gpu_memory``, ``cpu``, ``memory`` or ``disk``: in facts and documents."""
        return self.name.lower()

    @property
    def is_of_gpus(self) -> bool:
        """Whether a host without GPUs cannot have it."""
        return self in {TrainingMetric.GPU, TrainingMetric.GPU_MEMORY}


@dataclass(frozen=True)
class Host:
    """One instance of a job. ``spec`` is None when its type is unknown, or not told for each host."""

    name: str
    instance_type: str | None
    spec: InstanceType | None

    def devices(self, metric: TrainingMetric) -> int | None:
        """Return over how many devices the published value is summed; None = unknown."""
        match metric:
            case TrainingMetric.MEMORY | TrainingMetric.DISK:
                return 1
            case _ if self.spec is None:
                return None
            case TrainingMetric.CPU:
                return self.spec.vcpus
            case _:
                return self.spec.gpus or None


def hosts_of(payload: Mapping[str, Any]) -> tuple[Host, ...]:
    """Return the hosts ``algo-1``, ``algo-2``, ... of a CreateTrainingJob request.

    Of a cluster of several instance types, which host has which is not published: their type is unknown here.
    """
    resources = payload.get("ResourceConfig", {})
    groups = resources.get("InstanceGroups") or [resources]
    types = {group.get("InstanceType") for group in groups}
    name = types.pop() if len(types) == 1 else None
    count = sum(int(group.get("InstanceCount", 1)) for group in groups)
    spec = instance_types().get(name) if name else None
    return tuple(Host(f"algo-{number}", name, spec) for number in range(1, count + 1))


def training_job_names(job: JobDetail) -> tuple[str, ...]:
    """Return SageMaker's names of all attempts of a job, oldest first."""
    names = [attempt.training_job_name for attempt in job.attempts]
    return tuple(dict.fromkeys(name for name in (*names, job.training_job_name) if name is not None))


def queries_of(job: JobDetail, period: int) -> tuple[MetricQuery, ...]:
    """Return what must be asked for to know every series of a job. GPUs are not asked of hosts that have none."""
    return tuple(
        _query(attempt, host, metric, period)
        for metric in TrainingMetric
        for host in hosts_of(job.payload)
        for attempt in training_job_names(job)
        if not (metric.is_of_gpus and host.spec is not None and host.spec.gpus == 0)
    )


def _query(attempt: str, host: Host, metric: TrainingMetric, period: int) -> MetricQuery:
    return MetricQuery(TRAINING_NAMESPACE, metric.value, (("Host", f"{attempt}/{host.name}"),), period)


@dataclass(frozen=True)
class JobSeries:
    """A job with the series of its hosts, by metric, in the order of the hosts. Hosts without data have empty ones."""

    job: JobDetail
    hosts: tuple[Host, ...]
    series: Mapping[TrainingMetric, tuple[Series, ...]]

    @property
    def has_data(self) -> bool:
        """Whether CloudWatch has anything about the job."""
        return any(series.points for hosts in self.series.values() for series in hosts)

    @property
    def silent_hosts(self) -> list[str]:
        """Hosts about which CloudWatch has nothing."""
        speaking = {series.host for hosts in self.series.values() for series in hosts if series.points}
        return [host.name for host in self.hosts if host.name not in speaking]

    def is_comparable(self, metric: TrainingMetric) -> bool:
        """Whether the values of a metric are on one scale, so that they may be averaged and judged."""
        return all(series.normalised for series in self.series.get(metric, ()))

    def use(self, metric: TrainingMetric) -> Use | None:
        """Return what all hosts amount to, each device counting the same; None without data or without a scale."""
        return summarise(self.samples(metric))

    def samples(self, metric: TrainingMetric) -> list[Sample]:
        """Return every value of every host, weighted by the host's devices; none without a scale."""
        if not self.is_comparable(metric):
            return []
        pairs = zip(self.hosts, self.series.get(metric, ()), strict=False)
        return [Sample(point.value, host.devices(metric) or 1) for host, series in pairs for point in series.points]

    def together(self, metric: TrainingMetric) -> Series | None:
        """Return the series of all hosts as one, device by device; None without data or without a scale."""
        return self._together.get(metric)

    @cached_property
    def _together(self) -> Mapping[TrainingMetric, Series]:
        joined = {}
        for metric, hosts in self.series.items():
            weighted = [(series, host.devices(metric) or 1) for host, series in zip(self.hosts, hosts, strict=True)]
            if self.is_comparable(metric) and any(series.points for series in hosts):
                joined[metric] = join_series(metric.value, weighted)
        return joined


def join_series(name: str, weighted: Iterable[tuple[Series, int]]) -> Series:
    """Return the mean of normalised series at each instant, over those that have a value there.

    Args:
        name: of the new series.
        weighted: series, and of how many devices each is the mean.
    """
    at: dict[int, list[Sample]] = defaultdict(list)
    period = 0
    for series, devices in weighted:
        period = max(period, series.period)
        for point in series.points:
            at[point.at].append(Sample(point.value, devices))
    points = [
        Point(instant, sum(s.value * s.weight for s in samples) / sum(s.weight for s in samples))
        for instant, samples in sorted(at.items())
    ]
    return Series(name, None, UNIT, normalised=True, points=tuple(points), period=period)


def series_of(job: JobDetail, answers: Mapping[MetricQuery, Sequence[Point]], period: int) -> JobSeries:
    """Return a job's series from the answers to `queries_of`."""
    hosts = hosts_of(job.payload)
    asked = set(queries_of(job, period))
    series = {}
    for metric in TrainingMetric:
        queries = {host: [_query(name, host, metric, period) for name in training_job_names(job)] for host in hosts}
        if any(query in asked for of_host in queries.values() for query in of_host):
            series[metric] = tuple(_host_series(metric, host, queries[host], answers, period) for host in hosts)
    return JobSeries(job, hosts, series)


def _host_series(
    metric: TrainingMetric,
    host: Host,
    queries: Iterable[MetricQuery],
    answers: Mapping[MetricQuery, Sequence[Point]],
    period: int,
) -> Series:
    devices = host.devices(metric)
    points = in_order(point for query in queries for point in answers.get(query, ()))
    if devices is not None:
        points = tuple(Point(point.at, point.value / devices) for point in points)
    return Series(metric.value, host.name, UNIT, devices is not None, points, spacing(points, period))
