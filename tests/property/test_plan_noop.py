"""Whatever exists and whatever a project asks for: either the plan refuses, or a plan after apply is all NOOP.

The memory behind the provisioner behaves as AWS does: it keeps requests as they are sent, answers with 32-bit weights,
in any order, and may leave out a share of weight 1 and other defaults (cases C01 and C02). Alarms come and go with what
``alarms:`` says.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Collection
from typing import Any

from hypothesis import given, reject
from hypothesis import strategies as st

from fairshare.aws.alarms import definition_from, put_request
from fairshare.aws.resources import KINDS, create_request, update_request
from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import FairshareConfig, Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.model import OWNER_TAG, Alarm, InfeasibleError, ResourceType
from fairshare.provision.alarms import DesiredAlarm
from fairshare.provision.apply import apply
from fairshare.provision.desired import desired_state
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Action, Change, Plan, plan_setup, plan_teardown

ACCOUNT, REGION = "111122223333", "us-west-2"


def arn_of(resource_type: ResourceType, name: str) -> str:
    return f"arn:aws:batch:{REGION}:{ACCOUNT}:{resource_type.value.replace('_', '-')}/{name}"


class Memory:
    """A provisioner over dictionaries in AWS's own shape."""

    def __init__(self, rng: random.Random) -> None:
        self.details: dict[ResourceType, dict[str, dict[str, Any]]] = {kind: {} for kind in ResourceType}
        self._rng = rng

    def observe(self, names: Collection[str], stack: str) -> Observed:
        def read(resource_type: ResourceType) -> dict[str, Any]:
            found = [self._read(resource_type, detail) for detail in self.details[resource_type].values()]
            return {one.name: one for one in found if one.name in names or one.tags.get(OWNER_TAG) == stack}

        return Observed(
            service_environments=read(ResourceType.SERVICE_ENVIRONMENT),
            scheduling_policies=read(ResourceType.SCHEDULING_POLICY),
            job_queues=read(ResourceType.JOB_QUEUE),
            alarms=read(ResourceType.ALARM),
        )

    def _read(self, resource_type: ResourceType, detail: dict[str, Any]) -> Any:
        if resource_type is not ResourceType.ALARM:
            return KINDS[resource_type].read(self._answer(detail))
        name = detail["AlarmName"]
        return Alarm(
            name, f"arn:{name}", definition_from(detail | {"Dimensions": self._shuffled(detail)}), detail["tags"]
        )

    def _shuffled(self, detail: dict[str, Any]) -> list[Any]:
        dimensions = list(detail.get("Dimensions", []))
        self._rng.shuffle(dimensions)
        return dimensions

    def execute(self, change: Change) -> None:
        details = self.details[change.resource_type]
        match change.action:
            case Action.CREATE | Action.UPDATE if isinstance(change.desired, DesiredAlarm):
                desired = change.desired
                assert (change.action is Action.CREATE) is (change.name not in details)
                details[change.name] = put_request(desired.name, desired.definition) | {"tags": dict(desired.tags)}
            case Action.CREATE:
                assert change.desired is not None
                assert change.name not in details
                arn = arn_of(change.resource_type, change.name)
                arn_field = {"service_environment": "serviceEnvironmentArn", "job_queue": "jobQueueArn"}
                request = create_request(change.desired, arn_of)
                details[change.name] = request | {arn_field.get(change.resource_type.value, "arn"): arn}
            case Action.UPDATE:
                assert change.desired is not None
                fields = frozenset(field.field for field in change.fields)
                details[change.name] |= update_request(change.desired, fields, arn_of)
                tags = {
                    field.field.removeprefix("tags."): field.wanted for field in change.fields if "tags." in field.field
                }
                kept = {key: value for key, value in details[change.name]["tags"].items() if key not in tags}
                details[change.name]["tags"] = kept | {key: value for key, value in tags.items() if value is not None}
            case _:
                del details[change.name]

    def _answer(self, detail: dict[str, Any]) -> dict[str, Any]:
        if "fairsharePolicy" not in detail:
            return detail
        policy = {name: value for name, value in detail["fairsharePolicy"].items() if value or self._rng.random() < 0.5}
        shares = [
            share | {"weightFactor": struct.unpack("f", struct.pack("f", share["weightFactor"]))[0]}
            for share in detail["fairsharePolicy"]["shareDistribution"]
            if share["weightFactor"] != 1 or share["shareIdentifier"].endswith("*") or self._rng.random() < 0.5
        ]
        self._rng.shuffle(shares)
        return detail | {"fairsharePolicy": policy | {"shareDistribution": shares}}


