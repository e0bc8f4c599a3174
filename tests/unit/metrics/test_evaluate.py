"""CloudWatch's rules for missing data, row by row (alarms-and-missing-data.html), and what the tables leave open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairshare.metrics.evaluate import NotReplayableError, breaches, decide, evaluate
from fairshare.metrics.ports import AlarmState
from fairshare.model import AlarmDefinition, AlarmMetric

OK, ALARM, LACKING = AlarmState.OK, AlarmState.ALARM, AlarmState.INSUFFICIENT_DATA
KEEPS = "keeps"
MINUTE = 60_000
NOW = 1_796_061_600_000

ALARM_3_OF_3 = AlarmDefinition(
    metrics=(AlarmMetric(namespace="fairshare", name="Blocked", statistic="Maximum", period=60),),
    comparison_operator="GreaterThanOrEqualToThreshold",
    threshold=1,
    evaluation_periods=3,
    datapoints_to_alarm=3,
)
TABLE_3_OF_3 = [
    ("0-X-X", OK, OK, OK, OK),
    ("0----", OK, OK, OK, OK),
    ("-----", LACKING, KEEPS, ALARM, OK),
    ("0XX-X", ALARM, ALARM, ALARM, ALARM),
    ("----X", LACKING, KEEPS, ALARM, OK),
    ("X----", ALARM, KEEPS, ALARM, OK),
]
TABLE_2_OF_3 = [
    ("0-X-X", ALARM, ALARM, ALARM, ALARM),
    ("00X0X", ALARM, ALARM, ALARM, ALARM),
    ("0-X--", OK, OK, ALARM, OK),
    ("----0", OK, OK, ALARM, OK),
    ("----X", LACKING, KEEPS, ALARM, OK),
]
TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")
ROWS = [
    (count, points, treatment, expected)
    for count, table in ((3, TABLE_3_OF_3), (2, TABLE_2_OF_3))
    for points, *row in table
    for treatment, expected in zip(TREATMENTS, row, strict=True)
]


def window(points: str) -> list[bool | None]:
    return [{"X": True, "0": False, "-": None}[point] for point in points]


@pytest.mark.parametrize("previous", list(AlarmState))
@pytest.mark.parametrize(("count", "points", "treatment", "expected"), ROWS)
def test_the_tables_of_missing_data(count, points, treatment, expected, previous):
    alarm = replace(ALARM_3_OF_3, datapoints_to_alarm=count, treat_missing_data=treatment)

    assert decide(alarm, window(points), previous) is (previous if expected == KEEPS else expected)


@pytest.mark.parametrize(
    ("count", "periods", "points", "expected"),
    [
        (1, 1, "--X", ALARM),  # one datapoint is all that is needed
        (1, 1, "X--", ALARM),  # it stays until it leaves what is looked at
        (1, 1, "X-0", OK),
        (2, 3, "---X-", ALARM),  # as old as two periods, and nothing newer is within the threshold
        (2, 5, "-----XX", ALARM),
        (3, 5, "----X-X", ALARM),
        (3, 5, "-----XX", LACKING),
        (3, 5, "0----XX", OK),
    ],
)
def test_missing_data_that_is_not_filled(count, periods, points, expected):
    alarm = replace(ALARM_3_OF_3, datapoints_to_alarm=count, evaluation_periods=periods)

    assert decide(alarm, window(points), OK) is expected


@pytest.mark.parametrize(
    ("comparison", "flags"),
    [
        ("GreaterThanOrEqualToThreshold", [False, True, True]),
        ("GreaterThanThreshold", [False, False, True]),
        ("LessThanThreshold", [True, False, False]),
        ("LessThanOrEqualToThreshold", [True, True, False]),
    ],
)
def test_every_comparison_at_and_beside_the_threshold(comparison, flags):
    alarm = replace(ALARM_3_OF_3, comparison_operator=comparison)

    assert breaches(alarm, [0.99, 1, 1.01]) == flags


@pytest.mark.parametrize(
    "changes", [{"threshold": None}, {"comparison_operator": "GreaterThanUpperThreshold", "threshold": 1.0}]
)
def test_a_band_is_refused(changes):
    with pytest.raises(NotReplayableError, match="a band that CloudWatch learns"):
        evaluate(replace(ALARM_3_OF_3, **changes), {}, NOW, OK)


def at(*values: float | None) -> dict[int, float]:
    """Values of the newest periods, the last one ending now."""
    starts = range(NOW - len(values) * MINUTE, NOW, MINUTE)
    return {start: value for start, value in zip(starts, values, strict=True) if value is not None}


@pytest.mark.parametrize(
    ("changes", "values", "previous", "state", "reason"),
    [
        (
            {"datapoints_to_alarm": 2},
            (0, 1, 1),
            OK,
            ALARM,
            "Threshold Crossed: 2 out of the last 3 datapoints [1 (30/11/26 17:59:00), 1 (30/11/26 17:58:00)] were "
            "greater than or equal to the threshold (1) (minimum 2 datapoints for OK -> ALARM transition).",
        ),
        (
            {},
            (0, 0, 0.5),
            ALARM,
            OK,
            "Threshold Crossed: 3 out of the last 3 datapoints [0.5 (30/11/26 17:59:00), 0 (30/11/26 17:58:00), 0 "
            "(30/11/26 17:57:00)] were not greater than or equal to the threshold (1) (minimum 3 datapoints for ALARM "
            "-> OK transition).",
        ),
        ({}, (), OK, LACKING, "Insufficient Data: 3 datapoints were unknown."),
        ({}, (1, 1), OK, LACKING, "Insufficient Data: 1 datapoint was unknown."),
        (
            {"treat_missing_data": "breaching"},
            (),
            OK,
            ALARM,
            "no datapoints were received, and missing ones were treated as [Breaching].",
        ),
    ],
)
def test_the_reason_is_worded_as_cloudwatch_does(changes, values, previous, state, reason):
    found = evaluate(replace(ALARM_3_OF_3, **changes), at(*values), NOW, previous)

    assert (found.state, found.reason) == (state, reason)


def test_a_period_that_is_too_old_does_not_count():
    old = {NOW - 6 * MINUTE: 1.0}

    assert evaluate(ALARM_3_OF_3, old, NOW, OK).state is LACKING
    assert evaluate(ALARM_3_OF_3, old, NOW - MINUTE, OK).state is ALARM
