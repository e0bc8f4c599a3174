"""How long a job waited, launched, downloaded, trained and uploaded.

Batch knows until when a job waited; what follows is in ``SecondaryStatusTransitions`` of the training job
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html). Without those, the time
in RUNNING counts as training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairshare.metrics.ports import Phase
from fairshare.model import JobDetail

_DOWNLOADING: Final = frozenset({"Downloading", "DownloadingTrainingImage"})
_TRAINING: Final = "Training"
_UPLOADING: Final = "Uploading"
_OVER: Final = frozenset({"Completed", "Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded"})


@dataclass(frozen=True)
class PhaseTimes:
    """Milliseconds in each phase, over all attempts. ``launching`` is what is neither waiting nor any other phase."""

    waiting: int
    launching: int
    downloading: int
    training: int
    uploading: int

    @property
    def held(self) -> int:
        """How long the job held its instances."""
        return self.launching + self.downloading + self.training + self.uploading

    @property
    def before_training(self) -> int:
        """How long it held them before its own code ran."""
        return self.launching + self.downloading


def phase_times(job: JobDetail, phases: Sequence[Phase], now: int) -> PhaseTimes:
    """Return the time of a job in each phase up to ``now`` ms.

    Args:
        job: from Batch.
        phases: of all its attempts; () when SageMaker cannot be asked.
        now: milliseconds; the end of what has not ended.
    """
    waiting = waited(job, now)
    if not phases:
        return PhaseTimes(waiting, max(0, held(job, now) - ran(job, now)), 0, ran(job, now), 0)
    spent = {"launching": 0, "downloading": 0, "training": 0, "uploading": 0}
    for phase in phases:
        if phase.status not in _OVER:
            spent[_kind(phase.status)] += max(0, (now if phase.end is None else phase.end) - phase.begin)
    return PhaseTimes(waiting, **spent)


def waited(job: JobDetail, now: int) -> int:
    """Return the milliseconds a job waited, or has waited, for its first start."""
    starts = [attempt.started_at for attempt in job.attempts if attempt.started_at is not None]
    known = [at for at in (job.scheduled_at, *starts) if at is not None]
    until = min(known) if known else (now if job.stopped_at is None else job.stopped_at)
    return max(0, until - job.created_at)


def held(job: JobDetail, now: int) -> int:
    """Return the milliseconds a job held its instances: its attempts, the last one from SCHEDULED on."""
    earlier = 0
    for attempt in job.attempts:
        if attempt.training_job_name != job.training_job_name and attempt.started_at is not None:
            earlier += max(0, (attempt.stopped_at or attempt.started_at) - attempt.started_at)
    since = job.started_at if job.scheduled_at is None else job.scheduled_at
    if since is None:
        return earlier
    return earlier + max(0, (now if job.stopped_at is None else job.stopped_at) - since)


def ran(job: JobDetail, now: int) -> int:
    """Return the milliseconds the last attempt of a job ran, or has run; 0 for one that never started."""
    if job.started_at is None:
        return 0
    return max(0, (now if job.stopped_at is None else job.stopped_at) - job.started_at)


def _kind(status: str) -> str:
    if status in _DOWNLOADING:
        return "downloading"
    if status == _UPLOADING:
        return "uploading"
    return "training" if status in {_TRAINING, "Stopping", "Interrupted"} else "launching"
