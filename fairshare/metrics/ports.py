"""What metrics need from the outside. Adapters: `fairshare.aws.metrics.CloudWatch`, `fairshare.aws.phases`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from fairshare.model import AlarmDefinition

TRAINING_NAMESPACE: Final = "/aws/sagemaker/TrainingJobs"
"""Where SageMaker publishes the use of a training job's hosts
(https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html)."""

QUEUE_NAMESPACE: Final = "AWS/Batch"
"""Where AWS Batch publishes the transitions of a queue's jobs
(https://docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_metrics.html)."""


class Point(NamedTuple):
    """One value, of the period that begins at ``at`` (milliseconds since the epoch)."""

    at: int
    value: float


@dataclass(frozen=True)
class MetricQuery:
    """One series of CloudWatch. ``dimensions`` match exactly, never by prefix; ``period`` is in seconds."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    period: int
    statistic: str = "Average"


@dataclass(frozen=True)
class Datum:
    """One value to publish at ``at`` ms. ``storage_resolution`` is 60, or 1 for a high-resolution metric (seconds)."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    value: float
    unit: str
    at: int
    storage_resolution: int = 60


class MetricSource(Protocol):
    """CloudWatch, with as few calls as possible. Every method raises `fairshare.model.FairshareError`."""

    def series(self, queries: Sequence[MetricQuery], start: int, end: int) -> Mapping[MetricQuery, tuple[Point, ...]]:
        """Return the points of each query, oldest first, from ``start`` to before ``end`` ms.

        Every page is read, and a query without data has no points: that is not zero (case C38).
        """

    def put(self, data: Sequence[Datum]) -> None:
        """Publish values."""


class AlarmState(StrEnum):
    """States of an alarm (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html)."""

    OK = "OK"
    ALARM = "ALARM"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"


@dataclass(frozen=True)
class AlarmStatus:
    """An alarm and how it stands. Times are milliseconds since the epoch."""

    name: str
    definition: AlarmDefinition
    state: AlarmState
    since: int
    """When it came into its state."""
    reason: str
    configured_at: int
    """When it was made, or changed last."""


class StateChange(NamedTuple):
    """One entry of an alarm's history: at ``at`` ms it came into ``state``."""

    at: int
    state: AlarmState


class AlarmSource(Protocol):
    """The alarms of CloudWatch. Every method raises `fairshare.model.FairshareError`."""

    def alarms(self, prefix: str = "", names: Collection[str] = ()) -> tuple[AlarmStatus, ...]:
        """Return metric and composite alarms in the order of their names; every page is read.

        Args:
            prefix: how their names begin.
            names: exactly these, in place of a prefix; those that do not exist are left out.
        """

    def alarm_history(self, names: Collection[str], start: int) -> Mapping[str, tuple[StateChange, ...]]:
        """Return how the state of each alarm changed since ``start`` ms, oldest first. CloudWatch keeps 30 days."""


class Phase(NamedTuple):
    """One entry of a training job's ``SecondaryStatusTransitions``; ``end`` is None while it lasts. Milliseconds."""

    status: str
    begin: int
    end: int | None


class PhaseSource(Protocol):
    """What SageMaker says about the course of a training job."""

    def phases(self, training_job_name: str) -> tuple[Phase, ...]:
        """Return the phases in order; () when SageMaker does not know the job."""
