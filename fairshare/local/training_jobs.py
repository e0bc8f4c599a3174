"""SageMaker training jobs: what DescribeTrainingJob says of an attempt, told by the launcher's reports.

AWS Batch and SageMaker see the same attempt with their own words
(https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html):

=========  ======================  ==============================
Batch      TrainingJobStatus       SecondaryStatus
=========  ======================  ==============================
SCHEDULED  InProgress              Pending
STARTING   InProgress              Downloading
RUNNING    InProgress, Stopping    Training, Uploading, Stopping
SUCCEEDED  Completed               Completed
FAILED     Failed, Stopped         Failed, Stopped
=========  ======================  ==============================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.local.launcher import Report
from fairshare.local.request_shape import read_members
from fairshare.model import JobStatus

NAME_PREFIX: Final = "AWSBatch"
"""Batch's role may create training jobs of this name only (AWSBatchServiceRolePolicyForSageMaker)."""

_KEPT_CHARACTERS: Final = 23
"""What is left of the payload's name: SageMaker takes 63 characters, prefix and suffix of Batch have 8 + 32. How Batch
shortens longer names is not documented; cutting is the model's choice."""

_LONGEST_REASON: Final = 1024
"""Characters of a ``FailureReason``."""

_REFUSALS: Final = ("ValidationException", "ResourceLimitExceeded")
"""Errors of CreateTrainingJob: with them there is no training job (section 4.6 of the project's AWS notes, where the
``attempts`` of such a job were seen to be empty)."""

_SECONDARY: Final = {
    JobStatus.STARTING: "Downloading",
    JobStatus.RUNNING: "Training",
    JobStatus.SUCCEEDED: "Completed",
    JobStatus.FAILED: "Failed",
}
_MESSAGES: Final = {
    "Pending": "Preparing the instances for training",
    "Downloading": "Downloading input data",
    "Training": "Training in progress",
    "Uploading": "Uploading generated training model",
    "Stopping": "Stopping the training job",
    "Completed": "Training job completed",
    "Failed": "Training job failed",
    "Stopped": "Training job stopped",
}


def training_job_name(payload: Mapping[str, Any], suffix: str) -> str:
    """Return the name of a new attempt's training job.

    Args:
        payload: the CreateTrainingJob request; its name may be missing, Batch does not look.
        suffix: 32 hexadecimal digits, new for each attempt.
    """
    given = re.sub(r"[^a-zA-Z0-9-]", "-", str(payload.get("TrainingJobName", "")))
    return f"{NAME_PREFIX}{given[:_KEPT_CHARACTERS].rstrip('-')}{suffix}"


@dataclass
class _Phase:
    """One entry of ``SecondaryStatusTransitions``, times in milliseconds."""

    status: str
    begin: int
    end: int | None = None


@dataclass
class TrainingJob:
    """A training job. Times are integer milliseconds; ``request`` is the CreateTrainingJob request it came from."""

    name: str
    arn: str
    request: Mapping[str, Any]
    created_at: int
    status: str = "InProgress"
    training_started_at: int | None = None
    ended_at: int | None = None
    failure_reason: str | None = None
    model_artifact: str | None = None
    final_metrics: Mapping[str, float] = field(default_factory=dict)
    is_deleted: bool = False
    phases: list[_Phase] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._enter("Pending", self.created_at)

    @property
    def secondary_status(self) -> str:
        """The phase it is in."""
        return self.phases[-1].status

    @property
    def last_modified_at(self) -> int:
        """When it changed last."""
        return self.phases[-1].begin

    def stop(self, at: int) -> None:
        """Somebody asked it to end: however it ends now, it was stopped."""
        if self.ended_at is None:
            self.status = "Stopping"
            self._enter("Stopping", at)

    def apply(self, report: Report) -> None:
        """Do what a launcher reports. What comes after the end is ignored."""
        if self.ended_at is not None:
            return
        is_stopping = self.status == "Stopping"
        if report.status.is_terminal:
            self._end(report, is_stopping)
        elif not is_stopping:
            if report.status is JobStatus.RUNNING and self.training_started_at is None:
                self.training_started_at = report.at
            self._enter(report.secondary_status or _SECONDARY[report.status], report.at)

    def describe(self) -> dict[str, Any]:
        """Return the answer of DescribeTrainingJob: the fields of the request, and what became of the job."""
        answer = dict(self.request) | {
            "TrainingJobName": self.name,
            "TrainingJobArn": self.arn,
            "TrainingJobStatus": self.status,
            "SecondaryStatus": self.secondary_status,
            "SecondaryStatusTransitions": [_describe_phase(phase) for phase in self.phases],
            "CreationTime": as_time(self.created_at),
            "LastModifiedTime": as_time(self.last_modified_at),
        }
        if self.training_started_at is not None:
            answer["TrainingStartTime"] = as_time(self.training_started_at)
        if self.ended_at is not None:
            answer["TrainingEndTime"] = as_time(self.ended_at)
        if self.training_started_at is not None and self.ended_at is not None:
            seconds = -(-(self.ended_at - self.training_started_at) // 1000)
            answer |= {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds}
        if self.failure_reason is not None:
            answer["FailureReason"] = self.failure_reason
        if self.model_artifact is not None:
            answer["ModelArtifacts"] = {"S3ModelArtifacts": self.model_artifact}
        if self.ended_at is not None and self.final_metrics:
            answer["FinalMetricDataList"] = [
                {"MetricName": name, "Value": value, "Timestamp": as_time(self.ended_at)}
                for name, value in self.final_metrics.items()
            ]
        return answer

    def _end(self, report: Report, is_stopping: bool) -> None:
        self.status = "Stopped" if is_stopping else _SECONDARY[report.status]
        self.ended_at = report.at
        self.model_artifact = report.model_artifact
        self.final_metrics = report.final_metrics
        if self.status == "Failed":
            self.failure_reason = None if report.reason is None else report.reason[:_LONGEST_REASON]
        self._enter(self.status, report.at)

    def _enter(self, status: str, at: int) -> None:
        if self.phases:
            if self.secondary_status == status:
                return
            self.phases[-1].end = at
        self.phases.append(_Phase(status, at, at if self.ended_at is not None else None))


def problem_of(payload: Mapping[str, Any]) -> str | None:
    """Return how SageMaker would refuse a payload: a member is of the wrong type. None = it would take it.

    Only types are looked at. Required members may be missing, so that a simulated job needs no more than its run time.
    """
    try:
        read_members(_create_training_job_shape(), payload, are_required=False)
    except ClientException as error:
        return f"ValidationException: {error}"
    return None


def is_refusal(report: Report) -> bool:
    """Whether a report says that CreateTrainingJob was refused, if no training job was there before."""
    return report.status is JobStatus.FAILED and (report.reason or "").startswith(_REFUSALS)


@cache
def _create_training_job_shape() -> Any:
    import botocore.session

    model = botocore.session.get_session().get_service_model("sagemaker")
    return model.operation_model("CreateTrainingJob").input_shape


def as_time(milliseconds: int) -> datetime:
    """Return a time as SageMaker gives it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _describe_phase(phase: _Phase) -> dict[str, Any]:
    answer = {
        "Status": phase.status,
        "StartTime": as_time(phase.begin),
        "StatusMessage": _MESSAGES.get(phase.status, ""),
    }
    return answer if phase.end is None else answer | {"EndTime": as_time(phase.end)}
