"""SageMaker training jobs behind attempts."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from fairshare.local.launcher import Report
from fairshare.local.training_jobs import TrainingJob, training_job_name
from fairshare.model import JobStatus

SUFFIX = "88b610a69aa8380ca5b0a7aba3f81cb8"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("my-training-job", f"AWSBatchmy-training-job{SUFFIX}"),
        ("train-pytorch-batch-20261130182338", f"AWSBatchtrain-pytorch-batch-202{SUFFIX}"),
        ("a-name-that-is-cut-at--a-dash", f"AWSBatcha-name-that-is-cut-at{SUFFIX}"),
        ("under_score", f"AWSBatchunder-score{SUFFIX}"),
        (None, f"AWSBatch{SUFFIX}"),
    ],
)
def test_names_fit_sagemaker(given, name):
    assert training_job_name({} if given is None else {"TrainingJobName": given}, SUFFIX) == name
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name)


def job(**request: Any) -> TrainingJob:
    return TrainingJob("AWSBatchx", "arn:x", request, created_at=1_000)


def report(status: JobStatus, at: int, **more: Any) -> Report:
    return Report("job", 1, status, at, **more)


def phases(training_job: TrainingJob) -> list[tuple[str, int, int | None]]:
    return [(phase.status, phase.begin, phase.end) for phase in training_job.phases]


def test_the_same_phase_again_is_the_same_phase():
    training_job = job()
    for at in (2_000, 2_500):
        training_job.apply(report(JobStatus.STARTING, at))
    assert phases(training_job) == [("Pending", 1_000, 2_000), ("Downloading", 2_000, None)]


def test_a_run_from_beginning_to_end():
    training_job = job(RoleArn="role", OutputDataConfig={"S3OutputPath": "s3://b"}, TrainingJobName="x")
    assert (training_job.status, training_job.secondary_status) == ("InProgress", "Pending")
    training_job.apply(report(JobStatus.STARTING, 2_000))
    training_job.apply(report(JobStatus.RUNNING, 3_000))
    training_job.apply(report(JobStatus.RUNNING, 4_500, secondary_status="Uploading"))
    assert training_job.status == "InProgress"
    training_job.apply(report(JobStatus.SUCCEEDED, 5_100, model_artifact="s3://b/model.tar.gz"))
    assert phases(training_job) == [
        ("Pending", 1_000, 2_000),
        ("Downloading", 2_000, 3_000),
        ("Training", 3_000, 4_500),
        ("Uploading", 4_500, 5_100),
        ("Completed", 5_100, 5_100),
    ]
    described = training_job.describe()
    assert described["SecondaryStatusTransitions"][3]["StatusMessage"] == "Uploading generated training model"
    del described["SecondaryStatusTransitions"]
    assert described == {
        "RoleArn": "role",
        "OutputDataConfig": {"S3OutputPath": "s3://b"},
        "TrainingJobName": "AWSBatchx",
        "TrainingJobArn": "arn:x",
        "TrainingJobStatus": "Completed",
        "SecondaryStatus": "Completed",
        "CreationTime": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "LastModifiedTime": datetime(1970, 1, 1, 0, 0, 5, 100_000, tzinfo=UTC),
        "TrainingStartTime": datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC),
        "TrainingEndTime": datetime(1970, 1, 1, 0, 0, 5, 100_000, tzinfo=UTC),
        "TrainingTimeInSeconds": 3,
        "BillableTimeInSeconds": 3,
        "ModelArtifacts": {"S3ModelArtifacts": "s3://b/model.tar.gz"},
    }


def test_a_failure_before_training_has_a_reason_and_no_training_time():
    training_job = job()
    training_job.apply(report(JobStatus.FAILED, 1_500, reason="ClientError: no such bucket"))
    described = training_job.describe()
    assert (described["TrainingJobStatus"], described["SecondaryStatus"]) == ("Failed", "Failed")
    assert described["FailureReason"] == "ClientError: no such bucket"
    assert not {"TrainingStartTime", "TrainingTimeInSeconds", "ModelArtifacts"} & set(described)


@pytest.mark.parametrize("end", [JobStatus.FAILED, JobStatus.SUCCEEDED])
def test_however_a_stopped_job_ends_it_was_stopped(end):
    training_job = job()
    training_job.apply(report(JobStatus.RUNNING, 2_000))
    training_job.stop(3_000)
    assert (training_job.status, training_job.secondary_status) == ("Stopping", "Stopping")
    training_job.apply(report(JobStatus.RUNNING, 3_500, secondary_status="Uploading"))
    training_job.apply(report(end, 4_000, reason="exit code: 143"))
    assert (training_job.status, training_job.failure_reason) == ("Stopped", None)
    assert [phase[0] for phase in phases(training_job)] == ["Pending", "Training", "Stopping", "Stopped"]


def test_what_comes_after_the_end_is_ignored():
    training_job = job()
    training_job.apply(report(JobStatus.FAILED, 2_000, reason="first"))
    training_job.apply(report(JobStatus.SUCCEEDED, 3_000))
    training_job.stop(4_000)
    assert (training_job.status, training_job.failure_reason, training_job.ended_at) == ("Failed", "first", 2_000)
