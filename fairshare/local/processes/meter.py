"""From readings of a job to the points of ``/aws/sagemaker/TrainingJobs``, on SageMaker's scales (case C35).

=====================  ==============================================================================================
CPUUtilization         0 to 100 for each vCPU of the instance type; 100 % of all is 100 % of the job's allotment here
MemoryUtilization      0 to 100: of the allotment
DiskUtilization        0 to 100: of the volume that the job asked for
GPUUtilization         0 to 100 for each GPU of the instance type; only where GPUs are
GPUMemoryUtilization   the same
=====================  ==============================================================================================

So the same training script that keeps all of its cores busy reads 100 % of its host here and in the cloud, whatever
this machine has, and whatever else runs on it: a training job in the cloud has its host to itself, so the time in which
a thread was ready to run, but something else had the core, counts as used. A type that the table of instance types does
not know is taken for what is here.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from statistics import fmean
from typing import Final

from fairshare.local.processes.allotment import Allotment
from fairshare.local.processes.gpus import GpuUse
from fairshare.metrics.instance_types import instance_types

_SHORTEST_SECONDS: Final = 0.5
"""Of a shorter part of a period, processor time (counted in hundredths of a second) says too little."""


@dataclass(frozen=True)
class Scales:
    """What a whole is, for one job. ``vcpus`` and ``gpus`` are those of the instance type."""

    vcpus: float
    gpus: int
    cores_here: float
    gpus_here: int
    memory_bytes: int
    volume_bytes: int

    @classmethod
    def of(cls, instance_type: str, volume_bytes: int, allotment: Allotment, gpus_here: int) -> Scales:
        """Return the scales of a job that asked for an instance type and a volume."""
        spec = instance_types().get(instance_type)
        return cls(
            vcpus=allotment.cores if spec is None else spec.vcpus,
            gpus=gpus_here if spec is None else spec.gpus,
            cores_here=allotment.cores,
            gpus_here=gpus_here,
            memory_bytes=allotment.memory_bytes,
            volume_bytes=volume_bytes,
        )


@dataclass(frozen=True)
class Reading:
    """A job at an instant: processor time since it began, and what it holds now. ``gpu`` None = not known.

    ``waited_seconds``: how long each of its threads, by id, has been ready to run without a core.
    """

    cpu_seconds: float
    memory_bytes: int
    gpu: GpuUse | None = None
    waited_seconds: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class UsePoint:
    """One value of a metric, in per cent, for the period that began at ``at`` ms."""

    name: str
    at: int
    value: float


@dataclass
class _Part:
    """What was read in the part of a period that is measured now. Instants in seconds on the monotonic clock."""

    begin: float
    wanted_seconds: float
    memory: list[int] = field(default_factory=list)
    gpus: list[GpuUse] = field(default_factory=list)


class Meter:
    """Adds up the readings of one job, period by period; periods begin at whole multiples, as CloudWatch's do.

    The first and the last one are parts. A part of less than half a second goes with the next one; at the end it is
    left out, unless it is all there is. When there was no reading in a period, it has what was read after it.

    Args:
        scales: what a whole is.
        used_disk: gives the bytes that the job holds on the disk; asked once for each period.
        period_ms: how long a period is.
        at: now, in milliseconds since the epoch.
        monotonic: now, in seconds on the monotonic clock.
    """

    def __init__(self, scales: Scales, used_disk: Callable[[], int], period_ms: int, at: int, monotonic: float) -> None:
        self._scales = scales
        self._used_disk = used_disk
        self._period_ms = period_ms
        self._number = at // period_ms
        self._part = _Part(monotonic, 0.0)
        self._latest = monotonic
        self._cpu_seconds = 0.0
        self._waited: dict[int, float] = {}
        self._waited_seconds = 0.0
        self._has_told = False

    def take(self, reading: Reading, at: int, monotonic: float) -> list[UsePoint]:
        """Add a reading. When its period is over, return the period's points."""
        self._latest, self._cpu_seconds = monotonic, max(self._cpu_seconds, reading.cpu_seconds)
        self._add_waited(reading.waited_seconds)
        self._part.memory.append(reading.memory_bytes)
        if reading.gpu is not None:
            self._part.gpus.append(reading.gpu)
        number = at // self._period_ms
        if number == self._number:
            return []
        points = self._close(number)
        self._number = number
        return points

    def finish(self, cpu_seconds: float | None, monotonic: float) -> list[UsePoint]:
        """The job has ended: return the points of its last part.

        Args:
            cpu_seconds: all that it used; None = unknown, the last reading stands.
            monotonic: when it ended.
        """
        if cpu_seconds is not None:
            self._latest, self._cpu_seconds = monotonic, max(self._cpu_seconds, cpu_seconds)
        return self._close(self._number + 1, is_last=True)

    @property
    def _wanted_seconds(self) -> float:
        """Processor time that the job would have had, had it been alone here."""
        return self._cpu_seconds + self._waited_seconds

    def _add_waited(self, waited: Mapping[int, float]) -> None:
        """Add what threads waited since the last reading; what a thread waited right before its end stays unknown."""
        self._waited_seconds += sum(
            max(0.0, seconds - self._waited.get(thread, 0.0)) for thread, seconds in waited.items()
        )
        self._waited |= waited

    def _close(self, until: int, *, is_last: bool = False) -> list[UsePoint]:
        """Return the points of the part, one for each period before the one numbered ``until`` that it reaches into."""
        seconds = self._latest - self._part.begin
        if seconds <= 0 or (seconds < _SHORTEST_SECONDS and (self._has_told or not is_last)):
            return []
        reached = self._number + ceil(seconds * 1000 / self._period_ms)  # less than the clock's, when it was set
        values = list(self._values(seconds))
        self._part, self._has_told = _Part(self._latest, self._wanted_seconds), True
        return [
            UsePoint(name, number * self._period_ms, value)
            for number in range(self._number, max(self._number + 1, min(until, reached)))
            for name, value in values
        ]

    def _values(self, seconds: float) -> Iterator[tuple[str, float]]:
        scales, part = self._scales, self._part
        cores = (self._wanted_seconds - part.wanted_seconds) / seconds
        yield "CPUUtilization", scales.vcpus * _part_of(cores, scales.cores_here)
        if part.memory:
            yield "MemoryUtilization", _part_of(fmean(part.memory), scales.memory_bytes)
        yield "DiskUtilization", _part_of(self._used_disk(), scales.volume_bytes)
        if part.gpus and scales.gpus and scales.gpus_here:
            size = scales.gpus / scales.gpus_here
            yield "GPUUtilization", size * fmean(use.busy_percent for use in part.gpus)
            yield "GPUMemoryUtilization", size * fmean(use.memory_percent for use in part.gpus)


def _part_of(used: float, whole: float) -> float:
    """Return a part in per cent; a job that takes more than it was given has all of it."""
    return min(100.0, 100 * used / whole)
