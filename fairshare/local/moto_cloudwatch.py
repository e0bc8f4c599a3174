"""moto's CloudWatch with alarms that are evaluated, remembered and acted on, and with answers in pages.

moto's alarms are born OK and never change by themselves. It lacks PutCompositeAlarm, DescribeAlarmHistory and pages.

Imports moto at the top: loaded by `fairshare.local.moto_extension` only.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import moto.cloudwatch.urls
from moto.cloudwatch.models import Alarm
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult

from fairshare.local.alarms import AlarmWatch, Move
from fairshare.local.metric_store import MetricStore, SeriesKey
from fairshare.local.moto_metrics import LocalCloudWatchBackend, sample_of
from fairshare.local.training_jobs import as_time
from fairshare.metrics.evaluate import Evaluation
from fairshare.metrics.ports import AlarmState
from fairshare.model import AlarmDefinition, AlarmMetric

KEPT_ITEMS: Final = 10_000
"""Older entries of the alarm history are forgotten."""

_BORN: Final = Evaluation(AlarmState.INSUFFICIENT_DATA, "Unchecked: Initial alarm creation")
_POINTS_A_PAGE: Final = 100_800
_ALARMS_A_PAGE: Final = 50
_ITEMS_A_PAGE: Final = 50


class CloudWatchWithAlarms(LocalCloudWatchBackend):
    """moto's CloudWatch of one account and region, whose alarms live."""

    now: ClassVar[Callable[[], int]]
    """The clock of the local AWS, milliseconds."""
    regions: ClassVar[dict[tuple[str, str], CloudWatchWithAlarms]]
    """All that exist, by account and region."""
    tell: ClassVar[Callable[[CloudWatchWithAlarms, Alarm, Move], None]]
    """Carries out the actions of an alarm whose state has changed."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.store = MetricStore()
        self.watch = AlarmWatch(self.store, self._moved, type(self).now())
        self.history: deque[dict[str, Any]] = deque(maxlen=KEPT_ITEMS)
        """As DescribeAlarmHistory tells it, oldest first."""
        self.regions[account_id, region_name] = self

    @property
    def _url_module(self) -> SimpleNamespace:
        paths = dict.fromkeys(moto.cloudwatch.urls.url_paths, LocalCloudWatchResponse.dispatch)
        return SimpleNamespace(url_bases=moto.cloudwatch.urls.url_bases, url_paths=paths)

    # -- alarms ----------------------------------------------------------------------------------------------------

    def put_metric_alarm(self, name: str, **fields: Any) -> Alarm:
        """Make an alarm without data, or change one and leave its state and tags as they are."""
        before = self.alarms.get(name)
        tags = fields.pop("tags", None)
        alarm = super().put_metric_alarm(name=name, tags=tags if before is None else None, **fields)
        at = type(self).now()
        alarm.configuration_updated_timestamp = _naive(at)
        if before is None:
            _set_state(alarm, _BORN, at)
        else:
            for field in ("state_value", "state_reason", "state_reason_data", "state_updated_timestamp"):
                setattr(alarm, field, getattr(before, field))
            alarm.state_transitioned_timestamp = before.state_transitioned_timestamp
        self._note(alarm, "ConfigurationUpdate", f'Alarm "{name}" {"updated" if before else "created"}', {}, at)
        self.watch.put(name, definition_of(alarm), AlarmState(alarm.state_value))
        return alarm

    def delete_alarms(self, alarm_names: list[str]) -> None:
        """Delete alarms with their tags."""
        for name in alarm_names:
            if (alarm := self.alarms.get(name)) is not None:
                self.tagger.delete_all_tags_for_resource(alarm.alarm_arn)
                self._note(alarm, "ConfigurationUpdate", f'Alarm "{name}" deleted', {}, type(self).now())
            self.watch.drop(name)
        super().delete_alarms(alarm_names)

    def set_alarm_state(self, alarm_name: str, reason: str, reason_data: str, state_value: str) -> None:
        """Put an alarm into a state until it is evaluated next."""
        before = self.alarms.get(alarm_name)
        was = AlarmState(before.state_value) if before is not None else AlarmState.OK
        super().set_alarm_state(alarm_name, reason, reason_data, state_value)
        alarm, at = self.alarms[alarm_name], type(self).now()
        self._moved(Move(alarm_name, was, Evaluation(AlarmState(state_value), reason), at))
        self.watch.put(alarm_name, definition_of(alarm), AlarmState(state_value))

    def _moved(self, move: Move) -> None:
        alarm = self.alarms[move.name]
        old = {"stateValue": move.before, "stateReason": alarm.state_reason}
        _set_state(alarm, move.after, move.at)
        new = {"stateValue": move.after.state, "stateReason": move.after.reason}
        summary = f"Alarm updated from {move.before} to {move.after.state}"
        self._note(alarm, "StateUpdate", summary, {"version": "1.0", "oldState": old, "newState": new}, move.at)
        if alarm.actions_enabled:
            type(self).tell(self, alarm, move)

    def _note(self, alarm: Alarm, kind: str, summary: str, data: Mapping[str, Any], at: int) -> None:
        self.history.append(
            {
                "AlarmName": alarm.name,
                "AlarmType": "MetricAlarm" if alarm.rule is None else "CompositeAlarm",
                "Timestamp": _naive(at),
                "HistoryItemType": kind,
                "HistorySummary": summary,
                "HistoryData": json.dumps(data),
            }
        )

    # -- metrics ---------------------------------------------------------------------------------------------------

    def put_metric_data(self, namespace: str, metric_data: list[dict[str, Any]]) -> None:
        """Keep values, and let the alarms that watch their metrics see them at once."""
        now, before = type(self).now(), len(self.metric_data)
        for datum in metric_data:
            datum.setdefault("Timestamp", _naive(now))
        super().put_metric_data(namespace, metric_data)
        arrived = set()
        for datum in self.metric_data[before:]:
            key = SeriesKey(datum.namespace, datum.name, frozenset((d.name, d.value) for d in datum.dimensions))
            self.store.add(key, sample_of(datum))
            arrived.add(key)
        self.watch.arrived(arrived, now)


class LocalCloudWatchResponse(CloudWatchResponse):  # type: ignore[misc]
    """moto's CloudWatch, with the operations and the paging that it lacks."""

    def put_composite_alarm(self) -> ActionResult:
        """PutCompositeAlarm: moto keeps one as a metric alarm with a rule."""
        return self.put_metric_alarm()

    def describe_alarms(self) -> ActionResult:
        """DescribeAlarms: filters together, metric alarms alone unless others are asked for, in pages."""
        types = self._get_param("AlarmTypes") or ["MetricAlarm"]
        names = self._get_param("AlarmNames")
        found = [
            alarm
            for alarm in self.cloudwatch_backend.alarms.values()
            if ("MetricAlarm" if alarm.rule is None else "CompositeAlarm") in types
            and (not names or alarm.name in names)
            and alarm.name.startswith(self._get_param("AlarmNamePrefix") or "")
            and self._get_param("StateValue") in (None, alarm.state_value)
            and _acts_on(alarm, self._get_param("ActionPrefix"))
        ]
        page, token = self._page(sorted(found, key=lambda alarm: alarm.name), _ALARMS_A_PAGE)
        return ActionResult(
            {
                "MetricAlarms": [alarm for alarm in page if alarm.rule is None],
                "CompositeAlarms": [alarm for alarm in page if alarm.rule is not None],
                "NextToken": token,
            }
        )

    def describe_alarm_history(self) -> ActionResult:
        """DescribeAlarmHistory, newest first unless asked otherwise."""
        types = self._get_param("AlarmTypes") or ["MetricAlarm"]
        start, end = self._get_param("StartDate"), self._get_param("EndDate")
        found = [
            item
            for item in self.cloudwatch_backend.history
            if item["AlarmType"] in types
            and self._get_param("AlarmName") in (None, item["AlarmName"])
            and self._get_param("HistoryItemType") in (None, item["HistoryItemType"])
            and (start is None or item["Timestamp"] >= start)
            and (end is None or item["Timestamp"] <= end)
        ]
        if self._get_param("ScanBy") != "TimestampAscending":
            found.reverse()
        page, token = self._page(found, _ITEMS_A_PAGE)
        return ActionResult({"AlarmHistoryItems": page, "NextToken": token})

    def get_metric_data(self) -> ActionResult:
        """GetMetricData, so many values a page; a metric may be cut in two, as in AWS."""
        answer = super().get_metric_data()
        results = answer.result["MetricDataResults"]
        first = int(self._get_param("NextToken") or 0)
        last = first + int(self._get_param("MaxDatapoints") or _POINTS_A_PAGE)
        page, seen = [], 0
        for result in results:
            size = len(result["values"])
            low, high = (min(max(at - seen, 0), size) for at in (first, last))
            if low < high or (size == 0 and first == 0):
                cut = {name: result[name][low:high] for name in ("timestamps", "values")}
                page.append(result | cut | {"status_code": "Complete" if high == size else "PartialData"})
            seen += size
        return ActionResult({"MetricDataResults": page, "NextToken": str(last) if last < seen else None})

    def _page(self, found: Sequence[Any], usual: int) -> tuple[Sequence[Any], str | None]:
        first = int(self._get_param("NextToken") or 0)
        last = first + int(self._get_param("MaxRecords") or usual)
        return found[first:last], str(last) if last < len(found) else None


