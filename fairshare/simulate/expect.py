"""Ranges that the figures of a simulation must lie in, for CI.

A file maps figures of ``fairshare simulate -o json`` to bounds; ``*`` is every policy::

    fifo.mean_wait_seconds: {max: 2h}
    fairshare.shares.HIGHPRI.wait_p95_seconds: {max: 10m}
    "*.utilization": {min: 0.7, max: 1}

Bounds of seconds may be durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from fairshare.config.durations import parse_duration
from fairshare.config.errors import did_you_mean
from fairshare.config.yaml_source import Document, MapNode, Scalar, parse_yaml, read_text
from fairshare.model import InvalidFileError, Problem

_SECONDS: Final = "_seconds"
_BOUNDS: Final = ("min", "max")
_EXAMPLE: Final = "write fifo.mean_wait_seconds: {max: 2h}"
_EVERY: Final = "*"


@dataclass(frozen=True)
class Expectation:
    """Bounds of one figure, and the file that they were written in."""

    path: str
    low: float | None
    high: float | None
    document: Document

    @property
    def where(self) -> str:
        """``ranges.yaml:3:1``."""
        line, column = self.document.position((self.path,), at_key=True)
        return f"{self.document.file}:{line}:{column}"


def load_expectations(path: Path) -> list[Expectation]:
    """Read a file of ranges.

    Raises:
        InvalidFileError: with every problem of the file.
    """
    document = parse_yaml(read_text(path), str(path))
    problems = list(document.problems)
    if not isinstance(document.root, MapNode) or not document.root.entries:
        raise InvalidFileError([document.problem((), "the file must map figures to ranges", hint=_EXAMPLE)])
    expectations = []
    for key in document.root.entries:
        bounds, wrong = _bounds(document, key)
        expectations.append(Expectation(key, bounds["min"], bounds["max"], document))
        problems += wrong
    if problems:
        raise InvalidFileError(problems)
    return expectations


def violations(expectations: Sequence[Expectation], policies: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one sentence for each figure that lies outside its range.

    Args:
        expectations: of `load_expectations`.
        policies: documents of `fairshare.simulate.document.policy_document`.

    Raises:
        InvalidFileError: a figure does not exist.
    """
    problems: list[Problem] = []
    found: list[str] = []
    for expected in expectations:
        try:
            for name, value in _figures(policies, expected.path):
                found += _violation(expected, name, value)
        except _NoFigure as error:
            problems.append(expected.document.problem((expected.path,), str(error), hint=error.hint, at_key=True))
    if problems:
        raise InvalidFileError(problems)
    return found


class _NoFigure(KeyError):
    """There is no figure at a path."""

    def __init__(self, path: str, word: str, options: Sequence[str], noun: str) -> None:
        super().__init__(path)
        self.message = f'there is no figure "{path}"'
        self.hint = did_you_mean(word, options, noun)

    def __str__(self) -> str:
        return self.message


def _bounds(document: Document, key: str) -> tuple[dict[str, float | None], list[Problem]]:
    bounds: dict[str, float | None] = dict.fromkeys(_BOUNDS)
    node = document.node((key,))
    if not isinstance(node, MapNode) or not node.entries:
        return bounds, [document.problem((key,), f"{key} needs min, max or both", hint=_EXAMPLE)]
    problems = []
    for bound, entry in node.entries.items():
        if bound not in _BOUNDS:
            hint = did_you_mean(bound, _BOUNDS, "keys here")
            problems.append(document.problem((key, bound), f'unknown key "{bound}" in {key}', hint=hint, at_key=True))
            continue
        try:
            bounds[bound] = _number(entry.value, is_seconds=key.endswith(_SECONDS))
        except ValueError as error:
            problems.append(document.problem((key, bound), f"{key}.{bound}: {error}"))
    low, high = bounds["min"], bounds["max"]
    if low is not None and high is not None and low > high:
        problems.append(document.problem((key,), f"{key}: nothing lies between {low:g} and {high:g}"))
    return bounds, problems


def _number(node: object, *, is_seconds: bool) -> float:
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    if is_seconds and isinstance(value, str):
        return float(parse_duration(value))
    raise ValueError("must be a number" + (" of seconds or a duration" if is_seconds else ""))


def _figures(policies: Sequence[Mapping[str, Any]], path: str) -> Iterator[tuple[str, float | None]]:
    """Yield the full name and the value of each figure at a path."""
    inner = path.removeprefix("policies.")
    if inner.startswith(f"{_EVERY}."):
        for policy in policies:
            yield f"{policy['name']}.{inner[2:]}", _value(policy, inner[2:], path)
        return
    by_name = {str(policy["name"]): policy for policy in policies}
    name = _first_key(by_name, inner)
    if name is None:
        raise _NoFigure(path, inner.partition(".")[0], [*by_name, _EVERY], "policies")
    yield inner, _value(by_name[name], inner[len(name) + 1 :], path)


def _value(document: Mapping[str, Any], inner: str, path: str) -> float | None:
    key = _first_key(document, inner)
    rest = "" if key is None else inner[len(key) + 1 :]
    value = None if key is None else document[key]
    if key is not None and rest and isinstance(value, Mapping):
        return _value(value, rest, path)
    if key is None or rest or not (value is None or isinstance(value, int | float)):
        raise _NoFigure(path, inner.partition(".")[0], [name for name in document if name != "name"], "figures")
    return value


def _first_key(keys: Mapping[str, Any], path: str) -> str | None:
    """Return the key that a path begins with, the longest of several: names may have dots."""
    fitting = [key for key in keys if path == key or path.startswith(f"{key}.")]
    return max(fitting, key=len, default=None)


def _violation(expected: Expectation, name: str, value: float | None) -> list[str]:
    if value is None:
        return [f"{expected.where}: {name} has no value in this simulation"]
    if expected.low is not None and value < expected.low:
        return [f"{expected.where}: {name} is {value:g}, less than {expected.low:g}"]
    if expected.high is not None and value > expected.high:
        return [f"{expected.where}: {name} is {value:g}, more than {expected.high:g}"]
    return []
