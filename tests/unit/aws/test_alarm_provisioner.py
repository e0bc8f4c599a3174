"""Setting alarms up: looked at before they are put, tags apart, nothing done twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fairshare.aws.alarm_provisioner import AlarmProvisioner
from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.model import OWNER_TAG, WaitTimeoutError
from fairshare.provision.apply import apply
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.plan import Action, Plan, plan_setup, plan_teardown
from fairshare.provision.stale import StalePlanError
from fairshare.scheduler.clock import VirtualClock

PLACE = {"region": "us-west-2", "account_id": "111122223333"}
MOMENT = datetime(2026, 11, 30, tzinfo=UTC)


class FakeCloudWatch:
    """Alarms in AWS's own shape. ``slow`` = looks for which a change is not seen yet."""

    def __init__(self) -> None:
        self.alarms: dict[str, dict[str, Any]] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.slow = 0
        self._shown: dict[str, dict[str, Any]] = {}

    def put_metric_alarm(self, *, Tags: Any = (), **request: Any) -> dict[str, Any]:
        name = request["AlarmName"]
        arn = f"arn:aws:cloudwatch:us-west-2:111122223333:alarm:{name}"
        state = {"AlarmArn": arn, "StateValue": "OK", "StateUpdatedTimestamp": MOMENT}
        if name not in self.alarms:
            self.tags[arn] = {tag["Key"]: tag["Value"] for tag in Tags}
        self.alarms[name] = request | state | {"AlarmConfigurationUpdatedTimestamp": MOMENT}
        return {}

    def describe_alarms(self, **request: Any) -> dict[str, Any]:
        if self.slow > 0:
            self.slow -= 1
        else:
            self._shown = dict(self.alarms)
        names = request.get("AlarmNames")
        wanted = [
            alarm
            for name, alarm in self._shown.items()
            if (name in names if names else name.startswith(request["AlarmNamePrefix"]))
        ]
        return {"MetricAlarms": wanted}

    def list_tags_for_resource(self, *, ResourceARN: str) -> dict[str, Any]:
        return {"Tags": [{"Key": key, "Value": value} for key, value in self.tags[ResourceARN].items()]}

    def tag_resource(self, *, ResourceARN: str, Tags: Any) -> dict[str, Any]:
        self.tags[ResourceARN] |= {tag["Key"]: tag["Value"] for tag in Tags}
        return {}

    def untag_resource(self, *, ResourceARN: str, TagKeys: Any) -> dict[str, Any]:
        for key in TagKeys:
            del self.tags[ResourceARN][key]
        return {}

    def delete_alarms(self, *, AlarmNames: list[str]) -> None:
        for name in AlarmNames:
            del self.alarms[name]


class Bench:
    """A provisioner of alarms on a fake CloudWatch and a virtual clock."""

    def __init__(self, checked: Any, session_of: Any) -> None:
        self.fake = FakeCloudWatch()
        self.client = checked("cloudwatch", self.fake)
        self.clock = VirtualClock(1_000_000)
        self.provisioner = AlarmProvisioner(session_of(cloudwatch=self.client), self.clock)

    def desired(self, tags: dict[str, str] | None = None, **alarms: Any) -> Desired:
        """The alarms of a FIFO queue, and nothing else."""
        project = Project(
            stack="ml",
            service_environments={"gpu": ServiceEnvironmentConfig(capacity=1, instance_types=("ml.c5.xlarge",))},
            queues={"gpu": QueueConfig(service_environment="gpu")},
            alarms=AlarmsSection.model_validate(alarms),
            tags=tags or {},
        )
        return Desired("ml", alarms=desired_state(project).alarms)

    def plan(self, desired: Desired, *, adopt: bool = False) -> Plan:
        observed = self.provisioner.observe(desired.names, "ml")
        return plan_setup(desired, observed, **PLACE, adopt=adopt)

    def setup(self, desired: Desired) -> None:
        apply(self.plan(desired), self.provisioner, lambda change: None)

    def changes(self) -> list[str]:
        """Calls that change something, since the last time."""
        made = [method for method, _ in self.client.calls if not method.startswith(("describe", "list"))]
        self.client.calls.clear()
        return made


@pytest.fixture
def bench(checked, session_of) -> Bench:
    return Bench(checked, session_of)


