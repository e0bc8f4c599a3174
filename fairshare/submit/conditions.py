"""Whether a job may be sent yet, given how those it comes after have ended. Pure: told of ends, it tells of changes.

A job is sent when all its conditions hold. A condition names jobs and one of three words:

=======  ==============================================================================================================
ok       all of them SUCCEEDED
any      all of them ended, however
failed   all of them ended, and at least one FAILED
=======  ==============================================================================================================

A job whose conditions cannot all hold any more is skipped. When that is because something failed, the skipped job
counts as FAILED for those after it, so that a clean-up still runs; when it was simply not needed (``failed``, and all
went well), it counts as not needed. One condition is shared by all jobs that have it: a thousand jobs after another
thousand cost two thousand steps, not a million.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from fairshare.submit.requests import After, PlannedJob


class End(StrEnum):
    """How a job of a run ended, for those after it. A job that AWS refused has FAILED."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NOT_NEEDED = "NOT_NEEDED"
    """Skipped, and nothing went wrong."""
    UNKNOWN = "UNKNOWN"
    """Batch no longer knows the job."""


@dataclass(frozen=True)
class Skip:
    """Why a job is never sent. ``is_failure``: because something before it failed."""

    reason: str
    is_failure: bool = True

    @property
    def end(self) -> End:
        """What the skipped job counts as for those after it."""
        return End.FAILED if self.is_failure else End.NOT_NEEDED


@dataclass
class Changes:
    """What followed from an end: indexes of jobs that may be sent now, and of those that never will."""

    free: list[int] = field(default_factory=list)
    skipped: list[tuple[int, Skip]] = field(default_factory=list)


@dataclass(eq=False)
class _Condition:
    """One condition and the jobs that have it."""

    when: str
    pending: set[int]
    jobs: list[int] = field(default_factory=list)
    failed: int | None = None
    """Index of one that FAILED."""

    def take(self, index: int, end: End) -> Skip | str | None:
        """Note an end. Return ``"holds"``, the index-free reason why it never will, or None while it is open."""
        self.pending.discard(index)
        if end is End.FAILED and self.failed is None:
            self.failed = index
        if self.when == "ok" and end is not End.SUCCEEDED:
            return Skip(_WHY_NOT_OK[end], is_failure=end is not End.NOT_NEEDED)
        if self.pending:
            return None
        if self.when == "failed" and self.failed is None:
            return Skip("nothing before it failed", is_failure=False)
        return "holds"


_WHY_NOT_OK = {
    End.FAILED: "{name} failed",
    End.NOT_NEEDED: "{name} was not needed",
    End.UNKNOWN: "how {name} ended is not known any more",
}


class Conditions:
    """The conditions of a run's jobs.

    Args:
        jobs: those that are still to be sent.
        name_of: the name of a job by index, for reasons; those before this session included.
    """

    def __init__(self, jobs: Iterable[PlannedJob], name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        self._open: dict[int, int] = {}
        """Number of conditions of each waiting job that do not hold yet."""
        self._ends: dict[int, End] = {}
        self._conditions: dict[After, _Condition] = {}
        self._about: defaultdict[int, list[_Condition]] = defaultdict(list)
        for job in jobs:
            if job.after:
                self._open[job.index] = len(job.after)
            for after in job.after:
                self._condition(after).jobs.append(job.index)

    @property
    def waiting(self) -> int:
        """How many jobs wait for others."""
        return len(self._open)

    def is_waiting(self, index: int) -> bool:
        """Whether a job waits for others."""
        return index in self._open

    def matters(self, index: int) -> bool:
        """Whether somebody waits for the end of this job."""
        return index not in self._ends and any(
            job in self._open for condition in self._about.get(index, ()) for job in condition.jobs
        )

    def ended(self, index: int, end: End) -> Changes:
        """Note how a job ended; return what follows, over any number of steps. A second end of a job is ignored."""
        changes, ends = Changes(), [(index, end)]
        while ends:
            each, how = ends.pop()
            if each in self._ends:
                continue
            self._ends[each] = how
            for condition in self._about.pop(each, ()):
                self._take(condition, each, how, changes, ends)
        return changes

    def strand(self, index: int) -> list[int]:
        """Give up on a job whose end nobody will learn in this session; return the jobs that wait for it in vain."""
        stranded, indexes = [], [index]
        while indexes:
            for condition in self._about.pop(indexes.pop(), ()):
                for job in condition.jobs:
                    if self._open.pop(job, None) is not None:
                        stranded.append(job)
                        indexes.append(job)
        return stranded

    def _condition(self, after: After) -> _Condition:
        condition = self._conditions.get(after)
        if condition is None:
            indexes, when = after
            condition = self._conditions[after] = _Condition(when, set(indexes))
            for index in condition.pending:
                self._about[index].append(condition)
        return condition

    def _take(self, condition: _Condition, index: int, end: End, changes: Changes, ends: list[tuple[int, End]]) -> None:
        verdict = condition.take(index, end)
        if verdict is None:
            return
        for job in condition.jobs:
            if job not in self._open:
                continue
            if isinstance(verdict, Skip):
                del self._open[job]
                skip = Skip(verdict.reason.format(name=self._name_of(index)), verdict.is_failure)
                changes.skipped.append((job, skip))
                ends.append((job, skip.end))
                continue
            self._open[job] -= 1
            if not self._open[job]:
                del self._open[job]
                changes.free.append(job)
