"""The values that were published as metrics, kept so that any statistic of any period is found quickly."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

Dimensions = Iterable[tuple[str, str]]


class SeriesKey(NamedTuple):
    """What names one metric: dimensions match whole and exactly, in any order."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]


class Sample(NamedTuple):
    """One published value, or the statistics of ``size`` of them, at ``at`` ms."""

    at: int
    low: float
    high: float
    total: float
    size: float


class MetricStore:
    """Samples of every metric, each in the order of time."""

    def __init__(self) -> None:
        self._series: dict[SeriesKey, list[Sample]] = {}

    def add(self, key: SeriesKey, sample: Sample) -> None:
        """Keep a sample."""
        series = self._series.setdefault(key, [])
        if not series or series[-1].at <= sample.at:
            series.append(sample)
        else:
            insort(series, sample, key=lambda kept: kept.at)

    def points(self, key: SeriesKey, statistic: str, step: int, begin: int, end: int) -> Iterator[tuple[int, float]]:
        """Yield the first instant and the value of each period that has one, oldest first.

        Args:
            key: of the metric.
            statistic: as CloudWatch calls it: Average, Sum, Minimum, Maximum, SampleCount, p90.
            step: length of a period, milliseconds.
            begin: of the first period.
            end: samples from here on do not count.

        Raises:
            ValueError: there is no such statistic.
        """
        series = self._series.get(key, [])
        first, last = (bisect_left(series, at, key=lambda kept: kept.at) for at in (begin, end))
        for number, members in groupby(series[first:last], lambda sample: (sample.at - begin) // step):
            yield begin + number * step, statistic_of(statistic, list(members))


def statistic_of(name: str, samples: Sequence[Sample]) -> float:
    """Return a statistic of the samples of a period.

    Raises:
        ValueError: there is no such statistic.
    """
    count = sum(sample.size for sample in samples)
    match name:
        case "Sum":
            return sum(sample.total for sample in samples)
        case "Average":
            return sum(sample.total for sample in samples) / count
        case "Minimum":
            return min(sample.low for sample in samples)
        case "Maximum":
            return max(sample.high for sample in samples)
        case "SampleCount":
            return count
    if not re.fullmatch(r"p\d{1,2}(\.\d+)?|p100", name):
        raise ValueError(f"the local AWS has no statistic {name}")
    return _percentile(float(name[1:]) / 100 * count, samples)


def _percentile(rank: float, samples: Sequence[Sample]) -> float:
    """Return the smallest value that so many samples do not exceed; statistics count with their mean."""
    seen = 0.0
    ordered = sorted((sample.total / sample.size, sample.size) for sample in samples)
    for value, count in ordered:
        seen += count
        if seen >= rank:
            return value
    return ordered[-1][0]
