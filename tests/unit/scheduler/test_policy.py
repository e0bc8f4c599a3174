"""Share arithmetic: weights, portions, targets, entries, reservation."""

from __future__ import annotations

from fractions import Fraction
from struct import pack, unpack

import pytest

from fairshare.scheduler.policy import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    matching_entry,
    parse_weight,
    share_fractions,
    usable_instances,
    weights_for_targets,
)


def as_float32(text: str) -> str:
    """What AWS returns for a weight: the nearest 32-bit float, printed as a double."""
    return repr(unpack("f", pack("f", float(text)))[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("0.1", Fraction(1, 10)),
        ("0.125", Fraction(1, 8)),
        ("1e-4", MIN_WEIGHT),
        ("999.9999", MAX_WEIGHT),
        ("3.10", Fraction(31, 10)),
    ],
)
def test_a_weight_is_the_decimal_that_was_written(text: str, value: Fraction) -> None:
    assert parse_weight(text) == value


def test_c02_the_smallest_weight_comes_back_from_aws_as_a_float_slightly_below_it() -> None:
    returned = as_float32("0.0001")
    assert Fraction(returned) < MIN_WEIGHT
    assert parse_weight(returned) == Fraction(returned)


@pytest.mark.parametrize("text", ["0.0001", "0.1", "1", "3.3", "999.9999"])
def test_c02_every_weight_that_aws_returns_is_accepted(text: str) -> None:
    assert abs(parse_weight(as_float32(text)) - parse_weight(text)) < Fraction(1, 10_000)


@pytest.mark.parametrize("text", ["0", "-1", "0.00009", "1000", "999.99999", "1e999999999", "1e-999999999"])
def test_c32_a_weight_outside_awss_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="outside") as error:
        parse_weight(text)
    assert str(error.value) == f"{text} is outside 0.0001 - 999.9999, AWS's range for a weight factor"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nan", "nan is not a finite number"),
        ("-inf", "-inf is not a finite number"),
        ("high", "'high' is not a number"),
        ("", "'' is not a number"),
    ],
)
def test_c32_what_is_no_number_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="number") as error:
        parse_weight(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("weights", "percentages"),
    [
        (("1", "3", "5"), ("65.22", "21.74", "13.04")),
        (("1", "50", "99"), ("97.08", "1.94", "0.98")),
        (("1", "1.5"), ("60.00", "40.00")),
    ],
)
def test_steady_state_shares_of_the_derived_table(weights: tuple[str, ...], percentages: tuple[str, ...]) -> None:
    fractions = share_fractions({f"share{n}": weight for n, weight in enumerate(weights)})
    assert tuple(f"{float(part) * 100:.2f}" for part in fractions.values()) == percentages
    assert sum(fractions.values()) == 1


def test_lower_weight_means_more() -> None:
    assert share_fractions({"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}) == {
        "HIGHPRI": Fraction(15, 23),
        "MIDPRI": Fraction(5, 23),
        "LOWPRI": Fraction(3, 23),
    }
    assert share_fractions({}) == {}


@pytest.mark.parametrize(
    ("targets", "weights"),
    [
        ({"a": Fraction(60), "b": Fraction(40)}, {"a": "1", "b": "1.5"}),
        ({"a": Fraction(1, 10), "b": Fraction(9, 10)}, {"a": "9", "b": "1"}),
        ({"a": Fraction(99), "b": Fraction(1)}, {"a": "1", "b": "99"}),
        ({"a": Fraction(50), "b": Fraction(30), "c": Fraction(20)}, {"a": "1", "b": "1.6667", "c": "2.5"}),
        ({"a": Fraction(100), "b": Fraction(1)}, {"a": "1", "b": "100"}),
        ({"a": Fraction(9_999_999, 10_000), "b": Fraction(1)}, {"a": "1", "b": "999.9999"}),
        ({}, {}),
    ],
)
def test_targets_become_weights_of_which_the_largest_target_has_1(
    targets: dict[str, Fraction], weights: dict[str, str]
) -> None:
    assert weights_for_targets(targets) == weights


@pytest.mark.parametrize("target", [Fraction(0), Fraction(-5)])
def test_a_target_must_be_more_than_0(target: Fraction) -> None:
    with pytest.raises(ValueError, match=r"^the target of idle must be more than 0$"):
        weights_for_targets({"busy": Fraction(100), "idle": target})


@pytest.mark.parametrize("largest", [Fraction(1000), Fraction(10) ** 40])
def test_a_target_too_small_for_awss_range_is_refused(largest: Fraction) -> None:
    with pytest.raises(ValueError, match=r"^the target of tiny is more than 999.9999 times smaller than the largest$"):
        weights_for_targets({"all": largest, "tiny": Fraction(1)})


@pytest.mark.parametrize(
    ("identifier", "entry"),
    [("UserA1", "UserA*"), ("UserA", "UserA*"), ("UserB", "UserB"), ("UserB1", None), ("userA1", None), ("", None)],
)
def test_an_identifier_is_covered_by_itself_or_by_a_prefix(identifier: str, entry: str | None) -> None:
    assert matching_entry(identifier, ["UserB", "UserA*"]) == entry


def test_a_bare_star_covers_everything() -> None:
    assert matching_entry("anyone", ["*"]) == "*"


@pytest.mark.parametrize(
    ("reservation", "capacity", "usable"),
    [
        (25, 64, [0, 48, 60, 63, 63, 63]),
        (50, 16, [0, 8, 12, 14, 15, 15]),
        (75, 64, [0, 16, 28, 37, 43, 48]),
        (0, 16, [16, 16, 16, 16, 16, 16]),
        (99, 100, [0, 1, 1, 2, 3, 4]),
    ],
)
def test_usable_instances_with_0_to_5_active_shares(reservation: int, capacity: int, usable: list[int]) -> None:
    assert [usable_instances(capacity, reservation, active) for active in range(6)] == usable


def test_usable_instances_do_not_suffer_from_binary_fractions() -> None:
    """0.7 + 0.3 is not 1 in floats: ``int(10 * (1 - 0.7))`` would be 3, and ``int(100 * (1 - 0.9))`` 9."""
    assert usable_instances(10, 70, 1) == 3
    assert usable_instances(100, 90, 1) == 10
