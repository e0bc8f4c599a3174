"""Waiting until CloudWatch shows what was just put: it answers from more than one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairshare.model import WaitTimeoutError
from fairshare.provision.plan import Change
from fairshare.scheduler.clock import Clock

_POLL_MS: Final = 500
_AGREE_MS: Final = 30_000


def wait_until_shown(change: Change, is_shown: Callable[[], bool], clock: Clock, *, hint: str) -> None:
    """Ask until CloudWatch shows a change.

    Args:
        change: what was done.
        is_shown: asks CloudWatch.
        clock: to sleep by.
        hint: what to do when it does not.

    Raises:
        WaitTimeoutError: it still shows something else.
    """
    deadline = clock.now() + _AGREE_MS
    while not is_shown():
        if clock.now() >= deadline:
            raise WaitTimeoutError(
                f"CloudWatch does not show the change of {change.label} after {_AGREE_MS // 1000} s", hint=hint
            )
        clock.sleep_until(clock.now() + _POLL_MS)
