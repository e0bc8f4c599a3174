"""The prices that a command counts with: the project's own, and beyond them AWS's list, asked once a week."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from fairshare.cli.context import AppContext
from fairshare.cli.kept import keep, read_kept
from fairshare.cli.render import utc_time
from fairshare.model import FairshareError

if TYPE_CHECKING:
    from fairshare.metrics.prices import Price, Prices

_KEPT: Final = 7 * 86_400_000
"""Milliseconds for which a price from AWS's list is not asked again."""


def project_prices(context: AppContext) -> Prices:
    """The project's table, and beyond it AWS's list when that is in the same currency and can be reached."""
    from fairshare.config.prices import DEFAULT_CURRENCY, PriceTable
    from fairshare.metrics.prices import Prices

    written = PriceTable() if context.project is None else context.project.prices
    asks = written.currency == DEFAULT_CURRENCY and not context.session.is_loopback
    return Prices(written.currency, written.per_hour, (lambda name: _listed(context, name)) if asks else None)


def _listed(context: AppContext, instance_type: str) -> Price | None:
    """Return the price in AWS's list, as it was within the last days; None, with a warning, when it cannot be asked."""
    from fairshare.metrics.prices import Price

    file = context.cache_dir / f"prices-{context.session.region}.json"
    now = context.clock.now()
    try:
        text, at = read_kept(file)[instance_type]
        if 0 <= now - at < _KEPT:
            return Price(Decimal(text), f"AWS price list, {utc_time(at)[:10]}")
    except (KeyError, TypeError, ValueError, ArithmeticError):
        pass
    try:
        amount = context.price_source.price(instance_type, context.session.region)
    except FairshareError as error:
        context.out.talk(f"warning: AWS's price list cannot be asked: {error.message}")
        return None
    if amount is None:
        return None
    keep(file, {**read_kept(file), instance_type: [str(amount), now]})
    return Price(amount, f"AWS price list, {utc_time(now)[:10]}")
