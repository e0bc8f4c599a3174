"""How the jobs of a run ended, kept in its journal: Batch forgets a job 7 days after its end, the journal does not.

Whoever sees a job end notes it (``wait``, ``results``, ``submit --wait``); a process that is sending the run holds its
journal and notes for itself what it sees.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairshare.model import TERMINAL_STATUSES, JobDetail, JobSummary
from fairshare.submit.holder import Holder, RunHeldError
from fairshare.submit.journal import SUFFIX, Journal
from fairshare.submit.records import JobRecord


@dataclass(frozen=True)
class Training:
    """What SageMaker tells of a training job that has ended. None = SageMaker does not say."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last value of each metric."""
    training_seconds: int | None = None
    billable_seconds: int | None = None
    model_artifacts: str | None = None
    """S3 URI of the model; of an uncompressed one, the prefix that its files share."""


@dataclass(frozen=True)
class Ending:
    """How a job ended. None = not known. Times are milliseconds since the epoch."""

    status: str
    reason: str | None = None
    training_job_name: str | None = None
    started_at: int | None = None
    stopped_at: int | None = None
    attempts: int | None = None
    """Those that were not preempted."""
    preemptions: int | None = None
    """How often it was preempted; None also when it never was."""
    preemption_reason: str | None = None
    """Why the last time, in AWS's words."""
    training: Training | None = None
    """None also when the job had no training job, or SageMaker was not asked."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing more can be learnt by asking."""
        return self.attempts is not None and (self.training is not None or self.training_job_name is None)

    def completed_by(self, earlier: Ending | None) -> Ending:
        """Return this ending with what only an earlier look knew."""
        if earlier is None or earlier.status != self.status:
            return self
        known = {name: value for name, value in vars(self).items() if value is not None}
        return Ending(**{**vars(earlier), **known})


def ending_of(job: JobSummary) -> Ending | None:
    """Return how a job ended, as Batch tells; None when it has not."""
    if job.status not in TERMINAL_STATUSES:
        return None
    return Ending(
        status=job.status,
        reason=job.status_reason,
        training_job_name=job.training_job_name,
        started_at=job.started_at,
        stopped_at=job.stopped_at,
        attempts=len(job.attempts) if isinstance(job, JobDetail) else None,
        preemptions=(job.preemptions or None) if isinstance(job, JobDetail) else None,
        preemption_reason=job.preemption_reason if isinstance(job, JobDetail) else None,
    )


def ending_in(job: JobRecord) -> Ending | None:
    """Return how a job ended, as its journal knows; None when nobody has seen it."""
    if job.status is None:
        return None
    output = job.output or {}
    training = output.get("training")
    return Ending(
        status=job.status,
        reason=job.reason,
        training_job_name=job.training_job_name,
        started_at=job.started_at,
        stopped_at=job.stopped_at,
        attempts=output.get("attempts"),
        preemptions=output.get("preemptions"),
        preemption_reason=output.get("preemption_reason"),
        training=None if training is None else Training(**training),
    )


def runs_of(runs_dir: Path, job_ids: Collection[str]) -> list[str]:
    """Return the ids of the runs whose journals name one of the jobs. Journals are searched, not read."""
    wanted = [job_id.encode() for job_id in job_ids]
    found = []
    for path in sorted(runs_dir.glob(f"*{SUFFIX}")):
        with suppress(OSError):
            content = path.read_bytes()
            if any(job_id in content for job_id in wanted):
                found.append(path.name.removesuffix(SUFFIX))
    return found


def note_endings(runs_dir: Path, run_id: str, endings: Mapping[str, Ending], holder: Holder) -> int:
    """Write into a run's journal how jobs ended, and return how many records that took.

    What the journal knows already is not written again. While another process holds the run nothing is: that process
    notes what it sees.

    Args:
        runs_dir: of the journals.
        run_id: of the run, whole.
        endings: by job id; ids that are not the latest attempt of one of its jobs are left out.
        holder: this process; its ``since`` is the time of the records.

    Raises:
        FairshareError: the journal is damaged, or cannot be written.
    """
    try:
        with Journal.open(runs_dir / f"{run_id}{SUFFIX}", holder) as journal:
            return _note(journal, endings, holder.since)
    except RunHeldError:
        return 0


def _note(journal: Journal, endings: Mapping[str, Ending], at: int) -> int:
    noted = 0
    for job in journal.record.jobs if journal.record is not None else ():
        ending = endings.get(job.job_id or "")
        if ending is None:
            continue
        known = ending_in(job)
        ending = ending.completed_by(known)
        if ending != known:
            journal.ended(job.index, ending.status, at, **_details(ending))
            noted += 1
    return noted


def _details(ending: Ending) -> dict[str, Any]:
    """The optional fields of an ``ended`` record."""
    output = {
        "attempts": ending.attempts,
        "preemptions": ending.preemptions,
        "preemption_reason": ending.preemption_reason,
        "training": None if ending.training is None else asdict(ending.training),
    }
    return {
        "reason": ending.reason,
        "training_job_name": ending.training_job_name,
        "started_at": ending.started_at,
        "stopped_at": ending.stopped_at,
        "output": {name: value for name, value in output.items() if value is not None},
    }
