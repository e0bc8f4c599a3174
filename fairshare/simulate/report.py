"""A comparison as one HTML page: it holds everything, asks nobody for anything and runs no script.

It follows the reader's light or dark, and fits a telephone. What is drawn is explained where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from math import exp, log
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.model import MODEL_VERSION
from fairshare.scheduler.engine import Preemption
from fairshare.simulate.charts import (
    COLOURS,
    Axes,
    Series,
    Tick,
    axis_top,
    clock_label,
    colour,
    duration_label,
    legend,
    line_chart,
    time_ticks,
    value_ticks,
)
from fairshare.simulate.course import NOT_YET, Course
from fairshare.simulate.figures import Figures, Waits, percentile
from fairshare.simulate.gantt import busiest_span, environments_of, gantt_chart, has_preempted
from fairshare.simulate.timeline import Timeline
from fairshare.simulate.workload import Workload

Result = tuple[Course, Figures]

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: should anything ask for the network after all, the browser refuses."""

_OTHERS: Final = "others"
_POINTS: Final = 160
"""Of the distribution of waits."""

_WAIT_TICKS: Final = (1, 60, 600, 3_600, 6 * 3_600, 86_400, 4 * 86_400, 20 * 86_400, 100 * 86_400)


def report_page(workload: Workload, results: Sequence[Result], notes: Sequence[str]) -> str:
    """Return the page for one workload under several settings."""
    colours = share_colours(results[0][1])
    parts = [
        _summary(results),
        _waiting(results),
        _distribution(results),
        _usage(results, colours),
        _gantt(results, colours),
        _share_table(results),
        _preemption_table(results),
        _size_table(results),
    ]
    style = files("fairshare.simulate").joinpath("report.css").read_text(encoding="utf-8")
    title = f"{workload.name}: {len(results)} policies side by side" if len(results) > 1 else workload.name
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f'<title>{escape(title)}</title><link rel="icon" href="data:,">',
            f"<style>\n{style}</style></head><body>",
            _header(workload, results, title),
            *(part for part in parts if part),
            _footer(notes),
            "</body></html>\n",
        ]
    )


def share_colours(figures: Figures) -> dict[str, str]:
    """Return a colour class for each share: one of its own for those that used most, grey for the others."""
    order = sorted(figures.shares, key=lambda share: (-share.capacity_fraction, share.name))
    own = COLOURS - 1 if len(order) > COLOURS else COLOURS
    return {share.name: colour(number if number < own else COLOURS - 1) for number, share in enumerate(order)}


