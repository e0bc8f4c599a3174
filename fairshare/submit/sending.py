"""Sending jobs as they are released, each journaled before its call and settled after it, failed calls made again.

A job is open from its intent until it is settled. At most ``calls.width`` jobs are open, so no more than that are in
doubt after a crash; a job that backs off keeps its place and the others go on. A batch of intents costs one fsync.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fairshare.model import (
    TERMINAL_STATUSES,
    CredentialsError,
    FairshareError,
    JobRef,
    JobSummary,
    ServiceError,
    ThrottledError,
)
from fairshare.scheduler.clock import Clock
from fairshare.submit.calls import Answer, Calls, EndCalled, Failed, Looked, Made
from fairshare.submit.conditions import Skip
from fairshare.submit.events import (
    CallRepeated,
    Event,
    JobEnded,
    JobMoved,
    JobRefused,
    JobSent,
    JobSkipped,
    LookFailed,
)
from fairshare.submit.fallback import why_moved
from fairshare.submit.journal import Journal
from fairshare.submit.rate import GIVE_UP_MS, Pace
from fairshare.submit.release import Release, Stop
from fairshare.submit.requests import PlannedJob
from fairshare.submit.secrets import secret_values, without_values
from fairshare.submit.watch import Watch

LOOK_MS: Final = 200
"""Longest sleep between two looks at ``stop``."""

GRACE_MS: Final = 700
"""How long the calls under way may take to answer after ``stop``: who presses Ctrl-C waits no longer than a second."""

LAST_ANSWERS_MS: Final = 30_000
"""The same when sending ends for another reason."""

LOOKS: Final = 3
"""Refusals of a job in doubt that are needed before it counts as refused: a job just made may not be listed yet."""


class Stopped(Exception):
    """``stop`` said so."""


class UnnotedError(FairshareError):
    """Jobs were sent and the journal could not take them."""


@dataclass
class _Open:
    """A job between its intent and its outcome. ``began`` is None before its first call, ms since the epoch after."""

    job: PlannedJob
    in_doubt: bool
    began: int | None = None
    under_way: bool = False
    failures: int = 0
    refusals: int = 0


@dataclass
class Sending:
    """One session of sending. `run` returns when everything is settled, and raises what ends it early.

    Whatever `run` raised, `finish` must be called after it; then ``sent`` and ``refused`` are complete.
    """

    release: Release
    calls: Calls
    journal: Journal
    clock: Clock
    pace: Pace
    on_event: Callable[[Event], None]
    stop: Callable[[], bool]
    in_doubt: AbstractSet[int] = frozenset()
    """Indexes of jobs that an earlier session may have sent."""
    watch: Watch = field(init=False)
    sent: list[tuple[PlannedJob, JobRef]] = field(default_factory=list)
    refused: list[tuple[PlannedJob, str]] = field(default_factory=list)
    skipped: list[tuple[PlannedJob, Skip]] = field(default_factory=list)
    moved: dict[int, PlannedJob] = field(default_factory=dict)
    """Jobs that go on on another queue, by index; once they are sent there, they are in ``sent``, too."""
    repeated: int = 0
    trouble: FairshareError | None = None
    """Why single jobs were given up while the others went on."""
    _todo: deque[PlannedJob] = field(default_factory=deque)
    """Released, and waiting for the pace."""
    _open: dict[int, _Open] = field(default_factory=dict)
    _again: list[tuple[int, int]] = field(default_factory=list)
    """Heap of (time, index): calls to be made again."""
    _slot: int | None = None
    """Time of the next call, once a token was taken for it."""
    _answers: deque[Answer] = field(default_factory=deque)
    _accepted_at: int | None = None

    def __post_init__(self) -> None:
        self.watch = Watch(self.calls.looks)

    def run(self) -> None:
        """Send everything.

        Raises:
            Stopped: ``stop`` said so.
            FairshareError: credentials were refused, no call was accepted for too long, or the journal failed.
        """
        while True:
            if self.stop():
                raise Stopped
            now = self.clock.now()
            self._take_jobs(now)
            self._start_calls(now)
            if not self._todo and not self._open and self.release.is_done:
                return
            self._start_look(now)
            self._wait(now)

    def finish(self, *, was_stopped: bool) -> None:
        """Take the answers of the calls that are under way, and note which jobs were certainly not made.

        Raises:
            UnnotedError: the journal cannot take an answer.
        """
        until = self.clock.now() + (GRACE_MS if was_stopped else LAST_ANSWERS_MS)
        unnoted: list[FairshareError] = []
        while any(each.under_way for each in self._open.values()) and (left := until - self.clock.now()) > 0:
            if self.stop() and not was_stopped:
                was_stopped, until = True, min(until, self.clock.now() + GRACE_MS)
            self._answers.extend(() if self._answers else self.calls.wait(min(left, LOOK_MS)))
            while self._answers:
                try:
                    self._take_last(self._answers.popleft())
                except FairshareError as error:
                    unnoted.append(error)
        if unnoted:
            raise UnnotedError("\n".join(error.message for error in unnoted), hint=unnoted[0].hint)
        with suppress(FairshareError):  # without it a job is only looked for in vain later
            for index, each in self._open.items():
                if not each.under_way and not each.in_doubt and each.began is not None:
                    self.journal.not_made(index, self.clock.now())

    # -----------------------------------------------------------------------------------------------------------------
    # What to call next

    @property
    def _room(self) -> int:
        return self.calls.width - len(self._open) - len(self._todo)

    def _take_jobs(self, now: int) -> None:
        """Take up what is released, and note what will never be."""
        self._todo.extend(self.release.take(now, self._room))
        for job, skip in self.release.new_skips():
            self.journal.skipped(job.index, skip, now)
            self.skipped.append((job, skip))
            self.on_event(JobSkipped(job, skip))
        if not self._todo and not self._open and (awaited := self.release.waits_for(now)) is not None:
            self.on_event(awaited)

    def _start_look(self, now: int) -> None:
        """Look at the jobs that somebody needs to know about."""
        if self.watch.is_due(now) and (wanted := self.release.watched()):
            self.watch.began(wanted)
            self.calls.look(wanted)

    def _start_calls(self, now: int) -> None:
        """Make the calls that the pace allows now, with one write of the journal for all of them."""
        batch: list[_Open] = []
        while self._has_call(now):
            if self._slot is None:
                self._slot = self.pace.reserve(now)
            if self._slot > now:
                break
            self._slot = None
            batch.append(self._take_call(now))
        if not batch:
            return
        self.journal.intend([each.job for each in batch if each.began is None], now)
        for each in batch:
            each.began = now if each.began is None else each.began
            each.under_way = True
            self.calls.start(each.job, is_doubtful=each.in_doubt)

    def _has_call(self, now: int) -> bool:
        return self._is_repeat_due(now) or (bool(self._todo) and len(self._open) < self.calls.width)

    def _is_repeat_due(self, now: int) -> bool:
        return bool(self._again) and self._again[0][0] <= now

    def _take_call(self, now: int) -> _Open:
        if self._is_repeat_due(now):
            return self._open[heapq.heappop(self._again)[1]]
        job = self._todo.popleft()
        self._open[job.index] = _Open(job, in_doubt=job.index in self.in_doubt)
        return self._open[job.index]

    def _wait(self, now: int) -> None:
        """Wait for an answer, or for the time of the next call or wave."""
        until = now + LOOK_MS
        if self._slot is not None:
            until = min(until, self._slot)
        elif self._again:
            until = min(until, self._again[0][0])
        if self._room > 0 and (due := self.release.next_at(now)) is not None:
            until = min(until, max(now, due))
        if self.watch.is_under_way or any(each.under_way for each in self._open.values()):
            self._answers.extend(self.calls.wait(until - now))
            while self._answers:
                self._take(self._answers.popleft())
        else:
            self.clock.sleep_until(until)

    # -----------------------------------------------------------------------------------------------------------------
    # What an answer means

    def _take(self, answer: Answer) -> None:
        """Settle a job, have its call made again, or learn from a look. Raises what must end the run."""
        if isinstance(answer, Looked):
            self._take_look(answer, self.clock.now())
            return
        if isinstance(answer, EndCalled):
            self._take_stop(answer)
            return
        each, now = self._answered(answer), self.clock.now()
        match answer:
            case Made(ref=ref):
                self._accepted_at = now
                self.pace.accepted(now)
                self._settle(each, ref, now)
            case Failed(error=ServiceError(is_transient=True) as error):
                if error.http_status == 429:
                    self.pace.throttled(now)
                    self.release.throttled(now)
                self._repeat(each, error, now)
            case Failed(error=CredentialsError() as error):
                raise error
            case Failed(error=FairshareError() as error):
                each.refusals += 1
                if each.in_doubt and each.refusals < LOOKS:
                    self._repeat(each, error, now)
                else:
                    self._refuse(each, error, now)
            case Failed(error=error):
                raise error

    def _take_last(self, answer: Answer) -> None:
        """The same after the end: nothing is called again."""
        if not isinstance(answer, Made | Failed):
            return
        each, now = self._answered(answer), self.clock.now()
        match answer:
            case Made(ref=ref):
                self._settle(each, ref, now)
            case Failed(error=ServiceError(is_transient=False) as error) if not each.in_doubt:
                self._refuse(each, error, now)

    def _answered(self, answer: Made | Failed) -> _Open:
        each = self._open[answer.job.index]
        each.under_way = False
        if isinstance(answer, Failed) and not answer.is_definite:
            each.in_doubt = True
        return each

    def _settle(self, each: _Open, ref: JobRef, now: int) -> None:
        del self._open[each.job.index]
        self.sent.append((each.job, ref))
        try:
            self.journal.sent(each.job.index, ref, now)
        except FairshareError as error:
            message = f"job {ref.job_name} was sent as {ref.job_id}, and that could not be noted: {error.message}"
            raise UnnotedError(message, hint=error.hint) from error
        self.release.accepted(each.job, ref, now)
        self.watch.hurry()
        self.on_event(JobSent(each.job, ref))

    def _refuse(self, each: _Open, error: FairshareError, now: int) -> None:
        message = self._message(each, error)
        del self._open[each.job.index]
        self.refused.append((each.job, message))
        self.journal.failed(each.job.index, message, now)
        self.release.refused(each.job)
        self.on_event(JobRefused(each.job, message))

    def _repeat(self, each: _Open, error: FairshareError, now: int) -> None:
        """Have a call made again after a back-off, unless that has been tried for long enough."""
        each.failures += 1
        wait = self.pace.backoff(each.failures)
        began = now if each.began is None else each.began
        if now + wait - began > GIVE_UP_MS:
            given_up = _given_up(error, self._message(each, error))
            if self._accepted_at is None or self._accepted_at <= began:
                raise given_up
            self.trouble = given_up
            del self._open[each.job.index]
            if not each.in_doubt:
                self.journal.not_made(each.job.index, now)
            self.release.given_up(each.job)
            return
        self.repeated += 1
        self.on_event(CallRepeated(each.job, self._message(each, error), wait))
        heapq.heappush(self._again, (now + wait, each.job.index))

    # -----------------------------------------------------------------------------------------------------------------
    # What a look shows

    def _take_look(self, answer: Looked, now: int) -> None:
        if answer.error is not None:
            self._take_failed_look(answer.error, now)
            return
        for index, seen in self.watch.answered(answer.found, now):
            flight = self.release.flight(index)
            if flight is None:
                continue
            if seen is not None and self.release.moves is not None:
                step = self.release.moves.next_step(flight.job, seen, now)
                if isinstance(step, Stop):
                    self.calls.end(seen.job_id, step.reason)
                elif step is not None:
                    self._move(flight.job, step, seen, now)
                    continue
            if seen is not None and seen.status in TERMINAL_STATUSES:
                self._note_end(flight.job, seen, now)
            self.release.saw(index, seen, now)

    def _take_failed_look(self, error: Exception, now: int) -> None:
        """Have a look made again. Expired credentials do not come back by themselves (case C24)."""
        if isinstance(error, CredentialsError) or not isinstance(error, FairshareError):
            raise error
        self.on_event(LookFailed(error.message, self.watch.failed(now)))

    def _take_stop(self, answer: EndCalled) -> None:
        """A job that could not be ended is asked about again at the next look."""
        error = answer.error
        if error is not None and (isinstance(error, CredentialsError) or not isinstance(error, FairshareError)):
            raise error

    def _note_end(self, job: PlannedJob, seen: JobSummary, now: int) -> None:
        self.journal.ended(
            job.index,
            seen.status,
            now,
            reason=seen.status_reason,
            training_job_name=seen.training_job_name,
            started_at=seen.started_at,
            stopped_at=seen.stopped_at,
        )
        self.on_event(JobEnded(job, seen))

    def _move(self, job: PlannedJob, later: PlannedJob, seen: JobSummary, now: int) -> None:
        """Note, on the disk, that a job goes on on another queue, and only then let it be sent."""
        self.journal.moved(later, now)
        self.sent = [(each, ref) for each, ref in self.sent if each.index != job.index]
        self.moved[job.index] = later
        self.release.again(later)
        self.on_event(JobMoved(later, job.request.job_queue, why_moved(seen.status_reason)))

    def _message(self, each: _Open, error: FairshareError) -> str:
        """AWS's text, which may repeat a part of the request, without secrets (case C46)."""
        return without_values(error.message, secret_values(each.job.request.payload, each.job.secrets))


def _given_up(error: FairshareError, message: str) -> FairshareError:
    text = f"no call was accepted for {GIVE_UP_MS // 60_000} minutes: {message}"
    if isinstance(error, ServiceError):
        if error.http_status == 429:
            hint = "another program may use up the account's 5 calls a second; lower --rate"
            return ThrottledError(text, hint=hint)
        return ServiceError(text, aws_code=error.aws_code, http_status=error.http_status, hint=error.hint)
    return FairshareError(text, hint=error.hint)
