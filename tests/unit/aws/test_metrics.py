from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fairshare.aws.metrics import CloudWatch
from fairshare.metrics.ports import Datum, MetricQuery, Point
from fairshare.model import CredentialsError, ServiceError, ThrottledError

START = 1_796_061_600_000


def query(number: int = 0) -> MetricQuery:
    return MetricQuery("/aws/sagemaker/TrainingJobs", "GPUUtilization", (("Host", f"job-{number}/algo-1"),), 60)


def at(minute: int) -> datetime:
    return datetime.fromtimestamp(START / 1000 + 60 * minute, UTC)


def result(query_id: str, values: dict[int, float], status: str = "Complete") -> dict[str, Any]:
    return {
        "Id": query_id,
        "Timestamps": [at(m) for m in values],
        "Values": list(values.values()),
        "StatusCode": status,
    }


class FakeCloudWatch:
    """Answers with given pages, or with nothing to everything that is asked."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        self._pages = list(pages)
        self.published: list[dict[str, Any]] = []

    def get_metric_data(self, **request: Any) -> dict[str, Any]:
        if self._pages:
            return self._pages.pop(0)
        return {"MetricDataResults": [result(one["Id"], {}) for one in request["MetricDataQueries"]]}

    def put_metric_data(self, **request: Any) -> dict[str, Any]:
        self.published.append(request)
        return {}


@pytest.fixture
def source_of(checked, session_of):
    def make(fake: Any) -> tuple[CloudWatch, Any]:
        client = checked("cloudwatch", fake)
        return CloudWatch(session_of(cloudwatch=client)), client

    return make


def test_the_request_is_exact_about_the_host_and_the_range(source_of):
    source, client = source_of(FakeCloudWatch())

    source.series([query()], START, START + 300_000)

    [(method, request)] = client.calls
    assert method == "get_metric_data"
    assert (request["StartTime"], request["EndTime"]) == (at(0), at(5))
    assert request["MetricDataQueries"] == [
        {
            "Id": "q0",
            "MetricStat": {
                "Metric": {
                    "Namespace": "/aws/sagemaker/TrainingJobs",
                    "MetricName": "GPUUtilization",
                    "Dimensions": [{"Name": "Host", "Value": "job-0/algo-1"}],
                },
                "Period": 60,
                "Stat": "Average",
            },
        }
    ]


def test_five_hundred_queries_are_one_call_and_repeats_are_asked_once(source_of):
    source, client = source_of(FakeCloudWatch())

    found = source.series([query(n % 501) for n in range(1002)], START, START + 60_000)

    assert [len(request["MetricDataQueries"]) for _, request in client.calls] == [500, 1]
    assert len(found) == 501


def test_c36_pages_in_any_order_are_put_together_and_repeats_counted_once(source_of):
    pages = (
        {"MetricDataResults": [result("q0", {5: 50, 3: 10}, "PartialData")], "NextToken": "more"},
        {"MetricDataResults": [result("q0", {4: 30, 3: 10})]},
    )
    source, client = source_of(FakeCloudWatch(*pages))

    found = source.series([query()], START, START + 600_000)

    assert [point.value for point in found[query()]] == [10, 30, 50]
    assert found[query()][-1] == Point(START + 300_000, 50)
    assert client.calls[1][1]["NextToken"] == "more"


def test_c38_a_first_page_without_values_is_not_the_answer_and_no_values_are_no_zero(source_of):
    pages = (
        {"MetricDataResults": [result("q0", {}, "PartialData"), result("q1", {})], "NextToken": "more"},
        {"MetricDataResults": [result("q0", {1: 42})]},
    )
    source, _ = source_of(FakeCloudWatch(*pages))

    found = source.series([query(0), query(1)], START, START + 600_000)

    assert found[query(0)] == (Point(START + 60_000, 42),)
    assert found[query(1)] == ()


@pytest.mark.parametrize(("code", "status"), [("InternalError", 500), ("Forbidden", 403)])
def test_a_query_that_cannot_be_answered_is_told_by_name(source_of, code, status):
    source, _ = source_of(FakeCloudWatch({"MetricDataResults": [result("q0", {}, code)]}))

    with pytest.raises(ServiceError, match="no answer about GPUUtilization of Host job-0/algo-1") as caught:
        source.series([query()], START, START + 60_000)

    assert (caught.value.aws_code, caught.value.http_status) == (code, status)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [("AccessDenied", 403, CredentialsError), ("Throttling", 400, ThrottledError)],
)
def test_refusals_are_translated(session_of, refusal, code, status, error):
    class Refuses:
        def get_metric_data(self, **request: Any) -> Any:
            raise refusal("no", code, status)

    with pytest.raises(error, match="Cannot read metrics: no"):
        CloudWatch(session_of(cloudwatch=Refuses())).series([query()], START, START + 60_000)


def test_values_are_published_by_namespace_in_batches(source_of):
    fake = FakeCloudWatch()
    source, _ = source_of(fake)
    data = [Datum("FairShare", "Runnable", (("Queue", f"q{n}"),), n, "Count", START) for n in range(1001)]

    source.put([*data, Datum("Other", "Load", (), 0.5, "Percent", START, storage_resolution=1)])

    assert [(one["Namespace"], len(one["MetricData"])) for one in fake.published] == [
        ("FairShare", 1000),
        ("FairShare", 1),
        ("Other", 1),
    ]
    assert fake.published[2]["MetricData"][0] == {
        "MetricName": "Load",
        "Dimensions": [],
        "Timestamp": at(0),
        "Value": 0.5,
        "Unit": "Percent",
        "StorageResolution": 1,
    }
