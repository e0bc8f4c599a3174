"""Alarms of Amazon CloudWatch: AWS's answers as models, and models as AWS's requests.

Sources: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html and
API_DescribeAlarms.html.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fairshare.aws.errors import translated
from fairshare.aws.paging import pages
from fairshare.aws.session import AwsSession
from fairshare.metrics.ports import AlarmSource, AlarmState, AlarmStatus, StateChange
from fairshare.model import AlarmDefinition, AlarmMetric

_ALARM_TYPES: Final = ("MetricAlarm", "CompositeAlarm")
"""What DescribeAlarms is asked for: without it, it leaves composite alarms out."""

_PAGE: Final = 100
_STATISTICS: Final = frozenset({"SampleCount", "Average", "Sum", "Minimum", "Maximum"})


class CloudWatchAlarms(AlarmSource):
    """The alarms of one account and region."""

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def alarms(self, prefix: str = "", names: Collection[str] = ()) -> tuple[AlarmStatus, ...]:
        """Return metric and composite alarms, by name or as their names begin."""
        with translated("read alarms", self._session.caller):
            if names:
                wanted = sorted(names)
                chunks = [wanted[start : start + _PAGE] for start in range(0, len(wanted), _PAGE)]
                found = [answer for chunk in chunks for answer in describe_alarms(self._session, AlarmNames=chunk)]
            else:
                found = list(describe_alarms(self._session, **({"AlarmNamePrefix": prefix} if prefix else {})))
        return tuple(sorted(map(_status_from, found), key=lambda alarm: alarm.name))

    def alarm_history(self, names: Collection[str], start: int) -> Mapping[str, tuple[StateChange, ...]]:
        """Return how the states of alarms changed since ``start`` ms; one listing tells it of all of them."""
        changes: dict[str, list[StateChange]] = defaultdict(list)
        request: dict[str, Any] = {
            "AlarmTypes": list(_ALARM_TYPES),
            "HistoryItemType": "StateUpdate",
            "StartDate": datetime.fromtimestamp(start / 1000, UTC),
            "ScanBy": "TimestampAscending",
            "MaxRecords": _PAGE,
        }
        if len(names) == 1:
            request["AlarmName"] = next(iter(names))
        with translated("read the history of alarms", self._session.caller):
            describe = self._session.client("cloudwatch").describe_alarm_history
            for page in pages(describe, token_name="NextToken", **request):
                for item in page.get("AlarmHistoryItems", []):
                    if item["AlarmName"] in names and (state := _new_state(item)) is not None:
                        changes[item["AlarmName"]].append(StateChange(_milliseconds(item["Timestamp"]), state))
        return {name: tuple(sorted(found)) for name, found in changes.items()}


def describe_alarms(session: AwsSession, **which: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the alarms of DescribeAlarms as AWS describes them, metric and composite ones, all pages.

    Args:
        session: account and region.
        which: ``AlarmNamePrefix`` or ``AlarmNames``; nothing = all alarms.
    """
    describe = session.client("cloudwatch").describe_alarms
    request = {"AlarmTypes": list(_ALARM_TYPES), "MaxRecords": _PAGE} | which
    for page in pages(describe, token_name="NextToken", **request):
        yield from page.get("MetricAlarms", [])
        yield from page.get("CompositeAlarms", [])


def _status_from(answer: Mapping[str, Any]) -> AlarmStatus:
    since = answer.get("StateTransitionedTimestamp") or answer["StateUpdatedTimestamp"]
    return AlarmStatus(
        name=answer["AlarmName"],
        definition=definition_from(answer),
        state=AlarmState(answer["StateValue"]),
        since=_milliseconds(since),
        reason=answer.get("StateReason") or "",
        configured_at=_milliseconds(answer["AlarmConfigurationUpdatedTimestamp"]),
    )


