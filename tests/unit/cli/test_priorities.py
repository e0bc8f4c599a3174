"""Priorities that a listing does not carry: described once, and kept for a while."""

from __future__ import annotations

import json

import pytest

from fairshare.cli.priorities import KEPT


@pytest.fixture
def described(cli, job):
    """Two waiting jobs; the ids that are described."""
    cli.batch.jobs = {each.job_id: each for each in (job(1), job(2, scheduling_priority=0))}
    asked: list[str] = []
    describe = cli.batch.describe

    def noting(job_ids):
        asked.extend(job_ids)
        return describe(job_ids)

    cli.batch.describe = noting
    return asked


def priorities(cli):
    assert cli("queue", "-o", "json") == 0
    return [job["scheduling_priority"] for job in json.loads(cli.out)["jobs"]]


def test_c49_a_second_look_describes_nothing(cli, described):
    assert sorted(priorities(cli)) == sorted(priorities(cli)) == [0, 80]
    assert len(described) == 2


def test_a_priority_is_asked_again_after_a_while(cli, described, job):
    priorities(cli)
    cli.batch.jobs[job(1).job_id] = job(1, scheduling_priority=5)

    cli.clock.advance(KEPT - 1)
    assert sorted(priorities(cli)) == [0, 80]
    cli.clock.advance(1)
    assert sorted(priorities(cli)) == [0, 5]
    assert len(described) == 4


@pytest.mark.parametrize("content", ["", "[]", '{"x": 5}', '{"x": ["a", "b"]}', '{"x": [1, null]}'])
def test_a_damaged_cache_says_nothing(cli, described, content):
    folder = cli.cwd / "state" / "cache"
    folder.mkdir(parents=True)
    (folder / "priorities.json").write_text(content)

    assert sorted(priorities(cli)) == [0, 80]


def test_a_cache_that_cannot_be_written_is_done_without(cli, described):
    (cli.cwd / "state").mkdir()
    (cli.cwd / "state" / "cache").write_text("in the way")

    assert sorted(priorities(cli)) == [0, 80]
