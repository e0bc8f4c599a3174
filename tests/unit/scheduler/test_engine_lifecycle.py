"""One job's life: reports, terminations, priority updates, instants and the errors of a wrong call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.model import JobStatus
from fairshare.scheduler.engine import LEGAL_TRANSITIONS, JobSubmission, StopOrder

MakeLab = Callable[..., Any]

SUBMITTED, RUNNABLE, SCHEDULED = JobStatus.SUBMITTED, JobStatus.RUNNABLE, JobStatus.SCHEDULED
STARTING, RUNNING = JobStatus.STARTING, JobStatus.RUNNING
SUCCEEDED, FAILED = JobStatus.SUCCEEDED, JobStatus.FAILED


def path(lab: Any, job_id: str) -> list[tuple[JobStatus, int]]:
    """(status, instant) of a job's transitions."""
    return [(entry.to_status, entry.at) for entry in lab.log if entry.job_id == job_id]


def report(lab: Any, job_id: str, status: JobStatus, at: float, *, attempt: int = 1, reason: str | None = None) -> None:
    lab.engine.report(job_id, attempt, status, int(at * 1000), reason)


def brought_to(lab: Any, status: JobStatus) -> str:
    """Submit job ``j`` and bring it to a status by 3 s; the pool of 1 has a job waiting behind it."""
    lab.submit("j", demand=2 if status is RUNNABLE else 1, at=10 if status is SUBMITTED else 0)
    lab.submit("behind", at=11)
    if status in (STARTING, RUNNING):
        report(lab, "j", STARTING, 1)
    if status is RUNNING:
        report(lab, "j", RUNNING, 2)
    lab.to(3)
    assert lab.status("j") is status
    return "j"


# -- reports -----------------------------------------------------------------------------------------------------------


