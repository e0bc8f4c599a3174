"""``prices:`` in fairshare.yaml."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from fairshare.config.prices import PriceTable
from fairshare.config.project import parse_project
from fairshare.model import InvalidFileError


def parse(prices: str) -> PriceTable:
    return parse_project(f"version: 1\nstack: lab\nprices:\n{prices}", Path("fairshare.yaml")).prices


def test_prices_are_exactly_what_was_written():
    assert parse("  currency: EUR\n  ml.g6.12xlarge: 5.75\n  ml.m5.large: 0.115\n") == PriceTable(
        "EUR", {"ml.g6.12xlarge": Decimal("5.75"), "ml.m5.large": Decimal("0.115")}
    )


def test_without_a_table_nothing_is_known_and_the_currency_is_that_of_aws():
    assert parse_project("version: 1\nstack: lab\n", Path("f")).prices == PriceTable("USD", {})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("currency: euro", 'prices.currency: must be a currency\'s three letters, not "euro" (as in USD or EUR)'),
        (
            "g6.12xlarge: 5",
            "prices.g6.12xlarge: is neither an instance type nor currency (did you mean ml.g6.12xl",
        ),
        ("price: 5", "prices.price: is neither an instance type nor currency (as in ml.g6.12xlarge: 5.75)"),
        ("ml.m5.large: -1", 'prices.ml.m5.large: must be a price for an hour, not "-1" (a number, as in 5.75)'),
        ("ml.m5.large: 1e3", 'prices.ml.m5.large: must be a price for an hour, not "1e3" (a number, as in 5.75)'),
        ("ml.m5.large: $5", 'prices.ml.m5.large: must be a price for an hour, not "$5" (a number, as in 5.75)'),
    ],
)
def test_a_wrong_price_is_refused_where_it_stands(line, problem):
    with pytest.raises(InvalidFileError) as caught:
        parse(f"  {line}\n")

    assert problem in str(caught.value)
    assert str(caught.value).startswith("fairshare.yaml:4:")


def test_every_wrong_price_is_told_at_once():
    with pytest.raises(InvalidFileError) as caught:
        parse("  currency: x\n  ml.m5.large: free\n")

    assert [problem.line for problem in caught.value.problems] == [4, 5]
