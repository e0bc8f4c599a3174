"""Other settings for an alarm, as ``fairshare alarms backtest --set`` takes them: ``threshold=2h``, ``period=60``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fairshare.config.alarms import MISSING_DATA
from fairshare.config.durations import parse_duration
from fairshare.config.errors import did_you_mean
from fairshare.metrics.evaluate import COMPARISONS
from fairshare.metrics.window import check_period
from fairshare.model import AlarmDefinition, UsageError

_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


def parse_settings(texts: Sequence[str]) -> Callable[[AlarmDefinition], AlarmDefinition]:
    """Return what gives an alarm the settings written as ``name=value``, names as AWS's in snake_case.

    A threshold may be a number, a duration (in seconds then) or per cent. evaluation_periods alone takes
    datapoints_to_alarm along when they were the same. Composite alarms are left as they are.

    Raises:
        UsageError: a setting that does not exist, or a value that it cannot have.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if name not in _READERS:
            raise UsageError(f'--set: unknown setting "{name}"', hint=did_you_mean(name, _READERS, "settings"))
        if not sign or not value:
            raise UsageError(f"--set: {name} has no value", hint=f"write --set {name}=VALUE")
        settings[name] = _READERS[name](name, value)

    def change(alarm: AlarmDefinition) -> AlarmDefinition:
        return alarm if alarm.rule is not None else _changed(alarm, settings)

    return change


def _changed(alarm: AlarmDefinition, settings: Mapping[str, Any]) -> AlarmDefinition:
    given = dict(settings)
    if "evaluation_periods" in given:
        periods = given["evaluation_periods"]
        was_all = alarm.datapoints_to_alarm == alarm.evaluation_periods
        given.setdefault("datapoints_to_alarm", periods if was_all else min(alarm.datapoints_to_alarm, periods))
    if (period := given.pop("period", None)) is not None:
        metrics = (replace(metric, period=period) if metric.period else metric for metric in alarm.metrics)
        given["metrics"] = tuple(metrics)
    return replace(alarm, **given)


def _number(name: str, text: str) -> float:
    if match := _PERCENT.fullmatch(text):
        return float(match[1])
    try:
        return float(text)
    except ValueError:
        return _duration(name, text)


def _duration(name: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        hint = "give a number, a duration such as 2h, or per cent such as 50%" if name == "threshold" else None
        raise UsageError(f"--set {name}: {error}", hint=hint) from None


def _period(name: str, text: str) -> int:
    period = _duration(name, text)
    try:
        check_period(period)
    except UsageError as error:
        raise UsageError(error.message.replace("--period", "--set period"), hint=error.hint) from None
    return period


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise UsageError(f'--set {name}: must be a whole number from 1 on, not "{text}"', hint="as in 3")
    return int(text)


def _one_of(words: Sequence[str]) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text not in words:
            raise UsageError(f'--set {name}: there is no "{text}"', hint=did_you_mean(text, words, "choices"))
        return text

    return read


_READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "threshold": _number,
    "period": _period,
    "evaluation_periods": _count,
    "datapoints_to_alarm": _count,
    "treat_missing_data": _one_of(MISSING_DATA),
    "comparison_operator": _one_of(tuple(COMPARISONS)),
}
