from __future__ import annotations

import json
from collections.abc import Callable, Collection

import pytest

from fairshare.config.project import Project
from fairshare.model import FairsharePolicy, ServiceError
from fairshare.provision.apply import RESUME_HINT, apply, to_json
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.plan import Change, Plan, plan_setup
from fairshare.provision.ports import Observed


class RecordingProvisioner:
    """Notes what it is asked to do; fails at the change of one resource type."""

    def __init__(self, fail_at: str = "", hint: str | None = None) -> None:
        self.made: list[str] = []
        self._fail_at = fail_at
        self._hint = hint

    def observe(self, names: Collection[str], stack: str) -> Observed:
        raise AssertionError("applying a plan observes nothing")

    def execute(self, change: Change) -> None:
        if change.resource_type.value == self._fail_at:
            raise ServiceError("boom", http_status=400, hint=self._hint)
        self.made.append(change.label)


def plan_of(desired: Desired, observed: Observed) -> Plan:
    return plan_setup(desired, observed, region="us-west-2", account_id="111122223333")


def test_changes_are_made_in_order_and_told_one_by_one(desired: Desired, observed: Callable[..., Observed]) -> None:
    found = observed(desired, queue={"priority": 0})
    found.service_environments.clear()
    provisioner, told = RecordingProvisioner(), []

    apply(plan_of(desired, found), provisioner, lambda change: told.append(change.label))

    assert provisioner.made == ["service environment ml-gpu", "job queue ml-gpu"]
    assert told == provisioner.made


@pytest.mark.parametrize(("hint", "told"), [(None, RESUME_HINT), ("Do this.", f"Do this. {RESUME_HINT}")])
def test_the_first_failure_stops_and_says_how_to_go_on(desired: Desired, hint: str | None, told: str) -> None:
    provisioner, made = RecordingProvisioner("scheduling_policy", hint), []

    with pytest.raises(ServiceError, match="boom") as caught:
        apply(plan_of(desired, Observed({}, {}, {})), provisioner, lambda change: made.append(change.label))

    assert caught.value.hint == told
    assert made == ["service environment ml-gpu"]


def test_a_plan_without_changes_calls_nothing(desired: Desired, observed: Callable[..., Observed]) -> None:
    provisioner = RecordingProvisioner()

    apply(plan_of(desired, observed(desired)), provisioner, lambda change: pytest.fail(change.label))

    assert provisioner.made == []


def test_the_json_document(
    project: Callable[..., Project], observed: Callable[..., Observed], weights: Callable[..., FairsharePolicy]
) -> None:
    desired = desired_state(project(shares={"HIGHPRI": "1", "LOWPRI": "8"}))
    found = observed(desired, policy={"fairshare_policy": weights(HIGHPRI="1", LOWPRI="5")})
    del found.job_queues["ml-batch"]

    document = to_json(plan_of(desired, found), applied=True)

    assert json.loads(json.dumps(document)) == document
    assert {key: document[key] for key in ("api_version", "kind", "stack", "region", "account", "applied")} == {
        "api_version": "fairshare/v1",
        "kind": "Plan",
        "stack": "ml",
        "region": "us-west-2",
        "account": "111122223333",
        "applied": True,
    }
    summary = [(change["action"], change["resource_type"], change["name"]) for change in document["changes"]]
    assert summary == [
        ("NOOP", "service_environment", "ml-gpu"),
        ("UPDATE", "scheduling_policy", "ml-gpu"),
        ("NOOP", "job_queue", "ml-gpu"),
        ("CREATE", "job_queue", "ml-batch"),
    ]
    assert document["changes"][1]["fields"] == [{"field": "weight_factor.LOWPRI", "observed": "5", "wanted": "8"}]
    assert document["shares"] == [
        {
            "queue": "gpu",
            "share_identifier": "HIGHPRI",
            "weight_factor": 1.0,
            "percent": 88.89,
            "percent_before": 83.33,
        },
        {"queue": "gpu", "share_identifier": "LOWPRI", "weight_factor": 8.0, "percent": 11.11, "percent_before": 16.67},
    ]
    assert document["warnings"] == []
