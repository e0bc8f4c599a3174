"""Waves: which jobs are sent together, and when. Fixed size and interval, measured from start to start.

A wave is about sending; what happens to a job afterwards is Batch's. `plan_waves` makes the plan, `Timetable` says in
the course of the run when the next wave may start, and the rest of this file puts that into words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from fractions import Fraction
from functools import cache
from itertools import pairwise

from fairshare.config.durations import format_duration
from fairshare.config.times import Window, at_offset
from fairshare.model import UsageError
from fairshare.submit.windows import Gate

_SHOWN_HEAD = 4
_SHOWN_TAIL = 1
"""Waves of a long timetable that are printed: the first few and the last."""

_AT_EARLIEST = " at the earliest"


@dataclass(frozen=True)
class Wave:
    """Jobs ``first`` to ``first + count - 1`` (from 0), sent from ``starts_at`` ms on. ``number`` counts from 1."""

    number: int
    starts_at: int
    first: int
    count: int
    gap: int | None = None
    """Set when a window, or a start at a given time, put the wave off: least ms from the start of the wave before.

    None = as far apart as the two ``starts_at`` are.
    """


def plan_waves(
    count: int, size: int | None, interval_s: int, start_at: int, window: Window | None = None, *, timed: bool = False
) -> tuple[Wave, ...]:
    """Split ``count`` jobs into waves of ``size``, one every ``interval_s`` seconds, the first at ``start_at`` ms.

    A size of None means one wave. No jobs, no waves. A wave that is due while the ``window`` is closed waits for its
    next opening, and those after it keep their distance from it. ``timed`` says that ``start_at`` is an instant of the
    wall clock, to be waited for, and not simply now.

    Raises:
        UsageError: a size below 1 or an interval below 0.
    """
    if size is not None and size < 1:
        raise UsageError(f"a wave cannot have {size} jobs", hint="give a wave size of 1 or more, or none for one wave")
    if interval_s < 0:
        raise UsageError(f"an interval cannot be {interval_s} seconds", hint="give 0 or more, e.g. --interval 90s")
    step = count if size is None else size
    waves = [
        Wave(number, start_at + (number - 1) * interval_s * 1000, first, min(step, count - first))
        for number, first in enumerate(range(0, count, max(step, 1)), start=1)
    ]
    if timed and waves:
        waves[0] = replace(waves[0], gap=0)
    return tuple(waves) if window is None else moved(waves, Gate(window=window), start_at)


def moved(waves: Sequence[Wave], gate: Gate, now: int) -> tuple[Wave, ...]:
    """Return a timetable as it is from ``now`` on, ms of the wall clock.

    What lies ahead is kept. One that is late is moved as a whole, so that the waves keep their distances, and each
    waits for the window.
    """
    result: list[Wave] = []
    for wave, gap in zip(waves, (0, *_gaps(waves)), strict=False):
        due = result[-1].starts_at + gap if result else max(now, wave.starts_at)
        at = gate.opens_at(due)
        result.append(replace(wave, starts_at=at, gap=gap if at != due else wave.gap))
    return tuple(result)


class Timetable:
    """When the next wave may start, while a run goes on. It reads no clock: it is told both of them.

    ``now`` never jumps, and distances between waves are measured on it; ``wall`` does, and is what the gate is about
    (`fairshare.scheduler.clock`). Lateness is carried on (a slow upload, an answered prompt, a wave that took longer
    than the interval), so two waves are never closer together than was planned.

    Args:
        waves: what is to be sent, in order.
        gate: when waves may start by the wall clock.
    """

    def __init__(self, waves: Sequence[Wave], gate: Gate | None = None) -> None:
        self._waves = tuple(waves)
        self._gaps = (0, *_gaps(waves))
        self._gate = gate or Gate()
        self._next = 0
        self._started: int | None = None

    @property
    def next(self) -> Wave | None:
        """The next wave; None when all have started."""
        return self._waves[self._next] if self._next < len(self._waves) else None

    def due(self, now: int, wall: int) -> int | None:
        """Return when the next wave may start, on the timeline of ``now``; past when it is late, None without a wave.

        Ask again at every look: the wall clock may have been set.
        """
        wave = self.next
        if wave is None:
            return None
        if self._started is not None:
            due = self._started + self._gaps[self._next]
        elif wave.gap is None:
            due = wave.starts_at
        else:  # it waits for an instant of the wall clock
            due = now + max(0, wave.starts_at - wall)
        expected = wall + max(0, due - now)
        opens = self._gate.opens_at(expected)
        return due if opens == expected else now + opens - wall

    def started(self, now: int) -> None:
        """Note that the next wave starts."""
        self._started = now
        self._next += 1
        self._gate = self._gate.once_started

    def forecast(self, now: int, wall: int, rate: float, unsent: int = 0) -> tuple[Wave, ...]:
        """Return the waves that are left, each with the ms of the wall clock at which it is expected to start.

        Args:
            now: the clock that does not jump.
            wall: the clock that does.
            rate: jobs a second; 0 = no limit.
            unsent: jobs of the waves before that are still to be sent.
        """
        due = self.due(now, wall)
        if due is None:
            return ()
        first = max(now, due, now + _sending_ms(unsent, rate)) - now + wall
        left = self._waves[self._next :]
        return tuple(replace(wave, starts_at=at) for wave, at in zip(left, self._starts(first, rate), strict=True))

    def _starts(self, first: int, rate: float) -> Iterator[int]:
        """Yield when the waves that are left start, the next one at ``first`` ms of the wall clock."""
        at, free = self._gate.opens_at(first), 0
        for number in range(self._next, len(self._waves)):
            if number > self._next:
                at = self._gate.opens_at(max(at + self._gaps[number], free))
            free = at + _sending_ms(self._waves[number].count, rate)
            yield at


def sent_after_seconds(waves: Sequence[Wave], rate: float, gate: Gate | None = None) -> int:
    """Return how long sending takes from the first wave's start, at ``rate`` jobs a second (0 = no limit)."""
    if not waves:
        return 0
    first = waves[0].starts_at
    expected = Timetable(waves, gate).forecast(first, first, rate)
    return -((first - expected[-1].starts_at - _sending_ms(expected[-1].count, rate)) // 1000)


# ---------------------------------------------------------------------------------------------------------------------
# In words


def timetable(
    waves: Sequence[Wave],
    rate: float,
    *,
    gate: Gate | None = None,
    zone: tzinfo | None = None,
    now: int | None = None,
    at_earliest: bool = False,
) -> list[str]:
    """Return the timetable as lines for people; a long one shows its beginning and its end.

    Args:
        waves: in order.
        rate: jobs a second; 0 = no limit.
        gate: when waves may start by the wall clock; then times of day are shown, too.
        zone: that times of day are shown in; None = the gate's.
        now: the wall clock, ms; tells how far away the first wave is. None = it starts now.
        at_earliest: jobs may be held longer than their wave.
    """
    if not waves:
        return []
    gate = gate or Gate()
    shown_in = (zone or gate.zone) if gate.is_timed else None
    head = ("wave", "starts", "at", "jobs") if shown_in else ("wave", "starts", "jobs")
    rows = [head, *(_row(wave, waves[0], shown_in, now) for wave in waves)]
    if len(waves) > _SHOWN_HEAD + _SHOWN_TAIL + 1:
        rows[_SHOWN_HEAD + 1 : -_SHOWN_TAIL] = [("...", *[""] * (len(head) - 1))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  " + "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    taken = sent_after_seconds(waves, rate, gate)
    end = f"all sent in {format_duration(taken)}"
    if shown_in:
        sent_by = at_offset(waves[0].starts_at + taken * 1000, shown_in)
        end = f"all sent by {sent_by}, {format_duration(taken)} after the first wave begins"
    opening = [f"  Waves start only in the window {gate.window}"] if gate.window else []
    end += _AT_EARLIEST if at_earliest else ""
    return [*(line.rstrip() for line in lines), *opening, f"  Expected: {end}"]


def remaining(table: Timetable, now: int, wall: int, rate: float, unsent: int = 0, *, at_earliest: bool = False) -> str:
    """Return what is left as a few words for a progress display: ``next in 41 s, all sent in 12 min``.

    Args:
        table: of the run.
        now: the clock that does not jump.
        wall: the clock that does.
        rate: jobs a second; 0 = no limit.
        unsent: jobs of the waves that have started that are still to be sent.
        at_earliest: jobs may be held longer than their wave.
    """
    limit = _AT_EARLIEST if at_earliest else ""
    ahead = table.forecast(now, wall, rate, unsent)
    if not ahead:
        return f"all sent in {_rounded_up(_sending_ms(unsent, rate))}{limit}" if unsent and rate > 0 else ""
    last = ahead[-1]
    end = last.starts_at + _sending_ms(last.count, rate) - wall
    return f"next in {_rounded_up(ahead[0].starts_at - wall)}, all sent in {_rounded_up(end)}{limit}"


def _row(wave: Wave, first: Wave, zone: tzinfo | None, now: int | None) -> tuple[str, ...]:
    offset = (wave.starts_at - first.starts_at) // 1000
    if offset:
        starts = f"+{format_duration(offset)}"
    else:
        ahead = 0 if now is None else max(0, first.starts_at - now) // 1000
        starts = f"in {format_duration(ahead)}" if ahead else "now"
    at = () if zone is None else (at_offset(wave.starts_at, zone, seconds=True),)
    return str(wave.number), starts, *at, str(wave.count)


def _gaps(waves: Sequence[Wave]) -> list[int]:
    """Least distances, in ms, of the waves from the second on to the wave before them."""
    return [wave.starts_at - last.starts_at if wave.gap is None else wave.gap for last, wave in pairwise(waves)]


def _sending_ms(count: int, rate: float) -> int:
    """How long ``count`` calls take at ``rate`` calls a second, rounded up; 0 = no limit."""
    return -(-count * 1000 // _exact(rate)) if rate > 0 else 0


@cache
def _exact(rate: float) -> Fraction:
    return Fraction(str(rate))


def _rounded_up(milliseconds: int) -> str:
    return format_duration(max(0, milliseconds + 999) // 1000)
