"""The state of one account and region: its resources, its jobs and the engine that schedules them.

Records hold what a describe call tells, in AWS's words; the operations beside this module change them. Statuses and
times of jobs are the engine's and are never copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from fairshare.local.errors import ClientException
from fairshare.local.training_jobs import TrainingJob
from fairshare.model import FairsharePolicy, JobStatus, ShareAttributes, partition_of
from fairshare.scheduler.engine import Engine, PutEnvironment, PutQueue
from fairshare.scheduler.queues import EngineJob

NewId = Callable[[], UUID]
"""Makes a new unique id: `uuid.uuid4`, or something that tests can foresee."""


@dataclass
class EnvironmentRecord:
    """A service environment. ``capacity_limits`` as they were given."""

    name: str
    arn: str
    capacity_limits: list[Mapping[str, Any]]
    state: str
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class PolicyRecord:
    """A scheduling policy. ``fairshare`` is the ``fairsharePolicy`` as it was given."""

    name: str
    arn: str
    fairshare: Mapping[str, Any]
    tags: dict[str, str] = field(default_factory=dict)

    def as_model(self) -> FairsharePolicy:
        """Return the policy for the engine, weights as the decimals that were written."""
        return FairsharePolicy(
            share_distribution=tuple(
                ShareAttributes(entry["shareIdentifier"], str(entry.get("weightFactor", 1)))
                for entry in self.fairshare.get("shareDistribution") or []
            ),
            share_decay_seconds=self.fairshare.get("shareDecaySeconds", 0),
            compute_reservation=self.fairshare.get("computeReservation", 0),
        )


@dataclass
class QueueRecord:
    """A job queue of type SAGEMAKER_TRAINING; ``jobs`` in the order of submission."""

    name: str
    arn: str
    priority: int
    environment: EnvironmentRecord
    policy: PolicyRecord | None
    state: str
    time_limits: list[Mapping[str, Any]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    is_being_deleted: bool = False
    jobs: list[JobRecord] = field(default_factory=list)
    share_identifiers: set[str] = field(default_factory=set)
    """Every one that a job was submitted with."""


@dataclass
class AttemptRecord:
    """One attempt of a service job, as AWS Batch tells it, and the training job behind it."""

    training_job: TrainingJob
    started_at: int | None = None
    stopped_at: int | None = None
    status_reason: str | None = None


@dataclass
class JobRecord:
    """A service job. ``sequence`` is its place among the jobs of its queue, from 0."""

    id: str
    arn: str
    sequence: int
    queue: QueueRecord
    request: Mapping[str, Any]
    """The SubmitServiceJob request."""
    training_request: Mapping[str, Any]
    """Its ``serviceRequestPayload``, decoded."""
    demand: Mapping[str, int]
    """Instances by instance type."""
    scheduling_priority: int | None
    tags: dict[str, str]
    attempts: list[AttemptRecord] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name given at submission."""
        return str(self.request["jobName"])


class Region:
    """What exists in one account and region.

    Args:
        account_id: 12 digits.
        name: e.g. ``us-west-2``.
        new_id: for jobs and training jobs.
    """

    def __init__(self, account_id: str, name: str, new_id: NewId) -> None:
        self.account_id = account_id
        self.name = name
        self.new_id = new_id
        self.engine = Engine()
        self.environments: dict[str, EnvironmentRecord] = {}
        self.policies: dict[str, PolicyRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.jobs_by_token: dict[str, JobRecord] = {}

    @property
    def now(self) -> int:
        """The present instant, in milliseconds: every operation begins by moving the engine to it."""
        return self.engine.now

    def arn(self, resource: str, service: str = "batch") -> str:
        """Return the ARN of ``job-queue/gpu``, in the partition of the region."""
        return f"arn:{partition_of(self.name)}:{service}:{self.name}:{self.account_id}:{resource}"

    # -- lookups: by name or by ARN, as in AWS ---------------------------------------------------------------------

    def find_environment(self, reference: str) -> EnvironmentRecord | None:
        """Return a service environment, or None."""
        return self.environments.get(self._name(reference, "service-environment"))

    def find_queue(self, reference: str) -> QueueRecord | None:
        """Return a queue, or None."""
        return self.queues.get(self._name(reference, "job-queue"))

    def get_environment(self, reference: str) -> EnvironmentRecord:
        """Return a service environment. Raises ClientException when there is none."""
        if (environment := self.find_environment(reference)) is None:
            raise ClientException(f"ServiceEnvironment {reference} not found.")
        return environment

    def get_policy(self, arn: str) -> PolicyRecord:
        """Return a scheduling policy, which AWS takes by ARN only. Raises ClientException when there is none."""
        if ":scheduling-policy/" not in arn:
            raise ClientException("Only scheduling policy Arn can be allowed.")
        policy = self.policies.get(arn.rsplit("/", 1)[-1])
        if policy is None or policy.arn != arn:
            raise ClientException(f"SchedulingPolicy {arn} not found.")
        return policy

    def get_queue(self, reference: str) -> QueueRecord:
        """Return a queue. Raises ClientException when there is none."""
        if (queue := self.find_queue(reference)) is None:
            raise ClientException(f"JobQueue {reference} not found.")
        return queue

    def get_job(self, reference: str) -> JobRecord:
        """Return a job; AWS's model says id, its SDK sends the ARN. Raises ClientException when there is none."""
        if (job := self.jobs.get(self._name(reference, "service-job"))) is None:
            raise ClientException(f"Service job {reference} not found.")
        return job

    def _name(self, reference: str, kind: str) -> str:
        """Return the name in a reference; the ARN of another account, region or kind names nothing here."""
        return reference.removeprefix(self.arn(f"{kind}/"))

    # -- the engine ------------------------------------------------------------------------------------------------

    def state_of(self, job: JobRecord) -> EngineJob:
        """Return status and times of a job; for reading only."""
        return self.engine.job(job.id)

    def configure_environment(self, environment: EnvironmentRecord) -> None:
        """Tell the engine what an environment is now. Only capacity in instances can serve a queue."""
        limit = environment.capacity_limits[0]
        change = PutEnvironment(environment.name, limit["maxCapacity"], environment.state == "ENABLED")
        self.engine.reconfigure(change, self.now)

    def configure_queue(self, queue: QueueRecord) -> None:
        """Tell the engine what a queue is now."""
        policy = None if queue.policy is None else queue.policy.as_model()
        self.engine.reconfigure(PutQueue(queue.name, queue.environment.name, queue.priority, policy), self.now)

    def is_empty(self, queue: QueueRecord) -> bool:
        """Whether every job of a queue has ended."""
        return all(self.state_of(job).status in (JobStatus.SUCCEEDED, JobStatus.FAILED) for job in reversed(queue.jobs))

    def forget_deleted_queues(self) -> None:
        """Drop queues whose deletion was waiting for their jobs to end."""
        for queue in [queue for queue in self.queues.values() if queue.is_being_deleted and self.is_empty(queue)]:
            del self.queues[queue.name]
