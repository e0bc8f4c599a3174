"""The table of prices in ``fairshare.yaml``: ``prices: {currency: USD, ml.g6.12xlarge: 5.75}``, per instance-hour."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Final

from pydantic import AfterValidator

from fairshare.config.errors import WrongValue, WrongValues
from fairshare.config.fields import AnyText, Text

DEFAULT_CURRENCY: Final = "USD"
"""What AWS's price list is in."""

_CURRENCY: Final = "currency"
_TYPE: Final = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9-]+")
_PRICE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


@dataclass(frozen=True)
class PriceTable:
    """Prices of one instance for one hour, exact, by instance type, all in one currency."""

    currency: str = DEFAULT_CURRENCY
    per_hour: Mapping[str, Decimal] = field(default_factory=dict)


def _check(written: dict[str, str]) -> dict[str, str]:
    wrong = [found for key, value in written.items() if (found := _wrong(key, value)) is not None]
    if wrong:
        raise WrongValues(wrong)
    return written


def _wrong(key: str, value: str) -> WrongValue | None:
    if key == _CURRENCY:
        if re.fullmatch(r"[A-Z]{3}", value):
            return None
        return WrongValue(f'must be a currency\'s three letters, not "{value}"', hint="as in USD or EUR", at=(key,))
    if not _TYPE.fullmatch(key):
        hint = f"did you mean ml.{key}?" if _TYPE.fullmatch(f"ml.{key}") else "as in ml.g6.12xlarge: 5.75"
        return WrongValue("is neither an instance type nor currency", hint=hint, at=(key,))
    if not _PRICE.fullmatch(value):
        return WrongValue(f'must be a price for an hour, not "{value}"', hint="a number, as in 5.75", at=(key,))
    return None


WrittenPrices = Annotated[dict[Text, AnyText], AfterValidator(_check)]
"""The table as it is written: numbers as their text, so that 5.75 is exactly that."""


def price_table(written: Mapping[str, str]) -> PriceTable:
    """Return the table from what was written and checked."""
    per_hour = {key: Decimal(value) for key, value in written.items() if key != _CURRENCY}
    return PriceTable(written.get(_CURRENCY, DEFAULT_CURRENCY), per_hour)
