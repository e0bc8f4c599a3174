from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairshare.insight.jobs import Past
from fairshare.insight.measured import QueueHistory, judge_jobs, read_jobs, select_jobs
from fairshare.metrics.efficiency import judge
from fairshare.metrics.phases import phase_times
from fairshare.metrics.ports import MetricQuery, Phase, Point
from fairshare.metrics.training import TrainingMetric
from fairshare.model import JobAttempt, JobDetail

NOW = 1_796_061_600_000
MINUTE = 60_000


def ran(name: str, *, ago: int = 60, minutes: int | None = 60, hosts: int = 1, **changes: Any) -> JobDetail:
    """A job that started ``ago`` minutes ago and ran for ``minutes``; None = it still runs."""
    start = NOW - ago * MINUTE
    stop = None if minutes is None else start + minutes * MINUTE
    values = {
        "job_id": name,
        "job_arn": "",
        "job_name": name,
        "status": "RUNNING" if minutes is None else "SUCCEEDED",
        "created_at": start - MINUTE,
        "scheduled_at": start,
        "started_at": start,
        "stopped_at": stop,
        "share_identifier": "LOWPRI",
        "instances": hosts,
        "training_job_name": f"AWSBatch{name}",
        "attempts": (JobAttempt(f"AWSBatch{name}", start, stop),),
        "payload": {"ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": hosts}},
    }
    return JobDetail(**values | changes)


@dataclass
class Source:
    """Half-busy GPUs, for every host and minute that is asked for; ``asked`` holds the requests."""

    asked: list[tuple[int, int, int]] = field(default_factory=list)

    def series(self, queries: Sequence[MetricQuery], start: int, end: int) -> Mapping[MetricQuery, tuple[Point, ...]]:
        self.asked.append((len(queries), start, end))
        period = queries[0].period * 1000
        points = tuple(Point(at, 200.0) for at in range(start, end, period))
        return {query: points for query in queries if query.name == TrainingMetric.GPU}

    def put(self, data: Any) -> None:
        raise AssertionError("nothing is published")


class Describes:
    def __init__(self, *jobs: JobDetail) -> None:
        self.jobs = {job.job_id: job for job in jobs}

    def describe(self, job_ids: Any) -> dict[str, JobDetail]:
        return {job_id: self.jobs[job_id] for job_id in job_ids if job_id in self.jobs}


class Phases:
    def phases(self, training_job_name: str) -> tuple[Phase, ...]:
        return (Phase("Training", NOW - 60 * MINUTE, NOW - 30 * MINUTE),)


def names(selection: Any) -> list[str]:
    return [job.job_name for job in selection.jobs]


def test_jobs_of_a_share_that_ran_in_the_time_are_chosen_newest_first():
    jobs = [
        ran("old", ago=600, minutes=10),
        ran("long", ago=600, minutes=None),
        ran("new", ago=30, minutes=10),
        ran("other", share_identifier="HIGHPRI"),
        ran("waiting", started_at=None, stopped_at=None),
    ]

    selection = select_jobs(Describes(*jobs), jobs, share="LOWPRI", since=NOW - 120 * MINUTE, now=NOW)

    assert names(selection) == ["new", "long"]
    assert selection.left_out == 0


def test_c49_only_so_many_jobs_are_described_and_the_rest_counted():
    jobs = [ran(f"job-{number}", ago=number) for number in range(1, 151)]

    selection = select_jobs(Describes(*jobs), jobs, share=None, since=0, now=NOW)

    assert (len(selection.jobs), selection.left_out) == (100, 50)
    assert names(selection)[0] == "job-1"


def test_one_request_covers_all_jobs_from_the_first_start_to_the_last_end():
    source = Source()

    reading = read_jobs([ran("a", ago=90, minutes=30), ran("b", ago=50, minutes=40, hosts=2)], source, NOW)

    assert source.asked == [(15, NOW - 90 * MINUTE, NOW - 10 * MINUTE)]
    assert reading.window.period == 60
    assert reading.jobs[1].use(TrainingMetric.GPU).mean == 50


