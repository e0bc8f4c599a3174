"""The head of a queue: why it is blocked, what is said about it, and time limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.engine import BlockedNotice, PutEnvironment, PutQueue, TimeLimit

MakeLab = Callable[..., Any]
MakePolicy = Callable[..., FairsharePolicy]

CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
MISCONFIGURATION = "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE"
NO_CAPACITY = f"{CAPACITY} - Unable to provision requested compute resources"
TOO_LARGE = (
    f"{MISCONFIGURATION} - Service environment(s) associated with the job queue cannot meet the capacity requirement "
    "of the job."
)


def fifo(**limits: float) -> PutQueue:
    """Queue ``q`` with limits in seconds: ``capacity``, ``misconfiguration``."""
    codes = {"capacity": CAPACITY, "misconfiguration": MISCONFIGURATION}
    return PutQueue("q", "env", time_limits=tuple(TimeLimit(codes[name], int(t * 1000)) for name, t in limits.items()))


def lack_capacity(lab: Any, job_id: str, at: float) -> None:
    lab.fail(job_id, at=at, reason="CapacityError: no p5")


# -- what is said ------------------------------------------------------------------------------------------------------


def test_a_head_that_can_never_fit_is_told_of_once(make_lab: MakeLab) -> None:
    """Job stuck in RUNNABLE: AWS's example is a limit of 10 and a job of 11 instances."""
    lab = make_lab(10)
    lab.submit("eleven", demand=11, at=5)
    lab.submit("one", at=6)
    lab.to(10)
    assert lab.engine.take_notices() == [BlockedNotice("eleven", "q", TOO_LARGE, 5000)]
    assert lab.engine.take_notices() == []
    assert lab.engine.job("eleven").status_reason == TOO_LARGE
    lab.submit("two", at=20)
    lab.to(20)
    assert lab.engine.take_notices() == []


def test_only_the_head_is_told_of(make_lab: MakeLab) -> None:
    lab = make_lab(2)
    lab.submit("running", demand=2)
    lab.submit("waiting")
    lab.submit("too large", demand=3)
    lab.to(1)
    assert lab.engine.take_notices() == []
    assert lab.engine.job("too large").status_reason is None
    lab.finish("running", at=2)
    assert lab.engine.take_notices() == [BlockedNotice("too large", "q", TOO_LARGE, 2000)]


