"""When a job moves to its next queue, and as what it is sent there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairshare.model import JobDetail, JobSummary
from fairshare.submit.calls import EndCalled, end_job
from fairshare.submit.fallback import ASK_AGAIN_MS, MARK, Fallback, is_lack_of_capacity, move_after, why_moved
from fairshare.submit.release import Stop
from fairshare.submit.requests import Alternative, PlannedJob, again, moved

T0 = 1_764_500_000_000
CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Unable to provision requested compute resources"
LIMIT = (
    "Received status from SageMaker: ResourceLimitExceeded: The account-level service limit 'ml.p5.48xlarge for "
    "training job usage' is 10 Instances, with current utilization of 10 Instances and a request delta of 1 Instances."
)
PAYLOAD = '{"ResourceConfig":{"InstanceCount":1,"InstanceType":"ml.p5.48xlarge"},"TrainingJobName":"a"}'


@pytest.fixture
def job(make_planned: Callable[..., PlannedJob]) -> PlannedJob:
    """A job on ``search-ml-gpu`` that may move to ``p4`` after half an hour, and to ``spare`` then."""
    alternatives = (Alternative("p4", "HIGHPRI", 0, "ml.p4d.24xlarge"), Alternative("spare"))
    return replace(make_planned(3, payload=PAYLOAD), alternatives=alternatives, fallback_after=1800)


def seen(status: str, reason: str | None = None, **fields: Any) -> JobSummary:
    return JobSummary("id-3", "arn/id-3", "job-3", status, T0, status_reason=reason, **fields)


@pytest.mark.parametrize(
    ("reason", "is_lack"),
    [
        ("Received status from SageMaker: CapacityError: no p5", True),
        ("Received status from SageMaker:CapacityError: no p5", True),
        (CAPACITY, True),
        ("Terminated by JobStateTimeLimit action due to reason: CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", True),
        (
            "Terminated by JobStateTimeLimit action due to reason: MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE",
            True,
        ),
        (
            "Terminated by JobStateTimeLimit action due to reason: MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED",
            True,
        ),
        (LIMIT, True),
        ("Received status from SageMaker: The account-level service limit 'x' is 10 Instances", True),
        ("Received status from SageMaker: AlgorithmError: CapacityError in my own code", False),
        ("Received status from SageMaker: AlgorithmError: account-level service limit, said my code", False),
        ("Received status from SageMaker: InternalServerError: We encountered an internal error.", False),
        ("Terminated by the user", False),
        ("", False),
        (None, False),
    ],
)
def test_what_is_a_lack_of_capacity(reason: str | None, *, is_lack: bool) -> None:
    assert is_lack_of_capacity(reason) is is_lack


def test_a_moved_job_has_a_name_a_token_a_share_a_priority_and_a_type_of_its_own(job: PlannedJob) -> None:
    there = moved(job, "p4", 2)

    request = there.request
    assert (request.job_queue, request.job_name) == ("p4", "job-3-try2")
    assert (request.share_identifier, request.scheduling_priority) == ("HIGHPRI", 0)
    assert json.loads(request.payload)["ResourceConfig"] == {"InstanceCount": 1, "InstanceType": "ml.p4d.24xlarge"}
    assert request.client_token != job.request.client_token
    assert (there.attempt, there.alternatives) == (2, job.alternatives[1:])
    assert request.tags == job.request.tags


def test_a_second_move_is_the_same_whether_it_starts_from_the_first_or_from_the_beginning(job: PlannedJob) -> None:
    """A session that goes on and one that reads the journal must send one and the same request."""
    first = replace(job, alternatives=(Alternative("p4"), Alternative("spare", "LOWPRI", 5)))

    stepwise = moved(moved(first, "p4", 2), "spare", 3)
    assert stepwise == moved(first, "spare", 3)
    assert stepwise.request.job_name == "job-3-try3"
    assert stepwise.request.payload == job.request.payload


def test_a_long_name_moves_the_same_way(job: PlannedJob) -> None:
    long = replace(job, request=replace(job.request, job_name="x" * 128))

    assert moved(moved(long, "p4", 9), "spare", 10).request.job_name == moved(long, "spare", 10).request.job_name
    assert again(again(long, 2), 3) == again(long, 3)


def test_a_job_cannot_move_where_it_has_no_alternative(job: PlannedJob) -> None:
    with pytest.raises(ValueError, match='no alternative queue "elsewhere"'):
        moved(job, "elsewhere", 2)


def test_a_job_that_failed_for_capacity_moves_to_the_next_queue_and_from_the_last_one_nowhere(job: PlannedJob) -> None:
    fallback = Fallback()
    for queue, attempt in (("p4", 2), ("spare", 3)):
        step = fallback.next_step(job, seen("FAILED", LIMIT), T0)
        assert isinstance(step, PlannedJob)
        assert (step.request.job_queue, step.attempt) == (queue, attempt)
        job = step

    assert fallback.next_step(job, seen("FAILED", LIMIT), T0) is None
    assert not fallback.may_move(job, None)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("FAILED", "Received status from SageMaker: AlgorithmError: exit code: 1"),
        ("FAILED", "Terminated by the user"),
        ("FAILED", None),
        ("SUCCEEDED", "Received status from SageMaker: Training job completed"),
        ("RUNNING", None),
    ],
)
def test_a_job_that_runs_or_ended_for_another_reason_stays(job: PlannedJob, status: str, reason: str | None) -> None:
    fallback = Fallback()

    assert fallback.next_step(job, seen(status, reason), T0 + 10**9) is None
    assert not fallback.may_move(job, seen(status, reason))


def test_a_job_that_waits_too_long_is_ended_first_and_moves_once_it_is_seen_to_have_ended(job: PlannedJob) -> None:
    fallback = Fallback()
    limit = T0 + 1_800_000

    assert fallback.next_step(job, seen("RUNNABLE"), limit - 1) is None
    stop = fallback.next_step(job, seen("RUNNABLE"), limit)
    assert stop == Stop("fairshare moves it: no start within 30 min")
    assert fallback.next_step(job, seen("RUNNABLE"), limit + 1) is None
    assert fallback.may_move(job, seen("RUNNABLE"))

    there = fallback.next_step(job, seen("FAILED", stop.reason, is_terminated=True), limit + 2)
    assert isinstance(there, PlannedJob)
    assert there.request.job_queue == "p4"


def test_a_job_without_capacity_need_not_wait_for_its_limit(job: PlannedJob) -> None:
    """Batch puts such a job back to RUNNABLE without limit; nothing else would ever move it."""
    patient = replace(job, fallback_after=None)

    assert Fallback().next_step(patient, seen("RUNNABLE"), T0 + 10**10) is None
    assert Fallback().next_step(patient, seen("RUNNABLE", CAPACITY), T0) == Stop("fairshare moves it: no capacity")


def test_a_job_that_ran_once_does_not_move_because_it_waits_to_be_tried_again(job: PlannedJob) -> None:
    assert Fallback().next_step(job, seen("RUNNABLE", started_at=T0 + 5), T0 + 10**9) is None


def test_an_end_that_had_no_effect_is_asked_for_again_later(job: PlannedJob) -> None:
    fallback, limit = Fallback(), T0 + 1_800_000
    assert isinstance(fallback.next_step(job, seen("RUNNABLE"), limit), Stop)

    assert fallback.next_step(job, seen("RUNNABLE"), limit + ASK_AGAIN_MS - 1) is None
    assert isinstance(fallback.next_step(job, seen("RUNNABLE"), limit + ASK_AGAIN_MS), Stop)


def test_a_job_that_started_in_between_stays_and_is_watched_until_that_is_sure(job: PlannedJob) -> None:
    fallback, limit = Fallback(), T0 + 1_800_000
    fallback.next_step(job, seen("RUNNABLE"), limit)

    assert fallback.next_step(job, seen("RUNNING"), limit + 1) is None
    assert fallback.may_move(job, seen("RUNNING"))
    assert fallback.next_step(job, seen("RUNNING"), limit + ASK_AGAIN_MS) is None
    assert not fallback.may_move(job, seen("RUNNING"))


def test_a_job_that_is_being_ended_while_it_runs_is_watched_to_its_end(job: PlannedJob) -> None:
    fallback, limit = Fallback(), T0 + 1_800_000
    stop = fallback.next_step(job, seen("RUNNABLE"), limit)
    assert isinstance(stop, Stop)
    ending = seen("RUNNING", is_terminated=True)

    assert fallback.next_step(job, ending, limit + 10 * ASK_AGAIN_MS) is None
    assert fallback.may_move(job, ending)
    assert isinstance(fallback.next_step(job, seen("FAILED", stop.reason), limit + 10**6), PlannedJob)


def test_a_new_session_moves_a_job_that_an_earlier_one_had_ended(job: PlannedJob) -> None:
    there = move_after(job, f"{MARK}no start within 30 min")

    assert there == moved(job, "p4", 2)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (f"{MARK}no start within 30 min", "no start within 30 min"),
        ("Received status from SageMaker: ResourceLimitExceeded: none left", "ResourceLimitExceeded: none left"),
        (None, ""),
    ],
)
def test_why_a_job_has_moved(reason: str | None, why: str) -> None:
    assert why_moved(reason) == why


@pytest.mark.parametrize("status", ["SUBMITTED", "RUNNABLE", "SCHEDULED", "STARTING", "A_NEW_ONE"])
def test_a_job_that_does_not_run_yet_may_still_move(job: PlannedJob, status: str) -> None:
    assert Fallback().may_move(job, seen(status))
    assert not Fallback().may_move(replace(job, alternatives=()), seen(status))


class OneJob:
    """A back end with one job."""

    def __init__(self, status: str | None) -> None:
        self.status = status
        self.ended: list[tuple[str, str]] = []

    def describe(self, job_ids: list[str]) -> dict[str, JobDetail]:
        return {} if self.status is None else {job_ids[0]: JobDetail(job_ids[0], "arn", "job", self.status, T0)}

    def terminate(self, job_id: str, reason: str) -> None:
        self.ended.append((job_id, reason))


@pytest.mark.parametrize("status", ["STARTING", "RUNNING", "SUCCEEDED", None])
def test_only_a_job_that_still_waits_is_ended(status: str | None) -> None:
    waiting, other = OneJob("RUNNABLE"), OneJob(status)

    assert end_job(waiting, "id-3", "why") == EndCalled("id-3")  # type: ignore[arg-type]
    assert end_job(other, "id-3", "why") == EndCalled("id-3")  # type: ignore[arg-type]
    assert (waiting.ended, other.ended) == ([("id-3", "why")], [])
