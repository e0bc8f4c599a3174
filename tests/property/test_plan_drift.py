"""Drift: 500 random changes made to a stack from outside, through boto3, against the local AWS.

The plan names exactly the fields that were changed, applying it puts them right, and then there is nothing to do. What
is no change never shows up: lists in another order (case C01), weights as 32-bit floats (case C02), defaults that AWS
leaves out, tags and settings of others.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairshare.aws.provisioner import BatchProvisioner
from fairshare.aws.session import AwsSession
from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import (
    FairshareConfig,
    Project,
    QueueConfig,
    QuotaShareConfig,
    ServiceEnvironmentConfig,
)
from fairshare.local.inprocess import local_aws
from fairshare.model import ResourceType, SharingStrategy
from fairshare.provision.apply import apply
from fairshare.provision.desired import desired_state
from fairshare.provision.plan import Action, Change, Plan, plan_setup
from fairshare.scheduler.clock import VirtualClock

REGION = "us-west-2"
MUTATIONS = 500
ENVIRONMENT, POLICY, QUEUE, QUOTA_SHARE = BATCH = (
    ResourceType.SERVICE_ENVIRONMENT,
    ResourceType.SCHEDULING_POLICY,
    ResourceType.JOB_QUEUE,
    ResourceType.QUOTA_SHARE,
)
CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
TYPE = "ml.c5.2xlarge"
BORROWS = SharingStrategy.LEND_AND_BORROW
PROJECT = Project(
    stack="ml",
    service_environments={
        "gpu": ServiceEnvironmentConfig(capacity=16, instance_types=("ml.g5.xlarge",)),
        "cpu": ServiceEnvironmentConfig(capacity=4, instance_types=("ml.m5.large",)),
        "sweep": ServiceEnvironmentConfig.model_validate({"capacity_limits": {TYPE: 8}}),
    },
    queues={
        "gpu": QueueConfig(
            service_environment="gpu",
            priority=10,
            fairshare=FairshareConfig(
                shares={"HIGHPRI": "0.1", "MIDPRI": "0.7", "LOWPRI": "999.9999", "PLAIN": "1", "TEAM*": "1.0"},
                share_decay_seconds=3600,
                compute_reservation=20,
            ),
        ),
        "cpu": QueueConfig(service_environment="cpu", priority=0, fairshare=FairshareConfig(shares={"A": "0.0001"})),
        "line": QueueConfig(service_environment="cpu", priority=1, time_limits={CAPACITY: 7200}),
        "sweep": QueueConfig(
            service_environment="sweep",
            quota_shares={
                "TEAMA": QuotaShareConfig(
                    capacity_limits={TYPE: 5}, sharing=BORROWS, borrow_limit=100, in_share_preemption=True
                ),
                "TEAMB": QuotaShareConfig(capacity_limits={TYPE: 3}, sharing=SharingStrategy.LEND),
            },
        ),
    },
    tags={"team": "search", "cost-center": ""},
    alarms=AlarmsSection(enabled=False),
)
FAIR = ["ml-gpu", "ml-cpu"]
COUNTED = ["ml-gpu", "ml-cpu"]
NAMES = {
    ENVIRONMENT: [*COUNTED, "ml-sweep"],
    POLICY: [*FAIR, "ml-sweep"],
    QUEUE: [*FAIR, "ml-line", "ml-sweep"],
    QUOTA_SHARE: ["ml-sweep/TEAMA", "ml-sweep/TEAMB"],
}

Drift = dict[str, str | None]
"""Field -> what it is in AWS; None = not there."""


def float32(text: str | float) -> bytes:
    return struct.pack("f", float(text))


class UnorderlySession(AwsSession):
    """Answers as AWS may: entries in any order, defaults left out."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(region=REGION)
        self._rng = rng

    def client(self, service: str, *, retries: int | None = None) -> Any:
        client = super().client(service, retries=retries)
        if service != "batch":
            return client
        describe = client.describe_scheduling_policies

        def describe_scheduling_policies(**request: Any) -> Any:
            answer = describe(**request)
            for policy in answer["schedulingPolicies"]:
                if "fairsharePolicy" in policy:
                    self._disturb(policy["fairsharePolicy"])
            return answer

        return Overlay(client, describe_scheduling_policies)

    def _disturb(self, policy: dict[str, Any]) -> None:
        shares = policy["shareDistribution"]
        shares[:] = [s for s in shares if s["weightFactor"] != 1 or s["shareIdentifier"][-1] == "*" or self._coin()]
        self._rng.shuffle(shares)
        for name in ("shareDecaySeconds", "computeReservation"):
            if policy[name] == 0 and self._coin():
                del policy[name]

    def _coin(self) -> bool:
        return self._rng.random() < 0.5


