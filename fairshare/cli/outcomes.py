"""Keeping what a command has seen of the ends of jobs, for the time after Batch has forgotten them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fairshare.cli.context import AppContext
from fairshare.model import FairshareError, JobSummary

if TYPE_CHECKING:
    from fairshare.submit.outcomes import Ending


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
