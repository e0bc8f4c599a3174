"""Workload files: streams of jobs described by how they arrive, how large they are and how long they run.

::

    duration: 3d
    seed: 7
    streams:
      HIGHPRI:
        arrivals: {poisson: {every: 30m}}
        size: {choice: {values: [1, 4], weights: [3, 1]}}
        run_time: {lognormal: {median: 40m, sigma: 0.8, max: 12h}}
        priority: 50
      night-sweep:
        share: LOWPRI
        arrivals: {bursts: {every: 1d, jobs: 40, over: 5m, start: 20h}}
        run_time: 20m

`fairshare.simulate.generate` draws the jobs.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, ClassVar, Generic, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from fairshare.config.errors import WrongValue
from fairshare.config.fields import (
    AnyText,
    InstanceType,
    Name,
    NotEmpty,
    Seconds,
    Target,
    Text,
    Whole,
    kind_of,
    read_text_value,
)
from fairshare.config.sections import Section, read_section, unwrap
from fairshare.config.yaml_source import Scalar, parse_yaml, read_text
from fairshare.model import MAX_PRIORITY

Number = TypeVar("Number")

MAX_JOBS = 5_000_000
"""Of one stream: more than this is a slip of the pen."""


def _read_sigma(value: object) -> float:
    text = read_text_value(value)
    try:
        sigma = float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        sigma = -1.0
    if not 0 <= sigma <= 10:
        raise WrongValue(f"must be a number from 0 to 10, not {kind_of(value)}", hint="0.5 is narrow, 2 is wide")
    return sigma


def _one_of(section: Section, names: tuple[str, ...]) -> None:
    """Refuse a section that has none, or several, of some keys."""
    said = [name for name in names if getattr(section, name) is not None]
    if len(said) != 1:
        what = f"not {' and '.join(said)}" if said else "it has none of them"
        raise WrongValue(f"must have one of {', '.join(names)}; {what}", hint=f"write {section.example}")


class ChoiceSection(Section, Generic[Number]):
    """One of some values; ``weights`` say how often each, equally often by default."""

    example: ClassVar = "{values: [1, 4], weights: [3, 1]}"

    values: Annotated[tuple[Number, ...], NotEmpty]
    weights: tuple[Annotated[Whole, Field(ge=0)], ...] | None = None

    @model_validator(mode="after")
    def _check_weights(self) -> ChoiceSection[Number]:
        if self.weights is not None and (len(self.weights) != len(self.values) or not any(self.weights)):
            raise WrongValue(f"needs a weight for each of the {len(self.values)} values, and one above 0")
        return self


class LognormalSection(Section, Generic[Number]):
    """``median * exp(sigma * z)`` with z of the standard normal distribution, cut off at ``max``."""

    example: ClassVar = "{median: 40m, sigma: 0.8, max: 12h}"

    median: Number
    sigma: Annotated[float, PlainValidator(_read_sigma)]
    max: Number | None = None


class DistributionSection(Section, Generic[Number]):
    """How a number is drawn. A bare number is the same every time."""

    example: ClassVar = "5, {uniform: [1, 9]}, {choice: {values: [1, 4]}} or {lognormal: {median: 5, sigma: 0.8}}"

    constant: Number | None = None
    uniform: tuple[Number, ...] | None = None
    """Whole numbers from the first to the second, both included."""
    choice: ChoiceSection[Number] | None = None
    lognormal: LognormalSection[Number] | None = None

    @model_validator(mode="after")
    def _check(self) -> DistributionSection[Number]:
        _one_of(self, ("constant", "uniform", "choice", "lognormal"))
        if self.uniform is not None and (len(self.uniform) != 2 or not self.uniform[0] <= self.uniform[1]):  # type: ignore[operator]
            raise WrongValue("must be the smallest and the largest value", hint="write [1, 9]", at=("uniform",))
        return self


def _constant_as_section(value: object) -> object:
    return {"constant": value} if isinstance(value, Scalar) else value


_Length = Annotated[Seconds, Field(ge=1)]
_Count = Annotated[Whole, Field(ge=1)]
Sizes = Annotated[DistributionSection[_Count], BeforeValidator(_constant_as_section)]
Lengths = Annotated[DistributionSection[_Length], BeforeValidator(_constant_as_section)]


class ProcessSection(Section):
    """An arrival process, from ``start`` to ``stop`` (default: the whole time), with at most ``limit`` arrivals."""

    start: Seconds = Field(default=0, ge=0)
    stop: Seconds | None = Field(default=None, ge=1)
    limit: Whole | None = Field(default=None, ge=1, le=MAX_JOBS)


class EverySection(ProcessSection):
    """Time from one arrival to the next: exactly, or on average."""

    example: ClassVar = "{every: 10m}"

    every: Seconds = Field(ge=1)


class BurstsSection(ProcessSection):
    """``jobs`` arrivals at once, or evenly ``over`` some time, again ``every`` so often."""

    example: ClassVar = "{every: 6h, jobs: 40, over: 5m}"

    every: Seconds = Field(ge=1)
    jobs: Whole = Field(ge=1)
    over: Seconds = Field(default=0, ge=0)


class DailySection(ProcessSection):
    """Random arrivals, ``per_day`` on average: most at ``peak`` after midnight, fewest twelve hours from it.

    With a ``swing`` of 80 % there are 1.8 times as many as on average at the peak, and 0.2 times as many opposite.
    """

    example: ClassVar = "{per_day: 240, peak: 14h, swing: 80%}"

    per_day: Whole = Field(ge=1)
    peak: Seconds = Field(default=14 * 3600, ge=0, lt=24 * 3600)
    swing: Target = Fraction(80)


class ArrivalsSection(Section):
    """When jobs come: one of four processes."""

    example: ClassVar = "{poisson: {every: 10m}}"

    poisson: EverySection | None = None
    fixed: EverySection | None = None
    bursts: BurstsSection | None = None
    daily: DailySection | None = None

    @model_validator(mode="after")
    def _check(self) -> ArrivalsSection:
        _one_of(self, ("poisson", "fixed", "bursts", "daily"))
        return self


class StreamSection(Section):
    """Jobs of one kind. ``share`` is the stream's name unless it is written; ``run_time`` is seconds."""

    example: ClassVar = "{arrivals: {poisson: {every: 10m}}, size: 1, run_time: 40m}"

    arrivals: ArrivalsSection
    run_time: Lengths
    size: Sizes = DistributionSection[_Count](constant=1)
    share: Text | None = None
    priority: Whole = Field(default=0, ge=0, le=MAX_PRIORITY)
    queue: Name | None = None
    instance_type: InstanceType | None = None
    """On a queue with quota shares."""


class WorkloadFile(Section):
    """The whole file. Jobs arrive for ``duration`` seconds; the simulation goes on until all have ended."""

    example: ClassVar = "duration: 3d and streams: {HIGHPRI: {...}} on lines of their own"

    duration: Seconds = Field(ge=1)
    seed: Whole = Field(default=0, ge=0)
    description: AnyText = ""
    streams: Annotated[dict[Name, StreamSection], NotEmpty]


def load_workload_file(path: Path) -> WorkloadFile:
    """Read and check a workload file.

    Raises:
        InvalidFileError: with every problem of the file, each with its line and column.
    """
    document = parse_yaml(read_text(path), str(path))
    read, problems = read_section(WorkloadFile, document)
    return unwrap(read, document, problems)