def test_a_head_is_told_of_while_the_pool_is_full_or_disabled(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("running")
    lab.to(0)
    lab.submit("too large", demand=2, at=1)
    lab.to(1)
    assert len(lab.engine.take_notices()) == 1
    other = make_lab(1)
    other.put(PutEnvironment("env", 1, enabled=False))
    other.submit("too large", demand=2, at=1)
    other.to(1)
    assert len(other.engine.take_notices()) == 1


def test_a_head_that_waits_for_others_or_for_the_reservation_is_not_blocked(make_lab: MakeLab) -> None:
    """Facts 11.2: a head larger than what is usable but not than the limit simply waits."""
    lab = make_lab(8, {}, reservation=50)
    lab.submit("five", "A", demand=5)
    lab.to(100)
    assert lab.engine.take_notices() == []
    assert (lab.status("five"), lab.engine.job("five").status_reason) == (JobStatus.RUNNABLE, None)


def test_the_reason_goes_when_the_limit_is_raised_or_another_job_is_the_head(make_lab: MakeLab) -> None:
    lab = make_lab(2, {"S": "1"})
    lab.submit("running", "S", demand=2)
    lab.submit("three", "S", demand=3, at=1)
    lab.to(1)
    lab.put(PutEnvironment("env", 3), at=2)
    assert lab.engine.job("three").status_reason is None
    lab.put(PutEnvironment("env", 2), at=3)
    assert lab.engine.job("three").status_reason == TOO_LARGE
    lab.submit("urgent", "S", priority=1, at=4)
    lab.to(4)
    assert lab.engine.job("three").status_reason is None
    assert [notice.at for notice in lab.engine.take_notices()] == [1000, 3000]


def test_each_stay_at_the_head_is_told_of(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    lab.submit("two", "S", demand=2)
    lab.to(0)
    lab.engine.update("two", 0, 1000)
    lab.submit("urgent", "S", demand=3, priority=1, at=2)
    lab.to(2)
    lab.engine.terminate("urgent", "not needed", 3000)
    lab.to(3)
    assert [(notice.job_id, notice.at) for notice in lab.engine.take_notices()] == [
        ("two", 0),
        ("urgent", 2000),
        ("two", 3000),
    ]


def test_a_head_that_lacks_capacity_is_told_of_once_however_often_it_is_tried(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    lab.to(0)
    for at in (10, 20, 30):
        lack_capacity(lab, "j", at)
        lab.to(at + 1)
    assert lab.engine.take_notices() == [BlockedNotice("j", "q", NO_CAPACITY, 10_000)]


def test_each_queue_has_a_head(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(PutQueue("p", "env", priority=9))
    lab.submit("in-q", demand=2)
    lab.submit("in-p", demand=2, queue="p")
    lab.to(0)
    assert [(notice.job_id, notice.queue) for notice in lab.engine.take_notices()] == [("in-p", "p"), ("in-q", "q")]


def test_a_head_that_ends_leaves_no_event_behind(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(fifo(misconfiguration=600))
    lab.submit("too large", demand=2)
    lab.to(0)
    lab.engine.terminate("too large", "not needed", 1000)
    lab.to(1)
    assert lab.engine.next_event_at() is None


# -- time limits -------------------------------------------------------------------------------------------------------


def test_a_head_that_can_never_fit_is_ended_and_the_next_job_goes(make_lab: MakeLab) -> None:
    lab = make_lab(10)
    lab.put(fifo(misconfiguration=600))
    lab.submit("eleven", demand=11, at=5)
    lab.submit("one", at=6)
    lab.to(6)
    assert lab.engine.next_event_at() == 605_000
    lab.to(604.999)
    assert lab.status("eleven") is JobStatus.RUNNABLE
    lab.to(605)
    job = lab.engine.job("eleven")
    assert (job.status, job.is_terminated, job.attempts) == (JobStatus.FAILED, True, ())
    assert job.status_reason == f"Terminated by JobStateTimeLimit action due to reason: {MISCONFIGURATION}"
    assert [(entry.job_id, entry.to_status) for entry in lab.log[-2:]] == [
        ("eleven", JobStatus.FAILED),
        ("one", JobStatus.SCHEDULED),
    ]
    assert lab.engine.next_event_at() is None


def test_several_heads_end_one_after_the_other(make_lab: MakeLab) -> None:
    """The clock of the second starts when it gets to the head."""
    lab = make_lab(1)
    lab.put(fifo(misconfiguration=600))
    for number in range(3):
        lab.submit(f"job-{number}", demand=2)
    lab.to(10_000)
    assert [lab.engine.job(f"job-{number}").stopped_at for number in range(3)] == [600_000, 1_200_000, 1_800_000]


def test_a_limit_for_another_reason_does_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(fifo(capacity=600))
    lab.submit("too large", demand=2)
    lab.to(10_000)
    assert lab.status("too large") is JobStatus.RUNNABLE


def test_a_head_that_waits_for_others_is_never_ended(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(fifo(capacity=600, misconfiguration=600))
    lab.submit("running")
    lab.submit("waiting")
    lab.to(100_000)
    assert lab.status("waiting") is JobStatus.RUNNABLE


def test_time_in_scheduled_counts_when_it_ends_for_lack_of_capacity(make_lab: MakeLab) -> None:
    """Job stuck in RUNNABLE: the clock goes on through attempts to get capacity."""
    lab = make_lab(1)
    lab.put(fifo(capacity=600))
    lab.submit("j")
    lab.submit("next", at=1)
    lab.to(0)
    lack_capacity(lab, "j", 500)
    assert lab.engine.next_event_at() == 501_000
    lab.to(599)
    assert lab.status("j") is JobStatus.SCHEDULED
    lab.to(650)
    assert lab.status("j") is JobStatus.SCHEDULED  # not while it may still get what it asked for
    lack_capacity(lab, "j", 700)
    job = lab.engine.job("j")
    assert (job.status, job.stopped_at) == (JobStatus.FAILED, 700_000)
    assert job.status_reason == f"Terminated by JobStateTimeLimit action due to reason: {CAPACITY}"
    assert lab.started()[-1] == "next"


def test_a_head_that_waits_between_two_tries_is_ended_when_the_time_comes(make_lab: MakeLab) -> None:
    """Here its environment is disabled when it comes back."""
    lab = make_lab(2)
    lab.put(fifo(capacity=600))
    lab.submit("j", demand=2)
    lab.to(0)
    lab.put(PutEnvironment("env", 2, enabled=False), at=1)
    lack_capacity(lab, "j", 500)
    lab.to(599.999)
    assert lab.status("j") is JobStatus.RUNNABLE
    lab.to(600)
    assert lab.status("j") is JobStatus.FAILED


def test_the_limit_is_watched_again_after_another_try(make_lab: MakeLab) -> None:
    """The same job, the same instant, but another dispatch in between made the first event void."""
    lab = make_lab(1)
    lab.put(fifo(capacity=600))
    lab.submit("j")
    lab.to(0)
    lack_capacity(lab, "j", 100)
    lab.to(101)
    lab.put(PutEnvironment("env", 1, enabled=False), at=150)
    lack_capacity(lab, "j", 200)
    assert lab.engine.next_event_at() == 201_000
    lab.to(599)
    assert lab.status("j") is JobStatus.RUNNABLE
    lab.to(600)
    assert lab.status("j") is JobStatus.FAILED


def test_the_clock_starts_anew_when_another_job_was_at_the_head(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    lab = make_lab(1, {"S": "1"})
    limits = (TimeLimit(MISCONFIGURATION, 600_000),)
    lab.put(PutQueue("q", "env", policy=make_policy({"S": "1"}), time_limits=limits))
    lab.submit("two", "S", demand=2)
    lab.to(0)
    lab.submit("urgent", "S", demand=3, priority=1, at=500)
    lab.to(500)
    lab.engine.terminate("urgent", "not needed", 550_000)
    lab.to(1149.999)
    assert lab.status("two") is JobStatus.RUNNABLE
    lab.to(1150)
    assert lab.status("two") is JobStatus.FAILED


def test_the_clock_starts_anew_when_a_job_comes_back_behind_another(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    """A's use counts while it is SCHEDULED, so B is at the head when A's job comes back."""
    lab = make_lab(1, {"A": "1", "B": "1"})
    limits = (TimeLimit(CAPACITY, 600_000),)
    lab.put(PutQueue("q", "env", policy=make_policy({"A": "1", "B": "1"}), time_limits=limits))
    lab.submit("a", "A")
    lab.to(0)
    for number in range(2):
        lab.submit(f"b-{number}", "B", at=1)
    lack_capacity(lab, "a", 590)
    assert (lab.started(), lab.engine.job("a").head_since) == (["a", "b-0"], None)
    lab.finish("b-0", at=700)
    assert (lab.started(), lab.engine.job("a").head_since) == (["a", "b-0", "b-1"], 700_000)
    lab.to(1299.999)
    assert lab.status("a") is JobStatus.RUNNABLE
    lab.to(1300)
    assert lab.status("a") is JobStatus.FAILED


def test_a_failure_that_uses_an_attempt_starts_the_clock_anew(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(fifo(capacity=600))
    lab.submit("j", attempts=2)
    lab.to(0)
    lab.fail("j", at=500)
    assert lab.engine.job("j").head_since == 500_000
    lack_capacity(lab, "j", 700)
    assert lab.status("j") is JobStatus.RUNNABLE
    lab.to(702)
    lack_capacity(lab, "j", 1100)
    assert lab.status("j") is JobStatus.FAILED


def test_time_at_the_head_counts_whatever_the_job_waited_for(make_lab: MakeLab) -> None:
    """The model's literal reading of AWS's page: the reason matters when the limit is reached."""
    lab = make_lab(1)
    lab.put(fifo(capacity=600))
    lab.submit("running")
    lab.submit("j")
    lab.to(0)
    lab.finish("running", at=1000)
    lack_capacity(lab, "j", 1010)
    assert lab.status("j") is JobStatus.FAILED


def test_limits_can_be_changed_and_taken_away(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(fifo(misconfiguration=1200))
    lab.submit("two", demand=2)
    lab.to(0)
    lab.put(fifo(misconfiguration=900), at=100)
    lab.to(899)
    assert lab.status("two") is JobStatus.RUNNABLE
    lab.to(900)
    assert lab.status("two") is JobStatus.FAILED
    lab.submit("another", demand=2, at=1000)
    lab.to(1000)
    lab.put(fifo(), at=1100)
    lab.to(10_000)
    assert lab.status("another") is JobStatus.RUNNABLE


def test_clocks_count_from_when_the_queue_has_limits(make_lab: MakeLab) -> None:
    """A queue without time limits has no clocks: what a head waited before a limit came does not count."""
    lab = make_lab(1)
    lab.submit("two", demand=2)
    lab.to(0)
    lab.put(fifo(misconfiguration=600), at=3000)
    lab.put(fifo(), at=3500)
    lab.put(fifo(misconfiguration=600), at=4000)
    lab.to(4599)
    assert lab.status("two") is JobStatus.RUNNABLE
    lab.to(4600)
    assert (lab.status("two"), lab.engine.job("two").stopped_at) == (JobStatus.FAILED, 4_600_000)


def test_a_head_that_fits_in_the_instant_of_its_limit_is_placed(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(fifo(misconfiguration=600))
    lab.submit("two", demand=2)
    lab.to(0)
    lab.put(PutEnvironment("env", 2), at=600)
    assert lab.status("two") is JobStatus.SCHEDULED


def test_queues_of_one_environment_have_their_own_limits(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(fifo(misconfiguration=600), PutQueue("p", "env", priority=9))
    lab.submit("in-q", demand=2)
    lab.submit("in-p", demand=2, queue="p")
    lab.to(1000)
    assert (lab.status("in-q"), lab.status("in-p")) == (JobStatus.FAILED, JobStatus.RUNNABLE)


@pytest.mark.parametrize("share_order", ["ab", "ba"])
def test_the_head_of_a_fair_share_queue_is_the_job_whose_turn_it_is(make_lab: MakeLab, share_order: str) -> None:
    """Not every share's first job: one head, one notice."""
    lab = make_lab(1, {"A": "1", "B": "3"})
    for share in share_order.upper():
        lab.submit(share.lower(), share, demand=2)
    lab.to(0)
    assert [notice.job_id for notice in lab.engine.take_notices()] == ["a"]
