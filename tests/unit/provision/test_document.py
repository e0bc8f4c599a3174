from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.project import Project
from fairshare.model import FairshareError, FairsharePolicy, InvalidFileError, NotFoundError
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.document import fingerprint, load_plan, save_plan, to_json
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Plan, plan_setup, plan_teardown

AT = "2026-11-30T18:00:00.000Z"


def plan_of(desired: Desired, observed: Observed) -> Plan:
    return plan_setup(desired, observed, region="us-west-2", account_id="111122223333")


@pytest.fixture
def plan(
    project: Callable[..., Project], observed: Callable[..., Observed], weights: Callable[..., FairsharePolicy]
) -> Plan:
    """One NOOP, one UPDATE, one CREATE, one left-over, and every kind of resource."""
    desired = desired_state(project(shares={"HIGHPRI": "1", "LOWPRI": "8"}))
    found = observed(desired, policy={"fairshare_policy": weights(HIGHPRI="1", LOWPRI="5")})
    left_over = found.job_queues.pop("ml-batch")
    found.job_queues["ml-old"] = replace(left_over, name="ml-old")
    return plan_of(desired, found)


def test_the_json_document(plan: Plan) -> None:
    document = to_json(plan, applied=True)

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
    assert document["warnings"] == [
        "job queue ml-old carries the tag of stack ml but is not in fairshare.yaml: it stays as it is"
    ]


def test_a_saved_plan_comes_back_as_it_was(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"

    save_plan(plan, path, AT)
    saved = load_plan(path)

    assert saved.plan == plan
    assert saved.created_at == AT
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_saved_plan_is_the_printed_one_and_more(plan: Plan, tmp_path: Path) -> None:
    save_plan(plan, tmp_path / "plan.json", AT)
    document = json.loads((tmp_path / "plan.json").read_text())

    printed = to_json(plan, applied=False)
    assert document.pop("kind") == "SavedPlan"
    assert document.pop("created_at") == AT
    assert document.pop("is_teardown") is False
    environment, policy, _, created = document["changes"]
    assert environment["observed"]["capacity_limits"] == [{"max_capacity": 16, "capacity_unit": "NUM_INSTANCES"}]
    assert policy["desired"]["fairshare_policy"]["share_distribution"][1]["weight_factor"] == "8"
    assert created["observed"] is None
    for change in document["changes"]:
        del change["desired"], change["observed"], change["end_jobs"]
    assert document == {name: value for name, value in printed.items() if name != "kind"}


def test_a_saved_teardown_comes_back_as_it_was(
    desired: Desired, observed: Callable[..., Observed], tmp_path: Path
) -> None:
    plan = plan_teardown(observed(desired), "ml", region="us-west-2", account_id="111122223333", end_jobs=True)

    save_plan(plan, tmp_path / "plan.json", AT)

    assert load_plan(tmp_path / "plan.json").plan == plan


def test_a_fingerprint_is_of_what_is_wanted_what_was_observed_and_where(
    desired: Desired, observed: Callable[..., Observed], project: Callable[..., Project]
) -> None:
    plan = plan_of(desired, observed(desired))
    others = [
        plan_of(desired_state(project(capacity=17)), observed(desired)),
        plan_of(desired, observed(desired, queue={"priority": 0})),
        plan_of(desired, observed(desired, queue={"status_reason": "JobQueue Healthy"})),
        replace(plan, region="us-east-1"),
        replace(plan, account_id="000000000000"),
    ]

    assert fingerprint(plan) == fingerprint(plan_of(desired, observed(desired)))
    assert len({fingerprint(each) for each in (plan, *others)}) == 6
    assert len(fingerprint(plan)) == len("sha256:") + 64


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("changes", 1, "desired", "fairshare_policy", "share_distribution", 1, "weight_factor"), "9"),
        (("changes", 1, "observed", "fairshare_policy", "share_decay_seconds"), 1),
        (("changes", 3, "action"), "NOOP"),
        (("changes", 1, "fields"), []),
        (("region",), "us-east-1"),
        (("account",), "000000000000"),
        (("stack",), "other"),
        (("fingerprint",), "sha256:0"),
    ],
)
def test_a_plan_that_was_edited_is_refused(
    plan: Plan, tmp_path: Path, path: tuple[str | int, ...], value: object
) -> None:
    file = tmp_path / "plan.json"
    save_plan(plan, file, AT)
    document: Any = json.loads(file.read_text())
    place = document
    for step in path[:-1]:
        place = place[step]
    assert place[path[-1]] != value
    place[path[-1]] = value
    file.write_text(json.dumps(document))

    with pytest.raises(InvalidFileError, match="was changed after it was made") as caught:
        load_plan(file)

    assert caught.value.exit_code == 2
    assert caught.value.problems[0].hint == "Make it again with `fairshare setup --plan-out`."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is not a saved plan: Expecting value"),
        ("\x00", "this is not a saved plan: Expecting value"),
        ("[]", "this is not a saved plan (kind missing, not SavedPlan)"),
        ('{"kind": "Plan"}', "this is not a saved plan (kind Plan, not SavedPlan)"),
        ('{"kind": "SavedPlan"}', "this plan is of version None; this fairshare reads fairshare/v1"),
        ('{"kind": "SavedPlan", "api_version": "fairshare/v2"}', "this plan is of version fairshare/v2"),
        ('{"kind": "SavedPlan", "api_version": "fairshare/v1"}', "incomplete, or was made by another version"),
        (
            '{"kind": "SavedPlan", "api_version": "fairshare/v1", "stack": "a", "region": "b", "account": "c", '
            '"warnings": [], "changes": [{"action": "EXPLODE"}]}',
            "incomplete, or was made by another version",
        ),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)

    with pytest.raises(InvalidFileError) as caught:
        load_plan(file)

    assert f"{file}: error: {message}" in caught.value.message or message in caught.value.message


def test_a_truncated_plan_is_refused_at_every_length(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    save_plan(plan, file, AT)
    whole = file.read_text()
    for length in range(0, len(whole) - 2, 97):
        file.write_text(whole[:length])
        with pytest.raises(InvalidFileError):
            load_plan(file)


def test_no_file_and_no_place_for_one_are_told(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"there is no plan file .*plan\.json"):
        load_plan(tmp_path / "plan.json")
    with pytest.raises(FairshareError, match=r"cannot write the plan to .*nowhere/plan\.json: No such") as caught:
        save_plan(plan, tmp_path / "nowhere" / "plan.json", AT)
    assert caught.value.hint == "choose another place with --plan-out"
    with pytest.raises(InvalidFileError, match="Is a directory"):
        load_plan(tmp_path)
