"""Carry a plan out, and print it as JSON."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from fairshare.model import API_VERSION, FairshareError
from fairshare.provision.plan import Change, Plan, ShareEffect
from fairshare.provision.ports import Provisioner

RESUME_HINT: Final = "What was done stays as it is. Run the same command again to go on from here."


def apply(plan: Plan, provisioner: Provisioner, on_change: Callable[[Change], None]) -> None:
    """Make the changes of a plan, one after the other, in its order.

    Args:
        plan: what to do; NOOP changes are skipped.
        provisioner: makes one change and waits for it.
        on_change: called after each change that was made.

    Raises:
        FairshareError: from the provisioner, at the first change that fails. Nothing is undone: planning again shows
            what is left to do.
    """
    for change in plan.pending:
        try:
            provisioner.execute(change)
        except FairshareError as error:
            error.hint = f"{error.hint or ''} {RESUME_HINT}".strip()
            raise
        on_change(change)


def to_json(plan: Plan, applied: bool) -> dict[str, Any]:
    """Return the ``Plan`` document of the command line. Shares are in per cent of a queue whose shares are all busy."""
    return {
        "api_version": API_VERSION,
        "kind": "Plan",
        "stack": plan.stack,
        "region": plan.region,
        "account": plan.account_id,
        "changes": [_change_json(change) for change in plan.changes],
        "shares": [_share_json(share) for share in plan.shares],
        "warnings": list(plan.warnings),
        "applied": applied,
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "action": change.action.value,
        "resource_type": change.resource_type.value,
        "name": change.name,
        "key": change.key,
        "arn": change.arn,
        "fields": [
            {"field": field.field, "observed": field.observed, "wanted": field.wanted} for field in change.fields
        ],
    }


def _share_json(share: ShareEffect) -> dict[str, Any]:
    return {
        "queue": share.queue,
        "share_identifier": share.share_identifier,
        "weight_factor": float(share.weight_factor),
        "percent": _percent(share.fraction),
        "percent_before": None if share.fraction_before is None else _percent(share.fraction_before),
    }


def _percent(fraction: Fraction) -> float:
    return round(float(fraction * 100), 2)
