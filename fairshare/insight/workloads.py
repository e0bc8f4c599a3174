"""Workloads of what is there: the jobs of a queue as it is now, and a run of the past, for `fairshare simulate`.

Batch tells neither how long a job will run nor, in a listing, its priority. What is assumed in their place is counted
and said in the workload's assumptions.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from fairshare.insight.jobs import latest_by_id, past_of
from fairshare.insight.results import describe_in_parallel
from fairshare.metrics.cost import instances_of
from fairshare.model import (
    ACTIVE_STATUSES,
    IN_USE_STATUSES,
    JobDetail,
    JobStatus,
    JobSummary,
    UsageError,
)
from fairshare.simulate.workload import WorkJob, Workload, workload_of
from fairshare.submit.outcomes import Ending, ending_in, ending_of
from fairshare.submit.ports import JobBackend
from fairshare.submit.records import JobRecord, RunRecord

MOST_DESCRIBED: Final = 200
"""Jobs whose priority, type and longest run time are asked for, with one call each; the first in line come first."""

_SHORTEST: Final = 1_000
"""Milliseconds: a job that has outlasted what was expected of it is expected to end so soon."""

QueueKey = Callable[[str], str]
"""Gives the key of a queue in the project by its name in AWS; "" for one that the project does not have."""


@dataclass(frozen=True)
class _Guess:
    """How long a whole run takes, in ms, and what says so."""

    milliseconds: int
    because: str


def workload_of_queue(
    backend: JobBackend, queue: str, *, now: int, assume: int | None, priorities: Mapping[str, int | None]
) -> Workload:
    """Return the jobs of a queue that have not ended, as jobs that come now.

    Jobs that hold instances come a millisecond before those that wait, and run for what is left of them. A run takes as
    long as the median of ended jobs whose names begin alike, else its longest run time, else what is assumed.

    Args:
        backend: AWS Batch: at most `MOST_DESCRIBED` calls and a few listings.
        queue: name or ARN.
        now: ms since the epoch: the begin of the workload.
        assume: ms of a run that nothing is known of.
        priorities: by job id, as far as journals know.

    Raises:
        UsageError: the queue is empty, or nothing says how long a job runs.
    """
    active = latest_by_id(backend.list(queue, ACTIVE_STATUSES))
    active.sort(key=lambda job: (job.status not in IN_USE_STATUSES, job.created_at, job.job_name))
    details = describe_in_parallel(backend, [job.job_id for job in islice(active, MOST_DESCRIBED)])
    ended = [job for job in past_of(backend, queue).jobs if job.status == JobStatus.SUCCEEDED]
    counted: Counter[str] = Counter()
    jobs = []
    for job in active:
        detail = details.get(job.job_id)
        guess = _guess(job, detail, ended, assume)
        counted[guess.because] += 1
        is_running = job.status in IN_USE_STATUSES
        done = now - job.started_at if is_running and job.started_at is not None else 0
        types = instances_of(detail.payload) if detail is not None else {}
        priority = priorities.get(job.job_id) if detail is None else detail.scheduling_priority
        jobs.append(
            WorkJob(
                id=job.job_name,
                submit_at=0 if is_running else 1,
                run_time=max(_SHORTEST, guess.milliseconds - done),
                demand=job.instances or sum(types.values()) or 1,
                share=job.share or "all",
                priority=priority or 0,
                instance_type=next(iter(types)) if len(types) == 1 else "",
            )
        )
    if not jobs:
        raise UsageError(f"queue {queue} has no job that runs or waits", hint="give --from-run RUN, or a workload file")
    assumptions = [f"{queue} now: {count} jobs run {because}" for because, count in counted.most_common()]
    assumptions.append(f"{queue} now: shares begin without past use, so those that used much are not held back for it")
    if len(active) > len(details):
        assumptions.append(f"{queue} now: {len(active) - len(details)} jobs were not asked for their priority and type")
    return workload_of(f"{queue} now", jobs, assumptions=tuple(assumptions), from_first=False)


def workload_of_run(record: RunRecord, backend: JobBackend, *, assume: int | None, queue_key: QueueKey) -> Workload:
    """Return a run as it was: its jobs come when their waves were due, and run as long as they did.

    What the journal does not know Batch is asked, as long as it knows the jobs.

    Args:
        record: the run.
        backend: AWS Batch.
        assume: ms of a job that ran for nobody knows how long; None = such jobs are left out.
        queue_key: see `QueueKey`.

    Raises:
        UsageError: nothing is known of any of its jobs.
    """
    sent = [job for job in record.jobs if job.job_id is not None]
    run_times = {job.index: _ran(ending_in(job)) for job in sent}
    missing = [job for job in sent if run_times[job.index] is None]
    details = describe_in_parallel(backend, [str(job.job_id) for job in missing[:MOST_DESCRIBED]])
    assumed = 0
    for job in missing:
        detail = details.get(str(job.job_id))
        seen = None if detail is None else _ran(ending_of(detail))
        run_times[job.index] = assume if seen is None else seen
        assumed += seen is None and assume is not None
    due = {wave.number: wave.starts_at for wave in record.waves}
    jobs = [
        _work_job(job, run_time, due.get(job.wave, record.identity.created_at), queue_key)
        for job in sent
        if (run_time := run_times[job.index]) is not None
    ]
    assumptions = [f"run {record.run_id}: jobs come when their waves were due"]
    if assumed:
        assumptions.append(f"run {record.run_id}: {assumed} jobs whose end nobody saw run as long as assumed")
    left_out = len(record.jobs) - len(jobs)
    return workload_of(f"run {record.run_id}", jobs, left_out=left_out, assumptions=tuple(assumptions))


def _work_job(job: JobRecord, run_time: int, due: int, queue_key: QueueKey) -> WorkJob:
    request = job.as_planned().request
    types = instances_of(json.loads(request.payload))
    return WorkJob(
        id=request.job_name,
        submit_at=due,
        run_time=max(_SHORTEST, run_time),
        demand=sum(types.values()) or 1,
        share=request.share_identifier or request.quota_share or "all",
        priority=request.scheduling_priority or 0,
        queue=queue_key(request.job_queue),
        instance_type=next(iter(types)) if len(types) == 1 else "",
    )


def _ran(ending: Ending | None) -> int | None:
    if ending is None or ending.started_at is None or ending.stopped_at is None:
        return None
    return max(0, ending.stopped_at - ending.started_at)


def _guess(job: JobSummary, detail: JobDetail | None, ended: Sequence[JobSummary], assume: int | None) -> _Guess:
    words = job.job_name.split("-")
    for length in range(len(words), 0, -1):
        alike = [
            other.stopped_at - other.started_at
            for other in ended
            if other.job_name.split("-")[:length] == words[:length]
            and other.started_at is not None
            and other.stopped_at is not None
        ]
        if alike:
            return _Guess(round(statistics.median(alike)), "as long as ended jobs whose names begin alike")
    limit = detail.payload.get("StoppingCondition", {}).get("MaxRuntimeInSeconds") if detail is not None else None
    if assume is not None:
        return _Guess(assume, "as long as assumed")
    if isinstance(limit, int):
        return _Guess(limit * 1000, "for as long as they may: nothing like them has ended yet")
    raise UsageError(f"nothing says how long job {job.job_name} runs", hint="give --assume-runtime 2h for such jobs")
