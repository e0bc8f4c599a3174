"""What moved since a plan was made: a plan is applied to exactly what it was made for, or not at all.

AWS Batch has neither locks nor conditional updates. What stands in for them is looking again: before the first change,
right before each change of its own resource, and after the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fairshare.model import OWNER_TAG, InfeasibleError, ResourceType
from fairshare.provision.compare import ObservedResource, changed_fields, is_going, label_of, moved_fields, shown
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Action, Change, Plan

SOMEBODY_ELSE: Final = "somebody else is changing this stack at the same time"


@dataclass(frozen=True)
class Move:
    """What somebody else changed. ``field`` None = the resource came or went; a value None = not there."""

    label: str
    """For people: ``job queue search-ml-gpu``."""
    field: str | None = None
    before: str | None = None
    now: str | None = None

    def __str__(self) -> str:
        if self.field is None:
            return f"{self.label} {'is new' if self.before is None else 'is gone'}"
        then = "was not there" if self.before is None else f"was {shown(self.before)}"
        return f"{self.label}: {self.field} {then}, {'is gone' if self.now is None else f'is now {shown(self.now)}'}"


class StalePlanError(InfeasibleError):
    """AWS is no longer as the plan took it to be.

    Args:
        message: what was found out.
        moves: what somebody else changed; a line for each follows the message.
        hint: what to do next.
    """

    code = "StalePlan"

    def __init__(self, message: str, moves: Iterable[Move], *, hint: str | None = None) -> None:
        self.moves = tuple(moves)
        super().__init__("\n  ".join([f"{message}:", *map(str, self.moves)]), hint=hint)


def refuse_stale(plan: Plan, observed: Observed) -> None:
    """Compare what a plan was made for with what there is now. Tags of others do not count.

    Raises:
        StalePlanError: something that the plan looked at came, went or changed. One line for each field.
    """
    moves = [
        move for change in plan.changes for move in moves_of(change, observed.find(change.resource_type, change.name))
    ]
    if plan.is_teardown:
        moves += _new_resources(plan, observed)
    if moves:
        raise StalePlanError(
            f"stack {plan.stack} has changed since this plan was made",
            moves,
            hint="Nothing was changed. Make a new plan of what there is now, and look at it before you apply it.",
        )


def refuse_moved(change: Change, found: ObservedResource | None) -> None:
    """Look at one resource right before it is changed.

    Raises:
        StalePlanError: it is not as it was when the plan was made.
    """
    if moves := list(moves_of(change, found)):
        raise StalePlanError(SOMEBODY_ELSE, moves)


def refuse_unfinished(plan: Plan, observed: Observed) -> None:
    """Look at everything after the last change of a `setup`.

    Raises:
        StalePlanError: something is not as the plan wanted it, so somebody else changed it meanwhile.
    """
    moves: list[Move] = []
    for change in plan.changes:
        found = observed.find(change.resource_type, change.name)
        if change.desired is not None and found is None:
            moves.append(Move(change.label, before="there"))
        elif change.desired is not None:
            fields = changed_fields(change.desired, found)
            moves += [Move(change.label, field.field, field.wanted, field.observed) for field in fields]
    if moves:
        raise StalePlanError(f"somebody else changed stack {plan.stack} while this plan was applied", moves)


def moves_of(change: Change, found: ObservedResource | None) -> Iterator[Move]:
    """Yield what happened to the resource of a change.

    One that is being deleted counts as gone, and one that should go may do so.
    """
    before = None if change.observed is None or is_going(change.observed) else change.observed
    now = None if found is None or is_going(found) else found
    if before is not None and now is not None:
        for field in moved_fields(change.desired, before, now):
            yield Move(change.label, field.field, field.observed, field.wanted)
    elif now is not None:
        yield Move(change.label, now="there")
    elif before is not None and change.action is not Action.DELETE:
        yield Move(change.label, before="there")


def _new_resources(plan: Plan, observed: Observed) -> Iterator[Move]:
    """Yield what carries the stack's tag and would be left over, because a teardown plan does not have it."""
    known = {(change.resource_type, change.name) for change in plan.changes}
    for resource_type in ResourceType:
        for name, found in sorted(observed.of_type(resource_type).items()):
            if found.tags.get(OWNER_TAG) == plan.stack and (resource_type, name) not in known and not is_going(found):
                yield Move(label_of(resource_type, name), now="there")
