"""One run of the collector: look at queues with few calls, and publish their gauges (case C49).

Calls for one queue: three describe it (kept for `FACTS_KEPT`), one lists each status in which jobs wait or hold
capacity (a page holds 100), one reads what was published before, one publishes for all queues. `CALLS` is what a queue
of 300 active jobs costs at most, however many have ended.

**Jobs that ended.** ListServiceJobs sorts by creation, so "ended in the last minute" is not a listing: a job that ends
now may have been made days ago, behind thousands of others. But whatever ends between two runs was active at the first
or was made after it. So a `Cursor` remembers the active jobs. The next run lists what was made since, describes those
that are gone, or lists jobs of their age when they are many, within the calls that are left. What is left over waits
for another run: every end is counted once, a burst of them perhaps a few runs late. Without a cursor the ends are not
known, and nothing is published about them.

**What was used before** is read from CloudWatch, where earlier runs have put it. So there is no other state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Protocol

from fairshare.insight.jobs import latest_by_id, total_instances
from fairshare.insight.queue_state import History, QueueFacts, gauges_of
from fairshare.metrics.gauges import NAMESPACE, QueueGauges, dimensions
from fairshare.metrics.ports import MetricQuery, MetricSource
from fairshare.model import IN_USE_STATUSES, TERMINAL_STATUSES, JobDetail, JobStatus, JobSummary

CALLS: Final = 10
"""API calls that one run may cost for a queue of up to 300 active jobs."""

FACTS_KEPT: Final = 900_000
"""Milliseconds for which what decides about a queue is not asked again."""

STATUSES: Final = (JobStatus.RUNNABLE, JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING)
"""Listed, in life-cycle order. SUBMITTED lasts for a moment, and a service job is never PENDING."""

_PAGE: Final = 100
_FACTS_CALLS: Final = 3
_NEWEST_CALLS: Final = 3
"""At most so many list what was made since the last run: AWS takes 300 jobs a minute."""

_ENDS_CALLS: Final = 2
"""At least so many look for the ends of jobs, however many jobs are active."""

_HISTORY_PERIODS: Final = ((6 * 3_600_000, 60), (24 * 3_600_000, 300))
"""Up to which window (ms) its history is read in which period (s); longer ones by the hour."""


class QueueSource(Protocol):
    """Batch, as the collector asks it. Every method raises `fairshare.model.FairshareError`."""

    def facts(self, queue: str) -> QueueFacts:
        """Return what decides about a queue, in three calls.

        Raises:
            NotFoundError: there is no such queue.
        """

    def newest(self, queue: str, created_after: int, calls: int) -> Sequence[JobSummary]:
        """Return jobs of any status made after an instant (ms), newest first: as many as fit into so many calls."""

    def page_before(self, queue: str, created_before: int) -> Sequence[JobSummary]:
        """Return jobs of any status made before an instant (ms), newest first: as many as one call gives."""

    def describe(self, job_ids: Iterable[str]) -> Mapping[str, JobDetail]:
        """Return jobs by id, one call each; those that Batch no longer knows are absent."""

    def list(self, queue: str, statuses: Collection[JobStatus]) -> list[JobSummary]:
        """Return the jobs in some statuses."""


@dataclass(frozen=True)
class Cursor:
    """What a run leaves for the next one about a queue."""

    facts: QueueFacts
    facts_at: int
    newest: int
    """When the newest job that was seen was made, in ms."""
    active: Mapping[str, int] = field(default_factory=dict)
    """When each job was made that had not ended or whose end is still to be found, by id."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cursor:
        """Read what `to_json` wrote.

        Raises:
            ValueError, TypeError, KeyError: it is something else.
        """
        facts = dict(document["facts"])
        facts["environments"] = tuple(facts["environments"])
        facts["quota_shares"] = tuple(facts.get("quota_shares", ()))
        return cls(QueueFacts(**facts), document["facts_at"], document["newest"], dict(document["active"]))


@dataclass(frozen=True)
class Look:
    """What one run saw of a queue. ``ended`` is None when no earlier run tells what is new, or no call was left."""

    facts: QueueFacts
    jobs: tuple[JobSummary, ...]
    history: History | None
    ended: tuple[JobSummary, ...] | None
    cursor: Cursor


def look_at(
    queue: str,
    source: QueueSource,
    metrics: MetricSource,
    *,
    now: int,
    cursor: Cursor | None,
    stack: str = "",
    counts_ends: bool = True,
) -> Look:
    """Look at a queue.

    Args:
        queue: name or ARN.
        source: Batch.
        metrics: CloudWatch.
        now: milliseconds.
        cursor: of the last run.
        stack: of a queue that carries no stack's tag.
        counts_ends: False where ends are counted otherwise.

    Raises:
        FairshareError: AWS refused, or cannot be asked.
    """
    kept = None if cursor is None or not 0 <= now - cursor.facts_at < FACTS_KEPT else cursor
    facts = kept.facts if kept is not None else source.facts(queue)
    facts = replace(facts, stack=facts.stack or stack)
    jobs = tuple(latest_by_id(source.list(queue, STATUSES)))
    left = CALLS - 1 - _pages(jobs) - (_FACTS_CALLS if kept is None else 0)  # one call publishes
    history = None
    if facts.weights is not None and (kept is not None or left > 0):
        history = _history(metrics, facts, jobs, now)
        left -= 1
    active = {job.job_id: job.created_at for job in jobs}
    ends = _Ends(None, {}, max([now, *active.values()]))
    if counts_ends and cursor is not None:
        ends = _look_for_ends(source, queue, cursor, active, left if kept is None else max(left, _ENDS_CALLS))
    left_behind = Cursor(facts, now if kept is None else kept.facts_at, ends.newest, {**active, **ends.open})
    return Look(facts, jobs, history, ends.ended, left_behind)


