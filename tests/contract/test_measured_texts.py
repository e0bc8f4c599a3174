"""Every refusal whose text was measured on real AWS, word for word.

The texts are those of the failing templates that the project cdk-preflight deployed and recorded
(https://github.com/badmintoncryer/cdk-preflight, rules/batch).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config

from fairshare.local.inprocess import local_aws
from fairshare.scheduler.clock import VirtualClock

LIMIT = {"maxCapacity": 4, "capacityUnit": "NUM_INSTANCES"}
TYPED = {"maxCapacity": 1, "capacityUnit": "ml.m5.large"}
ENVIRONMENT = {
    "serviceEnvironmentName": "env",
    "serviceEnvironmentType": "SAGEMAKER_TRAINING",
    "capacityLimits": [LIMIT],
}
POLICY = {"name": "policy", "fairsharePolicy": {"shareDistribution": [{"shareIdentifier": "A", "weightFactor": 1.0}]}}
PAYLOAD = json.dumps({"TrainingJobName": "j", "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1}})
JOB = {
    "jobName": "job",
    "jobQueue": "queue",
    "serviceJobType": "SAGEMAKER_TRAINING",
    "serviceRequestPayload": PAYLOAD,
    "shareIdentifier": "A",
}
ARN = "arn:aws:batch:us-east-1:123456789012:"


def queue(**changes: Any) -> dict[str, Any]:
    """Return a CreateJobQueue request that is right but for the changes; None takes a member away."""
    request = {
        "jobQueueName": "second",
        "jobQueueType": "SAGEMAKER_TRAINING",
        "priority": 1,
        "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": "base"}],
        **changes,
    }
    return {name: value for name, value in request.items() if value is not None}


def shares(*entries: tuple[str, float]) -> dict[str, Any]:
    """Return a CreateSchedulingPolicy request with these share entries."""
    listed = [{"shareIdentifier": identifier, "weightFactor": weight} for identifier, weight in entries]
    return {"name": "policy", "fairsharePolicy": {"shareDistribution": listed}}


def action(**changes: Any) -> dict[str, Any]:
    """Return one jobStateTimeLimitActions entry."""
    reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
    return {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "TERMINATE", **changes}


@pytest.fixture(scope="module")
def batch() -> Iterator[Any]:
    """A local AWS with environment ``base``, policy ``base`` and fair-share queue ``queue``."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        with local_aws(clock=VirtualClock(1_796_061_600_000)):
            unchecked = Config(parameter_validation=False)  # or botocore refuses some of them itself
            client = boto3.client("batch", region_name="us-east-1", config=unchecked)
            client.create_service_environment(**{**ENVIRONMENT, "serviceEnvironmentName": "base"})
            policy = client.create_scheduling_policy(**{**POLICY, "name": "base"})["arn"]
            client.create_job_queue(**queue(jobQueueName="queue", schedulingPolicyArn=policy))
            quotas = {"idleResourceAssignmentStrategy": "FIFO"}
            client.create_scheduling_policy(name="quotas", quotaSharePolicy=quotas)
            yield client


