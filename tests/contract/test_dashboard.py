"""The dashboard: a body that CloudWatch takes, made and kept by `setup`, of metrics that somebody publishes.

moto stores any body, so the structure is held against a schema written from AWS's page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fairshare.aws.metrics import CloudWatch
from fairshare.aws.queues import BatchQueues
from fairshare.aws.session import AwsSession
from fairshare.aws.stack import StackProvisioner
from fairshare.config.project import Project, parse_project
from fairshare.insight.collect import Cursor, gauges, look_at
from fairshare.local.processes.allotment import Allotment
from fairshare.local.processes.meter import Meter, Reading, Scales
from fairshare.local.testkit import LocalAWS
from fairshare.metrics.gauges import GAUGES, NAMESPACE, dimensions, gauge_data
from fairshare.metrics.ports import QUEUE_NAMESPACE, TRAINING_NAMESPACE
from fairshare.model import InfeasibleError
from fairshare.provision.apply import apply
from fairshare.provision.dashboard import QUEUE_GRAPHS, QUOTA_SHARE_GRAPHS, SHARE_GRAPHS, TRAINING_GRAPHS
from fairshare.provision.desired import desired_state
from fairshare.provision.place import Place
from fairshare.provision.plan import Action, Plan, plan_setup, plan_teardown
from fairshare.provision.stale import StalePlanError
from fairshare.scheduler.clock import VirtualClock

SCHEMA = json.loads((Path(__file__).parent / "dashboard-body.schema.json").read_text())
ACCOUNT, REGION = "123456789012", "us-east-1"
PLACE = Place("aws", REGION, ACCOUNT)
PROJECT = """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 2, instance_types: [ml.m5.large]}
  cpu: {capacity: 1, instance_types: [ml.m5.large]}
queues:
  train:
    service_environment: pool
    fairshare: {shares: {HIGHPRI: {weight_factor: 1}, "TEAM*": {weight_factor: 3}}}
  line: {service_environment: cpu, fifo: true}
"""
ELSEWHERE = {
    "JobsPreempted": "preemption: quota management only",
    "GPUUtilization": "GPU",
    "GPUMemoryUtilization": "GPU",
}
"""Metrics that the run below does not emit, and why."""


@pytest.fixture(scope="module")
def project() -> Project:
    return parse_project(PROJECT, Path("fairshare.yaml"))


@pytest.fixture(scope="module")
def body(project: Project) -> dict[str, Any]:
    (dashboard,) = desired_state(project, PLACE).dashboards
    found: dict[str, Any] = json.loads(dashboard.body)
    return found


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAWS]:
    with LocalAWS() as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        yield aws


def problems(body: Mapping[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(body)]


# -- the body -------------------------------------------------------------------------------------------------------


def test_the_body_has_the_structure_that_cloudwatch_takes(body: dict[str, Any]) -> None:
    assert problems(body) == []
    assert {widget["type"] for widget in body["widgets"]} == {"text", "alarm", "metric"}


@pytest.mark.parametrize(
    ("widget", "change"),
    [
        (0, {"type": "picture"}),
        (0, {"properties": {"text": "no markdown"}}),
        (1, {"properties": {"alarms": ["lab-train-blocked"]}}),
        (2, {"width": 25}),
        (2, {"properties": {"region": REGION, "metrics": [["fairshare"]]}}),
        (2, {"properties": {"metrics": [["fairshare", "RunningJobs"]]}}),
    ],
)
def test_another_structure_is_found(body: dict[str, Any], widget: int, change: dict[str, Any]) -> None:
    broken = deepcopy(body)
    broken["widgets"][widget] |= change

    assert problems(broken)


def test_no_widget_covers_another(body: dict[str, Any]) -> None:
    cells = [
        (x, y)
        for widget in body["widgets"]
        for x in range(widget["x"], widget["x"] + widget["width"])
        for y in range(widget["y"], widget["y"] + widget["height"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_largest_stack_fits(project: Project) -> None:
    """An account has at most 50 queues in a region; a dashboard at most 500 widgets."""
    queues = {f"q{number}": project.queues["train"] for number in range(50)}
    (dashboard,) = desired_state(project.model_copy(update={"queues": queues}), PLACE).dashboards

    assert problems(json.loads(dashboard.body)) == []


def test_a_queue_with_quota_shares_shows_them_and_no_weights() -> None:
    text = """\
