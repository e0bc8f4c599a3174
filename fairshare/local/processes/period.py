"""For how long one value of a utilisation metric is published."""

from __future__ import annotations

from typing import Final

from fairshare.model import UsageError

DEFAULT_PERIOD_SECONDS: Final = 60
"""SageMaker's."""

_HIGH_RESOLUTION_SECONDS: Final = (1, 5, 10, 20, 30)


def check_period(seconds: float) -> int:
    """Return a period in whole seconds. Raises UsageError for one that CloudWatch cannot be asked for (case C39)."""
    if seconds not in _HIGH_RESOLUTION_SECONDS and not (seconds >= DEFAULT_PERIOD_SECONDS and seconds % 60 == 0):
        choice = ", ".join(map(str, _HIGH_RESOLUTION_SECONDS))
        raise UsageError(
            f"the period of metrics is {seconds:g} s", hint=f"CloudWatch can be asked for {choice} s or whole minutes."
        )
    return int(seconds)
