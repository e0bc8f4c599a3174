"""What submission needs from the outside: a Batch back end and a maker of payloads. Adapters live in the edges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fairshare.config.jobs import JobSpec
from fairshare.model import JobDetail, JobRef, JobRequest, JobStatus, JobSummary, QueueSnapshot


class JobBackend(Protocol):
    """AWS Batch service jobs, as few calls as possible. Adapter: `fairshare.aws.jobs.BatchJobs`.

    Every method raises `fairshare.model.FairshareError` and never a boto3 error. Queue arguments are names or ARNs.
    """

    def submit(self, request: JobRequest) -> JobRef:
        """Send one job. Sending the same ``client_token`` again never makes a second job."""

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        """Return the newest job of exactly that name, whatever its status, or None."""

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        """Return the jobs of a queue, newest first. None = every status, one the program does not know included."""

    def walk(self, queue: str, created_before: int | None = None) -> Iterator[Sequence[JobSummary]]:
        """Yield the jobs of a queue of any status, newest first, page by page; ``created_before`` is milliseconds."""

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        """Return details by job id. Ids that Batch does not (or no longer) know are absent."""

    def snapshot(self, queue: str) -> QueueSnapshot:
        """Return the first 100 RUNNABLE jobs in dispatch order and the capacity in use."""

    def update_priority(self, job_id: str, scheduling_priority: int) -> None:
        """Change the scheduling priority of a job."""

    def terminate(self, job_id: str, reason: str) -> None:
        """End a job; no effect on one that has ended."""


@dataclass(frozen=True)
class Upload:
    """Bytes that must be in S3 before a payload that names ``s3_uri`` is sent. Equal content has an equal URI."""

    s3_uri: str
    body: bytes
    label: str
    """For people: ``source of digits`` or ``SDK driver``."""
    kms_key: str | None = None
    """KMS key that S3 must encrypt the object with; None = the bucket's default."""


@dataclass(frozen=True, order=True)
class LeftOut:
    """An entry of a source directory that is not uploaded, and why: ``.gitignore:3`` or ``never source: .git``."""

    path: str
    reason: str


@dataclass(frozen=True)
class SourceSummary:
    """What of a source directory is uploaded. ``size`` is in bytes, before packing."""

    directory: str
    s3_uri: str
    files: int
    size: int
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class BuiltPayload:
    """The CreateTrainingJob request of one job, and what it wants uploaded.

    ``payload`` is complete but for ``TrainingJobName``, which submission sets. ``tags`` were taken out of the payload:
    Batch carries them (the SDK does the same).
    """

    payload: Mapping[str, Any]
    uploads: tuple[Upload, ...] = ()
    tags: Mapping[str, str] | None = None
    warnings: tuple[str, ...] = ()
    secret_environment: tuple[str, ...] = ()
    """Names in ``payload["Environment"]`` whose values are secret: a journal must not hold them."""
    source: SourceSummary | None = None
    """The user's code; None when it was in S3 before, or there is none."""


class Payloads(Protocol):
    """Makes payloads with the SageMaker SDK. Adapter: `fairshare.trainer.payload.TrainerPayloads`."""

    def build(self, spec: JobSpec) -> BuiltPayload:
        """Return the payload of one job without any side effect: no write, no upload, no network.

        Jobs that differ in hyperparameters, environment, checkpoint and tags only, one after the other, cost no more
        than the first of them.

        What is wrong with the job is a UsageError, an InfeasibleError or a NotFoundError with one problem a line.
        """

    def upload(self, uploads: Sequence[Upload]) -> int:
        """Put what is not in S3 yet; return how many objects were sent."""
