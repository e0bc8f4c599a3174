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
from fairshare.local.faults import Faults
from fairshare.local.settling import AT_ONCE, LifeCycle, Settling
from fairshare.local.training_jobs import TrainingJob
from fairshare.local.validation import counts_instances
from fairshare.model import (
    CapacityLimit,
    FairsharePolicy,
    JobStatus,
    QuotaSharePolicy,
    ShareAttributes,
    SharingStrategy,
    partition_of,
)
from fairshare.scheduler.commands import PutEnvironment, PutQueue, PutQuotaShare, TimeLimit
from fairshare.scheduler.engine import Engine
from fairshare.scheduler.jobs import EngineJob

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
    life: LifeCycle = field(default_factory=LifeCycle)
    refusals_left: int = 0
    """Deletions that are still refused because of a queue that has just gone."""


@dataclass
class PolicyRecord:
    """A scheduling policy: ``fairshare`` or ``quota`` is the ``fairsharePolicy`` or ``quotaSharePolicy`` as given."""

    name: str
    arn: str
    fairshare: Mapping[str, Any] | None
    quota: Mapping[str, Any] | None = None
    tags: dict[str, str] = field(default_factory=dict)

    def as_model(self) -> FairsharePolicy | QuotaSharePolicy:
        """Return the policy for the engine, weights as the decimals that were written."""
        if self.fairshare is None:
            return QuotaSharePolicy()
        return FairsharePolicy(
            share_distribution=tuple(
                ShareAttributes(entry["shareIdentifier"], str(entry.get("weightFactor", 1)))
                for entry in self.fairshare.get("shareDistribution") or []
            ),
            share_decay_seconds=self.fairshare.get("shareDecaySeconds", 0),
            compute_reservation=self.fairshare.get("computeReservation", 0),
        )


@dataclass
class QuotaShareRecord:
    """A quota share of a queue. ``capacity_limits`` and ``sharing`` (``resourceSharingConfiguration``) as given."""

    name: str
    arn: str
    queue: QueueRecord
    capacity_limits: list[Mapping[str, Any]]
    sharing: Mapping[str, Any]
    in_share_preemption: str
    """ENABLED or DISABLED."""
    state: str
    tags: dict[str, str] = field(default_factory=dict)
    life: LifeCycle = field(default_factory=LifeCycle)


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
    life: LifeCycle = field(default_factory=LifeCycle)
    jobs: list[JobRecord] = field(default_factory=list)
    share_identifiers: set[str] = field(default_factory=set)
    """Every one that a job was submitted with."""
    quota_shares: dict[str, QuotaShareRecord] = field(default_factory=dict)

    @property
    def has_quota_shares(self) -> bool:
        """Whether each of its jobs belongs to a quota share."""
        return self.policy is not None and self.policy.quota is not None

    @property
    def is_being_deleted(self) -> bool:
        """Whether DeleteJobQueue was called; the queue stays until its jobs have ended."""
        return self.life.is_deleting


@dataclass
class AttemptRecord:
    """One dispatch of a service job, as AWS Batch tells it, and the training job behind it; ``number`` from 1."""

    job_id: str
    number: int
    training_job: TrainingJob
    started_at: int | None = None
    stopped_at: int | None = None
    status_reason: str | None = None
    was_refused: bool = False
    """SageMaker refused to create the training job, so there is none."""
    lacked_capacity: bool = False
    """It ended for want of capacity, which uses up no attempt of the retry strategy (case C34)."""
    was_preempted: bool = False
    """It was stopped for another job, which uses up no attempt either."""


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
    attempts: dict[int, AttemptRecord] = field(default_factory=dict)
    """By number. Of those that ended for want of capacity only the newest is kept."""

    @property
    def name(self) -> str:
        """The name given at submission."""
        return str(self.request["jobName"])

    def attempts_up_to(self, number: int | None) -> list[AttemptRecord]:
        """Return what a describe call lists: dispatches with a training job that used up an attempt, or still may.

        Args:
            number: of the last dispatch to look at; None = all.
        """
        return [
            attempt for attempt in self._dispatches(number) if not attempt.lacked_capacity and not attempt.was_preempted
        ]

    def latest_attempt(self, number: int | None) -> AttemptRecord | None:
        """Return the newest dispatch up to ``number`` (None = all) that has a training job."""
        return max(self._dispatches(number), key=lambda attempt: attempt.number, default=None)

    def _dispatches(self, number: int | None) -> list[AttemptRecord]:
        return [
            attempt
            for attempt in self.attempts.values()
            if not attempt.was_refused and (number is None or attempt.number <= number)
        ]


