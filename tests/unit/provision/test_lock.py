from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fairshare.model import FairshareError
from fairshare.provision.lock import BusyError, StackPlace, stack_lock

PLACE = StackPlace("ml", "us-west-2", "111122223333")


def test_a_second_one_is_told_who_holds_the_stack(tmp_path: Path) -> None:
    with stack_lock(tmp_path / "stacks", PLACE, "fairshare teardown"):
        with pytest.raises(BusyError) as caught, stack_lock(tmp_path / "stacks", PLACE, "fairshare setup"):
            pytest.fail("two at once")
        assert caught.value.message == (
            f"stack ml is being changed by process {os.getpid()} of this machine (`fairshare teardown`)"
        )
        assert caught.value.hint is not None
        assert "run the same command again" in caught.value.hint
    with stack_lock(tmp_path / "stacks", PLACE, "fairshare setup"):
        pass


def test_another_place_is_another_lock(tmp_path: Path) -> None:
    others = [
        replace(PLACE, stack="ml-2"),
        replace(PLACE, region="us-east-1"),
        replace(PLACE, account_id="000000000000"),
        replace(PLACE, endpoint_url="http://127.0.0.1:5000"),
    ]
    with stack_lock(tmp_path, PLACE, "fairshare setup"):
        for other in others:
            with stack_lock(tmp_path, other, "fairshare setup"):
                pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 999999999, "command": "fairshare setup"}', '{"pid": "x"}'])
def test_a_holder_that_cannot_be_known_is_not_named(tmp_path: Path, text: str) -> None:
    """Left behind by a process that was killed, or not yet written by the one that holds the lock now."""
    with stack_lock(tmp_path, PLACE, "fairshare setup"):
        (tmp_path / f"{PLACE.file_name}.json").write_text(text)
        with (
            pytest.raises(BusyError, match=r"by another fairshare process of this machine$"),
            stack_lock(tmp_path, PLACE, "fairshare setup"),
        ):
            pytest.fail("two at once")


def test_nothing_is_left_that_names_a_holder(tmp_path: Path) -> None:
    with stack_lock(tmp_path, PLACE, "fairshare setup"):
        (holder,) = tmp_path.glob("*.json")
        assert json.loads(holder.read_text()) == {"pid": os.getpid(), "command": "fairshare setup"}
    assert list(tmp_path.glob("*.json")) == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(FairshareError, match=r"cannot keep a lock in .*file/stacks: Not a directory") as caught,
        stack_lock(tmp_path / "file" / "stacks", PLACE, "fairshare setup"),
    ):
        pytest.fail("no lock")
    assert caught.value.hint == "Set FAIRSHARE_STATE_DIR to a directory that can be written."


def test_an_error_inside_is_not_taken_for_one_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="of the caller"), stack_lock(tmp_path, PLACE, "fairshare setup"):
        raise TimeoutError("of the caller")
