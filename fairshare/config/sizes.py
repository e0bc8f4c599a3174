"""Sizes as people write them, in whole bytes: ``4GiB``, ``500MB``, ``1.5 GiB``, ``4096``; rates with ``/s``."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

_LETTERS: Final = "kMGTP"
_UNITS: Final = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate(_LETTERS, start=1)},
    **{f"{letter.upper()}iB": 1024**power for power, letter in enumerate(_LETTERS, start=1)},
    "KB": 1000,
}
_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")


def parse_size(value: str | int) -> int:
    """Return a size in bytes. A bare number is bytes; ``kB MB GB TB`` count in 1000s, ``KiB MiB GiB TiB`` in 1024s.

    What could be read in two ways is refused: ``4G``, ``512m``, ``16gb``.

    Raises:
        ValueError: not a size; the text says why and what to write.
    """
    text = "" if isinstance(value, bool) else str(value).strip(" ")
    match = _SIZE.fullmatch(text)
    if match and (unit := _UNITS.get(match[2])):
        size = Fraction(Decimal(match[1])) * unit
        if size.denominator == 1:
            return int(size)
        raise ValueError(f'"{text}" is not a whole number of bytes: write it in a smaller unit')
    raise ValueError(f'"{value}" is not a size: {_what_is_wrong(text, match[2] if match else "")}')


def parse_rate(value: str | int) -> int:
    """Return bytes a second: a size, with or without ``/s`` behind it. Raises as `parse_size`."""
    return parse_size(value.strip(" ").removesuffix("/s") if isinstance(value, str) else value)


def _what_is_wrong(text: str, unit: str) -> str:
    if text.startswith("-"):
        return "it cannot be negative"
    letter = unit[:1].upper()
    if letter and letter in _LETTERS.upper() and unit[1:].lower() in ("", "b", "ib"):
        number, thousand = text.removesuffix(unit).strip(), "k" if letter == "K" else letter
        return f"write {number}{letter}iB (in 1024s) or {number}{thousand}B (in 1000s)"
    return "write bytes (4096) or a unit (500MB, 4GiB)"


def format_size(size: int) -> str:
    """Return a size for people, in its largest unit of 1024s with at most one decimal: ``4 GiB``, ``1.5 MiB``."""
    power = 0
    while power < len(_LETTERS) and size >= 1024 ** (power + 1):
        power += 1
    unit = f"{_LETTERS[power - 1].upper()}iB" if power else "bytes"
    number = f"{size / 1024**power:.1f}".removesuffix(".0")
    return f"{number} {unit}"
