from __future__ import annotations

import pytest

from fairshare.metrics.alarm_settings import parse_settings
from fairshare.model import AlarmDefinition, AlarmMetric, UsageError

ALARM = AlarmDefinition(
    metrics=(AlarmMetric(name="A", period=300), AlarmMetric(id="e1", expression="m1 * 2")),
    comparison_operator="GreaterThanThreshold",
    threshold=100,
    evaluation_periods=3,
    datapoints_to_alarm=2,
)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("threshold=5", "threshold", 5),
        ("threshold=-0.5", "threshold", -0.5),
        ("threshold=2h", "threshold", 7200),
        ("threshold=50%", "threshold", 50),
        ("datapoints_to_alarm=1", "datapoints_to_alarm", 1),
        ("treat_missing_data=notBreaching", "treat_missing_data", "notBreaching"),
        ("comparison_operator=LessThanThreshold", "comparison_operator", "LessThanThreshold"),
        ("period=1m", "period", 60),
    ],
)
def test_a_setting_replaces_one_field(text, field, value):
    assert getattr(parse_settings([text])(ALARM), field) == value


def test_a_period_is_that_of_the_metrics_and_not_of_expressions():
    changed = parse_settings(["period=60"])(ALARM)

    assert [metric.period for metric in changed.metrics] == [60, 0]


@pytest.mark.parametrize(
    ("texts", "was", "count", "periods"),
    [
        (["evaluation_periods=5"], 2, 2, 5),
        (["evaluation_periods=5"], 3, 5, 5),
        (["evaluation_periods=1"], 2, 1, 1),
        (["evaluation_periods=5", "datapoints_to_alarm=4"], 3, 4, 5),
    ],
)
def test_datapoints_follow_evaluation_periods(texts, was, count, periods):
    from dataclasses import replace

    changed = parse_settings(texts)(replace(ALARM, datapoints_to_alarm=was))

    assert (changed.datapoints_to_alarm, changed.evaluation_periods) == (count, periods)


def test_composite_alarms_and_no_settings_change_nothing():
    rule = AlarmDefinition(rule="ALARM(a)")

    assert parse_settings(["threshold=1"])(rule) == rule
    assert parse_settings([])(ALARM) == ALARM


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("treshold=5", '--set: unknown setting "treshold"', "did you mean threshold? (settings: threshold,"),
        ("threshold", "--set: threshold has no value", "write --set threshold=VALUE"),
        ("threshold=much", '--set threshold: "much" is not a duration', "give a number, a duration such as 2h"),
        ("period=90", "--set period: CloudWatch has no period of 90 s", "give 1, 5, 10, 20, 30 or a multiple of 60"),
        ("evaluation_periods=0", '--set evaluation_periods: must be a whole number from 1 on, not "0"', "as in 3"),
        ("evaluation_periods=2.5", '--set evaluation_periods: must be a whole number from 1 on, not "2.5"', "as in 3"),
        ("treat_missing_data=ok", '--set treat_missing_data: there is no "ok"', "choices: missing, notBreaching"),
    ],
)
def test_what_is_wrong_is_told(text, message, hint):
    with pytest.raises(UsageError) as error:
        parse_settings([text])

    assert error.value.message.startswith(message)
    assert (error.value.hint or "").startswith(hint)
