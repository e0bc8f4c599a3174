"""Clocks: virtual time, and machine time that does not jump."""

from __future__ import annotations

import threading
import time

import pytest

from fairshare.scheduler.clock import SystemClock, VirtualClock, uptime_ms


class Machine(threading.Event):
    """A machine's two time sources, in seconds, and the event a `SystemClock` sleeps on: waiting moves time."""

    def __init__(self) -> None:
        super().__init__()
        self.wall_now = 1_700_000_000.25
        self.monotonic_now = 50.0
        self.slept: list[float] = []
        self.wakes_early = False

    def wall(self) -> float:
        return self.wall_now

    def monotonic(self) -> float:
        return self.monotonic_now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.slept.append(timeout)
        self.monotonic_now += timeout / 2 if self.wakes_early else timeout
        self.wakes_early = False
        return self.is_set()


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def clock(machine: Machine) -> SystemClock:
    return SystemClock(machine, machine.wall, machine.monotonic)


def test_it_counts_milliseconds_since_the_epoch(machine: Machine, clock: SystemClock) -> None:
    assert clock.now() == 1_700_000_000_250
    machine.monotonic_now += 1.5
    assert clock.now() == 1_700_000_001_750


def test_a_wall_clock_that_jumps_changes_nothing(machine: Machine, clock: SystemClock) -> None:
    machine.wall_now -= 7200
    machine.monotonic_now += 1
    assert clock.now() == 1_700_000_001_250


def test_the_wall_clock_is_read_anew_each_time(machine: Machine, clock: SystemClock) -> None:
    assert clock.wall() == clock.now() == 1_700_000_000_250
    machine.wall_now += 7200
    assert clock.wall() == 1_700_007_200_250
    machine.monotonic_now += 1
    assert clock.wall() == 1_700_007_200_250
    assert clock.now() == 1_700_000_001_250


def test_sleeping_lasts_until_the_instant(machine: Machine, clock: SystemClock) -> None:
    clock.sleep_until(clock.now() + 2500)
    assert machine.slept == [2.5]
    clock.sleep_until(clock.now())
    clock.sleep_until(clock.now() - 10)
    assert machine.slept == [2.5]


def test_a_wait_that_returns_too_early_is_repeated(machine: Machine, clock: SystemClock) -> None:
    machine.wakes_early = True
    clock.sleep_until(clock.now() + 1000)
    assert machine.slept == [1.0, 0.5]


def test_a_sleep_ends_early_once_the_wake_event_is_set(machine: Machine, clock: SystemClock) -> None:
    machine.set()
    clock.sleep_until(clock.now() + 60_000)
    assert len(machine.slept) == 1


def test_it_reads_the_machine_by_default() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.sleep_until(before)
    assert clock.now() >= before > 1_700_000_000_000


def test_virtual_time_moves_when_told_and_never_back() -> None:
    clock = VirtualClock(start=100)
    clock.sleep_until(250)
    clock.sleep_until(50)
    assert clock.now() == 250
    clock.advance(50)
    assert clock.now() == 300


def test_a_virtual_wall_clock_is_set_without_time_passing() -> None:
    clock = VirtualClock(start=100)
    assert clock.wall() == 100
    clock.jump(-7_200_000)
    clock.advance(50)
    assert (clock.now(), clock.wall()) == (150, -7_199_850)


def test_uptime_is_the_machines_monotonic_clock() -> None:
    before = time.monotonic_ns() // 1_000_000
    assert before <= uptime_ms() <= time.monotonic_ns() // 1_000_000
