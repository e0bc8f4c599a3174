"""What a command that waits sees of jobs: changes are told, ends are kept for the time after Batch forgot them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fairshare.cli.context import AppContext
from fairshare.cli.output import Output
from fairshare.cli.render import count
from fairshare.model import FairshareError, JobDetail, JobStatus, JobSummary

if TYPE_CHECKING:
    from fairshare.submit.outcomes import Ending


class Changes:
    """Tells what becomes of jobs while they are waited for: a line for each change, on stderr."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._preemptions: dict[str, int] = {}
        """What was told of, by job id."""

    def tell(self, job: JobSummary) -> None:
        """Say what a job is now, why it failed, and that it was preempted, if that is news."""
        preempted = self._news_of_preemption(job)
        reason = job.status_reason or "" if job.status == JobStatus.FAILED else ""
        words = (job.job_name, job.status, "" if reason in preempted else reason, preempted)
        self._out.talk("  ".join(filter(None, words)))

    def _news_of_preemption(self, job: JobSummary) -> str:
        if not isinstance(job, JobDetail) or job.preemptions <= self._preemptions.get(job.job_id, 0):
            return ""
        self._preemptions[job.job_id] = job.preemptions
        return preempted_text(job)


def preempted_text(job: JobDetail) -> str:
    """Return how often a job was preempted, and why the last time: ``preempted 2 times, lately: Cross-share ...``."""
    often = f"preempted {count(job.preemptions, 'time')}"
    return often if job.preemption_reason is None else f"{often}, lately: {job.preemption_reason}"


def keep_ends(context: AppContext, command: str, jobs: Iterable[JobSummary]) -> None:
    """Note in the journals of this machine how these jobs ended; those of other machines are not in any."""
    from fairshare.submit.outcomes import ending_of, runs_of

    endings = {job.job_id: ending for job in jobs if (ending := ending_of(job)) is not None}
    for run_id in runs_of(context.runs_dir, endings) if endings else ():
        keep_endings(context, command, run_id, endings)


def keep_endings(context: AppContext, command: str, run_id: str, endings: Mapping[str, Ending]) -> None:
    """Note in the journal of a run how jobs ended, by id. A journal that cannot be written is a warning."""
    from fairshare.submit.holder import Holder
    from fairshare.submit.outcomes import note_endings

    if not endings:
        return
    try:
        note_endings(context.runs_dir, run_id, endings, Holder(f"fairshare {command}", context.clock.now()))
    except FairshareError as error:
        context.out.talk(f"warning: how jobs ended is not kept: {error.message}")
