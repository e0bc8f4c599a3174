"""Alarms as resources of a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import FairshareConfig, QueueConfig, QuotaShareConfig
from fairshare.metrics.gauges import NAMESPACE
from fairshare.metrics.ports import QUEUE_NAMESPACE
from fairshare.model import OWNER_TAG, Alarm, InfeasibleError, ResourceType, SharingStrategy
from fairshare.provision.alarms import GAUGE_NAMESPACE
from fairshare.provision.compare import changed_fields, number_text
from fairshare.provision.desired import desired_state
from fairshare.provision.document import fingerprint, load_plan, save_plan
from fairshare.provision.plan import Action, plan_setup, plan_teardown
from fairshare.provision.stale import StalePlanError, refuse_stale

PLACE = {"region": "us-west-2", "account_id": "111122223333"}
TOPIC = "arn:aws:sns:us-west-2:111122223333:ops"


def section(**settings) -> AlarmsSection:
    return AlarmsSection.model_validate(settings)


@pytest.fixture
def wanted(project):
    """What the project asks for, with alarms."""
    return lambda **settings: desired_state(project(alarms=section(**settings)))


@pytest.fixture
def there(observed):
    """What AWS answers after a desired state was applied; keywords change alarm ml-gpu-blocked."""

    def make(desired, tags=None, **changes):
        found = {
            alarm.name: Alarm(alarm.name, f"arn:{alarm.name}", alarm.definition, alarm.tags) for alarm in desired.alarms
        }
        if changes or tags is not None:
            blocked = found["ml-gpu-blocked"]
            definition = replace(blocked.definition, **changes)
            found["ml-gpu-blocked"] = replace(
                blocked, definition=definition, tags=blocked.tags if tags is None else tags
            )
        return replace(observed(desired), alarms=found)

    return make


def names(alarms) -> list[str]:
    return [alarm.key for alarm in alarms]


def actions(plan) -> dict[str, Action]:
    return {change.key: change.action for change in plan.changes if change.resource_type is ResourceType.ALARM}


def test_the_namespace_is_that_of_the_gauges():
    assert GAUGE_NAMESPACE == NAMESPACE


def test_each_queue_and_share_gets_its_alarms(wanted):
    desired = wanted()

    of_queue = ["blocked", "oldest-wait", "failure-rate", "capacity-idle", "utilization-low", "collector-silent"]
    assert names(desired.alarms) == [
        "gpu-blocked",
        "gpu-oldest-wait-HIGHPRI",
        "gpu-oldest-wait-MIDPRI",
        "gpu-oldest-wait-LOWPRI",
        "gpu-failure-rate",
        "gpu-capacity-idle",
        "gpu-utilization-low",
        "gpu-share-starved-HIGHPRI",
        "gpu-share-starved-MIDPRI",
        "gpu-share-starved-LOWPRI",
        "gpu-collector-silent",
        *(f"batch-{name}" for name in of_queue),
    ]
    by_key = {alarm.key: alarm.definition for alarm in desired.alarms}
    queue = (("Stack", "ml"), ("Queue", "ml-gpu"))
    assert by_key["gpu-blocked"].metrics[0].dimensions == queue
    assert by_key["gpu-oldest-wait-MIDPRI"].metrics[0].dimensions == (*queue, ("Share", "MIDPRI"))
    assert by_key["batch-oldest-wait"].metrics[0].dimensions == (("Stack", "ml"), ("Queue", "ml-batch"))
    assert desired.resources[-1] == desired.alarms[-1]
    assert desired.alarms[0].name == "ml-gpu-blocked"
    assert desired.alarms[0].tags[OWNER_TAG] == "ml"


def test_shares_that_a_prefix_stands_for_are_watched_together(project):
    shares = FairshareConfig(shares={"A": "1", "TEAM*": "2"})
    queues = {"gpu": QueueConfig(service_environment="gpu", fairshare=shares)}
    desired = desired_state(project(queues=queues, alarms=section()))

    assert [key for key in names(desired.alarms) if "wait" in key or "starved" in key] == [
        "gpu-oldest-wait-A",
        "gpu-oldest-wait",
        "gpu-share-starved-A",
    ]


def test_quota_shares_have_alarms_of_their_own_and_none_for_what_they_do_not_publish(project):
    shares = {
        name: QuotaShareConfig(capacity_limits={"ml.c5.2xlarge": 4}, sharing=SharingStrategy.LEND) for name in "AB"
    }
    queues = {"gpu": QueueConfig(service_environment="gpu", quota_shares=shares)}
    desired = desired_state(project(queues=queues, alarms=section()))

    by_key = {alarm.key: alarm.definition for alarm in desired.alarms}
    assert list(by_key) == [
        "gpu-blocked",
        "gpu-oldest-wait-A",
        "gpu-oldest-wait-B",
        "gpu-failure-rate",
        "gpu-capacity-idle",
        "gpu-utilization-low",
        "gpu-preemptions",
        "gpu-collector-silent",
    ]
    assert by_key["gpu-oldest-wait-B"].metrics[0].dimensions[-1] == ("Share", "B")
    (metric,) = by_key["gpu-preemptions"].metrics
    assert (metric.namespace, metric.name, metric.statistic) == (QUEUE_NAMESPACE, "JobsPreempted", "Sum")
    assert metric.dimensions == (("JobQueueName", "ml-gpu"),)


def test_an_expression_alarm_watches_the_expression(wanted):
    (rate,) = (alarm.definition for alarm in wanted().alarms if alarm.key == "gpu-failure-rate")

    assert [(metric.id, metric.name, metric.returns_data) for metric in rate.metrics] == [
        ("m1", "FailedJobs", False),
        ("m2", "SucceededJobs", False),
        ("e1", "", True),
    ]
    assert rate.period == 3600


def test_a_topic_is_told_of_the_begin_and_the_end(wanted):
    assert {(alarm.definition.alarm_actions, alarm.definition.ok_actions) for alarm in wanted().alarms} == {((), ())}
    told = {(a.definition.alarm_actions, a.definition.ok_actions) for a in wanted(sns_topic=TOPIC).alarms}
    assert told == {((TOPIC,), (TOPIC,))}


def test_a_name_that_is_too_long_keeps_its_begin_and_stays_unique(project):
    shares = {"S" * 200 + end: "1" for end in ("A", "B")}
    queue = QueueConfig(service_environment="gpu", fairshare=FairshareConfig(shares=shares))
    desired = desired_state(project(queues={"q" * 60: queue}, alarms=section()))

    found = [alarm.name for alarm in desired.alarms if "oldest" in alarm.name]
    assert [len(name) for name in found] == [255, 255]
    assert len(set(found)) == 2


def test_what_is_right_is_an_explicit_noop(wanted, there):
    desired = wanted()

    plan = plan_setup(desired, there(desired), **PLACE)
    assert set(actions(plan).values()) == {Action.NOOP}


def test_a_new_stack_gets_its_alarms_last(wanted, observed):
    plan = plan_setup(wanted(), observed(wanted()), **PLACE)

    assert set(actions(plan).values()) == {Action.CREATE}
    assert plan.changes[-1].key == "batch-collector-silent"


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"threshold": 2.0}, [("threshold", "2", "1")]),
        ({"evaluation_periods": 5}, [("evaluation_periods", "5", "3")]),
        ({"treat_missing_data": "breaching"}, [("treat_missing_data", "breaching", "missing")]),
        ({"actions_enabled": False}, [("actions_enabled", "false", "true")]),
        ({"alarm_actions": (TOPIC,)}, [("alarm_actions", TOPIC, "")]),
        ({"comparison_operator": "GreaterThanThreshold"}, None),
        ({"metrics": ()}, None),
    ],
)
def test_drift_is_named_field_by_field(wanted, there, changes, fields):
    desired = wanted()

    plan = plan_setup(desired, there(desired, **changes), **PLACE)

    (change,) = plan.pending
    assert (change.key, change.action) == ("gpu-blocked", Action.UPDATE)
    if fields is not None:
        assert [(field.field, field.observed, field.wanted) for field in change.fields] == fields


def test_dimensions_and_actions_in_another_order_are_no_change(wanted, there):
    desired = wanted(sns_topic=TOPIC)
    metric = desired.alarms[0].definition.metrics[0]
    turned = replace(metric, dimensions=metric.dimensions[::-1])

    assert not plan_setup(desired, there(desired, metrics=(turned,)), **PLACE).has_changes


def test_an_alarm_that_is_switched_off_is_deleted(wanted, there):
    plan = plan_setup(wanted(blocked={"enabled": False}), there(wanted()), **PLACE)

    deleted = [key for key, action in actions(plan).items() if action is Action.DELETE]
    assert deleted == ["batch-blocked", "gpu-blocked"]
    assert not plan.is_teardown
    refuse_stale(plan, there(wanted()))  # what the plan leaves alone is nothing new


def test_an_alarm_of_somebody_else_is_never_touched(wanted, there):
    desired = wanted()

    with pytest.raises(
        InfeasibleError, match=r"alarm ml-gpu-blocked \(alarms.gpu-blocked\) exists already and belongs"
    ):
        plan_setup(desired, there(desired, tags={OWNER_TAG: "other"}), **PLACE)
    with pytest.raises(InfeasibleError, match="was not made by fairshare"):
        plan_setup(desired, there(desired, tags={}), **PLACE)
    adopted = plan_setup(desired, there(desired, tags={}), **PLACE, adopt=True)
    assert [change.adopts for change in adopted.pending] == [True]
    without = plan_setup(wanted(enabled=False), there(desired, tags={OWNER_TAG: "other"}), **PLACE)
    assert "gpu-blocked" not in actions(without)


def test_a_composite_alarm_of_that_name_cannot_be_changed_into_one_of_ours(wanted, there):
    desired = wanted()

    with pytest.raises(InfeasibleError, match="is a composite alarm in AWS"):
        plan_setup(desired, there(desired, rule="ALARM(a)"), **PLACE)


def test_teardown_deletes_alarms_before_what_they_watch(wanted, there):
    desired = wanted()

    plan = plan_teardown(there(desired), "ml", **PLACE)

    kinds = [change.resource_type for change in plan.changes]
    assert kinds == sorted(kinds, key=list(ResourceType)[::-1].index)
    assert kinds.count(ResourceType.ALARM) == len(desired.alarms)
    found = there(desired)
    fewer = {name: alarm for name, alarm in found.alarms.items() if name != "ml-batch-blocked"}
    incomplete = plan_teardown(replace(found, alarms=fewer), "ml", **PLACE)
    with pytest.raises(StalePlanError, match="alarm ml-batch-blocked is new"):
        refuse_stale(incomplete, found)


def test_a_saved_plan_has_its_alarms(wanted, there, tmp_path):
    desired = wanted(sns_topic=TOPIC)
    plan = plan_setup(desired, there(desired, threshold=0.25), **PLACE)

    save_plan(plan, tmp_path / "plan.json", "2026-11-30T18:00:00Z")

    assert load_plan(tmp_path / "plan.json").plan == plan
    other = plan_setup(desired, there(desired, threshold=0.5), **PLACE)
    assert fingerprint(plan) != fingerprint(other)


@pytest.mark.parametrize(
    ("number", "text"),
    [(14400.0, "14400"), (0.1, "0.1"), (1e-7, "0.0000001"), (1e21, "1000000000000000000000"), (0, "0")],
)
def test_thresholds_are_shown_as_people_write_them(number, text):
    assert number_text(number) == text


def test_all_fields_of_an_alarm_are_compared(wanted):
    blocked = wanted(sns_topic=TOPIC).alarms[0]

    fields = {field.field for field in changed_fields(blocked, None)} - {field for field in blocked.tags}
    assert {"metric", "dimensions", "statistic", "period", "description", "ok_actions"} <= fields
