"""``fairshare queue``, ``shares`` and ``job``: what is there, and how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.render import Column, count, elapsed, local_time, percent, safe, table
from fairshare.model import (
    ACTIVE_STATUSES,
    MODEL_VERSION,
    JobDetail,
    JobStatus,
    JobSummary,
    NotFoundError,
    UsageError,
)

if TYPE_CHECKING:
    from fairshare.insight.jobs import JobList, JobRow
    from fairshare.insight.queues import QueueView
    from fairshare.insight.shares import ShareTable

app = new_app()

QueueFlag = Annotated[
    str | None,
    typer.Option("--queue", "-q", metavar="QUEUE", help="Key, name or ARN (default: the project's default queue)."),
]

_NOTHING: Final = "-"


@command(
    app,
    examples=("fairshare queue", "fairshare queue --all -o json", "fairshare queue --share HIGHPRI --local"),
    exit_codes=(4, 6),
)
def queue(
    context: AppContext,
    all: Annotated[bool, typer.Option("--all", help="Ended jobs, too.")] = False,
    queue: QueueFlag = None,
    share: Annotated[str | None, typer.Option("--share", metavar="SHARE", help="Only jobs of this share.")] = None,
) -> None:
    """Show the jobs of a queue: those that run, then those that wait in the order in which they will start."""
    from fairshare.cli.documents import job_list_document
    from fairshare.cli.priorities import keep_priorities, known_priorities
    from fairshare.insight.jobs import list_jobs

    choice, priorities = context.choose_queue(queue), known_priorities(context)
    jobs = list_jobs(
        context.jobs,
        choice.name,
        all=all,
        priorities=priorities,
        snapshot=context.jobs.snapshot(choice.name),
    )
    keep_priorities(context, jobs, priorities)
    shown = jobs if share is None else jobs.only_share(share)
    capacity, now = context.capacity_of(choice), context.clock.now()
    context.out.show(
        "JobList",
        job_list_document(shown, capacity),
        text=lambda width: _queue_text(shown, capacity, now, width),
        rows="jobs",
        name="job_id",
    )
    if shown.rows:
        context.suggest(f"fairshare job {shown.rows[0].job.job_name}")
    else:
        context.suggest("fairshare submit" if all else "fairshare queue --all")


@command(app, examples=("fairshare shares", "fairshare shares -q gpu -o json"), exit_codes=(4, 6))
def shares(context: AppContext, queue: QueueFlag = None) -> None:
    """Show what each share of a queue is due by its weight, or owns and borrows as a quota share, and holds now."""
    from fairshare.cli.documents import share_table_document
    from fairshare.insight.jobs import latest_by_id
    from fairshare.insight.queues import observe_queue
    from fairshare.insight.shares import share_table

    choice = context.choose_queue(queue)
    view = observe_queue(context.provisioner, choice.name, context.stack)
    if view.quota_shares is not None:
        _show_quota_shares(context, choice.name, view)
        return
    if view.policy is None:
        raise UsageError(
            f"queue {view.queue.name} has no fair-share policy, so it has no shares",
            hint=f"`fairshare queue -q {choice.key or view.queue.name}` shows its jobs, first in first out",
        )
    active = latest_by_id(context.jobs.list(choice.name, ACTIVE_STATUSES))
    found = share_table(view.queue.name, view.weights, active, now=context.clock.now())
    context.out.show(
        "ShareList",
        share_table_document(found, view.capacity),
        text=lambda width: _shares_text(found, view, width),
        rows="shares",
        name="share_identifier",
    )
    context.suggest(f"fairshare queue -q {choice.key or view.queue.name}")


def _show_quota_shares(context: AppContext, queue: str, view: QueueView) -> None:
    from fairshare.cli.quota_shares import quota_table_document, quota_table_text
    from fairshare.insight.jobs import latest_by_id
    from fairshare.insight.quota_shares import quota_table

    snapshot = context.jobs.snapshot(queue)
    waiting = latest_by_id(context.jobs.list(queue, frozenset({JobStatus.RUNNABLE})))
    now = context.clock.now()
    found = quota_table(view.queue.name, view.quota_shares or {}, view.limits, snapshot, waiting, now=now)
    context.out.show(
        "QuotaShareList",
        quota_table_document(found),
        text=lambda width: quota_table_text(found, width),
        rows="quota_shares",
        name="quota_share",
    )
    context.suggest(f"fairshare queue -q {view.queue.name}")


@command(
    app,
    examples=("fairshare job digits-lr0-1", "fairshare job 3f2a -o json"),
    exit_codes=(4, 6),
)
def job(
    context: AppContext,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name, id, a unique prefix of one, or ARN.")],
    queue: QueueFlag = None,
) -> None:
    """Show one job: where it stands, its times, its attempts and the reason AWS gives."""
    from fairshare.cli.documents import job_detail_document
    from fairshare.insight.find import find_job

    choice = context.find_queue(queue)
    found = find_job(context.jobs, choice.name if choice else None, job)
    detail = context.jobs.describe([found.job_id]).get(found.job_id)
    if detail is None:
        raise NotFoundError(
            f"job {found.job_id} is listed but cannot be described", hint="it may just have been made: try again"
        )
    now = context.clock.now()
    context.out.show("Job", job_detail_document(detail), text=lambda width: _job_text(detail, now))
    if detail.training_job_name is not None:
        context.suggest(f"fairshare logs {detail.job_name}")
    else:
        context.suggest("fairshare queue")


def _queue_text(jobs: JobList, capacity: int | None, now: int, width: int | None) -> str:
    columns = (
        Column("#", right=True),
        Column("JOB", shrinks=True),
        Column("SHARE", shrinks=True),
        Column("PRI", right=True),
        Column("STATE"),
        Column("SIZE", right=True),
        Column("WAITED"),
        Column("RAN"),
    )
    rows = [_queue_row(row, now) for row in jobs.rows]
    lines = [table(columns, rows, width)] if rows else [f"No jobs in queue {safe(jobs.queue)}."]
    held = jobs.instances_in_use
    use = count(held, "instance") if capacity is None else f"{held} of {count(capacity, 'instance')}"
    line = f"{use} in use by {count(jobs.jobs_in_use, 'job')}."
    if jobs.jobs_waiting:
        line += f" {count(jobs.jobs_waiting, 'job')} waiting for {count(jobs.instances_waiting, 'instance')}."
    return "\n".join([*lines, line])


def _queue_row(row: JobRow, now: int) -> list[str]:
    found = row.job
    return [
        _NOTHING if row.position is None else str(row.position),
        found.job_name,
        found.share or _NOTHING,
        _NOTHING if found.scheduling_priority is None else str(found.scheduling_priority),
        found.status,
        _NOTHING if found.instances is None else str(found.instances),
        waited_text(found, now),
        ran_text(found, now),
    ]


def waited_text(found: JobSummary, now: int) -> str:
    """Return how long a job waited, or has waited, from its creation until it got capacity."""
    until = next((at for at in (found.scheduled_at, found.started_at, found.stopped_at) if at is not None), now)
    return elapsed(until - found.created_at)


def ran_text(found: JobSummary, now: int) -> str:
    """Return how long a job ran, or has run; ``-`` for one that never started."""
    if found.started_at is None:
        return _NOTHING
    return elapsed((now if found.stopped_at is None else found.stopped_at) - found.started_at)


def _shares_text(shares: ShareTable, view: QueueView, width: int | None) -> str:
    columns = (
        Column("SHARE", shrinks=True),
        Column("WEIGHT", right=True),
        Column("TARGET", right=True),
        Column("ACTIVE", right=True),
        Column("NOW", right=True),
        Column("RUNNABLE", right=True),
        Column("OLDEST"),
        Column("STANDING", shrinks=True, prose=True),
    )
    rows = [
        [
            row.share_identifier,
            row.weight_factor,
            percent(row.target),
            _NOTHING if row.active_target is None else percent(row.active_target),
            str(row.instances),
            str(row.runnable),
            _NOTHING if row.oldest_wait is None else elapsed(row.oldest_wait),
            row.standing,
        ]
        for row in shares.rows
    ]
    window = elapsed(max(600, view.policy.share_decay_seconds if view.policy else 0) * 1000)
    return "\n".join(
        [
            table(columns, rows, width),
            f"{shares.instances_in_use} of {count(view.capacity, 'instance')} in use.",
            "TARGET: when all shares are busy. ACTIVE: among those with jobs now.",
            f"STANDING: NOW against ACTIVE; the scheduler weighs the last {window} (model {MODEL_VERSION}).",
        ]
    )


def _job_text(detail: JobDetail, now: int) -> str:
    resources = detail.payload.get("ResourceConfig", {})
    size = detail.instances if detail.instances is not None else resources.get("InstanceCount")
    facts = {
        "share": _share_text(detail),
        "queue": detail.job_queue.rsplit("/", 1)[-1],
        "instances": " x ".join(str(part) for part in (size, resources.get("InstanceType")) if part is not None),
        "created": local_time(detail.created_at),
        "waited": waited_text(detail, now),
        "ran": ran_text(detail, now),
        "training job": detail.training_job_name or "none yet",
        "attempts": str(len(detail.attempts)),
        "preempted": _preempted_text(detail),
        "reason": detail.status_reason or "",
        "job id": detail.job_id,
    }
    ended = " (ended by request)" if detail.is_terminated else ""
    lines = [f"{safe(detail.job_name)}  {safe(detail.status)}{ended}"]
    return "\n".join([*lines, *(f"  {title:<14}{safe(fact)}" for title, fact in facts.items() if fact)])


def _preempted_text(detail: JobDetail) -> str:
    """``2 times, 41 min of work lost; lately: Cross-share preemption ...``; of the recent ones that AWS tells."""
    if not detail.preemptions:
        return ""
    recent = detail.preempted_attempts
    ran = [each.stopped_at - each.started_at for each in recent if each.started_at and each.stopped_at]
    words = [count(detail.preemptions, "time") + (f", {elapsed(sum(ran))} of work lost" if ran else "")]
    if detail.preemption_reason is not None:
        words.append(f"lately: {detail.preemption_reason}")
    return "; ".join(words)


def _share_text(detail: JobDetail) -> str:
    if detail.share is None:
        return ""
    priority = detail.scheduling_priority
    return f"{detail.share}, " + ("no priority" if priority is None else f"priority {priority}")
