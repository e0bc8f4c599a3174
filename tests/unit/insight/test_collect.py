"""A run of the collector against a queue made of a list."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fairshare.insight.collect import CALLS, FACTS_KEPT, Cursor, Look, gauges, look_at
from fairshare.insight.queue_state import QueueFacts
from fairshare.metrics.ports import MetricQuery, Point
from fairshare.model import JobStatus, JobSummary

NOW = 1_796_061_600_000
MINUTE = 60_000
FACTS = QueueFacts("q", 16, weights={"HIGHPRI": "1", "TEAM*": "3"}, environments=("e",))


@dataclass
class FakeQueue:
    """Jobs, newest last; pages hold 100. ``calls`` counts as AWS would."""

    jobs: list[JobSummary] = field(default_factory=list)
    facts_now: QueueFacts = FACTS
    calls: list[str] = field(default_factory=list)
    points: tuple[Point, ...] = ()
    asked: list[MetricQuery] = field(default_factory=list)

    def facts(self, queue: str) -> QueueFacts:
        self.calls += ["facts"] * 3
        return self.facts_now

    def newest(self, queue: str, created_after: int, calls: int) -> Sequence[JobSummary]:
        return self._pages("newest", [job for job in self.jobs if job.created_at > created_after], calls)

    def page_before(self, queue: str, created_before: int) -> Sequence[JobSummary]:
        return self._pages("before", [job for job in self.jobs if job.created_at < created_before], 1)

    def describe(self, job_ids: Iterable[str]) -> dict[str, Any]:
        ids = list(job_ids)
        self.calls += ["describe"] * len(ids)
        return {job.job_id: job for job in self.jobs if job.job_id in ids}

    def series(self, queries: Sequence[MetricQuery], start: int, end: int) -> dict[MetricQuery, tuple[Point, ...]]:
        self.calls.append("series")
        self.asked = list(queries)
        return dict.fromkeys(queries, self.points)

    def put(self, data: Any) -> None:
        raise NotImplementedError

    def list(self, queue: str, statuses: Collection[JobStatus]) -> list[JobSummary]:
        found = []
        for status in statuses:
            found += self._pages("list", [job for job in self.jobs if job.status == status], 99)
        return found

    def end(self, *numbers: int, status: str = "SUCCEEDED") -> None:
        for number in numbers:
            self.jobs[number] = replace(self.jobs[number], status=status)

    def _pages(self, name: str, found: Sequence[JobSummary], calls: int) -> Sequence[JobSummary]:
        newest_first = list(reversed(found))[: 100 * calls]
        self.calls += [name] * max(1, -(-len(newest_first) // 100))
        return newest_first


@pytest.fixture
def queue(job) -> FakeQueue:
    """Three jobs: one runs, two wait."""
    jobs = [job(f"j{number}", created_at=NOW - (9 - number) * MINUTE) for number in range(3)]
    return FakeQueue([replace(jobs[0], status="RUNNING"), *jobs[1:]])


def look(queue: FakeQueue, cursor: Cursor | None = None, *, minutes: int = 0, **options: Any) -> Look:
    queue.calls.clear()
    return look_at("q", queue, queue, now=NOW + minutes * MINUTE, cursor=cursor, **options)


def ended_ids(found: Look) -> list[str]:
    assert found.ended is not None
    return sorted(job.job_id for job in found.ended)


def test_a_first_run_knows_no_ends_and_remembers_what_is_active(queue):
    found = look(queue)

    assert found.ended is None
    assert set(found.cursor.active) == {"j0", "j1", "j2"}
    assert queue.calls == ["facts"] * 3 + ["list"] * 4 + ["series"]


def test_the_next_run_counts_what_ended_whatever_its_age(queue):
    first = look(queue).cursor
    queue.end(0)
    queue.end(1, status="FAILED")

    found = look(queue, first, minutes=1)

    assert ended_ids(found) == ["j0", "j1"]
    assert set(found.cursor.active) == {"j2"}
    assert queue.calls == ["list"] * 4 + ["series", "newest", "describe", "describe"]
    assert ended_ids(look(queue, found.cursor, minutes=2)) == []


def test_a_job_that_came_and_went_between_two_runs_is_counted_once(queue, job):
    first = look(queue).cursor
    queue.jobs.append(job("brief", created_at=NOW + 1000, status="FAILED"))

    second = look(queue, first, minutes=1)

    assert ended_ids(second) == ["brief"]
    assert ended_ids(look(queue, second.cursor, minutes=2)) == []


def test_a_job_that_goes_on_between_two_listings_is_not_lost(queue):
    """It was listed in no status, and is described as RUNNING: its end is still to come."""
    first = look(queue).cursor
    queue.jobs[1] = replace(queue.jobs[1], status="SUBMITTED")

    second = look(queue, first, minutes=1)
    queue.end(1)

    assert ended_ids(second) == []
    assert ended_ids(look(queue, second.cursor, minutes=2)) == ["j1"]


def test_a_job_that_batch_forgot_is_dropped(queue):
    first = look(queue).cursor
    del queue.jobs[0]

    found = look(queue, first, minutes=1)

    assert ended_ids(found) == []
    assert set(found.cursor.active) == {"j1", "j2"}


@pytest.mark.parametrize("apart", [1, 150])
def test_c49_a_burst_of_ends_costs_no_more_calls_and_is_counted_whole(job, apart):
    """Fifty jobs end at once, with others made between them: many are found by a page, the rest by later runs."""
    jobs = [job(f"j{n:05}", created_at=NOW - 10**7 + n * 1000, status="SUCCEEDED") for n in range(apart * 50)]
    active = range(0, len(jobs), apart)
    for number in active:
        jobs[number] = replace(jobs[number], status="RUNNING")
    queue = FakeQueue(jobs)
    cursor = look(queue).cursor
    queue.end(*active)

    ended: list[str] = []
    for minute in range(1, 20):
        found = look(queue, cursor, minutes=minute)
        assert len(queue.calls) + 1 <= CALLS
        ended += ended_ids(found)
        cursor = found.cursor

    assert sorted(ended) == [f"j{number:05}" for number in active]
    assert cursor.active == {}


def test_c49_three_hundred_active_jobs_cost_ten_calls_at_most_in_every_run(job):
    jobs = [job(f"j{n}", created_at=NOW - n, status="RUNNING" if n < 101 else "RUNNABLE") for n in range(300)]
    queue = FakeQueue([*jobs[:298], replace(jobs[298], status="STARTING"), replace(jobs[299], status="SCHEDULED")])

    first = look(queue)
    assert (first.history, len(queue.calls) + 1) == (None, CALLS)
    queue.end(0, 1)
    second = look(queue, first.cursor, minutes=1)
    assert second.history is not None
    assert len(queue.calls) + 1 == CALLS
    late = look(queue, second.cursor, minutes=FACTS_KEPT // MINUTE)
    assert (late.ended, len(queue.calls) + 1) == (None, CALLS)


def test_an_end_that_waited_for_a_run_with_calls_left_is_counted_once(job):
    """A run that describes the queue again has no call left for ends; jobs made before it may end after it."""
    queue = FakeQueue([job(f"j{n}", created_at=NOW - 1000 + n) for n in range(300)])
    cursor = look(queue).cursor
    queue.jobs.append(job("late", created_at=NOW + MINUTE))
    queue.end(0, 1)
    ended: list[str] = []
    for minute in range(FACTS_KEPT // MINUTE, FACTS_KEPT // MINUTE + 8):
        found = look(queue, cursor, minutes=minute)
        ended += [] if found.ended is None else ended_ids(found)
        queue.end(300, 2)
        cursor = found.cursor

    assert sorted(ended) == ["j0", "j1", "j2", "late"]
    assert set(cursor.active) == {f"j{n}" for n in range(3, 300)}


def test_what_decides_about_a_queue_is_asked_again_after_a_while(queue):
    first = look(queue).cursor
    queue.facts_now = replace(FACTS, capacity=32)

    assert look(queue, first, minutes=14).facts.capacity == 16
    assert look(queue, first, minutes=15).facts.capacity == 32
    assert look(queue, first, minutes=-1).facts.capacity == 32


def test_history_is_asked_of_the_queue_its_entries_and_the_identifiers_in_use(queue, job):
    queue.jobs.append(job("x", share_identifier="TEAMA", created_at=NOW))
    queue.points = (Point(NOW - MINUTE, 1.0),)

    found = look(queue, stack="search")

    shares = [dict(query.dimensions).get("Share") for query in queue.asked]
    assert shares == [None, "HIGHPRI", "TEAMA"]
    assert queue.asked[0].dimensions == (("Stack", "search"), ("Queue", "q"))
    assert {query.period for query in queue.asked} == {60}
    assert found.history is not None
    assert found.history.shares["TEAMA"] == queue.points


@pytest.mark.parametrize(("window", "period"), [(6 * 3600, 60), (86_400, 300), (604_800, 3600)])
def test_a_long_window_is_read_in_longer_periods(queue, window, period):
    queue.facts_now = replace(FACTS, share_decay_seconds=window)

    look(queue)

    assert {query.period for query in queue.asked} == {period}


def test_a_fifo_queue_needs_no_history(queue):
    queue.facts_now = QueueFacts("q", 16)

    assert look(queue).history is None
    assert "series" not in queue.calls


def test_ends_can_be_left_to_others(queue):
    first = look(queue, counts_ends=False).cursor
    queue.end(0)

    assert look(queue, first, minutes=1, counts_ends=False).ended is None


def test_a_cursor_survives_json_and_refuses_what_it_did_not_write(queue):
    cursor = look(queue).cursor

    assert Cursor.from_json(json.loads(json.dumps(cursor.to_json()))) == cursor
    for document in ({}, {"facts": {"unknown": 1}}, {**cursor.to_json(), "active": 5}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            Cursor.from_json(document)


def test_queues_of_one_environment_take_its_capacity_from_each_other(queue, job):
    other = FakeQueue([job("o", status="RUNNING", instances=12)], QueueFacts("other", 16, environments=("e",)))
    apart = FakeQueue([job("p", status="RUNNING", instances=3)], QueueFacts("apart", 16, environments=("f",)))

    found = gauges([look(queue), look(other), look(apart)], NOW)

    assert [each.values["IdleCapacityWhileWaiting"] for each in found] == [3, 0, 0]
