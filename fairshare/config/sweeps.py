"""Sweeps as people write them, read into the points they stand for.

A sweep is a list of points, or a mapping of hyperparameters to values, of which every combination is a point. Values
are a list, ``{range: [start, stop, step]}`` or ``{log_range: [start, stop, count]}``; both ranges are half-open, as in
Python. Two keys are words of ours: ``zip`` before a mapping of hyperparameters that change together, and ``exclude``
before a list of points to leave out. Before anything else they are hyperparameters like every other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from fairshare.config.errors import WrongValue, WrongValues, did_you_mean
from fairshare.config.fields import kind_of, read_hyperparameter, read_value

Point: TypeAlias = Mapping[str, Any]
"""Values of hyperparameters by name."""

_Value = TypeVar("_Value")

MAX_POINTS: Final = 100_000
"""More jobs than this from one sweep is taken for a mistake (at 5 jobs a second they need 5.5 hours to send)."""

_DIGITS: Final = 6
"""Significant digits of the values of a log_range."""

_FORMS: Final = "[0.1, 0.01] or {range: [0, 8]}"


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep: one partial point of each factor, in every combination, less those excluded.

    A factor is what changes together: the values of one hyperparameter, those of a ``zip``, or a written list of
    points. No hyperparameter is in two factors.
    """

    factors: tuple[tuple[Point, ...], ...]
    exclude: tuple[Point, ...] = ()

    @property
    def size(self) -> int:
        """Number of points, the excluded ones counted."""
        return math.prod(len(factor) for factor in self.factors)

    @property
    def keys(self) -> list[str]:
        """The hyperparameters, in order."""
        return list(dict.fromkeys(key for factor in self.factors for part in factor for key in part))

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the points in order; the last factor changes fastest."""
        for parts in itertools.product(*self.factors):
            point = {key: value for part in parts for key, value in part.items()}
            if not any(_matches(point, excluded) for excluded in self.exclude):
                yield point

    def values_of(self, key: str) -> list[Any]:
        """Return the values that a hyperparameter takes; none when it is not swept."""
        return [part[key] for factor in self.factors for part in factor if key in part]

    def with_values(self, key: str, values: Sequence[Any]) -> Sweep:
        """Return the sweep with other values of one hyperparameter, or with one more hyperparameter.

        Raises:
            WrongValue: the hyperparameter changes together with others.
        """
        axis = tuple({key: value} for value in values)
        factors = list(self.factors)
        for index, factor in enumerate(factors):
            names = {name for part in factor for name in part}
            if key in names and len(names) > 1:
                others = ", ".join(name for name in self.keys if name in names - {key})
                raise WrongValue(f"{key} changes together with {others}", hint="change it in the job file")
            if key in names:
                factors[index] = axis
                break
        else:
            factors.append(axis)
        return replace(self, factors=tuple(factors))


def read_sweep(written: object) -> Sweep:
    """Return what a sweep stands for.

    Args:
        written: mappings and lists, with Python values or a file's `Scalar`\\ s as leaves.

    Raises:
        WrongValue: it is neither a mapping nor a list, or it is empty.
        WrongValues: everything that is wrong inside, each with its place below the sweep.
    """
    if not isinstance(written, dict | list | tuple):
        raise WrongValue(
            f"must be a mapping of hyperparameters or a list of points, not {kind_of(written)}",
            hint="write {lr: [0.1, 0.01]} or [{lr: 0.1, layers: 2}]",
        )
    if not written:
        raise WrongValue("must not be empty")
    reader = _Reader()
    sweep = reader.mapping(written) if isinstance(written, dict) else Sweep((reader.points(written),))
    reader.finish()
    if sweep.size > MAX_POINTS:
        raise WrongValue(
            f"has {sweep.size:,} points, at most {MAX_POINTS:,} are allowed", hint="shorten a list or a range"
        )
    return sweep


class _Reader:
    """Reads the parts of a sweep, collecting what is wrong with them."""

    def __init__(self) -> None:
        self._wrong: list[WrongValue] = []

    def finish(self) -> None:
        if self._wrong:
            raise WrongValues(self._wrong)

    def points(self, written: Sequence[object], *at: str) -> tuple[Point, ...]:
        found = (self._try(_read_point, each, *at, index) for index, each in enumerate(written))
        return tuple(point for point in found if point is not None)

    def mapping(self, written: Mapping[str, Any]) -> Sweep:
        factors: dict[str, tuple[Point, ...]] = {}
        exclude: tuple[Point, ...] = ()
        for key, value in written.items():
            if key == "zip" and isinstance(value, dict):
                factors[key] = self._zip(value, beside=written)
            elif key == "exclude" and _may_be_points(value):
                exclude = self.points(value, key)
            else:
                factors[key] = tuple({key: each} for each in self._try(_values, value, key) or ())
        sweep = Sweep(tuple(factors.values()), exclude)
        if not self._wrong:
            for index, point in enumerate(exclude):
                self._try(partial(_check_excluded, sweep), point, "exclude", index)
        return sweep

    def _zip(self, written: Mapping[str, Any], *, beside: Mapping[str, Any]) -> tuple[Point, ...]:
        self._try(_check_zip, written, "zip")
        for key in written:
            if key != "zip" and key in beside:
                self._wrong.append(WrongValue("is in zip and beside it", hint="remove one of the two", at=(key,)))
        columns = {key: self._try(_values, value, "zip", key) or () for key, value in written.items()}
        if not self._wrong:
            self._try(_check_equal_lengths, columns, "zip")
        return tuple(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=False))

    def _try(self, read: Callable[[Any], _Value], value: object, *at: str | int) -> _Value | None:
        """Return what a value is read as; None when it is wrong, which is noted."""
        try:
            return read(value)
        except WrongValue as error:
            self._wrong.append(WrongValue(str(error), hint=error.hint, at=(*at, *error.at)))
            return None


def _may_be_points(value: object) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(each, dict) for each in value)


def _read_point(written: object) -> Point:
    if not isinstance(written, dict):
        raise WrongValue(f"must be a point, not {kind_of(written)}", hint="write {lr: 0.1, layers: 2}")
    if not written:
        raise WrongValue("must not be empty", hint="write {lr: 0.1, layers: 2}")
    return {key: _read_item(value, key) for key, value in written.items()}


def _read_item(value: object, at: str | int) -> Any:
    try:
        return read_hyperparameter(value)
    except WrongValue as error:
        raise WrongValue(str(error), hint=error.hint, at=(at,)) from None


def _check_zip(written: Mapping[str, Any]) -> None:
    if not written:
        raise WrongValue("must not be empty", hint="write zip: {lr: [0.1, 0.01], wd: [0, 1]}")
    if written.keys() <= {"range", "log_range"}:
        raise WrongValue(
            "takes hyperparameters that change together, not a range",
            hint="write the values of a hyperparameter called zip as a list",
        )


def _check_equal_lengths(columns: Mapping[str, Sequence[Any]]) -> None:
    first, *others = columns
    for other in others:
        if len(columns[other]) != len(columns[first]):
            raise WrongValue(
                f"{first} has {_count(columns[first])} and {other} {_count(columns[other])}: "
                "what changes together needs equally many",
                hint="without zip, every combination is a job",
            )


def _count(values: Sequence[Any]) -> str:
    return f"{len(values)} value{'' if len(values) == 1 else 's'}"


def _check_excluded(sweep: Sweep, point: Point) -> None:
    """What is written and has no effect is a mistake."""
    for key in point:
        if key not in sweep.keys:
            raise WrongValue(f"{key} is not swept", hint=did_you_mean(key, sweep.keys, "hyperparameters"), at=(key,))
    for factor in sweep.factors:
        part = {key: value for key, value in point.items() if any(key in each for each in factor)}
        if not any(_matches(each, part) for each in factor):
            at = (next(iter(part)),) if len(part) == 1 else ()
            raise WrongValue("fits no point of the sweep", hint="write the values as the sweep has them", at=at)


def _matches(point: Point, excluded: Point) -> bool:
    return all(key in point and _same(point[key], value) for key, value in excluded.items())


def _same(one: Any, other: Any) -> bool:
    """1 is 1.0, but true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


