"""``fairshare metrics publish``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairshare.insight.queue_state import QueueFacts
from fairshare.metrics.ports import Datum
from fairshare.model import CredentialsError, JobDetail, ThrottledError

FACTS = QueueFacts("search-gpu", 4, stack="search", weights={"HIGHPRI": "1", "LOWPRI": "3"})


class FakeSource:
    """Batch and CloudWatch as the collector asks them, over the jobs of the fake Batch."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.data: list[Sequence[Datum]] = []
        self.errors: list[Exception] = []

    def facts(self, queue: str) -> QueueFacts:
        return replace(FACTS, name=queue)

    def list(self, queue: str, statuses: Any) -> Any:
        return self.batch.list(queue, statuses)

    def newest(self, queue: str, created_after: int, calls: int) -> Any:
        return [job for job in self.batch.list(queue) if job.created_at > created_after]

    def page_before(self, queue: str, created_before: int) -> Any:
        raise NotImplementedError

    def describe(self, job_ids: Any) -> dict[str, JobDetail]:
        return self.batch.describe(job_ids)

    def series(self, queries: Any, start: int, end: int) -> dict[Any, Any]:
        return {}

    def put(self, data: Sequence[Datum]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.data.append(data)


@pytest.fixture
def source(cli, job) -> FakeSource:
    jobs = [job(1), job(2, status="RUNNING", share_identifier="LOWPRI", instances=2)]
    cli.batch.jobs = {each.job_id: each for each in jobs}
    found = FakeSource(cli.batch)
    cli.more |= {"queue_source": found, "metrics": found}
    return found


def test_it_publishes_every_queue_of_the_project_and_shows_what(cli, source):
    assert cli("metrics", "publish") == 0

    assert cli.out == (
        "queue search-gpu  2 of 4 instances in use\n"
        "SHARE    RUNNABLE  LAUNCHING  RUNNING  OLDEST  USED  USAGE  TARGET  NOTE\n"
        "all             1          0        1  1 min      2      -       -  idle capacity\n"
        "HIGHPRI         1          0        0  1 min      0    0 %    75 %\n"
        "LOWPRI          0          0        1  -          2  100 %    25 %\n"
        "Published 30 values.\n"
    )
    assert {datum.at for datum in source.data[0]} == {cli.clock.now()}


def test_the_document_has_the_gauges_and_the_next_run_the_ends(cli, source, job):
    cli("metrics", "publish", "-o", "json")
    first = json.loads(cli.out)
    cli.clock.advance(60_000)
    cli.batch.jobs[job(2).job_id] = job(2, status="FAILED", share_identifier="LOWPRI")
    cli("metrics", "publish", "-o", "json")
    second = json.loads(cli.out)

    assert first["kind"] == "CollectorRun"
    assert first["queues"][0]["ended_job_ids"] is None
    assert second["queues"][0]["ended_job_ids"] == [job(2).job_id]
    assert second["queues"][0]["gauges"]["FailedJobs"] == 1
    assert second["queues"][0]["shares"][1]["gauges"]["FailedJobs"] == 1
    assert second["published"] == len(source.data[1])


def test_a_cursor_that_was_damaged_is_begun_anew(cli, source):
    cli("metrics", "publish")
    [file] = (cli.cwd / "state" / "collector").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text('{"facts": 5')

    assert cli("metrics", "publish", "-o", "json") == 0
    assert json.loads(cli.out)["queues"][0]["ended_job_ids"] is None


def test_queues_may_be_named_and_each_counts_once(cli, source):
    cli("metrics", "publish", "-q", "gpu", "-q", "search-gpu", "-q", "other", "-o", "name")

    assert cli.out == "search-gpu\nother\n"


def test_every_goes_on_when_aws_throttles_and_pauses_longer(cli, source):
    source.errors = [ThrottledError("slow down"), ThrottledError("slow down")]
    began: list[int] = []

    def stop_later() -> None:
        began.append(cli.clock.now())
        if len(began) == 4:
            raise KeyboardInterrupt

    start = cli.clock.now()
    cli.clock.on_sleep = stop_later

    assert cli("metrics", "publish", "--every", "60s") == 130
    assert [at - start for at in began] == [120_000, 360_000, 420_000, 480_000]
    assert cli.err.count("warning: nothing is published this time: slow down") == 2
    assert len(source.data) == 2


def test_what_waiting_cannot_heal_ends_it(cli, source):
    source.errors = [CredentialsError("expired")]

    assert cli("metrics", "publish", "--every", "60s") == 6


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--once", "--every", "60s"), "--once and --every exclude each other"),
        (("--every", "0"), "--every: 0 leaves no time between two runs"),
        (("--every", "soon"), "--every: "),
    ],
)
def test_flags_that_cannot_be(cli, source, flags, message):
    assert cli("metrics", "publish", *flags) == 2
    assert message in cli.err


def test_metrics_of_a_job_is_still_a_command_of_its_own(cli):
    assert cli("metrics", "--help") == 0
    assert "Usage: fairshare metrics [OPTIONS] [JOB|RUN]" in cli.out
    assert cli("metrics", "publish", "--help") == 0
    assert "Usage: fairshare metrics publish [OPTIONS]" in cli.out
    assert cli("help", "metrics", "publish") == 0
    assert "Usage: fairshare metrics publish [OPTIONS]" in cli.out
