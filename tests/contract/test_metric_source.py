"""`MetricSource` on the local AWS: what is put under SageMaker's names comes back through GetMetricData."""

from __future__ import annotations

import pytest

from fairshare.aws.metrics import CloudWatch
from fairshare.aws.session import AwsSession
from fairshare.local.testkit import LocalAWS
from fairshare.metrics.ports import Datum, MetricQuery, Point

START = 1_796_061_600_000
NAMESPACE = "/aws/sagemaker/TrainingJobs"


def host(name: str) -> tuple[tuple[str, str], ...]:
    return (("Host", name),)


@pytest.fixture
def source(monkeypatch):
    with LocalAWS() as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        yield CloudWatch(AwsSession(region=aws.region))


def put(source, name, values, *, step=60, metric="GPUUtilization"):
    source.put(
        [
            Datum(NAMESPACE, metric, host(name), value, "Percent", START + n * step * 1000, min(step, 60))
            for n, value in enumerate(values)
        ]
    )


def test_points_come_back_in_order_and_the_end_is_exclusive(source):
    put(source, "job/algo-1", [40.0, 0.0, 80.0])
    query = MetricQuery(NAMESPACE, "GPUUtilization", host("job/algo-1"), 60)

    found = source.series([query], START, START + 120_000)

    assert found == {query: (Point(START, 40), Point(START + 60_000, 0))}


def test_a_host_is_matched_exactly_and_never_as_a_prefix(source):
    put(source, "job/algo-1", [40.0])
    put(source, "job/algo-10", [90.0])
    put(source, "job-2/algo-1", [70.0])
    queries = [MetricQuery(NAMESPACE, "GPUUtilization", host(f"job/algo-{n}"), 60) for n in (1, 10, 2)]

    found = source.series(queries, START, START + 60_000)

    assert [[point.value for point in found[query]] for query in queries] == [[40], [90], []]


def test_seconds_are_kept_and_averaged_over_a_longer_period(source):
    put(source, "job/algo-1", [10.0, 20.0, 30.0, 40.0], step=1, metric="CPUUtilization")
    fine, coarse = (MetricQuery(NAMESPACE, "CPUUtilization", host("job/algo-1"), period) for period in (1, 60))

    found = source.series([fine, coarse], START, START + 60_000)

    assert [point.value for point in found[fine]] == [10, 20, 30, 40]
    assert found[coarse] == (Point(START, 25),)
