"""Preemption by a queue with quota shares: who is stopped, when, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.model import CapacityLimit, JobStatus, QuotaSharePolicy, SharingStrategy
from fairshare.scheduler.driver import settle
from fairshare.scheduler.engine import (
    AttemptRecord,
    Blocking,
    Engine,
    EngineJob,
    EngineOptions,
    JobSubmission,
    Preemption,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    RetryAction,
    RetryRule,
    StopOrder,
    VictimRule,
)
from fairshare.scheduler.jobs import RECENT_PREEMPTIONS
from fairshare.scheduler.quota import QuotaQueue

MakeLab = Callable[..., Any]

CROSS = "Cross-share preemption triggered to reclaim borrowed capacity"


def lent(make_quota_lab: MakeLab, *, own: int = 2, borrowed: int = 2, rule: str = "lowest-priority") -> Any:
    """A lab where ``owner`` has lent what it owns to ``guest``, which owns as many as named."""
    lab = make_quota_lab(own + borrowed, EngineOptions(victim_rule=VictimRule(rule)))
    lab.share("guest", own)
    lab.share("owner", borrowed, "LEND")
    return lab


# -- whom --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        ("lowest-priority", ["young low", "old low", "large", "old high"]),
        ("latest-start", ["large", "young low", "old low", "old high"]),
        ("largest", ["large", "young low", "old low", "old high"]),
    ],
)
def test_the_victim_rule_decides_who_goes_first(make_quota_lab: MakeLab, rule: str, order: list[str]) -> None:
    lab = lent(make_quota_lab, own=1, borrowed=7, rule=rule)
    lab.job("own", "guest", priority=99)
    lab.job("old high", "guest", priority=50)
    lab.job("old low", "guest", priority=1)
    lab.run("own", "old high", "old low", at=10)
    lab.job("young low", "guest", 2, priority=1, at=20)
    lab.run("young low", at=20)
    lab.job("large", "guest", 3, priority=2, at=30)
    lab.run("large", at=30)
    gone = []
    for number in range(7):
        lab.job(f"owner-{number}", "owner", at=100 + number)
        lab.to(100 + number)
        gone += lab.preempted()
    assert gone == order


def test_who_has_not_begun_to_run_goes_before_who_has(make_quota_lab: MakeLab) -> None:
    lab = lent(make_quota_lab)
    for number in range(4):
        lab.job(f"guest-{number}", "guest")
    lab.run("guest-1", "guest-2", "guest-3", at=5)
    lab.job("owner", "owner", at=10)
    lab.to(10)
    assert lab.preempted() == ["guest-0"]


def test_no_more_are_stopped_than_needed_and_none_twice(make_quota_lab: MakeLab) -> None:
    lab = lent(make_quota_lab, own=2, borrowed=4)
    for number in range(6):
        lab.job(f"guest-{number}", "guest")
    lab.to(0)
    lab.job("two", "owner", 2, at=10)
    lab.to(10)
    assert lab.preempted() == ["guest-5", "guest-4"]
    lab.engine.update("guest-0", 7, 11_000)
    lab.to(15)
    assert lab.preempted() == []
    lab.job("one", "owner", 1, at=16)
    lab.to(16)
    assert lab.preempted() == ["guest-3"]
    lab.to(36)
    assert lab.use() == {"guest": {"g5": 3}, "owner": {"g5": 3}}


def test_nobody_is_stopped_unless_that_makes_room_for_the_whole_job(make_quota_lab: MakeLab) -> None:
    """Limits promise more than there is, and what is lent is less than the owner's job needs."""
    lab = make_quota_lab(4)
    lab.share("guest", 1)
    lab.share("owner", 4, "LEND")
    lab.share("third", 2, "RESERVE")
    for number in range(2):
        lab.job(f"third-{number}", "third")
    lab.to(0)
    for number in range(2):
        lab.job(f"guest-{number}", "guest", at=1)
    lab.to(1)
    assert lab.use() == {"guest": {"g5": 2}, "third": {"g5": 2}}
    lab.job("three", "owner", 3, at=2)
    lab.to(100)
    assert lab.preempted() == []


