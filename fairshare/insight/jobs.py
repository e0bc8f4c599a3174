"""The jobs of a queue, in the order in which a person reads them: what runs, what starts next, what has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from fairshare.model import (
    ACTIVE_STATUSES,
    IN_USE_STATUSES,
    WAITING_STATUSES,
    JobStatus,
    JobSummary,
    QueueSnapshot,
)
from fairshare.submit.ports import JobBackend

DESCRIBE_LIMIT: Final = 100
"""Most DescribeServiceJob calls that one listing may cost; the snapshot, too, ends after 100 jobs."""


PAST_CALLS: Final = 10
"""Most ListServiceJobs calls for the past of a queue: its newest 1,000 jobs (case C49)."""


@dataclass(frozen=True)
class JobRow:
    """One job and its place in the line: ``position`` 1 starts next, None means "not waiting" or "place unknown"."""

    job: JobSummary
    position: int | None = None


@dataclass(frozen=True)
class JobList:
    """The jobs of a queue. The counts are of the whole queue, also after `only_share`; instances are whole numbers."""

    queue: str
    rows: tuple[JobRow, ...]
    jobs_in_use: int
    """Jobs in SCHEDULED, STARTING and RUNNING: those that count against capacity (case C31)."""
    instances_in_use: int
    jobs_waiting: int
    instances_waiting: int

    def only_share(self, share: str) -> JobList:
        """Return the same list with the rows of one share; places in line stay those of the whole queue."""
        return replace(self, rows=tuple(row for row in self.rows if row.job.share == share))


def list_jobs(
    backend: JobBackend,
    queue: str,
    *,
    all: bool,
    priorities: Mapping[str, int | None],
    snapshot: QueueSnapshot,
) -> JobList:
    """Return the jobs of a queue.

    Args:
        backend: AWS Batch.
        queue: name or ARN.
        all: also jobs that have ended and statuses this version does not know; else only jobs still going (case C49:
            few calls, however long the history).
        priorities: scheduling priority by job id, as far as it is known (None: there is none). ListServiceJobs does
            not carry it. Of the first `DESCRIBE_LIMIT` rows, those missing here are described; any other has None.
        snapshot: GetJobQueueSnapshot, which alone knows the dispatch order.
    """
    jobs = latest_by_id(backend.list(queue, None if all else ACTIVE_STATUSES))
    rows = _in_reading_order(jobs, snapshot)
    in_use = [job for job in jobs if job.status in IN_USE_STATUSES]
    waiting = [job for job in jobs if job.status in WAITING_STATUSES]
    return JobList(
        queue=queue,
        rows=tuple(_with_priorities(backend, rows, priorities)),
        jobs_in_use=len(in_use),
        instances_in_use=total_instances(in_use),
        jobs_waiting=len(waiting),
        instances_waiting=total_instances(waiting),
    )


@dataclass(frozen=True)
class Past:
    """Jobs of a queue of any status, newest first."""

    jobs: tuple[JobSummary, ...]
    since: int | None
    """Milliseconds: of jobs that were made before, only those that run are here. None: all jobs are."""


def past_of(backend: JobBackend, queue: str, created_before: int | None = None) -> Past:
    """Return the newest jobs of a queue, as many as `PAST_CALLS` give, and those that run, however old they are.

    Args:
        backend: AWS Batch.
        queue: name or ARN.
        created_before: milliseconds; None = from the newest on.
    """
    pages = list(islice(backend.walk(queue, created_before), PAST_CALLS))
    jobs = [job for page in pages for job in page]
    if len(pages) < PAST_CALLS:
        return Past(tuple(latest_by_id(jobs)), None)
    since = min((job.created_at for job in jobs), default=None)
    return Past(tuple(latest_by_id([*jobs, *backend.list(queue, (JobStatus.RUNNING,))])), since)


def latest_by_id(jobs: Iterable[JobSummary]) -> list[JobSummary]:
    """Drop repeats: a job that moved on between two listings counts once, in the status furthest along."""
    found: dict[str, JobSummary] = {}
    for job in jobs:
        seen = found.get(job.job_id)
        if seen is None or _progress(job) > _progress(seen):
            found[job.job_id] = job
    return list(found.values())


def total_instances(jobs: Iterable[JobSummary]) -> int:
    """Sum of instances. A job whose ``capacityUsage`` Batch does not tell counts as one."""
    return sum(1 if job.instances is None else job.instances for job in jobs)


def _progress(job: JobSummary) -> int:
    order = list(JobStatus)
    return order.index(JobStatus(job.status)) if job.status in order else -1


def _first_known(*times: int | None) -> int:
    return next(time for time in times if time is not None)


def _in_reading_order(jobs: Iterable[JobSummary], snapshot: QueueSnapshot) -> list[JobRow]:
    """In use (oldest first), then RUNNABLE in dispatch order, then other waiting ones, unknown statuses, the ended."""
    place = {entry.job_id: index for index, entry in enumerate(snapshot.front_of_queue)}

    def key(job: JobSummary) -> tuple[int, int, int, str]:
        began = _first_known(job.started_at, job.scheduled_at, job.created_at)
        ended = _first_known(job.stopped_at, job.created_at)
        match job.status:
            case JobStatus.RUNNING | JobStatus.STARTING | JobStatus.SCHEDULED:
                return (0, -_progress(job), began, job.job_id)
            case JobStatus.RUNNABLE:
                return (1, place.get(job.job_id, len(place)), job.created_at, job.job_id)
            case JobStatus.PENDING | JobStatus.SUBMITTED:
                return (2, -_progress(job), job.created_at, job.job_id)
            case JobStatus.SUCCEEDED | JobStatus.FAILED:
                return (4, -ended, -job.created_at, job.job_id)
            case _:
                return (3, 0, job.created_at, job.job_id)

    rows, next_position = [], 1
    for job in sorted(jobs, key=key):
        if job.status == JobStatus.RUNNABLE and job.job_id in place:
            rows.append(JobRow(job, next_position))
            next_position += 1
        else:
            rows.append(JobRow(job))
    return rows


def _with_priorities(backend: JobBackend, rows: list[JobRow], priorities: Mapping[str, int | None]) -> list[JobRow]:
    """Fill in priorities. A job without a share is in a FIFO queue, where a priority cannot exist: not asked for."""
    unknown = [
        row.job.job_id
        for row in rows[:DESCRIBE_LIMIT]
        if row.job.share is not None and row.job.scheduling_priority is None and row.job.job_id not in priorities
    ]
    described = backend.describe(unknown) if unknown else {}
    known = {job_id: detail.scheduling_priority for job_id, detail in described.items()} | dict(priorities)
    return [
        replace(row, job=replace(row.job, scheduling_priority=known[row.job.job_id]))
        if row.job.scheduling_priority is None and row.job.job_id in known
        else row
        for row in rows
    ]
