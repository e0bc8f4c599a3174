"""Calls to Batch that are under way: one at a time, or a few at once in threads.

Besides the calls that send a job there are looks at jobs that were sent, and calls that end one. They have a thread of
their own, so that a slow look never holds up sending.

Only the call itself happens in a thread. What to call, when, and what an answer means is `fairshare.submit.sending`'s,
in the thread that asked, so that journal, pace and events need no lock.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fairshare.model import (
    RUN_TAG,
    WAITING_STATUSES,
    FairshareError,
    JobRef,
    JobRequest,
    JobSummary,
    ServiceError,
    ThrottledError,
)
from fairshare.submit.ports import JobBackend
from fairshare.submit.requests import PlannedJob
from fairshare.submit.watch import LookPace, Watched, look


@dataclass(frozen=True)
class Made:
    """A call made a job, or an earlier one had."""

    job: PlannedJob
    ref: JobRef


@dataclass(frozen=True)
class Failed:
    """A call failed, for whatever reason."""

    job: PlannedJob
    error: Exception

    @property
    def is_definite(self) -> bool:
        """Whether it certainly made no job: AWS answered, and not with an error of its own."""
        if isinstance(self.error, ServiceError):
            return self.error.http_status is not None and self.error.http_status < 500
        return isinstance(self.error, FairshareError)


@dataclass(frozen=True)
class Looked:
    """A look at jobs: what Batch knows of them, by job id, or why it did not answer."""

    found: dict[str, JobSummary]
    error: Exception | None = None


@dataclass(frozen=True)
class EndCalled:
    """A call that ends a job came back. ``error`` None = Batch took it; the job ends in its own time."""

    job_id: str
    error: Exception | None = None


Answer = Made | Failed | Looked | EndCalled


class Calls(Protocol):
    """Makes calls and hands out their answers."""

    @property
    def width(self) -> int:
        """How many calls that send may be under way at once."""

    @property
    def looks(self) -> LookPace:
        """How often jobs may be looked at."""

    def start(self, job: PlannedJob, *, is_doubtful: bool) -> None:
        """Begin the call of a job. ``is_doubtful``: an earlier one may have made it, so a refusal is looked into."""

    def look(self, jobs: Sequence[Watched]) -> None:
        """Begin a look at jobs."""

    def end(self, job_id: str, reason: str) -> None:
        """Begin the call that ends a job, unless it has started meanwhile."""

    def wait(self, milliseconds: int) -> list[Answer]:
        """Return the answers that have come; when there are none, wait for the first, but not longer than so."""


def find_made(backend: JobBackend, request: JobRequest) -> JobRef | None:
    """Return the job that a request has made, or None: a job of exactly that name that carries the run's tag."""
    found = backend.find(request.job_queue, request.job_name)
    if found is None:
        return None
    detail = backend.describe([found.job_id]).get(found.job_id)
    if detail is not None and detail.tags.get(RUN_TAG) != request.tags.get(RUN_TAG):
        return None
    return JobRef(found.job_id, found.job_arn, found.job_name)


def call(backend: JobBackend, job: PlannedJob, *, is_doubtful: bool) -> Answer:
    """Send a job and return what came of it; nothing is raised.

    AWS documents that a repeated token is rejected (API_SubmitServiceJob, clientToken), elsewhere it answers with the
    first job: a refusal in doubt is therefore no failure when the job is there.
    """
    try:
        try:
            return Made(job, backend.submit(job.request))
        except ServiceError as error:
            if error.is_transient or not is_doubtful:
                raise
            made = find_made(backend, job.request)
            return Failed(job, error) if made is None else Made(job, made)
    except ThrottledError as error:  # from looking: it is repeated, as a throttled call is
        return Failed(job, ServiceError(error.message, http_status=429, hint=error.hint))
    except Exception as error:
        return Failed(job, error)


def look_at(backend: JobBackend, jobs: Sequence[Watched]) -> Looked:
    """Look at jobs; nothing is raised."""
    try:
        return Looked(look(backend, jobs))
    except Exception as error:
        return Looked({}, error)


