"""The launcher of a local AWS that remembers: nothing is done in the world before the disk knows why.

It stands between the runtime and the launcher that does the work. Orders to start and stop wait until the record that
explains them is on the disk, and what the launcher reports is handed on only after it was written down. So an attempt
that was started is known after a crash, and is never started a second time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fairshare.local.launcher import Attempt, Launcher, Report

Key = tuple[str, int]
"""Job id and number of the attempt."""


@dataclass(frozen=True)
class _Order:
    """Something to ask of the launcher once record ``seq`` is on the disk."""

    seq: int
    carry_out: Callable[[Launcher], None]


class HeldLauncher:
    """An adapter of `fairshare.local.launcher.Launcher` over another one.

    A launcher that reports a whole run when it starts (``foresees``: the simulated one) does nothing in the world. It
    is asked at once, and what it says need not be written down: it would say it again.

    Args:
        next_seq: number of the record that is written next.
    """

    def __init__(self, next_seq: Callable[[], int]) -> None:
        self._next_seq = next_seq
        self._launcher: Launcher | None = None
        self._foresees = False
        self._orders: deque[_Order] = deque()
        self._last_order = -1
        self._carrying_out = threading.Lock()
        self._arrived: list[Report] = []
        self._ends: dict[Key, int | None] = {}

    def use(self, launcher: Launcher | None, *, foresees: bool) -> None:
        """From now on attempts run in this launcher; None = they ran in one of the past, nothing is to be done."""
        self._launcher, self._foresees = launcher, foresees

    @property
    def foresees(self) -> bool:
        """Whether the present launcher reports runs whole."""
        return self._foresees

    # -- what the runtime calls, under the lock --------------------------------------------------------------------

    def start(self, attempt: Attempt, at: int) -> None:
        """Begin an attempt, as soon as its reason is on the disk."""
        self._ends[attempt.job_id, attempt.number] = None
        self._ask(lambda launcher: launcher.start(attempt, at))

    def stop(self, job_id: str, attempt: int) -> None:
        """End an attempt, as soon as the reason is on the disk."""
        self._ask(lambda launcher: launcher.stop(job_id, attempt))

    def poll(self, now: int) -> list[Report]:
        """Return what was written down and not returned yet, and what the launcher foresees."""
        reports, self._arrived = self._arrived, []
        if self._foresees and self._launcher is not None:
            reports += self._launcher.poll(now)
        for report in reports:
            if report.status.is_terminal:
                self._ends[report.job_id, report.attempt] = report.at
        return reports

    def close(self) -> None:
        """End every attempt that still runs."""
        if self._launcher is not None:
            self._launcher.close()

    # -- what the keeper of the log calls --------------------------------------------------------------------------

    def news(self, now: int) -> list[Report]:
        """Return what the launcher did since the last time: to be written down, then given to `arrive`."""
        return [] if self._foresees or self._launcher is None else self._launcher.poll(now)

    def arrive(self, reports: Iterable[Report]) -> None:
        """Hand reports on at the next poll."""
        self._arrived += reports

    @property
    def has_orders(self) -> bool:
        """Whether orders wait for the record that is written next."""
        return self._last_order == self._next_seq()

    def carry_out(self, on_disk: int) -> None:
        """Carry out, in their order, what waited for records that are among the first ``on_disk`` ones."""
        with self._carrying_out:
            while self._orders and self._orders[0].seq < on_disk:
                order = self._orders.popleft()
                if self._launcher is not None:
                    order.carry_out(self._launcher)

    def in_flight(self, at: int) -> list[Key]:
        """Return the attempts that have begun and not ended by ``at`` ms; the ended ones are forgotten."""
        self._ends = {key: end for key, end in self._ends.items() if end is None or end > at}
        return list(self._ends)

    def _ask(self, order: Callable[[Launcher], None]) -> None:
        if self._launcher is None:
            return
        if self._foresees:
            order(self._launcher)
        else:
            self._last_order = self._next_seq()
            self._orders.append(_Order(self._last_order, order))
