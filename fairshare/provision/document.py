"""Plans as JSON: what ``-o json`` prints, and the file that ``setup --plan-out`` writes and ``setup PLAN_FILE`` reads.

A saved plan holds all that the printed one does and, for each resource, what it should be and what it was. So the plan
that is applied later is the plan that was looked at, whatever ``fairshare.yaml`` says by then.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.model import API_VERSION, FairshareError, InvalidFileError, NotFoundError, Problem
from fairshare.provision.plan import Change, Plan, ShareEffect

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SAVED_KIND: Final = "SavedPlan"
_MAKE_AGAIN: Final = "Make it again with `fairshare setup --plan-out`."


@dataclass(frozen=True)
class SavedPlan:
    """A plan from a file, and when it was made (RFC 3339)."""

    plan: Plan
    created_at: str


def to_json(plan: Plan, applied: bool) -> dict[str, Any]:
    """Return the ``Plan`` document of the command line. Shares are in per cent of a queue whose shares are all busy."""
    return {
        "api_version": API_VERSION,
        "kind": "Plan",
        "stack": plan.stack,
        "region": plan.region,
        "account": plan.account_id,
        "fingerprint": fingerprint(plan),
        "changes": [_change_json(change) for change in plan.changes],
        "shares": [_share_json(share) for share in plan.shares],
        "warnings": list(plan.warnings),
        "applied": applied,
    }


def fingerprint(plan: Plan) -> str:
    """Return a name for exactly this plan: where it acts, what was observed, what is wanted. ``sha256:`` and 64 digits.

    The same file and the same state of AWS give the same fingerprint at any time.
    """
    content = [plan.stack, plan.region, plan.account_id, _whole_changes(plan), plan.warnings, plan.is_teardown]
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"sha256:{sha256(canonical.encode()).hexdigest()}"


def save_plan(plan: Plan, path: Path, created_at: str) -> None:
    """Write a plan to a file: whole or not at all, and for its owner's eyes only.

    Raises:
        FairshareError: the file cannot be written.
    """
    document = to_json(plan, applied=False) | {"kind": SAVED_KIND, "created_at": created_at}
    document["is_teardown"] = plan.is_teardown
    for entry, whole in zip(document["changes"], _whole_changes(plan), strict=True):
        entry |= whole
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=2) + "\n")
        Path(temporary).replace(path)
    except OSError as error:
        raise FairshareError(
            f"cannot write the plan to {path}: {error.strerror}", hint="choose another place with --plan-out"
        ) from error


def load_plan(path: Path) -> SavedPlan:
    """Read a plan that `save_plan` wrote.

    Raises:
        NotFoundError: there is no such file.
        InvalidFileError: it is no saved plan, or no longer the one that was saved.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"there is no plan file {path}", hint=_MAKE_AGAIN) from None
    except (OSError, ValueError) as error:
        raise _invalid(path, f"this is not a saved plan: {error}") from None
    kind, version = (document.get(name) if isinstance(document, dict) else None for name in ("kind", "api_version"))
    if kind != SAVED_KIND:
        raise _invalid(path, f"this is not a saved plan (kind {kind or 'missing'}, not {SAVED_KIND})")
    if version != API_VERSION:
        raise _invalid(path, f"this plan is of version {version}; this fairshare reads {API_VERSION}")
    try:
        plan = _plan_from(document)
        is_whole = document["fingerprint"] == fingerprint(plan)
        created_at = str(document["created_at"])
    except (KeyError, TypeError, ValueError):
        raise _invalid(path, "this saved plan is incomplete, or was made by another version of fairshare") from None
    if not is_whole:
        raise _invalid(path, "this saved plan was changed after it was made: its fingerprint is another one")
    return SavedPlan(plan, created_at)


def _plan_from(document: Mapping[str, Any]) -> Plan:
    return Plan(
        stack=document["stack"],
        region=document["region"],
        account_id=document["account"],
        changes=_changes_adapter().validate_python(document["changes"]),
        warnings=tuple(document["warnings"]),
        is_teardown=document["is_teardown"],
    )


def _whole_changes(plan: Plan) -> list[dict[str, Any]]:
    """Return every field of the changes as JSON types."""
    changes: list[dict[str, Any]] = _changes_adapter().dump_python(plan.changes, mode="json")
    return changes


@cache
def _changes_adapter() -> TypeAdapter[tuple[Change, ...]]:
    from pydantic import TypeAdapter

    return TypeAdapter(tuple[Change, ...])


def _invalid(path: Path, message: str) -> InvalidFileError:
    return InvalidFileError([Problem(str(path), 0, 0, message, hint=_MAKE_AGAIN)])


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
