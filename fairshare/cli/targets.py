"""The jobs that ``wait`` and ``cancel`` are told to act on: ids, prefixes, names and ARNs, or a run of the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from fairshare.cli.context import AppContext
from fairshare.cli.render import count
from fairshare.model import NotFoundError, UsageError

JobTexts = Annotated[
    list[str] | None, typer.Argument(metavar="JOB", help="Names, ids, unique prefixes of them, or ARNs.")
]
RunFlag = Annotated[str | None, typer.Option("--run", metavar="RUN", help="All jobs of a run, by its id or prefix.")]


@dataclass(frozen=True)
class Targets:
    """Jobs by whole id, the queues they are in as far as known, and the job names known without asking."""

    queues: tuple[str, ...]
    job_ids: tuple[str, ...]
    names: Mapping[str, str]
    run_id: str | None = None
    """Run that the jobs are all those of, when one was named."""


def wanted_jobs(context: AppContext, texts: list[str] | None, run: str | None, queue: str | None) -> Targets:
    """Return the jobs that are meant.

    Whole ids and ARNs are taken as they are: a job may be too new, or too old, for AWS to know it (case C29).

    Raises:
        UsageError: neither jobs nor a run are named, or both; or a text fits several jobs.
        NotFoundError: nothing goes by one of the texts, or the run has sent no job.
    """
    if bool(texts) == (run is not None):
        raise UsageError(
            "name jobs, or a run with --run" if not texts else "name jobs or a run, not both",
            hint="`fairshare queue` lists the jobs",
        )
    return _jobs_of_run(context, run) if run is not None else _jobs_by_text(context, texts or [], queue)


def _jobs_by_text(context: AppContext, texts: list[str], queue: str | None) -> Targets:
    from fairshare.insight.find import find_jobs, job_id_in

    choice = context.find_queue(queue)
    name = choice.name if choice else None
    open_texts = [text for text in texts if job_id_in(text) is None]
    found = find_jobs(context.jobs, name, open_texts) if open_texts else {}
    ids = [job_id_in(text) or found[text].job_id for text in texts]
    names = {job.job_id: job.job_name for job in found.values()}
    return Targets((name,) if name else (), tuple(dict.fromkeys(ids)), names)


def _jobs_of_run(context: AppContext, run: str) -> Targets:
    from fairshare.submit.journal import find_run

    record = find_run(context.runs_dir, run)
    if record.identity.region != context.region:
        raise UsageError(
            f"run {record.run_id} was sent to {record.identity.region}, not {context.region}",
            hint=f"add --region {record.identity.region}",
        )
    names = {job.job_id: job.request.job_name for job in record.jobs if job.job_id is not None}
    if not names:
        raise NotFoundError(f"run {record.run_id} has sent no job", hint="`fairshare queue` shows what is in the queue")
    unsent = len(record.jobs) - len(names)
    if unsent:
        context.out.talk(f"warning: {count(unsent, 'job')} of run {record.run_id} not sent, so not looked at")
    return Targets(record.queues, tuple(names), names, record.run_id)
