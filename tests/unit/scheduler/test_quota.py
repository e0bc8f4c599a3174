"""Quota shares: what they own, lend and borrow, their states, and what cannot be configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.model import CapacityLimit, FairsharePolicy, JobStatus, QuotaSharePolicy, SharingStrategy
from fairshare.scheduler.engine import (
    Blocking,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    RemoveQuotaShare,
    TimeLimit,
)

MakeLab = Callable[..., Any]

G5 = (CapacityLimit(4, "g5"),)


def burst(lab: Any, share: str, number: int, at: float = 0, **job: Any) -> list[str]:
    """Submit jobs ``<share>-<instant>-<number>``."""
    return [lab.job(f"{share}-{at}-{index}", share, at=at, **job) for index in range(number)]


# -- own capacity, lending, borrowing ----------------------------------------------------------------------------------


def test_a_share_is_a_queue_of_its_own_a_blocked_one_does_not_hold_up_another(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(8)
    lab.share("A", 4, "RESERVE")
    lab.share("B", 4, "RESERVE")
    lab.job("too large", "A", 5)
    lab.job("behind it", "A", 1)
    lab.job("elsewhere", "B", 4)
    lab.to(0)
    assert lab.started() == ["elsewhere"]


def test_inside_a_share_priority_decides_then_age(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(1)
    lab.share("A", 1, "RESERVE")
    lab.job("running", "A", runs=60)
    lab.to(0)
    for job_id, priority in (("old", 1), ("older", 0), ("urgent", 9)):
        lab.job(job_id, "A", priority=priority, at=1, runs=60)
    lab.to(1000)
    assert lab.started() == ["running", "urgent", "old", "older"]


@pytest.mark.parametrize(("sharing", "borrowed"), [("RESERVE", 0), ("LEND", 4), ("LEND_AND_BORROW", 4)])
def test_what_is_idle_is_lent_or_stays_idle(make_quota_lab: MakeLab, sharing: str, borrowed: int) -> None:
    lab = make_quota_lab(8)
    lab.share("owner", 4, sharing)
    lab.share("borrower", 4)
    burst(lab, "borrower", 10)
    lab.to(0)
    assert lab.use() == {"borrower": {"g5": 4 + borrowed}}


@pytest.mark.parametrize("sharing", ["RESERVE", "LEND"])
def test_only_lend_and_borrow_borrows(make_quota_lab: MakeLab, sharing: str) -> None:
    lab = make_quota_lab(8)
    lab.share("owner", 4, "LEND")
    lab.share("other", 4, sharing)
    burst(lab, "other", 10)
    lab.to(0)
    assert lab.use() == {"other": {"g5": 4}}


@pytest.mark.parametrize(("limit", "held"), [(-1, 12), (0, 3), (33, 3), (34, 4), (100, 6), (1000, 12)])
def test_the_borrow_limit_is_a_percentage_of_the_own_limit_rounded_down(
    make_quota_lab: MakeLab, limit: int, held: int
) -> None:
    lab = make_quota_lab(12)
    lab.share("borrower", 3, borrow_limit=limit)
    lab.share("owner", 9, "LEND")
    burst(lab, "borrower", 20)
    lab.to(0)
    assert lab.use() == {"borrower": {"g5": held}}


def test_idle_capacity_goes_to_the_oldest_head_first(make_quota_lab: MakeLab) -> None:
    """FIFO idle assignment: what is ordered is the age of the heads (model)."""
    lab = make_quota_lab(6)
    lab.share("A", 1)
    lab.share("B", 1)
    lab.share("owner", 4, "RESERVE")
    for number in range(4):
        lab.job(f"a-{number}", "A", at=number)
        lab.job(f"b-{number}", "B", at=number + 0.5)
    lab.to(10)
    lab.share("owner", 4, "LEND", at=20)
    assert lab.started() == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2"]


def test_capacity_that_belongs_to_no_share_is_not_lent(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(20)
    lab.share("A", 2)
    lab.share("B", 3)
    burst(lab, "A", 20)
    lab.to(0)
    assert lab.use() == {"A": {"g5": 5}}


def test_a_job_of_several_types_needs_all_of_them(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab({"g5": 4, "p5": 2})
    lab.share("A", {"g5": 2, "p5": 1})
    lab.share("B", {"g5": 2, "p5": 1}, "LEND")
    lab.job("both", "A", {"g5": 3, "p5": 2})
    lab.job("p5", "B", {"p5": 1}, at=1)
    lab.to(1)
    assert lab.use() == {"A": {"g5": 3, "p5": 2}}
    assert lab.preempted() == ["both"]
    lab.to(30)
    assert lab.use() == {"B": {"p5": 1}}


def test_a_type_without_a_limit_waits_until_there_is_one(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(4)
    lab.share("A", {"g5": 4, "p5": 2})
    lab.job("p5", "A", {"p5": 1})
    lab.to(0)
    assert lab.engine.take_notices()[0].reason.startswith("MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE")
    lab.put(PutEnvironment("env", 0, capacity_limits=(*G5, CapacityLimit(1, "p5"))), at=5)
    assert lab.status("p5") is JobStatus.SCHEDULED


def test_limits_that_promise_more_than_there_is_are_first_come_first_served(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(4)
    for share in ("A", "B"):
        lab.share(share, 4, "RESERVE")
    first = burst(lab, "A", 3)
    burst(lab, "B", 3)
    lab.to(0)
    assert lab.use() == {"A": {"g5": 3}, "B": {"g5": 1}}
    lab.finish(*first, at=10)
    assert lab.use() == {"B": {"g5": 3}}
    assert lab.preempted() == []


def test_nothing_is_placed_or_preempted_in_a_disabled_environment(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(4)
    lab.share("A", 2)
    lab.share("B", 2)
    burst(lab, "A", 4)
    lab.to(0)
    lab.put(PutEnvironment("env", 0, enabled=False, capacity_limits=G5), at=1)
    burst(lab, "B", 1, at=2)
    lab.to(100)
    assert (lab.use(), lab.preempted()) == ({"A": {"g5": 4}}, [])
    lab.put(PutEnvironment("env", 0, capacity_limits=G5), at=200)
    lab.to(220)
    assert lab.use() == {"A": {"g5": 3}, "B": {"g5": 1}}


def test_a_job_that_came_back_for_lack_of_capacity_keeps_its_place(make_quota_lab: MakeLab) -> None:
    """Nobody borrows what it waits for, and nobody is preempted for it meanwhile."""
    lab = make_quota_lab(2, EngineOptions(capacity_backoff_ms=60_000))
    lab.share("A", 1)
    lab.share("B", 1)
    lab.job("b", "B")
    lab.to(0)
    burst(lab, "A", 2)
    lab.to(0)
    lab.fail("b", at=10, reason="CapacityError: none")
    assert lab.use() == {"A": {"g5": 1}}
    lab.to(70)
    assert (lab.use(), lab.preempted()) == ({"A": {"g5": 1}, "B": {"g5": 1}}, [])


@pytest.mark.parametrize(("blocking", "started"), [(Blocking.QUEUE, []), (Blocking.NONE, ["small"])])
def test_without_blocking_smaller_jobs_of_a_share_overtake(
    make_quota_lab: MakeLab, blocking: Blocking, started: list[str]
) -> None:
    lab = make_quota_lab(4, EngineOptions(blocking=blocking))
    lab.share("A", 4, "RESERVE")
    lab.job("running", "A", 2)
    lab.to(0)
    lab.job("large", "A", 3, at=1)
    lab.job("small", "A", 1, at=2)
    lab.to(2)
    assert lab.started()[1:] == started


# -- heads, snapshots --------------------------------------------------------------------------------------------------


def test_each_share_has_a_head_with_a_clock_of_its_own(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(8)
    code = "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED"
    lab.put(PutQueue("q", "env", policy=QuotaSharePolicy(), time_limits=(TimeLimit(code, 600_000),)))
    for share in ("A", "B"):
        lab.share(share, 2, "RESERVE")
        lab.job(f"too large for {share}", share, 3, at=0 if share == "A" else 100)
        lab.job(f"behind it in {share}", share, at=100)
    lab.to(599)
    assert lab.started() == []
    lab.to(600)
    assert lab.started() == ["behind it in A"]
    assert lab.engine.job("too large for A").status_reason == (
        f"Terminated by JobStateTimeLimit action due to reason: {code}"
    )
    lab.to(700)
    assert lab.started() == ["behind it in A", "behind it in B"]


def test_a_head_over_its_quota_runs_when_the_share_grows(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(4)
    lab.share("A", 2, "RESERVE")
    lab.job("three", "A", 3)
    lab.to(0)
    assert lab.engine.job("three").status_reason is not None
    lab.share("A", 3, "RESERVE", at=10)
    assert (lab.status("three"), lab.engine.job("three").status_reason) == (JobStatus.SCHEDULED, None)


def test_the_snapshot_has_the_front_of_the_queue_and_of_each_share(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(2)
    lab.share("A", 1, "RESERVE")
    lab.share("B", 1, "RESERVE")
    burst(lab, "A", 3)
    burst(lab, "B", 2, at=5)
    lab.job("urgent", "A", priority=9, at=9)
    lab.to(20)
    snapshot = lab.engine.snapshot("q")
    assert [job_id for job_id, _ in snapshot.front] == ["B-5-1", "urgent", "A-0-1", "A-0-2"]
    assert snapshot.front_of_quota_shares == {"A": ("urgent", 9000), "B": ("B-5-1", 9000)}
    assert lab.engine.snapshot("q", 2).front == snapshot.front[:2]


# -- states, deletion --------------------------------------------------------------------------------------------------


def test_a_disabled_share_takes_no_jobs_and_goes_on_with_those_it_has(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(1)
    lab.share("A", 1)
    for number in range(3):
        lab.job(f"job-{number}", "A", runs=60)
    lab.to(0)
    lab.share("A", 1, enabled=False, at=1)
    with pytest.raises(ValueError, match="quota share A is disabled: it takes no new jobs"):
        lab.job("new", "A", at=2)
    lab.to(1000)
    assert lab.started() == ["job-0", "job-1", "job-2"]


def test_deleting_a_share_ends_its_jobs_and_frees_its_name(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(2)
    lab.share("A", 1)
    lab.share("B", 1, "RESERVE")
    lab.job("running", "A")
    lab.job("waiting", "A")
    lab.job("later", "A", at=1000)
    lab.job("other", "B")
    lab.to(0)
    lab.put(RemoveQuotaShare("A", "q"), at=10)
    assert [lab.status(job_id) for job_id in ("waiting", "later", "other")] == [
        JobStatus.FAILED,
        JobStatus.FAILED,
        JobStatus.SCHEDULED,
    ]
    with pytest.raises(ValueError, match="quota share A is being deleted"):
        lab.job("new", "A", at=11)
    with pytest.raises(ValueError, match="quota share A is being deleted"):
        lab.share("A", 1, at=11)
    lab.to(30)
    assert lab.engine.job("running").status_reason == "Quota share deleted"
    with pytest.raises(ValueError, match="queue q has no quota share A"):
        lab.job("new", "A", at=31)
    lab.share("A", 1, at=40)
    lab.job("new", "A", at=41)
    lab.to(41)
    assert lab.status("new") is JobStatus.SCHEDULED
    lab.put(RemoveQuotaShare("nobody", "q"), at=50)


def test_what_a_deleted_share_lent_is_no_longer_lent(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(4)
    lab.share("A", 2)
    lab.share("B", 2, "LEND")
    lab.put(RemoveQuotaShare("B", "q"), at=1)
    burst(lab, "A", 4, at=2)
    lab.to(2)
    assert lab.use() == {"A": {"g5": 2}}


# -- what cannot be ----------------------------------------------------------------------------------------------------


def put(name: str = "A", **terms: Any) -> PutQuotaShare:
    given = {"queue": "q", "capacity_limits": G5, "sharing": SharingStrategy.LEND, **terms}
    return PutQuotaShare(name, **given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(capacity_limits=()), "quota share A has 0 capacity limits, not 1 to 5"),
        (
            put(capacity_limits=tuple(CapacityLimit(1, str(n)) for n in range(6))),
            "quota share A has 6 capacity limits, not 1 to 5",
        ),
        (put(capacity_limits=(*G5, *G5)), "two capacity limits for g5"),
        (put(capacity_limits=(CapacityLimit(-1, "g5"),)), "a capacity limit of -1 for g5 is below 0"),
        (put(borrow_limit=100), "quota share A has a borrow limit, which only LEND_AND_BORROW shares have"),
        (put(borrow_limit=-2), "a borrow limit of -2 per cent is below -1, which means none"),
        (put(queue="fifo"), "queue fifo has no quota shares: its policy is of another kind"),
        (put("21st"), "queue q has 20 quota shares: a queue has no more"),
        (RemoveQuotaShare("A", "fifo"), "queue fifo has no quota shares: its policy is of another kind"),
        (
            PutQueue("new", "plain", policy=QuotaSharePolicy()),
            "queue new has quota shares: environment plain must have limits by instance type",
        ),
        (
            PutQueue("new", "env", policy=QuotaSharePolicy()),
            "environment env serves queue q: one with limits by instance type serves one queue",
        ),
        (
            PutQueue("new", "env", policy=FairsharePolicy()),
            "environment env has limits by instance type: only a queue with quota shares can use it, and new has none",
        ),
        (PutQueue("q", "env", policy=FairsharePolicy()), "queue q keeps its kind"),
        (PutEnvironment("env", 8), "environment env serves a queue: it goes on counting as it does"),
    ],
)
def test_changes_that_cannot_be_made_change_nothing(make_quota_lab: MakeLab, change: Any, message: str) -> None:
    lab = make_quota_lab(4)
    lab.put(PutEnvironment("plain", 4), PutQueue("fifo", "plain"))
    for number in range(20):
        lab.share(f"share-{number}", 1)
    with pytest.raises(ValueError, match=message):
        lab.put(change, at=1)
    lab.job("j", "share-0", at=2)
    lab.to(2)
    assert lab.status("j") is JobStatus.SCHEDULED


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({}, r"queue q has no quota share \(none was named\)"),
        ({"quota_share": "Z"}, "queue q has no quota share Z"),
        ({"quota_share": "A"}, "a job of 2 instances needs as many by type in a queue with quota shares"),
        (
            {"quota_share": "A", "demand_by_type": (("g5", 1),)},
            "a job of 2 instances needs as many by type in a queue with quota shares",
        ),
        (
            {"quota_share": "A", "demand_by_type": (("g5", 3), ("p5", -1))},
            "a job needs at least 1 instance of p5, not -1",
        ),
        ({"quota_share": "A", "demand_by_type": (("g5", 1), ("g5", 1))}, "a job names instance type g5 twice"),
        ({"quota_share": "A", "preemption_retries": -1}, "a job has 0 preemption retries or more, not -1"),
    ],
)
def test_jobs_that_a_queue_with_quota_shares_cannot_take(make_quota_lab: MakeLab, job: Any, message: str) -> None:
    lab = make_quota_lab(4)
    lab.share("A", 4)
    with pytest.raises(ValueError, match=message):
        lab.engine.submit(JobSubmission("j", "q", 2, **job), 0)
