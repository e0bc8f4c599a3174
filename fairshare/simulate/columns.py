"""Which columns of a trace mean what: ``submit=submit_time,duration=end-start,size=inst_num*plan_gpu/100,share=vc``.

A column is named as the header names it, or ``#3`` counts from 1. Columns and numbers can be joined with ``- + * /``,
worked off from left to right. An instant is a number, or a date with a time (without an offset it is UTC).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from fairshare.config.errors import did_you_mean
from fairshare.model import UsageError

Row = Sequence[str]

KEYS: Final = ("submit", "duration", "size", "share", "priority", "type", "id", "time")
"""What can be mapped. ``type`` is the instance type; ``time`` is no column but the unit of instants and durations."""

NEEDED: Final = ("submit", "duration", "size")

TIME_UNITS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
"""Milliseconds in each unit."""

MAP_EXAMPLE: Final = "--map submit=submit_time,duration=duration,size=num_gpus,share=user"

_OPERATOR: Final = re.compile(r"([-+*/])")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_BY_NUMBER: Final = re.compile(r"#([1-9][0-9]{0,3})")
_NOTHING: Final = frozenset({"", "-", "none", "null", "nan", "na", "n/a"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Read = Callable[[Row], float | None]
"""Reads a number out of a row; None = nothing is written there. Raises ValueError when it is no number."""


def parse_map(text: str) -> dict[str, str]:
    """Return what is mapped to what: ``submit=a,size=b`` -> ``{"submit": "a", "size": "b"}``.

    Raises:
        UsageError: not of this form, or a key that does not exist.
    """
    mapped: dict[str, str] = {}
    for part in text.split(","):
        key, equals, column = (each.strip() for each in part.partition("="))
        if not (key and equals and column):
            raise UsageError(f"--map: {part!r} maps nothing", hint=f"write {MAP_EXAMPLE}")
        if key not in KEYS:
            raise UsageError(f"--map: there is no {key}", hint=did_you_mean(key, KEYS, "keys"))
        mapped[key] = column
    if (unit := mapped.get("time", "s")) not in TIME_UNITS:
        raise UsageError(f"--map: time={unit} is no unit", hint=f"write one of {', '.join(TIME_UNITS)}")
    return mapped


def has_header(mapped: Mapping[str, str]) -> bool:
    """Whether any column is named, so that a first line must name them."""
    columns = [column for key, column in mapped.items() if key != "time"]
    return not columns or not all(_BY_NUMBER.fullmatch(part) for column in columns for part in _operands(column))


def number_reader(expression: str, header: Sequence[str], scale: float) -> Read:
    """Return a reader of a column, or of an expression over columns.

    Args:
        expression: as it was written.
        header: names of all columns; empty when the trace has no header.
        scale: milliseconds in one unit of time; what dates are turned into.

    Raises:
        UsageError: there is no such column.
    """
    if expression in header or _BY_NUMBER.fullmatch(expression):
        return _column(expression, header, scale)
    parts = [part.strip() for part in _OPERATOR.split(expression)]
    value = _operand(parts[0], header, scale)
    for operator, part in zip(parts[1::2], parts[2::2], strict=True):
        value = _joined(value, operator, _operand(part, header, scale))
    return value


def text_index(column: str, header: Sequence[str]) -> int:
    """Return the index of a column.

    Raises:
        UsageError: there is no such column.
    """
    if match := _BY_NUMBER.fullmatch(column):
        return int(match[1]) - 1
    try:
        return header.index(column)
    except ValueError:
        raise UsageError(f"--map: there is no column {column}", hint=did_you_mean(column, header, "columns")) from None


def _operands(expression: str) -> list[str]:
    parts = [part.strip() for part in _OPERATOR.split(expression)[::2]]
    return [part for part in parts if not _NUMBER.fullmatch(part)]


def _operand(part: str, header: Sequence[str], scale: float) -> Read:
    if _NUMBER.fullmatch(part) and part not in header:
        constant = float(part)
        return lambda row: constant
    return _column(part, header, scale)


def _column(name: str, header: Sequence[str], scale: float) -> Read:
    index = text_index(name, header)

    def read(row: Row) -> float | None:
        text = row[index]
        try:
            number = float(text)
        except ValueError:
            return _moment(text, scale)
        if math.isfinite(number):
            return number
        if math.isnan(number):
            return None
        raise ValueError(f"{text!r} is not a number")

    return read


def _moment(text: str, scale: float) -> float | None:
    """Return a date and time in units since the epoch."""
    if text.strip().lower() in _NOTHING:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor a time such as 2026-12-01 08:00:00") from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400_000 + since.seconds * 1000 + since.microseconds / 1000) / scale


def _joined(left: Read, operator: str, right: Read) -> Read:
    def read(row: Row) -> float | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        match operator:
            case "-":
                return a - b
            case "+":
                return a + b
            case "*":
                return a * b
            case _:
                if not b:
                    raise ValueError("divides by zero")
                return a / b

    return read