def _new_state(item: Mapping[str, Any]) -> AlarmState | None:
    """Return the state in an entry of the history, whose data is JSON in a text; None when it tells none."""
    try:
        return AlarmState(json.loads(item["HistoryData"])["newState"]["stateValue"])
    except (KeyError, TypeError, ValueError):
        return None


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def definition_from(answer: Mapping[str, Any]) -> AlarmDefinition:
    """Read an entry of ``MetricAlarms`` or ``CompositeAlarms`` in an answer of DescribeAlarms."""
    periods = answer.get("EvaluationPeriods", 1)
    return AlarmDefinition(
        metrics=_metrics_from(answer),
        comparison_operator=answer.get("ComparisonOperator", ""),
        threshold=answer.get("Threshold"),
        evaluation_periods=periods,
        datapoints_to_alarm=answer.get("DatapointsToAlarm") or periods,
        treat_missing_data=answer.get("TreatMissingData") or "missing",
        rule=answer.get("AlarmRule"),
        description=answer.get("AlarmDescription") or "",
        actions_enabled=answer.get("ActionsEnabled", True),
        alarm_actions=tuple(answer.get("AlarmActions", ())),
        ok_actions=tuple(answer.get("OKActions", ())),
        insufficient_data_actions=tuple(answer.get("InsufficientDataActions", ())),
    )


def put_request(name: str, alarm: AlarmDefinition) -> dict[str, Any]:
    """Return the PutMetricAlarm request, whole but for the tags."""
    request: dict[str, Any] = {
        "AlarmName": name,
        "AlarmDescription": alarm.description,
        "ActionsEnabled": alarm.actions_enabled,
        "AlarmActions": list(alarm.alarm_actions),
        "OKActions": list(alarm.ok_actions),
        "InsufficientDataActions": list(alarm.insufficient_data_actions),
        "ComparisonOperator": alarm.comparison_operator,
        "Threshold": alarm.threshold,
        "EvaluationPeriods": alarm.evaluation_periods,
        "DatapointsToAlarm": alarm.datapoints_to_alarm,
        "TreatMissingData": alarm.treat_missing_data,
    }
    if len(alarm.metrics) > 1 or alarm.metrics[0].expression is not None:
        return request | {"Metrics": [_query(metric) for metric in alarm.metrics]}
    (metric,) = alarm.metrics
    statistic = "Statistic" if metric.statistic in _STATISTICS else "ExtendedStatistic"
    unit = {} if metric.unit is None else {"Unit": metric.unit}
    return request | _metric(metric) | unit | {"Period": metric.period, statistic: metric.statistic}


def _metrics_from(answer: Mapping[str, Any]) -> tuple[AlarmMetric, ...]:
    if queries := answer.get("Metrics"):
        return tuple(_metric_from(query) for query in queries)
    if "MetricName" not in answer:
        return ()
    statistic = answer.get("Statistic") or answer.get("ExtendedStatistic") or ""
    return (_plain_metric("m1", answer, statistic, answer.get("Period", 0), answer.get("Unit")),)


def _metric_from(query: Mapping[str, Any]) -> AlarmMetric:
    returns_data = query.get("ReturnData")
    if (stat := query.get("MetricStat")) is not None:
        is_watched = True if returns_data is None else returns_data
        return _plain_metric(query["Id"], stat["Metric"], stat["Stat"], stat["Period"], stat.get("Unit"), is_watched)
    return AlarmMetric(
        id=query["Id"],
        expression=query.get("Expression", ""),
        period=query.get("Period") or 0,
        returns_data=True if returns_data is None else returns_data,
    )


def _plain_metric(
    id: str, metric: Mapping[str, Any], statistic: str, period: int, unit: str | None, returns_data: bool = True
) -> AlarmMetric:
    return AlarmMetric(
        id=id,
        namespace=metric.get("Namespace", ""),
        name=metric["MetricName"],
        dimensions=tuple((entry["Name"], entry["Value"]) for entry in metric.get("Dimensions", ())),
        statistic=statistic,
        period=period,
        unit=unit,
        returns_data=returns_data,
    )


def _query(metric: AlarmMetric) -> dict[str, Any]:
    query: dict[str, Any] = {"Id": metric.id, "ReturnData": metric.returns_data}
    if metric.expression is not None:
        return query | {"Expression": metric.expression} | ({"Period": metric.period} if metric.period else {})
    stat = {"Metric": _metric(metric), "Period": metric.period, "Stat": metric.statistic}
    return query | {"MetricStat": stat if metric.unit is None else stat | {"Unit": metric.unit}}


def _metric(metric: AlarmMetric) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in metric.dimensions]
    return {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
