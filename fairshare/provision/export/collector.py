"""The function that publishes the gauges: ``infra/collector/README.md`` says what it is and how it is packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairshare.provision.export.access import Access
from fairshare.provision.export.events import DEAD_LETTERS, STATE_CHANGE, queue_pattern
from fairshare.provision.export.iam import Grant, collector, policy_document, trust_document
from fairshare.provision.export.template import Resource, attribute, ref, substituted
from fairshare.provision.place import PSEUDO

HAS_COLLECTOR: Final = "HasCollector"
"""Condition: there is a package to run."""

CODE_BUCKET: Final = "CollectorCodeBucket"
CODE_KEY: Final = "CollectorCodeKey"
"""Parameters that say where in S3 the package is; empty = no collector."""

PERIOD_MINUTES: Final = 1
"""Between two runs: CloudWatch keeps custom metrics by the minute."""

_FUNCTION: Final = "CollectorFunction"
_ROLE: Final = "CollectorRole"
_LOG: Final = "CollectorLog"
_KEPT_DAYS: Final = 30
_SERVICE: Final = "lambda.amazonaws.com"


def collector_resources(access: Access, queues: Sequence[str], queue_ids: Sequence[str]) -> dict[str, Resource]:
    """Return the function, its role, its log, what starts it and the leave to do so, by logical id.

    Args:
        access: what it may do, to the queues of the stack.
        queues: names of its job queues.
        queue_ids: their logical ids.
    """
    if not queues:
        return {}
    ends = queue_pattern([ref(each) for each in queue_ids], STATE_CHANGE)
    ends["detail"]["status"] = ["SUCCEEDED", "FAILED"]
    every = f"rate({PERIOD_MINUTES} minute{'' if PERIOD_MINUTES == 1 else 's'})"
    rules: dict[str, dict[str, Any]] = {
        "CollectorSchedule": {"Description": "Publishes the gauges.", "ScheduleExpression": every},
        "CollectorEndsRule": {"Description": "Counts the ends of jobs.", "EventPattern": ends},
    }
    found = {_LOG: _log_group(access.stack), _ROLE: _role(access), _FUNCTION: _function(access.stack, queues)}
    for name, trigger in rules.items():
        found |= {name: _rule(trigger), f"{name}Permission": _permission(name)}
    return found


def _log_group(stack: str) -> Resource:
    properties = {"LogGroupName": f"/aws/lambda/fairshare-{stack}-collector", "RetentionInDays": _KEPT_DAYS}
    return Resource("AWS::Logs::LogGroup", properties, HAS_COLLECTOR, holds_data=True)


def _role(access: Access) -> Resource:
    """Its own work, its log, and the queue for events that it failed to handle."""
    lines = PSEUDO.arn("logs", f"log-group:${{{_LOG}}}:*")
    runtime = (
        Grant("WriteOwnLog", ("logs:CreateLogStream", "logs:PutLogEvents"), (lines,)),
        Grant("KeepFailures", ("sqs:SendMessage",), (f"${{{DEAD_LETTERS}.Arn}}",)),
    )
    document = policy_document((*collector(access), *runtime))
    policy = {"PolicyName": "collector", "PolicyDocument": substituted(document)}
    properties = {"AssumeRolePolicyDocument": trust_document(_SERVICE), "Policies": [policy]}
    return Resource("AWS::IAM::Role", properties, HAS_COLLECTOR)


def _function(stack: str, queues: Sequence[str]) -> Resource:
    properties = {
        "FunctionName": f"fairshare-{stack}-collector",
        "Description": "Publishes the gauges of queues and shares that AWS Batch does not publish.",
        "Runtime": "python3.13",
        "Handler": "handler.handler",
        "Code": {"S3Bucket": ref(CODE_BUCKET), "S3Key": ref(CODE_KEY)},
        "Role": attribute(_ROLE, "Arn"),
        "MemorySize": 256,
        "Timeout": 60,
        "ReservedConcurrentExecutions": 1,
        "DeadLetterConfig": {"TargetArn": attribute(DEAD_LETTERS, "Arn")},
        "LoggingConfig": {"LogGroup": ref(_LOG)},
        "Environment": {"Variables": {"FAIRSHARE_STACK": stack, "FAIRSHARE_QUEUES": ",".join(queues)}},
    }
    return Resource("AWS::Lambda::Function", properties, HAS_COLLECTOR)


def _rule(trigger: dict[str, Any]) -> Resource:
    target = {
        "Id": "collector",
        "Arn": attribute(_FUNCTION, "Arn"),
        "DeadLetterConfig": {"Arn": attribute(DEAD_LETTERS, "Arn")},
    }
    return Resource("AWS::Events::Rule", trigger | {"State": "ENABLED", "Targets": [target]}, HAS_COLLECTOR)


def _permission(rule: str) -> Resource:
    properties = {
        "Action": "lambda:InvokeFunction",
        "FunctionName": ref(_FUNCTION),
        "Principal": "events.amazonaws.com",
        "SourceArn": attribute(rule, "Arn"),
    }
    return Resource("AWS::Lambda::Permission", properties, HAS_COLLECTOR)
