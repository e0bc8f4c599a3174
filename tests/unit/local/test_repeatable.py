"""Instants that stand still, and ids that follow from the past."""

from __future__ import annotations

from fairshare.local.repeatable import InstantClock, RegionIds
from fairshare.scheduler.clock import VirtualClock


def test_a_held_clock_stands_still_and_never_goes_back():
    inner = VirtualClock(100)
    clock = InstantClock(inner)
    with clock.held() as at:
        inner.advance(5)
        assert at == clock.now() == 100
    assert clock.now() == 105
    with clock.held(500) as at:
        assert at == clock.now() == 500
    assert clock.now() == 500
    inner.advance(1_000)
    assert clock.now() == 1_105


def test_sleeping_and_the_wall_clock_are_the_inner_clock_s():
    inner = VirtualClock(0)
    clock = InstantClock(inner)
    clock.sleep_until(7)
    inner.jump(3)
    assert (clock.now(), clock.wall()) == (7, 10)


def test_the_nth_id_of_a_region_does_not_depend_on_other_regions():
    alone, mixed = RegionIds("seed"), RegionIds("seed")
    west, east = mixed.of("1", "us-west-2"), mixed.of("1", "us-east-1")
    new_id = alone.of("1", "us-west-2")
    expected = [new_id() for _ in range(3)]
    got = [west(), east(), west()]
    assert [got[0], got[2]] == expected[:2]
    assert got[1] not in expected
    assert mixed.of("1", "us-west-2")() == expected[2]
    assert RegionIds("other").of("1", "us-west-2")() not in expected
