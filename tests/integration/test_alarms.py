"""Alarms on the local AWS: made by setup, born without data, evaluated, told of, reviewed and replayed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.context import AppContext
from fairshare.cli.main import run
from fairshare.local.testkit import START, LocalAWS
from fairshare.scheduler.clock import VirtualClock

PROJECT = """\
version: 1
stack: lab
region: us-east-1
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
queues:
  train: {service_environment: pool, fairshare: {shares: {A: {weight_factor: 1}}}}
alarms: {sns_topic: "arn:aws:sns:us-east-1:123456789012:ops", oldest_wait: {threshold: 100, period: 1m}}
"""
QUEUE = [{"Name": "Stack", "Value": "lab"}, {"Name": "Queue", "Value": "lab-train"}]
SHARE = [*QUEUE, {"Name": "Share", "Value": "A"}]
BEGIN = datetime.fromtimestamp(START / 1000, UTC)
DAYS = 14


class Lab:
    """A project, a local AWS on a virtual clock, and the command line on both."""

    def __init__(self, aws: LocalAWS, clock: VirtualClock, folder: Path, capsys: Any) -> None:
        self.aws = aws
        self.clock = clock
        self.cloudwatch = aws.client("cloudwatch")
        self._folder = folder
        self._capsys = capsys

    def __call__(self, *argv: str) -> tuple[int, Any]:
        """Run a command; return its exit code and its document."""

        def context(options: Any) -> AppContext:
            made = AppContext(options, self.aws.environment() | {"HOME": str(self._folder)}, self._folder)
            made.__dict__["clock"] = self.clock
            return made

        code = run((*argv, "-o", "json"), context)
        return code, json.loads(self._capsys.readouterr().out)

    def put(self, name: str, dimensions: list[dict[str, str]], values: Iterable[tuple[float, float]]) -> None:
        """Publish values: seconds since the begin, and the value; a thousand a call."""
        data = [
            {"MetricName": name, "Dimensions": dimensions, "Timestamp": BEGIN + timedelta(seconds=at), "Value": value}
            for at, value in values
        ]
        for first in range(0, len(data), 1000):
            self.cloudwatch.put_metric_data(Namespace="fairshare", MetricData=data[first : first + 1000])

    def now(self) -> float:
        """Seconds since the begin."""
        return (self.clock.now() - START) / 1000


@pytest.fixture
def lab(tmp_path, capsys, monkeypatch):
    (tmp_path / "fairshare.yaml").write_text(PROJECT)
    clock = VirtualClock(START)
    with LocalAWS(clock=clock) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        yield Lab(aws, clock, tmp_path, capsys)


def test_alarms_are_born_without_data_and_follow_the_gauges(lab):
    topic = lab.aws.client("sns").create_topic(Name="ops")["TopicArn"]
    sqs = lab.aws.client("sqs")
    mailbox = sqs.create_queue(QueueName="mail")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=mailbox, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    lab.aws.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"}
    )
    assert lab("setup", "--yes")[0] == 0

    code, born = lab("alarms")
    assert code == 11
    assert {alarm["state"] for alarm in born["alarms"]} == {"INSUFFICIENT_DATA"}
    assert lab("setup", "--dry-run", "--detailed-exitcode")[0] == 0

    for _ in range(5):
        lab.put("OldestWaitSeconds", SHARE, [(lab.now(), 500)])
        lab.put("CollectorRuns", QUEUE, [(lab.now(), 1)])
        lab.aws.advance(60)
    code, found = lab("alarms")
    states = {alarm["name"]: alarm for alarm in found["alarms"]}
    assert code == 10
    assert states["lab-train-oldest-wait-A"]["state"] == "ALARM"
    assert states["lab-train-oldest-wait-A"]["since"] == "2026-01-01T00:02:00.000Z"
    assert states["lab-train-collector-silent"]["state"] == "OK"
    assert states["lab-train-blocked"]["state"] == "INSUFFICIENT_DATA"

    messages = [
        json.loads(m["Body"]) for m in sqs.receive_message(QueueUrl=mailbox, MaxNumberOfMessages=10)["Messages"]
    ]
    assert [(m["AlarmName"], m["OldStateValue"], m["NewStateValue"]) for m in messages] == [
        ("lab-train-collector-silent", "INSUFFICIENT_DATA", "OK"),
        ("lab-train-oldest-wait-A", "INSUFFICIENT_DATA", "ALARM"),
    ]

    lab.aws.advance(3600)
    states = {alarm["name"]: alarm["state"] for alarm in lab("alarms")[1]["alarms"]}
    assert states["lab-train-oldest-wait-A"] == "INSUFFICIENT_DATA"
    assert states["lab-train-collector-silent"] == "ALARM"

    assert lab("teardown", "--yes")[0] == 0
    assert lab("alarms", "--all") == (0, {"api_version": "fairshare/v1", "kind": "AlarmList", "alarms": []})


def test_a_change_of_an_alarm_keeps_its_state_and_its_tags(lab):
    lab("setup", "--yes")
    lab.put("OldestWaitSeconds", SHARE, [(0, 5), (60, 5)])
    lab.aws.advance(120)
    before = lab.cloudwatch.describe_alarms(AlarmNames=["lab-train-oldest-wait-A"])["MetricAlarms"][0]
    (lab._folder / "fairshare.yaml").write_text(PROJECT.replace("threshold: 100", "threshold: 2h"))

    code, plan = lab("setup", "--yes")

    assert code == 0
    changed = [change for change in plan["changes"] if change["action"] == "UPDATE"]
    assert [change["key"] for change in changed] == ["train-oldest-wait-A"]
    assert changed[0]["fields"] == [{"field": "threshold", "observed": "100", "wanted": "7200"}]
    after = lab.cloudwatch.describe_alarms(AlarmNames=["lab-train-oldest-wait-A"])["MetricAlarms"][0]
    assert (before["StateValue"], after["StateValue"], after["Threshold"]) == ("OK", "OK", 7200)
    tags = lab.cloudwatch.list_tags_for_resource(ResourceARN=after["AlarmArn"])["Tags"]
    assert tags == [{"Key": "fairshare:stack", "Value": "lab"}]


def test_rules_of_eventbridge_see_alarms_change(lab):
    logs, events = lab.aws.client("logs"), lab.aws.client("events")
    logs.create_log_group(logGroupName="/aws/events/alarms")
    (group,) = logs.describe_log_groups(logGroupNamePrefix="/aws/events/alarms")["logGroups"]
    pattern = {"source": ["aws.cloudwatch"], "detail": {"state": {"value": ["ALARM"]}}}
    events.put_rule(Name="alarms", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="alarms", Targets=[{"Id": "1", "Arn": group["arn"].removesuffix(":*")}])
    lab.cloudwatch.put_metric_alarm(
        AlarmName="a",
        Namespace="fairshare",
        MetricName="Blocked",
        Dimensions=QUEUE,
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )
    lab.put("Blocked", QUEUE, [(0, 0)])
    lab.aws.advance(60)
    lab.put("Blocked", QUEUE, [(60, 1)])

    (event,) = logs.filter_log_events(logGroupName="/aws/events/alarms")["events"]
    message = json.loads(event["message"])
    assert message["detail-type"] == "CloudWatch Alarm State Change"
    assert (message["detail"]["alarmName"], message["detail"]["previousState"]) == ("a", {"value": "OK"})


def test_listings_of_alarms_come_in_pages_and_take_filters_together(lab):
    for number in range(5):
        rule = {"AlarmName": f"c{number}", "AlarmRule": "FALSE", "Tags": [{"Key": "a", "Value": "b"}]}
        lab.cloudwatch.put_composite_alarm(**rule)
    lab.cloudwatch.set_alarm_state(AlarmName="c3", StateValue="ALARM", StateReason="by hand")

    def names(**which: Any) -> list[list[str]]:
        pages = lab.cloudwatch.get_paginator("describe_alarms").paginate(**which)
        return [[alarm["AlarmName"] for alarm in page["CompositeAlarms"]] for page in pages]

    assert names() == [[]]  # composite alarms have to be asked for
    assert names(AlarmTypes=["CompositeAlarm"], MaxRecords=2) == [["c0", "c1"], ["c2", "c3"], ["c4"]]
    assert names(AlarmTypes=["CompositeAlarm"], AlarmNamePrefix="c", StateValue="ALARM") == [["c3"]]
    lab.aws.advance(60)
    lab.cloudwatch.describe_alarms()
    history = lab.cloudwatch.describe_alarm_history(AlarmName="c3", AlarmTypes=["CompositeAlarm"])["AlarmHistoryItems"]
    assert [item["HistorySummary"] for item in history] == [
        "Alarm updated from ALARM to OK",
        "Alarm updated from INSUFFICIENT_DATA to ALARM",
        'Alarm "c3" created',
    ]


def shapes() -> list[Callable[[int], float]]:
    """Courses of metrics, hour by hour: quiet, busy by day, with incidents, busy always."""
    return [
        lambda n: 20.0 + n % 7,
        lambda n: 60.0 + 50.0 * math.sin(n / 3.82),
        lambda n: 150.0 if n % 125 < 5 else 30.0,
        lambda n: 90.0 + n % 3,
    ]


def test_two_weeks_of_twenty_alarms_take_few_calls(lab):
    lab.aws.advance(DAYS * 86_400)
    for number in range(20):
        dimensions = [{"Name": "Queue", "Value": f"q{number}"}]
        shape = shapes()[number % 4]
        lab.put("OldestWaitSeconds", dimensions, ((n * 3600, shape(n)) for n in range(DAYS * 24)))
        lab.cloudwatch.put_metric_alarm(
            AlarmName=f"lab-{number:02}",
            Namespace="fairshare",
            MetricName="OldestWaitSeconds",
            Dimensions=dimensions,
            Statistic="Maximum",
            Period=3600,
            EvaluationPeriods=2,
            Threshold=100,
            ComparisonOperator="GreaterThanThreshold",
            AlarmActions=["arn:aws:sns:us-east-1:123456789012:ops"],
        )
    before = len(lab.aws.calls)

    code, review = lab("alarms", "review")
    backtest = lab("alarms", "backtest", "--set", "threshold=80")[1]

    operations = [call.operation for call in lab.aws.calls[before:]]
    assert code == 0
    assert operations.count("GetMetricData") == 2
    assert len(operations) <= 6
    fired = [len(alarm["would_have_fired"]) for alarm in review["alarms"]]
    assert fired == [0, 14, 3, 0] * 5
    assert [len(alarm["would_have_fired"]) for alarm in backtest["alarms"]] == [0, 14, 3, 1] * 5
    assert [len(alarm["as_defined"]) for alarm in backtest["alarms"]] == fired
    assert {finding["id"] for alarm in review["alarms"] for finding in alarm["findings"]} == set()


def test_alarms_and_their_states_survive_the_end_of_a_server(tmp_path):
    def read(aws: LocalAWS) -> list[tuple[Any, ...]]:
        found = aws.client("cloudwatch").describe_alarms(AlarmNames=["a"])["MetricAlarms"]
        return [(alarm["StateValue"], alarm["StateReason"], alarm["StateUpdatedTimestamp"]) for alarm in found]

    with LocalAWS("server", state_dir=tmp_path) as aws:
        cloudwatch = aws.client("cloudwatch")
        cloudwatch.put_metric_alarm(
            AlarmName="a",
            Namespace="fairshare",
            MetricName="Blocked",
            Statistic="Maximum",
            Period=3600,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanOrEqualToThreshold",
        )
        cloudwatch.put_metric_data(Namespace="fairshare", MetricData=[{"MetricName": "Blocked", "Value": 1}])
        before = read(aws)

    with LocalAWS("server", state_dir=tmp_path) as aws:
        assert read(aws) == before
    assert before[0][0] == "ALARM"
