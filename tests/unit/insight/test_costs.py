"""What jobs held, from Batch, SageMaker and the journals."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from fairshare.insight.costs import AT_MOST, uses_of_jobs, uses_of_queue, uses_of_run
from fairshare.metrics.cost import AttemptUse, Purpose
from fairshare.model import JobAttempt, JobDetail, JobRequest
from fairshare.submit.outcomes import Training
from fairshare.submit.records import JobRecord, RunRecord
from fairshare.submit.requests import RunIdentity

NOW = 1_796_061_600_000
TWO = {"ml.g6.12xlarge": 2}
PAYLOAD = {"ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 2}}


class FakeSageMaker:
    """Billable seconds by training job."""

    def __init__(self, **seconds: int | None) -> None:
        self.seconds = seconds
        self.asked: list[str] = []

    def describe(self, names: Collection[str]) -> dict[str, Training]:
        self.asked += sorted(names)
        return {name: Training(billable_seconds=self.seconds[name]) for name in names if name in self.seconds}


def detail(job_id: str = "j", **changes: Any) -> JobDetail:
    known: dict[str, Any] = {"job_arn": "", "job_name": f"name-{job_id}", "status": "SUCCEEDED", "created_at": 0}
    return JobDetail(job_id, **known | {"payload": PAYLOAD, "share_identifier": "LOW"} | changes)


def attempts_of(job: JobDetail, source: FakeSageMaker) -> tuple[AttemptUse, ...]:
    return uses_of_jobs([job], source, NOW)[0].attempts


def test_every_attempt_is_billed_as_sagemaker_says_and_only_the_last_one_counts():
    job = detail(attempts=(JobAttempt("a1", 0, 5000, "Algorithm Error"), JobAttempt("a2", 6000, 9000)))

    assert attempts_of(job, FakeSageMaker(a1=7, a2=11)) == (
        AttemptUse(TWO, 7000, Purpose.RETRIED),
        AttemptUse(TWO, 11_000, Purpose.LAST),
    )


def test_preempted_attempts_are_told_beside_the_others_and_counted_once():
    gone = JobAttempt("p1", 0, 5000, "Cross-share preemption triggered to reclaim borrowed capacity")
    job = detail(preempted_attempts=(gone,), preemptions=3, attempts=(gone, JobAttempt("a2", 6000, 9000)))

    assert attempts_of(job, FakeSageMaker(p1=5, a2=3)) == (
        AttemptUse(TWO, None, Purpose.PREEMPTED),
        AttemptUse(TWO, None, Purpose.PREEMPTED),
        AttemptUse(TWO, 5000, Purpose.PREEMPTED),
        AttemptUse(TWO, 3000, Purpose.LAST),
    )


@pytest.mark.parametrize(
    ("reason", "purpose"),
    [("In-share preemption triggered by a higher priority job", Purpose.PREEMPTED), ("Exit code 1", Purpose.RETRIED)],
)
def test_the_last_attempt_of_a_job_that_waits_again_was_for_nothing(reason, purpose):
    job = detail(status="RUNNABLE", attempts=(JobAttempt("a1", 0, 5000, reason),))

    assert attempts_of(job, FakeSageMaker(a1=5)) == (AttemptUse(TWO, 5000, purpose),)


def test_a_job_that_runs_is_counted_up_to_now_in_whole_seconds():
    job = detail(status="RUNNING", training_job_name="a1", started_at=NOW - 90_500)

    assert attempts_of(job, FakeSageMaker(a1=None)) == (AttemptUse(TWO, 90_000, is_running=True),)


def test_what_sagemaker_no_longer_tells_is_unknown_and_what_never_ran_is_free():
    ended = detail(attempts=(JobAttempt("gone", 0, 5000),))
    refused = detail(status="FAILED", attempts=(JobAttempt(None, None, 5000, "ResourceLimitExceeded"),))

    assert attempts_of(ended, FakeSageMaker()) == (AttemptUse(TWO, None),)
    assert attempts_of(refused, FakeSageMaker()) == (AttemptUse(TWO, 0),)
    assert attempts_of(detail(status="FAILED"), FakeSageMaker()) == ()


def test_jobs_of_a_queue_by_share_and_time(batch, job):
    jobs = [
        job("new", share_identifier="LOW", status="SUCCEEDED", created_at=5, started_at=6, stopped_at=90),
        job("old", share_identifier="LOW", status="SUCCEEDED", created_at=1, started_at=2, stopped_at=3),
        job("runs", share_identifier="LOW", status="RUNNING", created_at=2, started_at=3),
        job("waits", share_identifier="LOW", created_at=3),
        job("other", share_identifier="HIGH", status="RUNNING", created_at=4, started_at=5),
    ]

    found = uses_of_queue(batch(jobs), FakeSageMaker(), jobs, share="LOW", since=50, now=100)

    assert ([use.job_id for use in found.jobs], found.left_out) == (["new", "runs"], 0)


def test_more_jobs_than_are_asked_about_are_left_out_and_said(batch, job):
    jobs = [job(f"j{n}", status="RUNNING", created_at=n, started_at=n) for n in range(AT_MOST + 2)]

    found = uses_of_queue(batch(jobs), FakeSageMaker(), jobs, share=None, since=0, now=0)

    assert (found.jobs[0].job_id, len(found.jobs), found.left_out) == (f"j{AT_MOST + 1}", AT_MOST, 2)


def record(index: int, **changes: Any) -> JobRecord:
    request = JobRequest(f"job-{index}", "q", json.dumps(PAYLOAD), f"token-{index}", "LOW", 1)
    return JobRecord(index, 0, request, "", {}, **{"job_id": f"id-{index}", **changes})


def ended(index: int, seconds: int | None, attempts: int | None = 1) -> JobRecord:
    output = {"attempts": attempts, "training": None if seconds is None else {"billable_seconds": seconds}}
    return record(index, status="SUCCEEDED", training_job_name=f"t{index}", output=output)


def uses(batch: Any, source: FakeSageMaker, *jobs: JobRecord) -> dict[str, tuple[AttemptUse, ...]]:
    run = RunRecord(Path("lunar-otter.jsonl"), RunIdentity("lunar-otter", 0, "eu-west-1", "1", None), ("q",), (), jobs)
    found = uses_of_run(run, batch, source, NOW).jobs
    assert {use.run_id for use in found} == {"lunar-otter"}
    return {use.job_id: use.attempts for use in found}


def test_a_run_whose_journal_knows_everything_asks_nobody(batch):
    backend, source = batch(), FakeSageMaker()

    assert uses(backend, source, ended(0, 60), record(1, job_id=None)) == {"id-0": (AttemptUse(TWO, 60_000),)}
    assert (backend.calls, source.asked) == ([], [])


def test_of_a_job_that_batch_forgot_the_journal_knows_the_last_attempt(batch):
    assert uses(batch(), FakeSageMaker(), ended(0, 60, attempts=2), ended(1, None), record(2)) == {
        "id-0": (AttemptUse(TWO, None, Purpose.RETRIED), AttemptUse(TWO, 60_000)),
        "id-1": (AttemptUse(TWO, None),),
        "id-2": (AttemptUse(TWO, None),),
    }


def test_what_the_journal_lacks_batch_and_sagemaker_tell(batch, job):
    backend = batch([job("id-0", status="SUCCEEDED")])
    backend.attempts["id-0"] = (JobAttempt("t0", 0, 9000),)

    [(attempt,)] = uses(backend, FakeSageMaker(t0=9), ended(0, None)).values()

    assert attempt.billable_ms == 9000


def test_a_job_that_failed_without_a_training_job_cost_nothing(batch):
    failed = record(0, status="FAILED", output={"attempts": 0})

    assert uses(batch(), FakeSageMaker(), failed) == {"id-0": (AttemptUse(TWO, 0),)}
