"""Drift of alarms: random changes made from outside, through boto3, against the local AWS.

The plan names exactly the fields that were changed, applying it puts them right, and then there is nothing to do. What
is no change never shows up: dimensions and actions in another order, tags of others, the state of an alarm.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairshare.aws.alarm_provisioner import AlarmProvisioner
from fairshare.aws.session import AwsSession
from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import FairshareConfig, Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.local.inprocess import local_aws
from fairshare.provision.apply import apply
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.plan import Action, Plan, plan_setup
from fairshare.scheduler.clock import VirtualClock

REGION = "us-west-2"
ROUNDS = 40
TOPIC = "arn:aws:sns:us-west-2:111122223333:ops"
OTHER = "arn:aws:sns:us-west-2:111122223333:other"
OFF = {"enabled": False}
DESIRED = Desired(
    "ml",
    alarms=desired_state(
        Project(
            stack="ml",
            service_environments={"gpu": ServiceEnvironmentConfig(capacity=4, instance_types=("ml.g5.xlarge",))},
            queues={"gpu": QueueConfig(service_environment="gpu", fairshare=FairshareConfig(shares={"A": "1"}))},
            tags={"team": "search"},
            alarms=AlarmsSection.model_validate(
                {"sns_topic": TOPIC}
                | dict.fromkeys(("share_starved", "capacity_idle", "utilization_low", "blocked"), OFF)
            ),
        )
    ).alarms,
)
VALUES: dict[str, tuple[str, list[Any]]] = {
    "Threshold": ("threshold", [0.25, 1e-9, 1e12, 3.0]),
    "Period": ("period", [60, 900]),
    "EvaluationPeriods": ("evaluation_periods", [30, 31]),
    "TreatMissingData": ("treat_missing_data", ["ignore", "notBreaching"]),
    "ComparisonOperator": ("comparison_operator", ["LessThanOrEqualToThreshold"]),
    "Statistic": ("statistic", ["SampleCount"]),
    "AlarmDescription": ("description", ["", "do nothing"]),
    "AlarmActions": ("alarm_actions", [[], [OTHER], [TOPIC, OTHER]]),
    "OKActions": ("ok_actions", [[]]),
    "InsufficientDataActions": ("insufficient_data_actions", [[OTHER]]),
    "ActionsEnabled": ("actions_enabled", [False]),
    "Dimensions": ("dimensions", [[], [{"Name": "Queue", "Value": "ml-gpu"}]]),
    "MetricName": ("metric", ["Blocked2"]),
}
"""Field of PutMetricAlarm -> field of a plan, and what an outsider may set."""


@dataclass
class Outsider:
    """Somebody with boto3, who notes what is no longer as it should be: fields by alarm, None = the alarm is gone."""

    cloudwatch: Any
    rng: random.Random
    drift: dict[str, set[str] | None] = field(default_factory=dict)

    def change_something(self, name: str) -> None:
        """Make one change of an alarm."""
        (alarm,) = self.cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        match self.rng.choice(["field", "field", "field", "tag", "order", "gone", "state"]):
            case "field" if "MetricName" in alarm:
                key = self.rng.choice(sorted(VALUES))
                self._put(alarm, {key: self.rng.choice(VALUES[key][1])})
                self.drift[name] = {VALUES[key][0]}
            case "tag":
                value = self.rng.choice(["ads", None])
                self._tag(alarm["AlarmArn"], "team", value)
                self.drift[name] = {"tags.team"}
            case "order" if "MetricName" in alarm:
                self._put(alarm, {"Dimensions": alarm["Dimensions"][::-1]})
                self._tag(alarm["AlarmArn"], "theirs", "x")
            case "gone":
                self.cloudwatch.delete_alarms(AlarmNames=[name])
                self.drift[name] = None
            case _:
                self.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="by hand")

    def _put(self, alarm: dict[str, Any], changes: dict[str, Any]) -> None:
        kept = {*VALUES, "AlarmName", "Namespace", "DatapointsToAlarm"}
        self.cloudwatch.put_metric_alarm(**{key: value for key, value in alarm.items() if key in kept} | changes)

    def _tag(self, arn: str, key: str, value: str | None) -> None:
        if value is None:
            self.cloudwatch.untag_resource(ResourceARN=arn, TagKeys=[key])
        else:
            self.cloudwatch.tag_resource(ResourceARN=arn, Tags=[{"Key": key, "Value": value}])


@pytest.fixture
def provisioner(monkeypatch: pytest.MonkeyPatch) -> Iterator[AlarmProvisioner]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with local_aws(clock=VirtualClock(1_796_061_600_000)) as aws:
        yield AlarmProvisioner(AwsSession(region=REGION), aws.clock)


def make_plan(provisioner: AlarmProvisioner) -> Plan:
    observed = provisioner.observe(DESIRED.names, DESIRED.stack)
    return plan_setup(DESIRED, observed, region=REGION, account_id="123456789012")


def test_the_plan_names_exactly_what_somebody_changed(provisioner: AlarmProvisioner) -> None:
    apply(make_plan(provisioner), provisioner, lambda change: None)
    rng = random.Random(20261130)
    outsider = Outsider(AwsSession(region=REGION).client("cloudwatch"), rng)
    seen: set[str] = set()
    for _ in range(ROUNDS):
        outsider.drift = {}
        for name in rng.sample(sorted(DESIRED.names), 2):
            outsider.change_something(name)

        plan = make_plan(provisioner)
        found = {
            change.name: None if change.action is Action.CREATE else {field.field for field in change.fields}
            for change in plan.pending
        }
        assert found == outsider.drift
        seen |= {name for fields in found.values() for name in fields or {"gone"}}

        made: list[str] = []
        apply(plan, provisioner, lambda change, made=made: made.append(change.name))  # type: ignore[misc]
        assert set(made) == outsider.drift.keys()
        assert not make_plan(provisioner).has_changes
    assert len(seen) >= 10
    assert {"gone", "tags.team"} <= seen
