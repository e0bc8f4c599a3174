"""Sending a run: uploads first, then wave by wave, each job journaled before its call and settled after it.

`SubmitPlan` is all that will happen, as data: printing it, a dry run and sending read the same object. `dispatch` never
sends a job twice: a call that failed for a passing reason is repeated with the same token, and whatever stops it leaves
a journal from which the run can go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fairshare.model import (
    API_VERSION,
    CredentialsError,
    FairshareError,
    JobRef,
    JobRequest,
    PartialError,
    Problem,
    ServiceError,
    ThrottledError,
)
from fairshare.scheduler.clock import Clock
from fairshare.submit.journal import Journal
from fairshare.submit.ports import JobBackend, Payloads, Upload
from fairshare.submit.rate import GIVE_UP_MS, Pace
from fairshare.submit.requests import PlannedJob, RunIdentity, masked_payload
from fairshare.submit.waves import Wave

LOOK_MS: Final = 200
"""Longest sleep between two looks at ``stop``."""


@dataclass(frozen=True)
class SubmitPlan:
    """A submission, complete before anything is written or sent."""

    identity: RunIdentity
    waves: tuple[Wave, ...]
    jobs: tuple[PlannedJob, ...]
    uploads: tuple[Upload, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def jobs_of(self, wave: Wave) -> tuple[PlannedJob, ...]:
        """Return the jobs of one wave, in sending order."""
        return self.jobs[wave.first : wave.first + wave.count]

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
            "requests": [_request_json(job) for job in self.jobs],
            "warnings": [str(problem) for problem in self.warnings],
        }


# ---------------------------------------------------------------------------------------------------------------------
# Events, for progress display.


@dataclass(frozen=True)
class UploadsStarted:
    """Uploads are being compared with S3 and sent."""

    objects: int
    size: int


@dataclass(frozen=True)
class UploadsDone:
    """Everything is in S3; ``sent`` objects were not there before."""

    sent: int


@dataclass(frozen=True)
class WaveAwaited:
    """A wave is due at ``starts_at`` ms; told again at every look while waiting."""

    wave: Wave
    starts_at: int
    now: int


@dataclass(frozen=True)
class WaveStarted:
    """Sending of a wave begins."""

    wave: Wave
    at: int


@dataclass(frozen=True)
class JobSent:
    """Batch took a job."""

    job: PlannedJob
    ref: JobRef


@dataclass(frozen=True)
class JobRefused:
    """Batch refused a job for good; the others go on."""

    job: PlannedJob
    message: str


@dataclass(frozen=True)
class CallRepeated:
    """A call failed for a passing reason (throttled, no answer, 5xx) and is made again after ``wait`` ms."""

    job: PlannedJob
    message: str
    wait: int


Event = UploadsStarted | UploadsDone | WaveAwaited | WaveStarted | JobSent | JobRefused | CallRepeated


# ---------------------------------------------------------------------------------------------------------------------


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
            return type(self.cause)(message, hint=self.cause.hint)
        if not self.refused:
            return None
        kind = PartialError if self.sent else FairshareError
        lines = [f"{job.request.job_name}: {message}" for job, message in self.refused]
        return kind("\n".join([f"{self.summary()} of run {self.run_id}", *lines]))

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


def dispatch(
    plan: SubmitPlan,
    backend: JobBackend,
    payloads: Payloads,
    journal: Journal,
    clock: Clock,
    pace: Pace,
    on_event: Callable[[Event], None],
    stop: Callable[[], bool],
) -> RunResult:
    """Send a plan and return what became of it.

    Args:
        plan: what to send.
        backend: AWS Batch. Its ``submit`` must not retry by itself: nothing is retried by two layers.
        payloads: puts the uploads into S3.
        journal: created for the plan's run id, not begun; stays open.
        clock: time and waiting.
        pace: rate of calls, and back-off after a failed one.
        on_event: told of everything that happens.
        stop: asked between calls and at least every 200 ms of waiting; True ends sending and keeps what was sent.

    Raises:
        FairshareError: uploading or the journal failed before the first call; later failures are in the result.
    """
    on_event(UploadsStarted(len(plan.uploads), plan.upload_bytes))
    on_event(UploadsDone(payloads.upload(plan.uploads) if plan.uploads else 0))
    journal.begin(plan.identity, plan.waves, plan.jobs)
    sending = _Sending(plan, backend, journal, clock, pace, on_event, stop)
    try:
        sending.run()
    except _Stopped:
        return sending.result(interrupted=True)
    except FairshareError as cause:
        return sending.result(cause=cause)
    return sending.result()


class _Stopped(Exception):
    """``stop`` said so."""


@dataclass
class _Sending:
    """One run of `dispatch`: what has been done so far, and how to do the next step."""

    plan: SubmitPlan
    backend: JobBackend
    journal: Journal
    clock: Clock
    pace: Pace
    on_event: Callable[[Event], None]
    stop: Callable[[], bool]
    sent: list[tuple[PlannedJob, JobRef]] = field(default_factory=list)
    refused: list[tuple[PlannedJob, str]] = field(default_factory=list)
    repeated: int = 0

    def run(self) -> None:
        late = 0
        for wave in self.plan.waves:
            late = self._await_wave(wave, late)
            self.on_event(WaveStarted(wave, self.clock.now()))
            for job in self.plan.jobs_of(wave):
                self._send(job)

    def result(self, *, interrupted: bool = False, cause: FairshareError | None = None) -> RunResult:
        settled = {job.index for job, _ in (*self.sent, *self.refused)}
        return RunResult(
            run_id=self.plan.identity.run_id,
            sent=tuple(self.sent),
            refused=tuple(self.refused),
            left=tuple(job for job in self.plan.jobs if job.index not in settled),
            repeated_calls=self.repeated,
            interrupted=interrupted,
            cause=cause,
        )

    def _await_wave(self, wave: Wave, late: int) -> int:
        """Wait for a wave; return by how many ms it starts late.

        Lateness is carried on (a slow upload, an answered prompt, a wave that took longer than the interval), so two
        waves are never closer together than the timetable says.
        """
        due = wave.starts_at + late
        while (now := self.clock.now()) < due:
            self.on_event(WaveAwaited(wave, due, now))
            self._sleep_until(min(due, now + LOOK_MS))
        return max(late, self.clock.now() - wave.starts_at)

    def _send(self, job: PlannedJob) -> None:
        """Send one job, again and again while the failure is a passing one. Raises what must end the run."""
        self._sleep_until(self.pace.reserve(self.clock.now()))
        self.journal.intend([job.index], self.clock.now())
        began, failures = self.clock.now(), 0
        while True:
            try:
                ref = self.backend.submit(job.request)
            except (CredentialsError, ThrottledError):
                raise
            except FairshareError as error:
                if not (isinstance(error, ServiceError) and error.is_transient):
                    self._conclude(job, error, answered=failures == 0)
                    return
                failures += 1
                self._back_off(job, error, failures, began)
            else:
                self._settle(job, ref)
                return

    def _conclude(self, job: PlannedJob, error: FairshareError, *, answered: bool) -> None:
        """Settle a job that AWS refused.

        When an earlier call of the job had no proper answer, that call may have made it: AWS documents that a repeated
        token is rejected (API_SubmitServiceJob, clientToken). Names are unique, so a look tells.
        """
        made = None if answered else self.backend.find(job.request.job_queue, job.request.job_name)
        if made is not None:
            self._settle(job, JobRef(made.job_id, made.job_arn, made.job_name))
            return
        self.refused.append((job, error.message))
        self.journal.failed(job.index, error.message, self.clock.now())
        self.on_event(JobRefused(job, error.message))

    def _back_off(self, job: PlannedJob, error: ServiceError, failures: int, began: int) -> None:
        wait = self.pace.backoff(failures)
        if self.clock.now() + wait - began > GIVE_UP_MS:
            raise _given_up(error)
        self.repeated += 1
        self.on_event(CallRepeated(job, error.message, wait))
        self._sleep_until(self.pace.reserve(self.clock.now() + wait))

    def _settle(self, job: PlannedJob, ref: JobRef) -> None:
        self.sent.append((job, ref))
        try:
            self.journal.sent(job.index, ref, self.clock.now())
        except FairshareError as error:
            message = f"job {ref.job_name} was sent as {ref.job_id}, and that could not be noted: {error.message}"
            raise FairshareError(message, hint=error.hint) from error
        self.on_event(JobSent(job, ref))

    def _sleep_until(self, at: int) -> None:
        """Wait in short sleeps, so that `stop` is heard. Asked at least once."""
        while not self.stop():
            now = self.clock.now()
            if now >= at:
                return
            self.clock.sleep_until(min(at, now + LOOK_MS))
        raise _Stopped


def _given_up(error: ServiceError) -> FairshareError:
    message = f"no call was accepted for {GIVE_UP_MS // 60_000} minutes: {error.message}"
    if error.http_status == 429:
        return ThrottledError(message, hint="another program may use up the account's 5 calls a second; lower --rate")
    return ServiceError(message, aws_code=error.aws_code, http_status=error.http_status, hint=error.hint)


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
        "payload": masked_payload(job),
    }


def _rfc3339(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
