"""The server's one thread that lets time pass: in-process, calls do that."""

from __future__ import annotations

import logging
import threading
from typing import Final, Protocol

from fairshare.scheduler.clock import Clock

_RETRY_MS: Final = 1_000

_logger = logging.getLogger(__name__)


class Pumped(Protocol):
    """What moves when it is pumped: a `fairshare.local.runtime.Runtime`, or the history that writes its moves down."""

    def pump(self) -> None:
        """Do everything that is due at the present instant."""

    def next_event_at(self) -> int | None:
        """Return the instant, in milliseconds, at which something will happen by itself; None = nothing will."""


class Driver:
    """Pumps when the next event is due, or when it is woken.

    Args:
        pumped: what to pump.
        clock: what its instants are measured on.
        wake: set by anybody to have it look at once: a process ended, or a call changed when the next event is due.
    """

    def __init__(self, pumped: Pumped, clock: Clock, wake: threading.Event) -> None:
        self._pumped = pumped
        self._clock = clock
        self._wake = wake
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="fairshare-local-driver", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.clear()  # before looking: what happens from here on wakes us again
            if self._is_stopping:
                return
            at = self._pump()
            self._wake.wait(None if at is None else max(0, at - self._clock.now()) / 1000)

    def _pump(self) -> int | None:
        """Return the next instant to look at. A failure is logged and tried again: the queues must not stand still."""
        try:
            self._pumped.pump()
            return self._pumped.next_event_at()
        except Exception:
            _logger.exception("the local AWS could not move its queues forward")
            return self._clock.now() + _RETRY_MS
