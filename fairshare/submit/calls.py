"""Calls to Batch that are under way: one at a time, or a few at once in threads.

Only the call itself happens in a thread. What to call, when, and what an answer means is `fairshare.submit.sending`'s,
in the thread that asked, so that journal, pace and events need no lock.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from fairshare.model import RUN_TAG, FairshareError, JobRef, JobRequest, ServiceError, ThrottledError
from fairshare.submit.ports import JobBackend
from fairshare.submit.requests import PlannedJob


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


Answer = Made | Failed


class Calls(Protocol):
    """Makes calls and hands out their answers."""

    @property
    def width(self) -> int:
        """How many calls may be under way at once."""

    def start(self, job: PlannedJob, *, is_doubtful: bool) -> None:
        """Begin the call of a job. ``is_doubtful``: an earlier one may have made it, so a refusal is looked into."""

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


@contextmanager
def open_calls(backend: JobBackend, width: int) -> Iterator[Calls]:
    """Yield what makes up to ``width`` calls at once.

    The backend's ``submit`` must not retry by itself: nothing is retried by two layers.
    """
    if width == 1:
        yield CallsInTurn(backend)
        return
    calls = CallsInThreads(backend, width)
    try:
        yield calls
    finally:
        calls.close()


class CallsInTurn:
    """Each call is made at once, where it is started."""

    width = 1

    def __init__(self, backend: JobBackend) -> None:
        self._backend = backend
        self._answers: list[Answer] = []

    def start(self, job: PlannedJob, *, is_doubtful: bool) -> None:
        """Make the call."""
        self._answers.append(call(self._backend, job, is_doubtful=is_doubtful))

    def wait(self, milliseconds: int) -> list[Answer]:
        """Return the answers."""
        answers, self._answers = self._answers, []
        return answers


class CallsInThreads:
    """Calls are made in threads that do not outlive the program: one that hangs does not keep it from ending.

    Args:
        backend: must be usable from several threads.
        width: calls that may be under way at once.
    """

    def __init__(self, backend: JobBackend, width: int) -> None:
        self.width = width
        self._backend = backend
        self._started = 0
        self._under_way = 0
        self._calls: queue.SimpleQueue[tuple[PlannedJob, bool] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def start(self, job: PlannedJob, *, is_doubtful: bool) -> None:
        """Hand the call to a thread."""
        self._under_way += 1
        if self._started < min(self._under_way, self.width):
            self._started += 1
            threading.Thread(target=self._work, name=f"submit-{self._started}", daemon=True).start()
        self._calls.put((job, is_doubtful))

    def wait(self, milliseconds: int) -> list[Answer]:
        """Return what has come, waiting for the first."""
        answers: list[Answer] = []
        try:
            answers.append(self._answers.get(timeout=max(0, milliseconds) / 1000))
            while True:
                answers.append(self._answers.get_nowait())
        except queue.Empty:
            self._under_way -= len(answers)
            return answers

    def close(self) -> None:
        """Let the threads end, each after its call."""
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            job, is_doubtful = item
            self._answers.put(call(self._backend, job, is_doubtful=is_doubtful))
