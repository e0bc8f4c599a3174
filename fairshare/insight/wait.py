"""Waiting until jobs have ended, with as few calls as the number of jobs allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fairshare.model import (
    IN_USE_STATUSES,
    TERMINAL_STATUSES,
    JobDetail,
    JobStatus,
    JobSummary,
    ServiceError,
    ThrottledError,
    WaitTimeoutError,
)
from fairshare.scheduler.clock import Clock
from fairshare.submit.ports import JobBackend
from fairshare.submit.watch import DESCRIBED_AT_MOST, look_in_queue

GRACE_LOOKS: Final = 3
"""Looks in a row without a job after which it is given up as unknown: a new job may take a moment to appear (C29)."""

FAILED_LOOKS_IN_A_ROW: Final = 5
"""Looks in a row that may be throttled or lost before waiting gives up."""


@dataclass(frozen=True)
class Pace:
    """Time between looks, in milliseconds: ``first``, doubled each time up to ``limit``."""

    first: int = 2_000
    limit: int = 30_000


LOOPBACK_PACE: Final = Pace(first=100, limit=500)
"""For AWS on this machine, where a look costs nothing."""


class Outcome(StrEnum):
    """How waiting for one job ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNFINISHED = "UNFINISHED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class WaitedJob:
    """One job at the end of the wait. ``last_known`` is None when it was never seen."""

    job_id: str
    outcome: Outcome
    last_known: JobSummary | None = None
    detail: JobDetail | None = None
    """What it was when it was described last: a listing does not tell of preemptions. None = it never was."""


@dataclass(frozen=True)
class WaitResult:
    """All jobs, in the order in which they were asked for."""

    jobs: tuple[WaitedJob, ...]

    def having(self, outcome: Outcome) -> list[WaitedJob]:
        """Return the jobs that ended this way."""
        return [job for job in self.jobs if job.outcome is outcome]

    @property
    def exit_code(self) -> int:
        """0 all succeeded, 1 failed (the job, or every one), 3 some of many failed, 4 gone from Batch, 8 timeout.

        What is most in need of attention wins: a timeout, then a failure, then a job nobody knows any more.
        """
        if self.having(Outcome.UNFINISHED):
            return WaitTimeoutError.exit_code
        failed = len(self.having(Outcome.FAILED))
        if failed:
            return 1 if failed == len(self.jobs) else 3
        return 4 if self.having(Outcome.UNKNOWN) else 0


def wait_for_jobs(
    backend: JobBackend,
    queue: str | None,
    job_ids: Sequence[str],
    *,
    clock: Clock,
    timeout: int | None,
    pace: Pace,
    last_known: Mapping[str, JobSummary] | None = None,
    on_change: Callable[[JobSummary], None] = lambda job: None,
) -> WaitResult:
    """Return when every job has ended or is gone, or when the time is up.

    Args:
        backend: AWS Batch.
        queue: where most of the jobs are: many jobs are watched by listing it. A job elsewhere is found all the same.
        job_ids: whole ids.
        clock: tells the time and sleeps.
        timeout: milliseconds; 0 looks once (case C08), None waits without end.
        pace: time between looks.
        last_known: what is known already, for instance from the journal; named if a job is gone from Batch (case C29).
        on_change: called with a job each time its status has changed, or it was preempted; then it is a `JobDetail`.

    Raises:
        ThrottledError, ServiceError: `FAILED_LOOKS_IN_A_ROW` looks failed, or one failed for good.
    """
    watch = _Watch(backend, queue, list(dict.fromkeys(job_ids)), dict(last_known or {}), on_change)
    deadline = None if timeout is None else clock.now() + timeout
    interval, failures = pace.first, 0
    while True:
        try:
            watch.look()
            failures = 0
        except (ThrottledError, ServiceError) as error:
            failures += 1
            final = failures >= FAILED_LOOKS_IN_A_ROW or (deadline is not None and clock.now() >= deadline)
            if final or (isinstance(error, ServiceError) and not error.is_transient):
                raise
        now = clock.now()
        if not watch.pending or (deadline is not None and now >= deadline):
            return watch.result()
        clock.sleep_until(now + interval if deadline is None else min(now + interval, deadline))
        interval = min(interval * 2, pace.limit)


@dataclass
class _Watch:
    """What is known of the jobs so far."""

    backend: JobBackend
    queue: str | None
    job_ids: list[str]
    known: dict[str, JobSummary]
    on_change: Callable[[JobSummary], None]
    missed: dict[str, int] = field(default_factory=dict)
    """Looks in a row in which a job was not to be found."""
    seen: set[str] = field(default_factory=set)
    described: dict[str, JobDetail] = field(default_factory=dict)
    """The latest details of the jobs that were described."""

    @property
    def pending(self) -> list[str]:
        """Jobs that may still change."""
        return [job_id for job_id in self.job_ids if not self._has_ended(job_id) and not self._is_gone(job_id)]

    def look(self) -> None:
        """Ask once about every pending job."""
        pending = self.pending
        found = self._ask(pending) if pending else {}
        for job_id in pending:
            job = found.get(job_id)
            if job is None:
                self.missed[job_id] = self.missed.get(job_id, 0) + 1
                continue
            self.missed[job_id] = 0
            before = self.known.get(job_id)
            self.known[job_id] = job
            first_sight = job_id not in self.seen
            self.seen.add(job_id)
            preempted = self._is_preempted_anew(job)
            if first_sight or preempted or before is None or before.status != job.status:
                self.on_change(job)

    def result(self) -> WaitResult:
        """Judge each job. One that the last look did not find is unknown, not unfinished."""
        return WaitResult(tuple(self._waited(job_id) for job_id in self.job_ids))

    def _waited(self, job_id: str) -> WaitedJob:
        return WaitedJob(job_id, self._outcome(job_id), self.known.get(job_id), self.described.get(job_id))

    def _ask(self, pending: Sequence[str]) -> dict[str, JobSummary]:
        if self.queue is None:
            return dict(self.backend.describe(pending))
        found = look_in_queue(self.backend, self.queue, pending)
        # Many may be preempted at once; a call for each of them is too many for one look.
        fallen = [job_id for job_id, job in found.items() if self._has_fallen_back(job)]
        return found | (self.backend.describe(fallen[:DESCRIBED_AT_MOST]) if fallen else {})

    def _has_fallen_back(self, job: JobSummary) -> bool:
        """Whether a listed job of a quota share had capacity and waits again: preempted, or tried again."""
        before = self.known.get(job.job_id)
        had = before is not None and before.status in IN_USE_STATUSES
        is_listed = job.quota_share is not None and not isinstance(job, JobDetail)
        return is_listed and had and job.status == JobStatus.RUNNABLE

    def _is_preempted_anew(self, job: JobSummary) -> bool:
        """Note what the details of a job tell, and whether they tell of more preemptions than before."""
        if not isinstance(job, JobDetail):
            return False
        before = self.described.get(job.job_id)
        self.described[job.job_id] = job
        return job.preemptions > (0 if before is None else before.preemptions)

    def _has_ended(self, job_id: str) -> bool:
        return job_id in self.known and self.known[job_id].status in TERMINAL_STATUSES

    def _is_gone(self, job_id: str) -> bool:
        return self.missed.get(job_id, 0) >= GRACE_LOOKS

    def _outcome(self, job_id: str) -> Outcome:
        if self._has_ended(job_id):
            return Outcome(self.known[job_id].status)
        return Outcome.UNKNOWN if self.missed.get(job_id, 0) else Outcome.UNFINISHED