# ---------------------------------------------------------------------------------------------------------------------
# Values of one hyperparameter


def _values(written: object) -> Sequence[Any]:
    if isinstance(written, list | tuple):
        if not written:
            raise WrongValue("must not be empty")
        return [_read_item(value, index) for index, value in enumerate(written)]
    if isinstance(written, dict) and written.keys() == {"range"}:
        return read_range(written["range"])
    if isinstance(written, dict) and written.keys() == {"log_range"}:
        return _log_range(written["log_range"])
    found = f"a mapping with {', '.join(written)}" if isinstance(written, dict) and written else kind_of(written)
    raise WrongValue(f"must be a list of values, not {found}", hint=f"write {_FORMS}")


def read_range(written: object) -> Sequence[int | float]:
    """Return the values of ``[start, stop]`` or ``[start, stop, step]``, the stop not included.

    Whole numbers give whole numbers. Decimals are added up exactly: ``[0, 1, 0.1]`` has 0.3, not 0.30000000000000004.

    Raises:
        WrongValue: not two or three numbers, a step of 0, no value at all, or too many.
    """
    bounds = _numbers(written)
    if bounds is None or len(bounds) not in (2, 3):
        raise WrongValue("range must be 2 or 3 numbers", hint="write [start, stop] or [start, stop, step]")
    start, stop, step = (*map(_exact, bounds), Fraction(1))[:3]
    if step == 0:
        raise WrongValue("the step of a range must not be 0")
    count = max(0, math.ceil((stop - start) / step))
    if count == 0:
        raise WrongValue(f"range {bounds} is empty", hint="the stop is not part of a range: [0, 8] is 0 to 7")
    _check_count(count)
    values = (start + index * step for index in range(count))
    return [int(value) for value in values] if all(map(_is_whole, bounds)) else [float(value) for value in values]


