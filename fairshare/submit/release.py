"""Which jobs may be sent now, and in which order. Pure but for the clock it is given; it is told what happens.

Four things hold a job back: the timetable of waves, the jobs it comes after, the limit of jobs in flight, and, with
``waves: auto``, the launches that are under way. `fairshare.submit.sending` takes jobs, makes the calls and tells what
came of them; looks at Batch (`fairshare.submit.watch`) tell the rest.

A wave is so many jobs, taken in order from those that may be sent, so much time after the wave before. A wave none of
whose jobs may be sent waits, and carries its lateness on; when jobs that came after others are left at the end of the
timetable, waves of the same size and distance go on. So the stagger holds with dependencies, too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from fairshare.model import TERMINAL_STATUSES, JobRef, JobSummary
from fairshare.scheduler.clock import Clock
from fairshare.submit.conditions import Changes, Conditions, End, Skip
from fairshare.submit.events import Event, JobsAwaited, WaveAwaited, WaveStarted
from fairshare.submit.launches import LaunchControl
from fairshare.submit.launching import Launching
from fairshare.submit.requests import PlannedJob
from fairshare.submit.rules import RunRules
from fairshare.submit.watch import Watched
from fairshare.submit.waves import Timetable, Wave


@dataclass(frozen=True)
class Past:
    """A job that an earlier session settled: sent as ``ref``, or never; ``end`` is how it ended, when that is known."""

    job: PlannedJob
    ref: JobRef | None = None
    end: End | None = None


@dataclass(frozen=True)
class Earlier:
    """What earlier sessions left: indexes of jobs that they may have sent, and those that they settled."""

    in_doubt: AbstractSet[int] = frozenset()
    past: tuple[Past, ...] = ()


@dataclass
class Flight:
    """A job from its release to its end. ``ref`` is None until Batch accepts it, ``seen`` until it is looked at."""

    job: PlannedJob
    ref: JobRef | None = None
    seen: JobSummary | None = None


@dataclass(frozen=True)
class Stop:
    """This job is to be ended in its present queue; once it is seen to have ended, it is asked about again."""

    reason: str


class Moves(Protocol):
    """Fallback over queues (`fairshare.submit.fallback`): where a job goes on when its queue cannot serve it."""

    def next_step(self, job: PlannedJob, seen: JobSummary, now: int) -> Stop | PlannedJob | None:
        """Return what is to happen to a job that was just looked at; None = it stays.

        A job comes back as it is sent next; its present attempt must then have ended. The caller notes that on the disk
        before anything is sent, and the job is not taken for ended.
        """

    def may_move(self, job: PlannedJob, seen: JobSummary | None) -> bool:
        """Whether the job may still have to move, so that the run must go on looking at it."""


class Release:
    """Hands out the jobs of a run.

    Args:
        jobs: those that are to be sent.
        waves: the timetable.
        rules: what else holds jobs back.
        clock: for the wall clock, on which windows are.
        on_event: told of waves.
        past: jobs that earlier sessions settled.
        moves: decides about jobs that may go on on another queue; None = none may.
    """

    def __init__(
        self,
        jobs: Sequence[PlannedJob],
        waves: Sequence[Wave],
        rules: RunRules,
        clock: Clock,
        on_event: Callable[[Event], None],
        past: Iterable[Past] = (),
        moves: Moves | None = None,
    ) -> None:
        past = tuple(past)
        self.moves = moves
        self._rules = rules
        self._launching = _launching(rules, on_event)
        self._clock = clock
        self._on_event = on_event
        self._jobs = {each.job.index: each.job for each in past} | {job.index: job for job in jobs}
        self._conditions = Conditions(jobs, lambda index: self._jobs[index].request.job_name)
        self._timetable = Timetable(waves, rules.gate)
        self._pattern = _pattern(waves)
        self._started = 0
        self._wave: deque[PlannedJob] = deque()
        """What is left of the wave that has started."""
        self._free = [job.index for job in jobs if not self._conditions.is_waiting(job.index)]
        """Heap of the jobs of later waves that wait for nothing but their wave."""
        heapq.heapify(self._free)
        self._flights: dict[int, Flight] = {}
        self._skips: list[tuple[PlannedJob, Skip]] = []
        for each in past:
            self._recall(each)

    # -----------------------------------------------------------------------------------------------------------------
    # Asked

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to send, now or later."""
        if self._has_more:
            return False
        return self.moves is None or not any(self._may_move(flight) for flight in self._flights.values())

    def take(self, now: int, room: int) -> list[PlannedJob]:
        """Return up to ``room`` jobs that are to be sent now, in order. Each is settled later, by what is told."""
        taken: list[PlannedJob] = []
        while len(taken) < room and not self._is_full and (job := self._next(now)) is not None:
            self._flights[job.index] = Flight(job)
            if self._launching is not None:
                self._launching.called(job, now)
            taken.append(job)
        return taken

    def next_at(self, now: int) -> int | None:
        """Return when the next wave is due, ms; None when it is something else that is waited for."""
        if self._wave or self._is_full or not self._free:
            return None
        return self._due(now)

    def waits_for(self, now: int) -> Event | None:
        """Return what is waited for when nothing is to be sent now, for people."""
        if self._is_full and self._has_more:
            return JobsAwaited(f"{len(self._flights)} jobs in flight")
        if self._wave:
            return None if self._launching is None else JobsAwaited(f"{self._launching.count} launching")
        if self._free:
            due = self._due(now)
            return WaveAwaited(self._next_wave(), due, now) if due > now else None
        if self._conditions.waiting:
            return JobsAwaited(f"{self._conditions.waiting} waiting for other jobs")
        if self.moves is not None:
            return JobsAwaited("jobs that have not started may move to another queue")
        return None

    def watched(self) -> list[Watched]:
        """Return the jobs that somebody needs a look at; as few as possible."""
        wanted = [flight for flight in self._flights.values() if flight.ref is not None]
        if not (self._is_full and self._has_more):
            wanted = [flight for flight in wanted if self._is_needed(flight)]
        return [
            Watched(flight.job.index, flight.ref.job_id, flight.job.request.job_queue)
            for flight in wanted
            if flight.ref is not None
        ]

    def flight(self, index: int) -> Flight | None:
        """Return what is known of a job that is in flight; None when it is not."""
        return self._flights.get(index)

    def new_skips(self) -> list[tuple[PlannedJob, Skip]]:
        """Return the jobs that were skipped since the last call."""
        skips, self._skips = self._skips, []
        return skips

    # -----------------------------------------------------------------------------------------------------------------
    # Told

    def accepted(self, job: PlannedJob, ref: JobRef, now: int) -> None:
        """Batch took a job."""
        self._flights[job.index].ref = ref
        if self._launching is not None:
            self._launching.control.accepted(now)

    def refused(self, job: PlannedJob) -> None:
        """Batch refused a job for good: for those after it, it has failed."""
        self._leave(job.index)
        self._apply(self._conditions.ended(job.index, End.FAILED))

    def given_up(self, job: PlannedJob) -> None:
        """Nobody will know in this session whether the job was made: those after it are left, too."""
        self._leave(job.index)
        self._conditions.strand(job.index)

    def throttled(self, now: int) -> None:
        """A call was throttled."""
        if self._launching is not None:
            self._launching.control.throttled(now)

    def saw(self, index: int, seen: JobSummary | None, now: int) -> None:
        """A job was looked at; None = Batch no longer knows it."""
        flight = self._flights.get(index)
        if flight is None:
            return
        if self._launching is not None and seen is not None:
            self._launching.saw(index, seen, now)
        flight.seen = seen
        end = _end_of(seen)
        if end is not None:
            self._leave(index)
            self._apply(self._conditions.ended(index, end))

    def again(self, job: PlannedJob) -> None:
        """A job in flight has ended and is to be sent once more, as ``job``: it keeps its place in the order."""
        self._leave(job.index)
        self._jobs[job.index] = job
        heapq.heappush(self._free, job.index)

    # -----------------------------------------------------------------------------------------------------------------

    @property
    def _has_more(self) -> bool:
        return bool(self._wave or self._free or self._conditions.waiting)

    @property
    def _is_full(self) -> bool:
        most = self._rules.max_in_flight
        return most is not None and len(self._flights) >= most

    def _recall(self, each: Past) -> None:
        if each.end is not None:
            self._apply(self._conditions.ended(each.job.index, each.end))
        elif each.ref is not None:
            self._flights[each.job.index] = Flight(each.job, each.ref)
            if self._launching is not None:
                self._launching.called(each.job, self._clock.now())

    def _next(self, now: int) -> PlannedJob | None:
        """Take the next job of the wave, or start one."""
        if not self._wave and not self._start_wave(now):
            return None
        if self._launching is not None and not (self._is_open() and self._launching.admits(self._wave[0])):
            return None
        return self._wave.popleft()

    def _is_open(self) -> bool:
        """Whether the wall clock lets jobs go. Waves that find their own size have no other start than each job's."""
        wall = self._clock.wall()
        return self._rules.gate.once_started.opens_at(wall) <= wall

    def _start_wave(self, now: int) -> bool:
        if not self._free or self._due(now) > now:
            return False
        wave = self._next_wave()
        self._timetable.started(now)
        self._started = now
        count = min(wave.count, len(self._free))
        self._wave.extend(self._jobs[heapq.heappop(self._free)] for _ in range(count))
        self._on_event(WaveStarted(replace(wave, count=count), now))
        return True

    def _due(self, now: int) -> int:
        self._next_wave()
        due = self._timetable.due(now, self._clock.wall())
        return now if due is None else due

    def _next_wave(self) -> Wave:
        """Return the next wave; after the last one, another like those before."""
        wave = self._timetable.next
        if wave is None:
            number, size, gap = self._pattern
            self._pattern = (number + 1, size, gap)
            wave = Wave(number + 1, self._started + gap, 0, size)
            self._timetable = Timetable((wave,), self._rules.gate.once_started)
        return wave

    def _leave(self, index: int) -> None:
        self._flights.pop(index, None)
        if self._launching is not None:
            self._launching.forget(index)

    def _apply(self, changes: Changes) -> None:
        for index in changes.free:
            heapq.heappush(self._free, index)
        self._skips += [(self._jobs[index], skip) for index, skip in changes.skipped]

    def _is_needed(self, flight: Flight) -> bool:
        index = flight.job.index
        if self._launching is not None and (self._wave or self._free) and self._launching.is_open(index):
            return True
        return self._conditions.matters(index) or self._may_move(flight)

    def _may_move(self, flight: Flight) -> bool:
        return self.moves is not None and self.moves.may_move(flight.job, flight.seen)


def _launching(rules: RunRules, on_event: Callable[[Event], None]) -> Launching | None:
    if rules.auto is None:
        return None
    control = LaunchControl(rules.limits, first=rules.auto.first, hold_runnable=rules.auto.hold_runnable)
    return Launching(control, on_event)


def _end_of(seen: JobSummary | None) -> End | None:
    if seen is None:
        return End.UNKNOWN
    return End(seen.status) if seen.status in TERMINAL_STATUSES else None


def _pattern(waves: Sequence[Wave]) -> tuple[int, int, int]:
    """Return the last number, the size and the distance in ms of a timetable's waves."""
    gaps = [later.starts_at - wave.starts_at if later.gap is None else later.gap for wave, later in pairwise(waves)]
    number = max((wave.number for wave in waves), default=0)
    return number, max((wave.count for wave in waves), default=1), min(gaps, default=0)
