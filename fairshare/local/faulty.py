"""Where faults strike: in front of the services, over HTTP and in-process, and between the queues and the launcher."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from fairshare.local.faults import CallFate, Faults
from fairshare.local.guard import Application, Environ, StartResponse, error_answer
from fairshare.local.launcher import Attempt, Launcher, Report
from fairshare.model import JobStatus
from fairshare.scheduler.clock import Clock

_STOPPED: Final = "The training job was stopped"

_Key = tuple[str, int]
"""Job id and number of an attempt."""


class LostReplyError(ConnectionError):
    """The reply is lost: the connection is to be closed without an answer."""


class Timer(Protocol):
    """What waits for its time, as `threading.Timer` does."""

    def start(self) -> None:
        """Begin to wait."""

    def cancel(self) -> None:
        """Give up."""


def answer_with_fate(
    fate: CallFate, clock: Clock, app: Application, environ: Environ, start_response: StartResponse
) -> Iterable[bytes]:
    """Answer one call as its fate wants it.

    Raises:
        LostReplyError: after the call had its effect.
    """
    if fate.latency_ms:
        clock.sleep_until(clock.now() + fate.latency_ms)
    if fate.refusal is not None:
        return error_answer(fate.refusal, environ, start_response)
    answered = app(environ, start_response)
    if fate.loses_reply:
        raise LostReplyError
    return answered


class FaultyLauncher:
    """An adapter of `fairshare.local.launcher.Launcher` over another one: attempts fail, begin late or launch long.

    An attempt is launching from its start until the other launcher reports that it runs, or has ended.

    Args:
        launcher: does the work.
        faults: the rules in force.
        foresees: the launcher takes a start that lies in the future; otherwise a start is held back until it has come.
        speed: the time that rules give to launches is divided by it, as a simulated launcher divides run times.
        notify: called when there is something to `poll`; must not block.
        new_timer: makes a timer from seconds and what to do then.
    """

    def __init__(
        self,
        launcher: Launcher,
        faults: Faults,
        *,
        foresees: bool,
        speed: float = 1.0,
        notify: Callable[[], None] = lambda: None,
        new_timer: Callable[[float, Callable[[], None]], Timer] = threading.Timer,
    ) -> None:
        self._launcher = launcher
        self._faults = faults
        self._foresees = foresees
        self._speed = speed
        self._notify = notify
        self._new_timer = new_timer
        self._lock = threading.Lock()
        self._waiting: dict[_Key, Timer] = {}
        self._launching: dict[_Key, int | None] = {}
        self._reports: list[Report] = []
        self._stopped: list[_Key] = []

    def start(self, attempt: Attempt, at: int) -> None:
        """Begin an attempt, unless it is its fate to fail."""
        key = attempt.job_id, attempt.number
        fate = self._faults.fate_of_attempt(*key, self._enter(key, at))
        begin = at + fate.delay_ms
        if fate.reason is not None:
            self._say(Report(*key, JobStatus.FAILED, begin, fate.reason))
            return
        end = begin + round(fate.launch_ms / self._speed)
        if end > begin:
            self._say(Report(*key, JobStatus.STARTING, begin))

        def finish_launch() -> None:
            if fate.launch_failure is None:
                self._launcher.start(attempt, end)
            else:
                self._say(Report(*key, JobStatus.FAILED, end, fate.launch_failure))

        if end == at or self._foresees:
            finish_launch()
        else:
            self._do_later(key, finish_launch, (end - at) / 1000)

    def stop(self, job_id: str, attempt: int) -> None:
        """End an attempt, begun or not."""
        with self._lock:
            timer = self._waiting.pop((job_id, attempt), None)
        if timer is None:
            self._launcher.stop(job_id, attempt)
            return
        timer.cancel()
        with self._lock:
            self._stopped.append((job_id, attempt))
        self._notify()

    def poll(self, now: int) -> list[Report]:
        """Return what was not returned yet."""
        with self._lock:
            reports = self._reports + [Report(*key, JobStatus.FAILED, now, _STOPPED) for key in self._stopped]
            self._reports, self._stopped = [], []
        reports += self._launcher.poll(now)
        with self._lock:
            for report in reports:
                key = report.job_id, report.attempt
                if report.status is not JobStatus.STARTING and key in self._launching:
                    self._launching[key] = min(self._launching[key] or report.at, report.at)
        return reports

    def close(self) -> None:
        """End everything; what has not begun never will."""
        with self._lock:
            timers, self._waiting = list(self._waiting.values()), {}
        for timer in timers:
            timer.cancel()
        self._launcher.close()

    def _enter(self, key: _Key, at: int) -> int:
        """Return how many attempts are launching at ``at`` ms, this one included."""
        with self._lock:
            self._launching = {other: end for other, end in self._launching.items() if end is None or end > at}
            self._launching[key] = None
            return len(self._launching)

    def _say(self, report: Report) -> None:
        with self._lock:
            self._reports.append(report)
        self._notify()

    def _do_later(self, key: _Key, action: Callable[[], None], seconds: float) -> None:
        def ring() -> None:
            with self._lock:
                if self._waiting.pop(key, None) is None:
                    return
            action()

        timer = self._new_timer(seconds, ring)
        with self._lock:
            self._waiting[key] = timer
        timer.start()
