"""How fast calls are made: a token bucket before each call, slower after a throttle, and a back-off after a failure.

SubmitServiceJob allows 5 requests a second for the whole account
(https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html), so the default stays just below it. The bucket
may be shared by processes (`fairshare.submit.budget`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

DEFAULT_RATE: Final = 4.9
"""SubmitServiceJob calls a second."""

LOWEST_RATE: Final = 1.0
"""However often AWS throttles, so many calls a second are tried: throttles that come at random must not stall a run."""

FIRST_BACKOFF_MS: Final = 500
LONGEST_BACKOFF_MS: Final = 20_000

GIVE_UP_MS: Final = 300_000
"""After this long without a single accepted call, retrying ends."""

_FASTER: Final = 5
"""A throttle halves the rate; each accepted call gives back so many percent of the full one."""

_ONE_THROTTLE_MS: Final = 1_000
"""Throttles within this time of each other count once: calls that were under way together were too fast together."""


@dataclass
class Bucket:
    """State of a token bucket. Times are on one clock, whichever that is."""

    next_at: Fraction = Fraction(0)
    """When the next token is there, in ms."""
    percent: int = 100
    """How much of the full rate is used now."""
    slowed_at: int | None = None
    """When it was slowed down last, in ms."""


class Buckets(Protocol):
    """Keeps the bucket of a pace."""

    def taken(self, now: int) -> AbstractContextManager[tuple[Bucket, int]]:
        """Lend the bucket, to change it, and the time on its own clock at ``now`` ms. Nobody else has it meanwhile."""


class OwnBucket:
    """A bucket that nobody shares, on the caller's clock."""

    def __init__(self) -> None:
        self._bucket = Bucket()

    @contextmanager
    def taken(self, now: int) -> Iterator[tuple[Bucket, int]]:
        """Lend the bucket."""
        yield self._bucket, now


class Pace:
    """The pace of one submission. Time is an argument, nothing here waits.

    Args:
        rng: source of the jitter.
        rate: calls a second; 0 = no limit.
        burst: calls that may follow each other at once after a pause.
        buckets: keeps the bucket; None = one of its own.

    Raises:
        ValueError: a negative or infinite rate, or a burst below 1.
    """

    def __init__(
        self, rng: random.Random, rate: float = DEFAULT_RATE, burst: int = 1, buckets: Buckets | None = None
    ) -> None:
        if not 0 <= rate < math.inf or burst < 1:
            raise ValueError(f"a rate of {rate} with a burst of {burst} makes no sense: rate >= 0, burst >= 1")
        self.rate = rate
        self._rng = rng
        self._burst = burst
        self._buckets = buckets or OwnBucket()

    def reserve(self, now: int) -> int:
        """Take one token; return the time in ms, now or later, at which its call may be made."""
        if self.rate == 0:
            return now
        with self._buckets.taken(now) as (bucket, time):
            gap = self._gap(bucket)
            at = max(Fraction(time), bucket.next_at - gap * (self._burst - 1))
            bucket.next_at = max(Fraction(time), bucket.next_at) + gap
            return now + math.ceil(at) - time

    def throttled(self, now: int) -> None:
        """Note that AWS answered 429: half as fast from now on, but not below `LOWEST_RATE`."""
        if self.rate == 0:
            return
        with self._buckets.taken(now) as (bucket, time):
            if bucket.slowed_at is None or time - bucket.slowed_at >= _ONE_THROTTLE_MS:
                bucket.slowed_at = time
                bucket.percent = max(bucket.percent // 2, min(100, math.ceil(100 * LOWEST_RATE / self.rate)))

    def accepted(self, now: int) -> None:
        """Note that AWS took a job: a little faster from now on, up to the full rate."""
        if self.rate == 0:
            return
        with self._buckets.taken(now) as (bucket, _):
            bucket.percent = min(100, bucket.percent + _FASTER)

    def backoff(self, failures: int) -> int:
        """Return how many ms to wait after the given number of failures in a row: full jitter, so that clients that
        were refused together do not come back together."""
        ceiling = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** min(failures - 1, 20))
        return self._rng.randint(0, ceiling)

    def _gap(self, bucket: Bucket) -> Fraction:
        """Milliseconds between two tokens."""
        return 100_000 / (Fraction(str(self.rate)) * bucket.percent)
