"""What decides about a queue, in three calls; jobs by age, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.aws.queues import BatchQueues
from fairshare.insight.queue_state import QueueFacts
from fairshare.model import NotFoundError

ARN = "arn:aws:batch:us-west-2:111122223333:"
ENVIRONMENT = {
    "serviceEnvironmentName": "search-gpu",
    "serviceEnvironmentArn": f"{ARN}service-environment/search-gpu",
    "serviceEnvironmentType": "SAGEMAKER_TRAINING",
    "capacityLimits": [{"maxCapacity": 16, "capacityUnit": "NUM_INSTANCES"}],
}
POLICY = {
    "name": "search-gpu",
    "arn": f"{ARN}scheduling-policy/search-gpu",
    "fairsharePolicy": {
        "shareDecaySeconds": 900,
        "computeReservation": 5,
        "shareDistribution": [{"shareIdentifier": "HIGHPRI", "weightFactor": 0.10000000149}],
    },
}
QUEUE = {
    "jobQueueName": "search-gpu",
    "jobQueueArn": f"{ARN}job-queue/search-gpu",
    "state": "ENABLED",
    "priority": 1,
    "computeEnvironmentOrder": [],
    "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": ENVIRONMENT["serviceEnvironmentArn"]}],
    "schedulingPolicyArn": POLICY["arn"],
    "tags": {"fairshare:stack": "search"},
}


class FakeBatch:
    def __init__(self, queue: dict[str, Any] | None) -> None:
        self.queue = queue
        self.pages = 5

    def describe_job_queues(self, *, jobQueues: list[str]) -> Any:
        return {"jobQueues": [] if self.queue is None else [self.queue]}

    def describe_service_environments(self, *, serviceEnvironments: list[str]) -> Any:
        assert serviceEnvironments == [ENVIRONMENT["serviceEnvironmentArn"]]
        return {"serviceEnvironments": [ENVIRONMENT]}

    def describe_scheduling_policies(self, *, arns: list[str]) -> Any:
        assert arns == [POLICY["arn"]]
        return {"schedulingPolicies": [POLICY]}

    def list_service_jobs(self, *, nextToken: str = "0", **request: Any) -> Any:
        number = int(nextToken)
        job = {"jobId": f"j{number}", "jobName": "a", "serviceJobType": "SAGEMAKER_TRAINING", "createdAt": number}
        return {"jobSummaryList": [job], "nextToken": str(number + 1)}


@pytest.fixture
def batch_with(checked, session_of):
    def make(queue: dict[str, Any] | None) -> Any:
        client = checked("batch", FakeBatch(queue))
        return client, BatchQueues(session_of(batch=client))

    return make


def test_facts_take_three_calls_and_weights_are_the_decimals_that_were_written(batch_with):
    client, queues = batch_with(QUEUE)

    assert queues.facts("search-gpu") == QueueFacts(
        "search-gpu",
        16,
        "search",
        (str(ENVIRONMENT["serviceEnvironmentArn"]),),
        {"HIGHPRI": "0.1"},
        share_decay_seconds=900,
        compute_reservation=5,
    )
    assert len(client.calls) == 3


def test_a_fifo_queue_has_no_weights_and_a_compute_queue_no_capacity(batch_with):
    without = {name: value for name, value in QUEUE.items() if name not in ("schedulingPolicyArn", "tags")}
    _, fifo = batch_with(without)
    client, compute = batch_with({**without, "serviceEnvironmentOrder": []})

    assert (fifo.facts("q").weights, fifo.facts("q").stack) == (None, "")
    assert compute.facts("q").capacity == 0
    assert [name for name, _ in client.calls] == ["describe_job_queues"]


def test_a_queue_that_is_not_there(batch_with):
    _, queues = batch_with(None)

    with pytest.raises(NotFoundError, match="there is no job queue gone"):
        queues.facts("gone")


def test_c49_jobs_by_age_cost_no_more_calls_than_allowed(batch_with):
    client, queues = batch_with(QUEUE)

    assert [job.job_id for job in queues.newest("q", 7, 3)] == ["j0", "j1", "j2"]
    assert [job.job_id for job in queues.page_before("q", 9)] == ["j0"]
    asked = [request["filters"][0] for _, request in client.calls]
    assert [entry["name"] for entry in asked] == ["AFTER_CREATED_AT"] * 3 + ["BEFORE_CREATED_AT"]
    assert [entry["values"] for entry in asked] == [["7"]] * 3 + [["9"]]
    assert {request["maxResults"] for _, request in client.calls} == {100}
