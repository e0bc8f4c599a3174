"""How many jobs may launch at once: what ``waves: auto`` decides before each job is sent. Pure, no clock.

A launch is the time from SCHEDULED to RUNNING, in which a job pulls its image, downloads its input and fills its
memory: the part of a job's life in which jobs trip over each other. `LaunchControl` keeps the launches within the
declared ``limits`` and, since nobody knows all limits, within a window that it finds itself (additive increase,
multiplicative decrease, as in RFC 5681): one more after a full window has launched well, half after a sign of trouble.
`predict_auto` plays the same control against a model of a queue, for the timetable that is printed first.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from fairshare.config.jobs import LaunchPeak, Limits
from fairshare.submit.waves import Wave

FIRST: Final = 4
"""Launches at once to begin with, when nothing says how many are right."""

SLOW_FACTOR: Final = 2
SLOW_SLACK_MS: Final = 5_000
"""A launch is slow when it took this many times, and at least so much longer than, what is usual for its image."""

THROTTLE_BURST: Final = 3
"""Throttled calls in a row, none accepted between them, that count as a sign of trouble."""

UNKNOWN_LAUNCH_MS: Final = 60_000
"""How long a launch is taken to last before one has been seen."""

_KEPT: Final = 32
"""Launch times that are remembered for each image."""

_ENOUGH: Final = 3
"""Launch times it takes to know what is usual."""


@dataclass(frozen=True)
class Launch:
    """What a job needs while it launches.

    ``index`` is its place in the run. ``peak`` is of each of its instances; None when nothing was said.
    """

    index: int
    instances: int = 1
    image: str | None = None
    peak: LaunchPeak | None = None

    @property
    def read(self) -> int:
        """Bytes a second that all its instances read while it launches; 0 when nobody said."""
        return self.instances * (self.peak.read or 0) if self.peak is not None else 0

    @property
    def memory(self) -> int:
        """Bytes of memory that all its instances fill while it launches; 0 when nobody said."""
        return self.instances * (self.peak.memory or 0) if self.peak is not None else 0


class LaunchControl:
    """Decides whether one more job may launch, and learns from what became of those before.

    Args:
        limits: ``concurrent_launches`` counts jobs, ``image_pulls`` the instances that launch, ``read_bandwidth`` and
            ``memory`` the sums of the launch peaks, in bytes a second and bytes. None = no such limit.
        first: window to begin with; None = as many as the limits name, else `FIRST`.
        hold_runnable: jobs that wait in the queue count as launching, too. Only kept here, for whoever counts.
    """

    def __init__(self, limits: Limits, *, first: int | None = None, hold_runnable: bool = False) -> None:
        self.limits = limits
        self.hold_runnable = hold_runnable
        named = [limit for limit in (limits.concurrent_launches, limits.image_pulls) if limit is not None]
        self._most = min(named, default=None)
        self._window = self._capped(first if first is not None else min(named, default=FIRST))
        self._good = 0
        self._was_full = False
        self._throttles = 0
        self._reduced_at: int | None = None
        self._took: dict[str | None, deque[int]] = {}

    @property
    def ceiling(self) -> int:
        """Jobs that may launch at once, as far as is known now; at least 1."""
        return self._window

    def admits(self, job: Launch, launching: Collection[Launch]) -> bool:
        """Whether a job may launch beside those that do. Alone it always may, or it could never run."""
        if not launching:
            self._note_use(1)
            return True
        if len(launching) >= self._window:
            self._note_use(len(launching))
            return False
        limits, beside = self.limits, [*launching, job]
        fits = (
            _within(sum(each.instances for each in beside), limits.image_pulls)
            and _within(sum(each.read for each in beside), limits.read_bandwidth)
            and _within(sum(each.memory for each in beside), limits.memory)
        )
        if fits:
            self._note_use(len(beside))
        return fits

    def accepted(self, now: int) -> None:
        """A call was accepted at ``now`` ms: calls are not being throttled."""
        self._throttles = 0

    def throttled(self, now: int) -> None:
        """A call was throttled; several in a row halve the window."""
        self._throttles += 1
        if self._throttles >= THROTTLE_BURST:
            self._throttles = 0
            self._trouble(now)

    def capacity_error(self, now: int) -> None:
        """A launch failed because there were no instances."""
        self._trouble(now)

    def slow(self, now: int) -> None:
        """A job has been launching for far too long and still is; tell it once."""
        self._trouble(now)

    def started(self, launch: Launch, took_ms: int, now: int) -> None:
        """A launch ended well at ``now`` ms, ``took_ms`` after it began. One that was slow halves the window."""
        began = now - took_ms
        usual = self.usual_ms(launch)
        if launch.image not in self._took:
            self._took[launch.image] = deque(maxlen=_KEPT)
        self._took[launch.image].append(took_ms)
        if usual is not None and took_ms > max(SLOW_FACTOR * usual, usual + SLOW_SLACK_MS):
            self._trouble(now, began)
            return
        if self._reduced_at is not None and began < self._reduced_at:
            return
        self._good += 1
        if self._was_full and self._good >= self._window:
            self._window = self._capped(self._window + 1)
            self._good, self._was_full = 0, False

    def usual_ms(self, launch: Launch) -> int | None:
        """How long launches of this image take undisturbed (their lower quartile), in ms; None = not known.

        A declared ``launch_peak.for`` is believed until enough launches were seen.
        """
        seen = sorted(self._took.get(launch.image, ()))
        if len(seen) >= _ENOUGH:
            return seen[(len(seen) - 1) // 4]
        declared = launch.peak.seconds if launch.peak is not None else None
        return None if declared is None else declared * 1000

    def _note_use(self, launching: int) -> None:
        """A window that nobody fills shows nothing about a larger one, so it must not grow."""
        self._was_full = self._was_full or launching >= self._window

    def _trouble(self, now: int, began: int | None = None) -> None:
        """Halve the window, but once only for everything that was launching when it was halved last."""
        if self._reduced_at is not None:
            if began is None:
                began = now - self._settling_ms()
            if began < self._reduced_at:
                return
        self._window = max(1, self._window // 2)
        self._good, self._was_full = 0, False
        self._reduced_at = now

    def _settling_ms(self) -> int:
        seen = [took for image in self._took.values() for took in image]
        return round(median(seen)) if seen else UNKNOWN_LAUNCH_MS

    def _capped(self, window: int) -> int:
        return max(1, window if self._most is None else min(window, self._most))


def _within(total: int, limit: int | None) -> bool:
    return limit is None or total <= limit


def launch_warnings(jobs: Sequence[Launch], limits: Limits) -> list[str]:
    """Return what the limits cannot do for these jobs: what nobody declared counts as 0, what is too large goes alone.

    One line for each limit; empty when all is well.
    """
    told = []
    for key, limit, of, what in (
        ("read_bandwidth", limits.read_bandwidth, "read", "bandwidth"),
        ("memory", limits.memory, "memory", "memory"),
    ):
        silent = sum(getattr(job.peak, of, None) is None for job in jobs)
        if limit is not None and silent:
            told.append(
                f"limits.{key}: {silent} of {len(jobs)} jobs do not say their resources.launch_peak.{of} and count "
                f"as 0 there; `fairshare profile` measures it"
            )
        if limit is not None and any(getattr(job, of) > limit for job in jobs):
            told.append(f"limits.{key}: some jobs need more {what} than that to launch; each of them launches alone")
    if limits.image_pulls is not None and any(job.instances > limits.image_pulls for job in jobs):
        told.append(f"limits.image_pulls: some jobs have more than {limits.image_pulls} instances and launch alone")
    return told


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """What ``waves: auto`` is expected to do. Times are ms; jobs are in sending order."""

    waves: tuple[Wave, ...]
    """Jobs that are sent at the same time."""
    launched_at: int | None
    """When the last job runs; None when jobs wait for capacity and nothing says when it gets free."""
    finish_at: int | None
    """When the last job has ended; None when a run time is not known."""


def predict_auto(
    jobs: Sequence[Launch],
    control: LaunchControl,
    launch_seconds: int,
    capacity: int,
    *,
    run_seconds: Sequence[int] | None = None,
    start_at: int = 0,
) -> Forecast:
    """Play the control against a queue of ``capacity`` free instances that starts jobs in order and has no others.

    Args:
        jobs: in sending order.
        control: as it is now; it is not changed.
        launch_seconds: how long a launch takes, for jobs that declare no ``launch_peak.for``.
        capacity: instances that the run may use.
        run_seconds: of each job after its launch; None = not known.
        start_at: ms, when sending begins.
    """
    model = _Model(jobs, deepcopy(control), launch_seconds * 1000, capacity, run_seconds, start_at)
    model.run()
    return model.forecast()


@dataclass
class _Model:
    jobs: Sequence[Launch]
    control: LaunchControl
    launch_ms: int
    free: int
    run_seconds: Sequence[int] | None
    now: int
    waves: list[Wave] = field(default_factory=list)
    sent: int = 0
    launched: int = 0
    last_launch: int = 0
    last_end: int = 0
    waiting: deque[int] = field(default_factory=deque)
    launching: dict[int, Launch] = field(default_factory=dict)
    due: list[tuple[int, bool, int]] = field(default_factory=list)
    """Heap of (time, whether the job ends then rather than begins to run, position)."""

    def run(self) -> None:
        self._place()
        while self.due:
            self.now = self.due[0][0]
            while self.due and self.due[0][0] == self.now:
                _, is_end, position = heapq.heappop(self.due)
                self._end(position) if is_end else self._begin(position)
            self._place()

    def forecast(self) -> Forecast:
        launched_at = self.last_launch if self.launched == len(self.jobs) else None
        finish_at = self.last_end if launched_at is not None and self.run_seconds is not None else None
        return Forecast(tuple(self.waves), launched_at, finish_at)

    def _begin(self, position: int) -> None:
        launch = self.launching.pop(position)
        self.launched += 1
        self.last_launch = self.now
        self.control.started(launch, self._launch_ms(launch), self.now)
        if self.run_seconds is not None:
            heapq.heappush(self.due, (self.now + self.run_seconds[position] * 1000, True, position))

    def _end(self, position: int) -> None:
        self.free += self.jobs[position].instances
        self.last_end = self.now

    def _place(self) -> None:
        """Start what waits in the queue, then send what may be sent."""
        self._start_waiting()
        first = self.sent
        while self.sent < len(self.jobs) and self.control.admits(self.jobs[self.sent], self._held()):
            self.waiting.append(self.sent)
            self.sent += 1
            self._start_waiting()
        if self.sent > first:
            self.waves.append(Wave(len(self.waves) + 1, self.now, first, self.sent - first))

    def _held(self) -> list[Launch]:
        waiting = [self.jobs[position] for position in self.waiting] if self.control.hold_runnable else []
        return [*self.launching.values(), *waiting]

    def _start_waiting(self) -> None:
        while self.waiting and self.jobs[self.waiting[0]].instances <= self.free:
            position = self.waiting.popleft()
            launch = self.jobs[position]
            self.free -= launch.instances
            self.launching[position] = launch
            heapq.heappush(self.due, (self.now + self._launch_ms(launch), False, position))

    def _launch_ms(self, launch: Launch) -> int:
        declared = launch.peak.seconds if launch.peak is not None else None
        return self.launch_ms if declared is None else declared * 1000
