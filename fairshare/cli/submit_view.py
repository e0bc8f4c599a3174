"""What ``submit`` and ``resume`` print: the plan before sending, and what became of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from fairshare.cli.command import interrupted
from fairshare.cli.context import AppContext
from fairshare.cli.notify import Notifier
from fairshare.cli.outcomes import Changes, keep_ends
from fairshare.cli.render import count, safe, utc_time
from fairshare.config.sizes import format_size
from fairshare.model import FairshareError

if TYPE_CHECKING:
    from fairshare.cli.submission import PreparedRun
    from fairshare.insight.wait import WaitResult
    from fairshare.submit.dispatch import RunResult, SubmitPlan
    from fairshare.submit.forecast import Prediction

_LEFT_OUT_SHOWN: Final = 5


def show_plan(context: AppContext, run: PreparedRun) -> None:
    """Print what would be sent, as the answer of a dry run."""
    from fairshare.cli.dry_run import details_text

    document = {key: value for key, value in run.plan.to_json().items() if key not in {"api_version", "kind"}}
    context.out.show(
        "SubmitPlan",
        document | {"prediction": _prediction(context, run)},
        text=lambda width: "\n\n".join(
            [plan_text(context, run), details_text(run.plan, width), "Nothing was written or sent."]
        ),
        rows="requests",
        name="job_name",
    )


def plan_text(context: AppContext, run: PreparedRun) -> str:
    """Return a plan for people: what was checked, what goes where, when, and how long that may take."""
    from fairshare.cli.start_times import shown_zone
    from fairshare.submit.forecast import plan_lines, recent_runs

    plan = run.plan
    queues = sorted({job.request.job_queue for job in plan.jobs})
    shares = sorted({share for job in plan.jobs if (share := job.request.share_identifier or job.request.quota_share)})
    others = dict.fromkeys(other.job_queue for job in plan.jobs for other in job.alternatives)
    head = f"{count(len(plan.jobs), 'job')} to queue {', '.join(queues)}"
    head += f" (else {', '.join(others)})" if others else ""
    head += f" as {', '.join(shares)}" if shares else ""
    return "\n".join(
        [
            f"{head}, {context.place}",
            "Checked: names, tags, shares, capacity, image region, role, "
            f"payloads (largest {plan.largest_payload_bytes / 1024:.1f} of 10 KiB)",
            *_source_lines(plan),
            _upload_line(plan),
            "",
            *plan_lines(
                plan,
                run.rate,
                now=context.clock.wall(),
                zone=shown_zone(context.environ),
                past=recent_runs(context.runs_dir),
                is_simulated=context.session.is_loopback,
            ),
            "",
            f"Run {plan.identity.run_id}",
        ]
    )


def expected_of(context: AppContext, plan: SubmitPlan, rate: float) -> Prediction:
    """Return when a plan is expected to be sent and done, from what this machine knows of earlier runs."""
    from fairshare.submit.forecast import predict, recent_runs

    return predict(plan, rate, past=recent_runs(context.runs_dir), is_simulated=context.session.is_loopback)


def _prediction(context: AppContext, run: PreparedRun) -> dict[str, Any]:
    expected = expected_of(context, run.plan, run.rate)
    return {
        "sent_at": None if expected.sent_at is None else utc_time(expected.sent_at),
        "finish_at": None if expected.finish_at is None else utc_time(expected.finish_at),
        "basis": expected.basis,
    }


def _upload_line(plan: SubmitPlan) -> str:
    if not plan.uploads:
        return "Uploads: none"
    size = format_size(plan.upload_bytes)
    return f"Uploads: {count(len(plan.uploads), 'object')}, {size}, less what is in S3 already"


def _source_lines(plan: SubmitPlan) -> list[str]:
    """One line for each source directory, with what stays at home (case C14)."""
    lines = []
    for source in plan.sources:
        names = [safe(each.path) for each in source.left_out]
        more = f" and {len(names) - _LEFT_OUT_SHOWN} more" if len(names) > _LEFT_OUT_SHOWN else ""
        left_out = f"; left out: {', '.join(names[:_LEFT_OUT_SHOWN])}{more}" if names else ""
        content = f"{count(source.files, 'file')}, {format_size(source.size)}"
        lines.append(f"Source {safe(source.directory)}: {content}{left_out}")
    return lines


def finish(context: AppContext, result: RunResult, *, wait: bool, notifier: Notifier) -> None:
    """Print the one answer of the command, and notify; with ``--wait``, after the jobs have ended."""
    from fairshare.cli.errors import error_text

    failure = result.error()
    if failure is not None and not result.sent:
        notifier.tell_result(result)
        raise failure
    waited = _wait(context, result) if wait else None
    notifier.tell_result(result, waited)
    document = result.to_json()
    if waited is not None:
        outcomes = {job.job_id: job.outcome.value for job in waited.jobs}
        document["jobs"] = [{**job, "outcome": outcomes[job["job_id"]]} for job in document["jobs"]]
    context.out.show(
        "Run",
        {key: value for key, value in document.items() if key not in {"api_version", "kind"}},
        text=lambda width: _result_text(document, width),
        rows="jobs",
        name="job_id",
    )
    context.out.talk(f"{result.summary()} (run {result.run_id})")
    context.suggest("fairshare queue" if waited is None else f"fairshare results {result.run_id}")
    if failure is not None:
        context.out.talk(error_text(context.located(failure)))
        raise typer.Exit(failure.exit_code)
    if waited is not None and waited.exit_code:
        raise typer.Exit(waited.exit_code)


def _wait(context: AppContext, result: RunResult) -> WaitResult:
    """Wait for the jobs that were sent; whatever ends that early, the jobs go on, and it is said which they are."""
    from fairshare.insight.wait import wait_for_jobs

    sent = f"{result.summary()} (run {result.run_id}), and the jobs go on"
    hint = f"`fairshare wait --run {result.run_id}` waits again, `fairshare cancel --run {result.run_id}` ends them"
    try:
        waited = wait_for_jobs(
            context.jobs,
            result.sent[0][0].request.job_queue,
            [ref.job_id for _, ref in result.sent],
            clock=context.clock,
            timeout=None,
            pace=context.pace,
            on_change=Changes(context.out).tell,
        )
    except KeyboardInterrupt as interrupt:
        raise interrupted(interrupt, f"stopped waiting: {sent}", hint=hint) from None
    except FairshareError as error:
        raise type(error)(f"{error.message}: {sent}", hint="\n".join(filter(None, (error.hint, hint)))) from error
    keep_ends(context, "submit --wait", (job.last_known for job in waited.jobs if job.last_known is not None))
    return waited


def _result_text(document: dict[str, Any], width: int | None) -> str:
    from fairshare.cli.render import Column, table

    if not document["jobs"]:
        return ""
    has_outcome = any("outcome" in job for job in document["jobs"])
    columns = [Column("JOB", shrinks=True), Column("SHARE"), Column("PRI", right=True), Column("WAVE", right=True)]
    columns.append(Column("OUTCOME" if has_outcome else "ID"))
    rows = [
        [
            job["job_name"],
            job["share_identifier"] or job["quota_share"] or "-",
            "-" if job["scheduling_priority"] is None else str(job["scheduling_priority"]),
            str(job["wave"]),
            job["outcome"] if has_outcome else job["job_id"][:8],
        ]
        for job in document["jobs"]
    ]
    return table(columns, rows, width)
