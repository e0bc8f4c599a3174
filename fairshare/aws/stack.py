"""Provisioning a whole stack: each kind of resource over the service that has it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fairshare.aws.alarm_provisioner import AlarmProvisioner
from fairshare.aws.dashboards import DashboardProvisioner
from fairshare.aws.provisioner import BatchProvisioner
from fairshare.aws.session import AwsSession
from fairshare.model import ResourceType
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Change
from fairshare.provision.ports import Provisioner
from fairshare.scheduler.clock import Clock


class StackProvisioner(Provisioner):
    """Provisions everything that a stack consists of.

    Args:
        session: account and region.
        clock: for polling.
    """

    def __init__(self, session: AwsSession, clock: Clock) -> None:
        self._batch = BatchProvisioner(session, clock)
        self._alarms = AlarmProvisioner(session, clock)
        self._dashboards = DashboardProvisioner(session, clock)

    def observe(self, names: Collection[str], stack: str) -> Observed:
        """Read all resources of these names, and all that carry the stack's tag."""
        batch, alarms = self._batch.observe(names, stack), self._alarms.observe(names, stack)
        dashboards = self._dashboards.observe(names, stack)
        return replace(batch, alarms=alarms.alarms, dashboards=dashboards.dashboards)

    def execute(self, change: Change) -> None:
        """Make one change and wait until it has settled."""
        match change.resource_type:
            case ResourceType.ALARM:
                self._alarms.execute(change)
            case ResourceType.DASHBOARD:
                self._dashboards.execute(change)
            case _:
                self._batch.execute(change)
