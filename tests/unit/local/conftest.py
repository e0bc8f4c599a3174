"""A local AWS without moto: one region, the simulated launcher, and a clock that stands still."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from fairshare.local import environments, job_queues, policies, quota_shares, service_jobs
from fairshare.local.faults import Faults
from fairshare.local.launcher import Launcher
from fairshare.local.region import Region
from fairshare.local.runtime import Runtime
from fairshare.local.simulated import SimulatedLauncher
from fairshare.local.training_jobs import TrainingJob
from fairshare.scheduler.clock import VirtualClock

ACCOUNT, REGION = "123456789012", "us-west-2"
START = 1_790_000_000_000


class Cloud:
    """Calls operations as moto does, and makes what most tests need."""

    def __init__(self, launcher: Launcher, faults: Faults | None = None) -> None:
        self.clock = VirtualClock(START)
        self.training_jobs: dict[str, TrainingJob] = {}
        numbers = count(1)
        self.runtime = Runtime(
            launcher,
            self.clock,
            self._publish,
            lock=threading.RLock(),
            new_id=lambda: UUID(int=next(numbers)),
            faults=faults,
        )
        self.runtime.open_region(ACCOUNT, REGION)

    def _publish(self, region: Region, job: TrainingJob) -> None:
        if job.is_deleted:
            del self.training_jobs[job.name]
        else:
            self.training_jobs[job.name] = job

    def call(self, operation: Callable[[Region, Mapping[str, Any]], Any], **request: Any) -> Any:
        with self.runtime.operation(ACCOUNT, REGION) as region:
            return operation(region, request)

    def environment(self, name: str = "gpu", capacity: int = 1) -> str:
        limits = [{"maxCapacity": capacity, "capacityUnit": "NUM_INSTANCES"}]
        return str(
            self.call(
                environments.create_service_environment,
                serviceEnvironmentName=name,
                serviceEnvironmentType="SAGEMAKER_TRAINING",
                capacityLimits=limits,
            )["serviceEnvironmentArn"]
        )

    def policy(self, name: str = "shares", **weights: float) -> str:
        weights = weights or {"HIGHPRI": 1, "MIDPRI": 3, "LOWPRI": 5}
        entries = [{"shareIdentifier": share, "weightFactor": weight} for share, weight in weights.items()]
        fairshare = {"shareDecaySeconds": 3600, "shareDistribution": entries}
        return str(self.call(policies.create_scheduling_policy, name=name, fairsharePolicy=fairshare)["arn"])

    def queue(self, name: str = "gpu", policy: str | None = None, environment: str = "gpu", priority: int = 1) -> str:
        request: dict[str, Any] = {
            "jobQueueName": name,
            "jobQueueType": "SAGEMAKER_TRAINING",
            "priority": priority,
            "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": environment}],
        }
        if policy is not None:
            request["schedulingPolicyArn"] = policy
        return str(self.call(job_queues.create_job_queue, **request)["jobQueueArn"])

    def fair_queue(self, capacity: int = 1) -> None:
        """A queue ``gpu`` with HIGHPRI 1, MIDPRI 3 and LOWPRI 5."""
        self.environment(capacity=capacity)
        self.queue(policy=self.policy())

    def fifo_queue(self, capacity: int = 1) -> None:
        """A queue ``gpu`` without shares."""
        self.environment(capacity=capacity)
        self.queue()

    def quota_queue(self, capacity: int = 3, **shares: tuple[int, str] | tuple[int, str, bool]) -> None:
        """A queue ``gpu`` of ml.g5.xlarge; each quota share is its limit, its strategy and whether it preempts."""
        limits = [{"maxCapacity": capacity, "capacityUnit": "ml.g5.xlarge"}]
        self.call(
            environments.create_service_environment,
            serviceEnvironmentName="gpu",
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=limits,
        )
        quota = {"idleResourceAssignmentStrategy": "FIFO"}
        arn = self.call(policies.create_scheduling_policy, name="quotas", quotaSharePolicy=quota)["arn"]
        self.queue(policy=arn)
        for name, terms in shares.items():
            self.quota_share(name, *terms)

    def quota_share(
        self, name: str, limit: int, strategy: str = "LEND", preempts: bool = False, **more: Any
    ) -> dict[str, Any]:
        request = {
            "quotaShareName": name,
            "jobQueue": "gpu",
            "capacityLimits": [{"maxCapacity": limit, "capacityUnit": "ml.g5.xlarge"}],
            "resourceSharingConfiguration": {"strategy": strategy},
            "preemptionConfiguration": {"inSharePreemption": "ENABLED" if preempts else "DISABLED"},
        } | more
        return dict(self.call(quota_shares.create_quota_share, **request))

    def submit(self, name: str, share: str | None = None, seconds: float = 60, instances: int = 1, **more: Any) -> str:
        """Submit a job that runs so many seconds; return its id."""
        payload = {
            "TrainingJobName": name,
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": instances},
            "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)} | more.pop("environment", {}),
        }
        request = {
            "jobName": name,
            "jobQueue": "gpu",
            "serviceJobType": "SAGEMAKER_TRAINING",
            "serviceRequestPayload": json.dumps(payload),
        } | more
        if share is not None:
            request["shareIdentifier"] = share
        return str(self.call(service_jobs.submit_service_job, **request)["jobId"])

    def describe(self, job_id: str) -> dict[str, Any]:
        answer = self.call(service_jobs.describe_service_job, jobId=job_id)
        return {name: value for name, value in answer.items() if value is not None}

    def status(self, job_id: str) -> str:
        return str(self.describe(job_id)["status"])


@pytest.fixture
def faults() -> Faults:
    """What goes wrong in the cloud of the test."""
    return Faults()


@pytest.fixture
def cloud(faults: Faults) -> Cloud:
    return Cloud(SimulatedLauncher(), faults)


@pytest.fixture
def make_cloud() -> type[Cloud]:
    """For a launcher of the test's own."""
    return Cloud
