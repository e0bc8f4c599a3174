"""The alarms of a stack as resources of a CloudFormation template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairshare.model import AlarmMetric
from fairshare.provision.alarms import DesiredAlarm
from fairshare.provision.desired import Desired
from fairshare.provision.export.events import HAS_TOPIC, TOPIC
from fairshare.provision.export.template import LogicalIds, Resource, ref

_STATISTICS: Final = frozenset({"SampleCount", "Average", "Sum", "Minimum", "Maximum"})
"""Anything else is an extended statistic, such as p95."""


def alarm_resources(desired: Desired, ids: LogicalIds) -> dict[str, Resource]:
    """Return the alarms by logical id. They tell the topic of the template, when there is one."""
    return {ids.of("Alarm", alarm.key): _alarm(alarm) for alarm in desired.alarms}


def _alarm(desired: DesiredAlarm) -> Resource:
    alarm = desired.definition
    told = {"Fn::If": [HAS_TOPIC, [ref(TOPIC)], ref("AWS::NoValue")]}
    properties: dict[str, Any] = {
        "AlarmName": desired.name,
        "AlarmDescription": alarm.description,
        "ActionsEnabled": alarm.actions_enabled,
        "AlarmActions": told,
        "OKActions": told,
        "ComparisonOperator": alarm.comparison_operator,
        "Threshold": alarm.threshold,
        "EvaluationPeriods": alarm.evaluation_periods,
        "DatapointsToAlarm": alarm.datapoints_to_alarm,
        "TreatMissingData": alarm.treat_missing_data,
    }
    properties |= _watched(alarm.metrics)
    tags = [{"Key": key, "Value": value} for key, value in desired.tags.items()]
    return Resource("AWS::CloudWatch::Alarm", properties | {"Tags": tags})


def _watched(metrics: tuple[AlarmMetric, ...]) -> Mapping[str, Any]:
    if len(metrics) > 1 or metrics[0].expression is not None:
        return {"Metrics": [_query(metric) for metric in metrics]}
    (metric,) = metrics
    statistic = "Statistic" if metric.statistic in _STATISTICS else "ExtendedStatistic"
    return {**_metric(metric), "Period": metric.period, statistic: metric.statistic}


def _query(metric: AlarmMetric) -> dict[str, Any]:
    query: dict[str, Any] = {"Id": metric.id, "ReturnData": metric.returns_data}
    if metric.expression is not None:
        return query | {"Expression": metric.expression}
    return query | {
        "MetricStat": {"Metric": _metric(metric), "Period": metric.period, "Stat": metric.statistic},
    }


def _metric(metric: AlarmMetric) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in metric.dimensions]
    return {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