class Region:
    """What exists in one account and region.

    Args:
        account_id: 12 digits.
        name: e.g. ``us-west-2``.
        new_id: for jobs and training jobs.
        settling: how long changes of its resources take.
        faults: how repeated tokens are answered.
    """

    def __init__(
        self, account_id: str, name: str, new_id: NewId, settling: Settling = AT_ONCE, faults: Faults | None = None
    ) -> None:
        self.account_id = account_id
        self.name = name
        self.new_id = new_id
        self.settling = settling
        self.faults = faults or Faults()
        self.engine = Engine()
        self.environments: dict[str, EnvironmentRecord] = {}
        self.policies: dict[str, PolicyRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.jobs_by_token: dict[str, JobRecord] = {}
        self.attempts_by_training_job: dict[str, AttemptRecord] = {}
        self._stop_requests: list[AttemptRecord] = []

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

    def find_job(self, reference: str) -> JobRecord | None:
        """Return a job, or None."""
        return self.jobs.get(self._name(reference, "service-job"))

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

    def get_quota_share(self, arn: str) -> QuotaShareRecord:
        """Return a quota share, which AWS takes by ARN only. Raises ClientException when there is none."""
        share = self.find_quota_share(arn)
        if share is None:
            raise ClientException(f"Quota share {arn} does not exist.")
        return share

    def find_quota_share(self, arn: str) -> QuotaShareRecord | None:
        """Return the quota share of an ARN, ``job-queue/QUEUE/quota-share/NAME``, or None."""
        queue, _, name = self._name(arn, "job-queue").partition("/quota-share/")
        found = self.queues.get(queue)
        return None if found is None else found.quota_shares.get(name)

    def get_job(self, reference: str) -> JobRecord:
        """Return a job; AWS's model says id, its SDK sends the ARN. Raises ClientException when there is none."""
        if (job := self.find_job(reference)) is None:
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
        """Tell the engine what an environment is now."""
        limits = environment.capacity_limits
        change = PutEnvironment(
            environment.name,
            max_capacity=sum(limit["maxCapacity"] for limit in limits),
            enabled=environment.state == "ENABLED",
            capacity_limits=() if counts_instances(limits) else _limits(limits),
        )
        self.engine.reconfigure(change, self.now)

    def configure_queue(self, queue: QueueRecord) -> None:
        """Tell the engine what a queue is now."""
        change = PutQueue(
            name=queue.name,
            environment=queue.environment.name,
            priority=queue.priority,
            policy=None if queue.policy is None else queue.policy.as_model(),
            enabled=queue.state == "ENABLED",
            time_limits=tuple(
                TimeLimit(limit["reason"], limit["maxTimeSeconds"] * 1000) for limit in queue.time_limits
            ),
        )
        self.engine.reconfigure(change, self.now)

    def configure_quota_share(self, share: QuotaShareRecord) -> None:
        """Tell the engine what a quota share is now."""
        change = PutQuotaShare(
            name=share.name,
            queue=share.queue.name,
            capacity_limits=_limits(share.capacity_limits),
            sharing=SharingStrategy(share.sharing["strategy"]),
            borrow_limit=share.sharing.get("borrowLimit", -1),
            in_share_preemption=share.in_share_preemption == "ENABLED",
            enabled=share.state == "ENABLED",
        )
        self.engine.reconfigure(change, self.now)

    def is_empty(self, queue: QueueRecord) -> bool:
        """Whether every job of a queue has ended."""
        return all(self.state_of(job).status in (JobStatus.SUCCEEDED, JobStatus.FAILED) for job in reversed(queue.jobs))

    def forget_deleted(self) -> None:
        """Drop what was deleted and has been seen often enough; queues and quota shares also wait for their jobs."""
        for queue in self.queues.values():
            for share in [share for share in queue.quota_shares.values() if share.life.is_over]:
                if not self._has_open_jobs(share):
                    del queue.quota_shares[share.name]
        for queue in [queue for queue in self.queues.values() if queue.life.is_over and self.is_empty(queue)]:
            del self.queues[queue.name]
            queue.environment.refusals_left = self.settling.detaching
        for name in [name for name, environment in self.environments.items() if environment.life.is_over]:
            del self.environments[name]

    def _has_open_jobs(self, share: QuotaShareRecord) -> bool:
        return any(
            job.request.get("quotaShareName") == share.name and not self.state_of(job).status.is_terminal
            for job in reversed(share.queue.jobs)
        )

    # -- requests to stop an attempt, which whoever runs it takes ----------------------------------------------------

    def ask_to_stop(self, attempt: AttemptRecord) -> None:
        """Ask for the end of an attempt that runs."""
        self._stop_requests.append(attempt)

    def take_stop_requests(self) -> list[AttemptRecord]:
        """Return, once, the attempts that were asked to end since the last call."""
        requests, self._stop_requests = self._stop_requests, []
        return requests


def _limits(limits: list[Mapping[str, Any]]) -> tuple[CapacityLimit, ...]:
    return tuple(CapacityLimit(limit["maxCapacity"], limit["capacityUnit"]) for limit in limits)
