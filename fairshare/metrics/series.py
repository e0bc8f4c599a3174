"""Series of points: in order, without repeats, with their gaps, and what they amount to.

A value that is missing is not zero: a mean rests on the points there are, and says how many (case C38).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import Final, NamedTuple

from fairshare.metrics.ports import Point

_PUBLISHED_EVERY: Final = 60
"""Seconds: the longest time between two values of a host."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_NO_BAR: Final = " "


class Sample(NamedTuple):
    """A value and how much it counts, for instance the number of devices it is the mean of."""

    value: float
    weight: float = 1


@dataclass(frozen=True)
class Use:
    """What samples amount to, in their unit. Quantiles are nearest-rank: values that were measured."""

    mean: float
    p10: float
    p50: float
    p95: float
    points: int
    """On how many values it rests."""


@dataclass(frozen=True)
class Series:
    """One metric of one host, or of all hosts of a job together.

    ``normalised``: per cents are of one device, 0 to 100; else the value is as published (case C35).
    """

    name: str
    host: str | None
    unit: str
    normalised: bool
    points: tuple[Point, ...]
    period: int
    """Seconds between points; at least the period asked for, more when the metric is published less often."""

    @property
    def latest(self) -> float | None:
        """The newest value; None without data."""
        return self.points[-1].value if self.points else None

    @property
    def use(self) -> Use | None:
        """What the points amount to; None without data."""
        return summarise([Sample(point.value) for point in self.points])

    def with_gaps(self) -> list[tuple[int, float | None]]:
        """Return the points, with a None for each period without a value between the first and the last."""
        if not self.points:
            return []
        step = self.period * 1000
        filled: list[tuple[int, float | None]] = []
        for before, after in pairwise(self.points):
            filled.append(before)
            missing = round((after.at - before.at) / step) - 1
            filled.extend((before.at + step * number, None) for number in range(1, missing + 1))
        return [*filled, self.points[-1]]


def in_order(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return points oldest first, each instant once: pages may come in any order and overlap (case C36)."""
    return tuple(Point(at, value) for at, value in sorted(dict(points).items()))


def spacing(points: Sequence[Point], period: int) -> int:
    """Return the seconds between points as they were published: the period, or what is usual when it is shorter.

    SageMaker publishes each minute, the local AWS perhaps each second. Asked for seconds, the values of a minute are a
    minute apart, and nothing is missing between them.
    """
    distances = [(after.at - before.at) // 1000 for before, after in pairwise(points)]
    if period >= _PUBLISHED_EVERY or not distances:
        return period
    return max(period, min(_PUBLISHED_EVERY, median_low(distances)))


def summarise(samples: Sequence[Sample]) -> Use | None:
    """Return the weighted mean and quantiles; None without samples."""
    total = sum(sample.weight for sample in samples)
    if not total:
        return None
    mean = sum(sample.value * sample.weight for sample in samples) / total
    ordered = sorted(samples)
    p10, p50, p95 = (_quantile(ordered, portion * total) for portion in (0.10, 0.50, 0.95))
    return Use(mean, p10, p50, p95, len(samples))


def _quantile(ordered: Sequence[Sample], rank: float) -> float:
    """Return the smallest value that samples of at least that much weight do not exceed."""
    weight = 0.0
    for sample in ordered:
        weight += sample.weight
        if weight >= rank:
            return sample.value
    return ordered[-1].value


def sparkline(values: Sequence[float | None], width: int, top: float) -> str:
    """Return a line of ``width`` bars at most, each the mean of its part; a part without values is a space.

    Args:
        values: evenly spaced; None where there is none.
        width: cells.
        top: value of the highest bar; more is drawn as high.
    """
    count = min(width, len(values))
    parts = [values[len(values) * n // count : len(values) * (n + 1) // count] for n in range(count)]
    return "".join(_bar([value for value in part if value is not None], top) for part in parts)


def _bar(known: Sequence[float], top: float) -> str:
    if not known:
        return _NO_BAR
    level = sum(known) / len(known) / top if top > 0 else 0
    return _BARS[min(len(_BARS) - 1, max(0, int(level * len(_BARS))))]
