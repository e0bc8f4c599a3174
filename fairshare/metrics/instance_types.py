"""Devices and memory of SageMaker's instance types: ``instance_types.csv`` beside this module.

``ml.X`` is EC2's ``X``: the table holds every value of ``TrainingInstanceType``
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html) with the sizes that EC2's
DescribeInstanceTypes gives (``VCpuInfo.DefaultVCpus``, ``MemoryInfo``, ``GpuInfo``), as recorded in moto 5.2; a test
compares the two. The retired ml.p2 and ml.p3 are from https://aws.amazon.com/ec2/previous-generation/. A type that is
not in the table is unknown, and nothing is guessed about it (case C35).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class InstanceType:
    """One instance type. ``gpu_memory_mib`` is of each GPU; 0 without GPUs."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int
    gpu_memory_mib: int

    @property
    def family(self) -> str:
        """``ml.g6`` of ``ml.g6.12xlarge``."""
        return self.name.rpartition(".")[0]


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """Return every known type by name, e.g. ``ml.g6.12xlarge``."""
    import csv
    from importlib.resources import files

    text = files("fairshare.metrics").joinpath("instance_types.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {name: InstanceType(name, *map(int, sizes)) for name, *sizes in (row.values() for row in rows)}


def more_vcpus(present: InstanceType) -> InstanceType | None:
    """Return the next type of the family with as many GPUs and more vCPUs."""
    return _smallest(present, lambda other: other.gpus == present.gpus and other.vcpus > present.vcpus)


def more_memory(present: InstanceType) -> InstanceType | None:
    """Return the next type of the family with as many GPUs and more memory."""
    return _smallest(present, lambda other: other.gpus == present.gpus and other.memory_mib > present.memory_mib)


def smaller(present: InstanceType, *, vcpus: float, gpus: float) -> InstanceType | None:
    """Return the smallest type of the family that still has so many devices; None when it is no smaller."""

    def suffices(other: InstanceType) -> bool:
        is_smaller = (other.gpus, other.vcpus) < (present.gpus, present.vcpus)
        return is_smaller and other.vcpus >= vcpus and other.gpus >= gpus

    return _smallest(present, suffices)


def _smallest(present: InstanceType, suits: Callable[[InstanceType], bool]) -> InstanceType | None:
    family = [other for other in instance_types().values() if other.family == present.family and suits(other)]
    return min(family, key=lambda other: (other.gpus, other.vcpus, other.memory_mib), default=None)
