"""Quota arithmetic: what each quota share holds of each instance type, and whether one more job may be placed.

The rules, all for one instance type; L is a share's limit, H what it holds, E the environment's limit:

* a share's own capacity is L; what it holds above is borrowed, or left over from a limit that was lowered;
* LEND_AND_BORROW shares may hold up to ``L + floor(L * borrow_limit / 100)``, or any number without a borrow limit;
* what is borrowed, by all together, is at most what the *other* shares that lend have idle. Capacity of the environment
  that belongs to no share is not lent (case QM-3: 4 + 4 is all that can be borrowed, in an environment of 10 or more);
* what RESERVE shares have idle is kept for them;
* limits may promise more than E: then the excess is taken off what is kept, and own capacity is first come, first
  served.

Sources: https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html,
https://docs.aws.amazon.com/batch/latest/APIReference/API_QuotaShareResourceSharingConfiguration.html; what they leave
open is section 11.2 of the project's AWS notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from fairshare.model import SharingStrategy

Needs = tuple[tuple[str, int], ...]
"""(instance type, instances) of a job."""


@dataclass(frozen=True)
class Terms:
    """What a quota share may use; see `fairshare.scheduler.commands.PutQuotaShare`."""

    limits: Mapping[str, int]
    sharing: SharingStrategy
    borrow_limit: int
    in_share_preemption: bool

    @cached_property
    def lends(self) -> bool:
        """Whether others may use what is idle."""
        return self.sharing != SharingStrategy.RESERVE

    @cached_property
    def borrows(self) -> bool:
        """Whether the share may use what others have idle."""
        return self.sharing == SharingStrategy.LEND_AND_BORROW

    def limit(self, instance_type: str) -> int:
        """Return the share's own capacity."""
        return self.limits.get(instance_type, 0)

    def ceiling(self, instance_type: str) -> int | None:
        """Return the most that the share may hold, if that does not depend on the others."""
        own = self.limit(instance_type)
        if not self.borrows:
            return own
        return None if self.borrow_limit < 0 else own + own * self.borrow_limit // 100


class Books:
    """Holdings by quota share and instance type. What was taken can be given back: that is how a what-if ends.

    Sums over the shares are kept by instance type, so that a question costs the same however many shares there are.
    New books are empty.
    """

    def __init__(self, limits: Mapping[str, int], terms: Mapping[str, Terms]) -> None:
        self.limits = limits
        self._terms = terms
        self._use: dict[str, dict[str, int]] = {name: {} for name in terms}
        self._free = dict(limits)
        self._borrowed: dict[str, int] = {}
        self._lendable: dict[str, int] = {}
        """What shares that lend have idle."""
        self._reserved: dict[str, int] = {}
        """What the others have idle, less what limits promise above what there is."""
        for own in terms.values():
            idle = self._lendable if own.lends else self._reserved
            for kind, number in own.limits.items():
                idle[kind] = idle.get(kind, 0) + number
        for kind in self._reserved:
            promised = sum(own.limit(kind) for own in terms.values())
            self._reserved[kind] -= max(0, promised - limits.get(kind, 0))

    def copy(self) -> Books:
        """Return books that can be changed without touching these."""
        twin = copy(self)
        twin._use = {name: held.copy() for name, held in self._use.items()}
        twin._free, twin._borrowed = self._free.copy(), self._borrowed.copy()
        twin._lendable, twin._reserved = self._lendable.copy(), self._reserved.copy()
        return twin

    @property
    def has_room(self) -> bool:
        """Whether anything is free."""
        return any(number > 0 for number in self._free.values())

    def take(self, share: str, needs: Needs) -> None:
        """Count a job as held."""
        for kind, number in needs:
            self._move(share, kind, number)

    def give_back(self, share: str, needs: Needs) -> None:
        """Count it no longer."""
        for kind, number in needs:
            self._move(share, kind, -number)

    def is_own(self, share: str, needs: Needs) -> bool:
        """Whether a job would be within the share's own capacity and the environment's, were all of that free."""
        terms = self._terms[share]
        for kind, number in needs:
            if self._held(share, kind) + number > terms.limit(kind) or number > self.limits.get(kind, 0):
                return False
        return True

    def has_excess(self, share: str, kind: str) -> bool:
        """Whether a share holds more than its own capacity of an instance type."""
        return self._held(share, kind) > self._terms[share].limit(kind)

    def fits(self, share: str, needs: Needs, may_borrow: bool) -> bool:
        """Whether a job may be placed: on the share's own capacity, or else on what others have idle."""
        return all(self._fits(share, kind, number, may_borrow) for kind, number in needs)

    def is_short(self, share: str, kind: str, number: int, may_borrow: bool = False) -> bool:
        """Whether a job cannot be placed for want of an instance type."""
        return not self._fits(share, kind, number, may_borrow)

    def _move(self, share: str, kind: str, number: int) -> None:
        use, terms = self._use[share], self._terms[share]
        before = use.get(kind, 0)
        after = use[kind] = before + number
        own = terms.limit(kind)
        self._free[kind] = self._free.get(kind, 0) - number
        if before < own or after < own:
            idle = self._lendable if terms.lends else self._reserved
            idle[kind] += max(0, own - after) - max(0, own - before)
        if terms.borrows and (before > own or after > own):
            self._borrowed[kind] = self._borrowed.get(kind, 0) + max(0, after - own) - max(0, before - own)

    def _fits(self, share: str, kind: str, number: int, may_borrow: bool) -> bool:
        terms = self._terms[share]
        held, own = self._held(share, kind), terms.limit(kind)
        idle = max(0, own - held)
        kept = max(0, self._reserved.get(kind, 0) - (0 if terms.lends else idle))
        if number > self._free.get(kind, 0) - kept:
            return False
        if held + number <= own:
            return True
        ceiling = terms.ceiling(kind)
        if not may_borrow or not terms.borrows or (ceiling is not None and held + number > ceiling):
            return False
        more = held + number - max(held, own)
        return self._borrowed.get(kind, 0) + more <= self._lendable.get(kind, 0) - idle

    def _held(self, share: str, kind: str) -> int:
        return self._use[share].get(kind, 0)


def obstacle(share: str, needs: Needs, terms: Mapping[str, Terms]) -> str | None:
    """Return why a job can never be placed in its share, in AWS's words; None: it can.

    https://docs.aws.amazon.com/batch/latest/userguide/sm_job_stuck_in_runnable_capacity.html and its sibling pages on
    blocked service queues.
    """
    own = terms[share]
    for kind, number in needs:
        ceiling = own.ceiling(kind)
        if ceiling is not None and number > ceiling:
            if own.borrows:
                return "Job requirements exceed quota share capacity limits and borrow limits."
            return "Job requirements exceed quota share capacity limits."
        lent = sum(other.limit(kind) for name, other in terms.items() if name != share and other.lends)
        if number > own.limit(kind) + lent and own.borrows:
            return "Job requires borrowing that exceeds all configured borrowable capacity."
    return None
