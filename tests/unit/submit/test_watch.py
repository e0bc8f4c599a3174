"""How jobs are looked at, how often, and what a look shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pytest

from fairshare.model import ACTIVE_STATUSES, JobDetail, JobStatus, JobSummary
from fairshare.submit.watch import DESCRIBED_AT_MOST, GONE_AFTER, LookPace, Watch, Watched, look


class Listing:
    """Batch with jobs of any status; remembers its calls."""

    def __init__(self, jobs: dict[str, tuple[str, str]]) -> None:
        self.jobs = jobs
        """Job id -> (queue, status)."""
        self.calls: list[tuple[str, object]] = []

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        ids = list(job_ids)
        self.calls.append(("describe", ids))
        return {each: JobDetail(each, "arn", each, self.jobs[each][1], 0) for each in ids if each in self.jobs}

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        self.calls.append((f"list {queue}", statuses))
        return [
            JobSummary(job_id, "arn", job_id, status, 0)
            for job_id, (where, status) in self.jobs.items()
            if where == queue and (statuses is None or status in statuses)
        ]

    def walk(self, queue: str, created_before: int | None = None) -> Iterator[Sequence[JobSummary]]:
        """The last job is the newest; ten jobs a page."""
        ids = [job_id for job_id, (where, _) in reversed(self.jobs.items()) if where == queue]
        for first in range(0, len(ids), 10):
            self.calls.append((f"page {queue}", first))
            yield [JobSummary(job_id, "arn", job_id, self.jobs[job_id][1], 0) for job_id in ids[first : first + 10]]


def watched(jobs: dict[str, tuple[str, str]]) -> list[Watched]:
    return [Watched(index, job_id, queue) for index, (job_id, (queue, _)) in enumerate(jobs.items())]


def test_a_few_jobs_are_described() -> None:
    jobs = {f"id-{index}": ("q", "RUNNING") for index in range(DESCRIBED_AT_MOST)}
    batch = Listing(jobs)

    assert set(look(batch, watched(jobs))) == set(jobs)  # type: ignore[arg-type]
    assert [name for name, _ in batch.calls] == ["describe"]


def test_many_jobs_are_listed_and_the_few_that_are_not_active_described() -> None:
    jobs = {f"id-{index}": ("q", "RUNNING") for index in range(100)} | {"id-7": ("q", "FAILED")}
    batch = Listing(jobs)

    found = look(batch, watched(jobs))  # type: ignore[arg-type]

    assert found["id-7"].status == "FAILED"
    assert batch.calls == [("list q", ACTIVE_STATUSES), ("describe", ["id-7"])]


def test_when_many_have_ended_the_newest_jobs_are_looked_at_page_by_page() -> None:
    jobs = {f"id-{index}": ("q", "SUCCEEDED") for index in range(50)}
    batch = Listing(jobs)

    assert len(look(batch, watched(jobs))) == 50  # type: ignore[arg-type]
    assert [name for name, _ in batch.calls] == ["list q", *["page q"] * 4, "describe"]
    assert len(batch.calls[-1][1]) == 10  # type: ignore[arg-type]


def test_c49_a_long_history_is_not_listed_for_jobs_deep_inside_it() -> None:
    ours = {f"id-{index}": ("q", "SUCCEEDED") for index in range(12)}
    batch = Listing(ours | {f"later-{index}": ("q", "SUCCEEDED") for index in range(1000)})

    assert set(look(batch, watched(ours))) == set(ours)  # type: ignore[arg-type]
    assert [name for name, _ in batch.calls] == ["list q", *["page q"] * 12, "describe"]


def test_each_queue_is_asked_about_its_own_jobs() -> None:
    jobs = {"a": ("p5", "RUNNING"), "b": ("p4", "RUNNABLE")}
    batch = Listing(jobs)

    assert set(look(batch, watched(jobs))) == {"a", "b"}  # type: ignore[arg-type]
    assert batch.calls == [("describe", ["a"]), ("describe", ["b"])]


WANTED = [Watched(0, "a", "q"), Watched(1, "b", "q")]


def seen(job_id: str, status: str = "RUNNING", reason: str | None = None) -> JobSummary:
    return JobSummary(job_id, "arn", job_id, status, 0, status_reason=reason)


def test_the_first_look_is_due_at_once_and_only_one_is_under_way() -> None:
    watch = Watch(LookPace(1_000, 8_000, 0))
    assert watch.is_due(0)
    watch.began(WANTED)
    assert not watch.is_due(10**9)

    watch.answered({}, 500)

    assert (watch.is_due(2_499), watch.is_due(2_500)) == (False, True)


@pytest.mark.parametrize(("jobs", "wait"), [(1, 2_008), (100, 2_800), (1_000, 10_000), (100_000, 10_000)])
def test_the_larger_a_run_the_rarer_its_looks(jobs: int, wait: int) -> None:
    watch = Watch(LookPace())
    wanted = [Watched(index, str(index), "q") for index in range(jobs)]
    watch.began(wanted)

    watch.answered({each.job_id: seen(each.job_id) for each in wanted}, 0)

    assert watch.next_at == wait


def test_looks_without_news_become_rarer_until_there_is_news() -> None:
    watch, now, waits = Watch(LookPace(1_000, 8_000, 0)), 0, []
    for status in ("RUNNABLE", *["RUNNING"] * 5, "SUCCEEDED"):
        watch.began(WANTED[:1])
        watch.answered({"a": seen("a", status)}, now)
        assert watch.next_at is not None
        waits.append(watch.next_at - now)
        now = watch.next_at

    assert waits == [1_000, 1_000, 2_000, 4_000, 8_000, 8_000, 1_000]


def test_a_new_reason_is_news_and_so_is_a_job_that_was_just_sent() -> None:
    watch = Watch(LookPace(1_000, 8_000, 0))
    for reason in (None, None, "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"):
        watch.began(WANTED[:1])
        watch.answered({"a": seen("a", reason=reason)}, 0)
    assert watch.next_at == 1_000

    for _ in range(3):
        watch.began(WANTED[:1])
        watch.failed(0)
    assert watch.next_at == 8_000
    watch.hurry()
    watch.began(WANTED[:1])
    assert watch.failed(0) == 2_000


def test_c29_a_job_counts_as_gone_after_some_looks_in_a_row() -> None:
    """A job that was just made may not be there yet; one that is seen again is not gone."""
    watch, shown = Watch(), []
    for found in ("b", "b", "ab", "b", "b", "b"):
        watch.began(WANTED)
        shown.append(watch.answered({each: seen(each) for each in found}, 0))

    there = (1, seen("b"))
    assert GONE_AFTER == 3
    assert shown == [[there], [there], [(0, seen("a")), there], [there], [there], [(0, None), there]]
