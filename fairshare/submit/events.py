"""What happens while a run is sent, for progress displays."""

from __future__ import annotations

from dataclasses import dataclass

from fairshare.model import JobRef
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
class CallRepeated:
    """A call failed for a passing reason (throttled, no answer, 5xx) and is made again after ``wait`` ms."""

    job: PlannedJob
    message: str
    wait: int


Event = UploadsStarted | UploadsDone | WaveAwaited | WaveStarted | JobSent | JobRefused | CallRepeated
