"""What an alarm would have done: its definition replayed over what CloudWatch still knows of its metrics. Pure.

Datapoints are those that GetMetricData gives: periods on the grid of the clock. CloudWatch lets the periods of an alarm
end at each of its looks, once a minute; so it may have fired up to a period earlier or later than is told here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairshare.metrics.composite import parse_rule
from fairshare.metrics.evaluate import EXTRA_PERIODS, NotReplayableError, breaches, decide
from fairshare.metrics.expression import Formula, parse_expression
from fairshare.metrics.ports import AlarmState, MetricQuery, MetricSource, Point
from fairshare.metrics.window import kept_since
from fairshare.model import AlarmDefinition

_DAY: Final = 86_400_000


@dataclass(frozen=True)
class Span:
    """An alarm in one state, from ``begin`` to before ``end``, milliseconds; the last one ends with the replay."""

    state: AlarmState
    begin: int
    end: int


@dataclass(frozen=True)
class Replay:
    """The states of an alarm from ``begin`` to ``end``, without gaps, and the datapoints they follow from."""

    begin: int
    end: int
    spans: tuple[Span, ...]
    datapoints: Mapping[int, float]
    """Value of each period that has one, by its first instant (ms); none of a composite alarm."""

    @property
    def firings(self) -> tuple[Span, ...]:
        """When it would have been in ALARM."""
        return tuple(span for span in self.spans if span.state is AlarmState.ALARM)


@dataclass(frozen=True)
class Past:
    """What the metrics of alarms were: the answers of CloudWatch, and the time they are about."""

    begin: int
    end: int
    answers: Mapping[MetricQuery, tuple[Point, ...]]


def read_past(
    source: MetricSource, alarms: Sequence[AlarmDefinition], start: int, now: int, *, keeps_all: bool = False
) -> Past:
    """Read the metrics of alarms in as few calls as possible: 500 metrics and 100,800 values each.

    Values of short periods that are too old for CloudWatch to have kept are not asked for, unless ``keeps_all``. What
    cannot be replayed is read as far as it has metrics.
    """
    queries = dict.fromkeys(query for alarm in alarms for query in queries_of(alarm).values())
    starts: dict[int, list[MetricQuery]] = {}
    for query in queries:
        begin = start if keeps_all else _grid_begin(query.period, start, now)
        starts.setdefault(begin, []).append(query)
    answers: dict[MetricQuery, tuple[Point, ...]] = {}
    for begin, wanted in starts.items():
        if begin < now:
            answers |= source.series(wanted, begin, now)
    return Past(start, now, answers)


def _grid_begin(period: int, start: int, now: int) -> int:
    """Return where to read from: on the grid of the period, and with most others of them, so that one call does."""
    kept = kept_since(period, now)
    grid = _DAY if _DAY % (period * 1000) == 0 and period >= 60 else period * 1000
    return start // grid * grid if start >= kept else -(-kept // grid) * grid


def queries_of(alarm: AlarmDefinition) -> dict[str, MetricQuery]:
    """Return what to ask CloudWatch for, by the id that the entry has in the alarm."""
    return {
        metric.id: MetricQuery(metric.namespace, metric.name, metric.dimensions, metric.period, metric.statistic)
        for metric in alarm.metrics
        if metric.expression is None
    }


def replay(alarm: AlarmDefinition, past: Past) -> Replay:
    """Replay a metric alarm, at the end of each of its periods.

    Raises:
        NotReplayableError: says why.
    """
    step = alarm.period * 1000
    if not step:
        raise NotReplayableError("it watches no metric with a period")
    begin = max(past.begin, kept_since(alarm.period, past.end))
    first, last = -(-begin // step) * step, past.end // step * step
    known = {at: value for at, value in datapoints_of(alarm, past.answers).items() if at < last}
    length = alarm.evaluation_periods + EXTRA_PERIODS
    flags = breaches(alarm, [known.get(at) for at in range(first - length * step, last, step)])
    state, states = AlarmState.INSUFFICIENT_DATA, []
    for number, at in enumerate(range(first, last + step, step)):
        state = decide(alarm, flags[number : number + length], state)
        states.append((at, state))
    return Replay(first, past.end, tuple(_spans(states, past.end)), known)


def replay_composite(rule: str, children: Mapping[str, Replay], begin: int, end: int) -> Replay:
    """Replay a composite alarm over the replays of the alarms it refers to.

    Raises:
        NotReplayableError: the rule cannot be read, or one of those alarms was not replayed.
    """
    parsed = parse_rule(rule)
    if lost := [name for name in parsed.alarms if name not in children]:
        raise NotReplayableError(f"it depends on {', '.join(lost)}, which cannot be replayed")
    moments = sorted({begin, *(span.begin for name in parsed.alarms for span in children[name].spans)})
    states = []
    for at in moments:
        now = {name: _state_at(children[name], at) for name in parsed.alarms}
        states.append((at, AlarmState.ALARM if parsed.holds(now) else AlarmState.OK))
    return Replay(begin, end, tuple(_spans(states, end)), {})


def datapoints_of(alarm: AlarmDefinition, answers: Mapping[MetricQuery, tuple[Point, ...]]) -> dict[int, float]:
    """Return the datapoints that an alarm looks at, by the first instant of their period (ms).

    Raises:
        NotReplayableError: its expression cannot be computed.
    """
    series = {id: dict(answers.get(query, ())) for id, query in queries_of(alarm).items()}
    watched = next((metric for metric in alarm.metrics if metric.returns_data), None)
    if watched is None:
        raise NotReplayableError("none of its metrics is marked as the one to watch")
    if watched.expression is None:
        return series.get(watched.id, {})
    formulas = {m.id: parse_expression(m.expression) for m in alarm.metrics if m.expression is not None}
    instants = sorted({at for points in series.values() for at in points})
    if not instants:
        return {}
    grid = range(instants[0], instants[-1] + 1, alarm.period * 1000)
    values = ((at, _value(watched.id, formulas, {id: points.get(at) for id, points in series.items()})) for at in grid)
    return {at: value for at, value in values if value is not None}


def _value(id: str, formulas: Mapping[str, Formula], known: dict[str, float | None]) -> float | None:
    """Compute an entry of an alarm from the others, in the order in which they are defined."""
    for name, formula in formulas.items():
        known[name] = formula(known)
    return known[id]


def _spans(states: Sequence[tuple[int, AlarmState]], end: int) -> Iterator[Span]:
    changes = [entry for index, entry in enumerate(states) if index == 0 or states[index - 1][1] is not entry[1]]
    ends = [at for at, _ in changes[1:]]
    for (begin, state), until in zip(changes, [*ends, end], strict=False):
        yield Span(state, begin, until)


def _state_at(replayed: Replay, at: int) -> AlarmState:
    return next((span.state for span in reversed(replayed.spans) if span.begin <= at), AlarmState.INSUFFICIENT_DATA)
