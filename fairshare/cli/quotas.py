"""The account's quotas for training jobs, asked once a day; nothing is said about them when they cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairshare.cli.context import AppContext
from fairshare.cli.kept import keep, read_kept
from fairshare.model import FairshareError

_KEPT: Final = 86_400_000
"""Milliseconds for which the quotas are not asked for again, also when they could not be read."""


def training_quotas(context: AppContext) -> Mapping[str, int]:
    """Return the instances of each type that training jobs may use at once; empty when that cannot be read.

    The AWS on this machine has no such limits.
    """
    session = context.session
    if session.is_loopback:
        return {}
    file = context.cache_dir / f"quotas-{session.account_id}-{session.region}.json"
    kept, now = read_kept(file), context.clock.now()
    try:
        if 0 <= now - kept["at"] < _KEPT:
            return {str(name): int(value) for name, value in kept["quotas"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    try:
        quotas = context.training_quotas.read()
    except FairshareError:  # a role that may not read them
        quotas = {}
    keep(file, {"at": now, "quotas": quotas})
    return quotas
