from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fairshare.aws.training import TrainingJobs
from fairshare.model import NotFoundError


class FakeSageMaker:
    """Knows the model artefacts of some training jobs."""

    def __init__(self, models: dict[str, dict[str, Any]], refusal: Callable[..., ClientError]) -> None:
        self._models = models
        self._refusal = refusal

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:
        if TrainingJobName not in self._models:
            raise self._refusal("Requested resource not found.", "ValidationException")
        return self._models[TrainingJobName]


def test_where_the_model_is(session_of: Callable[..., Any], refusal: Callable[..., ClientError]) -> None:
    uri = "s3://bucket/digits/output/model.tar.gz"
    models: dict[str, dict[str, Any]] = {"done": {"ModelArtifacts": {"S3ModelArtifacts": uri}}, "running": {}}
    jobs = TrainingJobs(session_of(sagemaker=FakeSageMaker(models, refusal)))

    assert jobs.model_artifact("done") == uri
    assert jobs.model_artifact("running") is None
    with pytest.raises(NotFoundError, match="Cannot describe training job gone: Requested resource not found"):
        jobs.model_artifact("gone")
