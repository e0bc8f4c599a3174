"""What jobs cost: billable time of each attempt times the price of its instances. Exact, so that sums agree.

SageMaker bills each instance for ``BillableTimeInSeconds`` of the training job
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html). Amounts are rounded once, for
an attempt and an instance type, to `UNIT`; everything above is a sum. What is not known makes an amount unknown, and is
named: it is never taken for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

UNIT: Final = Decimal("0.000001")
"""Amounts are whole multiples of it."""

_HOUR: Final = 3_600_000

PriceOf = Callable[[str], Decimal | None]
"""Tells what one instance of a type costs for an hour; None = unknown."""


class Purpose(StrEnum):
    """What an attempt was good for."""

    LAST = "last"
    """It is the job's last attempt: the one that counts."""
    RETRIED = "retried"
    """It failed and the job was tried again."""
    PREEMPTED = "preempted"
    """It was stopped to give its capacity to another job."""


@dataclass(frozen=True)
class AttemptUse:
    """What one attempt of a job held.

    ``instances`` by instance type; ``billable_ms`` of each of them, None = not known. ``is_running``: until now.
    """

    instances: Mapping[str, int]
    billable_ms: int | None
    purpose: Purpose = Purpose.LAST
    is_running: bool = False


@dataclass(frozen=True)
class JobUse:
    """A job with what each of its attempts held."""

    job_id: str
    job_name: str
    share_identifier: str | None
    status: str
    attempts: tuple[AttemptUse, ...]
    run_id: str | None = None


@dataclass(frozen=True)
class Cost:
    """Instance time and money. ``known_amount`` is the sum of what is known; ``unknown`` says what is not."""

    instance_ms: int = 0
    known_amount: Decimal = Decimal(0)
    by_purpose: Mapping[Purpose, Decimal] = field(default_factory=dict)
    """Known amounts; they add up to ``known_amount``."""
    unknown: tuple[str, ...] = ()
    is_running: bool = False
    """Whether it still grows."""

    @property
    def amount(self) -> Decimal | None:
        """The whole amount; None when a part of it is not known."""
        return None if self.unknown else self.known_amount

    def __add__(self, other: Cost) -> Cost:
        purposes = [*self.by_purpose, *other.by_purpose]
        return Cost(
            instance_ms=self.instance_ms + other.instance_ms,
            known_amount=self.known_amount + other.known_amount,
            by_purpose={
                each: self.by_purpose.get(each, Decimal(0)) + other.by_purpose.get(each, Decimal(0))
                for each in dict.fromkeys(purposes)
            },
            unknown=tuple(dict.fromkeys((*self.unknown, *other.unknown))),
            is_running=self.is_running or other.is_running,
        )


def cost_of(attempts: Iterable[AttemptUse], price: PriceOf) -> Cost:
    """Return what attempts cost.

    Args:
        attempts: of one job, or of several.
        price: of an instance-hour.
    """
    return total(_attempt_cost(attempt, price) for attempt in attempts)


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum."""
    return sum(costs, Cost())


def instances_of(payload: Mapping[str, Any]) -> dict[str, int]:
    """Return how many instances of each type a CreateTrainingJob request asks for; {} when it does not say."""
    resources = payload.get("ResourceConfig") or {}
    found: dict[str, int] = {}
    for group in resources.get("InstanceGroups") or [resources]:
        if group.get("InstanceType"):
            name = str(group["InstanceType"])
            found[name] = found.get(name, 0) + int(group.get("InstanceCount", 1))
    return found


def by_share(jobs: Sequence[tuple[JobUse, Cost]]) -> dict[str | None, Cost]:
    """Return the sums of shares, the most expensive first; None stands for the jobs of first-in-first-out queues."""
    shares: dict[str | None, Cost] = {}
    for job, cost in jobs:
        shares[job.share_identifier] = shares.get(job.share_identifier, Cost()) + cost
    return dict(sorted(shares.items(), key=lambda item: (-item[1].known_amount, item[0] or "")))


def _attempt_cost(attempt: AttemptUse, price: PriceOf) -> Cost:
    if attempt.billable_ms is None:
        return Cost(unknown=(f"billable time of {_ATTEMPT[attempt.purpose]}",))
    if attempt.billable_ms == 0:
        return Cost(by_purpose={attempt.purpose: Decimal(0)}, is_running=attempt.is_running)
    if not attempt.instances:
        return Cost(unknown=("instance type",))
    found = Cost(is_running=attempt.is_running)
    for name, count in attempt.instances.items():
        instance_ms, hourly = count * attempt.billable_ms, price(name)
        if hourly is None:
            found += Cost(instance_ms, unknown=(f"price of {name}",))
        else:
            amount = _rounded(Fraction(hourly) * instance_ms / _HOUR)
            found += Cost(instance_ms, amount, {attempt.purpose: amount})
    return found


_ATTEMPT: Final = {
    Purpose.LAST: "the last attempt",
    Purpose.RETRIED: "an attempt that was retried",
    Purpose.PREEMPTED: "an attempt that was preempted",
}


def _rounded(amount: Fraction) -> Decimal:
    """Return the nearest multiple of `UNIT`, exactly: a Decimal division would round twice."""
    return (Decimal(round(amount / Fraction(UNIT))) * UNIT).quantize(UNIT, ROUND_HALF_EVEN)
