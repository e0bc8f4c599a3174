"""What provisioning needs from the outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from fairshare.model import JobQueue, ResourceType, SchedulingPolicy, ServiceEnvironment
from fairshare.provision.compare import ObservedResource
from fairshare.provision.plan import Change


@dataclass(frozen=True)
class Observed:
    """What exists, by resource name: the names asked for, and everything that carries our stack's tag.

    Also the job queues of others that use one of our environments or policies, which therefore cannot be deleted.
    """

    service_environments: dict[str, ServiceEnvironment]
    scheduling_policies: dict[str, SchedulingPolicy]
    job_queues: dict[str, JobQueue]

    def of_type(self, resource_type: ResourceType) -> Mapping[str, ObservedResource]:
        """Return the resources of one type."""
        match resource_type:
            case ResourceType.SERVICE_ENVIRONMENT:
                return self.service_environments
            case ResourceType.SCHEDULING_POLICY:
                return self.scheduling_policies
            case ResourceType.JOB_QUEUE:
                return self.job_queues

    def find(self, change: Change) -> ObservedResource | None:
        """Return the resource that a change is about."""
        return self.of_type(change.resource_type).get(change.name)


class Provisioner(Protocol):
    """Adapter: `fairshare.aws.provisioner.BatchProvisioner`. Raises `fairshare.model.FairshareError` only."""

    def observe(self, names: Collection[str], stack: str) -> Observed:
        """Read what `Observed` holds. Describe and list calls only."""

    def execute(self, change: Change) -> None:
        """Make one change and wait until the resource is VALID, or gone.

        Raises:
            fairshare.provision.stale.StalePlanError: the resource is no longer as it was when the change was planned.
        """
