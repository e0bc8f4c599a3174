"""How well a job used its devices: means and the tails they hide, device-hours, phases and diagnoses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairshare.metrics.facts import facts_of
from fairshare.metrics.phases import PhaseTimes
from fairshare.metrics.rules import Diagnosis, diagnose
from fairshare.metrics.series import Sample, Use, summarise
from fairshare.metrics.shape import Shape, shape_of
from fairshare.metrics.training import JobSeries, TrainingMetric
from fairshare.model import JobDetail

_HOUR: Final = 3_600_000


@dataclass(frozen=True)
class DeviceHours:
    """Hours of GPUs, or of vCPUs on hosts without GPUs. ``unmeasured`` is what CloudWatch has no values about."""

    allocated: float
    used: float
    idle: float

    @property
    def unmeasured(self) -> float:
        """Launching, gaps, and a last period that has not been published."""
        return max(0.0, self.allocated - self.used - self.idle)

    def __add__(self, other: DeviceHours) -> DeviceHours:
        return DeviceHours(self.allocated + other.allocated, self.used + other.used, self.idle + other.idle)


@dataclass(frozen=True)
class JobEfficiency:
    """What is known about the use of one job.

    ``metric`` is what the job is judged by: GPU use where there are GPUs, else CPU use. Per cents are of the devices,
    0 to 100. A use is None without data, or where the number of devices is unknown.
    """

    job: JobDetail
    instance_type: str | None
    instances: int
    metric: TrainingMetric
    devices: int | None
    """GPUs or vCPUs of all hosts; None when the instance type is unknown."""
    use: Mapping[TrainingMetric, Use]
    shape: Shape | None
    hours: DeviceHours | None
    phases: PhaseTimes
    diagnoses: tuple[Diagnosis, ...]
    spilled_mib: int | None = None
    """What the log says was spilled from an object store; None when the log was not read."""

    @property
    def judged_use(self) -> Use | None:
        """Use of the devices the job is judged by."""
        return self.use.get(self.metric)

    @property
    def device_noun(self) -> str:
        """``GPU`` or ``vCPU``."""
        return "GPU" if self.metric is TrainingMetric.GPU else "vCPU"

    @property
    def wasted_ms(self) -> int:
        """How much shorter it would have held its instances, had the same work left no device idle."""
        if self.hours is None or not self.hours.allocated:
            return 0
        return round(self.phases.held * self.hours.idle / self.hours.allocated)


@dataclass(frozen=True)
class ShareEfficiency:
    """The jobs of a share, or of a queue without shares, with one kind of device."""

    share_identifier: str | None
    device_noun: str
    jobs: int
    mean_percent: float | None
    """Of the measured device-hours."""
    hours: DeviceHours


def judge(measured: JobSeries, phases: PhaseTimes, *, spilled_mib: int | None = None) -> JobEfficiency:
    """Return how well a job used what it held.

    Args:
        measured: series of its hosts.
        phases: time in each phase.
        spilled_mib: MiB that its log says were spilled; None = the log was not read.
    """
    metric = _judged_by(measured)
    together = measured.together(metric)
    shape = shape_of(together) if together is not None else None
    devices = [host.devices(metric) for host in measured.hosts]
    total = None if None in devices else sum(count or 0 for count in devices)
    return JobEfficiency(
        job=measured.job,
        instance_type=measured.hosts[0].instance_type if measured.hosts else None,
        instances=len(measured.hosts),
        metric=metric,
        devices=total,
        use={found: use for found in TrainingMetric if (use := measured.use(found)) is not None},
        shape=shape,
        hours=None if total is None else _device_hours(measured, metric, total, phases),
        phases=phases,
        diagnoses=diagnose(facts_of(measured, metric, shape, phases, spilled_mib)),
        spilled_mib=spilled_mib,
    )


def by_share(jobs: Iterable[JobEfficiency]) -> list[ShareEfficiency]:
    """Return the sums of each share, most idle device-hours first. Jobs of unknown instance types do not count."""
    groups: dict[tuple[str | None, str], list[tuple[JobEfficiency, DeviceHours]]] = defaultdict(list)
    for job in jobs:
        if job.hours is not None:
            groups[job.job.share_identifier, job.device_noun].append((job, job.hours))
    found = [
        ShareEfficiency(share, noun, len(members), _mean_use(members), _sum(hours for _, hours in members))
        for (share, noun), members in groups.items()
    ]
    return sorted(found, key=lambda share: (-share.hours.idle, share.share_identifier or "", share.device_noun))


def _judged_by(measured: JobSeries) -> TrainingMetric:
    """GPU use of hosts with GPUs, or of unknown hosts that publish it; CPU use of all others."""
    has_gpus = any(host.spec is not None and host.spec.gpus > 0 for host in measured.hosts)
    publishes = any(series.points for series in measured.series.get(TrainingMetric.GPU, ()))
    return TrainingMetric.GPU if has_gpus or publishes else TrainingMetric.CPU


def _device_hours(measured: JobSeries, metric: TrainingMetric, devices: int, phases: PhaseTimes) -> DeviceHours:
    used = idle = 0.0
    for host, series in zip(measured.hosts, measured.series.get(metric, ()), strict=False):
        hours = series.period * 1000 / _HOUR * (host.devices(metric) or 0)
        for point in series.points:
            busy = min(1.0, point.value / 100)
            used += hours * busy
            idle += hours * (1 - busy)
    return DeviceHours(max(devices * phases.held / _HOUR, used + idle), used, idle)


def _mean_use(members: Sequence[tuple[JobEfficiency, DeviceHours]]) -> float | None:
    samples = [
        Sample(job.judged_use.mean, hours.used + hours.idle) for job, hours in members if job.judged_use is not None
    ]
    use = summarise(samples)
    return None if use is None else use.mean


def _sum(hours: Iterable[DeviceHours]) -> DeviceHours:
    return sum(hours, start=DeviceHours(0.0, 0.0, 0.0))