def _header(workload: Workload, results: Sequence[Result], title: str) -> str:
    course, figures = results[0]
    pools = ", ".join(f"{name} {course.setting.environments[name].max_capacity}" for name in environments_of(course))
    span = format_duration((workload.jobs[-1].submit_at - workload.jobs[0].submit_at) // 1000)
    text = (
        f"{_count(len(workload.jobs), 'job')} of {_count(len(figures.shares), 'share')} within {span}. "
        f"Instances: {pools}. Simulated with model {MODEL_VERSION} of AWS Batch's scheduler."
    )
    return f"<header><h1>{escape(title)}</h1><p>{escape(text)}</p></header>"


def _footer(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<footer>What this rests on:<ul>{items}</ul></footer>"


def _section(title: str, why: str, *parts: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="why">{escape(why)}</p>{"".join(parts)}</section>'


# -- tables ----------------------------------------------------------------------------------------------------------

_Figure = tuple[str, Callable[[Figures], float | None], Callable[[float], str], bool]
"""Title, value, text of a value, and whether more is better."""


def _summary(results: Sequence[Result]) -> str:
    figures: tuple[_Figure, ...] = (
        ("median wait", lambda f: f.waits.p50, _seconds, False),
        ("p95 wait", lambda f: f.waits.p95, _seconds, False),
        ("longest wait", lambda f: f.waits.max, _seconds, False),
        ("use of the pool", lambda f: f.utilization, _percent, True),
        ("use while jobs wait", lambda f: f.utilization_at_peak, _percent, True),
        ("jobs an hour", lambda f: f.jobs_per_hour, lambda value: f"{value:,.1f}", True),
        ("slowdown", lambda f: f.slowdown, lambda value: f"{value:,.1f}", False),
        ("wrong share got", lambda f: f.share_error, _percent, False),
        ("fairness (Jain)", lambda f: f.jain, lambda value: f"{value:.2f}", True),
        ("longest starvation", lambda f: f.starvation, _seconds, False),
        ("preemptions", lambda f: f.preempted.attempts, _number, False),
        ("instance time lost", lambda f: f.preempted.lost, _seconds, False),
        ("jobs ended by a time limit", lambda f: sum(f.given_up.values()), _number, False),
        ("jobs that never ended", lambda f: f.unfinished, _number, False),
    )
    heads = "".join(f"<th>{escape(f.name)}</th>" for _, f in results)
    rows = "".join(_summary_row(figure, [f for _, f in results]) for figure in figures)
    why = (
        "The best value of a row is bold. A policy that is better for one share, or one size, may be worse for others."
    )
    table = f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    return _section("At a glance", why, table)


def _summary_row(figure: _Figure, policies: Sequence[Figures]) -> str:
    title, value_of, text_of, more_is_better = figure
    values = [value_of(policy) for policy in policies]
    known = [value for value in values if value is not None]
    if not any(known):
        return ""
    best = (max if more_is_better else min)(known, default=None)
    differs = len(set(known)) > 1
    cells = "".join(
        f'<td class="{"best" if differs and value == best else ""}">{"-" if value is None else text_of(value)}</td>'
        for value in values
    )
    return f"<tr><td>{escape(title)}</td>{cells}</tr>"


def _share_table(results: Sequence[Result]) -> str:
    if len(results[0][1].shares) < 2:
        return ""
    order = sorted(results[0][1].shares, key=lambda share: (-share.capacity_fraction, share.name))
    by_policy = [(f.name, {share.name: share for share in f.shares}) for _, f in results]
    groups = []
    for share in order[:40]:
        rows = []
        for number, (policy, shares) in enumerate(by_policy):
            one = shares[share.name]
            parts = f"<td>{_percent(one.capacity_fraction)}</td><td>{_percent(one.due_fraction)}</td>"
            name = "" if number else share.name
            rows.append(_wait_row(name, policy, one.jobs, one.waits, parts))
        groups.append(f"<tbody>{''.join(rows)}</tbody>")
    more = len(order) - 40
    why = "What a share was due follows from its weight and from what it asked for, hour by hour."
    why += f" {more} shares that used less are not shown." if more > 0 else ""
    return _section("Shares", why, _wait_table("share", groups, "<th>got</th><th>due</th>"))


def _preemption_table(results: Sequence[Result]) -> str:
    """Say who lost work under which policy, and to whom; nothing where nobody did."""
    groups = []
    for name in (share.name for share in results[0][1].shares):
        found = [(f.name, share.preempted) for _, f in results for share in f.shares if share.name == name]
        rows = [(policy, each) for policy, each in found if each.attempts]
        cells = [
            f'<tr><td>{"" if number else escape(name)}</td><td class="word">{escape(policy)}</td>'
            f"<td>{each.attempts:,}</td>{''.join(f'<td>{each.by_kind[kind]:,}</td>' for kind in Preemption)}"
            f"<td>{_seconds(each.lost)}</td></tr>"
            for number, (policy, each) in enumerate(rows)
        ]
        groups += [f"<tbody>{''.join(cells)}</tbody>"] if cells else []
    if not groups:
        return ""
    why = (
        "Attempts that were stopped before their end: cross-share to give lent instances back to their owner, in-share "
        "for a job of higher priority. They begin again from nothing, so their instance time is lost."
    )
    heads = (
        "<th>share</th><th></th><th>preemptions</th><th>cross-share</th><th>in-share</th><th>instance time lost</th>"
    )
    table = f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>{"".join(groups)}</table></div>'
    return _section("Preemptions", why, table)


def _size_table(results: Sequence[Result]) -> str:
    if len(results[0][1].sizes) < 2:
        return ""
    groups = []
    for row, size in enumerate(results[0][1].sizes):
        span = f"{size.smallest}-{size.largest}" if size.smallest < size.largest else f"{size.largest}"
        rows = [
            _wait_row("" if number else span, f.name, f.sizes[row].waits.jobs, f.sizes[row].waits)
            for number, (_, f) in enumerate(results)
        ]
        groups.append(f"<tbody>{''.join(rows)}</tbody>")
    why = (
        "Large jobs need many instances at once. A policy that lets small ones pass may starve them: see the last rows."
    )
    return _section("Waits by size", why, _wait_table("instances", groups))


def _wait_table(first: str, groups: Sequence[str], more: str = "") -> str:
    heads = f"<th>{first}</th><th></th><th>jobs</th><th>median wait</th><th>p95</th><th>longest</th>{more}"
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>{"".join(groups)}</table></div>'


def _wait_row(name: str, policy: str, jobs: int, waits: Waits, more: str = "") -> str:
    cells = "".join(f"<td>{_seconds(value) if waits.jobs else '-'}</td>" for value in (waits.p50, waits.p95, waits.max))
    return f'<tr><td>{escape(name)}</td><td class="word">{escape(policy)}</td><td>{jobs:,}</td>{cells}{more}</tr>'


# -- charts ----------------------------------------------------------------------------------------------------------


def _waiting(results: Sequence[Result]) -> str:
    end = max(course.end for course, _ in results)
    lines = [
        Series(f.name, colour(number), _spread(f.timeline, f.timeline.waiting, end))
        for number, (_, f) in enumerate(results)
    ]
    top = axis_top([value for line in lines for value in line.values])
    begin = results[0][0].begin
    step = (end - begin) / len(lines[0].values)
    hints = [
        clock_label(round(begin + number * step))
        + "".join(f"\n{line.name}: {line.values[number] or 0:,.0f}" for line in lines)
        for number in range(len(lines[0].values))
    ]
    axes = Axes(top, time_ticks(begin, end), value_ticks(top))
    chart = line_chart("Jobs waiting over time", lines, axes, hints)
    return _section("Jobs waiting", "How many jobs stand in line, over time.", _policy_legend(results), chart)


def _spread(timeline: Timeline, values: Sequence[float], end: int) -> list[float | None]:
    """Return values on a scale that ends at ``end``: policies end at different times."""
    count = len(values)
    width = (end - timeline.begin) / count
    indexes = (int(number * width / timeline.step) for number in range(count))
    return [values[index] if index < count else 0.0 for index in indexes]


def _distribution(results: Sequence[Result]) -> str:
    """Draw which part of the jobs started within a time, on a scale of logarithms."""
    longest = max(max(f.waits.max for _, f in results), 60.0)
    first = _first_tick(results, longest)
    scale = log(longest / first)
    bounds = [first * exp(scale * (number + 1) / _POINTS) for number in range(_POINTS)]
    lines = [Series(f.name, colour(number), _started(c, bounds)) for number, (c, f) in enumerate(results)]
    x: list[Tick] = [(log(s / first) / scale, duration_label(s)) for s in _WAIT_TICKS if first <= s <= longest]
    axes = Axes(1.0, x, [(0.0, "0"), (0.5, "50 %"), (1.0, "100 %")])
    hints = [
        f"within {duration_label(bound)}" + "".join(f"\n{line.name}: {_percent(line.values[k])}" for line in lines)
        for k, bound in enumerate(bounds)
    ]
    chart = line_chart("Part of the jobs that started within a time", lines, axes, hints)
    why = (
        "Which part of the jobs had started after waiting so long. Higher is better; the scale of time is logarithmic."
    )
    return _section("How long jobs wait", why, _policy_legend(results), chart)


def _first_tick(results: Sequence[Result], longest: float) -> float:
    """Return where the scale begins, in seconds: where a tenth of the jobs of the quickest policy has started."""
    quick = min(percentile(_waits_of(course), 10) for course, _ in results) / 1000
    return float(max((tick for tick in _WAIT_TICKS if tick <= quick and tick < longest), default=_WAIT_TICKS[0]))


def _waits_of(course: Course) -> list[int]:
    """Return the waits in ms of the jobs that started, in ascending order."""
    starts = zip(course.first_starts, course.workload.jobs, strict=True)
    return sorted(start - job.submit_at for start, job in starts if start != NOT_YET)


def _started(course: Course, bounds: Sequence[float]) -> list[float | None]:
    """Return the part of the jobs that had started within each of some times, in ascending order of seconds."""
    waits = _waits_of(course)
    parts: list[float | None] = []
    reached = 0
    for bound in bounds:
        while reached < len(waits) and waits[reached] <= bound * 1000 * (1 + 1e-9):
            reached += 1
        parts.append(reached / len(course.workload.jobs))
    return parts


def _usage(results: Sequence[Result], colours: Mapping[str, str]) -> str:
    parts = []
    for course, figures in results:
        timeline = figures.timeline
        ticks = time_ticks(timeline.begin, course.end, most=4)
        panels = "".join(_panel(name, css, used, due, ticks) for name, css, used, due in _lanes(timeline, colours))
        parts.append(f'<h3>{escape(figures.name)}</h3><div class="many">{panels}</div>')
    why = (
        "Instances each share used (filled) against what it was due (dashed): what the queue handed out, divided by "
        "weight among those that wanted it. Filled above the line took from others; below, others took from it."
    )
    return _section("Use by share against its target", why, *parts)


def _lanes(timeline: Timeline, colours: Mapping[str, str]) -> list[tuple[str, str, list[float], list[float]]]:
    """Return (name, class, used, due) of the shares with a colour, the largest first; the grey ones as one."""
    lanes: dict[str, tuple[str, str, list[float], list[float]]] = {}
    grey = [name for name, css in colours.items() if css == colour(COLOURS - 1)]
    series = {name: (used, due) for name, used, due in zip(timeline.shares, timeline.used, timeline.due, strict=True)}
    for name, css in colours.items():
        used, due = series[name]
        if css not in lanes:
            label = f"{len(grey)} {_OTHERS}" if len(grey) > 1 and name in grey else name
            lanes[css] = (label, css, list(used), list(due))
        else:
            label, _, total, owed = lanes[css]
            added = [a + b for a, b in zip(total, used, strict=True)]
            lanes[css] = (label, css, added, [a + b for a, b in zip(owed, due, strict=True)])
    return list(lanes.values())


def _panel(name: str, css: str, used: Sequence[float], due: Sequence[float], ticks: Sequence[Tick]) -> str:
    top = axis_top([*used, *due])
    series = [Series(f"{name}: used", css, used, "area"), Series(f"{name}: due", css, due, "dashed")]
    axes = Axes(top, ticks, value_ticks(top)[::2])
    return f"<div><h4>{escape(name)}</h4>{line_chart(f'Use of {name} over time', series, axes, small=True)}</div>"


def _gantt(results: Sequence[Result], colours: Mapping[str, str]) -> str:
    span = busiest_span([course for course, _ in results], [figures.timeline for _, figures in results])
    parts = []
    for course, figures in results:
        environments = environments_of(course)
        for environment in environments:
            name = figures.name if len(environments) == 1 else f"{figures.name}, {environment}"
            parts.append(f"<h3>{escape(name)}</h3>{gantt_chart(course, environment, span, colours)}")
    why = (
        f"{span.hours} hours from {clock_label(span.begin)}, when most instances were wanted. Each row is an instance, "
        "each bar a job on it; free instances show the background."
    )
    is_marked = any(has_preempted(course, span) for course, _ in results)
    return _section("The busiest day", why, _share_legend(colours, has_cut=is_marked), *parts)


def _policy_legend(results: Sequence[Result]) -> str:
    return legend([(colour(number), f.name) for number, (_, f) in enumerate(results)])


def _share_legend(colours: Mapping[str, str], *, has_cut: bool) -> str:
    grey = [name for name, css in colours.items() if css == colour(COLOURS - 1)]
    entries = [(css, name) for name, css in colours.items() if name not in grey]
    if grey:
        entries.append((colour(COLOURS - 1), grey[0] if len(grey) == 1 else f"{len(grey)} {_OTHERS}"))
    if has_cut:
        entries.append(("cut", "pale, with a line at the end: preempted, its work lost"))
    return legend(entries)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _seconds(value: float) -> str:
    return format_duration(round(value))


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part * 100:.0f} %"
