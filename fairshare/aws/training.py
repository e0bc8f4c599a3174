"""SageMaker training jobs: the adapter of `fairshare.insight.results.TrainingSource`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from fairshare.aws.errors import translated
from fairshare.aws.session import AwsSession
from fairshare.model import NotFoundError
from fairshare.submit.outcomes import Training

_PARALLEL: Final = 8
"""DescribeTrainingJob tells of one job; botocore slows down when AWS throttles."""


class TrainingJobs:
    """Reads SageMaker training jobs.

    Args:
        session: account and region.
    """

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def describe(self, names: Collection[str]) -> dict[str, Training]:
        """Return what SageMaker tells of training jobs, by name. Those that it does not know are absent.

        Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html.

        Raises:
            FairshareError: it cannot be asked.
        """
        if not names:
            return {}
        with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="describe") as pool:
            found = pool.map(self._describe, names)
            return {name: training for name, training in zip(names, found, strict=True) if training is not None}

    def model_artifact(self, training_job_name: str) -> str | None:
        """Return the S3 URI of ``model.tar.gz``; None when the job made no model (or none yet).

        Raises:
            FairshareError: AWS does not know the job, or cannot be asked.
        """
        return training_from(self._answer(training_job_name)).model_artifacts

    def _describe(self, name: str) -> Training | None:
        try:
            return training_from(self._answer(name))
        except NotFoundError:
            return None

    def _answer(self, name: str) -> Mapping[str, Any]:
        with translated(f"describe training job {name}", self._session.caller):
            answer: Mapping[str, Any] = self._session.client("sagemaker").describe_training_job(TrainingJobName=name)
            return answer


def training_from(answer: Mapping[str, Any]) -> Training:
    """Read the answer of DescribeTrainingJob; what it tells of results may all be missing.

    A metric that is not a number counts as none: JSON has no NaN, and no order either.
    """
    values = {entry["MetricName"]: float(entry["Value"]) for entry in answer.get("FinalMetricDataList") or ()}
    return Training(
        metrics={name: value for name, value in values.items() if math.isfinite(value)},
        training_seconds=answer.get("TrainingTimeInSeconds"),
        billable_seconds=answer.get("BillableTimeInSeconds"),
        model_artifacts=(answer.get("ModelArtifacts") or {}).get("S3ModelArtifacts") or None,
    )