def test_a_share_is_not_taken_below_its_own_but_for_the_overshoot_of_one_job(make_quota_lab: MakeLab) -> None:
    lab = lent(make_quota_lab, own=4, borrowed=4)
    for number in range(4):
        lab.job(f"pair-{number}", "guest", 2)
    lab.to(0)
    lab.job("three", "owner", 3, at=10)
    lab.to(30)
    assert lab.use() == {"guest": {"g5": 4}, "owner": {"g5": 3}}
    one = make_quota_lab(5)
    one.share("guest", 2)
    one.share("owner", 3, "LEND")
    one.job("five", "guest", 5)
    one.to(0)
    one.job("owner", "owner", at=10)
    one.to(30)
    assert one.use() == {"owner": {"g5": 1}}


def test_a_lowered_limit_makes_jobs_preemptible_but_stops_nothing_by_itself(make_quota_lab: MakeLab) -> None:
    """Capacity limit restoration: also for shares that never borrow."""
    lab = make_quota_lab(4)
    lab.share("A", 4, "RESERVE")
    lab.share("B", 4, "LEND")
    for number in range(4):
        lab.job(f"a-{number}", "A")
    lab.to(0)
    lab.share("A", 1, "RESERVE", at=10)
    lab.to(50)
    assert (lab.use(), lab.preempted()) == ({"A": {"g5": 4}}, [])
    lab.job("b", "B", 2, at=60)
    lab.to(80)
    assert lab.use() == {"A": {"g5": 2}, "B": {"g5": 2}}


