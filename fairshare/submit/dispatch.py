"""Sending a run: uploads first, then wave by wave, each job journaled before its call and settled after it.

`SubmitPlan` is all that will happen, as data: printing it, a dry run and sending read the same object. `dispatch` never
sends a job twice: a call that failed for a passing reason is repeated with the same token, and whatever stops it leaves
a journal from which the run can go on.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fairshare.model import API_VERSION, FairshareError, JobRef, JobRequest, PartialError, Problem
from fairshare.scheduler.clock import Clock
from fairshare.submit.calls import Calls
from fairshare.submit.events import Event, UploadsDone, UploadsStarted
from fairshare.submit.journal import Journal
from fairshare.submit.ports import Payloads, SourceSummary, Upload
from fairshare.submit.rate import Pace
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.secrets import masked
from fairshare.submit.sending import Sending, Stopped, UnnotedError
from fairshare.submit.waves import Wave

WIDTH: Final = 8
"""Calls under way at most: at 4.9 calls a second it takes answers slower than 1.6 s to hold up sending."""


@dataclass(frozen=True)
class SubmitPlan:
    """A submission, complete before anything is written or sent."""

    identity: RunIdentity
    waves: tuple[Wave, ...]
    jobs: tuple[PlannedJob, ...]
    uploads: tuple[Upload, ...] = ()
    warnings: tuple[Problem, ...] = ()
    sources: tuple[SourceSummary, ...] = ()

    def jobs_of(self, wave: Wave) -> tuple[PlannedJob, ...]:
        """Return the jobs of one wave, in sending order."""
        return self.jobs[wave.first : wave.first + wave.count]

    @property
    def width(self) -> int:
        """How many calls may overlap, so that a slow answer does not hold up the next call.

        In a queue that is first in, first out, order matters more: there it is 1.
        """
        return 1 if any(job.request.share_identifier is None for job in self.jobs) else WIDTH

    @property
    def upload_bytes(self) -> int:
        """Size of everything that must be in S3. What is there already is not sent again."""
        return sum(len(upload.body) for upload in self.uploads)

    @property
    def largest_payload_bytes(self) -> int:
        """Size of the largest training request, of 10 KiB."""
        return max((len(job.request.payload.encode()) for job in self.jobs), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``submit --dry-run -o json``. Secrets are masked."""
        return {
            "api_version": API_VERSION,
            "kind": "SubmitPlan",
            "run_id": self.identity.run_id,
            "region": self.identity.region,
            "account_id": self.identity.account_id,
            "waves": [
                {"number": wave.number, "starts_at": _rfc3339(wave.starts_at), "jobs": wave.count}
                for wave in self.waves
            ],
            "uploads": [{"s3_uri": each.s3_uri, "bytes": len(each.body), "label": each.label} for each in self.uploads],
            "sources": [asdict(source) for source in self.sources],
            "requests": [_request_json(job) for job in self.jobs],
            "warnings": [str(problem) for problem in self.warnings],
        }


