"""``fairshare runs`` on journals as they may be found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.model import JobRef, JobRequest
from fairshare.submit.conditions import Skip
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

NOW = 1_796_061_600_000


@pytest.fixture
def journal(project: Path) -> Callable[..., Path]:
    """Write the journal of a run of four jobs: one sent, one refused, one without an answer, one not sent."""

    def write(run_id: str, created_at: int = NOW) -> Path:
        jobs = [PlannedJob(i, 1, JobRequest(f"job-{i}", "search-gpu", "{}", f"t{i}", "LOWPRI", 0)) for i in range(4)]
        with Journal.create(project / "state" / "runs", run_id, Holder("fairshare submit", NOW)) as journal:
            identity = RunIdentity(run_id, created_at, "eu-west-1", "111122223333")
            journal.begin(identity, [Wave(1, NOW, 0, 4)], jobs)
            journal.intend(jobs[:3], NOW)
            journal.sent(0, JobRef("12345678-abcd", "arn", "job-0"), NOW)
            journal.failed(1, "JobQueue gone not found.", NOW)
        return journal.path

    return write


def test_runs_are_listed_newest_first_with_what_is_left(cli: Any, journal: Callable[..., Path]) -> None:
    journal("older", NOW - 1)
    journal("newer")

    assert cli("runs") == 0
    lines = [line.split() for line in cli.out.splitlines()]
    assert lines[0] == ["RUN", "SUBMITTED", "AT", "QUEUE", "JOBS", "SUBMITTED", "PENDING", "FAILED"]
    assert [(line[0], line[-4:]) for line in lines[1:]] == [
        ("newer", ["4", "1", "2", "1"]),
        ("older", ["4", "1", "2", "1"]),
    ]
    assert cli.err == "Next: fairshare resume newer\n"


def test_the_counts_add_up(cli: Any, journal: Callable[..., Path]) -> None:
    journal("sweep")

    assert cli("runs", "-o", "json") == 0
    (run,) = json.loads(cli.out)["runs"]
    assert run["total"] == run["submitted"] + run["pending"] + run["failed"] == 4
    assert run["created_at"] == "2026-11-30T18:00:00.000Z"
    assert cli("runs", "-o", "name") == 0
    assert cli.out == "sweep\n"


def test_flags_may_stand_before_and_after_show(cli: Any, journal: Callable[..., Path]) -> None:
    journal("sweep")

    for argv in (("-o", "json", "runs", "show", "sweep"), ("runs", "-o", "json", "show", "sweep")):
        assert cli(*argv) == 0
        assert json.loads(cli.out)["kind"] == "RunDetail"


def test_one_run_says_of_each_job_what_became_of_it(cli: Any, journal: Callable[..., Path]) -> None:
    journal("sweep")

    assert cli("runs", "show", "swe") == 0
    assert "Run sweep: 4 jobs in 1 wave, " in cli.out
    rows = [line.split(maxsplit=3) for line in cli.out.splitlines()[3:]]
    assert [row[0] for row in rows] == ["job-0", "job-1", "job-2", "job-3"]
    assert rows[0][2:] == ["submitted", "12345678  -"]
    assert rows[1][2:] == ["failed", "-         JobQueue gone not found."]
    assert rows[2][2:] == ["no", "answer  -         -"]
    assert rows[3][2:] == ["not", "sent   -         -"]
    assert cli.err == "Next: fairshare resume sweep\n"


def test_a_machine_without_runs(cli: Any) -> None:
    assert cli("runs") == 0
    assert cli.out == "No run was submitted from this machine.\n"


def test_c25_a_damaged_journal_is_told_and_does_not_hide_the_others(cli: Any, journal: Callable[..., Path]) -> None:
    journal("good")
    path = journal("bad")
    path.write_bytes(path.read_bytes().replace(b"job-2", b"job-X"))

    assert cli("runs", "-o", "name") == 0
    assert cli.out == "good\n"
    assert f"{path}:4:1: error: damaged journal: its checksum is wrong" in cli.err
    assert cli("runs", "show", "bad") == 2
    assert cli("resume", "bad") == 2


def test_c25_a_torn_line_is_told(cli: Any, journal: Callable[..., Path]) -> None:
    path = journal("sweep")
    path.write_bytes(path.read_bytes()[:-5])

    assert cli("runs", "show", "sweep") == 0
    assert "the last record was torn by a crash and is ignored" in cli.err


def test_a_run_that_is_not_there(cli: Any) -> None:
    for argv in (("runs", "show", "gone"), ("resume", "gone")):
        assert cli(*argv) == 4
        assert 'no run goes by "gone"' in cli.err


def test_a_run_of_another_place_is_not_resumed(cli: Any, journal: Callable[..., Path]) -> None:
    path = journal("sweep")

    assert cli("resume", "sweep", "--region", "us-east-1") == 2
    assert "add --region eu-west-1" in cli.err
    assert path.exists()


def test_a_skipped_job_says_why(cli: Any, journal: Callable[..., Path]) -> None:
    with Journal.open(journal("sweep"), Holder("fairshare resume", NOW)) as opened:
        opened.skipped(3, Skip("job-1 failed"), NOW)
        opened.ended(0, "FAILED", NOW, reason="AlgorithmError: exit code 1")

    assert cli("runs") == 0
    lines = [line.split() for line in cli.out.splitlines()]
    assert lines[0][-4:] == ["SUBMITTED", "PENDING", "FAILED", "SKIPPED"]
    assert lines[1][-5:] == ["4", "0", "1", "2", "1"]
    assert cli("runs", "show", "sweep") == 0
    rows = [line.split() for line in cli.out.splitlines()[3:]]
    assert rows[0][2:] == ["failed", "12345678", "AlgorithmError:", "exit", "code", "1"]
    assert rows[3][2:] == ["skipped", "-", "job-1", "failed"]
    assert cli("runs", "show", "sweep", "-o", "json") == 0
    shown = json.loads(cli.out)
    assert shown["skipped"] == 1
    assert [(job["state"], job["status"], job["error"]) for job in shown["jobs"]][::3] == [
        ("failed", "FAILED", "AlgorithmError: exit code 1"),
        ("skipped", None, "job-1 failed"),
    ]


def test_a_job_that_was_not_needed_is_no_failure(cli: Any, journal: Callable[..., Path]) -> None:
    with Journal.open(journal("sweep"), Holder("fairshare resume", NOW)) as opened:
        for index in (1, 2):
            opened.sent(index, JobRef(f"id-{index}", "arn", f"job-{index}"), NOW)
        opened.skipped(3, Skip("nothing before it failed", is_failure=False), NOW)

    assert cli("runs", "show", "sweep") == 0
    assert cli.err == ""

    with Journal.open(journal("other"), Holder("fairshare resume", NOW)) as opened:
        opened.sent(2, JobRef("id-2", "arn", "job-2"), NOW)
        opened.skipped(3, Skip("job-1 failed"), NOW)
    assert cli("runs", "show", "other") == 0
    assert cli.err == "Next: fairshare resume other --failed\n"
