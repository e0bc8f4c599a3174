"""Share arithmetic: weights, usage over time, reservation. Exact; the only place where a weight is inverted.

AWS's ``weightFactor`` is inverted: lower = more. `share_fractions` is the one function that turns it into a portion.
Everything that decides is computed with integers or rationals of the decimal that was written, so ties are ties and
scaling every weight of a policy changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Final

MIN_WEIGHT: Final = Fraction(1, 10_000)
MAX_WEIGHT: Final = Fraction(9_999_999, 10_000)
DEFAULT_WEIGHT: Final = Fraction(1)
"""Weight of an identifier that the policy does not list (API_FairsharePolicy, shareDistribution)."""

DEFAULT_WINDOW_MS: Final = 600_000
"""The window behind ``shareDecaySeconds`` 0, and the shortest one."""


def parse_weight(text: str) -> Fraction:
    """Return the exact value of a weight as it was written.

    Raises:
        ValueError: not a decimal number, or outside 0.0001 - 999.9999, AWS's range (cases C02, C32). A 32-bit float
            that AWS returned for the smallest legal weight is accepted.
    """
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text!r} is not a number") from None
    if not number.is_finite():
        raise ValueError(f"{text} is not a finite number")
    weight = Fraction(number) if abs(number.adjusted()) < 10 else Fraction(0)  # that of 1e999999999 fills the memory
    tolerance = Fraction(1, 2**24)  # half of the last bit of a 32-bit float
    if not MIN_WEIGHT * (1 - tolerance) <= weight <= MAX_WEIGHT * (1 + tolerance):
        raise ValueError(f"{text} is outside 0.0001 - 999.9999, AWS's range for a weight factor")
    return weight


def share_fractions(weights: Mapping[str, str]) -> dict[str, Fraction]:
    """Return each share's portion of capacity when all of them are busy: ``(1/w) / sum(1/w)``.

    ``{"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}`` gives 15/23, 5/23 and 3/23.
    """
    inverse = {share: 1 / parse_weight(weight) for share, weight in weights.items()}
    total = sum(inverse.values(), Fraction(0))
    return {share: part / total for share, part in inverse.items()}


def weights_for_targets(targets: Mapping[str, Fraction]) -> dict[str, str]:
    """Return weight factors, as decimal text, that give each share its target portion. The largest target gets 1.

    60 % and 40 % give 1 and 1.5. AWS keeps four decimals, so a portion may be off by a few hundredths of a point.

    Raises:
        ValueError: a target of 0 or less, or one so small that its weight would exceed AWS's range.
    """
    largest = max(targets.values(), default=Fraction(0))
    weights = {}
    for share, target in targets.items():
        if target <= 0:
            raise ValueError(f"the target of {share} must be more than 0")
        ratio = largest / target
        if ratio > MAX_WEIGHT:
            raise ValueError(f"the target of {share} is more than 999.9999 times smaller than the largest")
        exact = Decimal(ratio.numerator) / Decimal(ratio.denominator)
        weights[share] = f"{exact.quantize(Decimal('0.0001'), ROUND_HALF_EVEN).normalize():f}"
    return weights


def matching_entry(identifier: str, entries: Iterable[str]) -> str | None:
    """Return the policy entry that covers a share identifier: itself, or the prefix entry ``PREFIX*`` that matches."""
    for entry in entries:
        if entry == identifier or (entry.endswith("*") and identifier.startswith(entry[:-1])):
            return entry
    return None


def usable_instances(max_capacity: int, compute_reservation: int, active_shares: int) -> int:
    """Return how many instances the active shares may use together: ``floor(max * (1 - (cr/100)^n))``.

    The rest is reserved for shares that are not active yet (API_FairsharePolicy, computeReservation). With no active
    share nothing is usable unless nothing is reserved; exact for every input.
    """
    reserved = Fraction(compute_reservation, 100) ** active_shares if compute_reservation else Fraction(0)
    return int(max_capacity * (1 - reserved))


class UsageWindow:
    """How many instances one share held, over the last ``window`` ms, weighted down linearly with age.

    With ``h(a)`` the instances held ``a`` ms ago and ``W`` the window, history is
    ``H = (2/W) * integral over 0..W of h(a) * (1 - a/W) da``, which equals h while h is constant. With ``u = W - a``,
    time counted from the *start* of the window, that is ``H * W**2 = 2 * integral of h*u du``: an integer, kept as one
    running sum (a second one carries the sum when the window moves on). Change points that leave the window are taken
    off the left end of a queue, so an update is amortised O(1).
    """

    __slots__ = ("_area", "_moment", "_now", "_segments", "held", "window")

    def __init__(self, window: int, now: int) -> None:
        self.window = window
        self.held = 0
        self._now = now
        self._area = 0  # integral of h over the window
        self._moment = 0  # twice the integral of h * u, u counted from the window's start
        self._segments: deque[list[int]] = deque()  # [begin, end, h] with h > 0, oldest first, up to the present

    def advance(self, now: int) -> None:
        """Move the window's end to ``now`` ms; never backwards."""
        elapsed = now - self._now
        if elapsed <= 0:
            return
        self._forget(elapsed)
        self._moment -= 2 * elapsed * self._area
        if self.held:
            recent = min(elapsed, self.window)
            self._area += self.held * recent
            self._moment += self.held * (self.window**2 - (self.window - recent) ** 2)
            self._extend(now - recent, now)
        self._now = now

    def change(self, delta: int) -> None:
        """Hold ``delta`` instances more (or fewer) from the present instant on."""
        self.held += delta

    def resize(self, window: int) -> None:
        """Change the window's length at the present instant. A longer one starts without what was forgotten."""
        start = self._now - window
        self.window = window
        self._segments = deque([max(begin, start), end, held] for begin, end, held in self._segments if end > start)
        self._area = sum(held * (end - begin) for begin, end, held in self._segments)
        self._moment = sum(held * ((end - start) ** 2 - (begin - start) ** 2) for begin, end, held in self._segments)

    def history(self) -> int:
        """Return ``H * window**2`` at the present instant, an exact integer."""
        return self._moment

    def _extend(self, begin: int, end: int) -> None:
        last = self._segments[-1] if self._segments else None
        if last and last[1] == begin and last[2] == self.held:
            last[1] = end
        else:
            self._segments.append([begin, end, self.held])

    def _forget(self, elapsed: int) -> None:
        """Take the first ``elapsed`` ms of the window out of both sums."""
        start = self._now - self.window
        new_start = start + elapsed
        while self._segments and self._segments[0][0] < new_start:
            begin, end, held = self._segments[0]
            u1, u2 = max(begin, start) - start, min(end, new_start) - start
            self._area -= held * (u2 - u1)
            self._moment -= held * (u2 * u2 - u1 * u1)
            if end > new_start:
                self._segments[0][0] = new_start
                break
            self._segments.popleft()
