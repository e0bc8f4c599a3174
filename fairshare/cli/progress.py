"""How a submission is shown while it goes on: a bar on a terminal, a line per wave elsewhere. Always on stderr.

What is expected of the waves that are left is kept current in both.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fairshare.cli.output import Output
from fairshare.cli.render import count, elapsed, safe

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from fairshare.scheduler.clock import Clock
    from fairshare.submit.dispatch import SubmitPlan
    from fairshare.submit.events import Event
    from fairshare.submit.waves import Wave


class SubmitProgress:
    """Listens to the events of `fairshare.submit.events`. A context manager, so that the bar always goes away.

    Args:
        plan: what is sent.
        out: where it is shown.
        clock: for what is expected, which windows of the wall clock decide, too.
        rate: calls a second; 0 = no limit.
        done_at: when all jobs are expected to have ended, ms, if all goes as planned; None = not known.
    """

    def __init__(self, plan: SubmitPlan, out: Output, clock: Clock, rate: float, done_at: int | None = None) -> None:
        from fairshare.submit.waves import Timetable

        self._plan = plan
        self._out = out
        self._clock = clock
        self._rate = rate
        self._done_at = done_at
        self._late = 0
        """By how much the waves are later than planned, ms."""
        self._timetable = Timetable(plan.waves, plan.rules.gate)
        self._taken = 0
        """Jobs of the waves that have started."""
        self._sent: set[int] = set()
        """Indexes of jobs."""
        self._told: set[str] = set()
        """What was said to be waited for."""
        self._bar: Progress | None = _bar() if sys.stderr.isatty() else None
        self._task: TaskID | None = None
        self._refused = self._skipped = self._ended = self._repeated = 0
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
            case events.WaveAwaited(starts_at=starts_at, now=now):
                self._show(note=self._outlook(now) or f"next in {elapsed(starts_at - now + 999)}")
                return
            case events.JobsAwaited(why=why):
                self._tell_once(why)
                return
            case events.LookFailed(message=message):
                self._tell_once(f"the jobs cannot be looked at, trying again: {message}")
                return
            case events.UploadsDone(sent=sent):
                self._line(f"Source: {count(sent, 'object')} uploaded" if sent else "Source: already in S3")
            case events.WaveStarted(wave=wave, at=at):
                self._start_wave(wave, at)
            case _:
                self._take_job(event)
        self._show()

    def _take_job(self, event: Event) -> None:
        """Count what happened to one job, and say what is not as usual."""
        from fairshare.submit import events

        match event:
            case events.JobSent(job=job):
                self._sent.add(job.index)
            case events.JobRefused(job=job, message=message):
                self._refused += 1
                self._line(f"refused {job.request.job_name}: {message}")
            case events.CallRepeated():
                self._repeated += 1
            case events.JobSkipped(job=job, skip=skip):
                self._skipped += 1
                self._line(f"skipped {job.request.job_name}: {skip.reason}")
            case events.JobEnded():
                self._ended += 1
            case events.JobMoved(job=job, from_queue=queue, why=why):
                self._sent.discard(job.index)
                self._line(f"moved {job.request.job_name} from queue {queue} to {job.request.job_queue}: {why}")
            case events.LaunchIsSlow(job=job, took=took):
                name = job.request.job_name
                self._line(f"slow: {name} has been launching for {elapsed(took)} and is not waited for any longer")

    def _start_wave(self, wave: Wave, at: int) -> None:
        self._wave = wave.number
        self._last_wave = max(self._last_wave, wave.number)
        self._taken += wave.count
        self._late = max(self._late, at - wave.starts_at)
        if self._timetable.next is not None:
            self._timetable.started(at)
        if self._bar is None:
            outlook = self._outlook(at)
            line = f"Wave {wave.number} of {self._last_wave}: {count(wave.count, 'job')}"
            self._line(f"{line} ({outlook})" if outlook else line)

    def _outlook(self, now: int) -> str:
        """What is expected of the waves that are left, and of the end of all jobs; empty when nothing is."""
        from fairshare.submit.waves import remaining

        unsent = max(0, self._taken - len(self._sent) - self._refused)
        wall, held = self._clock.wall(), self._plan.may_be_held
        parts = [remaining(self._timetable, now, wall, self._rate, unsent, at_earliest=held)]
        if self._done_at is not None and (left := self._done_at + self._late - now) > 0:
            parts.append(f"all done in {elapsed(left)}")
        return ", ".join(filter(None, parts))

    def _tell_once(self, why: str) -> None:
        """Say what is waited for: on a terminal all the time, elsewhere once."""
        if self._bar is not None:
            self._show(note=f"waiting: {why}")
        elif why not in self._told:
            self._told.add(why)
            self._line(f"Waiting: {why}")

    def _line(self, text: str) -> None:
        if self._bar is None:
            self._out.talk(text)
        else:
            self._bar.console.print(safe(text), markup=False, highlight=False)

    def _show(self, note: str = "") -> None:
        if self._bar is None or self._task is None:
            return
        counts = f"{len(self._sent)} sent, {self._refused} failed"
        for number, what in (
            (self._skipped, "skipped"),
            (self._ended, "seen to end"),
            (self._repeated, "calls repeated"),
        ):
            counts += f", {number} {what}" if number else ""
        self._bar.update(
            self._task,
            completed=len(self._sent) + self._refused + self._skipped,
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
