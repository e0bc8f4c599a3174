"""When waves may start by the wall clock: not before a time, and only while a window is open.

The arithmetic is that of `fairshare.config.times`, so a change of the clocks moves a window with them. Wall-clock time
is asked again at every look: the clock may be set while a run waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, time, timedelta, tzinfo
from typing import Any

from fairshare.config.times import Window, instant, load_zone, moment


@dataclass(frozen=True)
class Gate:
    """What the wall clock must show before a wave starts. Without ``start_at`` and ``window`` it is always open."""

    start_at: int | None = None
    """No wave before it, ms since the epoch."""
    window: Window | None = None

    @property
    def is_timed(self) -> bool:
        """Whether the wall clock matters at all."""
        return self.start_at is not None or self.window is not None

    @property
    def zone(self) -> tzinfo:
        """The window's zone; UTC without one."""
        return UTC if self.window is None else load_zone(self.window.zone)

    @property
    def once_started(self) -> Gate:
        """The gate for what comes after the first wave: a clock that is set back must not hold it up again."""
        return Gate(window=self.window)

    def opens_at(self, wall: int) -> int:
        """Return the first instant from ``wall`` on at which a wave may start; both in ms since the epoch."""
        at = wall if self.start_at is None else max(wall, self.start_at)
        return at if self.window is None else opens_at(self.window, at)

    def to_json(self) -> dict[str, Any]:
        """Return the gate for a journal; `gate_from_json` reads it."""
        return {"start_at": self.start_at, "window": None if self.window is None else asdict(self.window)}


def gate_from_json(document: Mapping[str, Any] | None) -> Gate:
    """Return the gate of a journal; None, in journals from before there were gates, is one that is always open."""
    if document is None:
        return Gate()
    window = document["window"]
    days = () if window is None else tuple(window["days"])
    return Gate(document["start_at"], None if window is None else Window(**{**window, "days": days}))


def opens_at(window: Window, at: int) -> int:
    """Return ``at`` when the window is open then, else its next opening. The end does not belong to a window."""
    return next(max(at, opens) for opens, closes in _openings(window, at) if at < closes)


def closes_at(window: Window, at: int) -> int:
    """Return when the window closes that is open at ``at``, or that opens next."""
    return next(closes for _, closes in _openings(window, at) if at < closes)


def _openings(window: Window, at: int) -> Iterator[tuple[int, int]]:
    """Yield the openings from the day before ``at`` on, in order, each with its end."""
    zone = load_zone(window.zone)
    start, end = time.fromisoformat(window.start), time.fromisoformat(window.end.replace("24:00", "00:00"))
    overnight = timedelta(days=1 if end <= start else 0)
    nominal = timedelta(hours=end.hour - start.hour, minutes=end.minute - start.minute) + overnight
    day = moment(at, zone).date() - timedelta(days=1)
    while True:
        if day.weekday() in window.days:
            opens, closes = instant(day, start, zone), instant(day + overnight, end, zone)
            # An hour that the clocks skip must not swallow a window: it then lasts as long as on other days.
            yield opens, closes if closes > opens else opens + nominal // timedelta(milliseconds=1)
        day += timedelta(days=1)
