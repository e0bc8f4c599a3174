"""What an hour of an instance costs: by the user's table, else by AWS's price list, else unknown: never guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol


@dataclass(frozen=True)
class Price:
    """The price of one instance for one hour, and where it is from, for people."""

    amount: Decimal
    source: str


class PriceSource(Protocol):
    """AWS's price list. Adapter: `fairshare.aws.pricing.PriceList`."""

    def price(self, instance_type: str, region: str) -> Decimal | None:
        """Return the on-demand price of training on one instance for an hour, in US dollars; None = not listed.

        Raises:
            FairshareError: it cannot be asked.
        """


@dataclass
class Prices:
    """Prices in one currency; each is found out once.

    Args:
        currency: three letters.
        table: the user's own, by instance type; it wins.
        ask: tells the price of a type that the table does not have; None = nobody knows.
    """

    currency: str
    table: Mapping[str, Decimal]
    ask: Callable[[str], Price | None] | None = None
    known: dict[str, Price | None] = field(default_factory=dict)
    """What was asked for, in order."""

    def __call__(self, instance_type: str) -> Decimal | None:
        """Return the price of one instance for an hour; None = unknown."""
        if instance_type not in self.known:
            self.known[instance_type] = self._find(instance_type)
        found = self.known[instance_type]
        return None if found is None else found.amount

    def _find(self, instance_type: str) -> Price | None:
        if instance_type in self.table:
            return Price(self.table[instance_type], "fairshare.yaml")
        return None if self.ask is None else self.ask(instance_type)
