"""The course of a job's use: how long it warmed up, when it last worked, and the time in between.

Means hide both ends: a job that works at 95 % for an hour and then holds its devices for another shows 48 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairshare.metrics.series import Series

IDLE_PERCENT: Final = 5.0
"""Devices used less than this do nothing for the job."""

_WARM: Final = 0.5
"""A job has warmed up when its use first reaches this part of its usual high (its 95th percentile)."""


@dataclass(frozen=True)
class Shape:
    """Times are whole seconds of measured periods; gaps do not count."""

    warm_up_seconds: int
    idle_tail_seconds: int
    measured_seconds: int
    points: int
    tail_points: int
    steady_from: int
    """Milliseconds: where the warm-up ended."""
    steady_to: int
    """Milliseconds, exclusive: where the idle tail begins."""


def shape_of(series: Series) -> Shape | None:
    """Return the course of a normalised series; None without points.

    A series that never reached `IDLE_PERCENT` is all tail.
    """
    use = series.use
    if use is None:
        return None
    points, period = series.points, series.period
    busy = [index for index, point in enumerate(points) if point.value >= IDLE_PERCENT]
    tail_from = busy[-1] + 1 if busy else 0
    warm = max(IDLE_PERCENT, use.p95 * _WARM)
    warm_at = next((index for index, point in enumerate(points[:tail_from]) if point.value >= warm), 0)
    end = points[-1].at + period * 1000
    return Shape(
        warm_up_seconds=warm_at * period,
        idle_tail_seconds=(len(points) - tail_from) * period,
        measured_seconds=len(points) * period,
        points=len(points),
        tail_points=len(points) - tail_from,
        steady_from=points[warm_at].at,
        steady_to=points[tail_from].at if tail_from < len(points) else end,
    )
