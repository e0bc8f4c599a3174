"""``fairshare logs``: what a job printed, now or as it comes.

Lines are shown with escapes in place of control characters, to a terminal and to a pipe alike (case C47): a pipe often
ends in a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.output import OutputFormat
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import safe, utc_time
from fairshare.model import TERMINAL_STATUSES, JobDetail, NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.aws.logs import LogLine

app = new_app()


@command(
    app, examples=("fairshare logs digits-lr0-1", "fairshare logs 3f2a -f"), exit_codes=(4, 6), short_file_flag=False
)
def logs(
    context: AppContext,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name, id, a unique prefix of one, or ARN.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for the job to start and show lines until it has ended.")
    ] = False,
    queue: QueueFlag = None,
) -> None:
    """Show what a job printed: its latest attempt, or with -f every attempt from now on."""
    from fairshare.insight.find import find_job

    if follow and context.out.format not in (OutputFormat.TABLE, OutputFormat.JSON):
        raise UsageError(f"lines that are followed cannot be printed as {context.out.format}", hint="use -o json")
    choice = context.find_queue(queue)
    found = find_job(context.jobs, choice.name if choice else None, job)
    subject = _Subject(context, found.job_id)
    if follow:
        _follow(context, subject)
    else:
        _show(context, subject)
    context.suggest(f"fairshare job {subject.detail.job_name}")


class _Subject:
    """The job whose log is read, as last described."""

    def __init__(self, context: AppContext, job_id: str) -> None:
        self._context = context
        self._job_id = job_id
        self.detail = self.look()

    def look(self) -> JobDetail:
        """Describe the job again.

        Raises:
            NotFoundError: Batch no longer knows it.
        """
        found = self._context.jobs.describe([self._job_id]).get(self._job_id)
        if found is None:
            raise NotFoundError(f"job {self._job_id} is not known to Batch", hint="`fairshare queue --all` lists jobs")
        self.detail = found
        return found

    @property
    def has_ended(self) -> bool:
        """Whether no further attempt can come."""
        return self.detail.status in TERMINAL_STATUSES

    def has_left(self, training_job_name: str) -> bool:
        """Whether an attempt is over: the job has ended, or another attempt has begun."""
        self.look()
        return self.has_ended or self.detail.training_job_name != training_job_name

    def await_attempt(self, after: str | None) -> str | None:
        """Wait for an attempt other than ``after`` and return its training job; None when the job ended first."""
        pace = self._context.pace
        interval = pace.first
        while self.detail.training_job_name in (None, after) and not self.has_ended:
            self._context.clock.sleep_until(self._context.clock.now() + interval)
            interval = min(interval * 2, pace.limit)
            self.look()
        name = self.detail.training_job_name
        return None if name == after else name


def _show(context: AppContext, subject: _Subject) -> None:
    name = subject.detail.training_job_name
    lines = context.logs.read(name) if name is not None else iter(())
    if name is None:
        context.out.talk(_no_log(subject.detail))
    if context.out.is_for_people:
        if not _print_text(context, lines) and name is not None:
            context.out.talk(f"{subject.detail.job_name} is {subject.detail.status} and has printed nothing")
        return
    context.out.show(
        "Log",
        {
            "job_id": subject.detail.job_id,
            "job_name": subject.detail.job_name,
            "training_job_name": name,
            "lines": [_document(line) for line in lines],
        },
        text=lambda width: "",
        rows="lines",
        name="message",
    )


def _follow(context: AppContext, subject: _Subject) -> None:
    if subject.detail.training_job_name is None and not subject.has_ended:
        context.out.talk(f"{subject.detail.job_name} is {subject.detail.status}; waiting for it to start")
    name = subject.await_attempt(after=None)
    if name is None:
        context.out.talk(_no_log(subject.detail))
    while name is not None:
        lines = context.logs.follow(name, partial(subject.has_left, name), context.clock)
        if context.out.is_for_people:
            _print_text(context, lines)
        else:
            for line in lines:
                context.out.write(json.dumps(_document(line)))
        name = subject.await_attempt(after=name)
    reason = f": {subject.detail.status_reason}" if subject.detail.status_reason else ""
    context.out.talk(f"{subject.detail.job_name} {subject.detail.status}{reason}")


def _print_text(context: AppContext, lines: Iterable[LogLine]) -> int:
    """Print lines for people as they come; return how many there were."""
    printed = 0
    for text in _texts(lines):
        context.out.write(text or "\n")
        printed += 1
    return printed


def _texts(lines: Iterable[LogLine]) -> Iterator[str]:
    """Yield lines for people; those of a second host on are marked with the host's name."""
    first_stream = None
    for line in lines:
        first_stream = first_stream or line.stream
        host = "" if line.stream == first_stream else f"{line.stream.rsplit('/', 1)[-1].rpartition('-')[0]} | "
        yield safe(f"{host}{line.message}".rstrip("\r\n"), keep="\t")


def _document(line: LogLine) -> dict[str, Any]:
    return {"timestamp": utc_time(line.timestamp_ms), "stream": line.stream, "message": line.message}


def _no_log(detail: JobDetail) -> str:
    if detail.status in TERMINAL_STATUSES:
        return f"{detail.job_name} never started, so there is no log: {detail.status_reason or detail.status}"
    return (
        f"{detail.job_name} has no log yet: it is {detail.status}. `fairshare logs {detail.job_name} -f` waits for it."
    )
