"""SageMaker training jobs: where the model of one is."""

from __future__ import annotations

from fairshare.aws.errors import translated
from fairshare.aws.session import AwsSession


class TrainingJobs:
    """Reads SageMaker training jobs.

    Args:
        session: account and region.
    """

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def model_artifact(self, training_job_name: str) -> str | None:
        """Return the S3 URI of ``model.tar.gz``; None when the job made no model (or none yet).

        Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html, ModelArtifacts.

        Raises:
            FairshareError: AWS does not know the job, or cannot be asked.
        """
        with translated(f"describe training job {training_job_name}", self._session.caller):
            answer = self._session.client("sagemaker").describe_training_job(TrainingJobName=training_job_name)
        artifacts = answer.get("ModelArtifacts") or {}
        return artifacts.get("S3ModelArtifacts") or None
