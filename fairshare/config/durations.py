"""Durations as people write them, in whole seconds: ``90``, ``5m``, ``1h30m``, ``PT1M`` (case C28)."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER: Final = r"([0-9]{1,12})"
_BARE: Final = re.compile(_NUMBER)
_PLAIN: Final = re.compile(rf"(?:{_NUMBER} ?d)? ?(?:{_NUMBER} ?h)? ?(?:{_NUMBER} ?m(?:in)?)? ?(?:{_NUMBER} ?s)?")
_ISO: Final = re.compile(rf"P(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?")


def parse_duration(value: str | int) -> int:
    """Return a duration in seconds.

    A bare number is seconds. Units are ``d h m s`` (``min`` too), each at most once and from large to small; spaces are
    allowed, so that what `format_duration` prints can be read back. Of ISO 8601 there are days, hours, minutes and
    seconds. What could be read in two ways is refused: colons, months and years, ``M`` outside ISO, fractions.

    Raises:
        ValueError: not a duration; the text says why and what to write.
    """
    if isinstance(value, bool):
        raise ValueError(f'"{str(value).lower()}" is not a duration: write seconds (90) or units (5m, 1h30m)')
    text = str(value).strip(" ")
    if match := _BARE.fullmatch(text):
        return int(match[1])
    match = _PLAIN.fullmatch(text) or _ISO.fullmatch(text)
    if match and any(match.groups()):
        return sum(int(n) * size for n, size in zip(match.groups(), _SECONDS.values(), strict=True) if n)
    raise ValueError(f'"{text}" is not a duration: {_what_is_wrong(text)}')


def _what_is_wrong(text: str) -> str:
    if text.startswith("-"):
        return "it cannot be negative"
    if ":" in text:
        return "1:30 could be minutes or hours; write 1m30s or 1h30m"
    if re.match(r"P[^T]*[YMW]", text):
        return "years, months and weeks are not supported; write days, as in 30d, or minutes as PT1M"
    if re.search(r"[0-9][.,][0-9]", text):
        return "fractions are not supported; write 1h30m for one and a half hours"
    if re.fullmatch(r"(?:[0-9]+ ?[DHMS] ?)+", text):
        return f"units are small letters; write {text.lower()}"
    return "write seconds (90) or units from large to small (5m, 1h30m, 2d)"


def format_duration(seconds: int) -> str:
    """Return a duration for people, its two largest units, rounded down: ``1 h 12 min``, ``1 min 30 s``, ``41 s``."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    parts = []
    rest = seconds
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        parts.append((count, unit))
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [f"{count} {unit}" for count, unit in parts[first : first + 2] if count]
    return " ".join(shown) or "0 s"
