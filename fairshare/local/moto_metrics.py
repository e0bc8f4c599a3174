"""moto's CloudWatch, fast enough for weeks of metrics: each value is looked at once, not once for every period.

Imports moto at the top: loaded by `fairshare.local.moto_extension` only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import moto.cloudwatch.urls
from moto.cloudwatch.exceptions import InvalidParameterValue
from moto.cloudwatch.models import CloudWatchBackend, MetricAggregatedDatum, MetricDatum

from fairshare.local.metric_store import Sample, statistic_of

_Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""Namespace, name and dimensions: what makes a metric one of its own."""

_DESCENDING: Final = "TimestampDescending"


class LocalCloudWatchBackend(CloudWatchBackend):  # type: ignore[misc]
    """moto's CloudWatch of one account and region. Metrics are matched exactly, namespace and dimensions too."""

    def get_metric_data(
        self, queries: Sequence[Mapping[str, Any]], start_time: datetime, end_time: datetime, scan_by: str = ""
    ) -> list[dict[str, Any]]:
        """GetMetricData, for requests of metrics only; expressions, and what is to be refused, are left to moto."""
        start, end = start_time.replace(microsecond=0), end_time.replace(microsecond=0)
        if start >= end or any("MetricStat" not in query for query in queries):
            answer: list[dict[str, Any]] = super().get_metric_data(queries, start_time, end_time, scan_by)
            return answer
        points: dict[_Key, list[Any]] = defaultdict(list)
        for point in self.get_all_metrics():
            if start <= point.timestamp < end:
                points[_key(point.namespace, point.name, ((d.name, d.value) for d in point.dimensions))].append(point)
        wanted = [query for query in queries if query.get("ReturnData", True)]
        return [_answer(query, points[_key_of(query)], start, scan_by) for query in wanted]

    @property
    def _url_module(self) -> SimpleNamespace:
        return SimpleNamespace(url_bases=moto.cloudwatch.urls.url_bases, url_paths=moto.cloudwatch.urls.url_paths)


def sample_of(datum: MetricDatum | MetricAggregatedDatum) -> Sample:
    """Read a value, or a set of statistics, of moto's."""
    moment = datum.timestamp if datum.timestamp.tzinfo else datum.timestamp.replace(tzinfo=UTC)
    at = round(moment.timestamp() * 1000)
    if isinstance(datum, MetricAggregatedDatum):
        return Sample(at, datum.min, datum.max, datum.sum, datum.sample_count)
    return Sample(at, datum.value, datum.value, datum.value, 1)


def _statistic(name: str, data: Iterable[MetricDatum | MetricAggregatedDatum]) -> float:
    try:
        return statistic_of(name, [sample_of(datum) for datum in data])
    except ValueError as error:
        raise InvalidParameterValue(f"Stat: {error}") from None


def _key(namespace: str, name: str, dimensions: Iterable[tuple[str, str]]) -> _Key:
    return namespace, name, tuple(sorted(dimensions))


def _key_of(query: Mapping[str, Any]) -> _Key:
    metric = query["MetricStat"]["Metric"]
    dimensions = ((dimension["Name"], dimension["Value"]) for dimension in metric.get("Dimensions") or ())
    return _key(metric["Namespace"], metric["MetricName"], dimensions)


def _answer(query: Mapping[str, Any], points: Iterable[Any], start: datetime, scan_by: str) -> dict[str, Any]:
    """Return the values of one query, a period without points left out; periods are counted from the start."""
    wanted = query["MetricStat"]
    statistic, unit, period = wanted["Stat"], wanted.get("Unit"), timedelta(seconds=int(wanted["Period"]))
    periods: dict[int, list[Any]] = defaultdict(list)
    for point in points:
        if not unit or point.unit == unit:
            periods[(point.timestamp - start) // period].append(point)
    timestamps, values = [], []
    for number in sorted(periods, reverse=scan_by == _DESCENDING):
        timestamps.append(start + number * period)
        values.append(_statistic(statistic, periods[number]))
    label = query.get("Label") or f"{wanted['Metric']['MetricName']} {statistic}"
    return {
        "id": query["Id"],
        "label": label,
        "values": values,
        "timestamps": timestamps,
        "status_code": "Complete",
    }
