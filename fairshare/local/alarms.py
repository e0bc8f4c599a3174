"""How alarms of the local AWS are evaluated: which are due, and what state follows. Without moto, and without actions.

An alarm is evaluated once a minute, one with a shorter period every ten seconds, and when a value arrives; its periods
end at that moment (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation-window.html). One
that has no data left and whose state no longer changes sleeps until a value arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from fairshare.local.metric_store import MetricStore, SeriesKey
from fairshare.metrics.backtest import datapoints_of, queries_of
from fairshare.metrics.composite import parse_rule
from fairshare.metrics.evaluate import EXTRA_PERIODS, Evaluation, NotReplayableError, evaluate
from fairshare.metrics.ports import AlarmState, MetricQuery, Point
from fairshare.model import AlarmDefinition

_MINUTE: Final = 60_000
_TEN_SECONDS: Final = 10_000


@dataclass(frozen=True)
class Move:
    """An alarm comes into another state at ``at`` ms."""

    name: str
    before: AlarmState
    after: Evaluation
    at: int


@dataclass
class _Watched:
    definition: AlarmDefinition
    state: AlarmState
    is_asleep: bool = False


class AlarmWatch:
    """The alarms of one region.

    Args:
        store: the published values.
        on_move: called with each change of a state that follows from them.
        now: milliseconds; what was before is not evaluated.
    """

    def __init__(self, store: MetricStore, on_move: Callable[[Move], None], now: int) -> None:
        self._store = store
        self._on_move = on_move
        self._alarms: dict[str, _Watched] = {}
        self._until = now

    def put(self, name: str, definition: AlarmDefinition, state: AlarmState) -> None:
        """Watch an alarm from now on, or with another definition, or from another state."""
        self._alarms[name] = _Watched(definition, state)

    def drop(self, name: str) -> None:
        """Forget an alarm."""
        self._alarms.pop(name, None)

    def advance(self, now: int) -> None:
        """Evaluate what has become due up to ``now`` ms."""
        while (at := self.next_event_at()) is not None and at <= now:
            due = [name for name, alarm in self._alarms.items() if not alarm.is_asleep and at % _grid(alarm) == 0]
            self._evaluate(due, at, at)
            self._until = at
        self._until = max(self._until, now)

    def arrived(self, keys: Collection[SeriesKey], now: int) -> None:
        """Evaluate the alarms that watch metrics of which values have arrived."""
        names = [name for name, alarm in self._alarms.items() if any(key_of(q) in keys for q in _queries(alarm))]
        for name in names:
            self._alarms[name].is_asleep = False
        for grid in (_TEN_SECONDS, _MINUTE):
            due = [name for name in names if _grid(self._alarms[name]) == grid]
            if due:
                self._evaluate(due, -(-(now + 1) // grid) * grid, now)

    def next_event_at(self) -> int | None:
        """Return when the next evaluation is due, in milliseconds; None = nothing changes by itself."""
        grids = [_grid(alarm) for alarm in self._alarms.values() if not alarm.is_asleep]
        return (self._until // min(grids) + 1) * min(grids) if grids else None

    def _evaluate(self, names: Iterable[str], end: int, at: int) -> None:
        for name in names:
            alarm = self._alarms[name]
            if alarm.definition.rule is None and (found := self._verdict(alarm, end)) is not None:
                self._move(name, alarm, found, at)
        for _ in self._alarms:  # a composite alarm may depend on another, and that on a third
            if not any([self._follow(name, alarm, at) for name, alarm in self._alarms.items()]):
                break

    def _verdict(self, alarm: _Watched, end: int) -> Evaluation | None:
        """Return what follows for a metric alarm whose newest period ends at ``end``; None = not evaluated here."""
        definition = alarm.definition
        step = definition.period * 1000
        begin = end - step * (definition.evaluation_periods + EXTRA_PERIODS)
        try:
            answers = {query: self._points(query, begin, end) for query in _queries(alarm)}
            datapoints = datapoints_of(definition, answers)
            found = evaluate(definition, datapoints, end, alarm.state)
        except (NotReplayableError, ValueError):
            alarm.is_asleep = True
            return None
        alarm.is_asleep = not datapoints and found.state is alarm.state
        return found

    def _points(self, query: MetricQuery, begin: int, end: int) -> tuple[Point, ...]:
        found = self._store.points(key_of(query), query.statistic, query.period * 1000, begin, end)
        return tuple(Point(at, value) for at, value in found)

    def _follow(self, name: str, alarm: _Watched, at: int) -> bool:
        """Let a composite alarm follow those that its rule names; return whether that changed it."""
        if alarm.definition.rule is None:
            return False
        alarm.is_asleep = True
        try:
            holds = parse_rule(alarm.definition.rule).holds({key: each.state for key, each in self._alarms.items()})
        except NotReplayableError:
            return False
        state = AlarmState.ALARM if holds else AlarmState.OK
        verb = "transitioned to ALARM" if holds else "does not hold"
        return self._move(name, alarm, Evaluation(state, f"The rule {alarm.definition.rule} {verb}."), at)

    def _move(self, name: str, alarm: _Watched, found: Evaluation, at: int) -> bool:
        before = alarm.state
        if found.state is before:
            return False
        alarm.state = found.state
        self._on_move(Move(name, before, found, at))
        return True


def key_of(query: MetricQuery) -> SeriesKey:
    """Return the key of the metric that a query asks for."""
    return SeriesKey(query.namespace, query.name, frozenset(query.dimensions))


def _queries(alarm: _Watched) -> Iterable[MetricQuery]:
    return queries_of(alarm.definition).values()


def _grid(alarm: _Watched) -> int:
    return _TEN_SECONDS if 0 < alarm.definition.period < _MINUTE // 1000 else _MINUTE