def test_setup_makes_alarms_with_tags_and_the_second_plan_is_all_noop(bench):
    bench.setup(bench.desired({"team": "search"}))

    assert bench.changes() == ["put_metric_alarm"] * 6
    assert {tags[OWNER_TAG] for tags in bench.fake.tags.values()} == {"ml"}
    assert not bench.plan(bench.desired({"team": "search"})).has_changes


def test_an_update_puts_the_alarm_whole_and_its_tags_apart(bench):
    bench.setup(bench.desired({"team": "search", "old": "1"}, blocked={"enabled": False}))
    bench.changes()

    bench.setup(bench.desired({"team": "ads"}, blocked={"enabled": False}, oldest_wait={"threshold": 60}))

    assert bench.changes().count("put_metric_alarm") == 5
    wait = bench.fake.alarms["ml-gpu-oldest-wait"]
    assert (wait["Threshold"], wait["Period"]) == (60, 300)
    assert bench.fake.tags[wait["AlarmArn"]] == {"team": "ads", "fairshare:tags": "team", OWNER_TAG: "ml"}


def test_an_alarm_that_is_switched_off_goes(bench):
    bench.setup(bench.desired())
    bench.changes()

    bench.setup(bench.desired(blocked={"enabled": False}))

    assert bench.changes() == ["delete_alarms"]
    assert "ml-gpu-blocked" not in bench.fake.alarms


def test_a_change_that_is_not_seen_at_once_is_waited_for(bench):
    desired = bench.desired()
    plan = bench.plan(desired)
    bench.fake.slow = 3
    began = bench.clock.now()

    bench.provisioner.execute(plan.changes[0])

    assert 0 < bench.clock.now() - began <= 2_000


def test_a_change_that_is_never_seen_is_told(bench):
    plan = bench.plan(bench.desired())
    bench.fake.slow = 10_000

    with pytest.raises(WaitTimeoutError, match="does not show the change of alarm ml-gpu-blocked after 30 s"):
        bench.provisioner.execute(plan.changes[0])


def test_an_alarm_that_came_meanwhile_is_not_overwritten(bench):
    plan = bench.plan(bench.desired())
    bench.setup(bench.desired())
    bench.changes()

    with pytest.raises(StalePlanError, match="alarm ml-gpu-blocked is new"):
        bench.provisioner.execute(plan.changes[0])
    assert bench.changes() == []


@pytest.mark.parametrize("action", [Action.UPDATE, Action.DELETE])
def test_an_alarm_that_moved_meanwhile_is_left_as_it_is(bench, action):
    bench.setup(bench.desired())
    wanted = {"threshold": 60} if action is Action.UPDATE else {"enabled": False}
    (change,) = bench.plan(bench.desired(oldest_wait=wanted)).pending
    alarm = bench.fake.alarms["ml-gpu-oldest-wait"]
    if action is Action.UPDATE:
        alarm["Threshold"] = 7.0
    else:
        bench.fake.tags[alarm["AlarmArn"]][OWNER_TAG] = "other"
    bench.changes()

    with pytest.raises(StalePlanError, match="alarm ml-gpu-oldest-wait: "):
        bench.provisioner.execute(change)
    assert bench.changes() == []


def test_what_is_gone_already_need_not_be_deleted(bench):
    bench.setup(bench.desired())
    plan = plan_teardown(bench.provisioner.observe((), "ml"), "ml", **PLACE)
    bench.fake.alarms.clear()
    bench.changes()

    for change in plan.changes:
        bench.provisioner.execute(change)

    assert bench.changes() == []


def test_alarms_of_others_are_neither_read_nor_torn_down(bench):
    bench.setup(bench.desired())
    theirs = bench.fake.alarms["ml-gpu-blocked"]
    bench.fake.tags[theirs["AlarmArn"]] = {OWNER_TAG: "ml-2"}
    observed = bench.provisioner.observe((), "ml")

    assert "ml-gpu-blocked" not in observed.alarms
    assert len(observed.alarms) == 5
    named = bench.provisioner.observe({"ml-gpu-blocked"}, "other")
    assert named.alarms == {}


def test_a_noop_is_nothing(bench):
    bench.setup(bench.desired())
    change = bench.plan(bench.desired()).changes[0]
    bench.client.calls.clear()

    bench.provisioner.execute(replace(change, action=Action.NOOP))

    assert bench.client.calls == []
