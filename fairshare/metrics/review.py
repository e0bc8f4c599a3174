"""Alarms reviewed: which traps each one falls into, and when it would have fired. Pure over the ports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairshare.metrics.alarm_facts import Facts, definition_facts, history_facts, replay_facts
from fairshare.metrics.backtest import Past, Replay, read_past, replay, replay_composite
from fairshare.metrics.composite import parse_rule
from fairshare.metrics.evaluate import NotReplayableError
from fairshare.metrics.ports import AlarmSource, AlarmStatus, MetricSource, StateChange
from fairshare.metrics.rules import Diagnosis, diagnose
from fairshare.metrics.traps import TRAPS
from fairshare.model import AlarmDefinition

Change = Callable[[AlarmDefinition], AlarmDefinition]
"""Gives a definition other settings."""

HISTORY_KEPT: Final = 30 * 86_400_000
"""Milliseconds for which CloudWatch keeps what alarms did."""


@dataclass(frozen=True)
class Backtest:
    """When an alarm would have fired. ``note`` says why that cannot be told, then ``replayed`` is None."""

    alarm: AlarmStatus
    replayed: Replay | None
    note: str = ""
    before: Replay | None = None
    """As it is defined, when ``replayed`` is with other settings."""


@dataclass(frozen=True)
class Review:
    """What is wrong with an alarm, most serious first, and when it would have fired."""

    tested: Backtest
    findings: tuple[Diagnosis, ...]


@dataclass(frozen=True)
class _Known:
    """Everything that was read about alarms. ``all`` are those looked at and those that their rules name."""

    chosen: tuple[AlarmStatus, ...]
    all: Mapping[str, AlarmStatus]
    past: Past


def backtest_alarms(
    alarms: AlarmSource,
    metrics: MetricSource,
    chosen: Sequence[AlarmStatus],
    *,
    start: int,
    now: int,
    change: Change,
    keeps_all: bool = False,
) -> tuple[Backtest, ...]:
    """Replay alarms over the past, with and without a change of their settings.

    Args:
        alarms: asked for alarms that a composite one names.
        metrics: asked for the past.
        chosen: which alarms.
        start: milliseconds.
        now: milliseconds.
        change: applied to metric alarms; what it leaves as it is is replayed once.
        keeps_all: ``metrics`` forgets nothing, as CloudWatch does.
    """
    known = _read(alarms, metrics, chosen, start, now, change, keeps_all=keeps_all)
    changed = {name: replace(alarm, definition=change(alarm.definition)) for name, alarm in known.all.items()}
    found = []
    for alarm in known.chosen:
        tested = _replay(changed[alarm.name], changed, known.past)
        if any(changed[name] != known.all[name] for name in {alarm.name, *_named(alarm)} & known.all.keys()):
            tested = replace(tested, before=_replay(alarm, known.all, known.past).replayed)
        found.append(tested)
    return tuple(found)


def review_alarms(
    alarms: AlarmSource, metrics: MetricSource, chosen: Sequence[AlarmStatus], *, start: int, now: int
) -> tuple[Review, ...]:
    """Look for the traps of `fairshare.metrics.traps` in alarms, with what they did and would have done since a time.

    Args: as `backtest_alarms`.
    """
    known = _read(alarms, metrics, chosen, start, now, lambda definition: definition)
    history = alarms.alarm_history([alarm.name for alarm in chosen], max(start, now - HISTORY_KEPT))
    referenced = {name for alarm in known.all.values() if alarm.definition.alarm_actions for name in _named(alarm)}
    reviews = []
    for alarm in known.chosen:
        tested = _replay(alarm, known.all, known.past)
        facts = _facts(alarm, tested, known, history.get(alarm.name, ()), alarm.name in referenced)
        reviews.append(Review(tested, diagnose(facts, TRAPS)))
    return tuple(reviews)


def _read(
    alarms: AlarmSource,
    metrics: MetricSource,
    chosen: Sequence[AlarmStatus],
    start: int,
    now: int,
    change: Change,
    *,
    keeps_all: bool = False,
) -> _Known:
    known = {alarm.name: alarm for alarm in chosen}
    while wanted := {name for alarm in known.values() for name in _named(alarm)} - known.keys():
        found = alarms.alarms(names=wanted)
        known |= {alarm.name: alarm for alarm in found}
        if not found:
            break
    definitions = [alarm.definition for alarm in known.values()]
    past = read_past(metrics, [*definitions, *map(change, definitions)], start, now, keeps_all=keeps_all)
    return _Known(tuple(chosen), known, past)


def _replay(alarm: AlarmStatus, known: Mapping[str, AlarmStatus], past: Past, above: Collection[str] = ()) -> Backtest:
    """Replay an alarm; of a composite one, those first that it depends on. ``above`` are those that depend on it."""
    try:
        if (rule := alarm.definition.rule) is None:
            return Backtest(alarm, replay(alarm.definition, past))
        below = {*above, alarm.name}
        children = {
            name: tested.replayed
            for name in _named(alarm)
            if name in known and name not in below
            if (tested := _replay(known[name], known, past, below)).replayed is not None
        }
        return Backtest(alarm, replay_composite(rule, children, past.begin, past.end))
    except NotReplayableError as error:
        return Backtest(alarm, None, str(error))


def _named(alarm: AlarmStatus) -> tuple[str, ...]:
    """Return the alarms that a composite one depends on; () when its rule cannot be read."""
    try:
        return () if alarm.definition.rule is None else parse_rule(alarm.definition.rule).alarms
    except NotReplayableError:
        return ()


def _facts(
    alarm: AlarmStatus, tested: Backtest, known: _Known, history: Sequence[StateChange], referenced: bool
) -> Facts:
    facts = definition_facts(alarm, referenced) | history_facts(alarm, history, known.past.end)
    lost = [name for name in _named(alarm) if name not in known.all]
    facts |= {"lost_alarms": len(lost), "lost": ", ".join(lost)}
    if tested.replayed is not None:
        facts |= replay_facts(alarm.definition, tested.replayed, known.past)
    a_day = [facts.get("fired_a_day"), facts.get("would_fire_a_day")]
    facts["most_a_day"] = max([int(number) for number in a_day if isinstance(number, int | float)], default=0)
    return facts
