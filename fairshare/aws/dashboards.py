"""Setting up the dashboard of a stack in Amazon CloudWatch.

PutDashboard creates and replaces. CloudWatch tells no tags with a dashboard, so its text says whose it is
(`fairshare.provision.dashboard`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fairshare.aws.agreement import wait_until_shown
from fairshare.aws.errors import translated
from fairshare.aws.session import AwsSession
from fairshare.model import OWNER_TAG, Dashboard, NotFoundError
from fairshare.provision.compare import changed_fields
from fairshare.provision.dashboard import DesiredDashboard, dashboard_name, owner_of
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Action, Change
from fairshare.provision.ports import Provisioner
from fairshare.provision.stale import refuse_moved
from fairshare.scheduler.clock import Clock


class DashboardProvisioner(Provisioner):
    """Provisions the one dashboard of a stack in a region.

    Args:
        session: account and region.
        clock: for polling.
    """

    def __init__(self, session: AwsSession, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def observe(self, names: Collection[str], stack: str) -> Observed:
        """Read the dashboard that has the stack's name for one."""
        found = self._find(dashboard_name(stack, self._session.region))
        return Observed({}, {}, {}, dashboards={} if found is None else {found.name: found})

    def execute(self, change: Change) -> None:
        """Make one change, and wait until CloudWatch shows it.

        Raises:
            StalePlanError: the dashboard is no longer as it was when the change was planned.
            WaitTimeoutError: CloudWatch does not show the change.
            ServiceError: AWS refused.
        """
        if change.action is Action.NOOP:
            return
        found = self._find(change.name)
        refuse_moved(change, found)
        if change.action is not Action.DELETE:
            assert isinstance(change.desired, DesiredDashboard)
            with translated(f"put {change.label}", self._session.caller):
                self._client.put_dashboard(DashboardName=change.name, DashboardBody=change.desired.body)
        elif found is not None:
            with translated(f"delete {change.label}", self._session.caller):
                self._client.delete_dashboards(DashboardNames=[change.name])
        hint = "Run the same command again; the CloudWatch console shows the dashboard."
        wait_until_shown(change, lambda: self._is_shown(change), self._clock, hint=hint)

    @property
    def _client(self) -> Any:
        return self._session.client("cloudwatch")

    def _is_shown(self, change: Change) -> bool:
        found = self._find(change.name)
        return found is None if change.desired is None else not changed_fields(change.desired, found)

    def _find(self, name: str) -> Dashboard | None:
        try:
            with translated(f"read dashboard {name}", self._session.caller):
                answer = self._client.get_dashboard(DashboardName=name)
        except NotFoundError:
            return None
        body = answer["DashboardBody"]
        owner = owner_of(body)
        return Dashboard(name, answer["DashboardArn"], body, {} if owner is None else {OWNER_TAG: owner})
