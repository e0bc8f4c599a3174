"""StopTrainingJob: ending the attempt of a service job behind AWS Batch's back.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html. Batch sees an attempt that
failed: its job ends FAILED, unless its retry strategy says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairshare.local.errors import ValidationException
from fairshare.local.region import Region


def stop_training_job(region: Region, request: Mapping[str, Any]) -> None:
    """Ask a training job to end; it is Stopping until its launcher says that it has ended.

    Raises:
        ValidationException: no such job, or it has ended.
    """
    attempt = region.attempts_by_training_job.get(request["TrainingJobName"])
    if attempt is None:
        raise ValidationException("Requested resource not found.")
    if attempt.training_job.ended_at is not None:
        status = attempt.training_job.status
        raise ValidationException(f"The request was rejected because the training job is in status {status}.")
    region.ask_to_stop(attempt)
