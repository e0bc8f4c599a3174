"""What provisioning needs from the outside."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from fairshare.provision.observed import Observed
from fairshare.provision.plan import Change


class Provisioner(Protocol):
    """Adapter: `fairshare.aws.provisioner.BatchProvisioner`. Raises `fairshare.model.FairshareError` only."""

    def observe(self, names: Collection[str], stack: str) -> Observed:
        """Read what `Observed` holds. Describe and list calls only."""

    def execute(self, change: Change) -> None:
        """Make one change and wait until the resource is VALID, or gone.

        Raises:
            fairshare.provision.stale.StalePlanError: the resource is no longer as it was when the change was planned.
        """
