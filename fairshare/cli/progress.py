"""How a submission is shown while it goes on: a bar on a terminal, a line per wave elsewhere. Always on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fairshare.cli.output import Output
from fairshare.cli.render import count, elapsed, safe

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from fairshare.submit.dispatch import SubmitPlan
    from fairshare.submit.events import Event


class SubmitProgress:
    """Listens to the events of `fairshare.submit.events`. A context manager, so that the bar always goes away."""

    def __init__(self, plan: SubmitPlan, out: Output) -> None:
        self._plan = plan
        self._out = out
        self._bar: Progress | None = _bar() if sys.stderr.isatty() else None
        self._task: TaskID | None = None
        self._sent = self._refused = self._repeated = 0
        self._wave = 0
        self._last_wave = plan.waves[-1].number if plan.waves else 0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=len(self._plan.jobs), note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_event(self, event: Event) -> None:
        """Take note of one event and show it."""
        from fairshare.submit import events

        match event:
            case events.UploadsDone(sent=sent):
                self._line(f"Source: {count(sent, 'object')} uploaded" if sent else "Source: already in S3")
            case events.WaveAwaited(starts_at=starts_at, now=now):
                self._show(note=f"next in {elapsed(starts_at - now + 999)}")
                return
            case events.WaveStarted(wave=wave):
                self._wave = wave.number
                if self._bar is None:
                    self._line(f"Wave {wave.number} of {self._last_wave}: {count(wave.count, 'job')}")
            case events.JobSent():
                self._sent += 1
            case events.JobRefused(job=job, message=message):
                self._refused += 1
                self._line(f"refused {job.request.job_name}: {message}")
            case events.CallRepeated():
                self._repeated += 1
        self._show()

    def _line(self, text: str) -> None:
        if self._bar is None:
            self._out.talk(text)
        else:
            self._bar.console.print(safe(text), markup=False, highlight=False)

    def _show(self, note: str = "") -> None:
        if self._bar is None or self._task is None:
            return
        counts = f"{self._sent} sent, {self._refused} failed"
        if self._repeated:
            counts += f", {self._repeated} calls repeated"
        self._bar.update(
            self._task,
            completed=self._sent + self._refused,
            description=f"Wave {max(self._wave, 1)} of {self._last_wave}",
            note=f"{counts}   {note}".rstrip(),
        )


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=32),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
    )
