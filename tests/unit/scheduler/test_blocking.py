"""The engine option ``blocking``: what a head that cannot be placed holds up."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from fairshare.model import JobStatus
from fairshare.scheduler.engine import Blocking, EngineOptions, PutEnvironment, PutQueue

MakeLab = Callable[..., Any]


def options(blocking: Blocking, **others: Any) -> EngineOptions:
    return EngineOptions(blocking=blocking, **others)


def crowd(make_lab: MakeLab, blocking: Blocking, weights: dict[str, str] | None) -> list[str]:
    """4 instances; A's head needs 5 and is the first in order, A has a small job behind it, B has two sizes."""
    lab = make_lab(4, weights, options=options(blocking))
    for job_id, share, demand in (("a-5", "A", 5), ("a-1", "A", 1), ("b-1", "B", 1), ("b-9", "B", 9), ("b-2", "B", 2)):
        lab.submit(job_id, share, demand=demand)
    lab.to(0)
    return list(lab.started())


@pytest.mark.parametrize(
    ("blocking", "started"),
    [(Blocking.QUEUE, []), (Blocking.SHARE, ["b-1"]), (Blocking.NONE, ["a-1", "b-1", "b-2"])],
)
def test_fair_share(make_lab: MakeLab, blocking: Blocking, started: list[str]) -> None:
    assert crowd(make_lab, blocking, {"A": "1", "B": "3"}) == started


@pytest.mark.parametrize(
    ("blocking", "started"),
    [(Blocking.QUEUE, []), (Blocking.SHARE, []), (Blocking.NONE, ["a-1", "b-1", "b-2"])],
)
def test_first_in_first_out_is_one_share(make_lab: MakeLab, blocking: Blocking, started: list[str]) -> None:
    assert crowd(make_lab, blocking, None) == started


def test_strict_head_of_line_is_the_default() -> None:
    assert EngineOptions().blocking is Blocking.QUEUE


def test_options_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^'all' is not a valid Blocking$"):
        EngineOptions(blocking="all")  # type: ignore[arg-type]
    for weight in (Fraction(-1, 10), Fraction(11, 10)):
        with pytest.raises(ValueError, match=f"^a history weight lies between 0 and 1, not at {weight}$"):
            EngineOptions(history_weight=weight)
    with pytest.raises(ValueError, match=r"^a capacity backoff of -1 ms is before now$"):
        EngineOptions(capacity_backoff_ms=-1)


@pytest.mark.parametrize("blocking", list(Blocking))
def test_a_word_does_for_the_option(make_lab: MakeLab, blocking: Blocking) -> None:
    """As it comes from a command line."""
    weights = {"A": "1", "B": "3"}
    assert crowd(make_lab, blocking.value, weights) == crowd(make_lab, blocking, weights)  # type: ignore[arg-type]


def test_small_jobs_overtake_inside_a_share_by_priority_and_age(make_lab: MakeLab) -> None:
    lab = make_lab(3, {"S": "1"}, options=options(Blocking.NONE))
    for job_id, demand, priority in (("low-1", 1, 0), ("high-4", 4, 9), ("mid-2", 2, 5), ("high-4b", 4, 9)):
        lab.submit(job_id, "S", demand=demand, priority=priority)
    lab.to(0)
    assert lab.started() == ["mid-2", "low-1"]


def test_a_job_that_is_overtaken_keeps_its_place(make_lab: MakeLab) -> None:
    lab = make_lab(4, options=options(Blocking.NONE))
    lab.submit("three", demand=3, runs=10)
    lab.submit("two", demand=2, runs=10)
    lab.submit("one", runs=100)
    lab.to(0)
    assert lab.started() == ["three", "one"]
    assert [job_id for job_id, _ in lab.engine.snapshot("q").front] == ["two"]
    lab.to(10)
    assert lab.started() == ["three", "one", "two"]


@pytest.mark.parametrize(
    ("blocking", "started"),
    [(Blocking.QUEUE, []), (Blocking.SHARE, ["b-1"]), (Blocking.NONE, ["a-2", "b-1"])],
)
def test_a_job_that_is_not_ready_is_overtaken_by_jobs_of_its_size(
    make_lab: MakeLab, blocking: Blocking, started: list[str]
) -> None:
    lab = make_lab(2, {"A": "1", "B": "1"}, options=options(blocking, capacity_backoff_ms=60_000))
    lab.submit("a-1", "A")
    lab.submit("b-0", "B")
    lab.to(0)
    for job_id, share in (("a-2", "A"), ("b-1", "B")):
        lab.submit(job_id, share, at=1)
    lab.to(1)
    lab.put(PutEnvironment("env", 3, enabled=False), at=1)
    lab.fail("a-1", at=2, reason="CapacityError")
    lab.put(PutEnvironment("env", 3), at=3)
    assert lab.started()[2:] == started
    assert lab.status("a-1") is JobStatus.RUNNABLE
    lab.put(PutEnvironment("env", 4), at=62)
    assert lab.status("a-1") is JobStatus.SCHEDULED


@pytest.mark.parametrize("blocking", list(Blocking))
def test_a_blocked_queue_never_blocks_another_one(make_lab: MakeLab, blocking: Blocking) -> None:
    lab = make_lab(2, options=options(blocking))
    lab.put(PutQueue("first", "env", priority=9))
    lab.submit("large", demand=3, queue="first")
    lab.submit("small")
    lab.to(0)
    assert lab.started() == ["small"]


@pytest.mark.parametrize("blocking", list(Blocking))
def test_one_head_is_told_of_whatever_it_holds_up(make_lab: MakeLab, blocking: Blocking) -> None:
    lab = make_lab(4, {"A": "1", "B": "3"}, options=options(blocking))
    for job_id, share in (("a", "A"), ("b", "B")):
        lab.submit(job_id, share, demand=5)
    lab.to(0)
    assert [notice.job_id for notice in lab.engine.take_notices()] == ["a"]
