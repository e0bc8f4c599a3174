"""Two at once: one wins, the other explains, and what is left is what the winner wanted, not a mixture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from fairshare.aws.provisioner import BatchProvisioner
from fairshare.aws.session import AwsSession
from fairshare.config.paths import local_ready_file
from fairshare.config.project import Project
from fairshare.local.inprocess import InProcessAws
from fairshare.local.server import LocalServer
from fairshare.provision.apply import apply
from fairshare.provision.desired import desired_state
from fairshare.provision.lock import StackPlace, stack_lock
from fairshare.provision.plan import Change, Plan, plan_setup, plan_teardown
from fairshare.provision.stale import StalePlanError

PLACE = {"region": "us-east-1", "account_id": "123456789012"}
MINE = {"capacity": 5, "priority": 5, "low": "5"}
THEIRS = {"capacity": 7, "priority": 7, "low": "7"}


@pytest.fixture
def provisioner(aws: InProcessAws) -> BatchProvisioner:
    return BatchProvisioner(AwsSession(region="us-east-1"), aws.clock)


def setup_plan(provisioner: BatchProvisioner, project: Project) -> Plan:
    desired = desired_state(project)
    return plan_setup(desired, provisioner.observe(desired.names, desired.stack), **PLACE)


def set_up(provisioner: BatchProvisioner, project: Project) -> None:
    apply(setup_plan(provisioner, project), provisioner, lambda change: None)


def tear_down(provisioner: BatchProvisioner) -> None:
    plan = plan_teardown(provisioner.observe((), "lab"), "lab", **PLACE)
    apply(plan, provisioner, lambda change: None)


def after(number: int, act: Callable[[], None]) -> Callable[[Change], None]:
    """Do something once ``number`` changes have been made."""
    made: list[Change] = []

    def on_change(change: Change) -> None:
        made.append(change)
        if len(made) == number:
            act()

    return on_change


@pytest.mark.parametrize("exists", [False, True], ids=["creation", "update"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_another_setup_at_any_step_wins_and_the_first_explains(
    provisioner: BatchProvisioner, folder: Any, stack_now: Callable[[], dict[str, Any]], step: int, exists: bool
) -> None:
    if exists:
        set_up(provisioner, folder.write())
    mine, theirs = folder.write(**MINE), folder.write(**THEIRS)
    plan = setup_plan(provisioner, mine)
    assert len(plan.pending) == 4

    with pytest.raises(StalePlanError) as caught:
        apply(plan, provisioner, after(step, lambda: set_up(provisioner, theirs)))

    assert stack_now() == THEIRS
    assert not setup_plan(provisioner, theirs).has_changes
    first = caught.value.message.splitlines()[0]
    if step == 4:
        assert first == "somebody else changed stack lab while this plan was applied:"
        assert "  job queue lab-line: priority was 5, is now 7" in caught.value.message.splitlines()
    else:
        assert first == "somebody else is changing this stack at the same time:"
        assert plan.pending[step].label in caught.value.message
    assert caught.value.hint is not None
    assert "Run the same command again" in caught.value.hint


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_teardown_during_a_setup_wins_and_setup_explains(
    provisioner: BatchProvisioner, folder: Any, batch: Any, step: int
) -> None:
    set_up(provisioner, folder.write())
    plan = setup_plan(provisioner, folder.write(**MINE))

    with pytest.raises(StalePlanError, match="is gone"):
        apply(plan, provisioner, after(step, lambda: tear_down(provisioner)))

    assert batch.describe_job_queues()["jobQueues"] == []
    assert batch.describe_service_environments()["serviceEnvironments"] == []


def test_a_setup_after_the_yes_and_before_the_first_change_wins(
    provisioner: BatchProvisioner, folder: Any, stack_now: Callable[[], dict[str, Any]]
) -> None:
    plan = setup_plan(provisioner, folder.write(**MINE))
    set_up(provisioner, folder.write(**THEIRS))

    with pytest.raises(StalePlanError, match="stack lab has changed since this plan was made"):
        apply(plan, provisioner, lambda change: None)

    assert stack_now() == THEIRS


# -- processes -------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """A local AWS over HTTP, which ``--local`` finds."""
    ready = local_ready_file({"FAIRSHARE_STATE_DIR": str(tmp_path / "state")})
    with LocalServer(state_dir=tmp_path / "aws", ready_file=ready) as server:
        yield server


def start(server: LocalServer, folder: Path, state_dir: Path) -> subprocess.Popen[str]:
    """Start `fairshare setup --yes` in a process of its own, as on a host whose state is in ``state_dir``."""
    address = server.address
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "FAIRSHARE_STATE_DIR": str(state_dir),
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": address.access_key_id,
        "AWS_SECRET_ACCESS_KEY": address.secret_access_key,
    }
    command = [sys.executable, "-m", "fairshare", "setup", "--yes", "-o", "json"]
    return subprocess.Popen(
        [*command, "--endpoint-url", address.endpoint_url],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def client_of(server: LocalServer) -> Any:
    """A boto3 client of Batch."""
    return boto3.client(
        "batch",
        region_name="us-east-1",
        endpoint_url=server.address.endpoint_url,
        aws_access_key_id=server.address.access_key_id,
        aws_secret_access_key=server.address.secret_access_key,
    )


@pytest.mark.parametrize("hosts", ["one host", "two hosts"])
def test_two_processes_at_once_never_leave_a_mixture(
    server: LocalServer, folder: Any, tmp_path: Path, read_stack: Callable[[Any], dict[str, Any]], hosts: str
) -> None:
    processes = []
    for number, wanted in enumerate((MINE, THEIRS)):
        directory = tmp_path / f"checkout-{number}"
        directory.mkdir()
        folder.write(**wanted)
        (directory / "fairshare.yaml").write_text((folder.path / "fairshare.yaml").read_text())
        state = tmp_path / (f"state-{number}" if hosts == "two hosts" else "shared-state")
        processes.append((wanted, start(server, directory, state)))
    results = []
    for wanted, process in processes:
        out, _ = process.communicate(timeout=60)
        results.append((wanted, process.returncode, json.loads(out)))

    winners = [wanted for wanted, code, _ in results if code == 0]
    assert winners
    assert read_stack(client_of(server)) in winners
    for _, code, document in results:
        if code != 0:
            assert document["error"]["code"] in {"StalePlan", "Busy"}
            assert "stack" in document["error"]["message"]
            assert document["error"]["hint"]


def test_a_process_that_finds_the_stack_held_names_the_holder(server: LocalServer, folder: Any, tmp_path: Path) -> None:
    place = StackPlace("lab", "us-east-1", "123456789012", server.address.endpoint_url)
    with stack_lock(tmp_path / "state" / "stacks", place, "fairshare setup"):
        process = start(server, folder.path, tmp_path / "state")
        out, _ = process.communicate(timeout=60)

    assert process.returncode == 1
    error = json.loads(out)["error"]
    assert error["code"] == "Busy"
    assert error["message"] == (
        f"stack lab is being changed by process {os.getpid()} of this machine (`fairshare setup`)"
    )
    assert server.call_log.writes() == []
