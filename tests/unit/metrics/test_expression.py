from __future__ import annotations

import pytest

from fairshare.config.alarms import DEFAULT_ALARMS
from fairshare.metrics.evaluate import NotReplayableError
from fairshare.metrics.expression import parse_expression

VALUES = {"m1": 3.0, "m2": 1.0, "zero": 0.0, "gone": None}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("m1", 3),
        ("1.5e2", 150),
        ("-m1 + 5", 2),
        ("m1 - 1 - 1", 1),
        ("1 + 2 * m1", 7),
        ("(1 + 2) * m1", 9),
        ("8 / 2 / 2", 2),
        ("m1 > 2", 1),
        ("m1 <= 2", 0),
        ("m1 != 3", 0),
        ("2 * m1 == 6", 1),
        ("IF(m1 > 2, 10, 20)", 10),
        ("IF(m1 > 5, 10, 20)", 20),
        ("IF(m1 > 5, 10)", None),
        ("IF(gone > 5, 10, 20)", None),
        ("m1 + gone", None),
        ("m1 / zero", None),
        ("IF(zero > 0, m1 / zero, 0)", 0),
        ("FILL(gone, 7) + m1", 10),
        ("FILL(m1, 7)", 3),
        ("other", None),
        ("1e308 * 10", None),
    ],
)
def test_what_an_expression_is_worth(text, value):
    assert parse_expression(text)(VALUES) == value


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SEARCH('{AWS/Batch}', 'Sum')", "'{AWS/Batch}'"),
        ("RATE(m1)", "RATE"),
        ("IF(m1)", "IF"),
        ("m1 +", "its end"),
        ("(m1", "its end"),
        ("m1 m2", "m2"),
        ("* m1", r"\*"),
        ("", "its end"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(text, named):
    with pytest.raises(NotReplayableError, match=f"^{named}.* in its expression .* is not supported$"):
        parse_expression(text)


@pytest.mark.parametrize(
    ("failed", "succeeded", "percent"), [(0, 0, 0), (3, 0, 0), (4, 0, 100), (2, 2, 50), (1, 99, 1), (3, None, None)]
)
def test_the_failure_rate_of_the_default_alarm(failed, succeeded, percent):
    (text,) = (default.expression for default in DEFAULT_ALARMS if default.id == "failure_rate")

    assert text is not None
    assert parse_expression(text)({"m1": failed, "m2": succeeded}) == percent
