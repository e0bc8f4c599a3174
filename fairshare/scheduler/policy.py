"""Share arithmetic: weights, usage over time, reservation. Exact; the only place where a weight is inverted.

AWS's ``weightFactor`` is inverted: lower = more. `share_fractions` is the one function that turns it into a portion.
Everything that decides is computed with integers or rationals of the decimal that was written, so ties are ties and
scaling every weight of a policy changes nothing.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from copy import copy
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


def weight_text(weight: str | float) -> str:
    """Return the shortest decimal that is the same 32-bit float: ``0.10000000149`` and ``"0.10"`` give ``0.1``.

    Two weights are equal to AWS exactly when their texts are equal (case C02).
    """
    packed = struct.pack("f", float(weight))
    (single,) = struct.unpack("f", packed)
    shortest = next(
        text for digits in range(1, 10) if struct.pack("f", float(text := f"{single:.{digits}g}")) == packed
    )
    return f"{Decimal(shortest).normalize():f}"


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
    ``H = (2/W) * integral over 0..W of h(a) * (1 - a/W) da``, which equals h while h is constant. With ``s`` the
    instant at which the window begins, that is ``H * W**2 = 2 * integral of h(t) * (t - s) dt``, an integer: the sum,
    over stretches of constant use from b to e, of ``h * (e**2 - b**2) - 2*s * h * (e - b)``. Two running sums hold what
    does not depend on s, so to look costs O(1); stretches that leave the window are taken out once, from the left.
    """

    __slots__ = ("_edge_end", "_edge_held", "_lengths", "_now", "_since", "_squares", "_stretches", "held", "window")

    def __init__(self, window: int, now: int) -> None:
        self.window = window
        self.held = 0
        self._now = now
        self._since = now  # from when on the present number is held
        self._stretches: deque[tuple[int, int, int]] = deque()  # (begin, end, held) that are over, oldest first
        self._squares = 0  # sum of held * (end**2 - begin**2) over them
        self._lengths = 0  # sum of held * (end - begin)
        self._edge_held = self._edge_end = 0  # the stretch, if any, that began before the window and ends in it

    def advance(self, now: int) -> None:
        """Move the window's end to ``now`` ms; never backwards."""
        self._now = max(self._now, now)

    def change(self, delta: int, now: int | None = None) -> None:
        """Hold ``delta`` instances more (or fewer) from ``now`` ms on, or from the present instant."""
        if now is None or now < self._now:
            now = self._now
        else:
            self._now = now
        if self.held and self._since < now:
            self._remember(self._since, now, self.held)
        self.held += delta
        self._since = now

    def resize(self, window: int) -> None:
        """Change the window's length at the present instant. A longer one starts without what was forgotten."""
        self.measure(self._now)
        start = self._now - self.window
        stretches = list(self._stretches)
        if self._edge_held:
            stretches.insert(0, (start, self._edge_end, self._edge_held))
        self.window = window
        self._since = max(self._since, start)
        self._stretches.clear()
        self._squares = self._lengths = self._edge_held = 0
        for begin, end, held in stretches:
            self._remember(begin, end, held)

    def history(self) -> int:
        """Return ``H * window**2`` at the present instant, an exact integer."""
        return self.measure(self._now)[0]

    def measure(self, now: int) -> tuple[int, int]:
        """Return ``H * window**2`` at ``now`` ms, not before the present instant, and the plain integral of h.

        Whatever is held later, the first falls no faster than by twice the second a millisecond.
        """
        window, held = self.window, self.held
        start = now - window
        if self._stretches and self._stretches[0][0] < start:
            self._forget(start)
        area = self._lengths
        moment = self._squares - 2 * start * area
        if self._edge_held:
            inside = self._edge_end - start
            if inside > 0:
                area += self._edge_held * inside
                moment += self._edge_held * inside * inside
            else:
                self._edge_held = 0
        if held:
            before = self._since - start
            if before <= 0:
                area += held * window
                moment += held * window * window
            else:
                area += held * (window - before)
                moment += held * (window * window - before * before)
        return moment, area

    def copy(self) -> UsageWindow:
        """Return one that shares nothing with this one."""
        other = copy(self)
        other._stretches = self._stretches.copy()
        return other

    def _remember(self, begin: int, end: int, held: int) -> None:
        self._stretches.append((begin, end, held))
        self._squares += held * (end * end - begin * begin)
        self._lengths += held * (end - begin)

    def _forget(self, start: int) -> None:
        """Take stretches that began before the window out of both sums; the last one may reach into it."""
        while self._stretches and self._stretches[0][0] < start:
            begin, end, held = self._stretches.popleft()
            self._squares -= held * (end * end - begin * begin)
            self._lengths -= held * (end - begin)
            self._edge_end, self._edge_held = end, held
