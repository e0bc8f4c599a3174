"""What state an alarm is in, by CloudWatch's rules: the one function for replays and for the local AWS. Pure.

Sources: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html and
alarms-and-missing-data.html. CloudWatch looks at somewhat more periods than EvaluationPeriods and does not say how many
more; here it is `EXTRA_PERIODS`, as in the tables of those pages.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fairshare.metrics.ports import AlarmState
from fairshare.model import AlarmDefinition

EXTRA_PERIODS: Final = 2
"""Periods that are looked at beyond EvaluationPeriods."""

Window = Sequence[float | None]
"""Datapoints, one for each period, oldest first; None = there is none."""

COMPARISONS: Final[Mapping[str, tuple[Callable[[float, float], bool], str]]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
_FILLS: Final = {"breaching": True, "notBreaching": False}


class NotReplayableError(ValueError):
    """This alarm cannot be evaluated here; the text says why."""


@dataclass(frozen=True)
class Evaluation:
    """The state an alarm is in, and why, in the words that CloudWatch uses."""

    state: AlarmState
    reason: str


def evaluate(alarm: AlarmDefinition, datapoints: Mapping[int, float], now: int, previous: AlarmState) -> Evaluation:
    """Evaluate a metric alarm.

    Args:
        alarm: its definition.
        datapoints: value of each period, by the instant (ms) at which the period begins: ``now`` less whole periods.
        now: milliseconds; the end of the newest period.
        previous: the state before, which stays when ``ignore`` says so.

    Raises:
        NotReplayableError: it compares with something else than a threshold.
    """
    step = alarm.period * 1000
    starts = [now - step * number for number in range(alarm.evaluation_periods + EXTRA_PERIODS, 0, -1)]
    window = [datapoints.get(start) for start in starts]
    state = decide(alarm, breaches(alarm, window), previous)
    return Evaluation(state, _reason(alarm, window, starts, previous, state))


def breaches(alarm: AlarmDefinition, window: Window) -> list[bool | None]:
    """Return for each datapoint whether it breaches the threshold; None where there is no datapoint.

    Raises:
        NotReplayableError: as `evaluate`.
    """
    if alarm.comparison_operator not in COMPARISONS or alarm.threshold is None:
        raise NotReplayableError("it compares with a band that CloudWatch learns, not with a threshold")
    compare, _ = COMPARISONS[alarm.comparison_operator]
    return [None if value is None else compare(value, alarm.threshold) for value in window]


def decide(alarm: AlarmDefinition, window: Sequence[bool | None], previous: AlarmState) -> AlarmState:
    """Return the state that follows from which periods breach (`breaches`), oldest first.

    With enough real datapoints only the newest ones count. With fewer, all of them do, and as few missing ones as
    possible are filled in as ``treat_missing_data`` says. Without a filling (``missing``, ``ignore``) and without one
    datapoint within the threshold, data that has only begun to come in fires nothing before it is old enough.
    """
    real = [breach for breach in window if breach is not None]
    lacking = alarm.evaluation_periods - len(real)
    if lacking <= 0:
        return _state(sum(real[-alarm.evaluation_periods :]) >= alarm.datapoints_to_alarm)
    if alarm.treat_missing_data in _FILLS:
        filled = lacking if _FILLS[alarm.treat_missing_data] else 0
        return _state(sum(real) + filled >= alarm.datapoints_to_alarm)
    if sum(real) >= alarm.datapoints_to_alarm:
        return AlarmState.ALARM
    if not all(real):
        return AlarmState.OK
    if alarm.treat_missing_data == "ignore":
        return previous
    oldest = next((len(window) - index for index, breach in enumerate(window) if breach), 0)
    return AlarmState.ALARM if oldest >= alarm.datapoints_to_alarm else AlarmState.INSUFFICIENT_DATA


def _state(is_firing: bool) -> AlarmState:
    return AlarmState.ALARM if is_firing else AlarmState.OK


def _reason(
    alarm: AlarmDefinition, window: Window, starts: Sequence[int], previous: AlarmState, state: AlarmState
) -> str:
    """Say why, as CloudWatch does in ``StateReason``."""
    newest = [(start, value) for start, value in zip(starts, window, strict=True) if value is not None]
    newest = newest[-alarm.evaluation_periods :]
    if state is AlarmState.INSUFFICIENT_DATA:
        return f"Insufficient Data: {_datapoints(alarm.evaluation_periods - len(newest), 'was', 'were')} unknown."
    if not newest:
        filling = alarm.treat_missing_data[0].upper() + alarm.treat_missing_data[1:]
        return f"no datapoints were received, and missing ones were treated as [{filling}]."
    flags = breaches(alarm, [value for _, value in newest])
    is_firing = state is AlarmState.ALARM
    decisive = [point for point, breach in zip(newest, flags, strict=True) if breach is is_firing] or newest
    shown = ", ".join(f"{value:g} ({_time(start)})" for start, value in reversed(decisive))
    _, words = COMPARISONS[alarm.comparison_operator]
    return (
        f"Threshold Crossed: {len(decisive)} out of the last {_datapoints(len(newest))} [{shown}] "
        f"{'were' if is_firing else 'were not'} {words} the threshold ({alarm.threshold:g}) "
        f"(minimum {_datapoints(alarm.datapoints_to_alarm)} for {previous} -> {state} transition)."
    )


def _datapoints(number: int, one: str = "", many: str = "") -> str:
    return f"{number} datapoint {one}".rstrip() if number == 1 else f"{number} datapoints {many}".rstrip()


def _time(start: int) -> str:
    return datetime.fromtimestamp(start / 1000, UTC).strftime("%d/%m/%y %H:%M:%S")
