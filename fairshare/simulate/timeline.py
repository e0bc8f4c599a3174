"""A simulation over time: what each share used, what it was due, and how many jobs waited, in equal steps.

What a share is *due* in a step: what the queue handed out is divided among its shares by their weights, but none gets
more than it used and waited for together; what one cannot take goes to the others (max-min fairness). So a share
without jobs is due nothing, and the error of a queue that left instances idle is not counted here but in utilisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import Final

from fairshare.scheduler.policy import matching_entry, share_fractions
from fairshare.simulate.course import NOT_YET, Course

STEPS: Final = 240

_UNLISTED: Final = "1"
"""Weight of a share that the policy does not list, as the engine has it."""


@dataclass(frozen=True)
class Timeline:
    """Series over steps of ``step`` ms from ``begin`` on; instances and jobs are means over a step.

    Series of shares have one list for each share, in the order of ``shares``.
    """

    begin: int
    step: int
    shares: Sequence[str]
    used: Sequence[Sequence[float]]
    due: Sequence[Sequence[float]]
    wanted: Sequence[Sequence[float]]
    """Instances used or waited for, without those of jobs that can never start."""
    waiting: Sequence[float]
    """Jobs that wait, of all shares, whatever for."""
    error: Sequence[float | None]
    """Part of what was used that the wrong share got; None where fewer than two shares wanted anything."""

    def total_used(self) -> list[float]:
        """Return the instances in use, of all shares."""
        return [sum(values) for values in zip(*self.used, strict=True)]


class _Steps:
    """The mean over each step of something that changes at instants. A change costs the same however long it lasts."""

    def __init__(self, begin: int, step: int, count: int) -> None:
        self._begin, self._step, self._count = begin, step, count
        self._within = [0] * count
        self._after = [0] * (count + 1)

    def add(self, start: int, end: int, amount: int) -> None:
        """Add an amount from one instant to another."""
        self._change(start, amount)
        self._change(end, -amount)

    def _change(self, at: int, amount: int) -> None:
        number = min((at - self._begin) // self._step, self._count - 1)
        self._within[number] += amount * (self._begin + (number + 1) * self._step - at)
        self._after[number + 1] += amount

    def means(self) -> list[float]:
        levels = accumulate(self._after[: self._count])
        return [(within + level * self._step) / self._step for within, level in zip(self._within, levels, strict=True)]


def timeline_of(course: Course, steps: int = STEPS) -> Timeline:
    """Return the timeline of a course, from its first job to its last end."""
    begin, end = course.begin, max(course.end, course.begin + 1)
    step = ceil((end - begin) / steps)
    shares = range(len(course.shares))
    held = [_Steps(begin, step, steps) for _ in shares]
    queued = [_Steps(begin, step, steps) for _ in shares]
    waiting = _Steps(begin, step, steps)
    for attempt in course.attempts():
        demand = course.workload.jobs[attempt.job].demand
        held[course.share_of[attempt.job]].add(attempt.start, attempt.end, demand)
    for job, start, stop in waits(course, end):
        waiting.add(start, stop, 1)
        if job not in course.given_up:
            queued[course.share_of[job]].add(start, stop, course.workload.jobs[job].demand)
    used = [each.means() for each in held]
    wanted = [[a + b for a, b in zip(has, each.means(), strict=True)] for has, each in zip(used, queued, strict=True)]
    due = _due(course, used, wanted)
    return Timeline(begin, step, course.shares, used, due, wanted, waiting.means(), _errors(used, due, wanted))


def waits(course: Course, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (job, from, to) for every time a job waited; what waits at ``end`` waited until then.

    What comes later than that never starts, and is left out.
    """
    for job, (work, start) in enumerate(zip(course.workload.jobs, course.first_starts, strict=True)):
        stop = course.given_up[job].at if job in course.given_up else end if start == NOT_YET else start
        if work.submit_at < end:
            yield job, work.submit_at, min(stop, end)
    since: dict[int, int] = {}
    for attempt in course.attempts():
        if attempt.job in since:
            yield attempt.job, since.pop(attempt.job), attempt.start
        if attempt.is_preempted and course.last_ends[attempt.job] != attempt.end:
            since[attempt.job] = attempt.end
    for job, start in since.items():
        yield job, start, end


def portions(course: Course) -> list[dict[int, float]]:
    """Return, for each queue that has jobs, the shares of it by index and the portion each is due when all are busy.

    The members of a prefix entry divide its portion; a share that no entry covers weighs 1.
    """
    queues: dict[str, dict[str, int]] = {}
    for job, share in zip(course.workload.jobs, course.share_of, strict=True):
        queues.setdefault(job.queue or course.setting.queue, {})[job.share] = share
    return [_portions(shares, course.setting.weights[queue]) for queue, shares in queues.items()]


def _portions(shares: Mapping[str, int], weights: Mapping[str, str]) -> dict[int, float]:
    members: dict[str, list[int]] = {}
    for name, share in shares.items():
        members.setdefault(matching_entry(name, weights) or name, []).append(share)
    fractions = share_fractions({entry: weights.get(entry, _UNLISTED) for entry in members})
    return {
        share: float(fractions[entry] / len(inside)) for entry, inside in members.items() for share in sorted(inside)
    }


def _due(course: Course, used: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]]) -> list[list[float]]:
    due = [[0.0] * len(series) for series in used]
    for queue in portions(course):
        for number in range(len(used[0])):
            total = sum(used[share][number] for share in queue)
            caps = {share: wanted[share][number] for share in queue}
            for share, amount in divide(total, queue, caps).items():
                due[share][number] = amount
    return due


def divide(total: float, portions: Mapping[int, float], caps: Mapping[int, float]) -> dict[int, float]:
    """Divide an amount by portions; nobody gets more than its cap, and what is left goes to the others."""
    left, rest = total, sum(portions[share] for share in caps if caps[share] > 0)
    result = dict.fromkeys(caps, 0.0)
    for share in sorted((share for share in caps if caps[share] > 0), key=lambda share: caps[share] / portions[share]):
        result[share] = min(caps[share], left * portions[share] / rest)
        left -= result[share]
        rest = max(rest - portions[share], portions[share] * 1e-12)
    return result


def _errors(
    used: Sequence[Sequence[float]], due: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]]
) -> list[float | None]:
    errors: list[float | None] = []
    for number in range(len(used[0])):
        total = sum(series[number] for series in used)
        if not total or sum(series[number] > 0 for series in wanted) < 2:
            errors.append(None)
        else:
            wrong = sum(abs(has[number] - should[number]) for has, should in zip(used, due, strict=True))
            errors.append(wrong / 2 / total)
    return errors
