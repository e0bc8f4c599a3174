"""What makes a history repeatable: instants that stand still during a call, and ids that follow from the past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID, uuid5

from fairshare.local.region import NewId
from fairshare.scheduler.clock import Clock

_NAMESPACE: Final = UUID("5c1b0f52-6c1f-4d8a-9d67-0d3a1f1c9c55")


class InstantClock:
    """A clock that can be held at an instant, and never goes back behind one it was held at.

    Hold it under the local AWS's lock only.

    Args:
        clock: what it follows otherwise.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: int | None = None
        self._latest = 0

    def now(self) -> int:
        """Return milliseconds since the epoch."""
        held = self._held
        return max(self._latest, self._clock.now()) if held is None else held

    def wall(self) -> int:
        """Return what the clock it follows shows, held or not."""
        return self._clock.wall()

    def sleep_until(self, at: int) -> None:
        """Sleep as the clock it follows does."""
        self._clock.sleep_until(at)

    @contextmanager
    def held(self, at: int | None = None) -> Iterator[int]:
        """Let time stand still at ``at`` ms (None = now) while the block runs."""
        self._held = self._latest = self.now() if at is None else at
        try:
            yield self._held
        finally:
            self._held = None


class RegionIds:
    """Ids for each account and region: the n-th of them is always the same.

    Regions do not share a sequence: when each of them looks at the clock is chance, the order inside one is not.

    Args:
        seed: makes them unlike the ids of another local AWS.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._counts: Counter[tuple[str, str]] = Counter()

    def of(self, account_id: str, region: str) -> NewId:
        """Return the source of one region's ids; it goes on where the one before stopped."""

        def new_id() -> UUID:
            self._counts[account_id, region] += 1
            return uuid5(_NAMESPACE, f"{self._seed}/{account_id}/{region}/{self._counts[account_id, region]}")

        return new_id