def end_job(backend: JobBackend, job_id: str, reason: str) -> EndCalled:
    """End a job that still waits; nothing is raised.

    One that has started meanwhile is left alone. When it starts between the look and the call, it is ended all the
    same, which the next look shows.
    """
    try:
        detail = backend.describe([job_id]).get(job_id)
        if detail is not None and detail.status in WAITING_STATUSES:
            backend.terminate(job_id, reason)
    except Exception as error:
        return EndCalled(job_id, error)
    return EndCalled(job_id)


@contextmanager
def open_calls(backend: JobBackend, width: int, looks: LookPace | None = None) -> Iterator[Calls]:
    """Yield what makes up to ``width`` calls at once, and ``looks`` beside them; None = nobody needs them.

    The backend's ``submit`` must not retry by itself: nothing is retried by two layers.
    """
    if width == 1 and looks is None:
        yield CallsInTurn(backend)
        return
    calls = CallsInThreads(backend, width, looks or LookPace())
    try:
        yield calls
    finally:
        calls.close()


class CallsInTurn:
    """Each call is made at once, where it is started."""

    width = 1

    def __init__(self, backend: JobBackend, looks: LookPace | None = None) -> None:
        self.looks = looks or LookPace()
        self._backend = backend
        self._answers: list[Answer] = []

    def start(self, job: PlannedJob, *, is_doubtful: bool) -> None:
        """Make the call."""
        self._answers.append(call(self._backend, job, is_doubtful=is_doubtful))

    def look(self, jobs: Sequence[Watched]) -> None:
        """Look at once."""
        self._answers.append(look_at(self._backend, jobs))

    def end(self, job_id: str, reason: str) -> None:
        """End the job at once."""
        self._answers.append(end_job(self._backend, job_id, reason))

    def wait(self, milliseconds: int) -> list[Answer]:
        """Return the answers."""
        answers, self._answers = self._answers, []
        return answers


class CallsInThreads:
    """Calls are made in threads that do not outlive the program: one that hangs does not keep it from ending.

    Args:
        backend: must be usable from several threads.
        width: calls that send that may be under way at once.
        looks: how often jobs may be looked at.
    """

    def __init__(self, backend: JobBackend, width: int, looks: LookPace | None = None) -> None:
        self.width = width
        self.looks = looks or LookPace()
        self._backend = backend
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._senders = _Threads(width, "submit", self._answers)
        self._watcher = _Threads(1, "watch", self._answers)

    def start(self, job: PlannedJob, *, is_doubtful: bool) -> None:
        """Hand the call to a thread."""
        self._senders.make(partial(call, self._backend, job, is_doubtful=is_doubtful))

    def look(self, jobs: Sequence[Watched]) -> None:
        """Hand the look to the thread that is kept for it."""
        self._watcher.make(partial(look_at, self._backend, jobs))

    def end(self, job_id: str, reason: str) -> None:
        """Hand the call to the thread that looks."""
        self._watcher.make(partial(end_job, self._backend, job_id, reason))

    def wait(self, milliseconds: int) -> list[Answer]:
        """Return what has come, waiting for the first."""
        answers: list[Answer] = []
        try:
            answers.append(self._answers.get(timeout=max(0, milliseconds) / 1000))
            while True:
                answers.append(self._answers.get_nowait())
        except queue.Empty:
            return answers

    def close(self) -> None:
        """Let the threads end, each after its call."""
        self._senders.close()
        self._watcher.close()


class _Threads:
    """Up to ``most`` threads that make calls in turn; one begins only when all others are busy."""

    def __init__(self, most: int, name: str, answers: queue.SimpleQueue[Answer]) -> None:
        self._most = most
        self._name = name
        self._answers = answers
        self._calls: queue.SimpleQueue[Callable[[], Answer] | None] = queue.SimpleQueue()
        self._started = 0
        self._idle = threading.Semaphore(0)

    def make(self, call: Callable[[], Answer]) -> None:
        """Have a call made."""
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._calls.put(call)

    def close(self) -> None:
        """Let the threads end, each after its call."""
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            answer = call()
            self._idle.release()
            self._answers.put(answer)
