"""Resources as canonical text, so that comparing two of them is comparing two dictionaries.

AWS answers with lists in any order (case C01), with 32-bit floats (case C02) and without the fields that hold their
default. Here every resource becomes ``{field: text}`` in which those differences are gone.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from fairshare.model import CapacityLimit, FairsharePolicy, JobQueue, SchedulingPolicy, ServiceEnvironment
from fairshare.provision.desired import DesiredEnvironment, DesiredPolicy, DesiredQueue, DesiredResource

ObservedResource = ServiceEnvironment | SchedulingPolicy | JobQueue

WEIGHT_FIELD: Final = "weight_factor."
TAG_FIELD: Final = "tags."


@dataclass(frozen=True)
class FieldChange:
    """One field of a resource: what it is and what it should be. None = not there."""

    field: str
    observed: str | None
    wanted: str | None


def weight_text(weight: str | float) -> str:
    """Return the shortest decimal that is the same 32-bit float: ``0.10000000149`` and ``"0.10"`` give ``0.1``.

    Two weights are equal to AWS exactly when their texts are equal (case C02).
    """
    packed = struct.pack("f", float(weight))
    (single,) = struct.unpack("f", packed)
    shortest = next(
        text for digits in range(1, 10) if struct.pack("f", float(text := f"{single:.{digits}g}")) == packed
    )
    return f"{Decimal(shortest).normalize():f}"


def name_of(arn_or_name: str) -> str:
    """Return the resource name at the end of an ARN, or the name itself."""
    return arn_or_name.rsplit("/", 1)[-1]


def changed_fields(wanted: DesiredResource, found: ObservedResource | None) -> tuple[FieldChange, ...]:
    """Return the fields of a resource that have to change; all of them when it does not exist.

    A tag that only AWS has is somebody else's and is left alone.
    """
    target = _wanted_text(wanted)
    if found is None:
        return tuple(FieldChange(field, None, text) for field, text in target.items())
    actual = _found_text(found)
    names = [*target, *(field for field in actual if field not in target and not field.startswith(TAG_FIELD))]
    return tuple(
        FieldChange(field, actual.get(field), target.get(field))
        for field in names
        if actual.get(field, _default(field)) != target.get(field, _default(field))
    )


def _default(field: str) -> str | None:
    """A share that a policy does not list weighs 1; a prefix entry that is not listed is no entry at all."""
    return "1" if field.startswith(WEIGHT_FIELD) and not field.endswith("*") else None


def _wanted_text(wanted: DesiredResource) -> dict[str, str]:
    match wanted:
        case DesiredEnvironment():
            fields = _environment_text(wanted.capacity_limits, wanted.state)
        case DesiredPolicy():
            fields = _policy_text(wanted.fairshare_policy)
        case DesiredQueue():
            fields = _queue_text(wanted.priority, wanted.state, wanted.service_environment, wanted.scheduling_policy)
    return fields | _tag_text(wanted.tags)


def _found_text(found: ObservedResource) -> dict[str, str]:
    match found:
        case ServiceEnvironment():
            fields = _environment_text(found.capacity_limits, found.state)
        case SchedulingPolicy():
            fields = _policy_text(found.fairshare_policy or FairsharePolicy())
        case JobQueue():
            environments = ", ".join(name_of(arn) for arn in found.service_environments)
            policy = None if found.scheduling_policy_arn is None else name_of(found.scheduling_policy_arn)
            fields = _queue_text(found.priority, found.state, environments, policy)
    return fields | _tag_text(found.tags)


def _environment_text(limits: tuple[CapacityLimit, ...], state: str) -> dict[str, str]:
    return {f"capacity_limits.{limit.capacity_unit}": str(limit.max_capacity) for limit in limits} | {"state": state}


def _policy_text(policy: FairsharePolicy) -> dict[str, str]:
    weights = {
        f"{WEIGHT_FIELD}{share.share_identifier}": weight_text(share.weight_factor)
        for share in policy.share_distribution
    }
    return weights | {
        "share_decay_seconds": str(policy.share_decay_seconds),
        "compute_reservation": str(policy.compute_reservation),
    }


def _queue_text(priority: int, state: str, environment: str, policy: str | None) -> dict[str, str]:
    fields = {"priority": str(priority), "state": state, "service_environment": environment}
    return fields if policy is None else fields | {"scheduling_policy": policy}


def _tag_text(tags: Mapping[str, str]) -> dict[str, str]:
    return {f"{TAG_FIELD}{key}": value for key, value in tags.items()}
