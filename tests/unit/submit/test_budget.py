from __future__ import annotations

import json
import random
import stat
from pathlib import Path

import pytest

from fairshare.model import FairshareError
from fairshare.submit.budget import BudgetKey, SharedBucket, boot_id
from fairshare.submit.rate import Pace

KEY = BudgetKey("111122223333", "us-west-2", None, "host-a")


class Machine:
    """A host with its monotonic clock; each `process` has a wall clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uptime = 5_000_000
        self.boot = "boot-1"

    def process(self, rate: float = 5, key: BudgetKey = KEY) -> Pace:
        return Pace(random.Random(0), rate, buckets=SharedBucket(self.folder, key, lambda: self.uptime, self.boot))

    @property
    def file(self) -> Path:
        return self.folder / KEY.file_name


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "run" / "fairshare")


def waits(pace: Pace, count: int, now: int) -> list[int]:
    return [pace.reserve(now) - now for _ in range(count)]


def test_processes_share_one_budget_whatever_their_wall_clocks_say(machine: Machine) -> None:
    one, two = machine.process(), machine.process()

    assert [*waits(one, 2, 1_000), *waits(two, 2, 999_999_999), *waits(one, 1, 1_000)] == [0, 200, 400, 600, 800]


def test_a_new_process_goes_on_where_an_ended_one_stopped(machine: Machine) -> None:
    waits(machine.process(), 3, 0)
    machine.uptime += 250

    assert waits(machine.process(), 2, 77) == [350, 550]


def test_the_wall_clock_may_jump_by_hours(machine: Machine) -> None:
    pace = machine.process()
    waits(pace, 2, 10_000_000)

    assert waits(pace, 1, 10_000_000 + 7_200_000) == [400]
    assert waits(pace, 1, 10_000_000 - 7_200_000) == [600]


def test_a_pause_saves_nothing_up(machine: Machine) -> None:
    pace = machine.process()
    waits(pace, 5, 0)
    machine.uptime += 60_000

    assert waits(pace, 3, 0) == [0, 200, 400]


@pytest.mark.parametrize(
    "other",
    [
        BudgetKey("999999999999", "us-west-2", None, "host-a"),
        BudgetKey("111122223333", "eu-west-1", None, "host-a"),
        BudgetKey("111122223333", "us-west-2", "http://127.0.0.1:4000", "host-a"),
        BudgetKey("111122223333", "us-west-2", None, "host-b"),
    ],
)
def test_another_account_region_address_or_host_has_its_own(machine: Machine, other: BudgetKey) -> None:
    waits(machine.process(), 9, 0)

    assert waits(machine.process(key=other), 1, 0) == [0]


def test_after_a_boot_it_begins_anew(machine: Machine) -> None:
    waits(machine.process(), 9, 0)
    machine.boot, machine.uptime = "boot-2", 10

    assert waits(machine.process(), 2, 0) == [0, 200]


def test_without_a_boot_id_a_token_far_away_is_of_another_boot(machine: Machine) -> None:
    machine.boot = ""
    waits(machine.process(), 9, 0)
    machine.uptime = 10

    assert waits(machine.process(), 2, 0) == [0, 200]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"next_at":"x"}', b'{"boot_id":"boot-1","next_at":"1"}'])
def test_a_file_that_cannot_be_read_counts_as_a_token_just_taken(machine: Machine, damage: bytes) -> None:
    waits(machine.process(), 1, 0)
    machine.file.write_bytes(damage)

    assert waits(machine.process(), 2, 0) == [1_000, 1_200]


def test_a_percentage_that_cannot_be_is_not_believed(machine: Machine) -> None:
    waits(machine.process(), 1, 0)
    state = json.loads(machine.file.read_text())
    machine.file.write_text(json.dumps({**state, "percent": 0}))

    assert waits(machine.process(), 1, 0) == [1_000]


def test_a_throttle_slows_all_of_them_down(machine: Machine) -> None:
    one, two = machine.process(), machine.process()
    one.throttled(0)

    assert waits(two, 3, 0) == [0, 400, 800]


def test_the_file_is_the_user_s_alone(machine: Machine) -> None:
    waits(machine.process(), 1, 0)

    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.folder.stat().st_mode) == 0o700


def test_a_token_never_comes_early_by_rounding(machine: Machine) -> None:
    times = waits(machine.process(4.9), 491, 0)

    assert times[490] in (100_000, 100_001)


def test_no_limit_needs_no_file(machine: Machine) -> None:
    pace = machine.process(0)
    pace.throttled(0)
    pace.accepted(0)

    assert waits(pace, 3, 0) == [0, 0, 0]
    assert not machine.folder.exists()


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(FairshareError, match="cannot keep the rate budget in") as caught:
        Machine(tmp_path / "file" / "run").process().reserve(0)
    assert "XDG_RUNTIME_DIR" in str(caught.value.hint)


def test_a_process_that_was_stopped_with_the_lock_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from filelock import FileLock

    monkeypatch.setattr("fairshare.submit.budget._LOCK_SECONDS", 0)
    machine.folder.mkdir(parents=True)
    with FileLock(machine.file.with_suffix(".lock")), pytest.raises(FairshareError, match="has been locked for"):
        machine.process().reserve(0)


def test_the_boot_id_does_not_change() -> None:
    assert boot_id() == boot_id()


def test_an_unknown_system_has_no_boot_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fairshare.submit.budget._BOOT_ID", tmp_path / "none")

    assert boot_id() == ""
