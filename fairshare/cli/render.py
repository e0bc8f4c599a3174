"""Text for a terminal: safe, aligned by what is seen, within the width there is.

Names, reasons, tags and log lines were chosen by others. Whatever could move the cursor, hide or reorder text is shown
as text (case C47): `safe` is applied to every cell of a table and to everything that is printed for people.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories shown as escapes: controls, bidi and zero-width formats, surrogates, line separators."""

_ELLIPSIS: Final = "…"
_GAP: Final = "  "
_NARROWEST: Final = 8
"""A column is never squeezed below this many cells."""

_NO_HOURS: Final = 1e-6
"""What sums of rounded hours may differ by."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    ``shrinks``: its texts are shortened when the terminal is too narrow, in the middle, or with ``prose`` at the end.
    """

    title: str
    right: bool = False
    shrinks: bool = False
    prose: bool = False


def safe(text: str, keep: str = "") -> str:
    """Return text in which every character that is not simply visible is an escape such as ``\\x1b`` or ``\\u202e``.

    Args:
        text: anything.
        keep: characters to leave alone, for instance ``"\\n\\t"``.
    """
    return "".join(
        _escaped(char) if unicodedata.category(char) in _INVISIBLE and char not in keep else char for char in text
    )


def display_width(text: str) -> int:
    """Return how many cells a terminal uses: two for wide (CJK) characters, none for combining marks."""
    return sum(_cells(char) for char in text)


def shorten(text: str, width: int, *, keep_end: bool = True) -> str:
    """Return text of at most ``width`` cells.

    What is too long loses its middle, because both ends of a name tell it from others; without ``keep_end``, its end.
    """
    if display_width(text) <= width:
        return text
    if not keep_end:
        return _take(text, width - 1) + _ELLIPSIS
    head = _take(text, (width - 1) // 2)
    tail = _take(text[::-1], width - 1 - display_width(head))[::-1]
    return f"{head}{_ELLIPSIS}{tail}"


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return a table without lines or colour, one row per line.

    Args:
        columns: titles and how to align them.
        rows: one text per column; made safe here.
        width: cells to fit into, by shortening columns that shrink; None = as wide as needed.
    """
    cells = [[column.title for column in columns], *([safe(cell) for cell in row] for row in rows)]
    widths = [max(display_width(row[index]) for row in cells) for index in range(len(columns))]
    if width is not None:
        _squeeze(widths, columns, width)
    return "\n".join(_GAP.join(map(_padded, row, widths, columns)).rstrip() for row in cells)


def percent(portion: Fraction) -> str:
    """``Fraction(15, 23)`` -> ``65.2 %``."""
    return f"{float(portion * 100):.1f} %"


def count(number: int, noun: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def utc_time(milliseconds: int) -> str:
    """Milliseconds since the epoch -> RFC 3339 in UTC, for programs: ``2026-11-30T17:56:15.123Z``."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


def local_time(milliseconds: int) -> str:
    """Milliseconds since the epoch -> local time with its offset, for people: ``2026-11-30 18:56:15 +0100``."""
    moment = (_EPOCH + timedelta(milliseconds=milliseconds)).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S %z}"


def elapsed(milliseconds: int) -> str:
    """Return a length of time for people: ``1 h 12 min``; a negative one (clocks differ) counts as none."""
    from fairshare.config.durations import format_duration

    return format_duration(max(0, milliseconds) // 1000)


def hours_text(hours: float) -> str:
    """Return hours as a number for people: ``11.9``, and ``0.0042`` of a short job."""
    return f"{hours:,.1f}" if hours >= 1 or hours < _NO_HOURS else f"{hours:.2g}"


def _escaped(char: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    code = ord(char)
    return known or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _cells(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _take(text: str, width: int) -> str:
    """Return the longest beginning that fits."""
    used = 0
    for index, char in enumerate(text):
        used += _cells(char)
        if used > width:
            return text[:index]
    return text


def _squeeze(widths: list[int], columns: Sequence[Column], width: int) -> None:
    """Take cells from the widest column that shrinks until the table fits or all of those are at their narrowest."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        candidates = [i for i, column in enumerate(columns) if column.shrinks and widths[i] > _NARROWEST]
        if not candidates:
            return
        widths[max(candidates, key=lambda i: widths[i])] -= 1
        excess -= 1


def _padded(text: str, width: int, column: Column) -> str:
    shown = shorten(text, width, keep_end=not column.prose)
    fill = " " * (width - display_width(shown))
    return fill + shown if column.right else shown + fill
