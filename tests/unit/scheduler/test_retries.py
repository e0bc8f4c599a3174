"""What follows a failed attempt: retry rules, attempts that count, lack of capacity, and time-outs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairshare.model import JobStatus
from fairshare.scheduler.driver import settle
from fairshare.scheduler.engine import (
    AttemptRecord,
    Engine,
    EngineJob,
    EngineOptions,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    RetryAction,
    RetryRule,
    StopOrder,
)
from fairshare.scheduler.retries import Verdict, glob_matches, judge

MakeLab = Callable[..., Any]

NO_CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Unable to provision requested compute resources"
TIMED_OUT = "Job attempt duration exceeded timeout"


def retry(pattern: str) -> RetryRule:
    return RetryRule(RetryAction.RETRY, pattern)


def leave(pattern: str) -> RetryRule:
    return RetryRule(RetryAction.EXIT, pattern)


# -- rules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("", "", True),
        ("", "x", False),
        ("abc", "abc", True),
        ("abc", "abcd", False),
        ("*", "", True),
        ("*", "anything\nat all", True),
        ("ab*", "abc", True),
        ("ab*", "ab", True),
        ("ab*", "xab", False),
        ("*ab", "xab", True),
        ("*Error*", "InternalServerError: x", True),
        ("*error*", "InternalServerError: x", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("aba*aba", "ababa", False),
        ("a*a*a", "aa", False),
        ("**a**", "bab", True),
        ("a?c", "abc", False),
        ("[a]", "a", False),
        ("a.c*", "abc", False),
        ("*".join("a" * 250), "a" * 100_000 + "b", False),
    ],
)
def test_a_star_is_any_text_and_everything_else_is_itself(pattern: str, text: str, matches: bool) -> None:
    assert glob_matches(pattern, text) is matches


def job_with(*rules: RetryRule, attempts: int = 3, used: int = 0) -> EngineJob:
    record = AttemptRecord(1, 0, None, 1, None)
    return EngineJob("j", "q", "", 1, 0, 0, 0, attempts, rules, attempts=(record,) * used)


@pytest.mark.parametrize(
    ("job", "reason", "verdict"),
    [
        pytest.param(job_with(attempts=1), "x", Verdict.FAIL, id="one-attempt"),
        pytest.param(job_with(attempts=3, used=1), "x", Verdict.RETRY, id="second-of-three"),
        pytest.param(job_with(attempts=3, used=2), "x", Verdict.FAIL, id="third-of-three"),
        pytest.param(job_with(), None, Verdict.RETRY, id="no-reason"),
        pytest.param(job_with(leave("*nothing like it*")), "x", Verdict.RETRY, id="no-rule-matches"),
        pytest.param(job_with(leave("*x*"), retry("*")), "xyz", Verdict.FAIL, id="first-match-wins"),
        pytest.param(job_with(retry("*x*"), leave("*")), "xyz", Verdict.RETRY, id="first-match-wins-2"),
        pytest.param(job_with(retry("*"), attempts=1), "x", Verdict.FAIL, id="a-rule-gives-no-attempts"),
        pytest.param(job_with(leave("*X*")), "xyz", Verdict.RETRY, id="case-counts"),
    ],
)
def test_verdicts(job: EngineJob, reason: str | None, verdict: Verdict) -> None:
    assert judge(job, reason) is verdict


WITH_SPACE = "Received status from SageMaker: InternalServerError*"
WITHOUT_SPACE = "Received status from SageMaker:InternalServerError*"


@pytest.mark.parametrize(
    ("reason", "pattern", "matches"),
    [
        ("InternalServerError: x", WITH_SPACE, True),
        ("InternalServerError: x", WITHOUT_SPACE, False),
        ("Received status from SageMaker: InternalServerError: x", WITH_SPACE, True),
        ("Received status from SageMaker: InternalServerError: x", WITHOUT_SPACE, False),
        ("Received status from SageMaker:InternalServerError: x", WITHOUT_SPACE, True),
        ("Received status from SageMaker:InternalServerError: x", WITH_SPACE, False),
        ("InternalServerError: x", "InternalServerError*", False),
    ],
)
def test_rules_see_the_text_of_aws_batch_in_the_form_that_was_reported(
    reason: str, pattern: str, matches: bool
) -> None:
    """The guide's form, with a space, unless the report has the other; a rule needs both forms to be sure."""
    assert judge(job_with(leave(pattern)), reason) is (Verdict.FAIL if matches else Verdict.RETRY)