def test_a_job_goes_through_every_status(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", at=1)
    for at, status in ((2, STARTING), (3, RUNNING), (9, SUCCEEDED)):
        report(lab, "j", status, at)
    lab.to(10)
    assert path(lab, "j") == [
        (RUNNABLE, 1000),
        (SCHEDULED, 1000),
        (STARTING, 2000),
        (RUNNING, 3000),
        (SUCCEEDED, 9000),
    ]
    assert [entry.attempt for entry in lab.log] == [0, 1, 1, 1, 1]
    job = lab.engine.job("j")
    assert (job.created_at, job.scheduled_at, job.started_at, job.stopped_at) == (1000, 1000, 3000, 9000)
    assert (job.status_reason, job.is_terminated) == (None, False)


def test_a_report_that_skips_statuses_skips_no_transition(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    report(lab, "j", SUCCEEDED, 5)
    lab.to(5)
    assert path(lab, "j")[2:] == [(STARTING, 5000), (RUNNING, 5000), (SUCCEEDED, 5000)]
    assert lab.engine.job("j").started_at == 5000


def test_a_failure_needs_no_statuses_in_between(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    report(lab, "j", FAILED, 5, reason="AlgorithmError: , exit code: 1")
    lab.to(5)
    assert path(lab, "j")[2:] == [(FAILED, 5000)]
    assert lab.log[-1].reason == lab.engine.job("j").status_reason == "AlgorithmError: , exit code: 1"
    assert lab.engine.job("j").started_at is None


def test_a_report_that_goes_back_is_ignored(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    report(lab, "j", RUNNING, 1)
    report(lab, "j", STARTING, 2)
    report(lab, "j", RUNNING, 3)
    lab.to(5)
    assert path(lab, "j")[2:] == [(STARTING, 1000), (RUNNING, 1000)]
    assert lab.engine.job("j").started_at == 1000


@pytest.mark.parametrize("attempt", [0, 2])
@pytest.mark.parametrize("status", [STARTING, RUNNING, SUCCEEDED, FAILED])
def test_a_report_of_another_attempt_is_ignored(make_lab: MakeLab, attempt: int, status: JobStatus) -> None:
    lab = make_lab(1)
    lab.submit("j")
    report(lab, "j", status, 1, attempt=attempt)
    lab.to(2)
    assert lab.status("j") is SCHEDULED


def test_a_report_about_a_job_that_has_not_been_placed_or_has_ended_is_ignored(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", at=2)
    report(lab, "j", FAILED, 1)
    report(lab, "j", FAILED, 1, attempt=0)
    report(lab, "j", SUCCEEDED, 3)
    report(lab, "j", FAILED, 4, reason="too late")
    lab.to(5)
    assert lab.status("j") is SUCCEEDED
    assert lab.engine.job("j").status_reason is None
    assert lab.engine.instances_held("env") == 0


def test_a_future_report_waits_for_its_instant(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    lab.to(0)
    report(lab, "j", SUCCEEDED, 60)
    assert lab.engine.next_event_at() == 60_000
    lab.to(59.999)
    assert lab.status("j") is SCHEDULED
    lab.to(60)
    assert lab.status("j") is SUCCEEDED
    assert lab.engine.next_event_at() is None


def test_within_an_instant_execution_comes_before_commands_and_one_pass_follows(make_lab: MakeLab) -> None:
    """A job that arrives as another ends competes for its place, whichever call came first."""
    lab = make_lab(1, {"A": "1", "B": "1"})
    lab.submit("a", "A")
    lab.submit("a-next", "A", at=1)
    lab.to(1)
    lab.submit("b", "B", at=5)
    lab.engine.terminate("a-next", "not needed", 5000)
    report(lab, "a", SUCCEEDED, 5)
    assert [(entry.job_id, entry.to_status) for entry in lab.to(5)] == [
        ("a", STARTING),
        ("a", RUNNING),
        ("a", SUCCEEDED),
        ("b", RUNNABLE),
        ("a-next", FAILED),
        ("b", SCHEDULED),
    ]


# -- termination -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [SUBMITTED, RUNNABLE])
def test_terminating_a_waiting_job_ends_it_at_once(make_lab: MakeLab, status: JobStatus) -> None:
    lab = make_lab(1)
    brought_to(lab, status)
    lab.engine.terminate("j", "not needed", 4000)
    lab.to(4)
    assert path(lab, "j")[-1] == (FAILED, 4000)
    job = lab.engine.job("j")
    assert (job.status_reason, job.is_terminated, job.stopped_at, job.attempt) == ("not needed", True, 4000, 0)
    assert lab.engine.take_stops() == []
    assert lab.stopped == []
    lab.to(20)
    assert lab.started() == ["behind"]


@pytest.mark.parametrize("status", [SCHEDULED, STARTING, RUNNING])
@pytest.mark.parametrize("reported", [SUCCEEDED, FAILED])
def test_terminating_an_executing_job_asks_for_its_end_and_holds_its_capacity_until_then(
    make_lab: MakeLab, status: JobStatus, reported: JobStatus
) -> None:
    lab = make_lab(1)
    brought_to(lab, status)
    lab.engine.terminate("j", "not needed", 12_000)
    lab.to(20)
    assert lab.stopped == [("j", 12)]
    assert (lab.status("j"), lab.status("behind")) == (status, RUNNABLE)
    assert lab.engine.instances_held("env") == 1
    report(lab, "j", reported, 25, reason="Received status from SageMaker: whatever")
    lab.to(25)
    job = lab.engine.job("j")
    assert (job.status, job.status_reason, job.is_terminated, job.stopped_at) == (FAILED, "not needed", True, 25_000)
    assert path(lab, "j")[-2:] == [(status, {SCHEDULED: 0, STARTING: 1000, RUNNING: 2000}[status]), (FAILED, 25_000)]
    assert path(lab, "behind")[-1] == (SCHEDULED, 25_000)


def test_a_job_that_is_being_stopped_may_still_move_on(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    brought_to(lab, SCHEDULED)
    lab.engine.terminate("j", "not needed", 4000)
    report(lab, "j", RUNNING, 5)
    lab.to(6)
    assert lab.status("j") is RUNNING
    report(lab, "j", SUCCEEDED, 7)
    lab.to(7)
    assert lab.status("j") is FAILED


def test_terminating_again_changes_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    brought_to(lab, RUNNING)
    lab.engine.terminate("j", "first reason", 4000)
    lab.engine.terminate("j", "second reason", 5000)
    lab.finish("j", at=6)
    lab.engine.terminate("j", "third reason", 7000)
    lab.to(8)
    assert lab.stopped == [("j", 4)]
    assert lab.engine.job("j").status_reason == "first reason"
    assert path(lab, "j")[-1] == (FAILED, 6000)


@pytest.mark.parametrize("status", [SUCCEEDED, FAILED])
def test_terminating_a_job_that_has_ended_leaves_it_as_it_is(make_lab: MakeLab, status: JobStatus) -> None:
    lab = make_lab(1)
    brought_to(lab, RUNNING)
    lab.finish("j", at=4, status=status)
    lab.engine.terminate("j", "not needed", 5000)
    lab.to(6)
    job = lab.engine.job("j")
    assert (job.status, job.is_terminated, job.stopped_at) == (status, False, 4000)


def test_a_stop_order_names_attempt_and_reason_and_is_handed_out_once(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    brought_to(lab, RUNNING)
    lab.engine.terminate("j", "not needed", 4000)
    lab.engine.advance(4000)
    assert lab.engine.take_stops() == [StopOrder("j", attempt=1, at=4000, reason="not needed")]
    assert lab.engine.take_stops() == []


def test_terminating_the_head_lets_the_next_one_go(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    brought_to(lab, RUNNABLE)
    lab.to(15)
    assert lab.started() == []
    lab.engine.terminate("j", "too large", 16_000)
    lab.to(16)
    assert lab.started() == ["behind"]


# -- priority ----------------------------------------------------------------------------------------------------------


def test_a_waiting_job_moves_when_its_priority_changes(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    for job_id in ("running", "a", "b", "c"):
        lab.submit(job_id, "S", priority=50, runs=100)
    lab.to(1)
    lab.engine.update("c", 60, 2000)
    lab.engine.update("a", 0, 2000)
    lab.engine.update("a", 55, 3000)
    lab.engine.update("a", 10, 4000)
    lab.to(1000)
    assert lab.started() == ["running", "c", "b", "a"]


def test_an_update_takes_effect_at_its_instant(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    for job_id in ("running", "a", "b"):
        lab.submit(job_id, "S", runs=100)
    lab.engine.update("b", 1, 100_001)
    lab.to(1000)
    assert lab.started() == ["running", "a", "b"]


def test_an_update_that_brings_a_fitting_job_to_the_head_starts_it_at_once(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    lab.submit("large", "S", demand=2)
    lab.submit("small", "S")
    lab.to(0)
    lab.engine.update("small", 1, 5000)
    lab.to(6)
    assert path(lab, "small") == [(RUNNABLE, 0), (SCHEDULED, 5000)]


def test_an_update_before_the_job_is_evaluated_counts(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    lab.submit("running", "S", runs=100)
    lab.submit("a", "S", at=10)
    lab.submit("b", "S", at=10)
    lab.engine.update("b", 1, 5000)
    lab.to(100)
    assert lab.started() == ["running", "b"]


def test_an_update_of_an_executing_job_is_kept_and_moves_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    lab.submit("j", "S")
    lab.to(0)
    lab.engine.update("j", 7, 1000)
    assert lab.to(1) == []
    assert lab.engine.job("j").scheduling_priority == 7


def test_a_job_that_has_ended_keeps_its_priority(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"S": "1"})
    lab.submit("j", "S", priority=3)
    lab.to(0)
    lab.finish("j", at=1)
    lab.engine.update("j", 7, 2000)
    lab.to(3)
    assert lab.engine.job("j").scheduling_priority == 3


# -- instants ----------------------------------------------------------------------------------------------------------


def test_an_instant_in_the_past_counts_as_now(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.to(100)
    lab.submit("j", at=5)
    lab.to(100)
    assert lab.engine.job("j").created_at == 100_000
    report(lab, "j", RUNNING, 50)
    lab.engine.terminate("j", "not needed", 1)
    lab.to(100)
    assert path(lab, "j") == [(RUNNABLE, 100_000), (SCHEDULED, 100_000), (STARTING, 100_000), (RUNNING, 100_000)]
    assert lab.stopped == [("j", 100)]


def test_advancing_to_the_past_does_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.to(100)
    lab.submit("j", at=100)
    assert lab.engine.advance(99_999) == []
    assert lab.engine.now == 100_000
    assert lab.status("j") is SUBMITTED


# -- errors ------------------------------------------------------------------------------------------------------------


def test_unknown_names_raise_key_error(make_lab: MakeLab) -> None:
    engine = make_lab(1).engine
    calls: list[Callable[[], object]] = [
        lambda: engine.submit(JobSubmission("j", "nowhere"), 0),
        lambda: engine.terminate("nobody", "reason", 0),
        lambda: engine.update("nobody", 1, 0),
        lambda: engine.report("nobody", 1, RUNNING, 0),
        lambda: engine.job("nobody"),
        lambda: engine.snapshot("nowhere"),
        lambda: engine.instances_held("nowhere"),
    ]
    for call in calls:
        with pytest.raises(KeyError, match=r"nobody|nowhere"):
            call()
    assert engine.next_event_at() is None


def test_a_job_id_is_used_once(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j")
    with pytest.raises(ValueError, match=r"^job j exists$"):
        lab.submit("j", at=5)
    lab.to(0)
    assert lab.started() == ["j"]


@pytest.mark.parametrize("demand", [0, -1])
def test_a_job_needs_an_instance(make_lab: MakeLab, demand: int) -> None:
    with pytest.raises(ValueError, match=f"^a job needs at least 1 instance, not {demand}$"):
        make_lab(1).submit("j", demand=demand)


@pytest.mark.parametrize("status", [SUBMITTED, JobStatus.PENDING, RUNNABLE, SCHEDULED])
def test_execution_cannot_report_what_only_the_scheduler_decides(make_lab: MakeLab, status: JobStatus) -> None:
    lab = make_lab(1)
    lab.submit("j")
    with pytest.raises(ValueError, match=f"^execution cannot report {status}$"):
        report(lab, "j", status, 1)


def test_legal_transitions_lead_from_the_first_status_to_an_end() -> None:
    assert set(LEGAL_TRANSITIONS) == set(JobStatus) - {JobStatus.PENDING}
    for status, following in LEGAL_TRANSITIONS.items():
        assert (not following) == status.is_terminal
        assert following <= set(LEGAL_TRANSITIONS)
        assert status.is_terminal or FAILED in following
