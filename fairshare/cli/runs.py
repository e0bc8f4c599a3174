"""``fairshare runs`` and ``fairshare runs show``: what was sent from this machine, as the journals tell it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairshare.cli.command import command, epilog, new_app, set_signature, take_options
from fairshare.cli.context import AppContext
from fairshare.cli.render import Column, count, local_time, table, utc_time
from fairshare.model import InvalidFileError

if TYPE_CHECKING:
    from fairshare.submit.records import JobRecord, RunRecord

app = new_app()

_STATES = {"sent": "submitted", "failed": "failed", "skipped": "skipped", "unknown": "no answer", "waiting": "not sent"}
"""What people read for `fairshare.submit.journal.JobRecord.state`."""


def _runs(ctx: typer.Context, **values: Any) -> None:
    """List the runs that were submitted from this machine, newest first. Asks AWS nothing."""
    options = take_options(values, ctx.obj.options)
    ctx.obj = replace(ctx.obj, options=options)
    if ctx.invoked_subcommand is None:
        _list(ctx.obj.make_context(options))


set_signature(_runs, [])
app.callback(
    invoke_without_command=True, epilog=epilog(("fairshare runs", "fairshare runs show lunar-otter -o json"), (4,))
)(_runs)


@command(app, examples=("fairshare runs show lunar-otter", "fairshare runs show lunar-otter -o csv"), exit_codes=(4,))
def show(
    context: AppContext,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or a unique beginning of it.")],
) -> None:
    """Show each job of a run: its id, or why it has none. Asks AWS nothing."""
    from fairshare.submit.journal import find_run

    record = find_run(context.runs_dir, run)
    for warning in record.warnings:
        context.out.talk(f"warning: {warning}")
    context.out.show(
        "RunDetail",
        {**_run_document(record), "jobs": [_job_document(job) for job in record.jobs]},
        text=lambda width: _run_text(record, width),
        rows="jobs",
        name="job_id",
    )
    if record.count("waiting", "unknown"):
        context.suggest(f"fairshare resume {record.run_id}")
    elif any(job.has_failed for job in record.jobs):
        context.suggest(f"fairshare resume {record.run_id} --failed")


def _list(context: AppContext) -> None:
    from fairshare.submit.journal import list_runs

    def tell(error: InvalidFileError) -> None:
        context.out.talk(f"warning: {error.message}")

    runs = list_runs(context.runs_dir, tell)
    context.out.show(
        "RunList",
        {"runs": [_run_document(run) for run in runs]},
        text=lambda width: _runs_text(runs, width),
        rows="runs",
        name="run_id",
    )
    if unfinished := [run.run_id for run in runs if run.count("waiting", "unknown")]:
        context.suggest(f"fairshare resume {unfinished[0]}")


def _run_document(run: RunRecord) -> dict[str, Any]:
    """One run. ``submitted``, ``pending``, ``failed`` and ``skipped`` add up to ``total``."""
    return {
        "run_id": run.run_id,
        "total": len(run.jobs),
        "submitted": run.count("sent"),
        "pending": run.count("waiting", "unknown"),
        "failed": run.count("failed"),
        "skipped": run.count("skipped"),
        "created_at": utc_time(run.identity.created_at),
        "region": run.identity.region,
        "account_id": run.identity.account_id,
        "queues": list(run.queues),
    }


def _job_document(job: JobRecord) -> dict[str, Any]:
    return {
        "job_name": job.as_planned().request.job_name,
        "state": job.state,
        "job_id": job.job_id,
        "wave": job.wave,
        "attempt": job.attempt,
        "status": job.status,
        "job_queue": job.request.job_queue,
        "share_identifier": job.request.share_identifier,
        "scheduling_priority": job.request.scheduling_priority,
        "error": _why(job),
    }


def _why(job: JobRecord) -> str | None:
    """Why a job was not sent, or failed; None when neither is so, or nobody said."""
    if job.skip is not None:
        return job.skip.reason
    return job.error or (job.reason if job.state == "failed" else None)


def _runs_text(runs: list[RunRecord], width: int | None) -> str:
    if not runs:
        return "No run was submitted from this machine."
    columns = [Column("RUN"), Column("SUBMITTED AT"), Column("QUEUE", shrinks=True)]
    has_skipped = any(run.count("skipped") for run in runs)
    numbers = ("JOBS", "SUBMITTED", "PENDING", "FAILED", *(("SKIPPED",) if has_skipped else ()))
    columns += [Column(title, right=True) for title in numbers]
    rows = [
        [
            run.run_id,
            local_time(run.identity.created_at),
            ", ".join(run.queues),
            *(str(number) for number in (len(run.jobs), run.count("sent"))),
            *(str(number) for number in (run.count("waiting", "unknown"), run.count("failed"))),
            *([str(run.count("skipped"))] if has_skipped else []),
        ]
        for run in runs
    ]
    return table(columns, rows, width)


def _run_text(run: RunRecord, width: int | None) -> str:
    identity = run.identity
    head = (
        f"Run {run.run_id}: {count(len(run.jobs), 'job')} in {count(len(run.waves), 'wave')}, "
        f"{local_time(identity.created_at)}, account {identity.account_id}, {identity.region}"
    )
    columns = [Column("JOB", shrinks=True), Column("WAVE", right=True), Column("STATE"), Column("ID"), Column("ERROR")]
    rows = [
        [
            job.as_planned().request.job_name,
            str(job.wave),
            _STATES[job.state],
            (job.job_id or "-")[:8],
            _why(job) or "-",
        ]
        for job in run.jobs
    ]
    return f"{head}\n\n{table(columns, rows, width)}"
