from __future__ import annotations

from dataclasses import replace

import pytest

from fairshare.metrics.backtest import Past, queries_of, read_past, replay, replay_composite
from fairshare.metrics.evaluate import NotReplayableError
from fairshare.metrics.ports import AlarmState, Point
from fairshare.model import AlarmDefinition, AlarmMetric

OK, ALARM, LACKING = AlarmState.OK, AlarmState.ALARM, AlarmState.INSUFFICIENT_DATA
DAY = 86_400_000
NOW = 1_796_061_600_000
STEP = 300_000
START = NOW - 12 * STEP


def metric(name: str, id: str = "m1", period: int = 300, **changes) -> AlarmMetric:
    fields = {"namespace": "fairshare", "statistic": "Maximum", "dimensions": (("Queue", "ml-gpu"),)}
    return AlarmMetric(id=id, name=name, period=period, **(fields | changes))


WAIT = AlarmDefinition(
    metrics=(metric("OldestWaitSeconds"),),
    comparison_operator="GreaterThanThreshold",
    threshold=100,
    evaluation_periods=2,
    datapoints_to_alarm=2,
)


def past(alarm: AlarmDefinition, *series: str, begin: int = START) -> Past:
    """Values of the metrics of an alarm: ``5 9 - 3`` with the last one in the newest period."""
    answers = {}
    for query, text in zip(queries_of(alarm).values(), series, strict=True):
        values = text.split()
        starts = range(NOW - len(values) * STEP, NOW, STEP)
        answers[query] = tuple(
            Point(at, float(value)) for at, value in zip(starts, values, strict=True) if value != "-"
        )
    return Past(begin, NOW, answers)


def told(replayed) -> list[tuple[str, int, int]]:
    """Spans in periods since START."""
    return [(span.state, (span.begin - START) // STEP, (span.end - START) // STEP) for span in replayed.spans]


def test_an_alarm_fires_when_its_last_datapoint_has_ended_and_ends_likewise():
    found = replay(WAIT, past(WAIT, "0 0 0 0 200 200 200 0 0 0 0 0"))

    assert told(found) == [(LACKING, 0, 1), (OK, 1, 6), (ALARM, 6, 8), (OK, 8, 12)]
    assert [(span.begin, span.end) for span in found.firings] == [(START + 6 * STEP, START + 8 * STEP)]


def test_what_lies_before_the_begin_counts_but_is_not_told():
    found = replay(WAIT, past(WAIT, "200 200 200 0 0 0 0 0 0 0 0 0 0 0"))

    assert told(found) == [(ALARM, 0, 2), (OK, 2, 12)]


def test_an_alarm_that_fires_at_the_end_has_not_ended():
    found = replay(WAIT, past(WAIT, "0 0 0 0 0 0 0 0 0 0 200 200"))

    assert told(found)[-1] == (ALARM, 12, 12)
    assert found.firings[-1].end == found.end == NOW


def test_c37_a_period_that_has_not_ended_does_not_count_yet():
    alone = replace(WAIT, evaluation_periods=1, datapoints_to_alarm=1)
    (query,) = queries_of(alone).values()
    begun = Past(START, NOW + 60_000, {query: (Point(NOW - STEP, 0.0), Point(NOW, 200.0))})
    ended = replace(begun, end=NOW + STEP)

    assert replay(alone, begun).firings == ()
    assert replay(alone, begun).datapoints == {NOW - STEP: 0.0}
    assert [span.begin for span in replay(alone, ended).firings] == [NOW + STEP]


def test_missing_data_is_treated_as_the_alarm_says():
    values = "0 0 0 200 - - - - - - - -"
    found = {
        kind: told(replay(replace(WAIT, treat_missing_data=kind), past(WAIT, values)))
        for kind in ("missing", "breaching")
    }

    assert found["missing"][-1] == (LACKING, 8, 12)
    assert found["breaching"][-1] == (ALARM, 7, 12)


def test_an_expression_has_datapoints_where_its_metrics_have():
    rate = AlarmDefinition(
        metrics=(
            metric("FailedJobs", "m1", statistic="Sum", returns_data=False),
            metric("SucceededJobs", "m2", statistic="Sum", returns_data=False),
            AlarmMetric(id="half", expression="total / 2", returns_data=False),
            AlarmMetric(id="e1", expression="100 * m1 / (m1 + m2)"),
        ),
        comparison_operator="GreaterThanThreshold",
        threshold=50,
    )
    found = replay(rate, past(rate, "0 0 3 - 4 0", "1 0 1 1 0 1"))

    newest = NOW - 6 * STEP
    assert found.datapoints == {newest: 0, newest + 2 * STEP: 75, newest + 4 * STEP: 100, newest + 5 * STEP: 0}
    assert [span for span in told(found) if span[0] is ALARM][:1] == [(ALARM, 9, 12)]


def test_a_composite_alarm_follows_the_alarms_it_refers_to():
    other = replace(WAIT, threshold=1000)
    children = {
        "wait": replay(WAIT, past(WAIT, "0 0 0 0 200 200 200 200 0 0 0 0")),
        "long": replay(other, past(other, "0 0 0 0 200 2000 2000 200 0 0 0 0")),
    }

    found = replay_composite("ALARM(wait) AND NOT ALARM(long)", children, START, NOW)

    assert told(found) == [(OK, 0, 6), (ALARM, 6, 7), (OK, 7, 8), (ALARM, 8, 9), (OK, 9, 12)]
    with pytest.raises(NotReplayableError, match="depends on gone, which cannot be replayed"):
        replay_composite("ALARM(wait) OR ALARM(gone)", children, START, NOW)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"threshold": None}, "a band"),
        ({"metrics": ()}, "watches no metric with a period"),
        ({"metrics": (metric("A", returns_data=False),)}, "none of its metrics is marked"),
        ({"metrics": (metric("A", returns_data=False), AlarmMetric(id="e1", expression="RATE(m1)"))}, "RATE"),
    ],
)
def test_what_cannot_be_replayed_says_why(changes, text):
    with pytest.raises(NotReplayableError, match=text):
        replay(replace(WAIT, **changes), Past(START, NOW, {}))


class Recorder:
    """A source that notes what it is asked."""

    def __init__(self) -> None:
        self.asked = []

    def series(self, queries, start, end):
        self.asked.append((len(queries), start, end))
        return {query: () for query in queries}


def test_metrics_of_many_alarms_are_read_at_once_and_each_once():
    source = Recorder()
    alarms = [replace(WAIT, threshold=n) for n in range(10)]
    alarms += [replace(WAIT, metrics=(metric("Blocked", period=period),)) for period in (60, 300, 3600)]

    read_past(source, alarms, NOW - 14 * DAY, NOW)

    assert source.asked == [(4, (NOW - 14 * DAY) // DAY * DAY, NOW)]


def test_c39_values_that_cloudwatch_no_longer_has_are_not_asked_for():
    source = Recorder()
    minutes, seconds = (replace(WAIT, metrics=(metric("Blocked", period=period),)) for period in (60, 10))

    found = read_past(source, [WAIT, minutes, seconds], NOW - 30 * DAY, NOW)

    begins = [(NOW - start) / DAY for _, start, _ in source.asked]
    assert [round(begin, 3) for begin in begins] == [30.75, 14.75, 0.125]
    assert replay(minutes, found).begin == NOW - 15 * DAY
