"""Share arithmetic against definitions written down with fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairshare.scheduler.policy import (
    UsageWindow,
    parse_weight,
    share_fractions,
    usable_instances,
    weights_for_targets,
)

weights = st.decimals("0.0001", "999.9999", places=4).map(str)


@given(st.integers(0, 99), st.integers(0, 100_000), st.integers(0, 40))
@example(70, 10, 1)
@example(90, 100, 1)
def test_reservation_leaves_the_floor_of_the_exact_product(reservation: int, maximum: int, active: int) -> None:
    """``floor(max * (1 - (cr/100)^n))``, where 0 of 0 per cent is nothing reserved."""
    reserved = Fraction(1)
    for _ in range(active):
        reserved *= Fraction(reservation, 100)
    if reservation == 0:
        reserved = Fraction(0)
    assert usable_instances(maximum, reservation, active) == floor(maximum * (1 - reserved))


def test_reservation_for_every_small_pool() -> None:
    for reservation in range(100):
        for maximum in range(1, 65):
            for active in range(1, 6):
                exact = Fraction(maximum * (100**active - reservation**active), 100**active)
                assert usable_instances(maximum, reservation, active) == exact.numerator // exact.denominator


@given(st.dictionaries(st.text(min_size=1, max_size=5), weights, min_size=1, max_size=20))
def test_portions_add_up_and_are_inverse_to_weights(shares: dict[str, str]) -> None:
    portions = share_fractions(shares)
    assert sum(portions.values()) == 1
    assert len({portions[share] * parse_weight(weight) for share, weight in shares.items()}) == 1


@given(st.lists(st.integers(1, 100), min_size=1, max_size=12))
def test_targets_come_back_as_portions(parts: list[int]) -> None:
    targets = {f"share{number}": Fraction(part, sum(parts)) for number, part in enumerate(parts)}
    portions = share_fractions(weights_for_targets(targets))
    for share, target in targets.items():
        assert abs(portions[share] - target) < Fraction(1, 10_000)


# -- use over time -----------------------------------------------------------------------------------------------------


class BruteForce:
    """What a share held in every single millisecond."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.held = 0
        self.past: list[int] = []

    def advance(self, milliseconds: int) -> None:
        self.past += [self.held] * milliseconds

    def resize(self, window: int) -> None:
        """A longer window starts without what the shorter one has forgotten."""
        self.past = self.past[-self.window :]
        self.window = window

    def history(self) -> Fraction:
        """``(2/W) * integral of h(a) * (1 - a/W) da``: over one millisecond the kernel is what it is in its middle."""
        recent = reversed(self.past[-self.window :])
        weighed = [held * (1 - Fraction(2 * age + 1, 2 * self.window)) for age, held in enumerate(recent)]
        return sum(weighed, Fraction(0)) * 2 / self.window


steps = st.one_of(
    st.tuples(st.just("advance"), st.integers(0, 30)),
    st.tuples(st.just("advance"), st.integers(0, 400)),
    st.tuples(st.just("change"), st.integers(-5, 9)),
    st.tuples(st.just("resize"), st.integers(1, 150)),
)


@given(st.integers(1, 120), st.lists(steps, max_size=30))
def test_usage_window_is_the_integral(window: int, course: list[tuple[str, int]]) -> None:
    now = 1000
    exact, brute = UsageWindow(window, now), BruteForce(window)
    for step, amount in course:
        if step == "advance":
            now += amount
            exact.advance(now)
            brute.advance(amount)
        elif step == "change":
            delta = max(amount, -brute.held)
            exact.change(delta)
            brute.held += delta
        else:
            exact.resize(amount)
            brute.resize(amount)
        assert Fraction(exact.history(), exact.window**2) == brute.history()
        assert exact.held == brute.held


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 64)), max_size=20),
    st.lists(st.integers(0, 10**7), max_size=20),
)
def test_looking_more_often_changes_nothing(course: list[tuple[int, int]], looks: list[int]) -> None:
    seldom, often = UsageWindow(600_000, 0), UsageWindow(600_000, 0)
    changes = sorted(course)
    for at, held in changes:
        for look in sorted(look for look in looks if look <= at):
            often.advance(look)
        for window in (seldom, often):
            window.advance(at)
            window.change(held - window.held)
    assert seldom.history() == often.history()


@pytest.mark.parametrize("window", [600_000, 604_800_000])
def test_what_the_window_has_seen_through_leaves_no_residue(window: int) -> None:
    """Exact sums: after many changes nothing of a forgotten use is left over."""
    usage = UsageWindow(window, 0)
    for number in range(20_000):
        usage.advance(number * 37)
        usage.change(1 if number % 2 else -usage.held)
    usage.change(-usage.held)
    usage.advance(20_000 * 37 + window)
    assert usage.history() == 0
