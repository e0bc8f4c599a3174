"""A simulation as text for people: policies side by side, then shares, then the largest jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fairshare.cli.render import Column, count, elapsed, safe, table

if TYPE_CHECKING:
    from fairshare.simulate.course import Course
    from fairshare.simulate.figures import Figures, Waits
    from fairshare.simulate.workload import Workload

_MOST_SHARES: Final = 12

_WAITS: Final = (Column("WAIT P50", right=True), Column("P95", right=True), Column("MAX", right=True))


def simulation_text(
    workload: Workload, results: Sequence[tuple[Course, Figures]], notes: Sequence[str], width: int | None
) -> str:
    """Return the whole screen."""
    policies = [figures for _, figures in results]
    jobs, shares = count(len(workload.jobs), "job"), count(len(policies[0].shares), "share")
    pools = " or ".join(dict.fromkeys(_pool(course) for course, _ in results))
    parts = [
        f"{safe(workload.name)}: {jobs}, {shares}, on {pools}",
        _policies(policies, width),
        _shares(policies, width),
        _preemptions(policies, width),
        _largest(policies, width),
        "\n".join(safe(note) for note in notes),
    ]
    return "\n\n".join(part for part in parts if part)


def _pool(course: Course) -> str:
    capacity = course.setting.capacity_of(course.setting.queue)
    return f"{count(capacity, 'instance')} of {safe(course.setting.queues[course.setting.queue].environment)}"


def _policies(policies: Sequence[Figures], width: int | None) -> str:
    columns = (
        Column("POLICY", shrinks=True),
        *_WAITS,
        Column("USE", right=True),
        Column("AT PEAK", right=True),
        Column("JOBS/H", right=True),
        Column("OFF", right=True),
        Column("JAIN", right=True),
    )
    rows = [
        [
            each.name,
            *_wait_cells(each.waits),
            _percent(each.utilization),
            _percent(each.utilization_at_peak),
            f"{each.jobs_per_hour:,.1f}",
            _percent(each.share_error),
            "-" if each.jain is None else f"{each.jain:.2f}",
        ]
        for each in policies
    ]
    return "\n".join([table(columns, rows, width), *_remarks(policies)])


def _remarks(policies: Sequence[Figures]) -> list[str]:
    lines = []
    for each in policies:
        if each.starvation:
            who = f"longest time without any instance while waiting: {elapsed(round(each.starvation * 1000))}"
            lines.append(f"{safe(each.name)}: {who} ({safe(each.starved_share)})")
        if stopped := each.preempted.attempts:
            lost = elapsed(round(each.preempted.lost * 1000))
            lines.append(f"{safe(each.name)}: {count(stopped, 'preemption')}, {lost} of instance time lost")
    return lines


def _shares(policies: Sequence[Figures], width: int | None) -> str:
    if len(policies[0].shares) < 2:
        return ""
    columns = (
        Column("SHARE", shrinks=True),
        Column("POLICY", shrinks=True),
        Column("JOBS", right=True),
        *_WAITS,
        Column("GOT", right=True),
        Column("DUE", right=True),
    )
    order = sorted(policies[0].shares, key=lambda share: (-share.capacity_fraction, share.name))
    names = [share.name for share in order[:_MOST_SHARES]]
    by_policy = [(policy.name, {share.name: share for share in policy.shares}) for policy in policies]
    rows = []
    for name in names:
        for number, (policy, shares) in enumerate(by_policy):
            share = shares[name]
            got, due = _percent(share.capacity_fraction), _percent(share.due_fraction)
            cells = [policy, str(share.jobs), *_wait_cells(share.waits), got, due]
            rows.append(["" if number else name, *cells])
    more = len(order) - len(names)
    lines = [table(columns, rows, width)]
    return "\n".join([*lines, f"and {count(more, 'share')} that used less (-o json has all)"] if more > 0 else lines)


def _preemptions(policies: Sequence[Figures], width: int | None) -> str:
    """Show who lost work to whom, and how much; nothing where nobody was preempted."""
    columns = (
        Column("PREEMPTED", shrinks=True),
        Column("POLICY", shrinks=True),
        Column("CROSS-SHARE", right=True),
        Column("IN-SHARE", right=True),
        Column("TIME LOST", right=True),
    )
    losers = [(share, policy.name) for policy in policies for share in policy.shares if share.preempted.attempts]
    losers.sort(key=lambda loser: -loser[0].preempted.lost)
    rows = [
        [share.name, policy, *map(str, share.preempted.by_kind.values()), elapsed(round(share.preempted.lost * 1000))]
        for share, policy in losers[:_MOST_SHARES]
    ]
    lines = [table(columns, rows, width)] if rows else []
    more = len(losers) - len(rows)
    return "\n".join([*lines, f"and {count(more, 'share')} that lost less (-o json has all)"] if more > 0 else lines)


def _largest(policies: Sequence[Figures], width: int | None) -> str:
    """Show the jobs that are hardest to place: a policy that is good on average may starve them."""
    if len(policies[0].sizes) < 2:
        return ""
    columns = (Column("LARGEST JOBS"), Column("POLICY", shrinks=True), Column("JOBS", right=True), *_WAITS)
    rows = []
    for number, policy in enumerate(policies):
        size = policy.sizes[-1]
        span = f"{size.smallest}-{size.largest}" if size.smallest < size.largest else str(size.largest)
        named = "" if number else f"{span} instances"
        rows.append([named, policy.name, str(size.waits.jobs), *_wait_cells(size.waits)])
    return table(columns, rows, width)


def _wait_cells(waits: Waits) -> list[str]:
    return [elapsed(round(seconds * 1000)) if waits.jobs else "-" for seconds in (waits.p50, waits.p95, waits.max)]


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part * 100:.0f} %"
