"""Clocks: the one place in the core that may read the machine's time.

A clock answers integer milliseconds since the epoch, in two ways. `Clock.now` never jumps: intervals and waiting are
measured on it, so that a wall clock that is set by hours neither shortens nor lengthens them. `Clock.wall` is what the
machine's clock shows: "at 08:00" is compared with it, again and again, because it may be set while we wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> int:
        """Return milliseconds since the epoch; never jumps."""

    def wall(self) -> int:
        """Return what the machine's clock shows, in milliseconds since the epoch; jumps when that clock is set."""

    def sleep_until(self, at: int) -> None:
        """Return when `now` has reached ``at`` ms, or at once if it has."""


def uptime_ms() -> int:
    """Return the machine's monotonic clock in milliseconds: one for all its processes, and it never jumps."""
    return time.monotonic_ns() // 1_000_000


class SystemClock:
    """The machine's clock.

    Args:
        wake: an event that ends a sleep early, for instance when a signal arrives.
        wall: seconds since the epoch; injected in tests.
        monotonic: seconds that never jump; injected in tests.
    """

    def __init__(
        self,
        wake: threading.Event | None = None,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wake = wake or threading.Event()
        self._wall = wall
        self._origin_ms = self.wall()
        self._started = monotonic()
        self._monotonic = monotonic

    def now(self) -> int:
        """Milliseconds since the epoch: the wall clock at construction plus what the monotonic clock counted since."""
        return self._origin_ms + int((self._monotonic() - self._started) * 1000)

    def wall(self) -> int:
        """Milliseconds since the epoch as the wall clock has them now. After a suspend it is ahead of `now`."""
        return int(self._wall() * 1000)

    def sleep_until(self, at: int) -> None:
        """Sleep; returns early once the wake event is set."""
        while (left := at - self.now()) > 0 and not self._wake.wait(left / 1000):
            pass


class VirtualClock:
    """A clock that stands still until it is told to move: sleeping *is* moving."""

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._set_by = 0

    def now(self) -> int:
        """Return the virtual time in milliseconds."""
        return self._now

    def wall(self) -> int:
        """Return the virtual wall clock: `now`, and what it was set forward or back by."""
        return self._now + self._set_by

    def sleep_until(self, at: int) -> None:
        """Jump to ``at``; never backwards."""
        self._now = max(self._now, at)

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._now += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward, or back; no time passes."""
        self._set_by += milliseconds
