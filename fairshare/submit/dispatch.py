"""Sending a run: uploads first, then wave by wave, each job journaled before its call and settled after it.

`SubmitPlan` is all that will happen, as data: printing it, a dry run and sending read the same object. `dispatch` never
sends a job twice: a call that failed for a passing reason is repeated with the same token, and whatever stops it leaves
a journal from which the run can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fairshare.model import API_VERSION, FairshareError, JobRef, JobRequest, PartialError, Problem
from fairshare.scheduler.clock import Clock
from fairshare.submit.calls import Calls
from fairshare.submit.conditions import Skip
from fairshare.submit.events import Event, UploadsDone, UploadsStarted
from fairshare.submit.fallback import Fallback
from fairshare.submit.journal import Journal
from fairshare.submit.ports import Payloads, SourceSummary, Upload
from fairshare.submit.rate import Pace
from fairshare.submit.records import after_fields
from fairshare.submit.release import Earlier, Release
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.rules import NO_RULES, RunRules
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
    rules: RunRules = NO_RULES
    capacities: Mapping[str, int] = field(default_factory=dict)
    """Instances of the queues that the jobs go to, by the queue's name in AWS; for predictions only."""

    def jobs_of(self, wave: Wave) -> tuple[PlannedJob, ...]:
        """Return the jobs of one wave, in sending order."""
        return self.jobs[wave.first : wave.first + wave.count]

    @property
    def width(self) -> int:
        """How many calls may overlap, so that a slow answer does not hold up the next call.

        In a queue that is first in, first out, order matters more: there it is 1.
        """
        return (
            1
            if any(job.request.share_identifier is None and job.request.quota_share is None for job in self.jobs)
            else WIDTH
        )

    @property
    def may_be_held(self) -> bool:
        """Whether jobs may be sent later than their wave: they come after others, or there is a limit in flight."""
        return self.rules.max_in_flight is not None or any(job.after for job in self.jobs)

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
            "rules": {
                "max_in_flight": self.rules.max_in_flight,
                "auto": None if self.rules.auto is None else {"hold_runnable": self.rules.auto.hold_runnable},
                "limits": asdict(self.rules.limits),
            },
            "requests": [_request_json(job) for job in self.jobs],
            "warnings": [str(problem) for problem in self.warnings],
        }


@dataclass(frozen=True)
class RunResult:
    """What became of a plan: each of its jobs is in exactly one of ``sent``, ``refused``, ``skipped`` and ``left``.

    ``left`` jobs were not sent as far as is known; the first of them may have arrived when a call had no answer.
    """

    run_id: str
    sent: tuple[tuple[PlannedJob, JobRef], ...] = ()
    refused: tuple[tuple[PlannedJob, str], ...] = ()
    left: tuple[PlannedJob, ...] = ()
    skipped: tuple[tuple[PlannedJob, Skip], ...] = ()
    """Jobs that are not sent because of how those they come after ended."""
    repeated_calls: int = 0
    interrupted: bool = False
    cause: FairshareError | None = None
    """Why sending ended early, unless it was interrupted."""

    def summary(self) -> str:
        """Return the counts as one line: ``6 submitted, 1 refused, 5 not sent``."""
        counts = (
            (len(self.sent), "submitted"),
            (len(self.refused), "refused"),
            (len(self.skipped), "skipped"),
            (len(self.left), "not sent"),
        )
        return ", ".join(f"{count} {what}" for count, what in counts if count or what == "submitted")

    def error(self) -> FairshareError | None:
        """Return what the command must fail with, or None.

        The cause of an early end; `PartialError` when some of many were refused, or skipped because others failed,
        `FairshareError` when all were. An interruption is the caller's to report: it knows the signal.
        """
        if self.cause is not None:
            message = f"{self.cause.message} ({self.summary()} of run {self.run_id})"
            return type(self.cause)(message, hint=self._resume_hint(self.cause.hint or ""))
        skipped = [(job, skip) for job, skip in self.skipped if skip.is_failure]
        if not self.refused and not skipped:
            return None
        kind = PartialError if self.sent else FairshareError
        lines = [f"{job.request.job_name}: {message}" for job, message in self.refused]
        lines += [f"{job.request.job_name}: skipped, {skip.reason}" for job, skip in skipped]
        what = "those that were refused" if self.refused else "what failed and what was skipped"
        return kind(
            "\n".join([f"{self.summary()} of run {self.run_id}", *lines]),
            hint=f"once the cause is removed, `fairshare resume {self.run_id} --failed` sends {what}",
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
                    "quota_share": job.request.quota_share,
                    "scheduling_priority": job.request.scheduling_priority,
                    "wave": job.wave,
                }
                for job, ref in self.sent
            ],
            "refused": [{"job_name": job.request.job_name, "message": message} for job, message in self.refused],
            "skipped": [{"job_name": job.request.job_name, "reason": skip.reason} for job, skip in self.skipped],
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
    earlier: Earlier | None = None,
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
        earlier: what earlier sessions left; None = a new run, whose journal begins here.

    Raises:
        FairshareError: the journal failed before the first call; later failures are in the result.
    """
    if earlier is None:
        journal.begin(plan.identity, plan.waves, plan.jobs, plan.rules)
        earlier = Earlier()
    may_move = any(job.alternatives for job in (*plan.jobs, *(each.job for each in earlier.past)))
    moves = Fallback() if may_move else None
    release = Release(plan.jobs, plan.waves, plan.rules, clock, on_event, earlier.past, moves)
    sending = Sending(release, calls, journal, clock, pace, on_event, stop, earlier.in_doubt)
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
    return _result(plan, sending, interrupted=interrupted, cause=cause)


def _result(plan: SubmitPlan, sending: Sending, *, interrupted: bool, cause: FairshareError | None) -> RunResult:
    settled = {job.index for job, _ in (*sending.sent, *sending.refused, *sending.skipped)}
    wanted = {job.index: job for job in plan.jobs} | sending.moved
    return RunResult(
        run_id=plan.identity.run_id,
        sent=tuple(sorted(sending.sent, key=lambda each: each[0].index)),
        refused=tuple(sorted(sending.refused, key=lambda each: each[0].index)),
        left=tuple(wanted[index] for index in sorted(wanted) if index not in settled),
        skipped=tuple(sorted(sending.skipped, key=lambda each: each[0].index)),
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
        "after": after_fields(job),
        "share_identifier": request.share_identifier,
        "quota_share": request.quota_share,
        "preemption_retries": request.preemption_retries,
        "scheduling_priority": request.scheduling_priority,
        "attempt_duration_seconds": request.attempt_duration_seconds,
        "retry_strategy": request.retry_strategy,
        "client_token": request.client_token,
        "tags": dict(request.tags),
        "payload": masked(request.payload, job.secrets),
        "alternatives": [asdict(each) for each in job.alternatives],
        "fallback_after": job.fallback_after,
    }


def _rfc3339(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
