"""Resources as canonical text, so that comparing two of them is comparing two dictionaries.

AWS answers with lists in any order (case C01), with 32-bit floats (case C02) and without the fields that hold their
default. Here every resource becomes ``{field: text}`` in which those differences are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from fairshare.model import (
    OWNER_TAG,
    Alarm,
    AlarmDefinition,
    AlarmMetric,
    CapacityLimit,
    Dashboard,
    FairsharePolicy,
    JobQueue,
    QuotaShare,
    ResourceType,
    SchedulingPolicy,
    ServiceEnvironment,
    SharingStrategy,
)
from fairshare.provision.alarms import DesiredAlarm
from fairshare.provision.dashboard import DesiredDashboard, body_text
from fairshare.provision.desired import (
    DesiredEnvironment,
    DesiredPolicy,
    DesiredQueue,
    DesiredQuotaShare,
    DesiredResource,
)
from fairshare.provision.tags import keys_set_by_us
from fairshare.scheduler.policy import weight_text

ObservedBatchResource = ServiceEnvironment | SchedulingPolicy | JobQueue | QuotaShare
ObservedResource = ObservedBatchResource | Alarm | Dashboard

WEIGHT_FIELD: Final = "weight_factor."
TAG_FIELD: Final = "tags."
_GOING: Final = frozenset({"DELETING", "DELETED"})


@dataclass(frozen=True)
class FieldChange:
    """One field of a resource: what it is and what it should be. None = not there."""

    field: str
    observed: str | None
    wanted: str | None


def number_text(number: float) -> str:
    """Return the shortest decimal that is the same 64-bit float, without an exponent: ``14400``, ``0.5``."""
    return f"{Decimal(repr(float(number))).normalize():f}"


def name_of(arn_or_name: str) -> str:
    """Return the resource name at the end of an ARN, or the name itself."""
    return arn_or_name.rsplit("/", 1)[-1]


def shown(value: str | None) -> str:
    """Return the value of a field for people: ``none`` when there is none, ``""`` when it is empty."""
    return "none" if value is None else value or '""'


def label_of(resource_type: ResourceType, name: str) -> str:
    """For people: ``job queue search-ml-gpu``."""
    return f"{resource_type.value.replace('_', ' ')} {name}"


def is_going(found: ObservedResource) -> bool:
    """Whether a resource is being deleted: as far as a plan is concerned it exists no longer."""
    return isinstance(found, ServiceEnvironment | JobQueue | QuotaShare) and found.status in _GOING


def changed_fields(wanted: DesiredResource, found: ObservedResource | None) -> tuple[FieldChange, ...]:
    """Return the fields of a resource that have to change; all of them when it does not exist.

    A tag that we did not set is somebody else's and is left alone (`fairshare.provision.tags`).
    """
    target = _wanted_text(wanted)
    if found is None:
        return tuple(FieldChange(field, None, text) for field, text in target.items())
    return _differences(_found_text(found, keys_set_by_us(found.tags) | set(wanted.tags)), target)


def moved_fields(
    wanted: DesiredResource | None, before: ObservedResource, now: ObservedResource
) -> tuple[FieldChange, ...]:
    """Return the fields of a resource that somebody changed between two looks: ``observed`` before, ``wanted`` now.

    Args:
        wanted: what the resource should become. Tags that are neither its nor ours do not count. None = it should go:
            then only whose it is counts.
        before: the first look.
        now: the second look.
    """
    if wanted is None:
        return _differences(_tag_text(before.tags, {OWNER_TAG}), _tag_text(now.tags, {OWNER_TAG}))
    ours = keys_set_by_us(before.tags) | keys_set_by_us(now.tags) | set(wanted.tags)
    return _differences(_found_text(before, ours), _found_text(now, ours))


def _differences(actual: Mapping[str, str], target: Mapping[str, str]) -> tuple[FieldChange, ...]:
    names = [*target, *(field for field in actual if field not in target)]
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
            fields |= _time_limits_text(wanted.time_limits)
        case DesiredQuotaShare():
            fields = _quota_share_text(wanted)
        case DesiredAlarm():
            fields = _alarm_text(wanted.definition)
        case DesiredDashboard():
            fields = body_text(wanted.body)
    return fields | _tag_text(wanted.tags, wanted.tags.keys())


def _found_text(found: ObservedResource, tag_keys: Collection[str]) -> dict[str, str]:
    match found:
        case ServiceEnvironment():
            fields = _environment_text(found.capacity_limits, found.state)
        case SchedulingPolicy():
            fields = _policy_text(found.fairshare_policy)
        case JobQueue():
            environments = ", ".join(name_of(arn) for arn in found.service_environments)
            policy = None if found.scheduling_policy_arn is None else name_of(found.scheduling_policy_arn)
            fields = _queue_text(found.priority, found.state, environments, policy)
            fields |= _time_limits_text(found.time_limits)
        case QuotaShare():
            fields = _quota_share_text(found)
        case Alarm():
            fields = _alarm_text(found.definition)
        case Dashboard():
            fields = body_text(found.body)
    return fields | _tag_text(found.tags, tag_keys)


def _environment_text(limits: tuple[CapacityLimit, ...], state: str) -> dict[str, str]:
    return {f"capacity_limits.{limit.capacity_unit}": str(limit.max_capacity) for limit in limits} | {"state": state}


def _policy_text(policy: FairsharePolicy | None) -> dict[str, str]:
    if policy is None:
        return {"idle_resource_assignment_strategy": "FIFO"}
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


def _time_limits_text(time_limits: tuple[tuple[str, int], ...]) -> dict[str, str]:
    return {f"time_limits.{reason}": str(seconds) for reason, seconds in time_limits}


def _quota_share_text(share: DesiredQuotaShare | QuotaShare) -> dict[str, str]:
    """A share that does not borrow has no borrow limit, whatever the record says."""
    borrows = share.sharing is SharingStrategy.LEND_AND_BORROW
    return {
        **_environment_text(share.capacity_limits, share.state),
        "sharing": share.sharing.value,
        **({"borrow_limit": str(share.borrow_limit)} if borrows else {}),
        "in_share_preemption": str(share.in_share_preemption).lower(),
    }


def _alarm_text(alarm: AlarmDefinition) -> dict[str, str]:
    """An alarm on one metric has that metric's fields beside its own; of several, each field begins with its id."""
    fields: dict[str, str] = {}
    for metric in alarm.metrics:
        prefix = f"{metric.id}." if len(alarm.metrics) > 1 else ""
        fields |= {f"{prefix}{name}": text for name, text in _metric_text(metric).items()}
    fields |= {
        "comparison_operator": alarm.comparison_operator,
        "threshold": "none" if alarm.threshold is None else number_text(alarm.threshold),
        "evaluation_periods": str(alarm.evaluation_periods),
        "datapoints_to_alarm": str(alarm.datapoints_to_alarm),
        "treat_missing_data": alarm.treat_missing_data,
        "description": alarm.description,
        "actions_enabled": str(alarm.actions_enabled).lower(),
    }
    for name in ("alarm_actions", "ok_actions", "insufficient_data_actions"):
        fields[name] = " ".join(sorted(getattr(alarm, name)))
    return fields if alarm.rule is None else fields | {"rule": alarm.rule}


def _metric_text(metric: AlarmMetric) -> dict[str, str]:
    fields = {"returns_data": str(metric.returns_data).lower()}
    if metric.expression is not None:
        return fields | {"expression": metric.expression}
    fields |= {
        "metric": f"{metric.namespace} {metric.name}",
        "dimensions": ", ".join(f"{name}={value}" for name, value in sorted(metric.dimensions)),
        "statistic": metric.statistic,
        "period": str(metric.period),
    }
    return fields if metric.unit is None else fields | {"unit": metric.unit}


def _tag_text(tags: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    return {f"{TAG_FIELD}{key}": value for key, value in tags.items() if key in keys}
