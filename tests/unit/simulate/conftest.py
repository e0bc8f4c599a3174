"""Small workloads and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from fairshare.config.project import parse_project
from fairshare.simulate.settings import Setting, setting_of
from fairshare.simulate.workload import WorkJob, Workload, workload_of

PROJECT = """\
version: 1
stack: search
service_environments:
  gpu: {capacity: 4, instance_types: [ml.g6.12xlarge]}
  cpu: {capacity: 8, instance_types: [ml.c5.2xlarge]}
queues:
  gpu:
    service_environment: gpu
    fairshare:
      share_decay_seconds: 3600
      shares: {HIGHPRI: {weight_factor: 1}, MIDPRI: {weight_factor: 3}, LOWPRI: {weight_factor: 5}}
  batch: {service_environment: cpu, fifo: true}
defaults: {queue: gpu}
"""

Row = tuple[float, float, int, str]
"""(submitted, run time in seconds, instances, share)."""


def make_workload(*rows: Row) -> Workload:
    jobs = [
        WorkJob(f"job-{number}", round(at * 1000), round(run * 1000), demand, share)
        for number, (at, run, demand, share) in enumerate(rows)
    ]
    return workload_of("rows", jobs, from_first=False)


@pytest.fixture
def workload() -> Callable[..., Workload]:
    """Makes a workload of rows: (submitted, run time in seconds, instances, share)."""
    return make_workload


@pytest.fixture
def project_file(tmp_path: Path) -> Path:
    """A project with a fair-share queue of 4 instances and a FIFO queue of 8."""
    path = tmp_path / "fairshare.yaml"
    path.write_text(PROJECT)
    return path


@pytest.fixture
def fair() -> Setting:
    """The project's policies."""
    return setting_of("fair", parse_project(PROJECT, Path("fairshare.yaml")))


@pytest.fixture
def data() -> Path:
    """Directory of excerpts of public traces."""
    return Path(__file__).parent / "data"


def plain_fifo(jobs: Iterable[WorkJob], capacity: int) -> list[int]:
    """Return the starts of jobs that go strictly first in, first out: a loop over a list and a heap, nothing else."""
    from heapq import heappop, heappush

    now, free, starts = 0, capacity, []
    ends: list[tuple[int, int]] = []
    for job in jobs:
        now = max(now, job.submit_at)
        while ends and (ends[0][0] <= now or free < job.demand):
            end, freed = heappop(ends)
            now, free = max(now, end), free + freed
        free -= job.demand
        heappush(ends, (now + job.run_time, job.demand))
        starts.append(now)
    return starts


@pytest.fixture
def fifo_starts() -> Callable[[Iterable[WorkJob], int], list[int]]:
    """`plain_fifo`."""
    return plain_fifo