class Overlay:
    """A client with one method of its own."""

    def __init__(self, client: Any, describe_scheduling_policies: Callable[..., Any]) -> None:
        self._client = client
        self.describe_scheduling_policies = describe_scheduling_policies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@dataclass
class Outsider:
    """Somebody with boto3 who changes a stack, and notes by its own means what is no longer as the project wants it."""

    batch: Any
    account: str
    rng: random.Random
    drift: dict[tuple[ResourceType, str], Drift] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each policy would be sent as, by name."""

    def settle(self) -> None:
        """Everything is as the project wants it."""
        self.drift = {(kind, name): {} for kind in BATCH for name in NAMES[kind]}
        self.policies = {
            f"ml-{key}": {
                "decay": queue.fairshare.share_decay_seconds,
                "reservation": queue.fairshare.compute_reservation,
                "weights": dict(queue.fairshare.shares),
            }
            for key, queue in PROJECT.queues.items()
            if queue.fairshare is not None
        }

    def change_something(self) -> str:
        """Make one change and return what it was."""
        change: Callable[[], str] = self.rng.choice(
            [
                self._capacity,
                self._state,
                self._priority,
                self._environment,
                self._time_limits,
                self._quota_share,
                self._policy_of_queue,
                self._weight,
                self._new_share,
                self._no_share,
                self._decay_and_reservation,
                self._own_tag,
                self._list_of_tags,
                self._nothing_of_ours,
            ]
        )
        return change()

    def arn(self, kind: ResourceType, name: str) -> str:
        resource = f"{kind.value.replace('_', '-')}/{name}"
        if kind is QUOTA_SHARE:
            resource = f"job-queue/{name.replace('/', '/quota-share/')}"
        return f"arn:aws:batch:{REGION}:{self.account}:{resource}"

    def _note(self, kind: ResourceType, name: str, field: str, wanted: object, now: object) -> None:
        known = self.drift[kind, name]
        known.pop(field, None)
        if now != wanted:
            known[field] = None if now is None else str(now)

    # -- environments and queues

    def _capacity(self) -> str:
        name = self.rng.choice(COUNTED)
        wanted = PROJECT.service_environments[name[3:]].capacity
        now = self.rng.choice([1, 4, 16, 17, 500])
        limits = [{"maxCapacity": now, "capacityUnit": "NUM_INSTANCES"}]
        self.batch.update_service_environment(serviceEnvironment=name, capacityLimits=limits)
        self._note(ENVIRONMENT, name, "capacity_limits.NUM_INSTANCES", wanted, now)
        return f"capacity of {name} {now}"

    def _state(self) -> str:
        kind = self.rng.choice([ENVIRONMENT, QUEUE])
        name, now = self.rng.choice(NAMES[kind]), self.rng.choice(["ENABLED", "DISABLED"])
        if kind is ENVIRONMENT:
            self.batch.update_service_environment(serviceEnvironment=name, state=now)
        else:
            self.batch.update_job_queue(jobQueue=name, state=now)
        self._note(kind, name, "state", "ENABLED", now)
        return f"state of {kind} {name} {now}"

    def _priority(self) -> str:
        name, now = self.rng.choice(NAMES[QUEUE]), self.rng.choice([0, 1, 10, 1000])
        self.batch.update_job_queue(jobQueue=name, priority=now)
        self._note(QUEUE, name, "priority", PROJECT.queues[name[3:]].priority, now)
        return f"priority of {name} {now}"

    def _environment(self) -> str:
        name, now = self.rng.choice([*FAIR, "ml-line"]), self.rng.choice(["ml-gpu", "ml-cpu", "theirs"])
        order = [{"order": 1, "serviceEnvironment": self.arn(ENVIRONMENT, now)}]
        self.batch.update_job_queue(jobQueue=name, serviceEnvironmentOrder=order)
        wanted = f"ml-{PROJECT.queues[name[3:]].service_environment}"
        self._note(QUEUE, name, "service_environment", wanted, now)
        return f"environment of {name} {now}"

    def _time_limits(self) -> str:
        name, now = self.rng.choice(NAMES[QUEUE]), self.rng.choice([None, 600, 7200])
        limit = {"reason": CAPACITY, "state": "RUNNABLE", "action": "TERMINATE", "maxTimeSeconds": now}
        self.batch.update_job_queue(jobQueue=name, jobStateTimeLimitActions=[limit] if now else [])
        self._note(QUEUE, name, f"time_limits.{CAPACITY}", PROJECT.queues[name[3:]].time_limits.get(CAPACITY), now)
        return f"time limit of {name} {now}"

    def _quota_share(self) -> str:
        """Send all the terms of a quota share anew."""
        name = self.rng.choice(NAMES[QUOTA_SHARE])
        wanted = (PROJECT.queues["sweep"].quota_shares or {})[name.partition("/")[2]]
        limit, sharing, percent = (
            self.rng.choice([3, 5]),
            self.rng.choice(list(SharingStrategy)),
            self.rng.choice([-1, 100]),
        )
        preempts, state = self.rng.choice(["ENABLED", "DISABLED"]), self.rng.choice(["ENABLED", "DISABLED"])
        borrows = {"borrowLimit": percent} if sharing is BORROWS else {}
        self.batch.update_quota_share(
            quotaShareArn=self.arn(QUOTA_SHARE, name),
            capacityLimits=[{"maxCapacity": limit, "capacityUnit": TYPE}],
            resourceSharingConfiguration={"strategy": sharing.value, **borrows},
            preemptionConfiguration={"inSharePreemption": preempts},
            state=state,
        )
        self._note(QUOTA_SHARE, name, f"capacity_limits.{TYPE}", wanted.capacity_limits[TYPE], limit)
        self._note(QUOTA_SHARE, name, "sharing", wanted.sharing, sharing)
        wanted_percent = wanted.borrow_limit if wanted.sharing is BORROWS else None
        self._note(QUOTA_SHARE, name, "borrow_limit", wanted_percent, borrows.get("borrowLimit"))
        wanted_preempts = "true" if wanted.in_share_preemption else "false"
        self._note(
            QUOTA_SHARE, name, "in_share_preemption", wanted_preempts, "true" if preempts == "ENABLED" else "false"
        )
        self._note(QUOTA_SHARE, name, "state", "ENABLED", state)
        return f"terms of {name}"

    def _policy_of_queue(self) -> str:
        name, now = self.rng.choice(["ml-gpu", "ml-cpu"]), self.rng.choice(["ml-gpu", "ml-cpu", "theirs"])
        self.batch.update_job_queue(jobQueue=name, schedulingPolicyArn=self.arn(POLICY, now))
        self._note(QUEUE, name, "scheduling_policy", name, now)
        return f"policy of {name} {now}"

    # -- policies

    def _send_policy(self, name: str) -> None:
        policy = self.policies[name]
        shares = [{"shareIdentifier": share, "weightFactor": float(w)} for share, w in policy["weights"].items()]
        self.rng.shuffle(shares)
        self.batch.update_scheduling_policy(
            arn=self.arn(POLICY, name),
            fairsharePolicy={
                "shareDecaySeconds": policy["decay"],
                "computeReservation": policy["reservation"],
                "shareDistribution": shares,
            },
        )

    def _note_weight(self, name: str, share: str) -> None:
        unlisted = None if share.endswith("*") else "1"
        queue = PROJECT.queues[name[3:]].fairshare
        wanted = queue.shares.get(share, unlisted) if queue else None
        now = self.policies[name]["weights"].get(share)
        effective = unlisted if now is None else now
        known = self.drift[POLICY, name]
        known.pop(f"weight_factor.{share}", None)
        is_same = (
            wanted == effective if None in (wanted, effective) else float32(wanted or 0) == float32(effective or 0)
        )
        if not is_same:
            known[f"weight_factor.{share}"] = now

    def _weight(self) -> str:
        name = self.rng.choice(FAIR)
        share = self.rng.choice(sorted(self.policies[name]["weights"]) or ["A"])
        now = self.rng.choice(["1", "0.1", "0.10000000149", "0.1000001", "0.7", "0.0001", "999.9999", "5", "0.3333333"])
        self.policies[name]["weights"][share] = now
        self._send_policy(name)
        self._note_weight(name, share)
        return f"weight of {share} in {name} {now}"

    def _new_share(self) -> str:
        name, share = self.rng.choice(FAIR), self.rng.choice(["NEW1", "NEW2", "OTHER*"])
        self.policies[name]["weights"][share] = self.rng.choice(["1", "2.5"])
        self._send_policy(name)
        self._note_weight(name, share)
        return f"new share {share} in {name}"

    def _no_share(self) -> str:
        name = self.rng.choice(FAIR)
        share = self.rng.choice(sorted(self.policies[name]["weights"]) or ["A"])
        self.policies[name]["weights"].pop(share, None)
        self._send_policy(name)
        self._note_weight(name, share)
        return f"no share {share} in {name}"

    def _decay_and_reservation(self) -> str:
        name = self.rng.choice(FAIR)
        queue = PROJECT.queues[name[3:]].fairshare
        assert queue is not None
        policy = self.policies[name]
        policy["decay"], policy["reservation"] = self.rng.choice([0, 600, 3600]), self.rng.choice([0, 20, 99])
        self._send_policy(name)
        self._note(POLICY, name, "share_decay_seconds", queue.share_decay_seconds, policy["decay"])
        self._note(POLICY, name, "compute_reservation", queue.compute_reservation, policy["reservation"])
        return f"decay and reservation of {name} {policy}"

    # -- tags

    def _any(self) -> tuple[ResourceType, str]:
        kind = self.rng.choice(BATCH)
        return kind, self.rng.choice(NAMES[kind])

    def _set_tag(self, kind: ResourceType, name: str, key: str, value: str | None) -> None:
        if value is None:
            self.batch.untag_resource(resourceArn=self.arn(kind, name), tagKeys=[key])
        else:
            self.batch.tag_resource(resourceArn=self.arn(kind, name), tags={key: value})

    def _own_tag(self) -> str:
        kind, name = self._any()
        key, now = self.rng.choice(sorted(PROJECT.tags)), self.rng.choice([None, "", "search", "ads"])
        self._set_tag(kind, name, key, now)
        self._note(kind, name, f"tags.{key}", PROJECT.tags[key], now)
        return f"tag {key} of {kind} {name} {now}"

    def _list_of_tags(self) -> str:
        kind, name = self._any()
        now = self.rng.choice([None, "team", "cost-center team", "cost-center nobodys team"])
        self._set_tag(kind, name, "fairshare:tags", now)
        self._note(kind, name, "tags.fairshare:tags", "cost-center team", now)
        return f"list of tags of {kind} {name} {now}"

    def _nothing_of_ours(self) -> str:
        """What is no drift: a tag of others, the same policy in another order."""
        kind, name = self._any()
        self._set_tag(kind, name, self.rng.choice(["patch-group", "aws-backup"]), self.rng.choice([None, "", "x"]))
        self._send_policy(self.rng.choice(FAIR))
        return "nothing of ours"


@pytest.fixture
def provisioner(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchProvisioner]:
    """A provisioner on a local AWS in which others have an environment and a policy, too."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with local_aws(clock=VirtualClock(1_796_061_600_000)) as aws:
        batch = aws.client("batch", REGION)
        batch.create_service_environment(
            serviceEnvironmentName="theirs",
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
        )
        batch.create_scheduling_policy(name="theirs", fairsharePolicy={})
        yield BatchProvisioner(UnorderlySession(random.Random(1)), aws.clock)


