"""What ``fairshare.yaml`` asks for, as AWS resources with their names and tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from fairshare.config.project_file import type_limits
from fairshare.model import CapacityLimit, FairsharePolicy, ResourceType, ShareAttributes, SharingStrategy
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
    """A scheduling policy that should exist. It belongs to the queue of the same name.

    ``fairshare_policy`` None = a policy for quota shares.
    """

    resource_type: ClassVar = ResourceType.SCHEDULING_POLICY
    name: str
    key: str
    fairshare_policy: FairsharePolicy | None
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
    has_quota_shares: bool = False
    time_limits: tuple[tuple[str, int], ...] = ()
    """Reason and seconds of each, by reason."""
    state: str = "ENABLED"
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DesiredQuotaShare:
    """A quota share that should exist. ``name`` is ``QUEUE/SHARE`` with the queue's name, ``key`` with its key."""

    resource_type: ClassVar = ResourceType.QUOTA_SHARE
    name: str
    key: str
    capacity_limits: tuple[CapacityLimit, ...]
    sharing: SharingStrategy
    borrow_limit: int = -1
    in_share_preemption: bool = False
    state: str = "ENABLED"
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        """Name of its queue."""
        return self.name.partition("/")[0]

    @property
    def share(self) -> str:
        """Its own name."""
        return self.name.partition("/")[2]


DesiredBatchResource = DesiredEnvironment | DesiredPolicy | DesiredQueue | DesiredQuotaShare
DesiredResource = DesiredBatchResource | DesiredAlarm | DesiredDashboard


@dataclass(frozen=True)
class Desired:
    """Everything a stack should consist of, in the order of the file."""

    stack: str
    service_environments: tuple[DesiredEnvironment, ...] = ()
    scheduling_policies: tuple[DesiredPolicy, ...] = ()
    job_queues: tuple[DesiredQueue, ...] = ()
    quota_shares: tuple[DesiredQuotaShare, ...] = ()
    alarms: tuple[DesiredAlarm, ...] = ()
    dashboards: tuple[DesiredDashboard, ...] = ()

    @property
    def resources(self) -> tuple[DesiredResource, ...]:
        """All resources in the order in which they have to be made: a queue names environments and policies, a quota
        share its queue."""
        return (
            *self.service_environments,
            *self.scheduling_policies,
            *self.job_queues,
            *self.quota_shares,
            *self.alarms,
            *self.dashboards,
        )

    @property
    def names(self) -> frozenset[str]:
        """Names of all resources, for `fairshare.provision.ports.Provisioner.observe`."""
        return frozenset(resource.name for resource in self.resources)


def desired_state(project: Project, place: Place | None = None) -> Desired:
    """Return the resources of a project.

    A resource is named ``<stack>-<key>``; a policy has the name of its queue, a quota share its own. Every resource
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
            DesiredPolicy(name(key), key, None if config.fairshare is None else _policy(config.fairshare), tags)
            for key, config in project.queues.items()
            if not config.is_fifo
        ),
        job_queues=tuple(
            DesiredQueue(
                name=name(key),
                key=key,
                priority=config.priority,
                service_environment=name(config.service_environment),
                scheduling_policy=None if config.is_fifo else name(key),
                has_quota_shares=config.has_quota_shares,
                time_limits=tuple(sorted(config.time_limits.items())),
                tags=tags,
            )
            for key, config in project.queues.items()
        ),
        quota_shares=tuple(_quota_shares(project, tags)),
        alarms=alarms,
        dashboards=() if place is None else desired_dashboard(project, [alarm.name for alarm in alarms], place),
    )


def _quota_shares(project: Project, tags: Mapping[str, str]) -> Iterator[DesiredQuotaShare]:
    for key, queue in project.queues.items():
        for share, config in (queue.quota_shares or {}).items():
            yield DesiredQuotaShare(
                name=f"{project.resource_name(key)}/{share}",
                key=f"{key}/{share}",
                capacity_limits=type_limits(config.capacity_limits),
                sharing=config.sharing,
                borrow_limit=config.borrow_limit,
                in_share_preemption=config.in_share_preemption,
                tags=tags,
            )


def _policy(config: FairshareConfig) -> FairsharePolicy:
    return FairsharePolicy(
        share_distribution=tuple(ShareAttributes(share, weight) for share, weight in config.shares.items()),
        share_decay_seconds=config.share_decay_seconds,
        compute_reservation=config.compute_reservation,
    )
