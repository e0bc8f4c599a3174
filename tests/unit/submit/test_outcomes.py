from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairshare.model import JobAttempt, JobDetail, JobRef, JobRequest, JobSummary, NotFoundError
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.outcomes import Ending, Training, ending_in, ending_of, note_endings, runs_of
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

ME = Holder("fairshare wait", since=7_000)
TRAINED = Training({"loss": 0.5}, training_seconds=60, billable_seconds=45, model_artifacts="s3://b/model.tar.gz")
ENDING = Ending("SUCCEEDED", "done", "AWSBatchx", started_at=1, stopped_at=2, attempts=2, training=TRAINED)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write the journal of a run whose jobs, with these ids, were all sent."""

    def make(run_id: str, *job_ids: str) -> Path:
        requests = [JobRequest(f"job-{job_id}", "gpu", "{}", f"token-{job_id}") for job_id in job_ids]
        planned = [PlannedJob(index, 1, request) for index, request in enumerate(requests)]
        with Journal.create(tmp_path, run_id, Holder("fairshare submit", 0)) as journal:
            journal.begin(RunIdentity(run_id, 0, "eu-west-1", "111122223333"), [Wave(1, 0, 0, len(planned))], planned)
            journal.intend(planned, 0)
            for index, job_id in enumerate(job_ids):
                journal.sent(index, JobRef(job_id, "", f"job-{job_id}"), 0)
        return tmp_path / f"{run_id}.jsonl"

    return make


def test_an_ending_is_what_the_journal_tells_afterwards(make_run: Callable[..., Path]) -> None:
    path = make_run("lunar-otter", "a", "b")

    assert note_endings(path.parent, "lunar-otter", {"b": ENDING, "elsewhere": ENDING}, ME) == 1

    first, second = read_run(path).jobs
    assert (ending_in(first), ending_in(second)) == (None, ENDING)
    assert ENDING.is_complete


def test_nothing_is_noted_twice(make_run: Callable[..., Path]) -> None:
    path = make_run("lunar-otter", "a")
    note_endings(path.parent, "lunar-otter", {"a": ENDING}, ME)
    before = path.read_bytes()

    assert note_endings(path.parent, "lunar-otter", {"a": ENDING}, ME) == 0
    assert note_endings(path.parent, "lunar-otter", {"a": Ending("SUCCEEDED")}, ME) == 0
    assert path.read_bytes() == before


def test_a_later_look_adds_to_an_earlier_one(make_run: Callable[..., Path]) -> None:
    path = make_run("lunar-otter", "a")
    early = Ending("SUCCEEDED", "done", "AWSBatchx", started_at=1, stopped_at=2)
    assert not early.is_complete

    note_endings(path.parent, "lunar-otter", {"a": early}, ME)
    note_endings(path.parent, "lunar-otter", {"a": Ending("SUCCEEDED", attempts=2, training=TRAINED)}, ME)

    assert ending_in(read_run(path).jobs[0]) == ENDING


def test_c26_a_run_that_another_process_holds_is_left_alone(make_run: Callable[..., Path]) -> None:
    path = make_run("lunar-otter", "a")

    with Journal.open(path, Holder("fairshare resume", 0)):
        assert note_endings(path.parent, "lunar-otter", {"a": ENDING}, ME) == 0

    assert ending_in(read_run(path).jobs[0]) is None


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match='there is no run "solar-badger"'):
        note_endings(tmp_path, "solar-badger", {"a": ENDING}, ME)


def test_which_runs_name_a_job(make_run: Callable[..., Path]) -> None:
    runs_dir = make_run("lunar-otter", "id-a", "id-b").parent
    make_run("solar-badger", "id-c")

    assert runs_of(runs_dir, ["id-b", "id-c"]) == ["lunar-otter", "solar-badger"]
    assert runs_of(runs_dir, ["id-d"]) == []
    assert runs_of(runs_dir / "none", ["id-a"]) == []


@pytest.mark.parametrize(("status", "has_ended"), [("RUNNING", False), ("SUCCEEDED", True), ("FAILED", True)])
def test_a_job_has_an_ending_once_it_has_ended(status: str, has_ended: bool) -> None:
    job = JobSummary("a", "", "job-a", status, created_at=0, status_reason="why", training_job_name="AWSBatchx")

    assert ending_of(job) == (Ending(status, "why", "AWSBatchx") if has_ended else None)


def test_attempts_are_known_from_a_description_only() -> None:
    attempts = (JobAttempt("AWSBatchx"), JobAttempt("AWSBatchy"))

    ending = ending_of(JobDetail("a", "", "job-a", "FAILED", created_at=0, attempts=attempts))

    assert ending is not None
    assert ending.attempts == 2
    assert ending.is_complete  # it had no training job in the end: there is nothing else to ask


def test_preemptions_are_kept_with_the_words_about_the_last(make_run: Callable[..., Path]) -> None:
    lost = (JobAttempt("AWSBatch1", status_reason="In-share"), JobAttempt("AWSBatch2", status_reason="Cross-share"))
    job = JobDetail("a", "", "job-a", "SUCCEEDED", created_at=0, preempted_attempts=lost, preemptions=12)
    ending = ending_of(job)
    assert ending is not None
    path = make_run("lunar-otter", "a")

    note_endings(path.parent, "lunar-otter", {"a": ending}, ME)

    kept = ending_in(read_run(path).jobs[0])
    assert kept == ending
    assert (kept.preemptions, kept.preemption_reason) == (12, "Cross-share")