def make_plan(provisioner: BatchProvisioner) -> Plan:
    desired = desired_state(PROJECT)
    observed = provisioner.observe(desired.names, desired.stack)
    return plan_setup(desired, observed, region=REGION, account_id="123456789012")


def carry_out(plan: Plan, provisioner: BatchProvisioner) -> list[Change]:
    """Apply a plan and return the changes that were made."""
    made: list[Change] = []
    apply(plan, provisioner, made.append)
    return made


def same(found: Drift, noted: Drift) -> bool:
    """Whether two drifts name the same fields with the same values."""
    return found.keys() == noted.keys() and all(
        comparable(field, found[field]) == comparable(field, noted[field]) for field in found
    )


def comparable(field: str, value: str | None) -> object:
    """A weight counts as a 32-bit float, and AWS may leave out a share that weighs 1."""
    if not field.startswith("weight_factor."):
        return value
    if value is None:
        return None if field.endswith("*") else float32(1)
    return float32(value)


def test_c01_c02_the_plan_names_exactly_what_somebody_changed(provisioner: BatchProvisioner) -> None:
    carry_out(make_plan(provisioner), provisioner)
    rng = random.Random(20261130)
    session = AwsSession(region=REGION)
    outsider = Outsider(session.client("batch"), session.account_id, rng)
    made, rounds_with_drift, fields_seen = 0, 0, set()
    while made < MUTATIONS:
        outsider.settle()
        story = [outsider.change_something() for _ in range(min(rng.randint(1, 3), MUTATIONS - made))]
        made += len(story)

        plan = make_plan(provisioner)
        found = {
            (change.resource_type, change.name): {field.field: field.observed for field in change.fields}
            for change in plan.changes
        }
        assert {change.action for change in plan.changes} <= {Action.UPDATE, Action.NOOP}
        assert found.keys() == outsider.drift.keys()
        for resource, drift in outsider.drift.items():
            assert same(found[resource], drift), (story, resource, found[resource], drift)
        rounds_with_drift += plan.has_changes
        fields_seen |= {field.partition(".")[0] for drift in found.values() for field in drift}

        assert {(change.resource_type, change.name) for change in carry_out(plan, provisioner)} == {
            resource for resource, drift in outsider.drift.items() if drift
        }, story
        assert not make_plan(provisioner).has_changes, story
    assert rounds_with_drift > 150
    assert fields_seen == {
        "capacity_limits",
        "state",
        "priority",
        "service_environment",
        "scheduling_policy",
        "time_limits",
        "sharing",
        "borrow_limit",
        "in_share_preemption",
        "weight_factor",
        "share_decay_seconds",
        "compute_reservation",
        "tags",
    }
