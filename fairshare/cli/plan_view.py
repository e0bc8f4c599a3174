"""A plan as text: one line per resource, what each share gets, and what to look out for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Final

from fairshare.cli.render import Column, count, elapsed, percent, table
from fairshare.model import CapacityLimit, FairsharePolicy, ResourceType, SharingStrategy
from fairshare.provision.alarms import DesiredAlarm
from fairshare.provision.compare import TAG_FIELD, WEIGHT_FIELD, shown
from fairshare.provision.dashboard import DesiredDashboard, body_text
from fairshare.provision.desired import DesiredEnvironment, DesiredPolicy, DesiredQueue, DesiredQuotaShare
from fairshare.provision.plan import Action, Change, Plan

_SIGNS: Final = {Action.CREATE: "+", Action.UPDATE: "~", Action.DELETE: "-", Action.NOOP: "="}
_KINDS: Final = {
    ResourceType.SERVICE_ENVIRONMENT: "service environment",
    ResourceType.SCHEDULING_POLICY: "scheduling policy",
    ResourceType.JOB_QUEUE: "job queue",
    ResourceType.QUOTA_SHARE: "quota share",
    ResourceType.ALARM: "alarm",
    ResourceType.DASHBOARD: "dashboard",
}


_KEYS_WIDTH: Final = 42
_HARD_SPACE: Final = "\N{NO-BREAK SPACE}"
"""Keeps words in one line."""


def plan_text(plan: Plan, place: str, width: int | None) -> str:
    """Return a plan for people.

    Args:
        plan: the plan.
        place: where it acts: account, region and address.
        width: cells of the terminal; None = as wide as needed.
    """
    blocks = [f"Stack {plan.stack} in {place}", _changes_text(plan, width)]
    blocks += [_shares_text(plan, queue, width) for queue in dict.fromkeys(share.queue for share in plan.shares)]
    blocks += ["\n".join(f"Warning: {warning}" for warning in plan.warnings)] if plan.warnings else []
    return "\n\n".join(block for block in blocks if block)


def change_summary(plan: Plan) -> str:
    """Return how much a plan would change: ``2 to create, 1 to update, 3 unchanged``."""
    words = {
        Action.CREATE: "to create",
        Action.UPDATE: "to update",
        Action.DELETE: "to delete",
        Action.NOOP: "unchanged",
    }
    counted = {action: sum(change.action is action for change in plan.changes) for action in words}
    return ", ".join(f"{number} {words[action]}" for action, number in counted.items() if number) or "nothing there"


def _changes_text(plan: Plan, width: int | None) -> str:
    columns = [Column(""), Column(""), Column(""), Column("", shrinks=True)]
    rows = [row for changes in _grouped(plan.changes) for row in _rows(changes)]
    return "\n".join(table(columns, rows, width).splitlines()[1:])


def _grouped(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Yield changes one by one; but alarms together to which the same happens, unless they are updated."""

    def group(indexed: tuple[int, Change]) -> object:
        index, change = indexed
        is_alone = change.resource_type is not ResourceType.ALARM or change.action is Action.UPDATE
        return index if is_alone else change.action

    for _, members in groupby(enumerate(changes), group):
        yield [change for _, change in members]


def _rows(changes: Sequence[Change]) -> Iterator[list[str]]:
    """Yield the lines of a resource: an update has one for each field, so that no width can hide one."""
    change = changes[0]
    if len(changes) > 1:
        first, *others = ["no change"] if change.action is Action.NOOP else _key_lines(changes)
        yield [f"  {_SIGNS[change.action]}", count(len(changes), _KINDS[change.resource_type]), "", first]
        yield from (["", "", "", other] for other in others)
        return
    details = list(_details(change))
    first, *others = details if change.action is Action.UPDATE else ["; ".join(details)]
    yield [f"  {_SIGNS[change.action]}", _KINDS[change.resource_type], change.key, first]
    yield from (["", "", "", other] for other in others)


def _key_lines(changes: Sequence[Change]) -> list[str]:
    """Return the keys of alarms, in lines that fit beside the other columns; one for each share is told once."""
    shares = Counter(_alarm_and_shares(change) for change in changes)
    keys = [key if not is_of_shares else f"{key} ({count(n, 'share')})" for (key, is_of_shares), n in shares.items()]
    text = ", ".join(key.replace(" ", _HARD_SPACE) for key in keys)
    lines = wrap(text, _KEYS_WIDTH, break_on_hyphens=False, break_long_words=False)
    return [line.replace(_HARD_SPACE, " ") for line in lines]


