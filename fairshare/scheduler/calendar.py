"""Events by instant. What is added in order of time, such as a workload that is loaded ahead, costs O(1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from fairshare.model import JobStatus
from fairshare.scheduler.jobs import EngineJob


class Kind:
    """Events of one instant are worked off in this order, then by sequence: execution, commands, what falls due.

    Plain integers: events are compared very often.
    """

    REPORT: Final = 0
    COMMAND: Final = 1
    TIMER: Final = 2


Event = tuple[int, int, int, Callable[..., None], tuple[Any, ...]]
"""Instant, kind, sequence, and what is to be called with what."""


class Calendar:
    """Events that are still to come. The first one has a place of its own: looking at it costs nothing."""

    def __init__(self) -> None:
        self._sequence = count()
        self._first: Event | None = None
        self._in_order: deque[Event] = deque()
        self._others: list[Event] = []

    def add(self, at: int, kind: int, act: Callable[..., None], *args: Any) -> None:
        """Have ``act(*args)`` called at ``at`` ms."""
        event = (at, kind, next(self._sequence), act, args)
        if self._first is None:
            self._first = event
        elif event < self._first:
            heappush(self._others, self._first)
            self._first = event
        elif not self._in_order or event > self._in_order[-1]:
            self._in_order.append(event)
        else:
            heappush(self._others, event)

    def add_timer(self, at: int, act: Callable[[EngineJob], None], job: EngineJob) -> None:
        """Have ``act(job)`` called at ``at`` ms, if by then the job still is in its present status and attempt."""
        self.add(at, Kind.TIMER, act, job, job.status, job.attempt)

    def first_at(self) -> int | None:
        """Return the instant of the first event that is not stale, or None."""
        while (event := self._first) is not None:
            if event[1] != Kind.TIMER or not _is_stale(*event[4]):
                return event[0]
            self._next()
        return None

    def work_off(self, instant: int) -> None:
        """Call what is due at an instant, where the first event is, and what is added for it meanwhile."""
        while (event := self._first) is not None and event[0] == instant:
            self._next()
            _, kind, _, act, args = event
            if kind != Kind.TIMER:
                act(*args)
            elif not _is_stale(*args):
                act(args[0])

    def _next(self) -> None:
        """Put another event in the first place."""
        if self._in_order and not (self._others and self._others[0] < self._in_order[0]):
            self._first = self._in_order.popleft()
        else:
            self._first = heappop(self._others) if self._others else None


def _is_stale(job: EngineJob, status: JobStatus, attempt: int) -> bool:
    """Whether what a timer was set for has passed."""
    return job.attempt != attempt or job.status is not status
