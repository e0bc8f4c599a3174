"""Reading alarms: translation, pages, history. Requests and answers are checked against botocore's model."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fairshare.aws.alarms import CloudWatchAlarms, definition_from, put_request
from fairshare.config.project import FairshareConfig, Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.metrics.ports import AlarmState, StateChange
from fairshare.model import AlarmDefinition, AlarmMetric, CredentialsError
from fairshare.provision.desired import desired_state

NOW = 1_796_061_600_000
MOMENT = datetime.fromtimestamp(NOW / 1000, UTC)
TOPIC = "arn:aws:sns:us-west-2:111122223333:ops"
METRIC = AlarmMetric("m1", "fairshare", "Blocked", (("Stack", "ml"), ("Queue", "ml-gpu")), "Maximum", 300)
PLAIN = AlarmDefinition(
    metrics=(METRIC,),
    comparison_operator="GreaterThanThreshold",
    threshold=0.0,
    evaluation_periods=3,
    datapoints_to_alarm=2,
    treat_missing_data="breaching",
    description="What to do.",
    actions_enabled=False,
    alarm_actions=(TOPIC,),
    ok_actions=(TOPIC,),
)


def answer_of(request: dict[str, Any]) -> dict[str, Any]:
    """What DescribeAlarms answers after PutMetricAlarm."""
    name = request["AlarmName"]
    return request | {
        "AlarmArn": f"arn:aws:cloudwatch:us-west-2:111122223333:alarm:{name}",
        "StateValue": "OK",
        "StateReason": "fine",
        "StateUpdatedTimestamp": MOMENT,
        "StateTransitionedTimestamp": MOMENT,
        "AlarmConfigurationUpdatedTimestamp": MOMENT,
    }


@pytest.mark.parametrize(
    "definition",
    [
        PLAIN,
        replace(PLAIN, metrics=(replace(METRIC, statistic="p90", unit="Count"),)),
        replace(
            PLAIN,
            metrics=(
                replace(METRIC, returns_data=False, unit="Count"),
                AlarmMetric(id="e1", expression="m1 * 2"),
            ),
        ),
        replace(PLAIN, metrics=(AlarmMetric(id="q1", expression="SELECT MAX(x) FROM y", period=60),)),
    ],
)
def test_an_alarm_comes_back_as_it_was_put(definition):
    assert definition_from(answer_of(put_request("a", definition))) == definition


def test_every_request_of_the_default_alarms_is_valid(checked):
    class Fake:
        def put_metric_alarm(self, **request: Any) -> dict[str, Any]:
            return {}

    environment = ServiceEnvironmentConfig(capacity=1, instance_types=("ml.c5.xlarge",))
    queue = QueueConfig(service_environment="gpu", fairshare=FairshareConfig(shares={"A": "1", "T*": "1"}))
    project = Project(stack="ml", service_environments={"gpu": environment}, queues={"gpu": queue})
    client = checked("cloudwatch", Fake())

    for alarm in desired_state(project).alarms:
        client.put_metric_alarm(**put_request(alarm.name, alarm.definition))

    assert len(client.calls) == 8


def test_what_aws_leaves_out_holds_its_default():
    found = definition_from({"MetricName": "A", "Namespace": "n", "Statistic": "Sum", "Period": 60, "Threshold": 1.0})

    assert (found.treat_missing_data, found.datapoints_to_alarm, found.evaluation_periods) == ("missing", 1, 1)
    assert found.actions_enabled
    assert definition_from({"EvaluationPeriods": 4}).datapoints_to_alarm == 4


class FakeCloudWatch:
    """Two pages of alarms and two of history."""

    def describe_alarms(self, **request: Any) -> dict[str, Any]:
        if "NextToken" in request:
            composite = {key: value for key, value in answer_of({"AlarmName": "c"}).items() if key != "StateReason"}
            rule = {"AlarmRule": "ALARM(b)", "ActionsEnabled": True, "StateValue": "ALARM"}
            return {"CompositeAlarms": [composite | rule]}
        names = request.get("AlarmNames", ["b", "a"])
        found = [answer_of(put_request(name, PLAIN)) for name in names]
        return {"MetricAlarms": found, "NextToken": "more"}

    def describe_alarm_history(self, **request: Any) -> dict[str, Any]:
        if "NextToken" in request:
            return {"AlarmHistoryItems": [self._item("a", "OK", 60), self._item("other", "OK", 0)]}
        return {"AlarmHistoryItems": [self._item("a", "ALARM", 0), self._item("a", None, 0)], "NextToken": "more"}

    @staticmethod
    def _item(name: str, state: str | None, seconds: int) -> dict[str, Any]:
        data = "{}" if state is None else json.dumps({"newState": {"stateValue": state}})
        moment = datetime.fromtimestamp(NOW / 1000 + seconds, UTC)
        return {"AlarmName": name, "Timestamp": moment, "HistoryItemType": "StateUpdate", "HistoryData": data}


@pytest.fixture
def source(checked, session_of):
    client = checked("cloudwatch", FakeCloudWatch())
    return CloudWatchAlarms(session_of(cloudwatch=client)), client


def test_c40_metric_and_composite_alarms_of_all_pages_are_read(source):
    alarms, client = source

    found = alarms.alarms("ml-")

    assert [alarm.name for alarm in found] == ["a", "b", "c"]
    assert client.calls[0][1] == {
        "AlarmTypes": ["MetricAlarm", "CompositeAlarm"],
        "MaxRecords": 100,
        "AlarmNamePrefix": "ml-",
    }
    assert found[0].definition == PLAIN
    assert (found[0].state, found[0].reason, found[0].since) == (AlarmState.OK, "fine", NOW)
    assert (found[2].state, found[2].reason, found[2].definition.rule) == (AlarmState.ALARM, "", "ALARM(b)")


def test_all_alarms_are_asked_for_without_a_prefix(source):
    alarms, client = source
    alarms.alarms()

    assert "AlarmNamePrefix" not in client.calls[0][1]


def test_names_are_asked_for_a_hundred_at_a_time(source):
    alarms, client = source
    alarms.alarms(names={f"alarm-{number}" for number in range(101)})

    asked = [len(request["AlarmNames"]) for _, request in client.calls if "NextToken" not in request]
    assert asked == [100, 1]


def test_the_history_of_many_alarms_is_one_listing(source):
    alarms, client = source

    found = alarms.alarm_history(["a", "b"], NOW)

    assert found == {"a": (StateChange(NOW, AlarmState.ALARM), StateChange(NOW + 60_000, AlarmState.OK))}
    assert len(client.calls) == 2
    assert "AlarmName" not in client.calls[0][1]


def test_the_history_of_one_alarm_is_asked_for_by_name(source):
    alarms, client = source
    alarms.alarm_history(["a"], NOW)

    assert client.calls[0][1]["AlarmName"] == "a"


def test_a_refusal_names_what_was_done(checked, session_of, refusal):
    class Refusing:
        def describe_alarms(self, **request: Any) -> dict[str, Any]:
            raise refusal("not authorized to perform: cloudwatch:DescribeAlarms", "AccessDenied", 403)

    alarms = CloudWatchAlarms(session_of(cloudwatch=checked("cloudwatch", Refusing())))

    with pytest.raises(CredentialsError, match="read alarms"):
        alarms.alarms()
