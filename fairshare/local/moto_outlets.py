"""Lets moto's EventBridge and CloudWatch know what happens to service jobs: rules match, metrics can be read.

Imports moto at the top: loaded by `fairshare.local.moto_extension` only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.events.models import events_backends

from fairshare.local.batch_metrics import DIMENSION, NAMESPACE, MetricPoint
from fairshare.local.events import BatchEvent
from fairshare.local.runtime import Runtime
from fairshare.local.training_jobs import as_time

_logger = logging.getLogger(__name__)


@contextmanager
def connected(runtime: Runtime) -> Iterator[None]:
    """Pass on the events and metrics of a runtime inside the block."""
    undo = (runtime.events.subscribe(_deliver), runtime.metrics.subscribe(_put))
    try:
        yield
    finally:
        for end in undo:
            end()


def _deliver(event: BatchEvent) -> None:
    send_to_rules(event.to_json(), event.account_id, event.region, event.at)


def send_to_rules(event: Mapping[str, Any], account_id: str, region: str, at: int) -> None:
    """Hand an event to the rules of the default bus; what cannot be delivered is dropped, as AWS does in the end.

    Args:
        event: as EventBridge delivers it.
        account_id: whose bus.
        region: whose bus.
        at: milliseconds.
    """
    rules = events_backends[account_id][region].event_buses["default"].rules.values()
    for rule in [rule for rule in rules if rule.state == "ENABLED"]:
        seconds = at // 1000
        message = {**event, "time": seconds, "ingestion-time": seconds}  # as moto takes and formats them
        try:
            rule.send_to_targets(message)
        except Exception:  # a target that moto does not know, or one that is gone
            _logger.warning("EventBridge rule %s: event %s was not delivered", rule.name, event["id"], exc_info=True)


def _put(point: MetricPoint) -> None:
    datum = {
        "MetricName": point.name,
        "Dimensions": [{"Name": DIMENSION, "Value": point.queue}],
        "Unit": point.unit,
        "Value": float(point.value),
        "Timestamp": as_time(point.at).replace(tzinfo=None),  # moto keeps UTC without saying so
    }
    cloudwatch_backends[point.account_id][point.region].put_metric_data(NAMESPACE, [datum])
