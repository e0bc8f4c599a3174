"""Metrics of Amazon CloudWatch: the adapter of `fairshare.metrics.ports.MetricSource`.

GetMetricData takes 500 queries a call and pages its answer; a page may be empty, partial, or hold points of a query
that an earlier page began, in any order (cases C36 and C38).
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeVar

from fairshare.aws.errors import translated
from fairshare.aws.paging import pages
from fairshare.aws.session import AwsSession
from fairshare.metrics.ports import Datum, MetricQuery, MetricSource, Point
from fairshare.metrics.series import in_order
from fairshare.metrics.window import MAX_POINTS
from fairshare.model import ServiceError

_QUERIES_A_CALL: Final = 500
_DATA_A_CALL: Final = 1000
"""Values that one PutMetricData takes."""

_FAILED: Final = frozenset({"InternalError", "Forbidden"})

_Item = TypeVar("_Item")


class CloudWatch(MetricSource):
    """Metrics of one account and region."""

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def series(self, queries: Sequence[MetricQuery], start: int, end: int) -> Mapping[MetricQuery, tuple[Point, ...]]:
        """Return the points of each query, oldest first, each instant once.

        Raises:
            ServiceError: AWS could not answer one of the queries.
            FairshareError: AWS refused, or cannot be asked.
        """
        found: dict[MetricQuery, tuple[Point, ...]] = {}
        for batch in _batches(dict.fromkeys(queries), _QUERIES_A_CALL):
            found |= self._ask(batch, start, end)
        return found

    def put(self, data: Sequence[Datum]) -> None:
        """Publish values, in as few calls as PutMetricData allows: one namespace and 1,000 values each."""
        by_namespace: dict[str, list[Datum]] = defaultdict(list)
        for datum in data:
            by_namespace[datum.namespace].append(datum)
        for namespace, of_namespace in by_namespace.items():
            for batch in _batches(of_namespace, _DATA_A_CALL):
                with translated(f"publish metrics under {namespace}", self._session.caller):
                    self._session.client("cloudwatch").put_metric_data(
                        Namespace=namespace, MetricData=[_datum(datum) for datum in batch]
                    )

    def _ask(self, batch: Sequence[MetricQuery], start: int, end: int) -> dict[MetricQuery, tuple[Point, ...]]:
        by_id = {f"q{number}": query for number, query in enumerate(batch)}
        points: dict[str, list[Point]] = defaultdict(list)
        status: dict[str, str] = {}
        request = {
            "MetricDataQueries": [_query(query_id, query) for query_id, query in by_id.items()],
            "StartTime": datetime.fromtimestamp(start / 1000, UTC),
            "EndTime": datetime.fromtimestamp(end / 1000, UTC),
            "ScanBy": "TimestampAscending",
            "MaxDatapoints": MAX_POINTS,
        }
        with translated("read metrics", self._session.caller):
            get_metric_data = self._session.client("cloudwatch").get_metric_data
            for page in pages(get_metric_data, token_name="NextToken", **request):
                for result in page.get("MetricDataResults", []):
                    points[result["Id"]].extend(_points(result))
                    status[result["Id"]] = result.get("StatusCode", "")
        for query_id, code in status.items():
            if code in _FAILED:
                raise _no_answer(by_id[query_id], code)
        return {query: in_order(points[query_id]) for query_id, query in by_id.items()}


def _batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _query(query_id: str, query: MetricQuery) -> dict[str, Any]:
    return {
        "Id": query_id,
        "MetricStat": {
            "Metric": {
                "Namespace": query.namespace,
                "MetricName": query.name,
                "Dimensions": _dimensions(query.dimensions),
            },
            "Period": query.period,
            "Stat": query.statistic,
        },
    }


def _datum(datum: Datum) -> dict[str, Any]:
    return {
        "MetricName": datum.name,
        "Dimensions": _dimensions(datum.dimensions),
        "Timestamp": datetime.fromtimestamp(datum.at / 1000, UTC),
        "Value": datum.value,
        "Unit": datum.unit,
        "StorageResolution": datum.storage_resolution,
    }


def _dimensions(dimensions: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value} for name, value in dimensions]


def _points(result: Mapping[str, Any]) -> Iterator[Point]:
    for at, value in zip(result.get("Timestamps", []), result.get("Values", []), strict=True):
        yield Point(round(at.timestamp() * 1000), float(value))


def _no_answer(query: MetricQuery, code: str) -> ServiceError:
    where = ", ".join(f"{name} {value}" for name, value in query.dimensions)
    return ServiceError(
        f"CloudWatch has no answer about {query.name} of {where}: {code}",
        aws_code=code,
        http_status=403 if code == "Forbidden" else 500,
        hint="Run the same command again; if it stays, check the permission cloudwatch:GetMetricData.",
    )
