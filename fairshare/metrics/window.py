"""Which range of time and which period to ask CloudWatch for (cases C37 and C39).

CloudWatch keeps values of less than a minute for 3 hours, of 1 minute for 15 days, of 5 minutes for 63 days and of an
hour for 455 days, and answers with at most 100,800 points a request. Sources:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html and
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.model import UsageError

MAX_POINTS: Final = 100_800
"""Points in one answer of GetMetricData."""

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
_KEPT: Final = ((3 * _HOUR, 1), (15 * _DAY, 60), (63 * _DAY, 300), (455 * _DAY, 3600))
"""Up to what age (ms) values are kept at which resolution (s)."""

_SHORT_PERIODS: Final = (1, 5, 10, 20, 30)
_STEPS: Final = (*_SHORT_PERIODS, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400)
_SHORT_POINTS: Final = 300
"""Below a minute, a period is chosen that gives at most so many points: nobody looks at more seconds."""


@dataclass(frozen=True)
class Window:
    """A range of time on the grid of its period. ``end`` is exclusive, as in GetMetricData; both are milliseconds."""

    start: int
    end: int
    period: int
    """Seconds."""
    notices: tuple[str, ...] = ()
    """What is not as it was asked for, for people."""


def choose_window(
    start: int, end: int, now: int, *, period: int | None = None, queries: int = 1, finest: int = 60
) -> Window:
    """Return the window to ask for: snapped to its period, so that asking again gives the same bins.

    The period that has not ended at ``now`` is left out. A window shorter than a period is one period long.

    Args:
        start: milliseconds.
        end: milliseconds; at most ``now`` counts.
        now: milliseconds; decides what CloudWatch still keeps.
        period: seconds, as the user wants it; None = the shortest that is kept and fits into one answer.
        queries: how many series are asked for.
        finest: shortest period, in seconds, in which the metric is published.

    Raises:
        UsageError: CloudWatch has no such period.
    """
    notices = []
    if now - start > _KEPT[-1][0]:
        start = now - _KEPT[-1][0]
        notices.append("CloudWatch keeps values for 455 days: what is older is gone")
    resolution = next(step for age, step in _KEPT if now - start <= age)
    if period is None:
        chosen = _fitting(start, min(end, now), max(resolution, finest), queries)
    else:
        check_period(period)
        chosen = -(-period // resolution) * resolution
        if chosen != period:
            notices.append(
                f"a period of {format_duration(period)} is no longer kept for {format_duration((now - start) // 1000)} "
                f"ago: {format_duration(chosen)} is used"
            )
    step = chosen * 1000
    first = start // step * step
    last = min(-(-end // step), now // step) * step
    return Window(first, max(last, first + step), chosen, tuple(notices))


def check_period(period: int) -> None:
    """Check that CloudWatch has a period of so many seconds.

    Raises:
        UsageError: it has not.
    """
    if period not in _SHORT_PERIODS and (period < 60 or period % 60):
        raise UsageError(
            f"--period: CloudWatch has no period of {period} s", hint="give 1, 5, 10, 20, 30 or a multiple of 60"
        )


def kept_since(period: int, now: int) -> int:
    """Return from which instant (ms) on CloudWatch has values of a period of so many seconds."""
    return now - max((age for age, resolution in _KEPT if resolution <= period), default=_KEPT[0][0])


def _fitting(start: int, end: int, shortest: int, queries: int) -> int:
    for period in _STEPS:
        points = max(1, (end - start) // (period * 1000))
        budget = _SHORT_POINTS if period < 60 else MAX_POINTS // max(1, queries)
        if period % shortest == 0 and points <= budget:
            return period
    return _STEPS[-1]
