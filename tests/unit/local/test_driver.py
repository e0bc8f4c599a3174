"""The driver thread: time passes without calls, and the thread ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fairshare.local.driver import Driver
from fairshare.scheduler.clock import SystemClock


class Pumped:
    """Stands in for a runtime: wants to be pumped at given instants and says when it has been, often enough."""

    def __init__(self, clock: SystemClock, after_ms: list[int | None]) -> None:
        self._clock = clock
        self._after_ms = after_ms
        self.pumps = 0
        self.is_done = threading.Event()
        self.error: Exception | None = None

    def pump(self) -> None:
        self.pumps += 1
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if not self._after_ms:
            self.is_done.set()

    def next_event_at(self) -> int | None:
        if not self._after_ms:
            return None
        after = self._after_ms.pop(0)
        return None if after is None else self._clock.now() + after


def drive(runtime: Any, clock: SystemClock) -> tuple[Driver, threading.Event]:
    wake = threading.Event()
    driver = Driver(runtime, clock, wake)
    driver.start()
    return driver, wake


def test_it_pumps_when_an_event_is_due_and_then_rests():
    clock = SystemClock()
    runtime = Pumped(clock, [5, 0, -100])
    driver, _ = drive(runtime, clock)
    assert runtime.is_done.wait(10)
    driver.stop()
    assert runtime.pumps == 4


def test_it_pumps_when_woken():
    clock = SystemClock()
    runtime = Pumped(clock, [None])
    driver, wake = drive(runtime, clock)
    wake.set()
    assert runtime.is_done.wait(10)
    driver.stop()


def test_a_failure_is_logged_and_does_not_end_it(caplog: pytest.LogCaptureFixture):
    clock = SystemClock()
    runtime = Pumped(clock, [])
    runtime.error = ValueError("a bug")
    driver, wake = drive(runtime, clock)
    wake.set()
    assert runtime.is_done.wait(10)
    driver.stop()
    assert "the local AWS could not move its queues forward" in caplog.text
    assert "a bug" in caplog.text


def test_it_ends_while_it_rests():
    clock = SystemClock()
    runtime = Pumped(clock, [])
    driver, _ = drive(runtime, clock)
    assert runtime.is_done.wait(10)
    driver.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "fairshare-local-driver"]
