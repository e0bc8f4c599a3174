"""The decaying history of one share. `tests/property` compares it with an integral done by brute force."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fairshare.scheduler.policy import UsageWindow

MINUTE = 60_000


def average(window: UsageWindow) -> Fraction:
    """H, in instances."""
    return Fraction(window.history(), window.window**2)


def test_constant_use_longer_than_the_window_counts_as_what_is_held() -> None:
    window = UsageWindow(10 * MINUTE, now=0)
    window.change(4)
    window.advance(25 * MINUTE)
    assert average(window) == 4


def test_use_that_begins_counts_little_by_little() -> None:
    window = UsageWindow(10 * MINUTE, now=0)
    window.change(4)
    assert average(window) == 0
    window.advance(5 * MINUTE)
    assert average(window) == 3  # the newest half of the window weighs three quarters
    window.advance(10 * MINUTE)
    assert average(window) == 4


@pytest.mark.parametrize(
    ("age", "weight"), [(0, Fraction(1)), (15, Fraction(3, 4)), (30, Fraction(1, 2)), (45, Fraction(1, 4))]
)
def test_fs4_use_30_s_old_weighs_half_in_a_window_of_60_s(age: int, weight: Fraction) -> None:
    """The kernel ``1 - a/W``. A stretch of use weighs what its middle does, so it is 2 ms long around that age."""
    window = UsageWindow(MINUTE, now=-1)
    window.change(1)
    window.advance(1)
    window.change(-1)
    window.advance(age * 1000 + (1 if age == 0 else 0))
    in_full = 2 * 2 * MINUTE  # H * W**2 of 2 ms of use that has not aged
    aged_by_1_ms = Fraction(MINUTE - 1, MINUTE) if age == 0 else weight
    assert window.history() == in_full * aged_by_1_ms


def test_fs4_use_60_s_old_counts_nothing_in_a_window_of_60_s() -> None:
    window = UsageWindow(MINUTE, now=0)
    window.change(7)
    window.advance(1000)
    window.change(-7)
    window.advance(MINUTE + 999)
    assert window.history() > 0
    window.advance(MINUTE + 1000)
    assert window.history() == 0


def test_a_jump_over_the_whole_window_forgets_what_was_and_keeps_what_is() -> None:
    window = UsageWindow(10 * MINUTE, now=0)
    window.change(8)
    window.advance(3 * MINUTE)
    window.change(-6)
    window.advance(1_000_000 * MINUTE)
    assert average(window) == 2


def test_changes_within_one_instant_leave_only_their_sum() -> None:
    one, other = UsageWindow(10 * MINUTE, now=0), UsageWindow(10 * MINUTE, now=0)
    for delta in (5, -3, 1, -2):
        one.change(delta)
    other.change(1)
    one.advance(MINUTE)
    other.advance(MINUTE)
    assert one.history() == other.history() == 10 * MINUTE * 10 * MINUTE - 9 * MINUTE * 9 * MINUTE


def test_time_does_not_run_backwards() -> None:
    window = UsageWindow(10 * MINUTE, now=5 * MINUTE)
    window.change(1)
    window.advance(6 * MINUTE)
    before = window.history()
    window.advance(5 * MINUTE)
    assert window.history() == before


def test_a_shorter_window_forgets_and_a_longer_one_does_not_remember_again() -> None:
    window = UsageWindow(20 * MINUTE, now=0)
    window.change(3)
    window.advance(5 * MINUTE)
    window.change(-3)
    window.advance(14 * MINUTE)
    window.resize(10 * MINUTE)  # the use was 9 to 14 minutes ago: one minute of it is left
    assert window.history() == 3 * MINUTE**2
    window.resize(20 * MINUTE)
    assert window.history() == 3 * ((11 * MINUTE) ** 2 - (10 * MINUTE) ** 2)
    window.advance(25 * MINUTE)
    assert window.history() == 0


def test_resizing_to_the_same_length_changes_nothing() -> None:
    window = UsageWindow(10 * MINUTE, now=0)
    for minute in range(1, 15):
        window.change(1)
        window.advance(minute * MINUTE)
    before = window.history()
    window.resize(10 * MINUTE)
    assert window.history() == before
    window.advance(16 * MINUTE)
    other = UsageWindow(10 * MINUTE, now=0)
    for minute in range(1, 15):
        other.change(1)
        other.advance(minute * MINUTE)
    other.advance(16 * MINUTE)
    assert window.history() == other.history()
