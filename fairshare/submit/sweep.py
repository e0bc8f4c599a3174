"""From one written job to the jobs it stands for: the points of its sweep, and of each the members of its array.

The order is always the same: the last hyperparameter changes fastest, and the members of an array stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from fairshare.config.jobs import JobSpec
from fairshare.config.sweeps import MAX_POINTS
from fairshare.model import UsageError
from fairshare.submit.naming import clean_label, unique
from fairshare.submit.secrets import is_secret

ARRAY_INDEX: Final = "FAIRSHARE_ARRAY_INDEX"
ARRAY_SIZE: Final = "FAIRSHARE_ARRAY_SIZE"
"""Environment variables of the members of an array: a number from 0 on, and how many there are."""


def expand(spec: JobSpec) -> list[JobSpec]:
    """Return the jobs of a spec: itself when it has neither sweep nor array, else one for each point and member.

    Each point merges its values over the spec's hyperparameters and is named ``<name>-<label>``, e.g.
    ``digits-lr0-1-seed3``; equal labels are told apart by a number. A member of an array adds its index. A checkpoint
    prefix gets the job's name as a sub-prefix: jobs of one sweep must not resume from each other's checkpoints.

    Raises:
        UsageError: every point is excluded, more than `MAX_POINTS` jobs, or an array in whose environment a variable
            of the array is set already.
    """
    if spec.sweep is None and spec.array is None:
        return [spec]
    _check_array(spec)
    points = list(spec.sweep.points()) if spec.sweep is not None else [{}]
    if not points:
        raise UsageError("every point of the sweep is excluded", hint="shorten exclude")
    count = len(points) * (spec.array or 1)
    if count > MAX_POINTS:
        raise UsageError(f"it is {count:,} jobs, at most {MAX_POINTS:,} are allowed", hint="shorten the sweep or array")
    names = unique(f"{spec.name}-{_label(point)}".rstrip("-") for point in points) if spec.sweep else [spec.name]
    swept = [_with_point(spec, point, name) for point, name in zip(points, names, strict=True)]
    jobs = swept if spec.array is None else _members(swept, spec.array)
    return [_with_checkpoint(job) for job in jobs]


def _check_array(spec: JobSpec) -> None:
    taken = [name for name in (ARRAY_INDEX, ARRAY_SIZE) if name in spec.environment]
    if spec.array is not None and taken:
        raise UsageError(f"the environment of an array cannot set {taken[0]}", hint="remove it: the array sets it")


def _with_point(spec: JobSpec, point: Mapping[str, Any], name: str) -> JobSpec:
    return replace(spec, name=name, hyperparameters={**spec.hyperparameters, **point}, sweep=None)


def _members(jobs: Iterable[JobSpec], size: int) -> list[JobSpec]:
    members = [(job, index) for job in jobs for index in range(size)]
    names = unique(f"{job.name}-{index}" for job, index in members)
    return [
        replace(
            job,
            name=name,
            environment={**job.environment, ARRAY_INDEX: str(index), ARRAY_SIZE: str(size)},
            array=None,
        )
        for (job, index), name in zip(members, names, strict=True)
    ]


def _with_checkpoint(job: JobSpec) -> JobSpec:
    return job if job.checkpoint is None else replace(job, checkpoint=f"{job.checkpoint.rstrip('/')}/{job.name}/")


def _label(point: Mapping[str, Any]) -> str:
    """A secret has no place in a name (case C46)."""
    parts = ((key, _text(value)) for key, value in point.items())
    return "-".join(clean_label(key) + ("" if is_secret(key, text) else clean_label(text)) for key, text in parts)


def _text(value: Any) -> str:
    """The value as a name may hold it: a leading minus sign would be lost among hyphens, so it is written ``m``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).replace("+", "")
    return f"m{text[1:]}" if isinstance(value, int | float) and text.startswith("-") else text
