"""The dashboard as a resource of a plan: what counts as a difference, whose it is, and that a plan file keeps it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import Project
from fairshare.model import Dashboard
from fairshare.provision.dashboard import body_text, canonical, owner_of
from fairshare.provision.desired import desired_state
from fairshare.provision.document import fingerprint, load_plan, save_plan
from fairshare.provision.observed import Observed
from fairshare.provision.place import Place
from fairshare.provision.plan import Action, plan_setup, plan_teardown

PLACE = Place("aws", "us-west-2", "111122223333")
ARN = "arn:aws:cloudwatch::111122223333:dashboard/ml-us-west-2"


@pytest.fixture
def watched(project: Callable[..., Project]) -> Project:
    return project(alarms=AlarmsSection())


def test_order_and_blanks_of_a_body_do_not_matter() -> None:
    assert canonical('{"widgets": [], "start": "-PT3H"}') == canonical('{"start":"-PT3H",\n"widgets":[]}')
    assert canonical("no json") == "no json"


@pytest.mark.parametrize(
    ("body", "widgets"), [('{"widgets": [{}, {}]}', "2"), ("no json", "0"), ("[]", "0"), ('{"widgets": 3}', "0")]
)
def test_a_plan_shows_how_many_widgets_there_are(body: str, widgets: str) -> None:
    fields = body_text(body)

    assert fields["widgets"] == widgets
    assert fields["body"].startswith("sha256:")


def test_a_body_names_its_stack(watched: Project) -> None:
    (dashboard,) = desired_state(watched, PLACE).dashboards

    assert owner_of(dashboard.body) == "ml"
    assert owner_of('{"widgets": []}') is None


def test_without_a_place_there_is_no_dashboard(watched: Project) -> None:
    assert desired_state(watched).dashboards == ()


@pytest.mark.parametrize("alarms", [AlarmsSection(enabled=False), AlarmsSection(dashboard=False)])
def test_it_can_be_switched_off_alone_or_with_the_alarms(
    project: Callable[..., Project], alarms: AlarmsSection
) -> None:
    assert desired_state(project(alarms=alarms), PLACE).dashboards == ()


def test_it_is_made_last_and_deleted_first(watched: Project, observed: Callable[..., Observed]) -> None:
    desired = desired_state(watched, PLACE)
    (dashboard,) = desired.dashboards
    made = plan_setup(desired, Observed({}, {}, {}), region="us-west-2", account_id="111122223333")
    assert made.changes[-1].label == "dashboard ml-us-west-2"

    there = observed(desired)
    there.dashboards[dashboard.name] = Dashboard(dashboard.name, ARN, dashboard.body, dashboard.tags)
    doomed = plan_teardown(there, "ml", region="us-west-2", account_id="111122223333")
    assert doomed.changes[0].label == "dashboard ml-us-west-2"
    assert doomed.changes[0].action is Action.DELETE


def test_a_plan_file_keeps_it(watched: Project, observed: Callable[..., Observed], tmp_path: Path) -> None:
    desired = desired_state(watched, PLACE)
    there = observed(desired)
    there.dashboards["ml-us-west-2"] = Dashboard("ml-us-west-2", ARN, '{"widgets": []}', desired.dashboards[0].tags)
    plan = plan_setup(desired, there, region="us-west-2", account_id="111122223333")
    save_plan(plan, tmp_path / "plan.json", "2026-11-30T18:00:00Z")

    again = load_plan(tmp_path / "plan.json").plan
    assert fingerprint(again) == fingerprint(plan)
    assert again.changes[-1] == plan.changes[-1]
    assert again.changes[-1].action is Action.UPDATE
