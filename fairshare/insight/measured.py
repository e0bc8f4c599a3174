"""Jobs with what CloudWatch measured of them: from names in Batch to series, efficiency and victims, in few calls.

Calls: one DescribeServiceJob a job, one GetMetricData for 500 series, one DescribeTrainingJob an attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final

from fairshare.insight.jobs import DESCRIBE_LIMIT, Past, latest_by_id
from fairshare.insight.results import PARALLEL, describe_in_parallel
from fairshare.metrics.efficiency import JobEfficiency, judge
from fairshare.metrics.phases import phase_times
from fairshare.metrics.ports import MetricQuery, MetricSource, PhaseSource, Point
from fairshare.metrics.training import JobSeries, queries_of, series_of, training_job_names
from fairshare.metrics.victims import PastJob, Victim, victims_of
from fairshare.metrics.window import Window, choose_window
from fairshare.model import FairsharePolicy, JobDetail, JobSummary
from fairshare.submit.ports import JobBackend

_ANSWERS: Final = 4
"""Full answers of GetMetricData that one reading may cost before a longer period is chosen."""

_LOOK_BACK: Final = 2
"""How many usage windows of the policy before a job's start its queue's history begins."""

_MINUTE: Final = 60_000


@dataclass(frozen=True)
class Reading:
    """Series of jobs over one window. ``window`` is None when none of the jobs ever started."""

    jobs: tuple[JobSeries, ...]
    window: Window | None


@dataclass(frozen=True)
class Selection:
    """Jobs chosen by share and time, newest first; ``left_out`` more would have matched."""

    jobs: tuple[JobDetail, ...]
    left_out: int


def select_jobs(
    backend: JobBackend, listing: Iterable[JobSummary], *, share: str | None, since: int, now: int
) -> Selection:
    """Return the jobs that ran after ``since`` ms, with details, at most `DESCRIBE_LIMIT` of them.

    Args:
        backend: AWS Batch.
        listing: the jobs of the queue, whatever their status.
        share: only of this share; None = of all.
        since: milliseconds.
        now: milliseconds.
    """
    ran = [
        job
        for job in latest_by_id(listing)
        if job.started_at is not None
        and (now if job.stopped_at is None else job.stopped_at) >= since
        and share in (None, job.share)
    ]
    newest = sorted(ran, key=lambda job: -job.created_at)
    described = describe_in_parallel(backend, [job.job_id for job in newest[:DESCRIBE_LIMIT]])
    return Selection(tuple(described.values()), max(0, len(newest) - DESCRIBE_LIMIT))


def read_jobs(
    jobs: Sequence[JobDetail],
    source: MetricSource,
    now: int,
    *,
    since: int | None = None,
    period: int | None = None,
    finest: int = 60,
) -> Reading:
    """Return the series of jobs, all attempts and hosts, over the time from their first start to their last end.

    Args:
        jobs: with details.
        source: CloudWatch.
        now: milliseconds.
        since: milliseconds; nothing before it is asked for.
        period: seconds; None = the shortest that fits.
        finest: shortest period, in seconds, in which hosts publish.

    Raises:
        UsageError: CloudWatch has no such period.
    """
    started = [job for job in jobs if training_job_names(job)]
    if not started:
        return Reading(tuple(series_of(job, {}, 60) for job in jobs), None)
    began = max(min(map(_began, started)), since or 0)
    start = began // _MINUTE * _MINUTE  # a value has the time at which its period began, before the job perhaps
    end = max(_ended(job, now) for job in started)
    asked = sum((_ended(job, now) - _began(job)) * len(queries_of(job, 60)) for job in started)
    at_once = -(-asked // max(1, end - start) // _ANSWERS)
    window = choose_window(start, end, now, period=period, queries=at_once, finest=finest)
    queries = [query for job in started for query in queries_of(job, window.period)]
    answers = source.series(queries, window.start, window.end)
    series = tuple(series_of(job, answers, window.period) for job in jobs)
    return Reading(series, _from_first(window, began, answers))


def _from_first(window: Window, began: int, answers: Mapping[MetricQuery, Sequence[Point]]) -> Window:
    """Return the window without what it has before the jobs and before the first value."""
    step = window.period * 1000
    first = min((point.at for points in answers.values() for point in points), default=began)
    return replace(window, start=max(window.start, min(first, began) // step * step))


def judge_jobs(
    reading: Reading, phases: PhaseSource, now: int, spilled: Callable[[JobDetail], int | None]
) -> list[JobEfficiency]:
    """Return how well each job of a reading used what it held. A few jobs at a time are asked about.

    Args:
        reading: from `read_jobs`.
        phases: SageMaker.
        now: milliseconds.
        spilled: MiB that a job's log says were spilled; None = not read.
    """

    def judged(measured: JobSeries) -> JobEfficiency:
        told = [phase for name in training_job_names(measured.job) for phase in phases.phases(name)]
        return judge(measured, phase_times(measured.job, told, now), spilled_mib=spilled(measured.job))

    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="judge") as pool:
        return list(pool.map(judged, reading.jobs))


@dataclass(frozen=True)
class QueueHistory:
    """The jobs of a queue that may have waited for one another, and what the scheduler needs to play them again."""

    past: Past
    priorities: Mapping[str, int]
    """Scheduling priority by job id; unknown ones count as 0."""
    capacity: int
    policy: FairsharePolicy | None

    def victims(self, wasteful: JobEfficiency, now: int) -> list[Victim] | None:
        """Return who waited because of the capacity that a job left idle (model).

        None: the job began before the past that is known.
        """
        job = wasteful.job
        if self.past.since is not None and _began(job) < self.past.since:
            return None
        if job.started_at is None or wasteful.wasted_ms <= 0:
            return []
        window = 1000 * max(600, self.policy.share_decay_seconds if self.policy else 0)
        begin, end = _began(job) - _LOOK_BACK * window, _ended(job, now)
        around = [other for other in self.past.jobs if other.created_at <= end and _ended(other, now) >= begin]
        return victims_of(
            job.job_id, wasteful.wasted_ms, self._past(around, now), self.capacity, self.policy, until=now
        )

    def _past(self, jobs: Sequence[JobSummary], now: int) -> list[PastJob]:
        known = [_held(job, now) for job in jobs if job.started_at is not None]
        usual = median_low(known) if known else 0
        return [
            PastJob(
                job_id=job.job_id,
                job_name=job.job_name,
                share_identifier=job.share,
                scheduling_priority=self.priorities.get(job.job_id, job.scheduling_priority or 0),
                instances=1 if job.instances is None else job.instances,
                created_at=job.created_at,
                held=_held(job, now) if job.started_at is not None else 0 if job.stopped_at is not None else usual,
            )
            for job in sorted(jobs, key=_began)
        ]


def _began(job: JobSummary) -> int:
    """When a job's first attempt began, as far as is known."""
    attempts = job.attempts if isinstance(job, JobDetail) else ()
    times = [attempt.started_at for attempt in attempts if attempt.started_at is not None]
    times += [at for at in (job.scheduled_at, job.started_at) if at is not None]
    return min(times, default=job.created_at)


def _ended(job: JobSummary, now: int) -> int:
    return now if job.stopped_at is None else job.stopped_at


def _held(job: JobSummary, now: int) -> int:
    since = job.started_at if job.scheduled_at is None else job.scheduled_at
    return 0 if since is None else max(0, _ended(job, now) - since)
