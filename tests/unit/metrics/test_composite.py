from __future__ import annotations

import pytest

from fairshare.metrics.composite import parse_rule
from fairshare.metrics.evaluate import NotReplayableError
from fairshare.metrics.ports import AlarmState

STATES = {"a": AlarmState.ALARM, "b": AlarmState.OK, "c d": AlarmState.INSUFFICIENT_DATA}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ('ALARM("a")', True),
        ("ALARM(a)", True),
        ("OK(a)", False),
        ('INSUFFICIENT_DATA("c d")', True),
        ("ALARM(a) AND ALARM(b)", False),
        ("ALARM(a) AND NOT ALARM(b)", True),
        ("ALARM(b) OR ALARM(a) AND OK(b)", True),
        ("(ALARM(b) OR ALARM(a)) AND ALARM(b)", False),
        ("NOT (ALARM(a) AND OK(b))", False),
        ("TRUE", True),
        ("FALSE OR\n  ALARM(a)", True),
        ('ALARM("arn:aws:cloudwatch:us-west-2:111122223333:alarm:a")', True),
        ("OK(unknown)", False),
        ("NOT ALARM(unknown)", True),
    ],
)
def test_whether_a_rule_holds(rule, holds):
    assert parse_rule(rule).holds(STATES) is holds


def test_what_a_rule_refers_to():
    assert parse_rule('ALARM("c d") AND (OK(a) OR NOT OK(a) OR ALARM(b))').alarms == ("c d", "a", "b")


@pytest.mark.parametrize("rule", ["", "ALARM(a) AND", "ALARM(a) OK(b)", "(ALARM(a)", "AND", "NOT"])
def test_half_a_rule_is_refused(rule):
    with pytest.raises(NotReplayableError, match="cannot be read"):
        parse_rule(rule)


def test_an_operator_of_another_time_is_refused_by_its_text():
    with pytest.raises(NotReplayableError, match=r"cannot be read from 'AT_LEAST\(2, ALARM,' on"):
        parse_rule("ALARM(a) OR AT_LEAST(2, ALARM, (a, b))")
