"""What is there as a workload: the jobs of a queue now, and a run of the past."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairshare.insight.workloads import MOST_DESCRIBED, workload_of_queue, workload_of_run
from fairshare.model import JobDetail, JobRequest, JobStatus, JobSummary, UsageError
from fairshare.submit.records import JobRecord, RunRecord
from fairshare.submit.requests import RunIdentity
from fairshare.submit.waves import Wave

HOUR = 3_600_000
NOW = 100 * HOUR
PAYLOAD: dict[str, Any] = {
    "ResourceConfig": {"InstanceType": "ml.g6.xlarge", "InstanceCount": 2},
    "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
}


class FakeBatch:
    """Jobs of one queue; only they are described."""

    def __init__(self, *jobs: JobDetail) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.described: list[str] = []

    def list(self, queue: str, statuses: Any = None) -> list[JobSummary]:
        return [job for job in self.jobs.values() if statuses is None or job.status in statuses]

    def walk(self, queue: str, created_before: int | None = None) -> Any:
        yield list(self.jobs.values())

    def describe(self, job_ids: Sequence[str]) -> dict[str, JobDetail]:
        self.described += job_ids
        return {job_id: self.jobs[job_id] for job_id in job_ids if job_id in self.jobs}


def detail(name: str, status: JobStatus, **changes: Any) -> JobDetail:
    known: dict[str, Any] = {"created_at": 0, "instances": 2, "payload": PAYLOAD, "share_identifier": "LOW"}
    return JobDetail(**known | {"job_id": name, "job_arn": "", "job_name": name, "status": status} | changes)


def of_queue(batch: Any, assume: int | None = None, **priorities: int) -> Any:
    return workload_of_queue(batch, "gpu", now=NOW, assume=assume, priorities=priorities)


def test_what_runs_comes_first_and_runs_for_what_is_left_of_it() -> None:
    batch = FakeBatch(
        detail("lr-2", JobStatus.RUNNABLE, created_at=5, scheduling_priority=7),
        detail("lr-1", JobStatus.RUNNABLE, created_at=3, share_identifier=None, quota_share="TEAMA"),
        detail("lr-0", JobStatus.RUNNING, created_at=9, started_at=NOW - HOUR),
        *(
            detail(f"lr-old{n}", JobStatus.SUCCEEDED, started_at=0, stopped_at=hours * HOUR)
            for n, hours in enumerate((1, 3, 9))
        ),
        detail("other", JobStatus.SUCCEEDED, started_at=0, stopped_at=50 * HOUR),
        detail("lr-bad", JobStatus.FAILED, started_at=0, stopped_at=1),
    )
    found = of_queue(batch)

    assert found.name == "gpu now"
    assert [(job.id, job.submit_at, job.run_time, job.share, job.priority) for job in found.jobs] == [
        ("lr-0", 0, 2 * HOUR, "LOW", 0),
        ("lr-1", 1, 3 * HOUR, "TEAMA", 0),
        ("lr-2", 1, 3 * HOUR, "LOW", 7),
    ]
    assert {(job.demand, job.instance_type) for job in found.jobs} == {(2, "ml.g6.xlarge")}
    assert found.assumptions == (
        "gpu now: 3 jobs run as long as ended jobs whose names begin alike",
        "gpu now: shares begin without past use, so those that used much are not held back for it",
    )


def test_the_longest_common_beginning_of_a_name_counts() -> None:
    batch = FakeBatch(
        detail("bert-large-1", JobStatus.RUNNABLE),
        detail("bert-large-0", JobStatus.SUCCEEDED, started_at=0, stopped_at=8 * HOUR),
        detail("bert-small-0", JobStatus.SUCCEEDED, started_at=0, stopped_at=1 * HOUR),
    )
    assert [job.run_time for job in of_queue(batch).jobs] == [8 * HOUR]


def test_without_a_past_a_job_runs_as_long_as_is_assumed_or_as_it_may() -> None:
    batch = FakeBatch(detail("new", JobStatus.RUNNABLE), detail("late", JobStatus.RUNNING, started_at=NOW - 9 * HOUR))
    longest = of_queue(batch)
    assert {job.id: job.run_time for job in longest.jobs} == {"new": 2 * HOUR, "late": 1000}
    assert longest.assumptions[0] == "gpu now: 2 jobs run for as long as they may: nothing like them has ended yet"
    assert {job.run_time for job in of_queue(batch, assume=HOUR).jobs if job.id == "new"} == {HOUR}

    bare = FakeBatch(detail("raw", JobStatus.RUNNABLE, payload={}))
    with pytest.raises(UsageError) as refused:
        of_queue(bare)
    assert (refused.value.message, refused.value.hint) == (
        "nothing says how long job raw runs",
        "give --assume-runtime 2h for such jobs",
    )


def test_an_empty_queue_is_no_workload() -> None:
    with pytest.raises(UsageError, match="queue gpu has no job that runs or waits"):
        of_queue(FakeBatch())


def test_a_long_queue_costs_a_bounded_number_of_calls() -> None:
    jobs = [detail(f"job{n:04}", JobStatus.RUNNABLE, created_at=n, scheduling_priority=1) for n in range(500)]
    batch = FakeBatch(*jobs)
    found = of_queue(batch, assume=HOUR, job0400=9)

    assert len(batch.described) == MOST_DESCRIBED
    assert len(found.jobs) == 500
    assert (found.jobs[0].priority, found.jobs[400].priority, found.jobs[499].priority) == (1, 9, 0)
    assert "gpu now: 300 jobs were not asked for their priority and type" in found.assumptions


def run_of(*jobs: JobRecord) -> RunRecord:
    identity = RunIdentity("lunar", 5 * HOUR, "us-west-2", "111122223333")
    waves = (Wave(1, 5 * HOUR, 0, 1), Wave(2, 6 * HOUR, 1, 2))
    return RunRecord(Path("lunar.jsonl"), identity, ("lab-gpu",), waves, jobs)


def sent(index: int, wave: int, **changes: Any) -> JobRecord:
    request = JobRequest(f"job-{index}", "lab-gpu", json.dumps(PAYLOAD), "token", "HIGH", 80)
    return JobRecord(index, wave, request, "", {}, job_id=f"id-{index}", **changes)


def test_a_run_comes_as_its_waves_were_due_and_runs_as_it_did() -> None:
    record = run_of(
        sent(0, 1, status="SUCCEEDED", started_at=7 * HOUR, stopped_at=9 * HOUR),
        sent(1, 2),
        sent(2, 2),
    )
    batch = FakeBatch(detail("id-1", JobStatus.SUCCEEDED, started_at=10 * HOUR, stopped_at=13 * HOUR))
    found = workload_of_run(record, batch, assume=None, queue_key=lambda name: name.removeprefix("lab-"))  # type: ignore[arg-type]

    assert found.name == "run lunar"
    assert [(job.id, job.submit_at, job.run_time) for job in found.jobs] == [
        ("job-0", 0, 2 * HOUR),
        ("job-1", HOUR, 3 * HOUR),
    ]
    assert {(job.demand, job.share, job.priority, job.queue) for job in found.jobs} == {(2, "HIGH", 80, "gpu")}
    assert found.left_out == 1
    assert batch.described == ["id-1", "id-2"]

    assumed = workload_of_run(record, batch, assume=HOUR, queue_key=lambda name: "")  # type: ignore[arg-type]
    assert [job.run_time for job in assumed.jobs] == [2 * HOUR, 3 * HOUR, HOUR]
    assert assumed.assumptions[-1] == "run lunar: 1 jobs whose end nobody saw run as long as assumed"