def _log_range(written: object) -> Sequence[float]:
    """``count`` values in equal ratios from ``start`` on; the next one would be ``stop``."""
    bounds = _numbers(written)
    if bounds is None or len(bounds) != 3 or not _is_whole(bounds[2]):
        raise WrongValue("log_range must be two numbers and a count", hint="write [start, stop, count]")
    start, stop, count = bounds
    if start <= 0 or stop <= 0:
        raise WrongValue("the bounds of a log_range must be more than 0")
    if start == stop or count < 1:
        raise WrongValue(
            f"log_range {bounds} is empty", hint="the stop is not part of it: [0.001, 0.1, 2] is 0.001 and 0.01"
        )
    _check_count(int(count))
    with localcontext() as context:
        ratio = (Decimal(repr(stop)) / Decimal(repr(start))).ln() / int(count)
        exact = [Decimal(repr(start)) * (ratio * index).exp() for index in range(int(count))]
        context.prec = _DIGITS
        values = [float(+value) for value in exact]
    if len(set(values)) < len(values):
        raise WrongValue(
            f"log_range {bounds} has values that {_DIGITS} digits cannot tell apart", hint="lower the count"
        )
    return values


def _numbers(written: object) -> list[int | float] | None:
    bounds = read_value(written)
    is_list = isinstance(bounds, list) and all(isinstance(n, int | float) and not isinstance(n, bool) for n in bounds)
    return bounds if is_list else None


def _is_whole(number: int | float) -> bool:
    return isinstance(number, int)


def _exact(number: int | float) -> Fraction:
    """The decimal that was written, not the binary number nearest to it."""
    return Fraction(Decimal(repr(number)))


def _check_count(count: int) -> None:
    if count > MAX_POINTS:
        raise WrongValue(f"has {count:,} values, at most {MAX_POINTS:,} are allowed", hint="shorten the range")
