"""A plan as text: alarms take few lines, and no width hides one."""

from __future__ import annotations

import pytest

from fairshare.cli.plan_view import plan_text
from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import FairshareConfig, Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.model import ResourceType
from fairshare.provision.desired import desired_state
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Action, Change, Plan, plan_setup

SHARES = {"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}
PROJECT = Project(
    stack="ml",
    region="us-west-2",
    service_environments={"gpu": ServiceEnvironmentConfig(capacity=16, instance_types=("ml.g6.12xlarge",))},
    queues={"gpu": QueueConfig(service_environment="gpu", fairshare=FairshareConfig(shares=SHARES))},
    alarms=AlarmsSection(),
)


@pytest.mark.parametrize("width", [80, 120, None])
def test_alarms_that_are_made_are_told_once_for_all_shares(width):
    plan = plan_setup(desired_state(PROJECT), Observed({}, {}, {}), region="us-west-2", account_id="111122223333")
    lines = plan_text(plan, "here", width).splitlines()
    begin = next(index for index, line in enumerate(lines) if "11 alarms" in line)

    assert [line.split("alarms")[-1].strip() for line in lines[begin : begin + 6]] == [
        "gpu-blocked, gpu-oldest-wait (3 shares),",
        "gpu-failure-rate, gpu-capacity-idle,",
        "gpu-utilization-low,",
        "gpu-share-starved (3 shares),",
        "gpu-collector-silent",
        "",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_every_alarm_that_is_deleted_has_its_name_in_the_plan():
    names = [f"gpu-oldest-wait-TEAM{number}" for number in range(9)]
    changes = tuple(Change(Action.DELETE, ResourceType.ALARM, f"ml-{name}", name) for name in names)
    text = plan_text(Plan("ml", "us-west-2", "111122223333", changes), "here", 80)

    assert [name for name in names if name not in text] == []
    assert max(map(len, text.splitlines())) <= 80
