"""What ``metrics``, ``efficiency``, ``compare`` and ``cost`` share: from what a user typed to jobs and their series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairshare.cli.context import AppContext
from fairshare.cli.render import count
from fairshare.model import JobDetail, NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.insight.jobs import Past
    from fairshare.insight.measured import Reading, Selection
    from fairshare.metrics.efficiency import JobEfficiency

ShareFlag = Annotated[str | None, typer.Option("--share", metavar="SHARE", help="The jobs of this share.")]
SinceFlag = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="How far to look back: 90m, 24h (default), 14d.")
]
PeriodFlag = Annotated[
    int | None,
    typer.Option("--period", metavar="SECONDS", help="Length of a bin (default: the shortest that is kept and fits)."),
]

_DEFAULT_SINCE: Final = 24 * 3_600_000
_PUBLISHED_EVERY: Final = 60
"""Seconds in which SageMaker and AWS Batch publish."""

_LOGS_AT_MOST: Final = 20
"""Up to this many jobs have the end of their log read for signs of spilling."""


def begin_of(context: AppContext, text: str | None) -> int:
    """Return the beginning of the time to look at, in milliseconds.

    Raises:
        UsageError: ``text`` is not a duration.
    """
    from fairshare.config.durations import parse_duration

    if text is None:
        return context.clock.now() - _DEFAULT_SINCE
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--since: {error}", hint="give how far to look back, as 90m, 24h or 14d") from None
    if seconds == 0:
        raise UsageError("--since: 0 leaves no time to look at", hint="give how far to look back, as 90m, 24h or 14d")
    return context.clock.now() - seconds * 1000


def find_detail(context: AppContext, queue: str | None, text: str) -> JobDetail:
    """Return the job that a text means, described.

    Raises:
        NotFoundError: nothing goes by it, or Batch no longer knows it.
    """
    from fairshare.insight.find import find_job

    choice = context.find_queue(queue)
    found = find_job(context.jobs, choice.name if choice else None, text)
    return describe(context, [found.job_id])[0]


def describe(context: AppContext, job_ids: Sequence[str]) -> list[JobDetail]:
    """Return jobs by id.

    Raises:
        NotFoundError: Batch knows none of them.
    """
    from fairshare.insight.results import describe_in_parallel

    found = describe_in_parallel(context.jobs, job_ids)
    if not found:
        raise NotFoundError(
            f"job {job_ids[0]} cannot be described" if len(job_ids) == 1 else "Batch knows none of these jobs",
            hint="Batch forgets a job 7 days after its end",
        )
    gone = len(job_ids) - len(found)
    if gone:
        context.out.talk(f"warning: {count(gone, 'job')} no longer kept by Batch, so left out")
    return list(found.values())


class Listings:
    """The newest jobs of queues, whatever their status; each queue is listed once, because that costs many calls."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._known: dict[tuple[str, int | None], Past] = {}

    def of(self, queue: str, created_before: int | None = None) -> Past:
        """Return the jobs of a queue, by its name or ARN; those made before an instant (ms) when one is given."""
        from fairshare.insight.jobs import past_of

        key = queue.rsplit("/", 1)[-1], created_before
        if key not in self._known:
            self._known[key] = past_of(self._context.jobs, queue, created_before)
        return self._known[key]


def past_since(context: AppContext, listings: Listings, queue: str, begin: int) -> Past:
    """Return the jobs of a queue; says so when they do not reach back to ``begin`` ms."""
    past = listings.of(queue)
    if past.since is not None and past.since > begin:
        context.out.talk(
            f"warning: only the newest {count(len(past.jobs), 'job')} of the queue are looked at: give a shorter "
            "--since"
        )
    return past


def jobs_since(context: AppContext, listings: Listings, queue: str, share: str | None, begin: int) -> Selection:
    """Return the jobs of a queue, or of a share of it, that ran after ``begin`` ms; says when some are left out."""
    from fairshare.insight.measured import select_jobs

    past = past_since(context, listings, queue, begin)
    selection = select_jobs(context.jobs, past.jobs, share=share, since=begin, now=context.clock.now())
    if selection.left_out:
        context.out.talk(
            f"warning: only the newest {count(len(selection.jobs), 'job')} are looked at, {selection.left_out} more "
            "ran in this time: give a shorter --since, or --share"
        )
    return selection


def read(
    context: AppContext, jobs: Sequence[JobDetail], *, begin: int | None = None, period: int | None = None
) -> Reading:
    """Return the series of jobs; says what of the request could not be kept."""
    from fairshare.insight.measured import read_jobs

    now, finest = context.clock.now(), finest_period(context)
    reading = read_jobs(jobs, context.metrics, now, since=begin, period=period, finest=finest)
    for notice in reading.window.notices if reading.window else ():
        context.out.talk(f"note: {notice}")
    return reading


def finest_period(context: AppContext) -> int:
    """Return the shortest period, in seconds, that metrics may have: on this machine they come each second."""
    return 1 if context.session.is_loopback else _PUBLISHED_EVERY


def judged(context: AppContext, jobs: Sequence[JobDetail]) -> list[JobEfficiency]:
    """Return how well jobs used what they held. The ends of few jobs' logs are read for signs of spilling, too."""
    from fairshare.insight.measured import judge_jobs

    reads_logs = len(jobs) <= _LOGS_AT_MOST
    return judge_jobs(
        read(context, jobs),
        context.training_phases,
        context.clock.now(),
        lambda job: _spilled(context, job) if reads_logs else None,
    )


def _spilled(context: AppContext, job: JobDetail) -> int | None:
    from fairshare.metrics.spill import spilled_mib

    if job.training_job_name is None:
        return None
    lines = context.logs.read(job.training_job_name, start_from_head=False)
    return spilled_mib((line.stream, line.message) for line in lines)
