"""Going on with a run: what an interrupted session left is found again, and the rest becomes a plan to send.

The order matters. A job whose call has no outcome is looked for first; only what is not there is sent again, with the
same payload and token, so that AWS can tell a repeated call from a new one (case C22).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from fairshare.model import FairshareError, JobRef, JobStatus, UsageError
from fairshare.submit.calls import find_made
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.journal import JobRecord, Journal, RunRecord, read_run
from fairshare.submit.ports import JobBackend
from fairshare.submit.requests import PlannedJob
from fairshare.submit.secrets import FindValues, restored
from fairshare.submit.waves import Wave

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
    in_doubt: AbstractSet[int]
    """Indexes of those that were called before and not found."""


def recover(
    journal: Journal,
    backend: JobBackend,
    find_values: FindValues,
    now: int,
    *,
    failed: bool = False,
) -> Recovery:
    """Look for what is not known, note it in the journal, and return what is to be sent.

    Args:
        journal: opened for the run.
        backend: AWS Batch; only asked.
        find_values: where secret values are looked for.
        now: ms since the epoch.
        failed: send also what AWS had refused, and what ended FAILED, again: with names and tokens of their own.

    Raises:
        UsageError: a secret value is not known any more or is another one now. Nothing was sent.
        FairshareError: AWS cannot be asked, or the journal cannot be written.
    """
    found = _look(journal, journal.record or read_run(journal.path), backend, now)
    if failed:
        _note_ends(journal, read_run(journal.path), backend, now)
    record = read_run(journal.path)
    wanted = {"waiting", "unknown", "failed"} if failed else {"waiting", "unknown"}
    left = [job for job in record.jobs if job.state in wanted]
    jobs = _restored(left, find_values)
    in_doubt = frozenset(job.index for job in left if job.state == "unknown")
    return Recovery(record, tuple(found), SubmitPlan(record.identity, *_waves(record, jobs, now)), in_doubt)


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
                journal.ended(sent[job.job_id], JobStatus.FAILED, now)


def _restored(left: list[JobRecord], find_values: FindValues) -> list[PlannedJob]:
    """Return the jobs as they are sent now; the problems of all of them are told at once."""
    jobs: list[PlannedJob] = []
    problems: dict[str, tuple[str, str | None]] = {}
    for job in left:
        try:
            payload = restored(job.request.payload, job.payload_sha256, find_values)
        except UsageError as error:
            problems.setdefault(error.message, (job.request.job_name, error.hint))
            continue
        attempt = job.attempt + 1 if job.state == "failed" else job.attempt
        jobs.append(replace(job, attempt=attempt).as_planned(payload))
    if problems:
        lines = [f"job {name}: {message}" for message, (name, _) in problems.items()]
        hints = dict.fromkeys(hint for _, hint in problems.values() if hint)
        raise UsageError("\n".join([*lines, "nothing was sent"]), hint="\n".join(hints))
    return jobs


def _waves(record: RunRecord, jobs: list[PlannedJob], now: int) -> tuple[tuple[Wave, ...], tuple[PlannedJob, ...]]:
    """Return the remaining waves, and their jobs in sending order.

    A timetable that still lies ahead is kept. One that is late is moved as a whole, so that the waves keep their
    distances from each other.
    """
    planned_at = {wave.number: wave.starts_at for wave in record.waves}
    numbers = sorted({job.wave for job in jobs})
    late = max(0, now - planned_at[numbers[0]]) if numbers else 0
    waves: list[Wave] = []
    ordered: list[PlannedJob] = []
    for number in numbers:
        members = [job for job in jobs if job.wave == number]
        waves.append(Wave(number, planned_at[number] + late, len(ordered), len(members)))
        ordered += members
    return tuple(waves), tuple(ordered)


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
