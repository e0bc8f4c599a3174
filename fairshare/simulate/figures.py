"""What a simulation means in figures: waits, use of the pool, fairness. Means and parts are rounded to six decimals.

Percentiles are nearest-rank: the smallest wait that at least that part of the jobs does not exceed. A job's wait ends
with its first start; jobs that never started are counted, not averaged, and those that a time limit ended are counted
apart. Slowdown is (wait + run) / run, with runs below ten seconds counted as ten, as is usual for such figures, or
short jobs would decide everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairshare.scheduler.engine import Preemption
from fairshare.simulate.course import NOT_YET, AttemptView, Course
from fairshare.simulate.timeline import Timeline, timeline_of

_SHORTEST_RUN_MS: Final = 10_000


@dataclass(frozen=True)
class Waits:
    """Waits of some jobs, in seconds."""

    jobs: int
    p50: float
    p95: float
    max: float
    mean: float


@dataclass(frozen=True)
class Preempted:
    """Attempts that were stopped before their end, and the instance-seconds of work that was lost with them.

    ``by_kind`` counts those that the scheduler stopped; others lost their instances in another way.
    """

    attempts: int
    by_kind: Mapping[Preemption, int]
    lost: float


@dataclass(frozen=True)
class ShareFigures:
    """What one share got: ``capacity_fraction`` of all that was used, where it was due ``due_fraction``."""

    name: str
    jobs: int
    waits: Waits
    slowdown: float
    capacity_fraction: float
    due_fraction: float
    preempted: Preempted
    unfinished: int
    given_up: int


@dataclass(frozen=True)
class SizeFigures:
    """Waits of the jobs of one range of sizes, in instances."""

    smallest: int
    largest: int
    waits: Waits


@dataclass(frozen=True)
class Figures:
    """Everything about one setting. Utilisation is a part of all instances of the environments that got jobs."""

    name: str
    waits: Waits
    slowdown: float
    utilization: float
    utilization_at_peak: float | None
    """While at least one job waited; None when none ever did."""
    makespan: float
    """Seconds from the first job's coming to the last end."""
    jobs_per_hour: float
    preempted: Preempted
    unfinished: int
    """Jobs that neither ended nor were ended."""
    given_up: Mapping[str, int]
    """Jobs that a time limit ended, by its reason code. None of them ever started."""
    share_error: float | None
    """Mean over the steps of the timeline in which two shares wanted instances; None when that never was."""
    share_error_max: float | None
    jain: float | None
    """Jain's index of what each share used over what it was due: 1 = all got the same part of it."""
    starvation: float
    """Longest time in seconds in which a share had a job waiting and held nothing."""
    starved_share: str
    shares: Sequence[ShareFigures]
    sizes: Sequence[SizeFigures]
    timeline: Timeline


