"""Lets the alarms of moto's CloudWatch follow the clock of a runtime, and do what they are set to do.

Imports moto at the top: loaded by `fairshare.local.moto_extension` only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from moto.cloudwatch.models import Alarm
from moto.moto_api._internal import mock_random
from moto.sns.models import sns_backends

from fairshare.local.alarms import Move
from fairshare.local.moto_cloudwatch import CloudWatchWithAlarms
from fairshare.local.moto_outlets import send_to_rules
from fairshare.local.runtime import Runtime
from fairshare.metrics.ports import AlarmState

_logger = logging.getLogger(__name__)


@contextmanager
def alarms_followed(runtime: Runtime) -> Iterator[None]:
    """Evaluate alarms as the time of a runtime goes on, inside the block."""
    CloudWatchWithAlarms.now = runtime.now
    CloudWatchWithAlarms.regions = {}
    CloudWatchWithAlarms.tell = _act
    follower = _AllRegions()
    runtime.followers.append(follower)
    try:
        yield
    finally:
        runtime.followers.remove(follower)
        CloudWatchWithAlarms.regions = {}


class _AllRegions:
    """The alarms of every region."""

    def advance(self, now: int) -> None:
        for backend in list(CloudWatchWithAlarms.regions.values()):
            backend.watch.advance(now)

    def next_event_at(self) -> int | None:
        instants = [backend.watch.next_event_at() for backend in CloudWatchWithAlarms.regions.values()]
        return min((at for at in instants if at is not None), default=None)


def _act(backend: CloudWatchWithAlarms, alarm: Alarm, move: Move) -> None:
    """Send what CloudWatch sends: an event to EventBridge, a message to each SNS topic that is an action."""
    send_to_rules(_event(backend, alarm, move), backend.account_id, backend.region_name, move.at)
    actions = {
        AlarmState.ALARM: alarm.alarm_actions,
        AlarmState.OK: alarm.ok_actions,
        AlarmState.INSUFFICIENT_DATA: alarm.insufficient_data_actions,
    }
    for action in actions[move.after.state]:
        try:
            topic = sns_backends[backend.account_id][action.split(":")[3]].topics[action]
            topic.publish(json.dumps(_message(backend, alarm, move)), f'{move.after.state}: "{alarm.name}"')
        except (IndexError, KeyError):
            _logger.warning("alarm %s: the action %s is no topic of this local AWS", alarm.name, action)


def _event(backend: CloudWatchWithAlarms, alarm: Alarm, move: Move) -> dict[str, Any]:
    """The event of https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html."""
    return {
        "version": "0",
        "id": str(mock_random.uuid4()),
        "detail-type": "CloudWatch Alarm State Change",
        "source": "aws.cloudwatch",
        "account": backend.account_id,
        "time": _time(move.at),
        "region": backend.region_name,
        "resources": [alarm.alarm_arn],
        "detail": {
            "alarmName": alarm.name,
            "state": {"value": move.after.state, "reason": move.after.reason, "timestamp": _time(move.at)},
            "previousState": {"value": move.before},
        },
    }


def _message(backend: CloudWatchWithAlarms, alarm: Alarm, move: Move) -> dict[str, Any]:
    return {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description,
        "AWSAccountId": backend.account_id,
        "NewStateValue": move.after.state,
        "NewStateReason": move.after.reason,
        "StateChangeTime": _time(move.at),
        "Region": backend.region_name,
        "AlarmArn": alarm.alarm_arn,
        "OldStateValue": move.before,
    }


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
