"""Every field name that the local AWS Batch reads or answers is one of AWS's, by botocore's model.

moto drops fields of an answer that the model does not know, and a field read under a wrong name would just be absent: a
misspelt name would go unnoticed otherwise.
"""

from __future__ import annotations

import json
from typing import Any

import botocore.session
import pytest
from botocore.model import Shape

from fairshare.local import moto_responses
from fairshare.local.inprocess import local_aws
from fairshare.local.moto_responses import OPERATIONS
from fairshare.scheduler.clock import VirtualClock

START = 1_790_000_000_000


class Watched(dict[str, Any]):
    """A request that notes what is asked of it that the model does not know."""

    def __init__(self, values: dict[str, Any], shape: Shape, where: str, misread: list[str]) -> None:
        super().__init__({name: watch(value, shape.members[name], name, misread) for name, value in values.items()})
        self._watch = (shape, where, misread)

    def _note(self, name: str) -> None:
        shape, where, misread = self._watch
        if name not in shape.members:
            misread.append(f"{where}.{name}")

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)


def watch(value: Any, shape: Shape, where: str, misread: list[str]) -> Any:
    if shape.type_name == "structure":
        return Watched(value, shape, where, misread)
    if shape.type_name == "list":
        return [watch(item, shape.member, where, misread) for item in value]
    return value


def unknown_fields(answer: Any, shape: Shape, where: str = "") -> list[str]:
    if answer is None:
        return []
    if shape.type_name == "list":
        return [field for entry in answer for field in unknown_fields(entry, shape.member, where)]
    if shape.type_name != "structure":
        return []
    unknown = [f"{where}.{name}" for name in answer if name not in shape.members]
    for name, member in shape.members.items():
        unknown += unknown_fields(answer.get(name), member, f"{where}.{name}")
    return unknown


@pytest.fixture(scope="module")
def batch_model() -> Any:
    return botocore.session.get_session().get_service_model("batch")


def operation_model(batch_model: Any, operation: str) -> Any:
    return batch_model.operation_model("".join(part.capitalize() for part in operation.split("_")))


@pytest.fixture(scope="module")
def calls(batch_model) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """By operation, of one scenario that calls everything: what was misread, and an answer."""
    misread: dict[str, list[str]] = {}
    answers: dict[str, Any] = {}
    original = moto_responses.BatchServiceResponse.run

    def run(self: Any, operation: Any) -> Any:
        name = operation.__name__
        shape = operation_model(batch_model, name).input_shape

        def noting(region: Any, request: dict[str, Any]) -> Any:
            seen: list[str] = []
            answer = operation(region, Watched(request, shape, name, seen))
            misread.setdefault(name, []).extend(seen)  # not what moto asks of the answer, which may hold the request
            answers.setdefault(name, answer)
            return answer

        return original(self, noting)

    with pytest.MonkeyPatch.context() as patch, local_aws(VirtualClock(START)) as aws:
        patch.setattr(moto_responses.BatchServiceResponse, "run", run)
        live_through(aws.client("batch"))
    return misread, answers


