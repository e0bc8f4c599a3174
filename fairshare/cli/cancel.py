"""``fairshare cancel``: end jobs, a run, or all jobs of a share. Shows what would end before it asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Final

import typer

from fairshare.cli.command import command, interrupted, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import Column, count, table
from fairshare.cli.targets import JobTexts, RunFlag, Targets, wanted_jobs
from fairshare.model import (
    ACTIVE_STATUSES,
    IN_USE_STATUSES,
    TERMINAL_STATUSES,
    CredentialsError,
    FairshareError,
    JobSummary,
    NotFoundError,
    PartialError,
    UsageError,
)

app = new_app()

_REASON: Final = "ended by fairshare cancel"
_PREVIEWED: Final = 20
"""Jobs that the preview names at most."""


@command(
    app,
    examples=(
        "fairshare cancel digits-lr0-1",
        "fairshare cancel --run lunar-otter --dry-run",
        'fairshare cancel --share LOWPRI --yes --reason "room for the release"',
    ),
    exit_codes=(3, 4, 6),
)
def cancel(
    context: AppContext,
    jobs: JobTexts = None,
    run: RunFlag = None,
    share: Annotated[
        str | None, typer.Option("--share", metavar="SHARE", help="All jobs of a share of the queue.")
    ] = None,
    queue: QueueFlag = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Kept by AWS with each job.", show_default=False)
    ] = _REASON,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would end, and stop.")] = False,
) -> None:
    """End jobs that have not ended yet, waiting or running. Account, region and jobs are shown before it asks."""
    if share is None:
        targets = wanted_jobs(context, jobs, run, queue)
        active, queues = _still_active(context, targets), targets.queues
    elif jobs or run is not None:
        raise UsageError("--share goes without jobs and without --run", hint="name one of the three")
    else:
        queues = (context.choose_queue(queue).name,)
        active = [job for job in _active_in(context, queues) if job.share == share]
    if not active:
        _show(context, [], {}, dry_run=dry_run)
        return
    context.out.talk(_preview(context, active, queues))
    if dry_run:
        _show(context, active, {}, dry_run=True)
        return
    if not yes:
        context.confirm(f"End {count(len(active), 'job')}?")
    errors = _terminate(context, active, reason)
    _show(context, active, errors, dry_run=False)
    context.suggest("fairshare queue")
    if errors:
        raise typer.Exit(PartialError.exit_code if len(errors) < len(active) else FairshareError.exit_code)


def _still_active(context: AppContext, targets: Targets) -> list[JobSummary]:
    """Return those of the jobs that have not ended. A few are described, many are found by listing their queues."""
    from fairshare.submit.watch import DESCRIBED_AT_MOST

    if not targets.queues or len(targets.job_ids) <= DESCRIBED_AT_MOST:
        found = context.jobs.describe(targets.job_ids)
        if missing := [job_id for job_id in targets.job_ids if job_id not in found]:
            raise NotFoundError(
                f"no job goes by {missing[0]!r}" + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""),
                hint="`fairshare queue --all` lists the jobs; Batch forgets one 7 days after its end",
            )
        return [found[job_id] for job_id in targets.job_ids if found[job_id].status not in TERMINAL_STATUSES]
    wanted = set(targets.job_ids)
    return [job for job in _active_in(context, targets.queues) if job.job_id in wanted]


def _active_in(context: AppContext, queues: Sequence[str]) -> list[JobSummary]:
    from fairshare.insight.jobs import latest_by_id

    return [job for queue in queues for job in latest_by_id(context.jobs.list(queue, ACTIVE_STATUSES))]


def _terminate(context: AppContext, jobs: Sequence[JobSummary], reason: str) -> dict[str, FairshareError]:
    """Ask AWS to end each job; return what went wrong, by job id. Refused credentials stop at once."""
    errors: dict[str, FairshareError] = {}
    for number, job in enumerate(jobs):
        try:
            context.jobs.terminate(job.job_id, reason)
        except CredentialsError:
            raise
        except FairshareError as error:
            errors[job.job_id] = error
            context.out.talk(f"{job.job_name}: {error.message}")
        except KeyboardInterrupt as interrupt:
            asked = f"{number - len(errors)} of {count(len(jobs), 'job')}"
            raise interrupted(
                interrupt,
                f"stopped after {asked}; those end, the others go on",
                hint="run the same command again to end the others",
            ) from None
    return errors


def _preview(context: AppContext, jobs: Sequence[JobSummary], queues: Collection[str]) -> str:
    from fairshare.insight.jobs import total_instances

    in_use = [job for job in jobs if job.status in IN_USE_STATUSES]
    where = ", ".join([context.place, *(f"queue {queue}" for queue in queues)])
    columns = (Column("JOB", shrinks=True), Column("SHARE"), Column("STATE"))
    shown = [[job.job_name, job.share or "-", job.status] for job in jobs[:_PREVIEWED]]
    lines = [f"  {line}" for line in table(columns, shown, context.out.width).splitlines()]
    if len(jobs) > _PREVIEWED:
        lines.append(f"  and {len(jobs) - _PREVIEWED} more")
    freed = count(total_instances(in_use), "instance") if in_use else "no instance, since none has started"
    return "\n".join([f"To end in {where}: {count(len(jobs), 'job')}", *lines, f"  That frees {freed}."])


def _show(context: AppContext, jobs: Sequence[JobSummary], errors: dict[str, FairshareError], *, dry_run: bool) -> None:
    ended = len(jobs) - len(errors)
    if not jobs:
        text = "Nothing to cancel: no such job is waiting or running."
    elif dry_run:
        text = f"Would end {count(len(jobs), 'job')}. Nothing was changed."
    else:
        failed = f" {count(len(errors), 'job')} could not be asked." if errors else ""
        text = f"Asked AWS to end {count(ended, 'job')}; running ones may take a few minutes to stop.{failed}"
    context.out.show(
        "Cancellation",
        {"dry_run": dry_run, "jobs": [_document(job, errors.get(job.job_id), dry_run) for job in jobs]},
        text=lambda width: text,
        rows="jobs",
        name="job_id",
    )


def _document(job: JobSummary, error: FairshareError | None, dry_run: bool) -> dict[str, Any]:
    from fairshare.cli.documents import job_document

    action = "would_terminate" if dry_run else "failed" if error else "terminated"
    return {"action": action, "error": error.message if error else None, **job_document(job)}
