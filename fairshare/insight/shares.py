"""What each share is due and what it holds, at this moment.

The scheduler weighs use over a window of time; a listing knows only the present. So a standing here says who holds
more or less than its due *now*, not who is served next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from fairshare.insight.jobs import total_instances
from fairshare.model import IN_USE_STATUSES, TERMINAL_STATUSES, JobStatus, JobSummary
from fairshare.scheduler.policy import matching_entry, share_fractions

_UNLISTED_WEIGHT: Final = "1"
"""AWS's weight for an identifier that no entry covers (API_FairsharePolicy)."""

_LEVEL: Final = Fraction(1, 200)
"""Half a percentage point: less than that off its due counts as level."""


@dataclass(frozen=True)
class ShareRow:
    """One share identifier. Portions are of the capacity in use, 0 to 1; times are milliseconds."""

    share_identifier: str
    weight_factor: str
    """Weight of the policy entry that covers it; ``1`` when none does."""
    entry: str | None
    """That entry: the identifier itself or a prefix such as ``TEAM*``; None when the policy does not list the share."""
    target: Fraction
    """Portion when all shares are busy."""
    active_target: Fraction | None
    """Portion among the shares that have jobs now; None for a share without any."""
    instances: int
    """Held now, by jobs in SCHEDULED, STARTING and RUNNING."""
    runnable: int
    """Jobs in RUNNABLE."""
    oldest_wait: int | None
    """Of its RUNNABLE jobs, since they were created."""
    standing: str
    """In words for people."""


@dataclass(frozen=True)
class ShareTable:
    """The shares of a fair-share queue, most due first."""

    queue: str
    rows: tuple[ShareRow, ...]
    instances_in_use: int


@dataclass(frozen=True)
class _Held:
    """What the jobs of one identifier amount to."""

    instances: int
    runnable: int
    oldest_created_at: int | None


def share_table(queue: str, weights: Mapping[str, str], jobs: Iterable[JobSummary], *, now: int) -> ShareTable:
    """Return the table for a queue.

    Args:
        queue: its name, for display.
        weights: weight factor by policy entry, as decimal text (lower = more).
        jobs: those that have not ended; others are ignored. Identifiers that the policy does not list get a row, too,
            at AWS's weight of 1.
        now: milliseconds since the epoch.
    """
    by_share: dict[str, list[JobSummary]] = {}
    for job in jobs:
        if job.share_identifier is not None and job.status not in TERMINAL_STATUSES:
            by_share.setdefault(job.share_identifier, []).append(job)
    held = {share: _sum_up(members) for share, members in by_share.items()}
    entries = _entries_by_share(weights, held)
    all_weights = {entry: weights.get(entry, _UNLISTED_WEIGHT) for entry in entries.values()}
    targets = _split(all_weights, entries)
    active = {share: entry for share, entry in entries.items() if share in held}
    active_targets = _split({entry: all_weights[entry] for entry in active.values()}, active)
    in_use = sum(share.instances for share in held.values())
    standings = _standings(active_targets, held, in_use)
    rows = [
        ShareRow(
            share_identifier=share,
            weight_factor=all_weights[entry],
            entry=entry if entry in weights else None,
            target=targets[share],
            active_target=active_targets.get(share),
            instances=held[share].instances if share in held else 0,
            runnable=held[share].runnable if share in held else 0,
            oldest_wait=_wait(held.get(share), now),
            standing=standings.get(share, "idle, its portion goes to the others"),
        )
        for share, entry in entries.items()
    ]
    return ShareTable(queue, tuple(sorted(rows, key=lambda row: (-row.target, row.share_identifier))), in_use)


def _sum_up(jobs: list[JobSummary]) -> _Held:
    runnable = [job for job in jobs if job.status == JobStatus.RUNNABLE]
    return _Held(
        instances=total_instances(job for job in jobs if job.status in IN_USE_STATUSES),
        runnable=len(runnable),
        oldest_created_at=min((job.created_at for job in runnable), default=None),
    )


def _entries_by_share(weights: Mapping[str, str], held: Mapping[str, _Held]) -> dict[str, str]:
    """Map each identifier to show to its policy entry, or to itself. A prefix entry that nobody uses shows as it is."""
    covered = {share: matching_entry(share, weights) or share for share in held}
    unused = [entry for entry in weights if entry not in covered.values()]
    return covered | {entry: entry for entry in unused}


def _split(weights: Mapping[str, str], entries: Mapping[str, str]) -> dict[str, Fraction]:
    """Portions by identifier: those that one prefix entry covers divide its portion (facts, section 1.5)."""
    fractions = share_fractions(weights)
    members: dict[str, int] = {}
    for entry in entries.values():
        members[entry] = members.get(entry, 0) + 1
    return {share: fractions[entry] / members[entry] for share, entry in entries.items()}


def _wait(held: _Held | None, now: int) -> int | None:
    return None if held is None or held.oldest_created_at is None else max(0, now - held.oldest_created_at)


def _standings(targets: Mapping[str, Fraction], held: Mapping[str, _Held], in_use: int) -> dict[str, str]:
    if in_use == 0:
        return {share: "waits, nothing runs yet" if held[share].runnable else "nothing runs yet" for share in targets}
    excess = {share: Fraction(held[share].instances, in_use) - target for share, target in targets.items()}
    owed = [share for share in targets if excess[share] < -_LEVEL and held[share].runnable]
    return {share: _standing(excess[share], held[share].runnable, owed) for share in targets}


def _standing(excess: Fraction, runnable: int, owed: list[str]) -> str:
    if abs(excess) <= _LEVEL:
        return "at its due"
    points = max(1, round(abs(excess) * 100))
    distance = f"{points} point{'' if points == 1 else 's'}"
    if excess > 0:
        return f"over by {distance}" + (f", waits for {_listed(owed)}" if runnable and owed else "")
    return f"under by {distance}" + ("" if runnable else ", asks for no more")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
