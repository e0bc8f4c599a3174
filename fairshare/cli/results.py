"""``fairshare results``: what came of a run, as a table over what its sweep varied, and the models themselves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.outcomes import keep_endings
from fairshare.cli.output import OutputFormat
from fairshare.cli.render import Column, count, elapsed, table
from fairshare.model import FairshareError, PartialError, UsageError

if TYPE_CHECKING:
    from fairshare.insight.results import JobResult, RunResults, Seen
    from fairshare.submit.records import RunRecord

app = new_app()


@command(
    app,
    examples=(
        "fairshare results lunar-otter --sort accuracy --best 5",
        "fairshare results lunar-otter --sort loss --lowest-first -o csv",
        "fairshare results lunar-otter --best 1 --get models",
    ),
    exit_codes=(3, 4),
)
def results(
    context: AppContext,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or a unique beginning of it.")],
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="NAME", help="Metric, parameter or *_seconds; highest first.")
    ] = None,
    lowest_first: Annotated[bool, typer.Option("--lowest-first", help="Sort the other way, as for a loss.")] = False,
    best: Annotated[
        int | None, typer.Option("--best", metavar="N", help="The first N only (of the only metric, without --sort).")
    ] = None,
    get: Annotated[
        Path | None, typer.Option("--get", metavar="DIR", help="Download the models shown, unpacked, to DIR/<job>.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --get: replace folders that are there.")] = False,
) -> None:
    """Show what came of a run: one row a job, with what its sweep varied, the final metrics, the time and the model.

    AWS is asked only for what the run's journal does not know yet; what it answers is kept there, for the time after
    Batch has forgotten the jobs.
    """
    from fairshare.insight.results import results_of
    from fairshare.submit.journal import find_run

    if best is not None and best < 1:
        raise UsageError(f"--best {best} is less than 1", hint="leave it out to see all jobs")
    if force and get is None:
        raise UsageError("--force is for --get", hint="add --get DIR, or leave --force out")
    record = find_run(context.runs_dir, run)
    found = results_of(record, _ask_aws(context, record))
    shown = _chosen(found, sort, lowest_first=lowest_first, best=best)
    fetched, failures = _fetch(context, shown.jobs, get, force=force) if get is not None else ({}, [])
    _show(context, shown, fetched)
    _remark(context, shown, offers_models=get is None)
    if failures:
        context.out.talk("\n".join(["error: not every model could be fetched", *failures]))
        raise typer.Exit(PartialError.exit_code if fetched else 1)


# ---------------------------------------------------------------------------------------------------------------------
# What is known


def _ask_aws(context: AppContext, record: RunRecord) -> Seen:
    """Return what AWS tells beyond the journal, and keep it there. AWS that cannot be asked is a warning."""
    from fairshare.insight.results import Seen, job_ids_to_ask, see_jobs, with_training
    from fairshare.submit.recovery import check_place

    seen = Seen()
    if not job_ids_to_ask(record):
        return seen
    with _told_if_it_fails(context):
        check_place(record, context.region, context.session.account_id)
        seen = see_jobs(record, context.jobs)
        seen = with_training(record, seen, context.training_jobs)
    keep_endings(context, "results", record.run_id, seen.endings)
    return seen


@contextmanager
def _told_if_it_fails(context: AppContext) -> Iterator[None]:
    try:
        yield
    except FairshareError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        context.out.talk(f"warning: shown is what this machine knows of the run: {error.message}{hint}")


def _chosen(found: RunResults, sort: str | None, *, lowest_first: bool, best: int | None) -> RunResults:
    """Return the rows that were asked for, in order."""
    if sort is None and (best is not None or lowest_first):
        if len(found.metrics) != 1:
            has = f"it has {', '.join(found.metrics)}" if found.metrics else "it has no metric"
            flag = "--lowest-first" if best is None else "--best"
            raise UsageError(f"{flag} of what? Run {found.run_id}: {has}", hint="add --sort NAME")
        sort = found.metrics[0]
    if sort is not None:
        found = found.sorted_by(sort, lowest_first=lowest_first)
    return found if best is None else found.first(best)


# ---------------------------------------------------------------------------------------------------------------------
# Models


def _fetch(
    context: AppContext, jobs: Sequence[JobResult], folder: Path, *, force: bool
) -> tuple[dict[str, Path], list[str]]:
    """Download the models of jobs; return where each is, by job name, and what went wrong."""
    from fairshare.aws.artifacts import fetch_model

    fetched: dict[str, Path] = {}
    failures = []
    for job in jobs:
        if job.model_artifacts is None:
            continue
        target = context.cwd / folder / job.job_name
        try:
            is_new = fetch_model(context.objects, job.model_artifacts, target, force=force)
        except FairshareError as error:
            failures.append(f"{job.job_name}: {error.message}" + (f"\n  {error.hint}" if error.hint else ""))
            continue
        fetched[job.job_name] = target
        context.out.talk(f"{target}" + ("" if is_new else "  is there already (--force replaces it)"))
    if not fetched and not failures:
        context.out.talk("None of these jobs has a model")
    return fetched, failures


# ---------------------------------------------------------------------------------------------------------------------
# Screens


def _show(context: AppContext, found: RunResults, fetched: Mapping[str, Path]) -> None:
    documents = [_document(job, found, fetched.get(job.job_name)) for job in found.jobs]
    is_flat = context.out.format is OutputFormat.CSV
    context.out.show(
        "Results",
        {
            "run_id": found.run_id,
            "parameters": list(found.parameters),
            "metrics": list(found.metrics),
            "jobs": [_flat(document) for document in documents] if is_flat else documents,
        },
        text=lambda width: _text(found, width),
        rows="jobs",
        name="job_name",
    )


def _document(job: JobResult, found: RunResults, folder: Path | None) -> dict[str, Any]:
    document = {
        "job_name": job.job_name,
        "status": job.status,
        "parameters": {name: job.parameters.get(name) for name in found.parameters},
        "metrics": {name: job.metrics.get(name) for name in found.metrics},
        "training_seconds": job.training_seconds,
        "billable_seconds": job.billable_seconds,
        "attempts": job.attempts,
        "model_artifacts": job.model_artifacts,
        "job_id": job.job_id,
        "training_job_name": job.training_job_name,
        "reason": job.reason,
        "preemptions": job.preemptions,
        "preemption_reason": job.preemption_reason,
        "not_known": list(job.not_known),
    }
    return document if folder is None else {**document, "directory": str(folder)}


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """One CSV row: parameters and metrics as columns; one whose name is taken gets its kind before it."""
    row: dict[str, Any] = {"job_name": document["job_name"], "status": document["status"]}
    rest = {key: value for key, value in document.items() if key not in {*row, "parameters", "metrics", "not_known"}}
    for kind in ("parameters", "metrics"):
        for name, value in document[kind].items():
            row[f"{kind[:-1]}_{name}" if name in row or name in rest else name] = value
    return row | rest | {"not_known": " ".join(document["not_known"])}


def _text(found: RunResults, width: int | None) -> str:
    shows: dict[str, Callable[[JobResult], str]] = {
        "TRAINED": lambda job: _duration(job.training_seconds),
        "BILLED": lambda job: _duration(job.billable_seconds),
        "TRIES": lambda job: _cell(job.attempts),
    }
    if any(job.preemptions for job in found.jobs):
        shows["PREEMPTED"] = lambda job: _cell(job.preemptions)
    columns = [Column("JOB", shrinks=True), Column("STATUS")]
    columns += [Column(name, right=True) for name in (*found.parameters, *found.metrics)]
    columns += [Column(title, right=True) for title in shows]
    columns.append(Column("MODEL", shrinks=True))
    rows = [
        [
            job.job_name,
            job.status,
            *(_cell(job.parameters.get(name), "") for name in found.parameters),
            *(_cell(job.metrics.get(name)) for name in found.metrics),
            *(show(job) for show in shows.values()),
            job.model_artifacts or "-",
        ]
        for job in found.jobs
    ]
    return table(columns, rows, width)


def _duration(seconds: int | None) -> str:
    return "-" if seconds is None else elapsed(seconds * 1000)


def _cell(value: Any, missing: str = "-") -> str:
    """A value for people: numbers with at most six significant digits, whole ones as they are."""
    if value is None:
        return missing
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return str(value)


def _remark(context: AppContext, found: RunResults, *, offers_models: bool) -> None:
    """Say what the table cannot: why jobs failed, what nobody knows any more, and what to do next."""
    if unknown := [job for job in found.jobs if job.not_known]:
        names = dict.fromkeys(name for job in unknown for name in job.not_known)
        context.out.talk(f"{count(len(unknown), 'job')}: no longer known: {', '.join(names)}")
    failed = [job for job in found.jobs if job.status in ("FAILED", "REFUSED", "SKIPPED")]
    if context.out.is_for_people:
        for job in failed:
            context.out.talk(f"{job.job_name}  {job.status}  {(job.reason or 'no reason is known').splitlines()[0]}")
        _tell_preemptions(context, found)
    if any(job.status in ("NOT_SENT", "NO_ANSWER") for job in found.jobs):
        context.suggest(f"fairshare resume {found.run_id}")
    elif failed:
        context.suggest(f"fairshare resume {found.run_id} --failed")
    elif offers_models and any(job.model_artifacts for job in found.jobs):
        context.suggest(f"fairshare results {found.run_id} --get models")


def _tell_preemptions(context: AppContext, found: RunResults) -> None:
    """Say why jobs were preempted, the last time of each: a line for each reason, however many jobs there are."""
    preempted = [job for job in found.jobs if job.preemptions]
    reasons = Counter(job.preemption_reason for job in preempted if job.preemption_reason)
    for reason, jobs in reasons.items():
        context.out.talk(f"{count(jobs, 'job')} preempted, lately: {reason}")
