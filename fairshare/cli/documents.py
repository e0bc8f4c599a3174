"""JSON documents of jobs and shares: AWS's names in snake_case, times in RFC 3339 UTC, null for what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairshare.cli.render import utc_time
from fairshare.model import JobAttempt, JobDetail, JobSummary

if TYPE_CHECKING:
    from fairshare.insight.jobs import JobList
    from fairshare.insight.shares import ShareTable


def job_document(job: JobSummary) -> dict[str, Any]:
    """Return one job. The payload is left out: it holds the values of secret environment variables (case C46)."""
    return {
        "job_id": job.job_id,
        "job_name": job.job_name,
        "status": job.status,
        "share_identifier": job.share_identifier,
        "quota_share": job.quota_share,
        "scheduling_priority": job.scheduling_priority,
        "instances": job.instances,
        "created_at": _time(job.created_at),
        "scheduled_at": _time(job.scheduled_at),
        "started_at": _time(job.started_at),
        "stopped_at": _time(job.stopped_at),
        "status_reason": job.status_reason,
        "is_terminated": job.is_terminated,
        "training_job_name": job.training_job_name,
        "job_arn": job.job_arn,
    }


def job_detail_document(job: JobDetail) -> dict[str, Any]:
    """Return one job with its queue, its attempts and its tags."""
    attempts = [_attempt_document(attempt) for attempt in job.attempts]
    return {
        **job_document(job),
        "job_queue": job.job_queue,
        "attempt_duration_seconds": job.attempt_duration_seconds,
        "attempts": attempts,
        "preemptions": job.preemptions,
        "preempted_attempts": [_attempt_document(attempt) for attempt in job.preempted_attempts],
        "tags": dict(job.tags),
    }


def _attempt_document(attempt: JobAttempt) -> dict[str, Any]:
    return {
        "training_job_name": attempt.training_job_name,
        "started_at": _time(attempt.started_at),
        "stopped_at": _time(attempt.stopped_at),
        "status_reason": attempt.status_reason,
    }


def job_list_document(jobs: JobList, capacity: int | None) -> dict[str, Any]:
    """Return the jobs of a queue. ``position`` is the place in line of a RUNNABLE job, 1 = next."""
    return {
        "queue": jobs.queue,
        "instances_in_use": jobs.instances_in_use,
        "capacity": capacity,
        "jobs_in_use": jobs.jobs_in_use,
        "jobs_waiting": jobs.jobs_waiting,
        "instances_waiting": jobs.instances_waiting,
        "jobs": [{**job_document(row.job), "position": row.position} for row in jobs.rows],
    }


def share_table_document(shares: ShareTable, capacity: int) -> dict[str, Any]:
    """Return the shares of a queue. Per cents are of the capacity in use; waits are whole seconds."""
    return {
        "queue": shares.queue,
        "instances_in_use": shares.instances_in_use,
        "capacity": capacity,
        "shares": [
            {
                "share_identifier": row.share_identifier,
                "weight_factor": row.weight_factor,
                "policy_entry": row.entry,
                "target_percent": round(float(row.target * 100), 2),
                "active_target_percent": None
                if row.active_target is None
                else round(float(row.active_target * 100), 2),
                "instances_in_use": row.instances,
                "runnable": row.runnable,
                "oldest_wait_seconds": None if row.oldest_wait is None else row.oldest_wait // 1000,
                "standing": row.standing,
            }
            for row in shares.rows
        ],
    }


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else utc_time(milliseconds)
