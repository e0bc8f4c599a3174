"""Scheduling priorities of jobs, which ListServiceJobs does not carry: from the journals, else from a recent describe.

DescribeServiceJob tells of one job a call. What it told is kept for `KEPT`, so that looking at a queue again and again
costs no more than listing it (case C49).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fairshare.cli.context import AppContext
from fairshare.cli.kept import keep, read_kept

if TYPE_CHECKING:
    from fairshare.insight.jobs import JobList

KEPT: Final = 600_000
"""Milliseconds; a priority that somebody changes is shown late by so much at most."""

_FILE: Final = "priorities.json"


def known_priorities(context: AppContext) -> dict[str, int | None]:
    """Return what is known without asking AWS, by job id; None for a job that has no priority."""
    described = {job_id: priority for job_id, (priority, _) in _recent(context).items()}
    return {**context.journaled_priorities(), **described}


def keep_priorities(context: AppContext, jobs: JobList, known: Mapping[str, int | None]) -> None:
    """Keep the priorities that a listing has found out about, beyond what was known."""
    now = context.clock.now()
    found = {
        row.job.job_id: (row.job.scheduling_priority, now)
        for row in jobs.rows
        if row.job.scheduling_priority is not None and row.job.job_id not in known
    }
    if found:
        keep(context.cache_dir / _FILE, {**_recent(context), **found})


def _recent(context: AppContext) -> dict[str, tuple[int | None, int]]:
    """What is kept and not too old: priority and when it was told, by job id."""
    now = context.clock.now()
    return {
        job_id: (entry[0], entry[1])
        for job_id, entry in read_kept(context.cache_dir / _FILE).items()
        if _is_entry(entry) and 0 <= now - entry[1] < KEPT
    }


def _is_entry(entry: object) -> bool:
    match entry:
        case [int() | None, int()]:
            return True
        case _:
            return False