def gauges(looks: Sequence[Look], now: int) -> list[QueueGauges]:
    """Return the gauges of queues that were looked at together at ``now`` ms."""
    return [
        gauges_of(
            look.facts,
            look.jobs,
            now=now,
            history=look.history,
            ended=look.ended,
            used_by_others=sum(_used(other) for other in looks if other is not look and _divide(look, other)),
        )
        for look in looks
    ]


def _used(look: Look) -> int:
    return total_instances(job for job in look.jobs if job.status in IN_USE_STATUSES)


def _divide(one: Look, other: Look) -> bool:
    """Whether two queues divide the capacity of an environment."""
    return not set(one.facts.environments).isdisjoint(other.facts.environments)


def _pages(jobs: Iterable[JobSummary]) -> int:
    """How many calls the listings of these jobs took: at least one for each status."""
    counted = Counter(job.status for job in jobs)
    return sum(max(1, -(-counted[status] // _PAGE)) for status in STATUSES)


def _history(metrics: MetricSource, facts: QueueFacts, jobs: Iterable[JobSummary], now: int) -> History:
    """Read in one call (for up to 499 shares) how many instances the queue and its shares held before."""
    period = next((seconds for longest, seconds in _HISTORY_PERIODS if facts.window <= longest), 3600)
    entries = [entry for entry in facts.weights or () if not entry.endswith("*")]
    shares = dict.fromkeys([*entries, *(job.share_identifier for job in jobs)])
    step = period * 1000
    begin = (now - facts.window) // step * step

    def query(share: str | None) -> MetricQuery:
        return MetricQuery(NAMESPACE, "CapacityUsed", dimensions(facts.stack, facts.name, share), period)

    queries = {share: query(share) for share in (None, *shares)}
    answers = metrics.series(list(queries.values()), begin, now)
    return History(
        begin,
        now,
        period,
        queue=answers.get(queries[None], ()),
        shares={share: answers.get(asked, ()) for share, asked in queries.items() if share is not None},
    )


@dataclass(frozen=True)
class _Ends:
    """Jobs that ended since the last run, None = not known; those still to be found, or that go on after all."""

    ended: tuple[JobSummary, ...] | None
    open: Mapping[str, int]
    newest: int


def _look_for_ends(source: QueueSource, queue: str, cursor: Cursor, active: Collection[str], calls: int) -> _Ends:
    """Find out about the jobs that are no longer active, and about those that came and went, in so many calls."""
    gone = {job_id: at for job_id, at in cursor.active.items() if job_id not in active}
    if calls <= 0:
        return _Ends(None, gone, cursor.newest)
    listed = source.newest(queue, cursor.newest, min(max(1, calls - 1), _NEWEST_CALLS))
    fresh = [job for job in listed if job.job_id in gone or job.created_at > cursor.newest]
    seen = {job.job_id: job for job in fresh if job.job_id not in active}
    rest = {job_id: at for job_id, at in gone.items() if job_id not in seen}
    found, unseen = _find(source, queue, rest, calls - max(1, -(-len(listed) // _PAGE)))
    seen |= found
    going_on = {job.job_id: job.created_at for job in seen.values() if job.status not in TERMINAL_STATUSES}
    return _Ends(
        ended=tuple(job for job in seen.values() if job.status in TERMINAL_STATUSES),
        open=unseen | going_on,
        newest=max([cursor.newest, *(job.created_at for job in listed)]),
    )


def _find(
    source: QueueSource, queue: str, wanted: Mapping[str, int], calls: int
) -> tuple[dict[str, JobSummary], dict[str, int]]:
    """Return the jobs that so many calls find, and those still to be found, with when they were made.

    Few are described. Many are listed from the newest of them backwards: jobs made together often end together. One
    that is missing where a listing should show it is forgotten: Batch no longer knows it.
    """
    found: dict[str, JobSummary] = {}
    left = dict(wanted)
    while left and calls > 0:
        if len(left) <= calls:
            return {**found, **source.describe(list(left))}, {}
        newest = max(left, key=lambda job_id: left[job_id])
        page = {job.job_id: job for job in source.page_before(queue, left[newest] + 1)}
        oldest = min((job.created_at for job in page.values()), default=left[newest] - 1)
        found |= {job_id: page[job_id] for job_id in left if job_id in page}
        left = {job_id: at for job_id, at in left.items() if job_id not in page and at <= oldest}
        calls -= 1
    return found, left
