"""Judges the assertions of ``policy_tests`` by a simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from fairshare.config.durations import format_duration
from fairshare.config.errors import did_you_mean
from fairshare.config.policy_tests import PolicyTest
from fairshare.model import UsageError
from fairshare.simulate.figures import Figures, ShareFigures
from fairshare.simulate.timeline import Timeline


@dataclass(frozen=True)
class Verdict:
    """One assertion on one workload: whether it holds, and what was found, for people."""

    test: PolicyTest
    workload: str
    passed: bool
    found: str


def judge(test: PolicyTest, workload: str, figures: Figures) -> Verdict:
    """Return what a simulation says about an assertion.

    Raises:
        UsageError: the workload has no job of the share that is named.
    """
    values = list(_values(test, figures))
    failed = [(text, value) for text, value in values if value is not None and not test.holds(value)]
    if not failed and any(value is not None for _, value in values):
        return Verdict(test, workload, True, _told(values))
    return Verdict(test, workload, False, _told(failed) if failed else "the pool was never busy: nothing to judge")


def _told(values: Sequence[tuple[str, float | None]]) -> str:
    return ", ".join(text for text, value in values if value is not None)


def _values(test: PolicyTest, figures: Figures) -> Iterator[tuple[str, float | None]]:
    """Yield what was found, as text and as a number; None where the assertion has nothing to say.

    A share with a job that never started waits for ever: an assertion must not hold because a job was left out.
    """
    if test.figure == "utilization":
        value = figures.utilization_at_peak if test.when_busy else figures.utilization
        yield f"{(value or 0) * 100:.1f} % of the pool was used", value
        return
    if test.figure == "preemptions" and test.share is None:
        yield f"{figures.preempted.attempts} preemptions", figures.preempted.attempts
        return
    for share in _shares(test, figures):
        if test.figure == "preemptions":
            yield f"{share.name} was preempted {share.preempted.attempts} times", share.preempted.attempts
        elif test.figure == "portion":
            part = portion_when_busy(figures.timeline, share.name) if test.when_busy else share.capacity_fraction
            yield f"{share.name} got {(part or 0) * 100:.1f} %", part
        elif never := share.given_up + share.unfinished:
            yield f"{never} of {share.jobs} jobs of {share.name} never started", inf
        else:
            wait = float(getattr(share.waits, test.figure))
            yield f"{share.name} {test.figure} wait {format_duration(round(wait))}", wait


def _shares(test: PolicyTest, figures: Figures) -> list[ShareFigures]:
    found = [share for share in figures.shares if test.share in (None, share.name)]
    if not found:
        names = [share.name for share in figures.shares]
        hint = did_you_mean(test.share or "", names, "shares")
        raise UsageError(f'"{test.text}": the workload has no job of share {test.share}', hint=hint)
    return found


def portion_when_busy(timeline: Timeline, share: str) -> float | None:
    """Return the part that a share got of all that was used while it and others wanted more than they had.

    None when that never was.
    """
    index = list(timeline.shares).index(share)
    got = total = 0.0
    for number, error in enumerate(timeline.error):
        lacks = timeline.wanted[index][number] > timeline.used[index][number] + 1e-9
        if error is not None and lacks:
            got += timeline.used[index][number]
            total += sum(series[number] for series in timeline.used)
    return got / total if total else None