@pytest.mark.parametrize(
    ("first", "shown"), [(NOW - 65_000, NOW - 65_000), (NOW - 50_000, NOW - 62_000), (None, NOW - 62_000)]
)
def test_c39_a_value_of_the_period_in_which_the_job_began_is_not_missed(first, shown):
    class Early(Source):
        def series(self, queries, start, end):
            super().series(queries, start, end)
            return {query: (Point(first, 50),) if first is not None else () for query in queries}

    source, began = Early(), NOW - 62_000
    job = ran("a", scheduled_at=began, started_at=began, attempts=(JobAttempt("AWSBatcha", began, NOW),))

    reading = read_jobs([job], source, NOW, finest=1)

    assert source.asked[0][1] == NOW - 120_000
    assert reading.window.start == shown


def test_the_first_attempt_begins_the_window():
    attempts = (JobAttempt("AWSBatcha0", NOW - 200 * MINUTE, NOW - 190 * MINUTE), JobAttempt("AWSBatcha", NOW))
    source = Source()

    read_jobs([ran("a", attempts=attempts)], source, NOW)

    assert source.asked == [(10, NOW - 200 * MINUTE, NOW)]


def test_jobs_that_never_started_cost_no_call():
    source = Source()

    reading = read_jobs([ran("a", training_job_name=None, attempts=())], source, NOW)

    assert (source.asked, reading.window) == ([], None)
    assert not reading.jobs[0].has_data


def test_c49_many_long_jobs_get_a_longer_period_instead_of_many_pages():
    jobs = [ran(f"job-{number}", ago=2880, minutes=2880, hosts=4) for number in range(30)]

    assert read_jobs(jobs, Source(), NOW).window.period == 300


def test_many_short_jobs_over_a_long_time_keep_the_minute():
    jobs = [ran(f"job-{number}", ago=60 + 14 * number, minutes=10) for number in range(100)]

    assert read_jobs(jobs, Source(), NOW).window.period == 60


def test_jobs_are_judged_with_their_phases_and_their_spill():
    reading = read_jobs([ran("a")], Source(), NOW)

    [found] = judge_jobs(reading, Phases(), NOW, lambda job: 7)

    assert (found.phases.training, found.spilled_mib) == (30 * MINUTE, 7)


@pytest.fixture
def half_idle():
    job = ran("idler", hosts=2)
    [measured] = read_jobs([job], Source(), NOW).jobs
    return judge(measured, phase_times(job, (), NOW))


def history(*jobs: JobDetail, capacity: int = 2, since: int | None = None) -> QueueHistory:
    return QueueHistory(Past(tuple(jobs), since), {}, capacity, None)


def test_the_queue_is_played_again_without_the_idle_half(half_idle):
    waiter = ran("waiter", ago=0, minutes=None, created_at=NOW - 55 * MINUTE)

    [victim] = history(half_idle.job, waiter).victims(half_idle, NOW)

    assert (victim.job_id, victim.delay) == ("waiter", 30 * MINUTE)


def test_of_jobs_made_in_the_same_instant_the_one_that_was_served_is_first(half_idle):
    waiter = ran("a-waiter", ago=0, minutes=None, created_at=half_idle.job.created_at)

    [victim] = history(waiter, half_idle.job).victims(half_idle, NOW)

    assert victim.job_id == "a-waiter"


def test_jobs_long_before_and_after_are_no_part_of_it(half_idle):
    before = ran("before", ago=3000, minutes=10)
    after = ran("after", ago=0, minutes=None, created_at=NOW + MINUTE)

    assert history(before, half_idle.job, after).victims(half_idle, NOW) == []


def test_nobody_waited_where_there_was_room(half_idle):
    waiter = ran("waiter", ago=55, minutes=10)

    assert history(half_idle.job, waiter, capacity=4).victims(half_idle, NOW) == []


def test_c49_nothing_is_said_of_a_time_before_the_known_past(half_idle):
    assert history(half_idle.job, since=NOW - 59 * MINUTE).victims(half_idle, NOW) is None
    assert history(half_idle.job, since=NOW - 60 * MINUTE).victims(half_idle, NOW) == []
