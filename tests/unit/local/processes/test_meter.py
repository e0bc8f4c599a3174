"""Readings of a job become points on SageMaker's scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fairshare.local.processes.allotment import Allotment
from fairshare.local.processes.gpus import GpuUse
from fairshare.local.processes.meter import Meter, Reading, Scales, UsePoint

MINUTE = 60_000
START = 1_790_000_040_000  # a whole minute
GIB = 2**30


def meter(
    *,
    kind: str = "ml.g6.12xlarge",
    cores: float = 2,
    gpus: int = 1,
    disk: int = 0,
    at: int = START,
    period: int = MINUTE,
) -> Meter:
    scales = Scales.of(kind, 30 * GIB, Allotment(cores, 4 * GIB), gpus)
    return Meter(scales, lambda: disk, period, at, monotonic=100.0)


def values(points: list[UsePoint]) -> dict[str, float]:
    return {point.name: round(point.value, 3) for point in points}


def reading(
    cpu: float = 0, memory: int = 0, gpu: GpuUse | None = None, waited: Mapping[int, float] | None = None
) -> Reading:
    return Reading(cpu, memory, gpu, waited or {})


def test_c35_values_are_on_the_scale_of_the_instance_type():
    """ml.g6.12xlarge has 48 vCPUs and 4 GPUs; here are 2 cores and 1 GPU, half of them busy."""
    job = meter(disk=15 * GIB)
    assert job.take(reading(30, GIB, GpuUse(40, 10)), START + 30_000, 130.0) == []
    points = job.take(reading(60, 3 * GIB, GpuUse(60, 30)), START + MINUTE, 160.0)
    assert values(points) == {
        "CPUUtilization": 2_400,
        "MemoryUtilization": 50,
        "DiskUtilization": 50,
        "GPUUtilization": 200,
        "GPUMemoryUtilization": 80,
    }
    assert {point.at for point in points} == {START}


def test_c35_an_unknown_type_is_taken_for_what_is_here():
    job = meter(kind="ml.x99.large", cores=2, gpus=2)
    points = job.take(reading(120, 0, GpuUse(150, 20)), START + MINUTE, 160.0)
    assert values(points) == {
        "CPUUtilization": 200,
        "MemoryUtilization": 0,
        "DiskUtilization": 0,
        "GPUUtilization": 150,
        "GPUMemoryUtilization": 20,
    }


@pytest.mark.parametrize(("kind", "gpus", "gpu"), [("ml.m5.large", 1, GpuUse(50, 5)), ("ml.g6.12xlarge", 0, None)])
def test_c38_without_gpus_there_are_no_values_rather_than_zeros(kind: str, gpus: int, gpu: Any):
    points = meter(kind=kind, gpus=gpus).take(reading(0, 0, gpu), START + MINUTE, 160.0)
    assert set(values(points)) == {"CPUUtilization", "MemoryUtilization", "DiskUtilization"}


def test_what_takes_more_than_it_was_given_has_all_of_it():
    points = meter(kind="ml.m5.large", disk=31 * GIB).take(reading(600, 9 * GIB), START + MINUTE, 160.0)
    assert values(points) == {"CPUUtilization": 200, "MemoryUtilization": 100, "DiskUtilization": 100}


def test_each_period_counts_its_own_use_and_begins_at_a_whole_multiple():
    job = meter(kind="ml.m5.large", at=START + 40_000)
    first = job.take(reading(20), START + MINUTE + 3, 120.0)
    second = job.take(reading(50), START + 2 * MINUTE + 3, 180.0)
    assert [(point.at, point.value) for point in first + second if point.name == "CPUUtilization"] == [
        (START, 100),
        (START + MINUTE, 50),
    ]


def test_the_last_part_is_told_with_all_that_was_used():
    job = meter(kind="ml.m5.large")
    job.take(reading(6, GIB), START + MINUTE, 160.0)
    job.take(reading(7, 2 * GIB), START + MINUTE + 1_000, 161.0)
    points = job.finish(12, 164.0)
    assert values(points) == {"CPUUtilization": 150, "MemoryUtilization": 50, "DiskUtilization": 0}
    assert {point.at for point in points} == {START + MINUTE}


def test_without_a_total_the_last_reading_stands():
    job = meter(kind="ml.m5.large")
    job.take(reading(2, 0), START + 2_000, 102.0)
    assert values(job.finish(None, 110.0))["CPUUtilization"] == 100


def test_a_job_of_a_moment_is_told_once_and_a_moment_after_a_period_is_not():
    moment = meter(kind="ml.m5.large")
    assert values(moment.finish(0.05, 100.1)) == {"CPUUtilization": 50, "DiskUtilization": 0}
    job = meter(kind="ml.m5.large")
    job.take(reading(6), START + MINUTE, 160.0)
    assert job.finish(6.1, 160.2) == []
    assert meter().finish(None, 100.0) == []


def test_a_moment_before_a_period_goes_with_it():
    job = meter(kind="ml.m5.large", at=START + MINUTE - 100)
    assert job.take(reading(0.1), START + MINUTE, 100.1) == []
    points = job.take(reading(60.1), START + 2 * MINUTE, 160.1)
    assert (points[0].at, round(points[0].value)) == (START + MINUTE, 100)


def test_processor_time_that_is_lost_with_a_process_is_no_negative_use():
    job = meter(kind="ml.m5.large")
    job.take(reading(60), START + MINUTE, 160.0)
    assert values(job.take(reading(40), START + 2 * MINUTE, 220.0))["CPUUtilization"] == 0


def test_waiting_for_a_core_that_something_else_has_counts_as_use():
    """Two threads, a quarter of whose time another program had the core; one of them has ended since."""
    job = meter(kind="ml.m5.large")
    first = job.take(reading(90, waited={7: 10.0, 8: 20.0}), START + MINUTE, 160.0)
    second = job.take(reading(135, waited={7: 25.0}), START + 2 * MINUTE, 220.0)
    third = job.take(reading(135, waited={7: 25.0, 8: 20.0}), START + 3 * MINUTE, 280.0)
    assert [values(points)["CPUUtilization"] for points in (first, second, third)] == [200, 100, 0]


def test_periods_without_a_reading_have_what_was_read_after_them():
    job = meter(kind="ml.m5.large", period=1000)
    points = job.take(reading(1.5), START + 3_000, 103.0)
    assert [(point.at, point.value) for point in points if point.name == "CPUUtilization"] == [
        (START, 50),
        (START + 1_000, 50),
        (START + 2_000, 50),
    ]


def test_a_clock_that_jumps_makes_no_periods():
    job = meter(kind="ml.m5.large", period=1000)
    points = job.take(reading(1), START + 7_200_000, 101.0)
    assert {point.at for point in points} == {START}
