"""Carry a plan out: look again, make its changes one by one, look at the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairshare.model import FairshareError
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Change, Plan
from fairshare.provision.ports import Provisioner
from fairshare.provision.stale import refuse_stale, refuse_unfinished

RESUME_HINT: Final = (
    "What was done stays as it is. Run the same command again to go on from here; a saved plan has to be made anew."
)


def apply(plan: Plan, provisioner: Provisioner, on_change: Callable[[Change], None]) -> None:
    """Make the changes of a plan, one after the other, in its order. Without changes nothing is called.

    Args:
        plan: what to do; NOOP changes are skipped.
        provisioner: makes one change and waits for it.
        on_change: called after each change that was made.

    Raises:
        fairshare.provision.stale.StalePlanError: somebody else changes the same resources. Before the first change:
            nothing was done.
        FairshareError: from the provisioner, at the first change that fails. Nothing is undone: planning again shows
            what is left to do.
    """
    if not plan.has_changes:
        return
    refuse_stale(plan, observe_again(plan, provisioner))
    try:
        for change in plan.pending:
            provisioner.execute(change)
            on_change(change)
        if not plan.is_teardown:
            refuse_unfinished(plan, observe_again(plan, provisioner))
    except FairshareError as error:
        error.hint = f"{error.hint or ''} {RESUME_HINT}".strip()
        raise


def observe_again(plan: Plan, provisioner: Provisioner) -> Observed:
    """Observe what a plan is about."""
    return provisioner.observe({change.name for change in plan.changes}, plan.stack)