@dataclass(frozen=True)
class RunResult:
    """What became of a plan: each of its jobs is in exactly one of ``sent``, ``refused`` and ``left``.

    ``left`` jobs were not sent as far as is known; the first of them may have arrived when a call had no answer.
    """

    run_id: str
    sent: tuple[tuple[PlannedJob, JobRef], ...] = ()
    refused: tuple[tuple[PlannedJob, str], ...] = ()
    left: tuple[PlannedJob, ...] = ()
    repeated_calls: int = 0
    interrupted: bool = False
    cause: FairshareError | None = None
    """Why sending ended early, unless it was interrupted."""

    def summary(self) -> str:
        """Return the counts as one line: ``6 submitted, 1 refused, 5 not sent``."""
        counts = ((len(self.sent), "submitted"), (len(self.refused), "refused"), (len(self.left), "not sent"))
        return ", ".join(f"{count} {what}" for count, what in counts if count or what == "submitted")

    def error(self) -> FairshareError | None:
        """Return what the command must fail with, or None.

        The cause of an early end; `PartialError` when some of many were refused, `FairshareError` when all were. An
        interruption is the caller's to report: it knows the signal.
        """
        if self.cause is not None:
            message = f"{self.cause.message} ({self.summary()} of run {self.run_id})"
            return type(self.cause)(message, hint=self._resume_hint(self.cause.hint or ""))
        if not self.refused:
            return None
        kind = PartialError if self.sent else FairshareError
        lines = [f"{job.request.job_name}: {message}" for job, message in self.refused]
        return kind(
            "\n".join([f"{self.summary()} of run {self.run_id}", *lines]),
            hint=f"once the cause is removed, `fairshare resume {self.run_id} --failed` sends those that were refused",
        )

    def _resume_hint(self, hint: str) -> str:
        """The cause's hint, which may know only the command that was run: that would send everything again."""
        resume = f"`fairshare resume {self.run_id}`"
        changed = hint.replace("run the same command again", f"run {resume}")
        return changed if resume in changed else f"{hint}\n{resume} sends the rest".lstrip()

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``submit -o json``: ``jobs`` are those that were sent."""
        return {
            "api_version": API_VERSION,
            "kind": "Run",
            "run_id": self.run_id,
            "jobs": [
                {
                    "job_name": ref.job_name,
                    "job_id": ref.job_id,
                    "share_identifier": job.request.share_identifier,
                    "scheduling_priority": job.request.scheduling_priority,
                    "wave": job.wave,
                }
                for job, ref in self.sent
            ],
            "refused": [{"job_name": job.request.job_name, "message": message} for job, message in self.refused],
            "not_sent": [job.request.job_name for job in self.left],
        }


def upload(plan: SubmitPlan, payloads: Payloads, on_event: Callable[[Event], None]) -> None:
    """Put into S3 what the plan needs and is not there yet. Nothing is sent before."""
    on_event(UploadsStarted(len(plan.uploads), plan.upload_bytes))
    on_event(UploadsDone(payloads.upload(plan.uploads) if plan.uploads else 0))


def dispatch(
    plan: SubmitPlan,
    calls: Calls,
    journal: Journal,
    clock: Clock,
    pace: Pace,
    on_event: Callable[[Event], None],
    stop: Callable[[], bool],
    in_doubt: AbstractSet[int] | None = None,
) -> RunResult:
    """Send a plan and return what became of it.

    Args:
        plan: what to send; its uploads are in S3.
        calls: to AWS Batch, see `fairshare.submit.calls.open_calls`.
        journal: of the plan's run; stays open.
        clock: time and waiting.
        pace: rate of calls, and back-off after a failed one.
        on_event: told of everything.
        stop: asked between calls and at least every 200 ms of waiting; True ends sending and keeps what was sent.
        in_doubt: indexes of jobs that an earlier session may have sent; None = a new run, whose journal begins here.

    Raises:
        FairshareError: the journal failed before the first call; later failures are in the result.
    """
    if in_doubt is None:
        journal.begin(plan.identity, plan.waves, plan.jobs)
    timetable = [(wave, plan.jobs_of(wave)) for wave in plan.waves]
    sending = Sending(timetable, calls, journal, clock, pace, on_event, stop, in_doubt or frozenset())
    interrupted, cause = False, None
    try:
        sending.run()
    except Stopped:
        interrupted = True
    except FairshareError as error:
        cause = error
    try:
        sending.finish(was_stopped=interrupted)
    except UnnotedError as error:
        cause = _both(cause, error)
    settled = {job.index for job, _ in (*sending.sent, *sending.refused)}
    return RunResult(
        run_id=plan.identity.run_id,
        sent=tuple(sorted(sending.sent, key=lambda each: each[0].index)),
        refused=tuple(sorted(sending.refused, key=lambda each: each[0].index)),
        left=tuple(job for job in plan.jobs if job.index not in settled),
        repeated_calls=sending.repeated,
        interrupted=interrupted,
        cause=cause or sending.trouble,
    )


def _both(cause: FairshareError | None, error: UnnotedError) -> UnnotedError:
    message = error.message if cause is None else f"{cause.message}\n{error.message}"
    return UnnotedError(message, hint=error.hint)


def _request_json(job: PlannedJob) -> dict[str, Any]:
    request: JobRequest = job.request
    return {
        "job_name": request.job_name,
        "job_queue": request.job_queue,
        "wave": job.wave,
        "share_identifier": request.share_identifier,
        "scheduling_priority": request.scheduling_priority,
        "attempt_duration_seconds": request.attempt_duration_seconds,
        "retry_strategy": request.retry_strategy,
        "client_token": request.client_token,
        "tags": dict(request.tags),
        "payload": masked(request.payload, job.secrets),
    }


def _rfc3339(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
