from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import SecretRef
from fairshare.insight.results import RunResults, job_ids_to_ask, parameters_of, results_of, see_jobs, with_training
from fairshare.model import ACTIVE_STATUSES, JobAttempt, JobRequest, JobSummary, NotFoundError
from fairshare.submit.conditions import Skip
from fairshare.submit.outcomes import Ending, Training
from fairshare.submit.records import JobRecord, RunRecord
from fairshare.submit.requests import RunIdentity

URI = "s3://bucket/model.tar.gz"


class FakeTraining:
    """SageMaker, which knows some training jobs."""

    def __init__(self, known: dict[str, Training]) -> None:
        self._known = known
        self.asked: list[str] = []

    def describe(self, names: Collection[str]) -> dict[str, Training]:
        self.asked += names
        return {name: self._known[name] for name in names if name in self._known}


def sent(index: int, **changes: Any) -> JobRecord:
    """Job ``train-<index>`` with id ``job-<index>``, of a sweep over lr."""
    payload = {"HyperParameters": {"epochs": "5", "lr": f"{10**-index:.12g}"}}
    request = JobRequest(f"train-{index}", "gpu", json.dumps(payload), "token")
    return replace(JobRecord(index, 1, request, "hash", {}, job_id=f"job-{index}"), **changes)


def run(*jobs: JobRecord) -> RunRecord:
    identity = RunIdentity("lunar-otter", 0, "eu-west-1", "111122223333")
    return RunRecord(Path("lunar-otter.jsonl"), identity, ("gpu",), (), jobs)


def ended(index: int, **changes: Any) -> JobRecord:
    """A job whose journal knows everything."""
    training = {"metrics": {"loss": index / 2}, "training_seconds": 60, "billable_seconds": 30, "model_artifacts": URI}
    output = {"attempts": 1, "training": training}
    return sent(index, **{"status": "SUCCEEDED", "training_job_name": f"t-{index}", "output": output} | changes)


def test_a_run_whose_journal_knows_everything_asks_nobody() -> None:
    record = run(ended(1), sent(2, job_id=None), sent(3, job_id=None, error="refused"))
    assert job_ids_to_ask(record) == []

    first, second, third = results_of(record).jobs

    assert (first.job_name, first.status, first.metrics, first.attempts) == ("train-1", "SUCCEEDED", {"loss": 0.5}, 1)
    assert (first.training_seconds, first.billable_seconds, first.model_artifacts) == (60, 30, URI)
    assert (second.status, third.status, third.reason) == ("NOT_SENT", "REFUSED", "refused")
    assert not any(job.not_known for job in (first, second, third))


def test_states_of_jobs_that_batch_does_not_have() -> None:
    skipped = sent(1, job_id=None, skip=Skip("prepare failed"))
    called = sent(2, job_id=None, intended_at=5)

    assert [(job.status, job.reason) for job in results_of(run(skipped, called)).jobs] == [
        ("SKIPPED", "prepare failed"),
        ("NO_ANSWER", None),
    ]


def test_batch_and_sagemaker_are_asked_for_what_is_missing(batch: Any, job: Callable[..., JobSummary]) -> None:
    record = run(ended(0), sent(1), sent(2))
    succeeded = job("job-1", status="SUCCEEDED", training_job_name="t-1", started_at=5, stopped_at=9)
    backend = batch([succeeded, job("job-2", status="RUNNING", training_job_name="t-2")])
    backend.attempts = {"job-1": (JobAttempt("t-0"), JobAttempt("t-1"))}
    training = FakeTraining({"t-1": Training({"loss": 0.25}, 60, 60, URI)})

    seen = with_training(record, see_jobs(record, backend), training)

    assert sorted(job_id for _, ids in backend.calls for job_id in ids) == ["job-1", "job-2"]
    assert training.asked == ["t-1"]
    ending = Ending("SUCCEEDED", None, "t-1", 5, 9, attempts=2, training=Training({"loss": 0.25}, 60, 60, URI))
    assert seen.endings == {"job-1": ending}
    found = results_of(record, seen)
    assert [(job.status, job.metrics, job.attempts) for job in found.jobs] == [
        ("SUCCEEDED", {"loss": 0.0}, 1),
        ("SUCCEEDED", {"loss": 0.25}, 2),
        ("RUNNING", {}, None),
    ]


