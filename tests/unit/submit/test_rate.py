from __future__ import annotations

import random

import pytest

from fairshare.submit.rate import LONGEST_BACKOFF_MS, Pace


def reserve_all(pace: Pace, count: int, now: int = 0) -> list[int]:
    """Times of ``count`` calls by a caller who waits for each."""
    times = []
    for _ in range(count):
        now = pace.reserve(now)
        times.append(now)
    return times


def test_calls_keep_below_the_rate_exactly() -> None:
    times = reserve_all(Pace(random.Random(0)), 491)

    assert times[:4] == [0, 205, 409, 613]
    assert times[490] == 100_000
    for start in range(len(times) - 5):
        assert times[start + 5] - times[start] > 1_000


def test_a_pause_does_not_save_up_calls() -> None:
    pace = Pace(random.Random(0), rate=5)
    reserve_all(pace, 3)

    assert reserve_all(pace, 3, now=60_000) == [60_000, 60_200, 60_400]


def test_a_burst_is_allowed_after_a_pause() -> None:
    pace = Pace(random.Random(0), rate=1, burst=3)

    assert reserve_all(pace, 5) == [0, 0, 0, 1_000, 2_000]
    assert reserve_all(pace, 4, now=60_000) == [60_000, 60_000, 60_000, 61_000]


def test_rate_zero_is_no_limit() -> None:
    assert reserve_all(Pace(random.Random(0), rate=0), 1_000, now=5) == [5] * 1_000


def test_back_off_is_full_jitter_under_a_growing_ceiling() -> None:
    pace = Pace(random.Random(3))

    for failures, ceiling in [(1, 500), (2, 1_000), (3, 2_000), (9, LONGEST_BACKOFF_MS), (5_000, LONGEST_BACKOFF_MS)]:
        waits = [pace.backoff(failures) for _ in range(500)]
        assert 0 <= min(waits) < ceiling * 0.05
        assert ceiling * 0.95 < max(waits) <= ceiling


@pytest.mark.parametrize(("rate", "burst"), [(-1, 1), (float("inf"), 1), (float("nan"), 1), (5, 0)])
def test_a_rate_that_makes_no_sense_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        Pace(random.Random(0), rate, burst)


def gap(pace: Pace, now: int) -> int:
    """Time between two calls at the present rate."""
    first = pace.reserve(now)
    return pace.reserve(now) - first


def test_c21_a_throttle_halves_the_rate_and_accepted_calls_give_it_back() -> None:
    pace = Pace(random.Random(0), rate=10)

    pace.throttled(1_000)
    assert gap(pace, 10_000) == 200
    for _ in range(5):
        pace.accepted(20_000)
    assert gap(pace, 20_000) == 134  # 75 %
    for _ in range(50):
        pace.accepted(30_000)
    assert gap(pace, 30_000) == 100


def test_c21_throttles_that_come_together_count_once() -> None:
    pace = Pace(random.Random(0), rate=10)

    for now in (1_000, 1_300, 1_999):
        pace.throttled(now)
    assert gap(pace, 10_000) == 200
    pace.throttled(2_000)
    assert gap(pace, 20_000) == 400


@pytest.mark.parametrize(("rate", "slowest"), [(4.9, 972), (100, 1_000), (0.5, 2_000)])
def test_c21_random_throttles_do_not_stall_a_run(rate: float, slowest: int) -> None:
    pace = Pace(random.Random(0), rate)

    for number in range(100):
        pace.throttled(number * 10_000)
    assert gap(pace, 2_000_000) in (slowest, slowest + 1)
