"""A wall clock that is set, and a machine that sleeps, in the middle of a run: the real clock on a faked machine."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.times import Window, parse_window
from fairshare.scheduler.clock import SystemClock
from fairshare.submit.calls import CallsInTurn
from fairshare.submit.dispatch import SubmitPlan, dispatch
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.rules import RunRules
from fairshare.submit.waves import plan_waves
from fairshare.submit.windows import Gate, opens_at

T0 = 1_796_061_600_000
"""2026-11-30T18:00:00Z."""

HOUR = 3_600
EVENINGS = parse_window("18:20-23:00 UTC")


class Machine(threading.Event):
    """Both clocks of a machine, in seconds; waiting moves them. ``upsets`` are (after seconds, wall clock set by)."""

    def __init__(self, *upsets: tuple[float, float]) -> None:
        super().__init__()
        self.passed = 0.0
        self.set_by = 0.0
        self._upsets = list(upsets)

    def wall(self) -> float:
        return T0 / 1000 + self.passed + self.set_by

    def monotonic(self) -> float:
        return self.passed

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.passed += timeout
        while self._upsets and self._upsets[0][0] <= self.passed:
            self.set_by += self._upsets.pop(0)[1]
        return False


class Starts:
    """Runs a submission and tells when its jobs were sent."""

    def __init__(self, runs: Path, backend: Any, make_planned: Callable[..., PlannedJob]) -> None:
        self._runs = runs
        self._backend = backend
        self._make = make_planned

    def of(
        self, machine: Machine, *, start_at: int | None = None, window: Window | None = None
    ) -> list[tuple[int, int]]:
        """Seconds that had passed, and what the wall clock showed in seconds since T0, at each of three waves."""
        sent: list[tuple[int, int]] = []
        accept = self._backend.accept

        def note(request: Any) -> Any:
            sent.append((round(machine.passed), round(machine.wall() - T0 / 1000)))
            return accept(request)

        self._backend.answers = [note] * 3
        waves = plan_waves(3, 1, 600, T0 if start_at is None else start_at, window, timed=start_at is not None)
        identity = RunIdentity("lunar-otter", T0, "us-west-2", "111122223333")
        rules = RunRules(Gate(start_at, window))
        plan = SubmitPlan(identity, waves, tuple(self._make(i, i + 1) for i in range(3)), rules=rules)
        clock = SystemClock(machine, machine.wall, machine.monotonic)
        with Journal.create(self._runs, "lunar-otter", Holder("test", T0)) as journal:
            pace, calls = Pace(random.Random(1), 0), CallsInTurn(self._backend)
            dispatch(plan, calls, journal, clock, pace, lambda event: None, stop=lambda: False)
        assert [job.state for job in read_run(self._runs / "lunar-otter.jsonl").jobs] == ["sent"] * 3
        return sent


@pytest.fixture
def starts(tmp_path: Path, backend: Any, make_planned: Callable[..., PlannedJob]) -> Starts:
    return Starts(tmp_path, backend, make_planned)


@pytest.mark.parametrize("hours", [-5, -1, 1, 5])
def test_the_stagger_is_not_moved_by_a_wall_clock_that_jumps_by_hours(starts: Starts, hours: int) -> None:
    sent = starts.of(Machine((300, hours * HOUR), (900, hours * HOUR)))
    assert sent == [(0, 0), (600, 600 + hours * HOUR), (1200, 1200 + 2 * hours * HOUR)]


@pytest.mark.parametrize(("set_by", "waited"), [(-600, 1800), (600, 600), (5 * HOUR, 300)])
def test_an_absolute_start_is_met_on_the_wall_clock_that_was_set(starts: Starts, set_by: int, waited: int) -> None:
    sent = starts.of(Machine((300, set_by)), start_at=T0 + 1_200_000)
    assert sent[0] == (waited, max(1200, 300 + set_by))
    assert [passed - waited for passed, _ in sent] == [0, 600, 1200]


def test_a_clock_set_back_over_the_start_holds_nothing_up(starts: Starts) -> None:
    sent = starts.of(Machine((900, -3 * HOUR)), start_at=T0 + 600_000)
    assert [passed for passed, _ in sent] == [600, 1200, 1800]


@pytest.mark.parametrize(("set_by", "first"), [(300, 900), (-600, 1800), (4 * HOUR, 600)])
def test_a_window_is_met_on_the_wall_clock_that_was_set(starts: Starts, set_by: int, first: int) -> None:
    sent = starts.of(Machine((600, set_by)), window=EVENINGS)
    assert [passed - first for passed, _ in sent] == [0, 600, 1200]
    assert all(opens_at(EVENINGS, T0 + shown * 1000) == T0 + shown * 1000 for _, shown in sent)


def test_a_clock_that_jumps_out_of_the_window_closes_it(starts: Starts) -> None:
    sent = starts.of(Machine((1500, 23.5 * HOUR)), window=EVENINGS)
    assert sent == [(1200, 1200), (3000, 3000 + int(23.5 * HOUR)), (3600, 3600 + int(23.5 * HOUR))]
