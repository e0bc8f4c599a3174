"""What is known about an alarm, in numbers and words that the rules of `fairshare.metrics.traps` can speak of. Pure.

A fact that is None is not known, so no rule that needs it holds. Flags are 1 and 0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median_low
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.metrics.backtest import Past, Replay, replay
from fairshare.metrics.evaluate import EXTRA_PERIODS
from fairshare.metrics.gauges import GAUGES, NAMESPACE
from fairshare.metrics.ports import TRAINING_NAMESPACE, AlarmState, AlarmStatus, StateChange
from fairshare.model import AlarmDefinition, AlarmMetric

Facts = dict[str, float | str | None]

_DAY: Final = 86_400_000
_REGULAR: Final = 0.8
"""Part of the distances between values that must be alike."""

_CALMER: Final = ((2, 3), (3, 3), (3, 5), (5, 5), (6, 10), (10, 10), (15, 15), (30, 30))
"""Datapoints of periods that are tried to quieten an alarm, the quickest to fire first."""

_FLAGS_0_OR_1: Final = frozenset({"Blocked", "StarvedShare"})
_PER_DEVICE: Final = frozenset({"CPUUtilization", "GPUUtilization", "GPUMemoryUtilization"})
"""Of SageMaker's metrics, those that go up to 100 times the number of devices (case C35)."""


def definition_facts(alarm: AlarmStatus, referenced: bool) -> Facts:
    """Return what an alarm's definition alone tells.

    Args:
        alarm: any alarm.
        referenced: whether a composite alarm with actions depends on it.
    """
    definition = alarm.definition
    treatment = definition.treat_missing_data
    counts = any(metric.statistic in ("Sum", "SampleCount") for metric in definition.metrics if metric.returns_data)
    never, always = _reach(definition)
    host = _host(definition)
    return {
        "name": alarm.name,
        "metric": _metric_text(definition),
        "where": _where_text(definition),
        "period": definition.period,
        "threshold": definition.threshold,
        "evaluation_periods": definition.evaluation_periods,
        "datapoints_to_alarm": definition.datapoints_to_alarm,
        "impossible": definition.datapoints_to_alarm > definition.evaluation_periods,
        "treat_missing_data": treatment,
        "treats_as_breaching": treatment == "breaching",
        "treats_as_fine": treatment == "notBreaching",
        "is_of_host": host is not None,
        "host": host,
        "is_heartbeat": counts and definition.comparison_operator.startswith("LessThan"),
        "never": never,
        "always": always,
        "has_actions": bool(definition.alarm_actions),
        "actions_enabled": definition.actions_enabled,
        "referenced": referenced,
        "is_lacking": alarm.state is AlarmState.INSUFFICIENT_DATA,
        "is_firing": alarm.state is AlarmState.ALARM,
    }


