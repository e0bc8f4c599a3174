"""What ``fairshare.yaml`` asks for, as AWS resources with their names and tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from fairshare.model import CapacityLimit, FairsharePolicy, ResourceType, ShareAttributes
from fairshare.provision.alarms import DesiredAlarm, desired_alarms
from fairshare.provision.dashboard import DesiredDashboard, desired_dashboard
from fairshare.provision.place import Place
from fairshare.provision.tags import own_tags

if TYPE_CHECKING:
    from fairshare.config.project import FairshareConfig, Project


@dataclass(frozen=True)
class DesiredEnvironment:
    """A service environment that should exist. ``instance_types`` is for people: AWS counts instances of any type."""

    resource_type: ClassVar = ResourceType.SERVICE_ENVIRONMENT
    name: str
    key: str
    capacity_limits: tuple[CapacityLimit, ...]
    instance_types: tuple[str, ...] = ()
    state: str = "ENABLED"
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DesiredPolicy:
    """A fair-share scheduling policy that should exist. It belongs to the queue of the same name."""

    resource_type: ClassVar = ResourceType.SCHEDULING_POLICY
    name: str
    key: str
    fairshare_policy: FairsharePolicy
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DesiredQueue:
    """A job queue of type SAGEMAKER_TRAINING that should exist."""

    resource_type: ClassVar = ResourceType.JOB_QUEUE
    name: str
    key: str
    priority: int
    service_environment: str
    """Name of the environment, not its ARN."""
    scheduling_policy: str | None = None
    """Name of the policy; None for a FIFO queue."""
    state: str = "ENABLED"
    tags: Mapping[str, str] = field(default_factory=dict)


DesiredBatchResource = DesiredEnvironment | DesiredPolicy | DesiredQueue
DesiredResource = DesiredBatchResource | DesiredAlarm | DesiredDashboard


@dataclass(frozen=True)
class Desired:
    """Everything a stack should consist of, in the order of the file."""

    stack: str
    service_environments: tuple[DesiredEnvironment, ...] = ()
    scheduling_policies: tuple[DesiredPolicy, ...] = ()
    job_queues: tuple[DesiredQueue, ...] = ()
    alarms: tuple[DesiredAlarm, ...] = ()
    dashboards: tuple[DesiredDashboard, ...] = ()

    @property
    def resources(self) -> tuple[DesiredResource, ...]:
        """All resources in the order in which they have to be made: a queue names environments and policies."""
        return (
            *self.service_environments,
            *self.scheduling_policies,
            *self.job_queues,
            *self.alarms,
            *self.dashboards,
        )

    @property
    def names(self) -> frozenset[str]:
        """Names of all resources, for `fairshare.provision.ports.Provisioner.observe`."""
        return frozenset(resource.name for resource in self.resources)


def desired_state(project: Project, place: Place | None = None) -> Desired:
    """Return the resources of a project.

    A resource is named ``<stack>-<key>``; the policy of a fair-share queue has the name of its queue. Every resource
    carries the tags of the project and those of `fairshare.provision.tags`, which win over a user's of that name.

    Args:
        project: what the file says.
        place: where it will be; None leaves out the dashboard, whose text says where everything is.
    """
    tags = own_tags(project.tags, project.stack)
    name = project.resource_name
    alarms = desired_alarms(project, tags)
    return Desired(
        stack=project.stack,
        service_environments=tuple(
            DesiredEnvironment(
                name=name(key),
                key=key,
                capacity_limits=config.limits,
                instance_types=tuple(config.instance_types),
                tags=tags,
            )
            for key, config in project.service_environments.items()
        ),
        scheduling_policies=tuple(
            DesiredPolicy(name(key), key, _policy(config.fairshare), tags)
            for key, config in project.queues.items()
            if config.fairshare is not None
        ),
        job_queues=tuple(
            DesiredQueue(
                name=name(key),
                key=key,
                priority=config.priority,
                service_environment=name(config.service_environment),
                scheduling_policy=None if config.fairshare is None else name(key),
                tags=tags,
            )
            for key, config in project.queues.items()
        ),
        alarms=alarms,
        dashboards=() if place is None else desired_dashboard(project, [alarm.name for alarm in alarms], place),
    )


def _policy(config: FairshareConfig) -> FairsharePolicy:
    return FairsharePolicy(
        share_distribution=tuple(ShareAttributes(share, weight) for share, weight in config.shares.items()),
        share_decay_seconds=config.share_decay_seconds,
        compute_reservation=config.compute_reservation,
    )
