"""``fairshare wait``: until jobs have ended, with an exit code that says how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, interrupted, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.notify import Notifier, NotifyFlag
from fairshare.cli.outcomes import Changes, keep_ends, preempted_text
from fairshare.cli.queue import QueueFlag, ran_text, waited_text
from fairshare.cli.render import Column, count, table
from fairshare.cli.targets import JobTexts, RunFlag, wanted_jobs
from fairshare.model import JobSummary, UsageError

if TYPE_CHECKING:
    from fairshare.insight.wait import WaitedJob, WaitResult

app = new_app()

_GONE: Final = "no longer kept by Batch"


@command(
    app,
    examples=(
        "fairshare wait digits-lr0-1",
        "fairshare wait --run lunar-otter --timeout 2h",
        "fairshare wait 3f2a --timeout 0 -o json",
    ),
    exit_codes=(3, 4, 8),
)
def wait(
    context: AppContext,
    jobs: JobTexts = None,
    run: RunFlag = None,
    queue: QueueFlag = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Give up after 90 (s), 5m, 1h30m; 0 looks once.")
    ] = None,
    notify: NotifyFlag = None,
) -> None:
    """Wait until jobs have ended. Changes are told on stderr, the results on stdout.

    How they ended is kept for the time after Batch has forgotten them.
    """
    from fairshare.insight.wait import wait_for_jobs

    notifier = Notifier(context, "wait", notify)
    milliseconds = None if timeout is None else _milliseconds(timeout)
    wanted = wanted_jobs(context, jobs, run, queue)
    again = f"fairshare wait {'--run ' + run if run else ' '.join(jobs or [])}"
    try:
        result = wait_for_jobs(
            context.jobs,
            wanted.queues[0] if wanted.queues else None,
            wanted.job_ids,
            clock=context.clock,
            timeout=milliseconds,
            pace=context.pace,
            on_change=Changes(context.out).tell,
        )
    except KeyboardInterrupt as interrupt:
        raise interrupted(interrupt, "stopped waiting; the jobs go on", hint=f"`{again}` waits again") from None
    keep_ends(context, "wait", (job.last_known for job in result.jobs if job.last_known is not None))
    notifier.tell_waited(result, run_id=wanted.run_id)
    _show(context, result, wanted.names)
    context.suggest(_next_command(result, wanted.names, again))
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _milliseconds(text: str) -> int:
    from fairshare.config.durations import parse_duration

    try:
        return parse_duration(text) * 1000
    except ValueError as error:
        raise UsageError(f"--timeout: {error}", hint="leave it out to wait without end") from None


def _show(context: AppContext, result: WaitResult, names: Mapping[str, str]) -> None:
    now = context.clock.now()
    context.out.show(
        "WaitResult",
        {"exit_code": result.exit_code, "jobs": [_document(job, names) for job in result.jobs]},
        text=lambda width: _text(result, names, now, width),
        rows="jobs",
        name="job_id",
    )


def _document(job: WaitedJob, names: Mapping[str, str]) -> dict[str, Any]:
    from fairshare.cli.documents import job_document

    known = (
        job_document(job.last_known) if job.last_known else {"job_id": job.job_id, "job_name": names.get(job.job_id)}
    )
    detail = job.detail
    preemption = {
        "preemptions": None if detail is None else detail.preemptions,
        "preemption_reason": None if detail is None else detail.preemption_reason,
    }
    return {"outcome": job.outcome.value, **known, **preemption}


def _text(result: WaitResult, names: Mapping[str, str], now: int, width: int | None) -> str:
    from fairshare.insight.wait import Outcome

    columns = (
        Column("JOB", shrinks=True),
        Column("OUTCOME"),
        Column("WAITED"),
        Column("RAN"),
        Column("REASON", shrinks=True, prose=True),
    )
    rows = [_row(job, names, now) for job in result.jobs]
    counts = [f"{len(jobs)} {outcome.value.lower()}" for outcome in Outcome if (jobs := result.having(outcome))]
    return f"{table(columns, rows, width)}\n{count(len(result.jobs), 'job')}: {', '.join(counts)}."


def _row(job: WaitedJob, names: Mapping[str, str], now: int) -> list[str]:
    from fairshare.insight.wait import Outcome

    known = job.last_known
    name = known.job_name if known else names.get(job.job_id, job.job_id)
    outcome = job.outcome.value
    if job.outcome is Outcome.UNKNOWN:
        return [name, outcome, "-", "-", f"{_GONE}, last known {known.status if known else 'as sent'}"]
    if known is None:
        return [name, outcome, "-", "-", ""]
    return [name, outcome, waited_text(known, now), ran_text(known, now), _reason(job, known)]


def _reason(job: WaitedJob, known: JobSummary) -> str:
    """AWS's words, or where an unfinished job is; and how often it was preempted, whose reason AWS may repeat."""
    from fairshare.insight.wait import Outcome

    preempted = preempted_text(job.detail) if job.detail is not None and job.detail.preemptions else ""
    reason = known.status_reason or ""
    if not reason or reason in preempted:
        reason = known.status if job.outcome is Outcome.UNFINISHED else ""
    return "; ".join(filter(None, (reason, preempted)))


def _next_command(result: WaitResult, names: Mapping[str, str], again: str) -> str:
    from fairshare.insight.wait import Outcome

    failed = result.having(Outcome.FAILED)
    if failed:
        return f"fairshare logs {names.get(failed[0].job_id, failed[0].job_id)}"
    return again if result.having(Outcome.UNFINISHED) else "fairshare queue --all"
