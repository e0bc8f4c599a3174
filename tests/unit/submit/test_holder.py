from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from fairshare.submit.holder import Holder, RunHeldError, RunLock

T0 = 1_764_500_000_000
MINE = Holder("fairshare submit", T0, host="workstation")


def held_message(path: Path) -> str:
    with pytest.raises(RunHeldError) as caught:
        RunLock.acquire(path, Holder("fairshare resume", T0 + 1))
    assert caught.value.exit_code == 1
    return caught.value.message


def test_c26_the_holder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "sweep.jsonl"
    lock = RunLock.acquire(path, MINE)

    assert held_message(path) == (
        f'run "sweep" is held by process {os.getpid()} on workstation since 2025-11-30 10:53:20 UTC '
        "(`fairshare submit`)"
    )
    lock.release()
    lock.release()
    RunLock.acquire(path, MINE).release()
    assert not path.with_suffix(".holder").exists()


@pytest.mark.parametrize(
    "note",
    ["", "{", "[]", '{"pid": "x"}', json.dumps(asdict(Holder("fairshare submit", T0, pid=2**22 + 1)))],
    ids=["empty", "torn", "not a map", "not a note", "of a process that is gone"],
)
def test_c26_nobody_is_blamed_on_a_note_that_cannot_be_true(tmp_path: Path, note: str) -> None:
    """A process that was killed leaves its note behind; the next holder may not have written its own yet."""
    path = tmp_path / "sweep.jsonl"
    with_lock = RunLock.acquire(path, MINE)
    path.with_suffix(".holder").write_text(note)

    assert held_message(path) == 'run "sweep" is held by another fairshare process'
    with_lock.release()


def test_a_process_of_somebody_else_may_be_alive() -> None:
    assert Holder("fairshare submit", T0, pid=1).may_be_alive
    assert Holder("fairshare submit", T0, pid=2**22 + 1, host="elsewhere").may_be_alive


def test_a_run_is_free_once_its_holder_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    child = os.fork()
    if child == 0:
        RunLock.acquire(path, MINE)
        os._exit(0)
    os.waitpid(child, 0)

    RunLock.acquire(path, MINE).release()