def _alarm_and_shares(change: Change) -> tuple[str, bool]:
    """Return the key of an alarm without its share, and whether it had one."""
    metrics = change.desired.definition.metrics if isinstance(change.desired, DesiredAlarm) else ()
    share = next((value for metric in metrics for name, value in metric.dimensions if name == "Share"), None)
    return (change.key, False) if share is None else (change.key.removesuffix(f"-{share}"), True)


def _details(change: Change) -> Iterator[str]:
    if change.action is Action.NOOP:
        yield "no change"
    elif change.action is Action.UPDATE:
        if change.adopts:
            yield "adopt"
        for field in change.fields:
            name = field.field.removeprefix(WEIGHT_FIELD) + (" weight" if field.field.startswith(WEIGHT_FIELD) else "")
            yield f"{name} {shown(field.observed)} -> {shown(field.wanted)}"
    elif change.action is Action.CREATE:
        yield from _wanted(change)


def _wanted(change: Change) -> Iterator[str]:
    match change.desired:
        case DesiredEnvironment(capacity_limits=limits, instance_types=types):
            yield _capacity_text(limits, types)
        case DesiredPolicy(fairshare_policy=None):
            yield "for quota shares"
        case DesiredPolicy(fairshare_policy=FairsharePolicy() as policy):
            yield count(len(policy.share_distribution), "share")
            yield f"decay {policy.share_decay_seconds} s"
            if policy.compute_reservation:
                yield f"reservation {policy.compute_reservation} %"
        case DesiredQueue(priority=priority):
            yield f"priority {priority}"
            yield _kind_of_queue(change.desired)
            if change.desired.time_limits:
                yield f"ends what blocks it for {_shortest(change.desired.time_limits)} or more"
        case DesiredQuotaShare():
            yield _limits_text(change.desired.capacity_limits)
            yield _sharing_text(change.desired)
            if change.desired.in_share_preemption:
                yield "preempts in share"
        case DesiredAlarm(definition=alarm):
            yield " and ".join(metric.name for metric in alarm.metrics if metric.name)
            yield f"{alarm.datapoints_to_alarm} of {alarm.evaluation_periods} x {elapsed(alarm.period * 1000)}"
        case DesiredDashboard(body=body):
            yield count(int(body_text(body)["widgets"]), "widget")
    if any(not field.field.startswith(TAG_FIELD + "fairshare:") for field in change.fields if TAG_FIELD in field.field):
        yield "tags"


def _capacity_text(limits: Sequence[CapacityLimit], types: Sequence[str]) -> str:
    """``16 instances (ml.g6.12xlarge)``; where each type has a limit of its own, as `_limits_text`."""
    if any(limit.capacity_unit in types for limit in limits):
        return _limits_text(limits)
    total = count(sum(limit.max_capacity for limit in limits), "instance")
    return f"{total} ({', '.join(types)})" if types else total


def _limits_text(limits: Sequence[CapacityLimit]) -> str:
    """``8 x ml.c5.2xlarge + 1 x ml.c4.xlarge``."""
    return " + ".join(f"{limit.max_capacity} x {limit.capacity_unit}" for limit in limits)


def _shortest(time_limits: Sequence[tuple[str, int]]) -> str:
    return elapsed(min(seconds for _, seconds in time_limits) * 1000)


def _kind_of_queue(queue: DesiredQueue) -> str:
    if queue.scheduling_policy is None:
        return "first in, first out"
    return "quota shares" if queue.has_quota_shares else "fair-share"


def _sharing_text(share: DesiredQuotaShare) -> str:
    """``LEND_AND_BORROW up to 100 % of its own``."""
    if share.sharing is not SharingStrategy.LEND_AND_BORROW or share.borrow_limit < 0:
        return share.sharing.value
    return f"{share.sharing.value} up to {share.borrow_limit} % of its own"


def _shares_text(plan: Plan, queue: str, width: int | None) -> str:
    shares = [share for share in plan.shares if share.queue == queue]
    changed = any(share.fraction_before not in (None, share.fraction) for share in shares)
    columns = [
        Column(f"Shares of queue {queue}"),
        Column("weight", right=True),
        Column("when all are busy", right=True),
    ]
    rows = [[share.share_identifier, share.weight_factor, percent(share.fraction)] for share in shares]
    if changed:
        columns.append(Column("before", right=True))
        for row, share in zip(rows, shares, strict=True):
            row.append("new" if share.fraction_before is None else percent(share.fraction_before))
    return "\n".join(f"  {line}" for line in table(columns, rows, width).splitlines())
