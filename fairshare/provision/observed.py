"""What exists in AWS, as far as a stack is concerned: one reading of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairshare.model import Alarm, Dashboard, JobQueue, QuotaShare, ResourceType, SchedulingPolicy, ServiceEnvironment
from fairshare.provision.compare import ObservedResource


@dataclass(frozen=True)
class Observed:
    """What exists, by resource name: the names asked for, and everything that carries our stack's tag.

    Also the job queues of others that use one of our environments or policies, which therefore cannot be deleted, and
    all quota shares of the queues.
    """

    service_environments: dict[str, ServiceEnvironment]
    scheduling_policies: dict[str, SchedulingPolicy]
    job_queues: dict[str, JobQueue]
    quota_shares: dict[str, QuotaShare] = field(default_factory=dict)
    """By ``QUEUE/SHARE``."""
    alarms: dict[str, Alarm] = field(default_factory=dict)
    dashboards: dict[str, Dashboard] = field(default_factory=dict)

    def of_type(self, resource_type: ResourceType) -> Mapping[str, ObservedResource]:
        """Return the resources of one type."""
        match resource_type:
            case ResourceType.SERVICE_ENVIRONMENT:
                return self.service_environments
            case ResourceType.SCHEDULING_POLICY:
                return self.scheduling_policies
            case ResourceType.JOB_QUEUE:
                return self.job_queues
            case ResourceType.QUOTA_SHARE:
                return self.quota_shares
            case ResourceType.ALARM:
                return self.alarms
            case ResourceType.DASHBOARD:
                return self.dashboards

    def find(self, resource_type: ResourceType, name: str) -> ObservedResource | None:
        """Return one resource, or None when it does not exist."""
        return self.of_type(resource_type).get(name)
