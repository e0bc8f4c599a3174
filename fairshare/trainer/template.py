"""What the jobs of a sweep have in common: the SDK builds one request for all of them, and each gets its own values.

A `Point` holds what the SDK copies into a request as it is; everything else that a request is built from is its kind.
Two jobs of one kind differ in nothing but their points. Where the SDK does more with a point than to copy it (a recipe
and the options of SMP add hyperparameters), putting the point in its place again gives another request than the one it
built: such a template is not kept, and each job is built by the SDK. A contract test compares points with the SDK.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairshare.model import FairshareError
from fairshare.submit.ports import SourceSummary, Upload
from fairshare.trainer.drivers import Launch

KEPT: Final = 32
"""Templates held at once: jobs come sweep by sweep, or in a loop over a few kinds."""


@dataclass(frozen=True)
class Point:
    """What jobs of one kind may differ in, as CreateTrainingJob takes it."""

    hyperparameters: Mapping[str, str]
    environment: Mapping[str, str]
    checkpoint: str | None = None
    """S3 URI."""
    tags: Mapping[str, str] | None = None
    """None = those of the kind."""

    @property
    def given(self) -> tuple[bool, ...]:
        """Which of the four are there: for one that is not, the SDK looks into the user's defaults."""
        return tuple(map(bool, (self.hyperparameters, self.environment, self.checkpoint, self.tags)))


@dataclass(frozen=True)
class Template:
    """The request that the SDK built for one job of a kind, and what is the same for all of them."""

    request: Mapping[str, Any]
    point: Point
    """Of the job that it was built for."""
    uploads: tuple[Upload, ...] = ()
    warnings: tuple[str, ...] = ()
    launch: Launch = field(default_factory=Launch)
    source: SourceSummary | None = None

    @property
    def may_vary(self) -> bool:
        """Whether the SDK only copied the point, so that another one can take its place."""
        return self._varied(self.point) == self.request

    def at(self, point: Point) -> dict[str, Any]:
        """Return the request for a point. It shares what is below its top with the template."""
        return dict(self.request) if point == self.point else self._varied(point)

    def _varied(self, point: Point) -> dict[str, Any]:
        request = dict(self.request)
        if point.hyperparameters:
            request["HyperParameters"] = dict(point.hyperparameters)
        if point.environment:
            request["Environment"] = dict(point.environment)
        if point.checkpoint:
            request["CheckpointConfig"] = {**request["CheckpointConfig"], "S3Uri": point.checkpoint}
        if point.tags:
            request["Tags"] = [{"Key": key, "Value": value} for key, value in point.tags.items()]
        return request


class Templates:
    """The templates of a run, found by the kind of job that they are for."""

    def __init__(self) -> None:
        self._kept: deque[tuple[object, Template | FairshareError]] = deque(maxlen=KEPT)

    def get(self, kind: object, point: Point, build: Callable[[], Template]) -> Template:
        """Return a template that is right for a point of a kind, built when there is none.

        What is wrong with a kind is found once, too, however many points a sweep has.

        Args:
            kind: anything with ``==`` that may be copied in depth; is, since a user's objects may change later.
            point: where the job is.
            build: asks the SDK for the request of the job at ``point``.

        Raises:
            FairshareError: what ``build`` raised, now or for another point.
        """
        wanted = (point.given, kind)
        for kept, found in self._kept:
            if kept == wanted:
                return _or_raise(found)
        try:
            built: Template | FairshareError = build()
        except FairshareError as error:
            built = type(error)(error.message, hint=error.hint)
        if isinstance(built, FairshareError) or built.may_vary:
            self._kept.appendleft((copy.deepcopy(wanted), built))
        return _or_raise(built)


def _or_raise(found: Template | FairshareError) -> Template:
    if isinstance(found, FairshareError):
        raise type(found)(found.message, hint=found.hint)
    return found
