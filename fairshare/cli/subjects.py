"""What a user means by a text on the command line: a job, or a run of this machine's journals, with its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairshare.cli.context import AppContext
from fairshare.cli.measuring import describe, find_detail
from fairshare.model import JobDetail, NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.submit.records import RunRecord

JobOrRun = Annotated[
    str | None,
    typer.Argument(metavar="JOB|RUN", help="A run, or a job; run: and job: before it say which.", show_default=False),
]

KINDS: Final = ("job", "run", "share")
"""What may be written before a colon, to say what is meant."""


@dataclass(frozen=True)
class Subject:
    """What a text stands for. ``kind`` is one of `KINDS`, ``name`` what it is called, ``jobs`` what is known of it."""

    kind: str
    name: str
    jobs: Sequence[JobDetail]


def check_alone(what: str | None, share: str | None, since: str | None) -> None:
    """Check that a job or run is not named together with a share or a time.

    Raises:
        UsageError: it is.
    """
    if what is not None and (share is not None or since is not None):
        raise UsageError(
            "name a job or a run, or a share and a time, not both", hint="a job or a run is shown from its start on"
        )


def split_subject(text: str) -> tuple[str | None, str]:
    """Return the kind that a text says it means (None = it does not say) and the name.

    Raises:
        UsageError: no name follows.
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in KINDS:
        return None, text
    if not name:
        raise UsageError(f"{text!r} names no {kind}", hint=f"write {kind}:NAME")
    return kind, name


def find_subject(context: AppContext, queue: str | None, text: str) -> Subject:
    """Return the job or the run that a text means: what is written before a colon, else a run, else a job.

    Raises:
        NotFoundError: nothing goes by it, or Batch no longer knows it.
        UsageError: no name follows a colon, or a share is meant.
    """
    kind, name = split_subject(text)
    if kind == "share":
        raise UsageError(f"{text!r} is neither a job nor a run", hint=f"write --share {name}")
    record = None if kind == "job" else _run(context, name, is_sure=kind == "run")
    if record is None:
        job = find_detail(context, queue, name)
        return Subject("job", job.job_name, [job])
    ids = [job.job_id for job in record.jobs if job.job_id is not None]
    if not ids:
        raise NotFoundError(f"run {record.run_id} has sent no job", hint="`fairshare runs` lists the runs")
    return Subject("run", record.run_id, describe(context, ids))


def _run(context: AppContext, name: str, *, is_sure: bool) -> RunRecord | None:
    from fairshare.submit.journal import find_run

    try:
        return find_run(context.runs_dir, name)
    except (NotFoundError, UsageError):
        if is_sure:
            raise
        return None
