"""Going on with a run: what an interrupted session left is found again, and the rest becomes a plan to send.

The order matters. A job whose call has no outcome is looked for first; only what is not there is sent again, with the
same payload and token, so that AWS can tell a repeated call from a new one (case C22).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

from fairshare.model import FairshareError, JobRef, JobStatus, UsageError
from fairshare.submit.calls import find_made
from fairshare.submit.conditions import End
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.fallback import move_after
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.ports import JobBackend
from fairshare.submit.records import JobRecord, RunRecord
from fairshare.submit.release import Earlier, Past
from fairshare.submit.requests import PlannedJob
from fairshare.submit.secrets import FindValues, restored
from fairshare.submit.waves import Wave, moved

FORGOTTEN_MS: Final = 7 * 86_400_000
"""Batch keeps a job for 7 days after its end
(https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html)."""

_FORGOTTEN: Final = (
    "it was called more than 7 days ago, the answer is not known, and Batch may have forgotten it: "
    "look at its output, then send it again if it is missing"
)


@dataclass(frozen=True)
class Recovery:
    """What is left of a run."""

    record: RunRecord
    """The run after the look at Batch."""
    found: tuple[tuple[PlannedJob, JobRef], ...]
    """Jobs that a call without an outcome had made."""
    plan: SubmitPlan
    """What is to be sent; ``jobs`` is empty when nothing is."""
    earlier: Earlier
    """Which of those were called before and not found, and what became of the others."""


def recover(
    journal: Journal,
    backend: JobBackend,
    find_values: FindValues,
    now: int,
    *,
    failed: bool = False,
    max_in_flight: int | None = None,
) -> Recovery:
    """Look for what is not known, note it in the journal, and return what is to be sent.

    Args:
        journal: opened for the run.
        backend: AWS Batch; only asked.
        find_values: where secret values are looked for.
        now: ms since the epoch.
        failed: send also what AWS had refused, and what ended FAILED, again: with names and tokens of their own. What
            was skipped because of them gets another chance.
        max_in_flight: in place of the run's own, for this session; None = the run's own.

    Raises:
        UsageError: a secret value is not known any more or is another one now. Nothing was sent.
        FairshareError: AWS cannot be asked, or the journal cannot be written.
    """
    found = _look(journal, journal.record or read_run(journal.path), backend, now)
    if failed:
        _note_ends(journal, read_run(journal.path), backend, now)
    _note_moves(journal, read_run(journal.path), find_values, now)
    record = read_run(journal.path)
    wanted = {"waiting", "unknown", "failed", "skipped"} if failed else {"waiting", "unknown"}
    left = [job for job in record.jobs if job.state in wanted]
    jobs = _restored(left, find_values)
    rules = record.rules if max_in_flight is None else replace(record.rules, max_in_flight=max_in_flight)
    plan = SubmitPlan(record.identity, *_waves(record, jobs, now), rules=rules)
    in_doubt = frozenset(job.index for job in left if job.state == "unknown")
    past = _past([job for job in record.jobs if job.state not in wanted], find_values)
    return Recovery(record, tuple(found), plan, Earlier(in_doubt, past))


def settle(journal: Journal, backend: JobBackend, now: int) -> RunRecord:
    """Note what Batch tells of jobs whose calls have no outcome and of those that ended FAILED; return the run.

    Raises:
        FairshareError: AWS cannot be asked, or the journal cannot be written.
    """
    _look(journal, journal.record or read_run(journal.path), backend, now)
    _note_ends(journal, read_run(journal.path), backend, now)
    return read_run(journal.path)


def _look(journal: Journal, record: RunRecord, backend: JobBackend, now: int) -> list[tuple[PlannedJob, JobRef]]:
    """Settle the jobs whose calls have no outcome, as far as Batch knows them."""
    found = []
    for job in record.jobs:
        if job.state != "unknown" or job.intended_at is None:
            continue
        planned = job.as_planned()
        ref = find_made(backend, planned.request)
        if ref is not None:
            journal.sent(job.index, ref, now)
            found.append((planned, ref))
        elif now - job.intended_at >= FORGOTTEN_MS:
            journal.failed(job.index, _FORGOTTEN, now)
    return found


def _note_ends(journal: Journal, record: RunRecord, backend: JobBackend, now: int) -> None:
    """Note which of the jobs that were sent have ended FAILED."""
    sent = {job.job_id: job.index for job in record.jobs if job.state == "sent"}
    if not sent:
        return
    for queue in record.queues:
        for job in backend.list(queue, {JobStatus.FAILED}):
            if job.job_id in sent:
                journal.ended(
                    sent[job.job_id],
                    JobStatus.FAILED,
                    now,
                    reason=job.status_reason,
                    training_job_name=job.training_job_name,
                    started_at=job.started_at,
                    stopped_at=job.stopped_at,
                )


def _note_moves(journal: Journal, record: RunRecord, find_values: FindValues, now: int) -> None:
    """Let jobs go on on their next queue that were seen to end for it, and had not moved when a session ended."""
    ended = [job for job in record.jobs if job.status == JobStatus.FAILED and job.alternatives]
    ended = [job for job in ended if move_after(job.as_planned(), job.reason) is not None]
    for job, planned in zip(ended, _restored(ended, find_values, is_again=False), strict=True):
        if (later := move_after(planned, job.reason)) is not None:
            journal.moved(later, now)


def _past(jobs: list[JobRecord], find_values: FindValues) -> tuple[Past, ...]:
    """Return what this session must know of the jobs that are settled. One that may move needs its secrets."""
    movable = [job for job in jobs if job.alternatives and job.state == "sent" and job.status is None]
    whole = {job.index: job for job in _restored(movable, find_values)}
    return tuple(_as_past(job, whole.get(job.index) or job.as_planned()) for job in jobs)


def _as_past(job: JobRecord, planned: PlannedJob) -> Past:
    """Return what later jobs must know of one that is settled."""
    ref = None if job.job_id is None else JobRef(job.job_id, job.job_arn or "", planned.request.job_name)
    if job.state == "failed":
        end: End | None = End.FAILED
    elif job.skip is not None:
        end = job.skip.end
    else:
        end = None if job.status is None else End(job.status)
    return Past(planned, ref, end)


def _restored(left: list[JobRecord], find_values: FindValues, *, is_again: bool = True) -> list[PlannedJob]:
    """Return the jobs as they are sent now; the problems of all of them are told at once.

    ``is_again``: what has failed comes back as its next attempt.
    """
    jobs: list[PlannedJob] = []
    problems: dict[str, tuple[str, str | None]] = {}
    for job in left:
        try:
            payload = restored(job.request.payload, job.payload_sha256, find_values)
        except UsageError as error:
            problems.setdefault(error.message, (job.request.job_name, error.hint))
            continue
        attempt = job.attempt + 1 if is_again and job.state == "failed" else job.attempt
        jobs.append(replace(job, attempt=attempt).as_planned(payload))
    if problems:
        lines = [f"job {name}: {message}" for message, (name, _) in problems.items()]
        hints = dict.fromkeys(hint for _, hint in problems.values() if hint)
        raise UsageError("\n".join([*lines, "nothing was sent"]), hint="\n".join(hints))
    return jobs


def _waves(record: RunRecord, jobs: list[PlannedJob], now: int) -> tuple[tuple[Wave, ...], tuple[PlannedJob, ...]]:
    """Return the remaining waves as they are from now on, and their jobs in sending order."""
    of_wave: defaultdict[int, list[PlannedJob]] = defaultdict(list)
    for job in jobs:
        of_wave[job.wave].append(job)
    waves: list[Wave] = []
    ordered: list[PlannedJob] = []
    for wave in record.waves:
        members = of_wave[wave.number]
        if members:
            waves.append(replace(wave, first=len(ordered), count=len(members)))
            ordered += members
    return moved(waves, record.rules.gate, now), tuple(ordered)


def check_place(record: RunRecord, region: str, account_id: str) -> None:
    """Refuse to go on with a run in another place than it began.

    Raises:
        FairshareError: another region or account.
    """
    if record.identity.region != region:
        raise UsageError(
            f"run {record.run_id} was sent to {record.identity.region}, not {region}",
            hint=f"add --region {record.identity.region}",
        )
    if record.identity.account_id != account_id:
        raise FairshareError(
            f"run {record.run_id} was sent to account {record.identity.account_id}, not {account_id}",
            hint="give the --profile, or --local, that it was submitted with",
        )
