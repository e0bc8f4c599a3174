"""An AWS Batch made of dictionaries, and builders of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from fairshare.model import (
    FrontOfQueueJob,
    JobAttempt,
    JobDetail,
    JobRef,
    JobRequest,
    JobStatus,
    JobSummary,
    QueueSnapshot,
)


def make_job(job_id: str, **changes: Any) -> JobSummary:
    """A RUNNABLE one-instance job of share HIGHPRI, created at 0 ms."""
    job = JobSummary(
        job_id=job_id,
        job_arn=f"arn:aws:batch:eu-west-1:111122223333:service-job/{job_id}",
        job_name=f"name-{job_id}",
        status="RUNNABLE",
        created_at=0,
        share_identifier="HIGHPRI",
        instances=1,
    )
    return replace(job, **changes)


class FakeBackend:
    """Holds jobs by id; counts calls. ``priorities`` is what DescribeServiceJob knows beyond the listing."""

    def __init__(self, jobs: Iterable[JobSummary] = (), priorities: dict[str, int] | None = None) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.priorities = priorities or {}
        self.calls: list[tuple[str, Any]] = []
        self.before_call: Callable[[FakeBackend], None] = lambda backend: None
        self.front: list[str] = []
        self.attempts: dict[str, tuple[JobAttempt, ...]] = {}
        self.preemptions: dict[str, tuple[JobAttempt, ...]] = {}

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        self._called("list", None if statuses is None else tuple(statuses))
        jobs: Iterator[JobSummary] = reversed(list(self.jobs.values()))
        return [job for job in jobs if statuses is None or job.status in statuses]

    def walk(self, queue: str, created_before: int | None = None) -> Iterator[list[JobSummary]]:
        found = [job for job in self.jobs.values() if created_before is None or job.created_at < created_before]
        found.sort(key=lambda job: -job.created_at)
        for start in range(0, len(found), 100):
            self._called("walk", created_before)
            yield found[start : start + 100]

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        ids = tuple(job_ids)
        self._called("describe", ids)
        return {job_id: self._detail(self.jobs[job_id]) for job_id in ids if job_id in self.jobs}

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        raise NotImplementedError

    def snapshot(self, queue: str) -> QueueSnapshot:
        self._called("snapshot", queue)
        return QueueSnapshot(tuple(FrontOfQueueJob(self.jobs[job_id].job_arn) for job_id in self.front))

    def submit(self, request: JobRequest) -> JobRef:
        raise NotImplementedError

    def update_priority(self, job_id: str, scheduling_priority: int) -> None:
        raise NotImplementedError

    def terminate(self, job_id: str, reason: str) -> None:
        self._called("terminate", (job_id, reason))

    def _called(self, name: str, argument: Any) -> None:
        self.calls.append((name, argument))
        self.before_call(self)

    def _detail(self, job: JobSummary) -> JobDetail:
        known = {field.name: getattr(job, field.name) for field in fields(JobSummary)}
        preempted = self.preemptions.get(job.job_id, ())
        return JobDetail(
            **known | {"scheduling_priority": self.priorities.get(job.job_id)},
            attempts=self.attempts.get(job.job_id, ()),
            preempted_attempts=preempted,
            preemptions=len(preempted),
        )


@pytest.fixture
def job() -> Callable[..., JobSummary]:
    return make_job


@pytest.fixture
def batch() -> type[FakeBackend]:
    return FakeBackend
