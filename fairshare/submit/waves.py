"""Waves: which jobs are sent together, and when. Fixed size and interval, measured from start to start.

A wave is about sending; what happens to a job afterwards is Batch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fairshare.config.durations import format_duration
from fairshare.model import UsageError

_SHOWN_HEAD = 4
_SHOWN_TAIL = 1
"""Waves of a long timetable that are printed: the first few and the last."""


@dataclass(frozen=True)
class Wave:
    """Jobs ``first`` to ``first + count - 1`` (from 0), sent from ``starts_at`` ms on. ``number`` counts from 1."""

    number: int
    starts_at: int
    first: int
    count: int


def plan_waves(count: int, size: int | None, interval_s: int, start_at: int) -> tuple[Wave, ...]:
    """Split ``count`` jobs into waves of ``size``, one every ``interval_s`` seconds, the first at ``start_at`` ms.

    A size of None means one wave. No jobs, no waves.

    Raises:
        UsageError: a size below 1 or an interval below 0.
    """
    if size is not None and size < 1:
        raise UsageError(f"a wave cannot have {size} jobs", hint="give a wave size of 1 or more, or none for one wave")
    if interval_s < 0:
        raise UsageError(f"an interval cannot be {interval_s} seconds", hint="give 0 or more, e.g. --interval 90s")
    step = count if size is None else size
    return tuple(
        Wave(number, start_at + (number - 1) * interval_s * 1000, first, min(step, count - first))
        for number, first in enumerate(range(0, count, max(step, 1)), start=1)
    )


def sent_after_seconds(waves: Sequence[Wave], rate: float) -> int:
    """Return how long sending takes from the first wave's start, at ``rate`` jobs a second (0 = no limit)."""
    if not waves:
        return 0
    per_job = 1 / Fraction(str(rate)) if rate > 0 else Fraction(0)
    end = Fraction(0)
    for wave in waves:
        end = max(end, Fraction(wave.starts_at - waves[0].starts_at, 1000)) + wave.count * per_job
    return -int(-end // 1)


def timetable(waves: Sequence[Wave], rate: float) -> list[str]:
    """Return the timetable as lines for people; a long one shows its beginning and its end."""
    if not waves:
        return []
    rows = [("wave", "starts", "jobs"), *(_row(wave, waves[0]) for wave in waves)]
    if len(waves) > _SHOWN_HEAD + _SHOWN_TAIL + 1:
        rows[_SHOWN_HEAD + 1 : -_SHOWN_TAIL] = [("...", "", "")]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"  {number:<{widths[0]}}   {starts:<{widths[1]}}   {jobs}".rstrip() for number, starts, jobs in rows]
    return [*lines, f"  Expected: all sent in {format_duration(sent_after_seconds(waves, rate))}"]


def _row(wave: Wave, first: Wave) -> tuple[str, str, str]:
    offset = wave.starts_at - first.starts_at
    return str(wave.number), f"+{format_duration(offset // 1000)}" if offset else "now", str(wave.count)
