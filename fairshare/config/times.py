"""Instants and windows of the wall clock as people write them: ``2026-12-01 08:00 Europe/Berlin``, ``20:00-06:00 UTC``.

Clocks are changed twice a year: an hour happens twice in autumn and one is missing in spring. A time in the repeated
hour means the first of the two; a time in the missing hour is read with the offset from before the change, so
02:30 is 03:30. Whoever resolves a time is told (case C27).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from fairshare.config.errors import suggest

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Names of days, in the order of `datetime.date.weekday`."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FARTHEST: Final = timedelta(days=366)
"""A start that is farther away is a slip of the pen."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_CLOCK: Final = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"
_START: Final = re.compile(
    rf"(?:(?P<day>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:T| +))?{_CLOCK} ?(?P<offset>Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?"
    r"(?: +(?P<zone>[A-Za-z]\S*))?"
)
_TIME: Final = re.compile(_CLOCK)
_WINDOW: Final = re.compile(
    r"(?:(?P<days>[a-z]{3}(?:, ?[a-z]{3})*) +)?(?P<start>[0-9:]+) ?- ?(?P<end>[0-9:]+) +(?P<zone>\S+)"
)
_START_HINT: Final = "write 2026-12-01 08:00 Europe/Berlin, 2026-12-01T08:00+01:00, or 08:00 for the next such"
_WINDOW_HINT: Final = "write 20:00-06:00 Europe/Berlin, or mon,tue 20:00-06:00 Europe/Berlin"


@dataclass(frozen=True)
class Start:
    """An instant: ms since the epoch, the zone to show it in, and what had to be decided (empty = nothing)."""

    at: int
    zone: tzinfo
    note: str = ""


@dataclass(frozen=True)
class StartTime:
    """When to start, as it was written. At most one of ``offset`` and ``zone`` is set."""

    text: str
    day: date | None
    """None = the next time the clock shows this."""
    at: time
    offset: timezone | None = None
    zone: str | None = None

    def resolve(self, now: int, local_zone: str | None) -> Start:
        """Return the instant that is meant.

        Args:
            now: the wall clock, ms since the epoch.
            local_zone: zone of a time without one, the machine's; None = not known.

        Raises:
            ValueError: it is past or more than a year ahead, or the zone is not known; the text says what to write.
        """
        name = self.zone or local_zone
        if self.offset is None and name is None:
            raise ValueError(f'"{self.text}" has no time zone, and this machine\'s is not known: {_START_HINT}')
        zone: tzinfo = self.offset or load_zone(name or "")
        start = self._on(self.day, zone) if self.day is not None else self._next(now, zone)
        if start.at < now:
            raise ValueError(f'"{self.text}" is past: {at_offset(start.at, zone)}; write 08:00 for the next 08:00')
        if start.at - now > _FARTHEST // _MILLISECOND:
            raise ValueError(f'"{self.text}" is more than a year ahead: is the year right?')
        if self.offset is None and self.zone is None:
            assumed = f'"{self.text}" is read in this machine\'s zone, {name}: {at_offset(start.at, zone)}'
            return Start(start.at, zone, f"{assumed}; {start.note}" if start.note else assumed)
        return start

    def _next(self, now: int, zone: tzinfo) -> Start:
        today = moment(now, zone).date()
        days = (today + timedelta(days=ahead) for ahead in range(3))
        return next(start for day in days if (start := self._on(day, zone)).at >= now)

    def _on(self, day: date, zone: tzinfo) -> Start:
        at = instant(day, self.at, zone)
        return Start(at, zone, _decision(day, self.at, zone, at))


@dataclass(frozen=True)
class Window:
    """A time of day, on some days of the week, in which waves may start.

    ``start`` and ``end`` are ``HH:MM``, the end ``24:00`` too; an end before the start is on the next day. ``days`` are
    those on which the window opens, 0 = Monday.
    """

    start: str
    end: str
    days: tuple[int, ...]
    zone: str

    def __str__(self) -> str:
        """Return the window as `parse_window` reads it."""
        days = "" if len(self.days) == len(DAYS) else ",".join(DAYS[day] for day in self.days) + " "
        return f"{days}{self.start}-{self.end} {self.zone}"


