"""What happens while a run is sent, for progress displays."""

from __future__ import annotations

from dataclasses import dataclass

from fairshare.model import JobRef, JobSummary
from fairshare.submit.conditions import Skip
from fairshare.submit.requests import PlannedJob
from fairshare.submit.waves import Wave


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
class JobSkipped:
    """A job will not be sent: what it comes after did not end as it must."""

    job: PlannedJob
    skip: Skip


@dataclass(frozen=True)
class JobEnded:
    """A job was seen to have ended, SUCCEEDED or FAILED."""

    job: PlannedJob
    seen: JobSummary


@dataclass(frozen=True)
class JobMoved:
    """A job goes on on another queue, as ``job``."""

    job: PlannedJob
    from_queue: str
    why: str


@dataclass(frozen=True)
class JobsAwaited:
    """Nothing can be sent before something happens to jobs that were; told again at every look while waiting."""

    why: str
    """``3 jobs wait for others``, ``40 jobs are in flight``, ``8 jobs are launching``."""


@dataclass(frozen=True)
class LaunchIsSlow:
    """A job has been launching for ``took`` ms and is not waited for any longer."""

    job: PlannedJob
    took: int


@dataclass(frozen=True)
class LookFailed:
    """The jobs could not be looked at; they are looked at again after ``wait`` ms."""

    message: str
    wait: int


@dataclass(frozen=True)
class CallRepeated:
    """A call failed for a passing reason (throttled, no answer, 5xx) and is made again after ``wait`` ms."""

    job: PlannedJob
    message: str
    wait: int


Event = (
    UploadsStarted
    | UploadsDone
    | WaveAwaited
    | WaveStarted
    | JobSent
    | JobRefused
    | JobSkipped
    | JobEnded
    | JobMoved
    | JobsAwaited
    | LaunchIsSlow
    | LookFailed
    | CallRepeated
)
