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
from dataclasses import dataclass

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

    @property
    def lends(self) -> bool:
        """Whether others may use what is idle."""
        return self.sharing != SharingStrategy.RESERVE

    @property
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
    """Holdings by quota share and instance type. A copy is a what-if."""

    def __init__(
        self, limits: Mapping[str, int], terms: Mapping[str, Terms], use: Mapping[str, Mapping[str, int]]
    ) -> None:
        self._limits = limits
        self._terms = terms
        self._use = {name: dict(held) for name, held in use.items()}

    def copy(self) -> Books:
        """Return books that can be changed without touching these."""
        return Books(self._limits, self._terms, self._use)

    def take(self, share: str, needs: Needs) -> None:
        """Count a job as held."""
        use = self._use[share]
        for instance_type, number in needs:
            use[instance_type] = use.get(instance_type, 0) + number

    def give_back(self, share: str, needs: Needs) -> None:
        """Count it no longer."""
        for instance_type, number in needs:
            self._use[share][instance_type] -= number

    def is_own(self, share: str, needs: Needs) -> bool:
        """Whether a job would be within the share's own capacity and the environment's, were all of that free."""
        terms = self._terms[share]
        return all(
            self._held(share, kind) + number <= terms.limit(kind) and number <= self._limits.get(kind, 0)
            for kind, number in needs
        )

    def has_excess(self, share: str, kind: str) -> bool:
        """Whether a share holds more than its own capacity of an instance type."""
        return self._held(share, kind) > self._terms[share].limit(kind)

    def fits(self, share: str, needs: Needs, may_borrow: bool) -> bool:
        """Whether a job may be placed: on the share's own capacity, or else on what others have idle."""
        return all(self._fits(share, kind, number, may_borrow) for kind, number in needs)

    def is_short(self, share: str, kind: str, number: int, may_borrow: bool = False) -> bool:
        """Whether a job cannot be placed for want of an instance type."""
        return not self._fits(share, kind, number, may_borrow)

    def _fits(self, share: str, kind: str, number: int, may_borrow: bool) -> bool:
        terms = self._terms[share]
        held, own = self._held(share, kind), terms.limit(kind)
        if number > self._free(kind) - self._kept(share, kind):
            return False
        if held + number <= own:
            return True
        ceiling = terms.ceiling(kind)
        if not may_borrow or not terms.borrows or (ceiling is not None and held + number > ceiling):
            return False
        more = held + number - max(held, own)
        return self._borrowed(kind) + more <= self._lendable(share, kind)

    def _held(self, share: str, kind: str) -> int:
        return self._use[share].get(kind, 0)

    def _free(self, kind: str) -> int:
        return self._limits.get(kind, 0) - sum(self._held(share, kind) for share in self._use)

    def _idle(self, share: str, kind: str) -> int:
        return max(0, self._terms[share].limit(kind) - self._held(share, kind))

    def _kept(self, share: str, kind: str) -> int:
        """Return what RESERVE shares keep from another share."""
        idle = sum(
            self._idle(other, kind) for other, terms in self._terms.items() if other != share and not terms.lends
        )
        promised = sum(terms.limit(kind) for terms in self._terms.values())
        return max(0, idle - max(0, promised - self._limits.get(kind, 0)))

    def _borrowed(self, kind: str) -> int:
        return sum(
            max(0, self._held(share, kind) - terms.limit(kind)) for share, terms in self._terms.items() if terms.borrows
        )

    def _lendable(self, share: str, kind: str) -> int:
        return sum(self._idle(other, kind) for other, terms in self._terms.items() if other != share and terms.lends)


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
