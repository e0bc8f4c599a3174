"""What jobs held, attempt by attempt, from Batch, SageMaker and the journals: the figures behind `fairshare cost`.

Batch forgets a job 7 days after its end, SageMaker does not. A job of a run that Batch has forgotten is known from its
journal, with its last attempt; attempts before that one are then unknown, and said to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairshare.insight.jobs import latest_by_id
from fairshare.insight.results import TrainingSource, describe_in_parallel
from fairshare.metrics.cost import AttemptUse, JobUse, Purpose, instances_of
from fairshare.model import TERMINAL_STATUSES, JobAttempt, JobDetail, JobSummary
from fairshare.submit.outcomes import Ending, Training, ending_in
from fairshare.submit.ports import JobBackend
from fairshare.submit.records import JobRecord, RunRecord

AT_MOST: Final = 1_000
"""Jobs of a queue whose cost is found out at once: each costs one DescribeServiceJob, and one call an attempt."""

_PREEMPTION: Final = "preempt"
"""In the reason that AWS gives an attempt which had to make room; case does not count
(https://docs.aws.amazon.com/batch/latest/userguide/batch-preemption-events.html)."""


@dataclass(frozen=True)
class Uses:
    """What jobs held; ``left_out`` more would have matched."""

    jobs: tuple[JobUse, ...]
    left_out: int = 0


def uses_of_queue(
    backend: JobBackend,
    source: TrainingSource,
    listing: Iterable[JobSummary],
    *,
    share: str | None,
    since: int,
    now: int,
) -> Uses:
    """Return what the jobs of a queue held that had instances after ``since`` ms: whole jobs, the newest first.

    Raises:
        FairshareError: Batch or SageMaker cannot be asked.
    """
    ran = [
        job
        for job in latest_by_id(listing)
        if (job.training_job_name is not None or job.started_at is not None)
        and (now if job.stopped_at is None else job.stopped_at) >= since
        and share in (None, job.share)
    ]
    chosen = sorted(ran, key=lambda job: -job.created_at)[:AT_MOST]
    details = describe_in_parallel(backend, [job.job_id for job in chosen])
    return Uses(uses_of_jobs(list(details.values()), source, now), len(ran) - len(chosen))


def uses_of_jobs(jobs: Sequence[JobDetail], source: TrainingSource, now: int) -> tuple[JobUse, ...]:
    """Return what jobs held whose attempts are known."""
    names = {attempt.training_job_name for job in jobs for attempt in (*_attempts(job), *job.preempted_attempts)}
    told = source.describe([name for name in names if name is not None])
    return tuple(_use_of(job, told, now) for job in jobs)


def uses_of_run(record: RunRecord, backend: JobBackend, source: TrainingSource, now: int) -> Uses:
    """Return what the jobs of a run held. What its journal knows for good is not asked again.

    Raises:
        FairshareError: Batch or SageMaker cannot be asked.
    """
    sent = [job for job in record.jobs if job.job_id is not None]
    known = {str(job.job_id): _use_in_journal(job) for job in sent}
    asked = [job_id for job_id, use in known.items() if use is None or _is_unknown(use)]
    details = describe_in_parallel(backend, asked)
    found = {use.job_id: use for use in uses_of_jobs(list(details.values()), source, now)}
    uses = [found.get(str(job.job_id)) or known[str(job.job_id)] or _unknown_use(job) for job in sent]
    return Uses(tuple(replace(use, run_id=record.run_id) for use in uses))


def _use_of(job: JobDetail, told: Mapping[str, Training], now: int) -> JobUse:
    instances = instances_of(job.payload)
    preempted = {attempt.training_job_name for attempt in job.preempted_attempts}
    others = [attempt for attempt in _attempts(job) if attempt.training_job_name not in preempted]
    pairs = [(attempt, Purpose.PREEMPTED) for attempt in job.preempted_attempts]
    pairs += [(attempt, _purpose(job, attempt, is_last=attempt is others[-1])) for attempt in others]
    forgotten = max(0, job.preemptions - len(job.preempted_attempts))
    uses = [AttemptUse(instances, None, Purpose.PREEMPTED)] * forgotten
    uses += [_attempt_use(attempt, instances, told, now, purpose) for attempt, purpose in pairs]
    return JobUse(job.job_id, job.job_name, job.share, job.status, tuple(uses))


def _attempts(job: JobDetail) -> tuple[JobAttempt, ...]:
    """Return all attempts, oldest first; the latest may be told beside the list only."""
    name = job.training_job_name
    if name is None or name in {attempt.training_job_name for attempt in job.attempts}:
        return job.attempts
    return (*job.attempts, JobAttempt(name, job.started_at, job.stopped_at, job.status_reason))


def _purpose(job: JobDetail, attempt: JobAttempt, *, is_last: bool) -> Purpose:
    """Of a job that waits again, the last attempt was not the last."""
    if is_last and (job.status in TERMINAL_STATUSES or attempt.stopped_at is None):
        return Purpose.LAST
    return Purpose.PREEMPTED if _PREEMPTION in (attempt.status_reason or "").lower() else Purpose.RETRIED


def _attempt_use(
    attempt: JobAttempt, instances: Mapping[str, int], told: Mapping[str, Training], now: int, purpose: Purpose
) -> AttemptUse:
    """SageMaker says what it bills once a training job has ended; until then, what it held so far is counted."""
    if attempt.training_job_name is None:
        return AttemptUse(instances, 0, purpose)
    training = told.get(attempt.training_job_name)
    if training is not None and training.billable_seconds is not None:
        return AttemptUse(instances, training.billable_seconds * 1000, purpose)
    if attempt.stopped_at is not None:
        return AttemptUse(instances, None, purpose)
    held = 0 if attempt.started_at is None else max(0, now - attempt.started_at) // 1000 * 1000
    return AttemptUse(instances, held, purpose, is_running=True)


def _use_in_journal(job: JobRecord) -> JobUse | None:
    """Return what the journal of a run knows about a job that has ended; None when it has not seen the end."""
    ending = ending_in(job)
    if ending is None:
        return None
    instances = instances_of(json.loads(job.request.payload))
    last = AttemptUse(instances, _billable_ms(ending))
    earlier = 0 if ending.attempts is None else max(0, ending.attempts - 1)
    unknown = [AttemptUse(instances, None, Purpose.PREEMPTED)] * (ending.preemptions or 0)
    unknown += [AttemptUse(instances, None, Purpose.RETRIED)] * earlier
    return _journal_use(job, ending.status, (*unknown, last))


def _billable_ms(ending: Ending) -> int | None:
    if ending.training is not None:
        seconds = ending.training.billable_seconds
        return None if seconds is None else seconds * 1000
    return 0 if ending.attempts is not None and ending.training_job_name is None else None


def _unknown_use(job: JobRecord) -> JobUse:
    """A job that nobody knows any more."""
    return _journal_use(job, "UNKNOWN", (AttemptUse(instances_of(json.loads(job.request.payload)), None),))


def _journal_use(job: JobRecord, status: str, attempts: tuple[AttemptUse, ...]) -> JobUse:
    request = job.as_planned().request
    return JobUse(str(job.job_id), request.job_name, request.share_identifier or request.quota_share, status, attempts)


def _is_unknown(use: JobUse) -> bool:
    return any(attempt.billable_ms is None for attempt in use.attempts)
