"""What is compared: policies, variants, capacities, scopes of blocking."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.model import InvalidFileError, UsageError
from fairshare.scheduler.engine import Blocking
from fairshare.simulate.settings import Comparison, Setting, settings_of
from fairshare.simulate.variants import parse_change

LOWPRI = "queues.gpu.fairshare.shares.LOWPRI.weight_factor"


def names(settings: list[Setting]) -> list[str]:
    return [setting.name for setting in settings]


def weight(setting: Setting, share: str) -> str:
    policy = setting.queues["gpu"].policy
    assert policy is not None
    return {entry.share_identifier: entry.weight_factor for entry in policy.share_distribution}[share]


def test_by_default_first_in_first_out_and_the_present_file(project_file: Path) -> None:
    fifo, present = settings_of(Comparison(), project_file)

    assert (fifo.name, fifo.queues["gpu"].policy, fifo.queue) == ("fifo", None, "gpu")
    assert (present.name, weight(present, "LOWPRI"), present.capacity_of("gpu")) == ("fairshare", "5", 4)
    assert fifo.weights == present.weights


def test_without_a_project_one_pool_needs_its_capacity() -> None:
    assert settings_of(Comparison(capacities=[(None, 100)]), None)[0].capacity_of("jobs") == 100
    with pytest.raises(UsageError, match="nothing says how many instances there are"):
        settings_of(Comparison(), None)


def test_changes_of_several_keys_go_together_and_values_of_one_key_are_each_tried(project_file: Path) -> None:
    changes = [parse_change(f"{LOWPRI}=8"), parse_change(f"{LOWPRI}=9"), parse_change("queues.gpu.priority=3")]
    found = settings_of(Comparison(policies=["fifo"], changes=changes), project_file)

    assert names(found) == [
        "fifo",
        "fairshare LOWPRI.weight_factor=8, gpu.priority=3",
        "fairshare LOWPRI.weight_factor=9, gpu.priority=3",
    ]
    assert [weight(setting, "LOWPRI") for setting in found[1:]] == ["8", "9"]
    assert {setting.queues["gpu"].priority for setting in found[1:]} == {3}


def test_a_change_can_add_and_remove_keys(project_file: Path) -> None:
    changes = [parse_change("queues.gpu.fairshare="), parse_change("queues.gpu.fifo=true")]
    removed = settings_of(Comparison(changes=changes), project_file)[-1]
    added = settings_of(
        Comparison(changes=[parse_change("queues.gpu.fairshare.shares.NEW.weight_factor=2")]), project_file
    )[-1]

    assert removed.queues["gpu"].policy is None
    assert weight(added, "NEW") == "2"


def test_a_change_obeys_the_rules_of_the_file(project_file: Path) -> None:
    with pytest.raises(InvalidFileError, match='unknown key "weight_facto" in queues'):
        settings_of(Comparison(changes=[(LOWPRI[:-1], "8")]), project_file)
    with pytest.raises(InvalidFileError, match=r"LOWPRI.weight_factor: must be between 0.0001 and 999.9999, not 0"):
        settings_of(Comparison(changes=[(LOWPRI, "0")]), project_file)


def test_a_change_of_something_that_is_not_there_is_taken_for_a_wrong_name(project_file: Path) -> None:
    with pytest.raises(UsageError) as refused:
        settings_of(Comparison(changes=[("queues.gpus.priority", "3")]), project_file)
    assert refused.value.message == "--set queues.gpus.priority: queues has no gpus"
    assert refused.value.hint == "did you mean gpu? (keys there: gpu, batch)"
    wrong = ("queues.gpu.fairshare.shares.NEW.weight_factor", "2"), (LOWPRI, "0")
    with pytest.raises(InvalidFileError, match=r"LOWPRI.weight_factor: must be between"):
        settings_of(Comparison(changes=wrong), project_file)


@pytest.mark.parametrize("text", ["LOWPRI", "=8", "queues..gpu=3", ".=1"])
def test_what_is_no_change(text: str) -> None:
    with pytest.raises(UsageError, match="this is no KEY=VALUE"):
        parse_change(text)


def test_a_change_below_a_value_is_refused(project_file: Path) -> None:
    with pytest.raises(UsageError, match=r"--set stack\.name: there is no mapping around name"):
        settings_of(Comparison(changes=[("stack.name", "x")]), project_file)


def test_one_capacity_replaces_and_several_are_compared(project_file: Path) -> None:
    one = settings_of(Comparison(policies=["fifo"], capacities=[(None, 6), ("cpu", 9)]), project_file)
    several = settings_of(Comparison(policies=["fifo"], capacities=[("gpu", 6), ("gpu", 8)]), project_file)

    assert (names(one), one[0].capacity_of("gpu"), one[0].capacity_of("batch")) == (["fifo"], 6, 9)
    assert names(several) == ["fifo gpu capacity=6", "fifo gpu capacity=8"]


def test_scopes_of_blocking_are_compared(project_file: Path) -> None:
    found = settings_of(Comparison(policies=["fifo"], blockings=list(Blocking)), project_file)

    assert names(found) == ["fifo blocking=queue", "fifo blocking=share", "fifo blocking=none"]
    assert [setting.options.blocking for setting in found] == list(Blocking)


def test_policies_of_other_files(project_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "equal.yaml"
    other.write_text(project_file.read_text().replace("weight_factor: 5", "weight_factor: 1"))
    found = settings_of(Comparison(policies=[str(other), str(project_file)]), project_file)

    assert names(found) == ["equal", "fairshare"]
    assert weight(found[0], "LOWPRI") == "1"


@pytest.mark.parametrize(
    ("comparison", "message", "hint"),
    [
        (Comparison(capacities=[("gpuu", 3)]), "policy fifo has no service environment gpuu", "did you mean gpu?"),
        (Comparison(capacities=[("gpu", 0)]), "a pool has at least 1 instance", "write --capacity 16"),
        (Comparison(policies=["fiffo"]), "--policy fiffo: there is no such file", "give fifo, or the path"),
        (Comparison(queue="btch"), "has no queue btch", "did you mean batch?"),
    ],
)
def test_what_does_not_exist(project_file: Path, comparison: Comparison, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings_of(comparison, project_file)

    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


def test_a_change_needs_a_file_to_change() -> None:
    with pytest.raises(UsageError, match="--set changes a project file, and there is none"):
        settings_of(Comparison(changes=[(LOWPRI, "8")], capacities=[(None, 3)]), None)


def test_an_open_choice_of_queues_is_asked_for(tmp_path: Path, project_file: Path) -> None:
    project_file.write_text(project_file.read_text().replace("defaults: {queue: gpu}\n", ""))

    with pytest.raises(UsageError, match="which queue gets the jobs"):
        settings_of(Comparison(), project_file)
    assert settings_of(Comparison(queue="search-batch"), project_file)[0].queue == "batch"
