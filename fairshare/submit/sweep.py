"""Sweeps: one written job and a grid of hyperparameters become many jobs, always in the same order.

A grid is a mapping of hyperparameter to values. Values are a list, or ``{range: [start, stop]}`` or
``{range: [start, stop, step]}``, half-open like Python's `range`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fairshare.config.jobs import JobSpec
from fairshare.model import UsageError
from fairshare.submit.naming import clean_label, unique

MAX_POINTS: Final = 100_000
"""More jobs than this from one sweep is taken for a mistake (at 5 jobs a second they need 5.5 hours to send)."""


def expand(spec: JobSpec) -> list[JobSpec]:
    """Return the jobs of a spec: itself when it has no sweep, else one for each point of the grid.

    The last hyperparameter changes fastest. Each point merges its values over the spec's hyperparameters and is named
    ``<name>-<label>``, e.g. ``digits-lr0-1-seed3``; equal labels are told apart by a number. A checkpoint prefix gets
    the point's name as a sub-prefix: jobs of one sweep must not resume from each other's checkpoints.

    Raises:
        UsageError: a hyperparameter without values, a malformed range, or more than `MAX_POINTS` points.
    """
    if spec.sweep is None:
        return [spec]
    axes = {key: _values(spec.name, key, written) for key, written in spec.sweep.items()}
    count = math.prod(len(values) for values in axes.values())
    if count > MAX_POINTS:
        raise UsageError(
            f'job "{spec.name}": its sweep has {count:,} points, at most {MAX_POINTS:,} are allowed',
            hint="shorten a list or a range",
        )
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    names = unique(f"{spec.name}-{_label(point)}".rstrip("-") for point in points)
    return [_job_at(spec, point, name) for point, name in zip(points, names, strict=True)]


def describe_grid(sweep: Mapping[str, Any]) -> str:
    """Return the size of a grid for people: ``lr 6 x seed 40``."""
    return " x ".join(f"{key} {len(_values('', key, written))}" for key, written in sweep.items())


def _values(job: str, key: str, written: Any) -> Sequence[Any]:
    where = f'job "{job}": sweep of {key}'
    if isinstance(written, Mapping):
        values: Sequence[Any] = _range(where, written)
    elif isinstance(written, list | tuple):
        values = written
    else:
        raise UsageError(f"{where}: expected a list of values or {{range: [start, stop]}}, not {written!r}")
    if not values:
        raise UsageError(f"{where} has no values", hint="a range is half-open: [0, 8] gives 0 to 7")
    return values


def _range(where: str, written: Mapping[str, Any]) -> range:
    match dict(written):
        case {"range": [int(start), int(stop)], **rest} if not rest:
            return range(start, stop)
        case {"range": [int(start), int(stop), int(step)], **rest} if step != 0 and not rest:
            return range(start, stop, step)
    raise UsageError(f"{where}: expected {{range: [start, stop]}} or {{range: [start, stop, step]}} with whole numbers")


def _label(point: Mapping[str, Any]) -> str:
    return "-".join(f"{clean_label(key)}{clean_label(_text(value))}" for key, value in point.items())


def _text(value: Any) -> str:
    """The value as a name may hold it: a leading minus sign would be lost among hyphens, so it is written ``m``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).replace("+", "")
    return f"m{text[1:]}" if isinstance(value, int | float) and text.startswith("-") else text


def _job_at(spec: JobSpec, point: Mapping[str, Any], name: str) -> JobSpec:
    checkpoint = f"{spec.checkpoint.rstrip('/')}/{name}/" if spec.checkpoint is not None else None
    hyperparameters = {**spec.hyperparameters, **point}
    return replace(spec, name=name, hyperparameters=hyperparameters, sweep=None, checkpoint=checkpoint)