def definition_of(alarm: Alarm) -> AlarmDefinition:
    """Read an alarm of moto's."""
    periods = int(alarm.evaluation_periods or 1)
    return AlarmDefinition(
        metrics=() if alarm.rule is not None else _metrics_of(alarm),
        comparison_operator=alarm.comparison_operator or "",
        threshold=None if alarm.threshold is None else float(alarm.threshold),
        evaluation_periods=periods,
        datapoints_to_alarm=int(alarm.datapoints_to_alarm or periods),
        treat_missing_data=alarm.treat_missing_data or "missing",
        rule=alarm.rule,
    )


def _metrics_of(alarm: Alarm) -> tuple[AlarmMetric, ...]:
    if not alarm.metric_data_queries:
        statistic = alarm.statistic or alarm.extended_statistic or ""
        return (_plain_metric("m1", alarm, statistic, alarm.period, True),)
    return tuple(
        AlarmMetric(id=query.id, expression=query.expression, returns_data=_is_watched(query))
        if query.metric_stat is None
        else _plain_metric(
            query.id, query.metric_stat.metric, query.metric_stat.stat, query.metric_stat.period, _is_watched(query)
        )
        for query in alarm.metric_data_queries
    )


def _plain_metric(id: str, metric: Any, statistic: str, period: Any, is_watched: bool) -> AlarmMetric:
    return AlarmMetric(
        id=id,
        namespace=metric.namespace or "",
        name=metric.metric_name,
        dimensions=tuple((dimension.name, dimension.value) for dimension in metric.dimensions),
        statistic=statistic,
        period=int(period),
        returns_data=is_watched,
    )


def _is_watched(query: Any) -> bool:
    return str(query.return_data).lower() != "false"


def _acts_on(alarm: Alarm, prefix: str | None) -> bool:
    return prefix is None or any(action.startswith(prefix) for action in alarm.alarm_actions)


def _set_state(alarm: Alarm, found: Evaluation, at: int) -> None:
    alarm.state_value, alarm.state_reason = str(found.state), found.reason
    alarm.state_updated_timestamp = alarm.state_transitioned_timestamp = _naive(at)


def _naive(milliseconds: int) -> datetime:
    """Return a time as moto keeps it: UTC without saying so."""
    return as_time(milliseconds).replace(tzinfo=None)
