"""Looking at the jobs of a run while it is sent: when, how, and what a look shows.

Somebody must need it: a job that comes after another, a limit of jobs in flight, launches that are counted, a job that
may move to another queue. The look itself is one more call beside those that send (`fairshare.submit.calls`), so it
never holds up sending. A look that fails is made again; it never ends the run, unless credentials were refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from fairshare.model import ACTIVE_STATUSES, JobSummary
from fairshare.submit.ports import JobBackend

DESCRIBED_AT_MOST: Final = 10
"""Up to this many jobs are described one by one; more are found by listing their queue."""

GONE_AFTER: Final = 3
"""Looks in a row without a job after which Batch no longer knows it: a new job may take a moment to appear (C29)."""


@dataclass(frozen=True)
class Watched:
    """A job to look at. ``index`` is its place in the run."""

    index: int
    job_id: str
    queue: str


@dataclass(frozen=True)
class LookPace:
    """Time between looks in milliseconds: ``least``, and ``per_job`` for each job, but at most ``most``.

    After each look in a row without news the time doubles, up to ``most``.
    """

    least: int = 2_000
    most: int = 10_000
    per_job: int = 8


LOOPBACK_LOOKS: Final = LookPace(100, 200, 0)
"""For AWS on this machine, where a look costs nothing."""


def look(backend: JobBackend, jobs: Iterable[Watched]) -> dict[str, JobSummary]:
    """Ask Batch about jobs, with as few calls as their number allows; return what it knows, by job id."""
    by_queue: defaultdict[str, list[str]] = defaultdict(list)
    for job in jobs:
        by_queue[job.queue].append(job.job_id)
    found: dict[str, JobSummary] = {}
    for queue, job_ids in by_queue.items():
        found |= look_in_queue(backend, queue, job_ids)
    return found


def look_in_queue(backend: JobBackend, queue: str, job_ids: Sequence[str]) -> dict[str, JobSummary]:
    """The same for jobs of one queue; one that is elsewhere is found all the same.

    Jobs that are not listed as active have ended, or moved on between two listings: a few are described, many are
    looked for among the newest jobs of the queue first.
    """
    if len(job_ids) <= DESCRIBED_AT_MOST:
        return dict(backend.describe(job_ids))
    wanted = set(job_ids)
    found = {job.job_id: job for job in backend.list(queue, ACTIVE_STATUSES) if job.job_id in wanted}
    if len(wanted) - len(found) > DESCRIBED_AT_MOST:
        found |= _among_the_newest(backend, queue, wanted - found.keys())
    missing = [job_id for job_id in job_ids if job_id not in found]
    return found | (backend.describe(missing) if missing else {})


def _among_the_newest(backend: JobBackend, queue: str, wanted: Collection[str]) -> dict[str, JobSummary]:
    """Read pages until few jobs are left, and no more pages than describing the jobs would cost calls."""
    found: dict[str, JobSummary] = {}
    for page in islice(backend.walk(queue), len(wanted)):
        found |= {job.job_id: job for job in page if job.job_id in wanted}
        if len(wanted) - len(found) <= DESCRIBED_AT_MOST:
            break
    return found


@dataclass
class Watch:
    """When to look next, and what a look shows that is new. Pure: time is an argument."""

    pace: LookPace = field(default_factory=LookPace)
    is_under_way: bool = False
    _next_at: int | None = None
    _wanted: tuple[Watched, ...] = ()
    _quiet: int = 0
    """Looks in a row that failed or brought no news."""
    _known: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    _missed: dict[str, int] = field(default_factory=dict)

    def is_due(self, now: int) -> bool:
        """Whether a look may begin."""
        return not self.is_under_way and (self._next_at is None or now >= self._next_at)

    @property
    def next_at(self) -> int | None:
        """When the next look is due, ms; None = at once, or one is under way."""
        return self._next_at

    def began(self, wanted: Sequence[Watched]) -> None:
        """A look at these jobs begins."""
        self.is_under_way, self._wanted = True, tuple(wanted)

    def hurry(self) -> None:
        """Something has happened that the next look should show soon: a job was accepted."""
        self._quiet = 0

    def failed(self, now: int) -> int:
        """A look got no answer; return in how many ms it is made again."""
        self.is_under_way = False
        self._quiet += 1
        return self._wait(now)

    def answered(self, found: dict[str, JobSummary], now: int) -> list[tuple[int, JobSummary | None]]:
        """Return how the jobs were found, by index; None for one that Batch no longer knows."""
        self.is_under_way = False
        news: list[tuple[int, JobSummary | None]] = []
        is_news = False
        for each in self._wanted:
            seen = found.get(each.job_id)
            if seen is None:
                missed = self._missed[each.job_id] = self._missed.get(each.job_id, 0) + 1
                if missed >= GONE_AFTER:
                    news.append((each.index, None))
                continue
            self._missed.pop(each.job_id, None)
            state = (seen.status, seen.status_reason)
            is_news = is_news or self._known.get(each.job_id) != state
            self._known[each.job_id] = state
            news.append((each.index, seen))
        self._quiet = 0 if is_news else self._quiet + 1
        self._wait(now)
        return news

    def _wait(self, now: int) -> int:
        pace = self.pace
        usual = pace.least + pace.per_job * len(self._wanted)
        wait = min(pace.most, usual << min(self._quiet, 10))
        self._next_at = now + wait
        return wait
