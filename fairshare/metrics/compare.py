"""Two sides, each of one or several jobs: how much they differ, and whether that is more than noise.

Whether a difference is noise is asked of a permutation test on the difference of means, two-sided: in what part of all
ways to deal the values out to two groups of these sizes is the difference at least as large? It assumes no
distribution and is exact for few runs, which also shows what few runs cannot show: with 3 against 3 the smallest
possible value is 2/20 = 0.1, so at least 4 against 4 are needed for 0.05. Above `EXACT_AT_MOST` ways, random ones are
drawn. Source: Fisher, The Design of Experiments (1935), section 21.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import comb
from random import Random
from statistics import fmean
from typing import Final

from fairshare.metrics.efficiency import JobEfficiency
from fairshare.metrics.training import TrainingMetric

SIGNIFICANCE: Final = 0.05
"""A difference this improbable by chance counts as real."""

EXACT_AT_MOST: Final = 20_000
"""Ways to deal out the values up to which every one is looked at."""

_DRAWS: Final = 10_000
_ROUNDING: Final = 1e-9


class Verdict(StrEnum):
    """What can be said about a difference."""

    REAL = "real"
    NOISE = "within noise"
    TOO_FEW = "too few runs to tell"
    SINGLE = "one run each"
    UNKNOWN = "not measured"


@dataclass(frozen=True)
class Figures:
    """What is compared of one job. None = not known. ``cost`` is in the currency of the prices."""

    seconds: float | None
    waited_seconds: float | None
    gpu_percent: float | None
    cpu_percent: float | None
    memory_percent: float | None
    instance_hours: float | None
    idle_device_hours: float | None
    spilled_mib: float | None
    failed: float
    cost: float | None = None


@dataclass(frozen=True)
class Measure:
    """One line of a comparison: its name, its unit, and where its value is."""

    name: str
    unit: str
    """``s``, ``%``, ``h``, ``MiB``, ``part`` (0 to 1) or ``money``."""
    of: Callable[[Figures], float | None]


MEASURES: Final = (
    Measure("duration", "s", lambda figures: figures.seconds),
    Measure("waited", "s", lambda figures: figures.waited_seconds),
    Measure("gpu_use", "%", lambda figures: figures.gpu_percent),
    Measure("cpu_use", "%", lambda figures: figures.cpu_percent),
    Measure("memory_use", "%", lambda figures: figures.memory_percent),
    Measure("instance_hours", "h", lambda figures: figures.instance_hours),
    Measure("idle_device_hours", "h", lambda figures: figures.idle_device_hours),
    Measure("spilled", "MiB", lambda figures: figures.spilled_mib),
    Measure("failures", "part", lambda figures: figures.failed),
    Measure("cost", "money", lambda figures: figures.cost),
)


@dataclass(frozen=True)
class Difference:
    """How the candidate differs from the baseline in one measure; means over the jobs whose value is known."""

    name: str
    unit: str
    baseline: float | None
    candidate: float | None
    baseline_runs: int
    candidate_runs: int
    probability: float | None
    """Of a difference this large by chance; None with one run each."""
    verdict: Verdict

    @property
    def absolute(self) -> float | None:
        """Candidate less baseline, in the unit."""
        return None if self.baseline is None or self.candidate is None else self.candidate - self.baseline

    @property
    def percent(self) -> float | None:
        """Candidate against baseline in per cent; None where the baseline is zero."""
        absolute = self.absolute
        return None if absolute is None or not self.baseline else 100 * absolute / self.baseline


def figures_of(job: JobEfficiency) -> Figures:
    """Return what is compared of a job. Duration is the time it held its instances, launching included."""
    gpu, cpu, memory = (
        job.use.get(metric) for metric in (TrainingMetric.GPU, TrainingMetric.CPU, TrainingMetric.MEMORY)
    )
    held = job.phases.held
    return Figures(
        seconds=held / 1000 if held else None,
        waited_seconds=job.phases.waiting / 1000,
        gpu_percent=None if gpu is None else gpu.mean,
        cpu_percent=None if cpu is None else cpu.mean,
        memory_percent=None if memory is None else memory.mean,
        instance_hours=held * job.instances / 3_600_000 if held else None,
        idle_device_hours=None if job.hours is None or job.judged_use is None else job.hours.idle,
        spilled_mib=job.spilled_mib,
        failed=float(job.job.status == "FAILED"),
    )


def compare(baseline: Sequence[Figures], candidate: Sequence[Figures], random: Random) -> list[Difference]:
    """Return the differences in every measure that is known on one side at least.

    Args:
        baseline: one for each job.
        candidate: one for each job.
        random: draws the ways to deal out many values.
    """
    found = []
    for measure in MEASURES:
        before = [value for figures in baseline if (value := measure.of(figures)) is not None]
        after = [value for figures in candidate if (value := measure.of(figures)) is not None]
        if before or after:
            found.append(_difference(measure, before, after, random))
    return found


def _difference(measure: Measure, before: Sequence[float], after: Sequence[float], random: Random) -> Difference:
    probability = chance(before, after, random) if before and after and len(before) + len(after) > 2 else None
    return Difference(
        name=measure.name,
        unit=measure.unit,
        baseline=fmean(before) if before else None,
        candidate=fmean(after) if after else None,
        baseline_runs=len(before),
        candidate_runs=len(after),
        probability=probability,
        verdict=_verdict(before, after, probability),
    )


def _verdict(before: Sequence[float], after: Sequence[float], probability: float | None) -> Verdict:
    if not before or not after:
        return Verdict.UNKNOWN
    if len(before) == len(after) == 1:
        return Verdict.SINGLE
    if probability is not None and probability <= SIGNIFICANCE:
        return Verdict.REAL
    return Verdict.NOISE if smallest_chance(len(before), len(after)) <= SIGNIFICANCE else Verdict.TOO_FEW


def smallest_chance(first: int, second: int) -> float:
    """Return the smallest value that `chance` can have for groups of these sizes."""
    ways = comb(first + second, first)
    return (2 if first == second else 1) / ways


def chance(first: Sequence[float], second: Sequence[float], random: Random) -> float:
    """Return how probable a difference of means at least this large is when the two groups do not differ.

    Args:
        first: at least one value.
        second: at least one value.
        random: used above `EXACT_AT_MOST` ways only.
    """
    values = [*first, *second]
    size, total = len(first), sum(values)
    observed = abs(fmean(first) - fmean(second))
    threshold = observed - _ROUNDING * max(1.0, abs(total))

    def is_as_large(group: Sequence[float]) -> bool:
        chosen = sum(group)
        return abs(chosen / size - (total - chosen) / len(second)) >= threshold

    if comb(len(values), size) <= EXACT_AT_MOST:
        ways = list(combinations(values, size))
        return sum(map(is_as_large, ways)) / len(ways)
    hits = sum(is_as_large(random.sample(values, size)) for _ in range(_DRAWS))
    return (hits + 1) / (_DRAWS + 1)
