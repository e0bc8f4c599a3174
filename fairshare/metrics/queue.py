"""What AWS Batch publishes of a job queue: how many jobs moved where, and how long their phases took.

Free, automatic, at best effort; a period in which nothing moved has no value. There are no gauges (queue depth,
capacity, shares) among them. Source:
https://docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_metrics.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairshare.metrics.ports import QUEUE_NAMESPACE, MetricQuery, Point
from fairshare.metrics.series import Series

COUNTS: Final = (
    "JobsSubmitted",
    "JobsMovedToRunnable",
    "JobsMovedToScheduled",
    "JobsMovedToStarting",
    "JobsMovedToRunning",
    "JobsMovedToSucceeded",
    "JobsMovedToFailed",
    "JobsTerminated",
    "JobsRetried",
    "JobsPreempted",
)
"""Added up over a period."""

DURATIONS: Final = (
    "JobSubmittedToFirstScheduledDuration",
    "JobAttemptRunnableToScheduledDuration",
    "JobAttemptScheduledToStartingDuration",
    "JobAttemptStartingToRunningDuration",
    "JobAttemptExecutionDuration",
    "JobAttemptDuration",
)
"""Milliseconds, averaged over the jobs of a period."""

_DIMENSION: Final = "JobQueueName"


def queue_queries(queue: str, period: int) -> tuple[MetricQuery, ...]:
    """Return what to ask for, in the order to show. ``queue`` is a name, ``period`` seconds."""
    names = [*((name, "Sum") for name in COUNTS), *((name, "Average") for name in DURATIONS)]
    return tuple(
        MetricQuery(QUEUE_NAMESPACE, name, ((_DIMENSION, queue),), period, statistic) for name, statistic in names
    )


def queue_series(answers: Mapping[MetricQuery, tuple[Point, ...]]) -> tuple[Series, ...]:
    """Return the series of a queue from the answers to `queue_queries`. Their unit is Count or Milliseconds."""
    return tuple(
        Series(
            name=query.name,
            host=None,
            unit="Count" if query.name in COUNTS else "Milliseconds",
            normalised=False,
            points=points,
            period=query.period,
        )
        for query, points in answers.items()
    )