def history_facts(alarm: AlarmStatus, history: Sequence[StateChange], now: int) -> Facts:
    """Return what CloudWatch's history of an alarm tells."""
    age = now - alarm.configured_at
    return {
        "age": format_duration(age // 1000),
        "age_periods": age / (1000 * alarm.definition.period) if alarm.definition.period else None,
        "changes": len(history),
        "fired": sum(change.state is AlarmState.ALARM for change in history),
        "fired_a_day": _most_a_day([change.at for change in history if change.state is AlarmState.ALARM]),
    }


def replay_facts(definition: AlarmDefinition, replayed: Replay, past: Past) -> Facts:
    """Return what the metrics of an alarm tell, and what other settings would have done."""
    points = sorted(replayed.datapoints)
    step = definition.period * 1000
    firings = replayed.firings
    length = replayed.end - replayed.begin
    firing = sum(span.end - span.begin for span in firings) / length if length else None
    facts: Facts = {
        "days": length / _DAY,
        "time": format_duration(length // 1000),
        "points": len(points),
        "would_fire": len(firings),
        "would_fire_a_day": _most_a_day([span.begin for span in firings]),
        "firing_part": firing,
        "firing_percent": None if firing is None else 100 * firing,
        "since": "",
    }
    if points:
        silent = replayed.end - points[-1] - step
        periods = (points[-1] - points[0]) // step + 1
        facts |= {
            "coverage": len(points) / periods,
            "missing_percent": 100 * (1 - len(points) / periods),
            "silent_periods": silent / step - definition.evaluation_periods - EXTRA_PERIODS,
            "silent_days": silent / _DAY,
            "silent": format_duration(max(0, silent) // 1000),
            "since": f", for {format_duration(max(0, silent) // 1000)}",
            "watched_days": (points[-1] - points[0]) / _DAY,
        }
        facts |= _spacing(points, definition.period)
        facts |= _extremes(definition, replayed)
    return facts | _other_settings(definition, replayed, past)


def _spacing(points: Sequence[int], period: int) -> Facts:
    distances = [(after - before) // 1000 for before, after in pairwise(points)]
    if not distances:
        return {}
    usual = median_low(distances)
    alike = sum(abs(distance - usual) <= usual / 4 for distance in distances) / len(distances)
    return {
        "spacing": usual,
        "spacing_text": format_duration(usual),
        "spacing_periods": usual / period,
        "is_regular": alike >= _REGULAR,
    }


def _extremes(definition: AlarmDefinition, replayed: Replay) -> Facts:
    """How far the threshold is from all that was seen: 20 = twenty times as far from 0 as the farthest value."""
    values, threshold = replayed.datapoints.values(), definition.threshold
    is_upper = _is_upper(definition)
    far = max(values) if is_upper else min(values)
    is_bounded = _bounds(definition) is not None or _watched(definition).expression is not None
    if threshold is None or is_bounded or far <= 0 or threshold <= 0:
        return {"farthest": far, "reach": None}
    near = float(f"{far * (1.1 if is_upper else 0.9):.2g}")
    return {"farthest": far, "reach": threshold / far if is_upper else far / threshold, "near": near}


def _other_settings(definition: AlarmDefinition, replayed: Replay, past: Past) -> Facts:
    """Replay a metric alarm with other settings, where there is a reason to."""
    now, facts = len(replayed.firings), Facts()
    if definition.rule is not None:
        return facts
    if _most_a_day([span.begin for span in replayed.firings]) > 1:
        for count, periods in _CALMER:
            fits = definition.evaluation_periods < periods and periods * definition.period <= _DAY // 1000
            calmer = replace(definition, datapoints_to_alarm=count, evaluation_periods=periods)
            if fits and (then := len(replay(calmer, past).firings)) * 4 <= now:
                facts |= {"calmer_count": count, "calmer_periods": periods, "calmer_fires": then}
                break
    if definition.treat_missing_data == "breaching":
        quiet = replace(definition, treat_missing_data="notBreaching")
        facts["quiet_fires"] = len(replay(quiet, past).firings)
    if now and replayed.datapoints:
        usual = _beyond_usual(definition, replayed)
        facts |= {"usual": usual, "usual_fires": len(replay(replace(definition, threshold=usual), past).firings)}
    return facts


def _beyond_usual(definition: AlarmDefinition, replayed: Replay) -> float:
    """A threshold that one value in a hundred lies beyond."""
    ordered = sorted(replayed.datapoints.values())
    return ordered[(len(ordered) * 99) // 100 if _is_upper(definition) else len(ordered) // 100]


def _is_upper(definition: AlarmDefinition) -> bool:
    return definition.comparison_operator.startswith("Greater")


def _most_a_day(instants: Sequence[int]) -> int:
    """Return how many fall into the fullest 24 hours."""
    ordered = sorted(instants)
    return max((bisect_left(ordered, at + _DAY) - index for index, at in enumerate(ordered)), default=0)


def _reach(definition: AlarmDefinition) -> tuple[bool, bool]:
    """Return whether no possible value breaches, and whether every one does."""
    bounds, threshold = _bounds(definition), definition.threshold
    if bounds is None or threshold is None:
        return False, False
    low, high = bounds
    match definition.comparison_operator:
        case "GreaterThanThreshold":
            return threshold >= high, threshold < low
        case "GreaterThanOrEqualToThreshold":
            return threshold > high, threshold <= low
        case "LessThanThreshold":
            return threshold <= low, threshold > high
        case "LessThanOrEqualToThreshold":
            return threshold < low, threshold >= high
    return False, False


def _bounds(definition: AlarmDefinition) -> tuple[float, float] | None:
    """Return between which values a metric always lies; None = not known. Sums and counts have no upper bound."""
    metric = _watched(definition)
    if metric.statistic not in ("Average", "Minimum", "Maximum") and not metric.statistic.startswith("p"):
        return None
    if metric.namespace == NAMESPACE and metric.name in _FLAGS_0_OR_1:
        return 0, 1
    is_gauge = metric.namespace == NAMESPACE and metric.name in {g.name for g in GAUGES if g.unit == "Percent"}
    is_of_aws = metric.namespace.startswith(("AWS/", "/aws/")) and metric.name.endswith("Utilization")
    is_scaled = metric.namespace == TRAINING_NAMESPACE and metric.name in _PER_DEVICE
    return (0, 100) if (is_gauge or is_of_aws or metric.unit == "Percent") and not is_scaled else None


def _watched(definition: AlarmDefinition) -> AlarmMetric:
    return next((metric for metric in definition.metrics if metric.returns_data), AlarmMetric())


def _host(definition: AlarmDefinition) -> str | None:
    """Return the host of a training job that an alarm watches, if it does."""
    watched = _watched(definition)
    return dict(watched.dimensions).get("Host") if watched.namespace == TRAINING_NAMESPACE else None


def _metric_text(definition: AlarmDefinition) -> str:
    watched = _watched(definition)
    return watched.name if watched.expression is None else watched.expression


def _where_text(definition: AlarmDefinition) -> str:
    return ", ".join(
        dict.fromkeys(f"{name}={value}" for metric in definition.metrics for name, value in metric.dimensions)
    )
