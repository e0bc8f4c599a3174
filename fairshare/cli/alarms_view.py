"""Alarms as documents and as text: the list, the review, the backtest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from fairshare.cli.render import Column, count, elapsed, local_time, safe, table, utc_time
from fairshare.metrics.ports import AlarmState

if TYPE_CHECKING:
    from fairshare.metrics.backtest import Replay, Span
    from fairshare.metrics.ports import AlarmStatus
    from fairshare.metrics.review import Backtest, Review
    from fairshare.metrics.rules import Diagnosis

_ORDER: Final = (AlarmState.ALARM, AlarmState.INSUFFICIENT_DATA, AlarmState.OK)
_WIDE: Final = 110
"""Cells from which on reasons stand beside the alarms; else those of alarms that are not OK stand below."""

_SHOWN: Final = 10
"""Periods of firing that are shown of one alarm, the latest ones."""


def list_document(alarms: Sequence[AlarmStatus]) -> dict[str, Any]:
    """Return the ``AlarmList`` document."""
    return {
        "alarms": [
            {
                "name": alarm.name,
                "type": "metric" if alarm.definition.rule is None else "composite",
                "state": str(alarm.state),
                "since": utc_time(alarm.since),
                "reason": alarm.reason,
                "actions_enabled": alarm.definition.actions_enabled,
                "alarm_actions": list(alarm.definition.alarm_actions),
            }
            for alarm in alarms
        ]
    }


def list_text(alarms: Sequence[AlarmStatus], now: int, width: int | None) -> str:
    """Return the list for people: what fires first, then what lacks data."""
    if not alarms:
        return "No alarms."
    columns = (
        Column("ALARM", shrinks=True),
        Column("STATE"),
        Column("SINCE"),
        Column("TELLS"),
        Column("REASON", shrinks=True, prose=True),
    )
    ordered = sorted(alarms, key=lambda alarm: (_ORDER.index(alarm.state), alarm.name))
    rows = [[a.name, a.state, f"{elapsed(now - a.since)} ago", _tells(a), a.reason] for a in ordered]
    numbers = {state: sum(alarm.state is state for alarm in alarms) for state in _ORDER}
    is_wide = width is None or width >= _WIDE
    lines = [
        table(columns, rows, width) if is_wide else table(columns[:-1], [row[:-1] for row in rows], width),
        f"{numbers[AlarmState.ALARM]} firing, {numbers[AlarmState.INSUFFICIENT_DATA]} without enough data, "
        f"{numbers[AlarmState.OK]} ok.",
    ]
    if silent := sum(not alarm.definition.actions_enabled for alarm in alarms):
        lines.append(f"The actions of {count(silent, 'alarm')} are disabled: nobody is told.")
    if width is not None and not is_wide:
        lines += [line for alarm in ordered if alarm.state is not AlarmState.OK for line in _reason(alarm, width)]
    return "\n".join(lines)


def _reason(alarm: AlarmStatus, width: int) -> list[str]:
    return [safe(alarm.name), *wrap(safe(alarm.reason), width, initial_indent="  ", subsequent_indent="  ")]


def _tells(alarm: AlarmStatus) -> str:
    if not alarm.definition.actions_enabled:
        return "disabled"
    return "yes" if alarm.definition.alarm_actions else "nobody"


def review_document(reviews: Sequence[Review]) -> dict[str, Any]:
    """Return the ``AlarmReview`` document of a review."""
    return {
        "alarms": [
            _tested_json(review.tested)
            | {
                "findings": [
                    {"id": found.id, "title": found.title, "evidence": found.evidence, "advice": found.advice}
                    for found in review.findings
                ]
            }
            for review in reviews
        ]
    }


def review_text(reviews: Sequence[Review], length: int, width: int | None) -> str:
    """Return a review for people; what is the same with many alarms is said once."""
    if not reviews:
        return "No alarms."
    columns = (Column("ALARM", shrinks=True), Column("STATE"), Column(f"IN THE LAST {elapsed(length).upper()}"))
    rows = [[r.tested.alarm.name, r.tested.alarm.state, _verdict(r.tested)] for r in reviews]
    blocks = [table(columns, rows, width)]
    blocks += ["\n".join(lines) for lines in _findings(reviews, width)]
    sound = sum(not review.findings for review in reviews)
    blocks.append(f"{count(len(reviews), 'alarm')} looked at, {sound} without a finding.")
    return "\n\n".join(blocks)


def _findings(reviews: Sequence[Review], width: int | None) -> Iterator[list[str]]:
    """Yield a block for each kind of finding: its title, whose it is, and for each different case what to do."""
    found = [(finding, review.tested.alarm.name) for review in reviews for finding in review.findings]
    order = list(dict.fromkeys(finding.id for finding, _ in found))
    for id in order:
        cases = [(finding, name) for finding, name in found if finding.id == id]
        lines = [f"{id}: {safe(cases[0][0].title)}"]
        for _, members in groupby(sorted(cases, key=_words), key=_words):
            same = list(members)
            lines += _wrapped(", ".join(name for _, name in same), 2, width)
            lines += _wrapped(same[0][0].evidence, 4, width) + _wrapped(same[0][0].advice, 4, width)
        yield lines


def _wrapped(text: str, indent: int, width: int | None) -> list[str]:
    margin = " " * indent
    shown = safe(text)
    return [margin + shown] if width is None else wrap(shown, width, initial_indent=margin, subsequent_indent=margin)


def _words(case: tuple[Diagnosis, str]) -> tuple[str, str]:
    return case[0].evidence, case[0].advice


def backtest_document(tested: Sequence[Backtest]) -> dict[str, Any]:
    """Return the ``AlarmReview`` document of a backtest. ``as_defined`` is there when other settings were tried."""
    return {
        "alarms": [
            _tested_json(one)
            | {"findings": []}
            | (
                {}
                if one.before is None
                else {"as_defined": [_span_json(span, one.before) for span in one.before.firings]}
            )
            for one in tested
        ]
    }


def backtest_text(tested: Sequence[Backtest], length: int, settings: Sequence[str], width: int | None) -> str:
    """Return a backtest for people: a line for each alarm, then when each one would have fired."""
    if not tested:
        return "No alarms."
    columns = [Column("ALARM", shrinks=True), Column(f"IN THE LAST {elapsed(length).upper()}")]
    rows = [[one.alarm.name, _verdict(one)] for one in tested]
    if settings:
        columns[1] = Column(f"WITH {', '.join(settings)}")
        columns.append(Column("AS DEFINED"))
        for row, one in zip(rows, tested, strict=True):
            row.append("the same" if one.before is None else _fired(one.before))
    blocks = [table(columns, rows, width)]
    for one in tested:
        if one.replayed is not None and one.replayed.firings:
            blocks.append("\n".join(_periods(one.alarm.name, one.replayed)))
    return "\n\n".join(blocks)


def _periods(name: str, replayed: Replay) -> Iterator[str]:
    firings = replayed.firings
    yield safe(name)
    if len(firings) > _SHOWN:
        yield f"  {len(firings) - _SHOWN} earlier ones, and then"
    for span in firings[-_SHOWN:]:
        lasts = elapsed(span.end - span.begin)
        yield f"  {local_time(span.begin)}  {f'for {lasts} and still' if span.end == replayed.end else f'for {lasts}'}"


def _verdict(tested: Backtest) -> str:
    return f"cannot be replayed: {tested.note}" if tested.replayed is None else _fired(tested.replayed)


def _fired(replayed: Replay) -> str:
    firings = replayed.firings
    if not firings:
        return "would not have fired" if _had_data(replayed) else "no data"
    total = sum(span.end - span.begin for span in firings)
    return f"would have fired {count(len(firings), 'time')}, {elapsed(total)} in all"


def _had_data(replayed: Replay) -> bool:
    return any(span.state is not AlarmState.INSUFFICIENT_DATA for span in replayed.spans)


def _tested_json(tested: Backtest) -> dict[str, Any]:
    replayed = tested.replayed
    return {
        "name": tested.alarm.name,
        "state": str(tested.alarm.state),
        "would_have_fired": [] if replayed is None else [_span_json(span, replayed) for span in replayed.firings],
        "note": tested.note or None,
    }


def _span_json(span: Span, replayed: Replay) -> dict[str, Any]:
    return {"from": utc_time(span.begin), "until": None if span.end == replayed.end else utc_time(span.end)}