def test_only_jobs_of_a_type_that_is_short_are_stopped(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab({"g5": 2, "p5": 2})
    lab.share("guest", {"g5": 1, "p5": 1})
    lab.share("owner", {"g5": 1, "p5": 1}, "LEND")
    for kind in ("p5", "g5", "p5", "g5"):
        lab.job(f"{kind}-{len(list(lab.engine.jobs()))}", "guest", {kind: 1})
    lab.to(0)
    lab.job("owner", "owner", {"p5": 1}, at=10)
    lab.to(10)
    assert lab.preempted() == ["p5-2"]


def test_borrowing_gives_way_to_owners_also_while_they_wait_for_a_stop(make_quota_lab: MakeLab) -> None:
    """What is freed piece by piece is not lent again, and the preempted job, now the oldest, does not take it."""
    lab = make_quota_lab(6)
    lab.share("guest", 1)
    lab.share("other guest", 1)
    lab.share("owner", 4, "LEND")
    lab.stop_takes = None
    for number in range(5):
        lab.job(f"guest-{number}", "guest")
    lab.job("other", "other guest")
    lab.to(0)
    lab.job("four", "owner", 4, at=10)
    lab.job("waiting guest", "other guest", at=11)
    lab.to(11)
    assert len(lab.preempted()) == 4
    for number in (4, 3, 2, 1):
        assert lab.status("four") is JobStatus.RUNNABLE
        lab.fail(f"guest-{number}", at=30 - number, reason="stopped")
    assert lab.use() == {"guest": {"g5": 1}, "other guest": {"g5": 1}, "owner": {"g5": 4}}


# -- in-share ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("preempts", "priority", "victims"), [(True, 6, ["j"]), (True, 5, []), (False, 9, [])])
def test_in_share_preemption_is_opt_in_and_needs_a_higher_priority(
    make_quota_lab: MakeLab, preempts: bool, priority: int, victims: list[str]
) -> None:
    lab = make_quota_lab(1)
    lab.share("A", 1, "RESERVE", preempts=preempts)
    lab.job("j", "A", priority=5)
    lab.to(0)
    lab.job("new", "A", priority=priority, at=10)
    lab.to(10)
    assert lab.preempted() == victims


def test_the_priority_of_a_job_that_runs_may_be_lowered_to_let_others_pass(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(1)
    lab.share("A", 1, "RESERVE", preempts=True)
    lab.job("j", "A", priority=5)
    lab.job("waiting", "A", priority=3)
    lab.to(0)
    lab.engine.update("j", 2, 10_000)
    lab.to(30)
    assert lab.in_use() == {"waiting"}


def test_an_owner_takes_back_what_is_lent_before_it_displaces_its_own(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(3)
    lab.share("guest", 1)
    lab.share("owner", 2, "LEND", preempts=True)
    lab.job("low", "owner", priority=1)
    for number in range(2):
        lab.job(f"guest-{number}", "guest", priority=9)
    lab.to(0)
    lab.job("high", "owner", priority=9, at=10)
    lab.job("higher", "owner", priority=10, at=20)
    lab.to(10)
    assert lab.preempted() == ["guest-1"]
    lab.to(20)
    assert lab.preempted() == ["low"]
    lab.to(60)
    assert lab.in_use() == {"guest-0", "high", "higher"}


def test_a_borrower_displaces_within_its_share_where_nothing_is_idle(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(4)
    lab.share("guest", 2, preempts=True)
    lab.share("owner", 2, "LEND")
    lab.job("small", "guest", 2, priority=1)
    lab.job("other", "guest", 2, priority=5)
    lab.to(0)
    lab.job("large", "guest", 3, priority=3, at=10)
    lab.job("huge", "guest", 4, priority=6, at=20)
    lab.to(10)
    assert lab.preempted() == []
    lab.to(20)
    assert lab.preempted() == ["small", "other"]
    lab.to(50)
    assert lab.in_use() == {"huge"}


def test_nobody_fills_the_room_that_was_made_for_a_job_of_higher_priority(make_quota_lab: MakeLab) -> None:
    """With backfill the jobs just stopped would begin again, be stopped again, and so on without end."""
    lab = make_quota_lab(3, EngineOptions(blocking=Blocking.NONE))
    lab.share("guest", 2, preempts=True)
    lab.share("owner", 1, "LEND")
    for number in range(3):
        lab.job(f"small-{number}", "guest", priority=1)
    lab.to(0)
    lab.job("large", "guest", 3, priority=6, at=10)
    lab.to(10)
    assert lab.preempted() == ["small-2", "small-1", "small-0"]
    lab.to(30)
    assert lab.in_use() == {"large"}
    assert lab.preempted() == []


def crossing(make_quota_lab: MakeLab, stop_takes: float) -> Any:
    """Two shares whose large jobs borrow of each other what the small jobs behind them are owed."""
    lab = make_quota_lab({"c5": 2, "p4d": 2})
    lab.stop_takes = stop_takes
    lab.share("A", {"c5": 1, "p4d": 1})
    lab.share("B", {"c5": 1, "p4d": 1})
    lab.job("first of A", "A", {"c5": 1}, runs=3600)
    lab.job("first of B", "B", {"p4d": 1}, runs=3600)
    lab.job("large of A", "A", {"c5": 2}, runs=3600)
    lab.job("large of B", "B", {"p4d": 2}, runs=3600)
    lab.job("small of B", "B", {"c5": 1}, runs=3600)
    lab.job("small of A", "A", {"p4d": 1}, runs=3600)
    return lab


@pytest.mark.parametrize("stop_takes", [0, 20, 120])
def test_what_was_taken_back_goes_to_the_job_it_was_taken_back_for(make_quota_lab: MakeLab, stop_takes: float) -> None:
    """The large jobs are first of their shares again; served first, all four would begin and stop without end."""
    lab = crossing(make_quota_lab, stop_takes)
    lab.to(3600)
    lab.to(3600 + stop_takes)
    assert lab.preempted() == ["large of A", "large of B"]
    assert lab.in_use() == {"small of A", "small of B"}
    lab.to(20_000)
    assert lab.preempted() == []
    assert {job.id for job in lab.engine.jobs() if job.status is JobStatus.SUCCEEDED} == {
        *("first of A", "first of B", "large of A", "large of B", "small of A", "small of B")
    }


# -- what becomes of it ------------------------------------------------------------------------------------------------


def test_a_preempted_job_waits_in_its_old_place_and_its_attempt_is_kept_apart(make_quota_lab: MakeLab) -> None:
    lab = lent(make_quota_lab, own=1, borrowed=1)
    lab.job("a", "guest", priority=9)
    lab.job("b", "guest")
    lab.run("b", at=5)
    lab.job("younger", "guest", at=6)
    lab.job("owner", "owner", at=10)
    lab.to(10)
    assert lab.engine.take_stops() == []
    assert lab.stopped == [("b", 10)]
    assert lab.status("b") is JobStatus.RUNNING
    lab.to(30)
    job = lab.engine.job("b")
    assert (job.status, job.attempts, job.attempt, job.preempted_count) == (JobStatus.RUNNABLE, (), 1, 1)
    assert job.preempted_attempts == (AttemptRecord(1, 0, 5000, 30_000, CROSS),)
    assert [job_id for job_id, _ in lab.engine.snapshot("q").front] == ["b", "younger"]
    lab.finish("owner", at=40)
    assert (lab.status("b"), job.attempt) == (JobStatus.SCHEDULED, 2)


def test_stop_orders_say_that_they_are_preemptions(make_quota_lab: MakeLab) -> None:
    lab = lent(make_quota_lab, own=1, borrowed=1)
    lab.job("a", "guest", priority=9)
    lab.job("b", "guest")
    lab.to(0)
    lab.job("owner", "owner", at=10)
    lab.engine.advance(10_000)
    assert lab.engine.take_stops() == [StopOrder("b", 1, 10_000, CROSS, Preemption.CROSS_SHARE)]


@pytest.mark.parametrize(("retries", "runs"), [(0, 1), (1, 2), (3, 4), (None, 6)])
def test_preemption_retries_before_termination(make_quota_lab: MakeLab, retries: int | None, runs: int) -> None:
    """API_ServiceJobPreemptionConfiguration: 0 = ended at the first preemption; unset = queued again without limit."""
    lab = lent(make_quota_lab, own=1, borrowed=1)
    lab.job("a", "guest", priority=9)
    lab.job("b", "guest", retries=retries, attempts=1)
    for number in range(5):
        lab.job(f"owner-{number}", "owner", at=100 + 100 * number, runs=50)
    lab.to(590)
    job = lab.engine.job("b")
    assert job.attempt == runs
    if retries is None:
        assert (job.status, job.preempted_count) == (JobStatus.SCHEDULED, 5)
    else:
        assert (job.status, job.status_reason) == (JobStatus.FAILED, CROSS)
        assert (job.attempts, job.preempted_count, job.is_terminated) == ((), runs, False)


def test_preemptions_use_no_attempts_and_attempts_no_preemption_retries(make_quota_lab: MakeLab) -> None:
    rules = (RetryRule(RetryAction.RETRY, "*"),)
    lab = lent(make_quota_lab, own=1, borrowed=1)
    lab.job("a", "guest", priority=9)
    lab.job("b", "guest", retries=1, attempts=2, rules=rules)
    lab.job("owner", "owner", at=10, runs=10)
    lab.to(100)
    lab.fail("b", at=110, reason="AlgorithmError: x")
    assert lab.status("b") is JobStatus.SCHEDULED
    lab.fail("b", at=120, reason="AlgorithmError: y")
    job = lab.engine.job("b")
    assert (job.status, job.attempt) == (JobStatus.FAILED, 3)
    assert [attempt.number for attempt in job.attempts] == [2, 3]
    assert [attempt.number for attempt in job.preempted_attempts] == [1]


def test_only_the_most_recent_preempted_attempts_are_remembered(make_quota_lab: MakeLab) -> None:
    lab = lent(make_quota_lab, own=1, borrowed=1)
    lab.job("a", "guest", priority=9)
    lab.job("b", "guest")
    for number in range(RECENT_PREEMPTIONS + 2):
        lab.job(f"owner-{number}", "owner", at=100 * (number + 1), runs=50)
    lab.to(10_000)
    job = lab.engine.job("b")
    assert job.preempted_count == RECENT_PREEMPTIONS + 2
    assert [attempt.number for attempt in job.preempted_attempts] == list(range(3, RECENT_PREEMPTIONS + 3))


def preempting(make_quota_lab: MakeLab, **job: Any) -> Any:
    """A lab where ``b`` is being preempted from second 10 on, and does not stop by itself."""
    lab = lent(make_quota_lab, own=1, borrowed=1)
    lab.stop_takes = None
    lab.job("a", "guest", priority=9)
    lab.job("b", "guest", **job)
    lab.run("b", at=5)
    lab.job("owner", "owner", at=10)
    lab.to(10)
    return lab


def test_a_job_that_succeeds_before_it_is_stopped_has_succeeded(make_quota_lab: MakeLab) -> None:
    lab = preempting(make_quota_lab)
    lab.finish("b", at=12)
    job = lab.engine.job("b")
    assert (job.status, job.status_reason, job.stop_reason, job.preempted_count) == (JobStatus.SUCCEEDED, None, None, 0)
    assert lab.status("owner") is JobStatus.SCHEDULED
    assert [notice.is_completed for notice in lab.engine.take_preemptions()] == [False]


def test_a_job_terminated_while_it_is_preempted_ends(make_quota_lab: MakeLab) -> None:
    lab = preempting(make_quota_lab)
    lab.engine.terminate("b", "not needed", 11_000)
    lab.to(11)
    assert lab.stopped == [("b", 10)]
    lab.fail("b", at=30, reason="stopped")
    job = lab.engine.job("b")
    assert (job.status, job.status_reason, job.is_terminated) == (JobStatus.FAILED, "not needed", True)
    assert (len(job.attempts), job.preempted_attempts) == (1, ())


def test_a_time_out_while_it_is_preempted_changes_nothing(make_quota_lab: MakeLab) -> None:
    lab = preempting(make_quota_lab, duration=10)
    lab.to(16)
    lab.fail("b", at=30, reason="stopped")
    assert (lab.status("b"), lab.engine.job("b").preempted_count) == (JobStatus.RUNNABLE, 1)


def test_who_is_being_stopped_for_another_reason_makes_room_without_further_victims(make_quota_lab: MakeLab) -> None:
    lab = lent(make_quota_lab, own=1, borrowed=2)
    lab.stop_takes = None
    for number in range(3):
        lab.job(f"guest-{number}", "guest")
    lab.to(0)
    lab.engine.terminate("guest-0", "not needed", 5000)
    lab.job("owner", "owner", at=10)
    lab.to(10)
    assert lab.preempted() == []


class StopsAtOnce:
    """Jobs run for ever, and end at the instant at which they are stopped."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def start(self, job: EngineJob, at: int) -> None: ...

    def stop(self, job: EngineJob, at: int) -> None:
        self.engine.report(job.id, job.attempt, JobStatus.FAILED, at)


def test_a_mistake_of_the_model_fails_and_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mistake of old, that jobs fill the room just made for another, they begin and are stopped for ever."""
    monkeypatch.setattr(QuotaQueue, "_fills_behind", lambda self, share: True)
    monkeypatch.setattr("fairshare.scheduler.engine.MOST_FUTILE", 50)
    engine = Engine(EngineOptions(blocking=Blocking.NONE))
    limits = (CapacityLimit(3, "ml.g5.xlarge"),)
    engine.reconfigure(PutEnvironment("env", 3, capacity_limits=limits), 0)
    engine.reconfigure(PutQueue("q", "env", policy=QuotaSharePolicy()), 0)
    own = (CapacityLimit(2, "ml.g5.xlarge"),)
    engine.reconfigure(PutQuotaShare("guest", "q", own, SharingStrategy.LEND_AND_BORROW, in_share_preemption=True), 0)
    rest = (CapacityLimit(1, "ml.g5.xlarge"),)
    engine.reconfigure(PutQuotaShare("owner", "q", rest, SharingStrategy.LEND), 0)
    engine.advance(0)
    for number, (size, priority, at) in enumerate(((1, 1, 0), (1, 1, 0), (1, 1, 0), (3, 6, 10))):
        engine.submit(
            JobSubmission(
                f"job-{number}",
                "q",
                size,
                scheduling_priority=priority,
                quota_share="guest",
                demand_by_type=(("ml.g5.xlarge", size),),
            ),
            at,
        )
    with pytest.raises(RuntimeError, match="begins and preempts the same jobs without end at 10 ms"):
        settle(engine, StopsAtOnce(engine), 20)