def test_many_jobs_are_looked_for_in_one_listing(batch: Any, job: Callable[..., JobSummary]) -> None:
    record = run(*(sent(index) for index in range(30)))
    backend = batch(job(f"job-{n}", status="RUNNABLE" if n else "FAILED") for n in range(30))

    seen = see_jobs(record, backend)

    assert backend.calls == [("list", ACTIVE_STATUSES), ("describe", ("job-0",))]
    assert len(seen.jobs) == 30
    assert list(seen.endings) == ["job-0"]


def test_c29_a_job_that_batch_has_forgotten_is_unknown_and_says_what_is_not_known(batch: Any) -> None:
    record = run(sent(1), ended(2, output={"attempts": 1}), ended(3, output=None, training_job_name=None))
    assert job_ids_to_ask(record) == ["job-1", "job-2", "job-3"]

    seen = with_training(record, see_jobs(record, batch()), FakeTraining({}))
    forgotten, half, refused = results_of(record, seen).jobs

    assert (forgotten.status, forgotten.reason) == ("UNKNOWN", None)
    assert forgotten.not_known == (
        "status", "metrics", "training_seconds", "billable_seconds", "attempts", "model_artifacts"
    )  # fmt: skip
    assert (half.status, half.not_known[0]) == ("SUCCEEDED", "metrics")
    assert (refused.status, refused.not_known) == ("SUCCEEDED", ("attempts",))


def test_only_parameters_that_vary_are_columns() -> None:
    array = {"HyperParameters": {"epochs": "5"}, "Environment": {"FAIRSHARE_ARRAY_INDEX": "3", "OTHER": "x"}}
    one = sent(4, request=JobRequest("other", "gpu", json.dumps(array), "token"))

    found = results_of(run(sent(1), sent(2), one))

    assert found.parameters == ("lr", "array_index")
    assert [job.parameters.get("lr") for job in found.jobs] == [0.1, 0.01, None]
    assert results_of(run(sent(1))).parameters == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.1", 0.1), ("1e-05", 1e-05), ("true", True), ("null", None), ("3.10", "3.10"), ("010", "010"), ("[1]", "[1]")],
)
def test_c09_a_parameter_is_the_number_that_its_text_is_or_the_text(text: str, value: Any) -> None:
    assert parameters_of(json.dumps({"HyperParameters": {"x": text}})) == {"x": value}


def test_c46_a_secret_is_no_parameter() -> None:
    payload = json.dumps({"HyperParameters": {"api_key": {"from_env": "KEY"}, "lr": "1"}})

    record = run(sent(1, request=JobRequest("a", "gpu", payload, "token"), secrets={"api_key": SecretRef("KEY")}))

    assert results_of(record).jobs[0].parameters == {"lr": 1}


def names(found: RunResults) -> list[str]:
    return [job.job_name for job in found.jobs]


def test_sorting_and_the_best() -> None:
    found = results_of(run(ended(1), sent(9), ended(3), ended(2)))

    assert names(found.sorted_by("loss")) == ["train-3", "train-2", "train-1", "train-9"]
    assert names(found.sorted_by("loss", lowest_first=True).first(2)) == ["train-1", "train-2"]
    assert names(found.sorted_by("lr")) == ["train-1", "train-2", "train-3", "train-9"]
    assert names(found.sorted_by("training_seconds")) == ["train-1", "train-3", "train-2", "train-9"]
    with pytest.raises(NotFoundError, match='run lunar-otter has no metric or parameter "los"') as raised:
        found.sorted_by("los")
    assert raised.value.hint == "did you mean loss?"


def test_what_only_the_journal_knows_is_not_lost(batch: Any, job: Callable[..., JobSummary]) -> None:
    output = {"training": {"metrics": {"loss": 0.5}}}
    record = run(ended(1, output=output))
    backend = batch([job("job-1", status="SUCCEEDED", training_job_name="t-1")])
    backend.attempts = {"job-1": (JobAttempt("t-1"),)}

    seen = with_training(record, see_jobs(record, backend), FakeTraining({}))

    (found,) = results_of(record, seen).jobs
    assert (found.metrics, found.attempts, found.not_known) == ({"loss": 0.5}, 1, ())
