from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fairshare.aws.training import TrainingJobs
from fairshare.model import CredentialsError, NotFoundError
from fairshare.submit.outcomes import Training

URI = "s3://bucket/digits/output/model.tar.gz"


class FakeSageMaker:
    """Knows what is told of some training jobs."""

    def __init__(self, answers: dict[str, dict[str, Any]], refusal: Callable[..., ClientError]) -> None:
        self._answers = answers
        self._refusal = refusal

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:
        if TrainingJobName == "secret":
            raise self._refusal("not authorized", "AccessDeniedException", 403)
        if TrainingJobName not in self._answers:
            raise self._refusal("Requested resource not found.", "ValidationException")
        return self._answers[TrainingJobName]


@pytest.fixture
def jobs_of(
    session_of: Callable[..., Any], refusal: Callable[..., ClientError]
) -> Callable[[dict[str, dict[str, Any]]], TrainingJobs]:
    return lambda answers: TrainingJobs(session_of(sagemaker=FakeSageMaker(answers, refusal)))


def test_where_the_model_is(jobs_of: Callable[..., TrainingJobs]) -> None:
    jobs = jobs_of({"done": {"ModelArtifacts": {"S3ModelArtifacts": URI}}, "running": {}})

    assert jobs.model_artifact("done") == URI
    assert jobs.model_artifact("running") is None
    with pytest.raises(NotFoundError, match="Cannot describe training job gone: Requested resource not found"):
        jobs.model_artifact("gone")


def test_what_is_told_of_jobs_that_have_ended(jobs_of: Callable[..., TrainingJobs]) -> None:
    done = {
        "FinalMetricDataList": [
            {"MetricName": "accuracy", "Value": 0.5},
            {"MetricName": "loss", "Value": float("nan")},
        ],
        "TrainingTimeInSeconds": 61,
        "BillableTimeInSeconds": 0,
        "ModelArtifacts": {"S3ModelArtifacts": URI},
    }
    jobs = jobs_of({"done": done, "bare": {"ModelArtifacts": {"S3ModelArtifacts": ""}}})

    assert jobs.describe(["done", "bare", "gone"]) == {
        "done": Training({"accuracy": 0.5}, training_seconds=61, billable_seconds=0, model_artifacts=URI),
        "bare": Training(),
    }
    assert jobs.describe([]) == {}


def test_a_permission_that_is_missing_is_not_a_job_that_is_gone(jobs_of: Callable[..., TrainingJobs]) -> None:
    with pytest.raises(CredentialsError, match="describe training job secret"):
        jobs_of({}).describe(["secret"])
