"""What provisioning needs from the outside."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from fairshare.model import JobQueue, SchedulingPolicy, ServiceEnvironment
from fairshare.provision.plan import Change


@dataclass(frozen=True)
class Observed:
    """What exists, by resource name. Only the names asked for, plus everything that carries our stack's tag."""

    service_environments: dict[str, ServiceEnvironment]
    scheduling_policies: dict[str, SchedulingPolicy]
    job_queues: dict[str, JobQueue]


class Provisioner(Protocol):
    """Adapter: `fairshare.aws.provisioner.BatchProvisioner`. Raises `fairshare.model.FairshareError` only."""

    def observe(self, names: Collection[str], stack: str) -> Observed:
        """Read resources with these names and those tagged with the stack. Describe and list calls only."""

    def execute(self, change: Change) -> None:
        """Make one change and wait until the resource is VALID, or gone."""