CASES = [
    ("create_service_environment", {**ENVIRONMENT, "capacityLimits": []}, "Capacitylimits are required."),
    (
        "create_service_environment",
        {**ENVIRONMENT, "capacityLimits": [{"maxCapacity": 1, "capacityUnit": f"ml.c5.{n}xlarge"} for n in range(6)]},
        "Number of capacity limits exceeds 5.",
    ),
    (
        "create_service_environment",
        {**ENVIRONMENT, "capacityLimits": [{**LIMIT, "maxCapacity": 0}]},
        "Max capacity must be more than 0.",
    ),
    (
        "create_service_environment",
        {**ENVIRONMENT, "capacityLimits": [LIMIT, TYPED]},
        "Capacity units must specify either number of instances OR instance type, but not both",
    ),
    (
        "create_service_environment",
        {**ENVIRONMENT, "serviceEnvironmentName": "bad name!"},
        "Service environment name should match a valid pattern.",
    ),
    ("create_service_environment", {**ENVIRONMENT, "serviceEnvironmentName": "base"}, "Object already exists"),
    (
        "create_scheduling_policy",
        {**POLICY, "name": "bad name!"},
        "Scheduling policy name should match a valid pattern.",
    ),
    (
        "create_scheduling_policy",
        {**POLICY, "quotaSharePolicy": {"idleResourceAssignmentStrategy": "FIFO"}},
        "A scheduling policy can have either fairsharePolicy or quotaSharePolicy, but not both.",
    ),
    (
        "create_scheduling_policy",
        {"name": "policy", "quotaSharePolicy": {"idleResourceAssignmentStrategy": "LIFO"}},
        "Idle resource assignment strategy must be one of [FIFO].",
    ),
    (
        "create_job_queue",
        queue(jobQueueType="ECS", schedulingPolicyArn=f"{ARN}scheduling-policy/quotas"),
        "Quota Management feature is only supported for SageMaker Training job queues.",
    ),
    (
        "create_scheduling_policy",
        shares(("UserA1", 1.0), ("UserA*", 1.0)),
        "Share identifier UserA1 matches another share identifier UserA*.",
    ),
    (
        "create_scheduling_policy",
        shares(("A", 1.0), ("A", 2.0)),
        "Cannot have two or more identical shareIdentifiers.",
    ),
    ("create_scheduling_policy", shares(("team A!", 1.0)), "ShareIdentifier name should match a valid pattern."),
    ("create_scheduling_policy", shares(("A", 1000.0)), "Weight factor should be between 0.0001 and 999.9999."),
    (
        "create_scheduling_policy",
        shares(*((f"S{n}", 1.0) for n in range(501))),
        "ShareDistribution size cannot be greater than 500.",
    ),
    ("create_job_queue", queue(jobQueueName="bad name!"), "Job Queue name should match a valid pattern."),
    (
        "create_job_queue",
        queue(serviceEnvironmentOrder=None),
        "Job queues of type SAGEMAKER_TRAINING must have serviceEnvironmentOrder.",
    ),
    (
        "create_job_queue",
        queue(serviceEnvironmentOrder=[{"order": n, "serviceEnvironment": "base"} for n in (1, 2)]),
        "Job queue can only have 1 service environment.",
    ),
    (
        "create_job_queue",
        queue(serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "nowhere"}]),
        "Service environments must be created and valid before attaching them to a job queue.",
    ),
    (
        "create_job_queue",
        queue(schedulingPolicyArn=f"{ARN}scheduling-policy/nowhere"),
        f"SchedulingPolicy {ARN}scheduling-policy/nowhere not found.",
    ),
    (
        "create_job_queue",
        queue(schedulingPolicyArn=f"{ARN}job-queue/queue"),
        "Only scheduling policy Arn can be allowed.",
    ),
    (
        "create_job_queue",
        queue(jobStateTimeLimitActions=[action(action="CANCEL")]),
        "Invalid job action. Valid job actions: [TERMINATE]",
    ),
    (
        "create_job_queue",
        queue(jobStateTimeLimitActions=[action(), action()]),
        "Duplicate job state limit actions are not allowed.",
    ),
    (
        "submit_service_job",
        {**JOB, "retryStrategy": {"attempts": 11}},
        "RetryAttempts must be between 1 and 10.",
    ),
    (
        "submit_service_job",
        {**JOB, "retryStrategy": {"evaluateOnExit": [{"action": "RETRY", "onStatusReason": "*"}]}},
        "RetryAttempts must be provided with retry strategy.",
    ),
    (
        "submit_service_job",
        {**JOB, "retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "EXIT", "onStatusReason": "a" * 513}]}},
        "Evaluate on exit condition cannot exceed 512 characters.",
    ),
    (
        "submit_service_job",
        {**JOB, "schedulingPriority": 10_000},
        "Scheduling priority must be between 0 and 9999.",
    ),
    (
        "submit_service_job",
        {**JOB, "timeoutConfig": {"attemptDurationSeconds": 59}},
        "AttemptDurationSeconds in Timeout must be at least 60 seconds.",
    ),
    (
        "submit_service_job",
        {name: value for name, value in JOB.items() if name != "shareIdentifier"},
        "shareIdentifier must be specified.",
    ),
    ("submit_service_job", {**JOB, "jobQueue": "nowhere"}, "JobQueue nowhere not found."),
    ("submit_service_job", {**JOB, "jobName": "bad name!"}, "Job name should match valid pattern"),
]


@pytest.mark.parametrize(("operation", "request_", "text"), CASES, ids=[f"{case[0]}: {case[2][:40]}" for case in CASES])
def test_the_text_is_that_of_aws(batch: Any, operation: str, request_: dict[str, Any], text: str) -> None:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        getattr(batch, operation)(**request_)
    response = caught.value.response
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == ("ClientException", 400)
    assert response["Error"]["Message"] == text
    assert response["message"] == text


def test_an_unknown_unit_is_named_before_the_list_of_known_ones(batch: Any) -> None:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        batch.create_service_environment(**{**ENVIRONMENT, "capacityLimits": [{**LIMIT, "capacityUnit": "VCPU"}]})
    assert caught.value.response["message"].startswith("VCPU is unknown capacity unit in [")


def test_the_wrong_kind_of_queue_is_told_what_it_needs(batch: Any) -> None:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        batch.create_job_queue(**queue(jobQueueType="ECS"))
    text = (
        "CreateJobQueue requires either setting computeEnvironmentOrder or setting serviceEnvironmentOrder along with "
        "a supported jobQueueType."
    )
    assert caught.value.response["message"].startswith(text)
