"""EventBridge rules for what AWS Batch tells of a stack's service jobs, and where the events go.

Every event goes to a log group; a head of a queue that cannot start also goes to people, when there is a topic. What
cannot be delivered is kept in a queue. Source: https://docs.aws.amazon.com/batch/latest/userguide/service-job-events.html.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from fairshare.provision.export.iam import POLICY_VERSION
from fairshare.provision.export.template import Resource, attribute, ref, substituted
from fairshare.provision.place import PSEUDO

STATE_CHANGE: Final = "Batch Service Job State Change"
QUEUE_BLOCKED: Final = "Batch Service Job Queue Blocked"
PREEMPTION_STARTED: Final = "Batch Service Job Preemption Started"
PREEMPTION_COMPLETED: Final = "Batch Service Job Preemption Completed"

DEAD_LETTERS: Final = "DeadLetters"
"""Logical id of the queue that keeps what could not be delivered."""

HAS_TOPIC: Final = "HasTopic"
"""Condition: somebody is to be told."""

TOPIC: Final = "NotificationTopicArn"
"""Parameter with the ARN of an SNS topic; empty = none."""

_LOG: Final = "EventLog"
_LOG_POLICY: Final = "EventLogPolicy"
_KEPT_DAYS: Final = 30
_LONGEST_SECONDS: Final = 1_209_600
"""14 days, the longest that SQS keeps a message."""
_SERVICE: Final = "events.amazonaws.com"


def queue_pattern(queues: Sequence[Any], *detail_types: str) -> dict[str, Any]:
    """Match events of these types about jobs of these queues (ARNs, or references to them)."""
    return {"source": ["aws.batch"], "detail-type": list(detail_types), "detail": {"jobQueue": list(queues)}}


def preemption_pattern() -> dict[str, Any]:
    """Match preemptions in the account and region: these events do not name the queue."""
    return {"source": ["aws.batch"], "detail-type": [PREEMPTION_STARTED, PREEMPTION_COMPLETED]}


def event_resources(stack: str, queue_ids: Sequence[str]) -> dict[str, Resource]:
    """Return rules, log group and the queue of what could not be delivered, by logical id.

    Args:
        stack: name of the stack.
        queue_ids: logical ids of its job queues.
    """
    queues = [ref(queue) for queue in queue_ids]
    log_target = {"Id": "log", "Arn": PSEUDO.arn("logs", f"log-group:${{{_LOG}}}")}
    rules = {
        "JobEventsRule": _rule(
            "Service jobs of the stack that changed their state, or cannot start.",
            queue_pattern(queues, STATE_CHANGE, QUEUE_BLOCKED),
            log_target,
        ),
        "PreemptionEventsRule": _rule("Preemptions of service jobs.", preemption_pattern(), log_target),
        "QueueBlockedRule": _rule(
            "The first job of a queue cannot start: people are told.",
            queue_pattern(queues, QUEUE_BLOCKED),
            {"Id": "people", "Arn": ref(TOPIC)},
            HAS_TOPIC,
        ),
    }
    log = {_LOG: _log_group(stack), _LOG_POLICY: _log_policy(stack)}
    return log | _dead_letters() | (rules if queues else {})


def _rule(description: str, pattern: dict[str, Any], target: dict[str, Any], condition: str | None = None) -> Resource:
    target = target | {"DeadLetterConfig": {"Arn": attribute(DEAD_LETTERS, "Arn")}}
    properties = {
        "Description": description,
        "EventPattern": pattern,
        "State": "ENABLED",
        "Targets": [substituted(target)],
    }
    return Resource("AWS::Events::Rule", properties, condition)


def _log_group(stack: str) -> Resource:
    properties = {"LogGroupName": f"/aws/events/fairshare/{stack}", "RetentionInDays": _KEPT_DAYS}
    return Resource("AWS::Logs::LogGroup", properties, holds_data=True)


def _log_policy(stack: str) -> Resource:
    """EventBridge writes to a log group only by the leave of a policy of CloudWatch Logs."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": [_SERVICE, "delivery.logs.amazonaws.com"]},
        "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "Resource": PSEUDO.arn("logs", f"log-group:/aws/events/fairshare/{stack}:*"),
    }
    text = json.dumps({"Version": POLICY_VERSION, "Statement": [statement]})
    return Resource(
        "AWS::Logs::ResourcePolicy",
        {"PolicyName": f"fairshare-{stack}-events", "PolicyDocument": substituted(text)},
    )


def _dead_letters() -> dict[str, Resource]:
    properties = {"SqsManagedSseEnabled": True, "MessageRetentionPeriod": _LONGEST_SECONDS}
    queue = Resource("AWS::SQS::Queue", properties, holds_data=True)
    arn = attribute(DEAD_LETTERS, "Arn")
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": _SERVICE},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnLike": {"aws:SourceArn": PSEUDO.arn("events", "rule/*")}},
    }
    policy = Resource(
        "AWS::SQS::QueuePolicy",
        {
            "Queues": [ref(DEAD_LETTERS)],
            "PolicyDocument": substituted({"Version": POLICY_VERSION, "Statement": [statement]}),
        },
    )
    return {DEAD_LETTERS: queue, "DeadLettersPolicy": policy}
