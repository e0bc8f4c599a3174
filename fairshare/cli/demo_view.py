"""The queue of the demo while it works: a table that redraws itself on a terminal, a line per change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from fairshare.cli.output import Output
from fairshare.cli.render import Column, count, elapsed, table
from fairshare.model import IN_USE_STATUSES, TERMINAL_STATUSES, JobStatus, JobSummary

if TYPE_CHECKING:
    from rich.live import Live

    from fairshare.submit.dispatch import SubmitPlan
    from fairshare.submit.events import Event

_TOLD: Final = frozenset({JobStatus.RUNNABLE, JobStatus.RUNNING, *TERMINAL_STATUSES})
"""Statuses worth a line of their own."""


class DemoView:
    """Shows the jobs of a run on stderr. A context manager, so that the live table always goes away."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._live: Live | None = _live() if sys.stderr.isatty() else None
        self._plan: SubmitPlan | None = None
        self._status: dict[str, str] = {}
        self._began = 0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, plan: SubmitPlan, rate: float) -> None:
        """Show what will be sent, and when."""
        from fairshare.submit.waves import timetable

        self._plan = plan
        self._began = plan.identity.created_at
        head = f"$ fairshare submit jobs.yaml\n{count(len(plan.jobs), 'job')} in {count(len(plan.waves), 'wave')}"
        self._say("\n".join([head, *timetable(plan.waves, rate), ""]))

    def show(self, jobs: Mapping[str, JobSummary], now: int, event: Event | None = None) -> None:
        """Show the jobs as they are now; ``event`` is what submission has just done, if anything."""
        from fairshare.submit.events import WaveStarted

        if isinstance(event, WaveStarted) and self._plan is not None:
            self._tell(now, f"wave {event.wave.number} of {len(self._plan.waves)}: {count(event.wave.count, 'job')}")
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(self._table(jobs, now)), refresh=True)
            return
        for job in sorted(jobs.values(), key=lambda job: (job.created_at, job.job_name)):
            before = self._status.get(job.job_id)
            self._status[job.job_id] = job.status
            if job.status != before and job.status in _TOLD:
                self._tell(now, f"{job.status:<9}  {job.share_identifier or '-':<8}  {job.job_name}")

    def _tell(self, now: int, text: str) -> None:
        self._say(f"{(now - self._began) / 1000:6.1f} s  {text}")

    def _say(self, text: str) -> None:
        if self._live is None:
            self._out.talk(text)
        else:
            self._live.console.print(text, markup=False, highlight=False)

    def _table(self, jobs: Mapping[str, JobSummary], now: int) -> str:
        columns = [Column("JOB", shrinks=True), Column("SHARE"), Column("STATE"), Column("WAITED"), Column("RUNS")]
        rows = [
            [
                job.job_name,
                job.share_identifier or "-",
                job.status,
                elapsed((job.scheduled_at or now) - job.created_at),
                elapsed((job.stopped_at or now) - job.scheduled_at) if job.scheduled_at else "",
            ]
            for job in sorted(jobs.values(), key=lambda job: (job.created_at, job.job_name))
        ]
        busy = sum(job.status in IN_USE_STATUSES for job in jobs.values())
        return f"{table(columns, rows, self._out.width)}\n{count(busy, 'instance')} in use"


def _live() -> Live:
    from rich.console import Console
    from rich.live import Live

    return Live(console=Console(stderr=True, markup=False, highlight=False), auto_refresh=False, transient=True)
