"""AWS's price list, through botocore's own stub: moto has none."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fairshare.aws.pricing import PriceList
from fairshare.model import CredentialsError

WANTED = {
    "ServiceCode": "AmazonSageMaker",
    "Filters": [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"},
        {"Type": "TERM_MATCH", "Field": "component", "Value": "Training"},
        {"Type": "TERM_MATCH", "Field": "instanceName", "Value": "ml.g6.12xlarge"},
    ],
}


def product(*prices: str, unit: str = "Hrs") -> str:
    dimensions = {f"d{n}": {"unit": unit, "pricePerUnit": {"USD": price}} for n, price in enumerate(prices)}
    return json.dumps({"product": {"attributes": {}}, "terms": {"OnDemand": {"term": {"priceDimensions": dimensions}}}})


@pytest.fixture
def price_of(stubbed, session_of):
    """Ask for a price, given the pages of the answer."""

    def ask(*answers: list[str]) -> Decimal | None:
        client, stubber = stubbed("pricing")
        for number, products in enumerate(answers):
            request = WANTED if number == 0 else {**WANTED, "NextToken": str(number)}
            more = {"NextToken": str(number + 1)} if number + 1 < len(answers) else {}
            stubber.add_response("get_products", {"PriceList": products, **more}, request)
        found = PriceList(session_of(pricing=client)).price("ml.g6.12xlarge", "us-west-2")
        stubber.assert_no_pending_responses()
        return found

    return ask


def test_the_price_of_an_hour_on_demand(price_of):
    assert price_of([product("5.7500000000")]) == Decimal("5.75")


def test_every_page_is_read_and_what_is_free_or_not_by_the_hour_is_no_price(price_of):
    assert price_of([], [product("0.0000000000", "5.75")], [product("9", unit="GB-Mo")]) == Decimal("5.75")


def test_the_same_price_twice_is_one_and_two_prices_are_none(price_of):
    assert price_of([product("5.75"), product("5.750")]) == Decimal("5.75")
    assert price_of([product("5.75"), product("6.00")]) is None


def test_a_type_that_is_not_listed_has_no_price(price_of):
    assert price_of([]) is None


def test_a_refusal_is_told_in_our_words(session_of, refusal):
    class Refuses:
        def get_products(self, **request: Any) -> Any:
            error: ClientError = refusal("not authorized", "AccessDeniedException", 403)
            raise error

    with pytest.raises(CredentialsError, match=r"Cannot ask for the price of ml\.g6\.12xlarge"):
        PriceList(session_of(pricing=Refuses())).price("ml.g6.12xlarge", "us-west-2")