version: 1
stack: lab
service_environments: {pool: {capacity_limits: {ml.m5.large: 2}}}
queues:
  sweep:
    service_environment: pool
    quota_shares: {TEAMA: {capacity_limits: {ml.m5.large: 2}, sharing: LEND}}
"""
    (dashboard,) = desired_state(parse_project(text, Path("fairshare.yaml")), PLACE).dashboards
    titles = [each["properties"].get("title", "") for each in json.loads(dashboard.body)["widgets"]]

    assert problems(json.loads(dashboard.body)) == []
    assert [f"sweep: {graph.title}" in titles for graph in (*QUEUE_GRAPHS, *QUOTA_SHARE_GRAPHS)] == [True] * 9
    assert "TargetShare" not in dashboard.body
    assert '{fairshare,Stack,Queue,Share} MetricName=\\"CapacityUsed\\" Queue=\\"lab-sweep\\"' in dashboard.body


def test_without_an_account_the_alarms_are_left_out(project: Project) -> None:
    (dashboard,) = desired_state(project, Place("aws", REGION, "*")).dashboards

    assert problems(json.loads(dashboard.body)) == []
    assert '"type":"alarm"' not in dashboard.body


# -- its metrics ----------------------------------------------------------------------------------------------------


def test_gauges_are_those_of_the_collector_with_its_dimensions(body: dict[str, Any]) -> None:
    known = {gauge.name: gauge for gauge in GAUGES}
    for graph in (*QUEUE_GRAPHS, *SHARE_GRAPHS, *QUOTA_SHARE_GRAPHS, *TRAINING_GRAPHS):
        assert graph.namespace in (NAMESPACE, QUEUE_NAMESPACE, TRAINING_NAMESPACE)
    of_queue = {name for graph in QUEUE_GRAPHS if graph.namespace == NAMESPACE for name in graph.metrics}
    of_share = {name for graph in (*SHARE_GRAPHS, *QUOTA_SHARE_GRAPHS) for name in graph.metrics}
    assert all(known[name].of_queue for name in of_queue)
    assert all(known[name].of_share for name in of_share)

    where = [part for pair in dimensions("lab", "lab-train") for part in pair]
    assert [NAMESPACE, "RunnableJobs", *where] in body["widgets"][2]["properties"]["metrics"]
    names = ",".join(name for name, _ in dimensions("lab", "lab-train", "HIGHPRI"))
    assert f'SEARCH(\'{{{NAMESPACE},{names}}} MetricName=\\"UsageShare\\"' in json.dumps(body)


def test_every_metric_is_emitted_or_said_to_come_from_elsewhere(aws: LocalAWS, project: Project) -> None:
    session = AwsSession(region=REGION)
    set_up(session, project)
    run_jobs(aws, session)

    pages = aws.client("cloudwatch").get_paginator("list_metrics").paginate()
    emitted = {metric["MetricName"] for page in pages for metric in page["Metrics"]} | of_a_process()
    shown = {
        name
        for graph in (*QUEUE_GRAPHS, *SHARE_GRAPHS, *QUOTA_SHARE_GRAPHS, *TRAINING_GRAPHS)
        for name in graph.metrics
    }

    assert shown - emitted == set(ELSEWHERE)


def of_a_process() -> set[str]:
    """Metrics that a process on a machine without GPUs is measured by; only the process launcher publishes them."""
    gib = 1 << 30
    meter = Meter(Scales.of("ml.m5.large", gib, Allotment(2, gib), 0), lambda: 0, 60_000, at=0, monotonic=0.0)
    meter.take(Reading(cpu_seconds=10.0, memory_bytes=gib // 2), at=30_000, monotonic=30.0)
    return {point.name for point in meter.finish(20.0, 60.0)}


def set_up(session: AwsSession, project: Project) -> Plan:
    provisioner = StackProvisioner(session, VirtualClock(0))
    desired = desired_state(project, PLACE)
    observed = provisioner.observe(desired.names, desired.stack)
    plan = plan_setup(desired, observed, region=REGION, account_id=ACCOUNT)
    apply(plan, provisioner, lambda change: None)
    return plan


def run_jobs(aws: LocalAWS, session: AwsSession) -> None:
    """Run jobs for a while, and the collector each minute."""
    batch = aws.client("batch")
    payload = {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1}}
    fails_once = {"FAIRSHARE_SIM_SECONDS": "30", "FAIRSHARE_SIM_FAILURES": '["AlgorithmError: x"]'}
    for number, share in enumerate(("HIGHPRI", "TEAM1", "HIGHPRI", "TEAM1", "HIGHPRI")):
        environment = fails_once if number == 0 else {"FAIRSHARE_SIM_SECONDS": "6000"}
        batch.submit_service_job(
            jobName=f"job-{number}",
            jobQueue="lab-train",
            serviceJobType="SAGEMAKER_TRAINING",
            serviceRequestPayload=json.dumps(payload | {"Environment": environment}),
            shareIdentifier=share,
            schedulingPriority=1,
            retryStrategy={"attempts": 2},
        )
    source, metrics = BatchQueues(session), CloudWatch(session)
    cursor: Cursor | None = None
    now = 1_767_225_600_000
    for _ in range(13):
        aws.advance(60)
        now += 60_000
        look = look_at("lab-train", source, metrics, now=now, cursor=cursor)
        cursor = look.cursor
        metrics.put([datum for found in gauges([look], now) for datum in gauge_data(found, now)])
    batch.terminate_service_job(jobId=look.jobs[0].job_id, reason="enough")
    batch.list_service_jobs(jobQueue="lab-train")


# -- its life -------------------------------------------------------------------------------------------------------


def test_setup_makes_it_leaves_it_and_teardown_deletes_it(aws: LocalAWS, project: Project) -> None:
    session = AwsSession(region=REGION)
    provisioner = StackProvisioner(session, VirtualClock(0))
    made = set_up(session, project)
    assert [change.name for change in made.changes][-1] == "lab-us-east-1"
    assert {change.action for change in made.changes} == {Action.CREATE}
    assert {change.action for change in set_up(session, project).changes} == {Action.NOOP}

    plan = plan_teardown(provisioner.observe((), "lab"), "lab", region=REGION, account_id=ACCOUNT)
    assert plan.changes[0].label == "dashboard lab-us-east-1"
    apply(plan, provisioner, lambda change: None)
    assert aws.client("cloudwatch").list_dashboards()["DashboardEntries"] == []


def test_the_same_body_written_otherwise_is_the_same(aws: LocalAWS, project: Project, body: dict[str, Any]) -> None:
    session = AwsSession(region=REGION)
    set_up(session, project)
    shuffled = json.dumps({key: body[key] for key in reversed(body)}, indent=4)
    aws.client("cloudwatch").put_dashboard(DashboardName="lab-us-east-1", DashboardBody=shuffled)

    assert not set_up(session, project).has_changes


def test_what_somebody_changed_is_put_right(aws: LocalAWS, project: Project, body: dict[str, Any]) -> None:
    session = AwsSession(region=REGION)
    set_up(session, project)
    changed = json.dumps({"widgets": body["widgets"][:3]})
    aws.client("cloudwatch").put_dashboard(DashboardName="lab-us-east-1", DashboardBody=changed)

    (change,) = set_up(session, project).pending
    assert change.action is Action.UPDATE
    assert {each.field for each in change.fields} == {"widgets", "body"}
    assert change.fields[0].observed == "3"
    assert not set_up(session, project).has_changes


def test_one_of_somebody_else_is_left_alone(aws: LocalAWS, project: Project) -> None:
    aws.client("cloudwatch").put_dashboard(DashboardName="lab-us-east-1", DashboardBody='{"widgets": []}')

    with pytest.raises(InfeasibleError, match=re.escape("dashboard lab-us-east-1 (alarms.dashboard) exists already")):
        set_up(AwsSession(region=REGION), project)


def test_it_goes_when_it_is_switched_off(aws: LocalAWS, project: Project) -> None:
    session = AwsSession(region=REGION)
    set_up(session, project)
    off = parse_project(PROJECT + "alarms: {dashboard: false}\n", Path("fairshare.yaml"))

    (change,) = set_up(session, off).pending
    assert (change.action, change.name) == (Action.DELETE, "lab-us-east-1")


def test_a_change_by_somebody_else_meanwhile_is_refused(aws: LocalAWS, project: Project) -> None:
    session = AwsSession(region=REGION)
    provisioner = StackProvisioner(session, VirtualClock(0))
    set_up(session, project)
    plan = plan_teardown(provisioner.observe((), "lab"), "lab", region=REGION, account_id=ACCOUNT)
    aws.client("cloudwatch").put_dashboard(DashboardName="lab-us-east-1", DashboardBody='{"widgets": []}')

    with pytest.raises(StalePlanError, match="dashboard lab-us-east-1"):
        apply(plan, provisioner, lambda change: None)