def figures_of(course: Course) -> Figures:
    """Return the figures of a course."""
    timeline = timeline_of(course)
    capacity = sum(
        environment.max_capacity for name, environment in course.setting.environments.items() if name in _used(course)
    )
    makespan = course.end - course.begin
    used = sum((a.end - a.start) * course.workload.jobs[a.job].demand for a in course.attempts())
    errors = [error for error in timeline.error if error is not None]
    everyone = range(len(course.workload.jobs))
    pressure = course.pressure
    return Figures(
        name=course.setting.name,
        waits=_waits(course, everyone),
        slowdown=_slowdown(course, everyone),
        utilization=_part(used, capacity * makespan),
        utilization_at_peak=_part(pressure.used_while_waiting, capacity * pressure.waiting_time)
        if pressure.waiting_time
        else None,
        makespan=makespan / 1000,
        jobs_per_hour=_part(_finished(course, everyone) * 3_600_000, makespan),
        preempted=_preempted(course, (attempt for attempt in course.attempts() if attempt.is_preempted)),
        unfinished=len(everyone) - _finished(course, everyone) - len(course.given_up),
        given_up=dict(sorted(Counter(each.reason for each in course.given_up.values()).items())),
        share_error=_rounded(sum(errors) / len(errors)) if errors else None,
        share_error_max=_rounded(max(errors)) if errors else None,
        jain=_jain(timeline),
        starvation=pressure.longest_starvation / 1000,
        starved_share=pressure.starved_share,
        shares=_shares(course, timeline, used),
        sizes=_sizes(course),
        timeline=timeline,
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the nearest-rank percentile of values in ascending order; 0 of none."""
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else 0


def _used(course: Course) -> set[str]:
    """Return the environments that got jobs."""
    queues = {job.queue or course.setting.queue for job in course.workload.jobs}
    return {course.setting.queues[queue].environment for queue in queues}


def _waits(course: Course, jobs: Iterable[int]) -> Waits:
    submitted = course.workload.jobs
    starts = ((job, course.first_starts[job]) for job in jobs)
    waits = sorted(start - submitted[job].submit_at for job, start in starts if start != NOT_YET)
    mean = _rounded(sum(waits) / len(waits) / 1000) if waits else 0.0
    longest = waits[-1] / 1000 if waits else 0.0
    return Waits(len(waits), percentile(waits, 50) / 1000, percentile(waits, 95) / 1000, longest, mean)


def _slowdown(course: Course, jobs: Iterable[int]) -> float:
    """Return the mean slowdown of jobs that ended."""
    slowdowns = []
    for job in jobs:
        if (end := course.last_ends[job]) != NOT_YET:
            work = course.workload.jobs[job]
            slowdowns.append(max(1.0, (end - work.submit_at) / max(work.run_time, _SHORTEST_RUN_MS)))
    return _rounded(sum(slowdowns) / len(slowdowns), 3) if slowdowns else 1.0


def _finished(course: Course, jobs: Iterable[int]) -> int:
    return sum(course.last_ends[job] != NOT_YET for job in jobs)


def _shares(course: Course, timeline: Timeline, used: int) -> list[ShareFigures]:
    members: list[list[int]] = [[] for _ in course.shares]
    for job, share in enumerate(course.share_of):
        members[share].append(job)
    held = [0] * len(course.shares)
    stopped: list[list[AttemptView]] = [[] for _ in course.shares]
    for attempt in course.attempts():
        share = course.share_of[attempt.job]
        held[share] += (attempt.end - attempt.start) * course.workload.jobs[attempt.job].demand
        if attempt.is_preempted:
            stopped[share].append(attempt)
    given_up = Counter(course.share_of[job] for job in course.given_up)
    due = [sum(series) for series in timeline.due]
    return [
        ShareFigures(
            name=name,
            jobs=len(members[share]),
            waits=_waits(course, members[share]),
            slowdown=_slowdown(course, members[share]),
            capacity_fraction=_part(held[share], used),
            due_fraction=_part(due[share], sum(due)),
            preempted=_preempted(course, stopped[share]),
            unfinished=len(members[share]) - _finished(course, members[share]) - given_up[share],
            given_up=given_up[share],
        )
        for share, name in enumerate(course.shares)
    ]


def _preempted(course: Course, stopped: Iterable[AttemptView]) -> Preempted:
    attempts = list(stopped)
    kinds = Counter(attempt.kind for attempt in attempts)
    lost = sum((attempt.end - attempt.start) * course.workload.jobs[attempt.job].demand for attempt in attempts)
    return Preempted(len(attempts), {kind: kinds[kind] for kind in Preemption}, lost / 1000)


def _sizes(course: Course) -> list[SizeFigures]:
    """Return waits by size: 1, 2, 3-4, 5-8, 9-16 ... instances, largest class last."""
    classes: dict[int, list[int]] = {}
    for job, work in enumerate(course.workload.jobs):
        classes.setdefault((work.demand - 1).bit_length(), []).append(job)
    return [
        SizeFigures(
            smallest=min(course.workload.jobs[job].demand for job in jobs),
            largest=max(course.workload.jobs[job].demand for job in jobs),
            waits=_waits(course, jobs),
        )
        for _, jobs in sorted(classes.items())
    ]


def _jain(timeline: Timeline) -> float | None:
    """Return Jain's index over the steps in which shares competed; None when they never did."""
    ratios = []
    for used, due in zip(timeline.used, timeline.due, strict=True):
        contested = [number for number, error in enumerate(timeline.error) if error is not None]
        owed = sum(due[number] for number in contested)
        if owed > 0:
            ratios.append(sum(used[number] for number in contested) / owed)
    squares = sum(ratio * ratio for ratio in ratios)
    return _rounded(sum(ratios) ** 2 / (len(ratios) * squares)) if len(ratios) > 1 and squares else None


def _part(portion: float, whole: float) -> float:
    return _rounded(portion / whole) if whole else 0.0


def _rounded(value: float, digits: int = 6) -> float:
    return round(value, digits)
