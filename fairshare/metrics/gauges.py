"""Numbers about queues and shares that AWS does not publish: their names, and values as data for CloudWatch.

`GAUGES` is the one table of them: the collector, the alarms, the dashboard and ``docs/gauges.md`` read it. What the
values mean is computed by `fairshare.insight.queue_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairshare.metrics.ports import Datum

NAMESPACE: Final = "fairshare"
"""CloudWatch namespace of every gauge."""

NO_STACK: Final = "none"
"""Dimension ``Stack`` of a queue that `fairshare setup` did not make."""

_BLOCKED_MEANING: Final = "1 while AWS says why a RUNNABLE job cannot start (its statusReason), else 0"


@dataclass(frozen=True)
class Gauge:
    """One number. Of a queue it has the dimensions Stack and Queue, of a share also Share."""

    name: str
    unit: str
    """As CloudWatch calls it: ``Count``, ``Percent``, ``Seconds`` or ``None``."""
    meaning: str
    of_queue: bool = True
    of_share: bool = True


GAUGES: Final = (
    Gauge("RunnableJobs", "Count", "jobs in RUNNABLE: they wait for capacity"),
    Gauge("LaunchingJobs", "Count", "jobs in SCHEDULED and STARTING: they hold capacity and do not train yet"),
    Gauge("RunningJobs", "Count", "jobs in RUNNING"),
    Gauge("OldestWaitSeconds", "Seconds", "age of the oldest RUNNABLE job since it was submitted; 0 when none waits"),
    Gauge("CapacityUsed", "Count", "instances held by jobs in SCHEDULED, STARTING and RUNNING"),
    Gauge("CapacityLimit", "Count", "instances that the queue's service environments allow", of_share=False),
    Gauge("CapacityUtilization", "Percent", "CapacityUsed of CapacityLimit", of_share=False),
    Gauge(
        "IdleCapacityWhileWaiting",
        "Count",
        "instances that are free and not reserved while a RUNNABLE job waits, else 0",
        of_share=False,
    ),
    Gauge("UsageShare", "Percent", "the share's part of CapacityUsed; 0 while nothing is used", of_queue=False),
    Gauge("TargetShare", "Percent", "the share's part by its weight when all shares are busy", of_queue=False),
    Gauge(
        "WeightedUsage",
        "None",
        "use over the policy's window times effective weight, which orders the shares, lowest first (model)",
        of_queue=False,
    ),
    Gauge(
        "StarvedShare",
        "Count",
        "1 when a job of the share has waited for the policy's whole window and the share used nothing in it, else 0",
        of_queue=False,
    ),
    Gauge("Blocked", "Count", _BLOCKED_MEANING),
    Gauge("SucceededJobs", "Count", "jobs that succeeded since the last run of the collector"),
    Gauge("FailedJobs", "Count", "jobs that failed since the last run of the collector, those cancelled included"),
    Gauge("CollectorRuns", "Count", "1 at each run of the collector: no value means that it is silent", of_share=False),
)

_BY_NAME: Final = {gauge.name: gauge for gauge in GAUGES}


@dataclass(frozen=True)
class QueueGauges:
    """Values of one queue and its shares at one instant, by name of the gauge. What is not known is left out."""

    queue: str
    stack: str
    values: Mapping[str, float]
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def dimensions(stack: str, queue: str, share: str | None = None) -> tuple[tuple[str, str], ...]:
    """Return the dimensions of a queue's gauges, or of a share's. A queue without a stack has `NO_STACK`."""
    found = (("Stack", stack or NO_STACK), ("Queue", queue))
    return found if share is None else (*found, ("Share", share))


def gauge_data(gauges: QueueGauges, at: int) -> list[Datum]:
    """Return the values to publish at ``at`` ms, in the order of `GAUGES`.

    Raises:
        KeyError: a value has no gauge of its name.
    """
    found = _data(gauges.values, dimensions(gauges.stack, gauges.queue), at)
    for share, values in sorted(gauges.shares.items()):
        found += _data(values, dimensions(gauges.stack, gauges.queue, share), at)
    return found


def _data(values: Mapping[str, float], where: tuple[tuple[str, str], ...], at: int) -> list[Datum]:
    order = list(_BY_NAME)
    return [
        Datum(NAMESPACE, name, where, value, _BY_NAME[name].unit, at)
        for name, value in sorted(values.items(), key=lambda item: order.index(_BY_NAME[item[0]].name))
    ]
