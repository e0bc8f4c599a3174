"""GetMetricData of the local AWS: moto's answers, and each value looked at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from moto.cloudwatch.models import CloudWatchBackend, cloudwatch_backends

from fairshare.local.inprocess import local_aws
from fairshare.local.moto_metrics import LocalCloudWatchBackend

START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
HOST = [{"Name": "Host", "Value": "job/algo-1"}]


@pytest.fixture
def cloudwatch() -> Iterator[Any]:
    with local_aws() as aws:
        yield aws.client("cloudwatch")


def put(cloudwatch: Any, values: list[tuple[float, float]], **more: Any) -> None:
    """Put values at seconds after the start."""
    datum = {"MetricName": "CPUUtilization", "Dimensions": HOST, "Unit": "Percent"} | more
    namespace = datum.pop("Namespace", "Mine")
    data = [datum | {"Timestamp": START + timedelta(seconds=at), "Value": value} for at, value in values]
    cloudwatch.put_metric_data(Namespace=namespace, MetricData=data)


def query(name: str = "q", statistic: str = "Average", period: int = 60, **metric: Any) -> dict[str, Any]:
    wanted = {"Namespace": "Mine", "MetricName": "CPUUtilization", "Dimensions": HOST} | metric
    return {"Id": name, "MetricStat": {"Metric": wanted, "Period": period, "Stat": statistic}}


def ask(cloudwatch: Any, *queries: dict[str, Any], minutes: int = 10, **more: Any) -> list[dict[str, Any]]:
    times = {"StartTime": START, "EndTime": START + timedelta(minutes=minutes), "ScanBy": "TimestampAscending"}
    answer = cloudwatch.get_metric_data(MetricDataQueries=list(queries), **times | more)
    results: list[dict[str, Any]] = answer["MetricDataResults"]
    return results


def test_the_answers_are_those_of_moto(cloudwatch, monkeypatch):
    rng = Random(3)
    put(cloudwatch, [(rng.uniform(-60, 700), rng.uniform(0, 100)) for _ in range(200)])
    summary = {"Timestamp": START, "StatisticValues": {"SampleCount": 4, "Sum": 10, "Minimum": 1, "Maximum": 5}}
    cloudwatch.put_metric_data(
        Namespace="Mine", MetricData=[{"MetricName": "CPUUtilization", "Dimensions": HOST, "Unit": "Percent"} | summary]
    )
    queries = [
        query(f"q{number}", statistic, period)
        for number, (statistic, period) in enumerate(
            [("Average", 60), ("Sum", 60), ("Maximum", 300), ("Minimum", 1), ("SampleCount", 120)]
        )
    ]
    for scan_by in ("TimestampAscending", "TimestampDescending"):
        ours = ask(cloudwatch, *queries, ScanBy=scan_by)
        with monkeypatch.context() as patch:
            patch.delattr(LocalCloudWatchBackend, "get_metric_data")
            assert ask(cloudwatch, *queries, ScanBy=scan_by) == ours
        assert len(ours[0]["Values"]) == 10


def test_a_metric_is_matched_whole(cloudwatch):
    put(cloudwatch, [(0, 1)])
    put(cloudwatch, [(0, 2)], Namespace="Other")
    put(cloudwatch, [(0, 3)], Dimensions=[{"Name": "Host", "Value": "job/algo-10"}])
    put(cloudwatch, [(0, 4)], Dimensions=[])
    put(cloudwatch, [(0, 5)], MetricName="MemoryUtilization")
    results = ask(cloudwatch, query("a"), query("b", Namespace="Other"), query("c", Dimensions=[]))
    assert [(result["Id"], result["Values"]) for result in results] == [("a", [1]), ("b", [2]), ("c", [4])]


def test_c38_a_period_without_values_is_a_gap_and_the_end_is_exclusive(cloudwatch):
    put(cloudwatch, [(0, 10), (130, 30), (600, 50)])
    (result,) = ask(cloudwatch, query())
    assert result["Timestamps"] == [START, START + timedelta(minutes=2)]
    assert result["Values"] == [10, 30]
    assert ask(cloudwatch, query(MetricName="GPUUtilization"))[0]["Values"] == []


def test_percentiles_are_values_and_an_unknown_statistic_is_refused(cloudwatch):
    put(cloudwatch, [(second, second + 1) for second in range(20)])
    queries = [query(name, statistic) for name, statistic in (("a", "p50"), ("b", "p95"), ("c", "p99.9"))]
    assert [result["Values"] for result in ask(cloudwatch, *queries)] == [[10], [19], [20]]
    with pytest.raises(cloudwatch.exceptions.ClientError, match="Stat: the local AWS has no statistic wide"):
        ask(cloudwatch, query(statistic="wide"))


def test_expressions_are_left_to_moto(cloudwatch):
    put(cloudwatch, [(0, 10)])
    inner = query("m1") | {"ReturnData": False}
    (result,) = ask(cloudwatch, inner, {"Id": "e1", "Expression": "m1"})
    assert (result["Id"], result["Values"]) == ("e1", [10])
    with pytest.raises(cloudwatch.exceptions.ClientError, match="must not equal parameter EndTime"):
        ask(cloudwatch, query(), minutes=0)


def test_two_days_of_minutes_are_looked_at_once(cloudwatch, monkeypatch):
    """moto looks at each value once for every period: 3,000 times 3,000 here."""
    minutes = 2 * 24 * 60
    backend = cloudwatch_backends["123456789012"]["us-east-1"]
    for start in range(0, minutes, 1_000):
        put(cloudwatch, [(60 * minute, 1) for minute in range(start, min(start + 1_000, minutes))])
    looks = 0

    def look(self: CloudWatchBackend) -> Iterator[Any]:
        nonlocal looks
        for datum in self.metric_data:
            looks += 1
            yield datum

    monkeypatch.setattr(type(backend), "get_all_metrics", look)
    results = ask(cloudwatch, *[query(f"q{n}", period=300) for n in range(5)], minutes=minutes)
    assert [len(result["Values"]) for result in results] == [minutes // 5] * 5
    assert looks == minutes