def live_through(batch: Any) -> None:
    limits = [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]
    tags = {"a": "b"}
    batch.create_service_environment(
        serviceEnvironmentName="gpu", serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits, tags=tags
    )
    shares = {"shareDecaySeconds": 600, "shareDistribution": [{"shareIdentifier": "A", "weightFactor": 2.0}]}
    policy = batch.create_scheduling_policy(name="gpu", fairsharePolicy=shares, tags=tags)["arn"]
    reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
    time_limits = [{"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "TERMINATE"}]
    batch.create_job_queue(
        jobQueueName="gpu",
        jobQueueType="SAGEMAKER_TRAINING",
        priority=1,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}],
        schedulingPolicyArn=policy,
        jobStateTimeLimitActions=time_limits,
        tags=tags,
    )
    payload = {"ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}}
    jobs = [
        batch.submit_service_job(
            jobName=name,
            jobQueue="gpu",
            serviceJobType="SAGEMAKER_TRAINING",
            serviceRequestPayload=json.dumps(payload),
            shareIdentifier="A",
            schedulingPriority=1,
            retryStrategy={"attempts": 2, "evaluateOnExit": [{"action": "RETRY", "onStatusReason": "*"}]},
            timeoutConfig={"attemptDurationSeconds": 60},
            tags=tags,
        )
        for name in "ab"
    ]
    arn, job_id = jobs[0]["jobArn"], jobs[0]["jobId"]
    batch.describe_service_environments(maxResults=1)
    batch.describe_scheduling_policies(arns=[policy])
    batch.list_scheduling_policies()
    batch.describe_job_queues(jobQueues=["gpu"])
    batch.describe_service_job(jobId=job_id)
    batch.list_service_jobs(jobQueue="gpu", filters=[{"name": "JOB_NAME", "values": ["a"]}])
    batch.get_job_queue_snapshot(jobQueue="gpu")
    batch.update_service_job(jobId=job_id, schedulingPriority=2)
    batch.tag_resource(resourceArn=arn, tags=tags)
    batch.untag_resource(resourceArn=arn, tagKeys=["a"])
    batch.list_tags_for_resource(resourceArn=arn)
    batch.terminate_service_job(jobId=job_id, reason="enough")
    batch.terminate_service_jobs(jobs=[jobs[1]["jobId"], ""], reason="enough")
    batch.update_scheduling_policy(arn=policy, fairsharePolicy=shares)
    batch.update_job_queue(
        jobQueue="gpu", state="DISABLED", schedulingPolicyArn=policy, jobStateTimeLimitActions=time_limits
    )
    batch.update_service_environment(serviceEnvironment="gpu", state="DISABLED", capacityLimits=limits)
    live_through_quotas(batch)
    batch.delete_job_queue(jobQueue="gpu")
    batch.delete_scheduling_policy(arn=policy)
    batch.delete_service_environment(serviceEnvironment="gpu")


def live_through_quotas(batch: Any) -> None:
    limits = [{"maxCapacity": 1, "capacityUnit": "ml.g5.xlarge"}]
    batch.create_service_environment(
        serviceEnvironmentName="quotas", serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits
    )
    quotas = {"idleResourceAssignmentStrategy": "FIFO"}
    policy = batch.create_scheduling_policy(name="quotas", quotaSharePolicy=quotas)["arn"]
    order = [{"order": 1, "serviceEnvironment": "quotas"}]
    batch.create_job_queue(jobQueueName="quotas", priority=1, serviceEnvironmentOrder=order, schedulingPolicyArn=policy)
    terms = {
        "capacityLimits": limits,
        "resourceSharingConfiguration": {"strategy": "LEND_AND_BORROW", "borrowLimit": 100},
        "preemptionConfiguration": {"inSharePreemption": "ENABLED"},
    }
    share = batch.create_quota_share(quotaShareName="a", jobQueue="quotas", tags={"a": "b"}, **terms)["quotaShareArn"]
    batch.describe_quota_share(quotaShareArn=share)
    batch.list_quota_shares(jobQueue="quotas", maxResults=1)
    batch.update_quota_share(quotaShareArn=share, state="DISABLED", **terms)
    batch.delete_quota_share(quotaShareArn=share)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_field_is_one_of_aws_s(operation, calls, batch_model):
    misread, answers = calls
    assert misread[operation] == []
    shape = operation_model(batch_model, operation).output_shape
    assert unknown_fields(answers[operation] or {}, shape) == []


def test_the_check_finds_a_misspelt_name(batch_model):
    model = operation_model(batch_model, "describe_service_job")
    misread: list[str] = []
    Watched({}, model.input_shape, "request", misread).get("jobid")
    assert misread == ["request.jobid"]
    answer = {"attempts": [{"startedAt": 1, "endedAt": 2}], "jobId": "x"}
    assert unknown_fields(answer, model.output_shape) == [".attempts.endedAt"]
