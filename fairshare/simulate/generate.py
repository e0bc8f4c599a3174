"""Draws jobs from a workload file. The same file and seed give the same jobs, whatever else is simulated.

Every stream has a random source of its own, made from the seed and the stream's name: to add or change one stream does
not move the jobs of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any, Final

from fairshare.simulate.workload import WorkJob, Workload, workload_of
from fairshare.simulate.workload_file import (
    MAX_JOBS,
    ArrivalsSection,
    BurstsSection,
    DailySection,
    DistributionSection,
    ProcessSection,
    StreamSection,
    WorkloadFile,
)

_DAY: Final = 24 * 3600


def generate(file: WorkloadFile, path: Path, seed: int | None = None) -> Workload:
    """Return the jobs of a workload file; ``seed`` None = the file's.

    Raises:
        UsageError: the streams make no job.
    """
    seed = file.seed if seed is None else seed
    jobs = [
        job
        for name, stream in file.streams.items()
        for job in _jobs(name, stream, file.duration, Random(f"{seed}:{name}"))
    ]
    return workload_of(path.stem, jobs, assumptions=(f"{path.name}: drawn with seed {seed}",), from_first=False)


def _jobs(name: str, stream: StreamSection, duration: int, random: Random) -> Iterator[WorkJob]:
    for number, at in enumerate(_arrivals(stream.arrivals, duration, random), 1):
        yield WorkJob(
            id=f"{name}-{number:04}",
            submit_at=round(at * 1000),
            run_time=max(1, round(draw(stream.run_time, random) * 1000)),
            demand=max(1, round(draw(stream.size, random))),
            share=stream.share or name,
            priority=stream.priority,
            queue=stream.queue or "",
            instance_type=stream.instance_type or "",
        )


def draw(distribution: DistributionSection[Any], random: Random) -> float:
    """Return one number of a distribution, in its unit."""
    match distribution:
        case DistributionSection(choice=choice) if choice is not None:
            return float(random.choices(choice.values, choice.weights)[0])
        case DistributionSection(lognormal=lognormal) if lognormal is not None:
            value = lognormal.median * math.exp(random.gauss(0.0, lognormal.sigma))
            return float(value if lognormal.max is None else min(value, lognormal.max))
        case DistributionSection(uniform=(low, high)):
            return float(random.randint(low, high))
        case DistributionSection(constant=constant):
            return float(constant or 0)


def _arrivals(arrivals: ArrivalsSection, duration: int, random: Random) -> Iterator[float]:
    """Yield instants in seconds."""
    process, instants = _process(arrivals, random)
    stop = duration if process.stop is None else min(duration, process.stop)
    for at in islice(instants, process.limit or MAX_JOBS):
        if at >= stop:
            return
        yield at


def _process(arrivals: ArrivalsSection, random: Random) -> tuple[ProcessSection, Iterator[float]]:
    """Return the process, and its instants without end, from its start on."""
    match arrivals:
        case ArrivalsSection(fixed=process) if process is not None:
            return process, (float(process.start + number * process.every) for number in count())
        case ArrivalsSection(bursts=process) if process is not None:
            return process, _bursts(process)
        case ArrivalsSection(daily=process) if process is not None:
            return process, _daily(process, random)
        case ArrivalsSection(poisson=process):
            assert process is not None  # the file was checked
            return process, _poisson(1 / process.every, process.start, random)


def _poisson(rate: float, start: float, random: Random) -> Iterator[float]:
    at = start
    while True:
        at += random.expovariate(rate)
        yield at


def _bursts(bursts: BurstsSection) -> Iterator[float]:
    for number in count():
        for job in range(bursts.jobs):
            yield bursts.start + number * bursts.every + bursts.over * job / bursts.jobs


def _daily(daily: DailySection, random: Random) -> Iterator[float]:
    """Thin out a process that is as fast as the peak."""
    swing = float(daily.swing) / 100
    for at in _poisson(daily.per_day / _DAY * (1 + swing), daily.start, random):
        level = 1 + swing * math.cos(2 * math.pi * (at - daily.peak) / _DAY)
        if random.random() * (1 + swing) < level:
            yield at
