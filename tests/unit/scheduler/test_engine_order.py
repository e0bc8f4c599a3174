"""Which job goes next: FIFO, shares, priorities, gangs, prefix entries, reservation, and what ties do."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from fairshare.model import JobStatus
from fairshare.scheduler.engine import EngineOptions, PutEnvironment, PutQueue

MakeLab = Callable[..., Any]

# -- first in, first out -----------------------------------------------------------------------------------------------


def test_fifo_goes_by_creation_and_then_by_submission(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for job_id, at in (("late", 20), ("tie-1", 10), ("tie-2", 10), ("early", 5)):
        lab.submit(job_id, at=at, runs=100)
    lab.to(1000)
    assert lab.started() == ["early", "tie-1", "tie-2", "late"]


def test_fifo_knows_no_priority(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for job_id, priority in (("first", 0), ("second", 5), ("third", 99)):
        lab.submit(job_id, priority=priority, runs=100)
    lab.to(1)
    lab.engine.update("third", 1000, 2000)
    assert [job_id for job_id, _ in lab.engine.snapshot("q").front] == ["second", "third"]
    lab.to(1000)
    assert lab.started() == ["first", "second", "third"]


def test_fifo_a_head_that_does_not_fit_holds_up_the_queue(make_lab: MakeLab) -> None:
    lab = make_lab(4)
    lab.submit("running", demand=3, runs=50)
    lab.submit("large", demand=2, runs=50)
    lab.submit("small", demand=1, runs=50)
    lab.to(0)
    assert lab.started() == ["running"]
    lab.to(1000)
    assert lab.started() == ["running", "large", "small"]


# -- inside a share, and across shares ---------------------------------------------------------------------------------


def test_priority_then_age_then_submission_inside_a_share(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    lab.submit("running", "S", runs=100)
    for job_id, priority, at in (("c", 10, 3), ("d", 10, 3), ("b", 10, 2), ("zero", 0, 1), ("a", 99, 5)):
        lab.submit(job_id, "S", priority=priority, at=at, runs=100)
    lab.to(1000)
    assert lab.started() == ["running", "a", "b", "c", "d", "zero"]


def test_priority_never_crosses_shares(make_lab: MakeLab) -> None:
    def order(priority: int) -> str:
        lab = make_lab(2, {"HIGH": "1", "LOW": "5"})
        for number in range(6):
            lab.submit(f"low-{number}", "LOW", priority=priority, runs=30)
            lab.submit(f"high-{number}", "HIGH", priority=0, runs=30)
        lab.to(10_000)
        return str(lab.start_order())

    assert order(priority=99) == order(priority=0)


def test_a_share_the_policy_does_not_list_weighs_1(make_lab: MakeLab) -> None:
    lab = make_lab(8, {"listed": "3"})
    lab.burst({"listed": 8, "unknown": 8})
    lab.to(0)
    assert lab.held() == {"listed": 2, "unknown": 6}


def test_the_head_of_the_neediest_share_holds_up_every_share(make_lab: MakeLab) -> None:
    """Strict head of line; AWS documents blocked queues and no backfill."""
    lab = make_lab(4, {"A": "1", "B": "1"})
    lab.submit("b-running", "B", demand=3, runs=50)
    lab.to(0)
    lab.submit("a-large", "A", demand=2, at=1, runs=50)
    lab.submit("b-small", "B", demand=1, at=1, runs=50)
    lab.to(1)
    assert lab.started() == ["b-running"]
    lab.to(1000)
    assert lab.started() == ["b-running", "a-large", "b-small"]


def test_a_share_without_history_catches_up_and_then_takes_turns(make_lab: MakeLab) -> None:
    """Jobs placed in one instant count at once, by a tenth each: history is nine tenths of a share's usage.

    2 instances held for 300 s of a window of 600 s are a history of 1.5, so a usage of 0.9 * 1.5 + 0.1 * 2 = 1.55.
    """
    lab = make_lab(26, {"old": "1", "new": "1"})
    lab.submit("holds", "old", demand=2)
    lab.to(300)
    lab.burst({"old": 20, "new": 20}, at=300)
    lab.to(300)
    assert lab.start_order() == "old" + "new" * 16 + "oldnew" * 4


def test_finished_jobs_count_until_the_window_forgets_them(make_lab: MakeLab) -> None:
    def first_share(at: int) -> str:
        lab = make_lab(2, {"A": "1", "B": "1"})
        lab.submit("a-past", "A", runs=100)
        lab.submit("b-past", "B", runs=90)
        lab.to(at)
        lab.submit("blocker", "C", demand=2, at=at, runs=1)
        lab.submit("a", "A", at=at)
        lab.submit("b", "B", at=at)
        lab.to(at)
        return "".join(job_id for job_id, _ in lab.engine.snapshot("q").front)

    assert first_share(at=200) == "ba"
    assert first_share(at=800) == "ab"


# -- ties --------------------------------------------------------------------------------------------------------------


def test_a_tie_goes_to_the_lower_weight(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"heavy": "5", "light": "1"})
    lab.burst({"heavy": 1, "light": 1})
    lab.to(0)
    assert lab.started() == ["light-0"]


def test_a_tie_of_weights_goes_to_the_older_head_and_then_to_the_earlier_submission(make_lab: MakeLab) -> None:
    lab = make_lab(0, {})
    for job_id, at in (("x", 2), ("y", 1), ("z", 1)):
        lab.submit(job_id, job_id.upper(), at=at)
    lab.to(5)
    lab.put(PutEnvironment("env", 1), at=5)
    assert lab.started() == ["y"]
    lab.put(PutEnvironment("env", 3), at=5)
    assert lab.started() == ["y", "z", "x"]


def test_among_shares_without_use_the_one_served_longest_ago_goes_first(make_lab: MakeLab) -> None:
    """On one instance, jobs that outlast the window leave all other shares at zero: LOW must not starve."""
    lab = make_lab(1, {"HIGH": "1", "MID": "3", "LOW": "5"})
    for share in ("HIGH", "MID", "LOW"):
        for number in range(3):
            lab.submit(f"{share}-{number}", share, runs=3600)
    lab.to(9 * 3600)
    assert lab.start_order() == "HIGHMIDLOW" * 3


def test_a_tie_of_shares_with_use_goes_to_the_lower_weight_whoever_was_served_last(make_lab: MakeLab) -> None:
    """HIGH holds 5 instances of weight 1, LOW 1 of weight 5: the same score, if only present use counts."""
    lab = make_lab(7, {"HIGH": "1", "LOW": "5"}, options=EngineOptions(history_weight=Fraction(0)))
    lab.submit("low-0", "LOW")
    lab.submit("high-0", "HIGH", demand=5, at=50)
    lab.submit("low-1", "LOW", at=60)
    lab.submit("high-1", "HIGH", at=60)
    lab.put(PutEnvironment("env", 6), at=55)
    lab.put(PutEnvironment("env", 7), at=100)
    assert lab.started() == ["low-0", "high-0", "high-1"]


def test_a_share_that_went_inactive_counts_as_never_served(make_lab: MakeLab) -> None:
    """The window has forgotten who came last, so weights decide among those that come back and the new one."""
    lab = make_lab(1, {"HIGH": "1", "LOW": "5"})
    lab.submit("low-0", "LOW", runs=10)
    lab.submit("high-0", "HIGH", at=1, runs=10)
    lab.to(5000)
    for job_id, share in (("low-1", "LOW"), ("new", "NEW"), ("high-1", "HIGH")):
        lab.submit(job_id, share, at=9000, runs=1000)
    lab.to(20_000)
    assert lab.started() == ["low-0", "high-0", "new", "high-1", "low-1"]


def test_a_share_is_forgotten_whether_or_not_anything_happened_meanwhile(make_lab: MakeLab) -> None:
    def order(*, something_happens: bool) -> list[str]:
        lab = make_lab(1, {"HIGH": "1", "LOW": "5"})
        lab.submit("high-0", "HIGH", runs=10)
        if something_happens:
            lab.put(PutEnvironment("env", 1), at=1000)
        lab.submit("low", "LOW", at=2000)
        lab.submit("high-1", "HIGH", at=2000)
        lab.to(2000)
        return list(lab.started())

    assert order(something_happens=True) == order(something_happens=False) == ["high-0", "high-1"]


# -- gangs -------------------------------------------------------------------------------------------------------------


def test_a_job_of_several_instances_is_placed_whole(make_lab: MakeLab) -> None:
    lab = make_lab(8)
    lab.submit("three", demand=3, runs=10)
    lab.submit("four", demand=4, runs=20)
    lab.submit("eight", demand=8, runs=30)
    lab.to(0)
    assert lab.engine.instances_held("env") == 7
    lab.to(15)
    assert lab.engine.instances_held("env") == 4
    assert lab.status("eight") is JobStatus.RUNNABLE
    lab.to(20)
    assert lab.engine.instances_held("env") == 8


def test_a_job_larger_than_the_environment_blocks_until_the_limit_grows(make_lab: MakeLab) -> None:
    lab = make_lab(4)
    lab.submit("five", demand=5, runs=10)
    lab.submit("one", runs=10)
    lab.to(100_000)
    assert lab.started() == []
    lab.put(PutEnvironment("env", 5), at=100_000)
    assert lab.started() == ["five"]


def test_a_job_of_several_instances_counts_as_many(make_lab: MakeLab) -> None:
    lab = make_lab(8, {"A": "1", "B": "1"})
    lab.burst({"A": 2, "B": 8}, demand={"A": 4, "B": 1})
    lab.to(0)
    assert lab.held() == {"A": 4, "B": 4}


# -- prefix entries ----------------------------------------------------------------------------------------------------


def test_only_active_members_of_a_prefix_entry_share_its_weight(make_lab: MakeLab) -> None:
    """User guide: 2 members of a group of weight 1 weigh 2 each. A third that has no job takes nothing from them."""
    lab = make_lab(8, {"X": "1", "User*": "1"})
    lab.burst({"X": 8, "User1": 8})
    lab.to(0)
    assert lab.held() == {"X": 4, "User1": 4}

    crowded = make_lab(8, {"X": "1", "User*": "1"})
    crowded.burst({"X": 8, "User1": 8, "User2": 8, "User3": 8, "User4": 8})
    crowded.to(0)
    assert crowded.held() == {"X": 4, "User1": 1, "User2": 1, "User3": 1, "User4": 1}


def test_a_member_stays_in_its_group_until_the_window_has_forgotten_it(make_lab: MakeLab) -> None:
    def held_by_x(at: int) -> int:
        lab = make_lab(8, {"X": "1", "User*": "1"})
        lab.submit("gone", "User2", runs=10)
        lab.to(at)
        lab.burst({"X": 8, "User1": 8}, at=at)
        lab.to(at)
        return int(lab.held()["X"])

    assert held_by_x(at=609) == 5  # User1 still weighs 2
    assert held_by_x(at=610) == 4


# -- reservation -------------------------------------------------------------------------------------------------------


def test_a_head_larger_than_what_is_usable_waits_for_another_share(make_lab: MakeLab) -> None:
    lab = make_lab(8, {}, reservation=50)
    lab.submit("five", "A", demand=5)
    lab.to(0)
    assert lab.started() == []
    lab.submit("one", "B", at=10)
    lab.to(10)
    assert lab.started() == ["five", "one"]


def test_a_share_stays_active_for_a_window_after_its_last_job(make_lab: MakeLab) -> None:
    def started_at(at: int) -> int:
        lab = make_lab(8, {}, reservation=50)
        lab.submit("b", "B", runs=10)
        lab.to(at)
        lab.burst({"A": 8}, at=at)
        lab.to(at)
        return len(lab.started()) - 1

    assert started_at(609) == 6
    assert started_at(610) == 4


def test_a_job_that_ended_without_having_run_makes_its_share_active_too(make_lab: MakeLab) -> None:
    lab = make_lab(8, {}, reservation=50)
    lab.burst({"A": 8})
    lab.submit("b", "B", demand=8)
    lab.to(0)
    lab.engine.terminate("b", "changed my mind", 1000)
    lab.to(1)
    assert lab.held() == {"A": 6}


def test_running_jobs_are_not_stopped_when_fewer_shares_are_active(make_lab: MakeLab) -> None:
    lab = make_lab(8, {}, reservation=50)
    lab.burst({"A": 8})
    lab.submit("b", "B", runs=10)
    lab.to(0)
    assert lab.held() == {"A": 5, "B": 1}
    lab.to(10)
    assert lab.held() == {"A": 6}
    lab.finish("A-0", at=700)  # B is forgotten: 4 are usable, 5 are in use
    assert lab.held() == {"A": 5}
    assert lab.stopped == []


def test_fifo_knows_no_reservation_and_reservation_is_of_the_whole_environment(make_lab: MakeLab) -> None:
    lab = make_lab(8, {}, reservation=50)
    lab.put(PutQueue("fifo", "env", priority=9))
    for number in range(3):
        lab.submit(f"fifo-{number}", queue="fifo")
    lab.burst({"A": 8})
    lab.to(0)
    assert lab.held() == {"": 3, "A": 1}


@pytest.mark.parametrize("capacity", [1, 7, 8, 9, 100])
def test_nothing_is_reserved_by_default(make_lab: MakeLab, capacity: int) -> None:
    lab = make_lab(capacity, {})
    lab.burst({"A": capacity + 1})
    lab.to(0)
    assert lab.held() == {"A": capacity}