def test_an_action_may_be_a_plain_word() -> None:
    assert judge(job_with(RetryRule("EXIT", "*")), "x") is Verdict.FAIL  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "is_capacity"),
    [
        ("CapacityError: Unable to provision requested ML compute capacity.", True),
        ("Received status from SageMaker: CapacityError: no p5", True),
        ("Received status from SageMaker:CapacityError", True),
        ("MaxPendingTimeExceeded: pending for 1800 s", True),
        ("AlgorithmError: CapacityError", False),
        ("ResourceLimitExceeded: The account-level service limit is 0 Instances", False),
    ],
)
def test_what_is_a_lack_of_capacity(reason: str, is_capacity: bool) -> None:
    assert (judge(job_with(attempts=1), reason) is Verdict.WAIT_FOR_CAPACITY) is is_capacity


# -- retries -----------------------------------------------------------------------------------------------------------


def test_a_retried_job_goes_through_every_status_again_and_keeps_a_record(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", at=1, attempts=2)
    lab.run("j", at=3)
    lab.fail("j", at=5, reason="InternalServerError: x")
    job = lab.engine.job("j")
    assert (job.status, job.attempt, job.scheduled_at, job.started_at) == (JobStatus.SCHEDULED, 2, 5000, None)
    lab.run("j", at=7)
    lab.fail("j", at=9, reason="AlgorithmError: y")
    assert [(entry.from_status, entry.to_status, entry.attempt) for entry in lab.log[4:6]] == [
        (JobStatus.RUNNING, JobStatus.RUNNABLE, 1),
        (JobStatus.RUNNABLE, JobStatus.SCHEDULED, 2),
    ]
    assert lab.log[4].reason == "InternalServerError: x"
    assert job.status is JobStatus.FAILED
    assert job.attempts == (
        AttemptRecord(1, 1000, 3000, 5000, "InternalServerError: x"),
        AttemptRecord(2, 5000, 7000, 9000, "AlgorithmError: y"),
    )
    assert (job.created_at, job.stopped_at, job.status_reason) == (1000, 9000, "AlgorithmError: y")


def test_attempts_count_the_first_one(make_lab: MakeLab) -> None:
    """Service job retries: 3 attempts are at most 2 retries."""
    lab = make_lab(1)
    lab.submit("j", attempts=3)
    for at in range(5):
        lab.to(at)
        if lab.status("j").is_in_use:
            lab.fail("j", at=at)
    assert (lab.status("j"), len(lab.started())) == (JobStatus.FAILED, 3)


def test_a_job_that_succeeds_after_a_retry_has_two_attempts(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", attempts=5)
    lab.to(0)
    lab.fail("j", at=1)
    lab.finish("j", at=2, reason="Training job completed")
    assert [(attempt.number, attempt.reason) for attempt in lab.engine.job("j").attempts] == [
        (1, "AlgorithmError: x"),
        (2, "Training job completed"),
    ]


def test_a_rule_decides_whether_a_failure_is_worth_another_attempt(make_lab: MakeLab) -> None:
    rules = (retry("Received status from SageMaker: InternalServerError*"), leave("*"))
    lab = make_lab(1)
    lab.submit("j", attempts=10, rules=rules)
    lab.to(0)
    lab.fail("j", at=1, reason="InternalServerError: x")
    assert lab.status("j") is JobStatus.SCHEDULED
    lab.fail("j", at=2, reason="AlgorithmError: x")
    assert lab.status("j") is JobStatus.FAILED


def test_a_retried_job_waits_in_the_place_its_age_gives_it(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    lab.submit("first", "S", attempts=2)
    lab.submit("second", "S", at=1)
    lab.submit("urgent", "S", at=2, priority=1)
    lab.to(2)
    lab.fail("first", at=3)
    assert [job_id for job_id, _ in lab.engine.snapshot("q").front] == ["first", "second"]
    lab.finish("urgent", at=4)
    assert lab.started() == ["first", "urgent", "first"]


def test_a_retry_lets_another_share_go_first(make_lab: MakeLab) -> None:
    """Its use counts, failed or not."""
    lab = make_lab(1, {"A": "1", "B": "1"})
    lab.submit("a", "A", attempts=2)
    lab.submit("b", "B", at=1)
    lab.to(1)
    lab.fail("a", at=10)
    assert lab.started() == ["a", "b"]
    assert lab.held() == {"B": 1}


def test_reports_of_an_earlier_attempt_are_ignored(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", attempts=2)
    lab.to(0)
    lab.fail("j", at=1)
    for status in (JobStatus.RUNNING, JobStatus.SUCCEEDED, JobStatus.FAILED):
        lab.engine.report("j", 1, status, 2000)
    lab.to(3)
    assert (lab.status("j"), lab.engine.job("j").attempt) == (JobStatus.SCHEDULED, 2)


def test_a_terminated_job_is_not_retried(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", attempts=10)
    lab.to(0)
    lab.engine.terminate("j", "not needed", 1000)
    lab.fail("j", at=2)
    job = lab.engine.job("j")
    assert (job.status, job.status_reason, job.is_terminated) == (JobStatus.FAILED, "not needed", True)
    assert job.attempts == (AttemptRecord(1, 0, None, 2000, "not needed"),)


def test_a_job_that_waits_for_its_next_attempt_can_be_terminated(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"A": "1", "B": "1"})
    lab.submit("a", "A", attempts=10)
    lab.submit("b", "B", at=1)
    lab.to(1)
    lab.fail("a", at=10)
    lab.engine.terminate("a", "not needed", 11_000)
    lab.to(11)
    assert (lab.status("a"), lab.stopped) == (JobStatus.FAILED, [])
    assert len(lab.engine.job("a").attempts) == 1
    lab.finish("b", at=12)
    assert lab.started() == ["a", "b"]


def test_the_reason_of_an_earlier_failure_goes_with_the_next_placement(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"A": "1", "B": "1"})
    lab.submit("a", "A", attempts=2)
    lab.submit("b", "B", at=1)
    lab.to(1)
    lab.fail("a", at=10, reason="InternalServerError: x")
    assert lab.engine.job("a").status_reason == "InternalServerError: x"
    lab.finish("b", at=12)
    assert (lab.status("a"), lab.engine.job("a").status_reason) == (JobStatus.SCHEDULED, None)


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_job_needs_an_attempt(make_lab: MakeLab, attempts: int) -> None:
    with pytest.raises(ValueError, match=f"^a job needs at least 1 attempt, not {attempts}$"):
        make_lab(1).submit("j", attempts=attempts)


# -- lack of capacity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [JobStatus.SCHEDULED, JobStatus.STARTING])
def test_a_lack_of_capacity_uses_no_attempt(make_lab: MakeLab, status: JobStatus) -> None:
    lab = make_lab(1)
    lab.submit("j")
    lab.to(0)
    if status is JobStatus.STARTING:
        lab.finish("j", at=1, status=status)
    lab.fail("j", at=5, reason="CapacityError: no p5")
    job = lab.engine.job("j")
    assert (job.status, job.status_reason, job.created_at) == (JobStatus.RUNNABLE, NO_CAPACITY, 0)
    assert (job.attempts, job.scheduled_at, job.started_at, job.stopped_at) == ((), None, None, None)
    assert lab.log[-1][2:] == (status, JobStatus.RUNNABLE, 5000, NO_CAPACITY)
    assert lab.engine.instances_held("env") == 0
    lab.to(6)
    assert (lab.status("j"), job.attempt) == (JobStatus.SCHEDULED, 2)


def test_c34_waiting_for_capacity_is_not_a_retry(make_lab: MakeLab) -> None:
    """2 attempts; 5 capacity errors, then an algorithm error: 1 of 2 is used. A quota is no lack of capacity."""
    lab = make_lab(1)
    lab.submit("j", attempts=2)
    lab.to(0)
    for at in range(10, 60, 10):
        lab.fail("j", at=at, reason="CapacityError: no p5")
        lab.to(at + 1)
    lab.fail("j", at=60, reason="AlgorithmError: , exit code: 1")
    job = lab.engine.job("j")
    assert (job.status, job.attempt) == (JobStatus.SCHEDULED, 7)
    assert job.attempts == (AttemptRecord(6, 51_000, None, 60_000, "AlgorithmError: , exit code: 1"),)
    lab.fail("j", at=70, reason="ResourceLimitExceeded: limit is 0, in use 0, asked 1")
    assert (job.status, len(job.attempts)) == (JobStatus.FAILED, 2)


def test_a_lack_of_capacity_is_waited_out_for_ever(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    lab.to(0)
    for at in range(10, 3000, 10):
        lab.fail("j", at=at, reason="CapacityError")
        lab.to(at + 1)
    lab.finish("j", at=4000)
    assert (lab.status("j"), lab.engine.job("j").attempt) == (JobStatus.SUCCEEDED, 300)


def test_the_head_holds_up_its_queue_while_it_waits_to_be_tried_again(make_lab: MakeLab) -> None:
    lab = make_lab(1, options=EngineOptions(capacity_backoff_ms=60_000))
    lab.submit("first")
    lab.submit("second")
    lab.to(0)
    lab.fail("first", at=10, reason="CapacityError")
    lab.put(PutEnvironment("env", 2), at=69.999)
    assert lab.started() == ["first"]
    lab.to(70)
    assert lab.started() == ["first", "first", "second"]


@pytest.mark.parametrize("backoff", [0, 1, 1000])
def test_execution_that_refuses_at_once_is_asked_once_a_second(backoff: int) -> None:
    class Refusing:
        def start(self, job: EngineJob, at: int) -> None:
            engine.report(job.id, job.attempt, JobStatus.FAILED, at, "CapacityError")

        def stop(self, job: EngineJob, at: int) -> None:
            raise AssertionError

    engine = Engine(EngineOptions(capacity_backoff_ms=backoff))
    engine.reconfigure(PutEnvironment("env", 1), 0)
    engine.reconfigure(PutQueue("q", "env"), 0)
    engine.advance(0)
    engine.submit(JobSubmission("j", "q"), 0)
    settle(engine, Refusing(), 60_000)
    assert engine.job("j").attempt == 61


def test_a_job_that_lacked_capacity_can_be_terminated(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    lab.to(0)
    lab.fail("j", at=10, reason="CapacityError")
    lab.engine.terminate("j", "not needed", 10_500)
    lab.to(10.5)
    assert (lab.status("j"), lab.engine.job("j").status_reason) == (JobStatus.FAILED, "not needed")
    assert lab.engine.next_event_at() is None


# -- time-outs ---------------------------------------------------------------------------------------------------------


def test_an_attempt_that_outlasts_its_time_is_stopped_and_its_job_is_not_retried(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", attempts=10, duration=60)
    lab.run("j", at=100)
    assert lab.engine.next_event_at() == 160_000
    lab.engine.advance(160_000)
    assert lab.engine.take_stops() == [StopOrder("j", 1, 160_000, TIMED_OUT)]
    assert lab.engine.instances_held("env") == 1
    lab.fail("j", at=165, reason="Training job stopped")
    job = lab.engine.job("j")
    assert (job.status, job.status_reason, job.is_terminated) == (JobStatus.FAILED, TIMED_OUT, False)
    assert job.attempts == (AttemptRecord(1, 0, 100_000, 165_000, TIMED_OUT),)


def test_time_counts_from_the_start_of_an_attempt(make_lab: MakeLab) -> None:
    """Neither waiting nor downloading counts, and the next attempt begins anew."""
    lab = make_lab(1)
    lab.submit("j", attempts=2, duration=60)
    lab.to(1000)
    assert lab.engine.next_event_at() is None
    lab.run("j", at=1000)
    lab.fail("j", at=1050)
    lab.run("j", at=1055)
    lab.to(1114.999)
    assert lab.stopped == []
    lab.to(1115)
    assert lab.stopped == [("j", 1115)]


def test_a_job_that_ends_in_the_instant_of_its_limit_has_ended(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", duration=60)
    lab.run("j", at=0)
    lab.finish("j", at=60)
    assert (lab.status("j"), lab.stopped) == (JobStatus.SUCCEEDED, [])


def test_nothing_is_left_to_happen_once_a_job_with_a_limit_has_ended(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", duration=3600)
    lab.run("j", at=0)
    lab.finish("j", at=60)
    assert lab.engine.next_event_at() is None


def test_who_asks_first_names_the_reason(make_lab: MakeLab) -> None:
    for terminated_at, reason in ((59, "not needed"), (60, "not needed"), (61, TIMED_OUT)):
        lab = make_lab(1)
        lab.submit("j", duration=60)
        lab.run("j", at=0)
        lab.engine.terminate("j", "not needed", terminated_at * 1000)
        lab.to(61)
        lab.fail("j", at=62)
        assert len(lab.stopped) == 1
        assert (lab.engine.job("j").status_reason, lab.engine.job("j").is_terminated) == (reason, True)


@pytest.mark.parametrize("duration", [0, -5])
def test_an_attempt_needs_time(duration: int) -> None:
    engine = Engine()
    engine.reconfigure(PutEnvironment("env", 1), 0)
    engine.reconfigure(PutQueue("q", "env"), 0)
    engine.advance(0)
    with pytest.raises(ValueError, match=f"^an attempt needs at least 1 ms, not {duration}$"):
        engine.submit(replace(JobSubmission("j", "q"), attempt_duration_ms=duration), 0)
