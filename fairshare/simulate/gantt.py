"""The busiest day as a Gantt chart: which job held which instances, and when.

The scheduler counts instances and does not number them. Here each job gets the lowest free rows, so a job of several
instances may be drawn in several pieces. An attempt that was preempted is pale, for its work is lost, and ends with a
line where it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from html import escape
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.scheduler.engine import Preemption
from fairshare.simulate.charts import WIDTH, Axes, clock_label, frame, time_ticks
from fairshare.simulate.course import AttemptView, Course
from fairshare.simulate.timeline import Timeline

_HOUR: Final = 3_600_000
_LENGTHS: Final = (24 * _HOUR, 12 * _HOUR, 6 * _HOUR, 3 * _HOUR, _HOUR)
_MOST_BARS: Final = 2_000
"""More bars than that are not seen but slow a telephone down: a shorter part of the day is shown then."""

_ROW_HEIGHT: Final = 14
_HEIGHTS: Final = (120, 380)
"""Smallest and largest height of a drawing, in CSS pixels."""


@dataclass(frozen=True)
class Span:
    """A piece of time, in ms since the workload began."""

    begin: int
    end: int

    @property
    def hours(self) -> int:
        """Its length."""
        return (self.end - self.begin) // _HOUR


def busiest_span(courses: Sequence[Course], timelines: Sequence[Timeline]) -> Span:
    """Return the day in which most instances were in use or waited for, over all courses together.

    If that is too much to draw, it is the first hours of that day.
    """
    wanted: dict[int, float] = {}
    for timeline in timelines:
        for number, amounts in enumerate(zip(*timeline.wanted, strict=True)):
            day = (timeline.begin + number * timeline.step + timeline.step // 2) // _LENGTHS[0]
            wanted[day] = wanted.get(day, 0.0) + sum(amounts) * timeline.step
    begin = max(wanted, key=lambda day: (wanted[day], -day)) * _LENGTHS[0]
    spans = [Span(begin, begin + length) for length in _LENGTHS]
    for span in spans:
        if all(sum(1 for _ in _within(course, span)) <= _MOST_BARS for course in courses):
            return span
    return spans[-1]


def gantt_chart(course: Course, environment: str, span: Span, colours: Mapping[str, str]) -> str:
    """Return one environment's rows in a span as HTML; ``colours`` gives each share its class."""
    capacity = course.setting.environments[environment].max_capacity
    jobs = course.workload.jobs
    bars: list[str] = []
    marked: list[str] = []
    for attempt, rows in _placed(course, environment, capacity, span):
        job = jobs[attempt.job]
        share = course.shares[course.share_of[attempt.job]]
        hint = (
            f"{job.id}, {share}, {job.demand} of {capacity}: {clock_label(attempt.start)}, "
            f"ran {format_duration((attempt.end - attempt.start) // 1000)}, "
            f"came {format_duration((attempt.start - job.submit_at) // 1000)} before{_end_text(attempt)}"
        )
        css = f"{colours[share]} cut" if attempt.is_preempted else colours[share]
        drawn = marked if attempt.is_preempted else bars
        drawn.append(f'<g class="{css}"><title>{escape(hint)}</title>{_shapes(attempt, rows, span)}</g>')
    height = min(max(capacity * _ROW_HEIGHT, _HEIGHTS[0]), _HEIGHTS[1])
    kind = "gantt roomy" if height >= 4 * capacity else "gantt"
    axes = Axes(capacity, time_ticks(span.begin, span.end), [(0.0, str(capacity)), (1.0, "1")])
    label = f"Gantt chart of {environment} under {course.setting.name}"
    shapes = "".join([*bars, *marked])  # a line at an end lies above the bar that follows
    return frame(label, shapes, axes, kind, capacity, f"height:{height}px")


def has_preempted(course: Course, span: Span) -> bool:
    """Whether an attempt of a span was preempted, so that its mark must be explained."""
    return any(attempt.is_preempted for attempt in _within(course, span))


def environments_of(course: Course) -> list[str]:
    """Return the environments that ran something, in the setting's order."""
    queues = {job.queue or course.setting.queue for job in course.workload.jobs}
    used = {course.setting.queues[queue].environment for queue in queues}
    return [name for name in course.setting.environments if name in used]


def _shapes(attempt: AttemptView, rows: Sequence[int], span: Span) -> str:
    """Return a bar for each piece, and a line at its end where a preemption stopped it."""
    left = max(0, attempt.start - span.begin) * WIDTH / (span.end - span.begin)
    right = (min(attempt.end, span.end) - span.begin) * WIDTH / (span.end - span.begin)
    pieces = list(_pieces(rows))
    bars = [
        f'<rect x="{left:.1f}" y="{first}" width="{max(right - left, 0.6):.1f}" height="{count}"/>'
        for first, count in pieces
    ]
    if attempt.is_preempted and attempt.end <= span.end:
        bars.append(f'<path d="{"".join(f"M{right:.1f} {first}v{count}" for first, count in pieces)}"/>')
    return "".join(bars)


def _end_text(attempt: AttemptView) -> str:
    match attempt.kind:
        case Preemption.CROSS_SHARE:
            return "; preempted to give lent instances back, and lost"
        case Preemption.IN_SHARE:
            return "; preempted for a higher priority, and lost"
        case _:
            return "; stopped before its end, and lost" if attempt.is_preempted else ""


def _within(course: Course, span: Span) -> Iterator[AttemptView]:
    return (each for each in course.attempts() if each.start < span.end and each.end > span.begin)


def _placed(course: Course, environment: str, capacity: int, span: Span) -> Iterator[tuple[AttemptView, list[int]]]:
    """Yield the attempts of a span, each with its rows, from 0."""
    setting = course.setting
    free = list(range(capacity))
    heapify(free)
    ends: list[tuple[int, int, list[int]]] = []
    for number, attempt in enumerate(_within(course, span)):
        job = course.workload.jobs[attempt.job]
        if setting.queues[job.queue or setting.queue].environment != environment:
            continue
        while ends and ends[0][0] <= attempt.start:
            for row in heappop(ends)[2]:
                heappush(free, row)
        rows = [heappop(free) for _ in range(job.demand)]
        heappush(ends, (attempt.end, number, rows))
        yield attempt, rows


def _pieces(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (first row, number of rows) of each piece of neighbouring rows; rows ascend."""
    first = previous = rows[0]
    for row in rows[1:]:
        if row != previous + 1:
            yield first, previous - first + 1
            first = row
        previous = row
    yield first, previous - first + 1
