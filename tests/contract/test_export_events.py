"""The rules of an exported template catch the events that the local AWS emits, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.events.models import EventPattern

from fairshare.config.project import parse_project
from fairshare.local.testkit import LocalAWS
from fairshare.provision.desired import desired_state
from fairshare.provision.export.access import access_of
from fairshare.provision.export.cloudformation import template
from fairshare.provision.place import PSEUDO

PROJECT = """\
version: 1
stack: lab
service_environments:
  pool: {capacity: 1, instance_types: [ml.m5.large]}
queues:
  train: {service_environment: pool, fifo: true}
"""
ARN = "arn:aws:batch:us-east-1:123456789012:"
PREEMPTED = {
    "version": "0",
    "source": "aws.batch",
    "detail-type": "Batch Service Job Preemption Started",
    "resources": [f"{ARN}service-job/1"],
    "detail": {"preemptedJobArn": f"{ARN}service-job/1", "status": "RUNNING"},
}
"""https://docs.aws.amazon.com/batch/latest/userguide/service-job-preemption-events.html"""


@pytest.fixture(scope="module")
def patterns() -> dict[str, dict[str, Any]]:
    """Event patterns by rule, with the queue's reference resolved."""
    project = parse_project(PROJECT, Path("fairshare.yaml"))
    desired = desired_state(project, PSEUDO)
    resources = template(desired, access_of(project, desired, PSEUDO))["Resources"]
    text = {
        name: json.dumps(resource["Properties"]["EventPattern"])
        for name, resource in resources.items()
        if "EventPattern" in resource["Properties"]
    }
    queue = json.dumps(f"{ARN}job-queue/lab-train")
    return {name: json.loads(found.replace('{"Ref": "TrainJobQueue"}', queue)) for name, found in text.items()}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAWS]:
    """A local AWS in this process, on a clock that stands still."""
    with LocalAWS() as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        yield aws


def make_queue(batch: Any, name: str) -> None:
    limits = [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]
    batch.create_service_environment(
        serviceEnvironmentName=name, serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits
    )
    order = [{"order": 1, "serviceEnvironment": name}]
    batch.create_job_queue(
        jobQueueName=name, jobQueueType="SAGEMAKER_TRAINING", priority=1, serviceEnvironmentOrder=order
    )


def submit(batch: Any, queue: str, instances: int = 1) -> None:
    payload = {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": instances}}
    batch.submit_service_job(
        jobName="a", jobQueue=queue, serviceJobType="SAGEMAKER_TRAINING", serviceRequestPayload=json.dumps(payload)
    )


def caught(aws: LocalAWS, patterns: dict[str, dict[str, Any]], happen: Any) -> dict[str, list[str]]:
    """Put the rules before queues of SQS, let something happen, and return what each caught: type and status."""
    events, sqs = aws.client("events"), aws.client("sqs")
    queues = {}
    for name, pattern in patterns.items():
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.put_rule(Name=name, EventPattern=json.dumps(pattern))
        events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn}])
        queues[name] = url
    happen()
    found = {}
    for name, url in queues.items():
        bodies = []
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            bodies += [json.loads(message["Body"]) for message in messages]
        found[name] = [f"{body['detail-type']}: {body['detail']['status']}" for body in bodies]
    return found


def test_rules_catch_the_events_of_their_queues_only(aws: LocalAWS, patterns: dict[str, dict[str, Any]]) -> None:
    batch = aws.client("batch")
    make_queue(batch, "lab-train")
    make_queue(batch, "other-train")

    def happen() -> None:
        for queue in ("lab-train", "other-train"):
            submit(batch, queue)
        aws.advance(3600)
        batch.list_service_jobs(jobQueue="lab-train")

    found = caught(aws, patterns, happen)

    change = "Batch Service Job State Change"
    assert found["JobEventsRule"] == [
        f"{change}: {status}" for status in ("RUNNABLE", "SCHEDULED", "STARTING", "RUNNING", "SUCCEEDED")
    ]
    assert found["CollectorEndsRule"] == [f"{change}: SUCCEEDED"]
    assert found["QueueBlockedRule"] == []
    assert found["PreemptionEventsRule"] == []


def test_people_are_told_of_a_blocked_queue(aws: LocalAWS, patterns: dict[str, dict[str, Any]]) -> None:
    batch = aws.client("batch")
    make_queue(batch, "lab-train")
    aws.faults("capacity_error=1")

    def happen() -> None:
        submit(batch, "lab-train")
        aws.advance(1)
        batch.list_service_jobs(jobQueue="lab-train")

    found = caught(aws, patterns, happen)

    assert set(found["QueueBlockedRule"]) == {"Batch Service Job Queue Blocked: RUNNABLE"}
    assert found["QueueBlockedRule"][0] in found["JobEventsRule"]


def test_preemptions_are_caught_by_their_own_rule(patterns: dict[str, dict[str, Any]]) -> None:
    """No local queue preempts yet: the events are those of AWS's page."""
    ended = PREEMPTED | {"detail-type": "Batch Service Job Preemption Completed"}
    other = PREEMPTED | {"source": "aws.ec2"}
    rule = EventPattern(None, patterns["PreemptionEventsRule"])

    assert [rule.matches_event(event) for event in (PREEMPTED, ended, other)] == [True, True, False]
    assert not EventPattern(None, patterns["JobEventsRule"]).matches_event(PREEMPTED)


def test_detail_types_are_those_of_service_jobs(patterns: dict[str, dict[str, Any]]) -> None:
    """EventBridge's own catalogue lists the types of compute jobs only, which would never match."""
    names = {name for pattern in patterns.values() for name in pattern["detail-type"]}

    assert names == {
        "Batch Service Job State Change",
        "Batch Service Job Queue Blocked",
        "Batch Service Job Preemption Started",
        "Batch Service Job Preemption Completed",
    }
