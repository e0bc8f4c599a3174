from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import Dependency, JobSpec, Origin
from fairshare.model import JobRequest, NotFoundError, UsageError
from fairshare.submit.conditions import Skip
from fairshare.submit.dependencies import expand_dependencies
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.naming import assign_names, label_of
from fairshare.submit.only_failed import labels_left, latest_run_of, only
from fairshare.submit.records import JobRecord, RunRecord
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

LABELS = ("digits-lr0-1", "digits-lr0-01", "prepare", "a.b", "a-b")


def specs(*names: str) -> list[JobSpec]:
    return [JobSpec(name, Origin("jobs.yaml", 1)) for name in names]


def test_the_label_of_a_job_is_the_same_in_every_run() -> None:
    first, second = (
        [label_of(names.job_name, run_id) for names in assign_names(run_id, LABELS)] for run_id in ("one", "two")
    )

    assert first == second == ["digits-lr0-1", "digits-lr0-01", "prepare", "a-b", "a-b-2"]


@pytest.mark.parametrize(
    ("changes", "is_left"),
    [
        ({}, True),
        ({"intended_at": 5}, True),
        ({"error": "refused"}, True),
        ({"job_id": "1", "status": "FAILED"}, True),
        ({"skip": Skip("prepare failed")}, True),
        ({"skip": Skip("nothing failed", is_failure=False)}, False),
        ({"job_id": "1"}, False),
        ({"job_id": "1", "status": "SUCCEEDED"}, False),
    ],
)
def test_which_jobs_are_worth_another_run(changes: dict[str, Any], is_left: bool) -> None:
    (names,) = assign_names("lunar-otter", ["digits"])
    job = replace(JobRecord(0, 1, JobRequest(names.job_name, "gpu", "{}", "t"), "hash", {}), **changes)
    record = RunRecord(Path("x"), RunIdentity("lunar-otter", 0, "eu-west-1", "1"), (), (), (job,))

    assert labels_left(record) == (["digits"] if is_left else [])


def test_only_jobs_with_a_label_are_kept_in_their_places() -> None:
    expanded = [specs("digits-lr0-1", "digits-lr0-01"), specs("prepare"), specs("other")]

    found = only(expanded, {"digits-lr0-01", "other", "gone"}, "two")

    assert [[job.name for job in jobs] for jobs in found] == [["digits-lr0-01"], [], ["other"]]
    with pytest.raises(NotFoundError, match="none of the jobs that did not succeed is there any more"):
        only(expanded, {"gone"}, "two")


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[[str, int, str | None], None]:
    def make(run_id: str, created_at: int, job_file: str | None) -> None:
        identity = RunIdentity(run_id, created_at, "eu-west-1", "111122223333", job_file)
        job = PlannedJob(0, 1, JobRequest("a", "gpu", "{}", "t"))
        with Journal.create(tmp_path, run_id, Holder("fairshare submit", 0)) as journal:
            journal.begin(identity, [Wave(1, 0, 0, 1)], [job])

    return make


def test_the_latest_run_of_a_job_file(tmp_path: Path, make_run: Callable[[str, int, str | None], None]) -> None:
    make_run("older", 1, "/project/jobs.yaml")
    make_run("newer", 2, "/project/jobs.yaml")
    make_run("other", 3, "/project/other.yaml")
    make_run("script", 4, None)
    (tmp_path / "damaged.jsonl").write_text("x\n")

    assert latest_run_of(tmp_path, "/project/jobs.yaml").run_id == "newer"
    with pytest.raises(NotFoundError, match=r"no run of /project/new\.yaml was submitted from this machine"):
        latest_run_of(tmp_path, "/project/new.yaml")
    with pytest.raises(UsageError, match="of which run"):
        latest_run_of(tmp_path, None)


def test_a_job_does_not_wait_for_one_that_is_not_sent_again() -> None:
    train = replace(specs("train")[0], after=(Dependency("prepare"), Dependency("fetch", "any")))
    written = [*specs("prepare", "fetch"), train]

    after = expand_dependencies(written, only([[job] for job in written], {"fetch", "train"}, "two"))

    assert after == [(), (((0,), "any"),)]
