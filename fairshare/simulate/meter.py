"""Watches a simulation as it goes: use while jobs wait, and starvation. Nothing is kept but sums."""

from __future__ import annotations

from fairshare.simulate.course import NOT_YET, Pressure


class Meter:
    """Told of every change of jobs waiting and instances held, in time order; instants are ms.

    Jobs that can never start are not told of: they do not wait for instances.
    """

    def __init__(self, shares: int) -> None:
        self._now = 0
        self._held = 0
        self._waiting = 0
        self._waiting_time = 0
        self._used_while_waiting = 0
        self._share_waiting = [0] * shares
        self._share_held = [0] * shares
        self._hungry_since = [NOT_YET] * shares
        self._longest = 0
        self._starved = NOT_YET

    def waits(self, share: int, now: int) -> None:
        """A job begins to wait."""
        if now > self._now:
            self._pass_time(now)
        self._waiting += 1
        self._share_waiting[share] += 1
        if not self._share_held[share] and self._hungry_since[share] == NOT_YET:
            self._hungry_since[share] = now

    def starts(self, share: int, demand: int, now: int) -> None:
        """A job that waited gets its instances."""
        if now > self._now:
            self._pass_time(now)
        self._waiting -= 1
        self._share_waiting[share] -= 1
        self._held += demand
        self._share_held[share] += demand
        self._feed(share, now)

    def stops(self, share: int, demand: int, now: int) -> None:
        """An attempt gives its instances back."""
        if now > self._now:
            self._pass_time(now)
        self._held -= demand
        self._share_held[share] -= demand
        if self._share_waiting[share] and not self._share_held[share]:
            self._hungry_since[share] = now

    def read(self, now: int, names: list[str]) -> Pressure:
        """Return the sums at the end; ``names`` are those of the shares."""
        self._pass_time(now)
        for share in range(len(names)):
            if self._share_waiting[share]:
                self._feed(share, now)
        starved = "" if self._starved == NOT_YET else names[self._starved]
        return Pressure(self._waiting_time, self._used_while_waiting, self._longest, starved)

    def _pass_time(self, now: int) -> None:
        if self._waiting:
            elapsed = now - self._now
            self._waiting_time += elapsed
            self._used_while_waiting += elapsed * self._held
        self._now = now

    def _feed(self, share: int, now: int) -> None:
        since = self._hungry_since[share]
        if since == NOT_YET:
            return
        if now - since > self._longest:
            self._longest, self._starved = now - since, share
        self._hungry_since[share] = NOT_YET
