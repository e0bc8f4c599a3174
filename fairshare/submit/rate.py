"""How fast calls are made: a token bucket before each call, and how long to back off after one that failed.

SubmitServiceJob allows 5 requests a second for the whole account
(https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html), so the default stays just below it.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Final

DEFAULT_RATE: Final = 4.9
"""SubmitServiceJob calls a second."""

FIRST_BACKOFF_MS: Final = 500
LONGEST_BACKOFF_MS: Final = 20_000

GIVE_UP_MS: Final = 300_000
"""After this long without a single accepted call, retrying ends."""


class Pace:
    """The pace of one submission. Time is an argument, nothing here waits.

    Args:
        rng: source of the jitter.
        rate: calls a second; 0 = no limit.
        burst: calls that may follow each other at once after a pause.

    Raises:
        ValueError: a negative or infinite rate, or a burst below 1.
    """

    def __init__(self, rng: random.Random, rate: float = DEFAULT_RATE, burst: int = 1) -> None:
        if not 0 <= rate < math.inf or burst < 1:
            raise ValueError(f"a rate of {rate} with a burst of {burst} makes no sense: rate >= 0, burst >= 1")
        self.rate = rate
        self._rng = rng
        self._gap = 1000 / Fraction(str(rate)) if rate > 0 else Fraction(0)
        self._slack = self._gap * (burst - 1)
        self._next = Fraction(0)

    def reserve(self, now: int) -> int:
        """Take one token; return the time in ms, now or later, at which its call may be made."""
        at = max(Fraction(now), self._next - self._slack)
        self._next = max(Fraction(now), self._next) + self._gap
        return math.ceil(at)

    def backoff(self, failures: int) -> int:
        """Return how many ms to wait after the given number of failures in a row: full jitter, so that clients that
        were refused together do not come back together."""
        ceiling = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** min(failures - 1, 20))
        return self._rng.randint(0, ceiling)
