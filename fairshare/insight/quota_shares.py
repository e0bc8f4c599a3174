"""What each quota share of a queue owns, holds, borrows and has idle, at this moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairshare.model import JobStatus, JobSummary, QueueSnapshot, QuotaShare, SharingStrategy


@dataclass(frozen=True)
class QuotaRow:
    """One instance type of one quota share, in instances. A type that it holds and does not own is a row, too."""

    quota_share: str
    instance_type: str
    owned: int
    held: int
    most: int | None
    """What it may hold at most, borrowed instances included; None = whatever others have idle."""
    sharing: SharingStrategy
    runnable: int
    """RUNNABLE jobs of the share, of whatever type."""
    oldest_wait: int | None
    """Of those, in ms since they were created."""
    is_enabled: bool = True

    @property
    def borrowed(self) -> int:
        """Held above what it owns; after a lower limit, what is left of the old one."""
        return max(0, self.held - self.owned)

    @property
    def idle(self) -> int:
        """Owned and not held: what others may use, unless the share reserves it."""
        return max(0, self.owned - self.held)

    @property
    def standing(self) -> str:
        """In words for people."""
        if not self.is_enabled:
            return "disabled: takes no new jobs"
        if self.borrowed:
            return f"borrows {self.borrowed}: preempted when their owners need them"
        if self.idle and self.sharing is SharingStrategy.RESERVE:
            return f"keeps {self.idle} idle for itself"
        if self.idle:
            return f"lends up to {self.idle}"
        return "uses all it owns" if self.owned else "owns none"


@dataclass(frozen=True)
class QuotaTable:
    """The quota shares of a queue by name; ``capacity`` and ``in_use`` are instances by type."""

    queue: str
    rows: tuple[QuotaRow, ...]
    capacity: Mapping[str, int]
    in_use: Mapping[str, int]


def quota_table(
    queue: str,
    shares: Mapping[str, QuotaShare],
    capacity: Mapping[str, int],
    snapshot: QueueSnapshot,
    jobs: Iterable[JobSummary],
    *,
    now: int,
) -> QuotaTable:
    """Return the table for a queue.

    Args:
        queue: its name, for display.
        shares: quota shares by name.
        capacity: instances of the environment by type.
        snapshot: of the queue: what each share holds.
        jobs: those that have not ended; only the RUNNABLE ones count.
        now: milliseconds since the epoch.
    """
    waiting: dict[str, list[int]] = {}
    for job in jobs:
        if job.quota_share is not None and job.status == JobStatus.RUNNABLE:
            waiting.setdefault(job.quota_share, []).append(job.created_at)
    in_use: dict[str, int] = {}
    for held in snapshot.instances_by_quota_share.values():
        for instance_type, number in held.items():
            in_use[instance_type] = in_use.get(instance_type, 0) + number
    rows = []
    for name, share in sorted(shares.items()):
        owned = {limit.capacity_unit: limit.max_capacity for limit in share.capacity_limits}
        holds = snapshot.instances_by_quota_share.get(name, {})
        for instance_type in dict.fromkeys([*sorted(owned), *sorted(holds)]):
            own = owned.get(instance_type, 0)
            rows.append(
                QuotaRow(
                    quota_share=name,
                    instance_type=instance_type,
                    owned=own,
                    held=holds.get(instance_type, 0),
                    most=_most(share, own),
                    sharing=share.sharing,
                    runnable=len(waiting.get(name, ())),
                    oldest_wait=max(0, now - min(waiting[name])) if name in waiting else None,
                    is_enabled=share.state == "ENABLED",
                )
            )
    return QuotaTable(queue, tuple(rows), capacity, in_use)


def _most(share: QuotaShare, owned: int) -> int | None:
    if share.sharing is not SharingStrategy.LEND_AND_BORROW:
        return owned
    return None if share.borrow_limit < 0 else owned + owned * share.borrow_limit // 100
