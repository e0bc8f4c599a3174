"""AWS's price list: the adapter of `fairshare.metrics.prices.PriceSource`.

The Pricing API answers in a few regions only, about all of them; the session given here must be of one of those
(https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from fairshare.aws.errors import translated
from fairshare.aws.paging import pages
from fairshare.aws.session import AwsSession

PRICING_REGION: Final = "us-east-1"
"""A region in which the Pricing API answers."""

_SERVICE: Final = "AmazonSageMaker"
_PER_HOUR: Final = frozenset({"Hrs", "Hours", "hrs"})


class PriceList:
    """The on-demand prices of SageMaker training.

    Args:
        session: of `PRICING_REGION`.
    """

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def price(self, instance_type: str, region: str) -> Decimal | None:
        """Return the price of training on one instance for an hour, in US dollars.

        None when the list has no price, or several that differ: which one is billed cannot be told then.

        Raises:
            FairshareError: it cannot be asked.
        """
        wanted = {"regionCode": region, "component": "Training", "instanceName": instance_type}
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
        with translated(f"ask for the price of {instance_type}", self._session.caller):
            client = self._session.client("pricing")
            found = {
                price
                for page in pages(client.get_products, token_name="NextToken", ServiceCode=_SERVICE, Filters=filters)
                for product in page["PriceList"]
                for price in _hourly(json.loads(product))
            }
        return found.pop() if len(found) == 1 else None


def _hourly(product: Mapping[str, Any]) -> Iterator[Decimal]:
    """Yield the prices for an hour on demand; what is free is no price of an instance."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            text = dimension.get("pricePerUnit", {}).get("USD")
            if text is not None and dimension.get("unit") in _PER_HOUR and Decimal(text) > 0:
                yield Decimal(text).normalize()