WEIGHTS = st.one_of(
    st.sampled_from(["1", "1.0", "0.1", "0.7", "0.0001", "999.9999", "3", "5"]),
    st.decimals("0.0001", "999.9999", places=4).map(str),
)
SHARES = st.dictionaries(st.sampled_from(["HIGHPRI", "MIDPRI", "LOWPRI", "TEAM*", "OTHER1"]), WEIGHTS, max_size=5)
FAIRSHARE = st.builds(
    FairshareConfig,
    share_decay_seconds=st.sampled_from([0, 600, 3600, 604_800]),
    compute_reservation=st.sampled_from([0, 50, 99]),
    shares=SHARES,
)
QUEUES = st.builds(
    QueueConfig,
    service_environment=st.sampled_from(["gpu", "cpu"]),
    priority=st.integers(0, 20),
    fairshare=st.none() | FAIRSHARE,
)
ENVIRONMENTS = st.builds(
    ServiceEnvironmentConfig, capacity=st.integers(1, 64), instance_types=st.just(("ml.c5.xlarge",))
)
ALARMS = st.sampled_from(
    [
        {},
        {"enabled": False},
        {"sns_topic": "arn:aws:sns:us-west-2:111122223333:ops", "utilization_low": {"enabled": False}},
        {"oldest_wait": {"threshold": 7200}, "queues": {"gpu": {"oldest_wait": {"threshold": 60}}}},
        {"failure_rate": {"threshold": "20%"}, "blocked": {"evaluation_periods": 2, "treat_missing_data": "ignore"}},
    ]
).map(AlarmsSection.model_validate)
PROJECTS = st.builds(
    Project,
    stack=st.sampled_from(["ml", "ml-2"]),
    service_environments=st.fixed_dictionaries({"gpu": ENVIRONMENTS, "cpu": ENVIRONMENTS}),
    queues=st.dictionaries(st.sampled_from(["gpu", "batch", "2-gpu"]), QUEUES, max_size=3),
    tags=st.dictionaries(st.sampled_from(["team", "owner", "Åsa.x"]), st.sampled_from(["", "a b", "1"]), max_size=2),
    alarms=ALARMS,
)


def plan_of(project: Project, memory: Memory) -> Plan:
    desired = desired_state(project)
    observed = memory.observe(desired.names, desired.stack)
    return plan_setup(desired, observed, region=REGION, account_id=ACCOUNT)


@given(before=st.lists(PROJECTS, max_size=3), project=PROJECTS, seed=st.integers(0, 2**32))
def test_a_plan_after_apply_is_all_noop(before: list[Project], project: Project, seed: int) -> None:
    memory = Memory(random.Random(seed))
    for earlier in before:
        try:
            apply(plan_of(earlier, memory), memory, lambda change: None)
        except InfeasibleError:
            continue
    try:
        plan = plan_of(project, memory)
    except InfeasibleError:
        reject()

    apply(plan, memory, lambda change: None)

    for _ in range(3):
        again = plan_of(project, memory)
        assert {change.action for change in again.changes} <= {Action.NOOP}, again.pending
        assert {alarm.name for alarm in desired_state(project).alarms} == {
            name
            for name, alarm in memory.details[ResourceType.ALARM].items()
            if alarm["tags"][OWNER_TAG] == project.stack
        }
        assert len(again.changes) == len(desired_state(project).resources)


@given(projects=st.lists(PROJECTS, min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_teardown_leaves_nothing_of_its_stack_and_everything_of_others(projects: list[Project], seed: int) -> None:
    memory = Memory(random.Random(seed))
    for project in projects:
        try:
            apply(plan_of(project, memory), memory, lambda change: None)
        except InfeasibleError:
            continue
    stack = projects[0].stack
    others = {
        (kind, name)
        for kind, details in memory.details.items()
        for name, detail in details.items()
        if detail["tags"][OWNER_TAG] != stack
    }

    plan = plan_teardown(memory.observe((), stack), stack, region=REGION, account_id=ACCOUNT)
    apply(plan, memory, lambda change: None)

    assert {(kind, name) for kind, details in memory.details.items() for name in details} == others
    again = plan_teardown(memory.observe((), stack), stack, region=REGION, account_id=ACCOUNT)
    assert not again.has_changes