def parse_start(text: str) -> StartTime:
    """Read a start: a date and a time with a zone or an offset, or a time alone.

    Raises:
        ValueError: not a time, or no such zone; the text says what to write.
    """
    text = text.strip()
    match = _START.fullmatch(text)
    if not match:
        raise ValueError(f'"{text}" is not a start: {_START_HINT}')
    if match["offset"] and match["zone"]:
        raise ValueError(f'"{text}" has an offset and a zone: leave one of them out')
    if match["zone"]:
        load_zone(match["zone"])
    try:
        day = None if match["day"] is None else date.fromisoformat(match["day"])
        at = time(int(match["hour"]), int(match["minute"]), int(match["second"] or 0))
        offset = None if match["offset"] is None else _offset(match["offset"])
    except ValueError:
        raise ValueError(f'"{text}": there is no such day or time; {_START_HINT}') from None
    return StartTime(text, day, at, offset, match["zone"])


def parse_window(text: str) -> Window:
    """Read a window: ``20:00-06:00 Europe/Berlin``, ``mon,tue 20:00-06:00 UTC``.

    Raises:
        ValueError: not a window; the text says what to write.
    """
    match = _WINDOW.fullmatch(text.strip())
    if not match:
        raise ValueError(f'"{text}" is not a window: {_WINDOW_HINT}')
    days = re.split(", ?", match["days"]) if match["days"] else ()
    return make_window(match["start"], match["end"], days, match["zone"])


def make_window(start: str, end: str, days: Sequence[str], zone: str) -> Window:
    """Return a window from its parts; no days = every day. ``24:00`` is an end, too.

    Raises:
        ValueError: a part is wrong; the text says what to write.
    """
    unknown = [day for day in days if day not in DAYS]
    if unknown:
        raise ValueError(f'"{unknown[0]}" is not a day: write {", ".join(DAYS)}')
    opens, closes = _clock_text(start), end if end == "24:00" else _clock_text(end)
    if opens == closes:
        raise ValueError(f"a window from {start} to {end} is always open or never: write 00:00-24:00 for the whole day")
    load_zone(zone)
    numbers = {DAYS.index(day) for day in days} or set(range(len(DAYS)))
    return Window(opens, closes, tuple(sorted(numbers)), zone)


def load_zone(name: str) -> ZoneInfo:
    """Return a time zone by its name in the IANA database.

    Raises:
        ValueError: no such zone, or this machine has no zones at all.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # an OSError for a folder of zones: "Europe"
        pass
    known = available_timezones()
    if not known:
        raise ValueError(f'zone "{name}": this machine has no time zones; install the Python package tzdata')
    same = [zone for zone in known if zone.lower() == name.lower()]
    guess = same[0] if same else suggest(name, sorted(known)) if "/" in name else None
    hint = f"did you mean {guess}?" if guess else "write a name such as Europe/Berlin, or UTC"
    raise ValueError(f'there is no time zone "{name}": {hint}')


def instant(day: date, at: time, zone: tzinfo) -> int:
    """Return the ms since the epoch at which clocks in a zone show a time, by the rule of this module."""
    return (datetime.combine(day, at, zone) - _EPOCH) // _MILLISECOND


def moment(at: int, zone: tzinfo) -> datetime:
    """Return ms since the epoch as a date and time in a zone."""
    return (_EPOCH + at * _MILLISECOND).astimezone(zone)


def at_offset(at: int, zone: tzinfo, *, seconds: bool = False) -> str:
    """Return ms since the epoch for people, with the offset: ``2026-12-01 08:00 +0100``."""
    return f"{moment(at, zone):%Y-%m-%d %H:%M{':%S' if seconds else ''} %z}"


def _decision(day: date, at: time, zone: tzinfo, chosen: int) -> str:
    """Say what was decided about a time that clocks show twice or never; empty for all others."""
    written = datetime.combine(day, at)
    first, second = (written.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    if first == second or first is None or second is None:
        return ""
    happens = "happens twice" if first > second else "does not exist"
    meant = "the first one is meant" if first > second else "clocks are set forward over it, so it means"
    where = f"{written:%Y-%m-%d %H:%M} {happens} in {zone}"
    return f"{where}: {meant}{',' if first > second else ''} {at_offset(chosen, zone)}"


def _offset(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 14 or minutes > 59:
        raise ValueError
    length = timedelta(hours=hours, minutes=minutes)
    return timezone(-length if text[0] == "-" else length)


def _clock_text(text: str) -> str:
    match = _TIME.fullmatch(text)
    if not match or match["second"] or int(match["hour"]) > 23 or int(match["minute"]) > 59:
        raise ValueError(f'"{text}" is not a time of day: write 08:00 or 20:30')
    return f"{int(match['hour']):02}:{match['minute']}"
