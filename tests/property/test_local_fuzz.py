"""Whatever is sent to the local AWS Batch, the answer is one of AWS's: 200, or 400 with a ClientException.

Requests are sound ones from a small world of names, in which something is then broken: a type, a size, a missing or
unknown member, the JSON itself. ``FAIRSHARE_FUZZ_CALLS=20000`` is the full count.
"""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from moto.core.request import Request

from fairshare.local.inprocess import local_aws
from fairshare.local.moto_responses import OPERATIONS, BatchServiceResponse
from fairshare.scheduler.clock import VirtualClock

CALLS = int(os.environ.get("FAIRSHARE_FUZZ_CALLS", "3000"))
START = 1_790_000_000_000
HOST = "https://batch.us-east-1.amazonaws.com"
ARN = "arn:aws:batch:us-east-1:123456789012:"
NAMES = ["gpu", "cpu", "a", "b", "queue-1", "queue_2"]
TAGS = {"tag_resource": "POST", "untag_resource": "DELETE", "list_tags_for_resource": "GET"}
FORGED = base64.urlsafe_b64encode(b'["ListServiceJobs", "x"]').decode()
"""A token of the right operation whose position is none."""

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", " ", "x", "gpu", "*", "ENABLED", "søk", "\u202e", "\x00", "\ud800", "💥" * 40, "a" * 300, "a" * 11_000),
    *(
        [],
        {},
        [None],
        [[]],
        [1, "a"],
        {"a": 1},
        {"": ""},
        {"name": None},
        "1e3",
        "{}",
        "WyJMaXN0U2VydmljZUpvYnMiLCAieCJd",
    ),
    *("arn:", ARN, ARN + "job-queue/", ARN + "job-queue/gpu", ARN + "service-job/x", ARN + "job-queue/a/quota-share/b"),
]


class World:
    """Makes requests; knows the ids of the jobs it made."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.jobs = ["00000000-0000-0000-0000-000000000000"]
        self.token: str | None = None

    def sound(self, operation: str) -> dict[str, Any]:
        """A request of the right form; it may still be refused."""
        name = self.rng.choice(NAMES)
        if (make := REQUESTS.get(operation)) is not None:
            return make(self, name)
        resource = self.rng.choice([f"job-queue/{name}", f"service-environment/{name}", f"service-job/{self.jobs[-1]}"])
        return {"resourceArn": ARN + resource, "tags": {"k": "v"}, "tagKeys": ["k"]}

    def environment(self, name: str) -> dict[str, Any]:
        unit = self.rng.choice(["NUM_INSTANCES"] * 5 + ["ml.g5.xlarge", "VCPU"])
        return {
            "serviceEnvironmentName": name,
            "serviceEnvironmentType": "SAGEMAKER_TRAINING",
            "capacityLimits": [{"maxCapacity": self.rng.randint(0, 9), "capacityUnit": unit}],
            "state": self.state(),
        }

    def queue(self, name: str) -> dict[str, Any]:
        policy = {"schedulingPolicyArn": f"{ARN}scheduling-policy/{name}"} if self.rng.random() < 0.5 else {}
        return policy | {
            "jobQueueName": name,
            "jobQueueType": "SAGEMAKER_TRAINING",
            "priority": self.rng.randint(0, 10),
            "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": self.rng.choice(NAMES)}],
            "jobStateTimeLimitActions": [self.time_limit()],
        }

    def listing(self, name: str) -> dict[str, Any]:
        names = ["JOB_NAME", "AFTER_CREATED_AT", "SHARE_IDENTIFIER"]
        filters = [{"name": self.rng.choice(names), "values": ["0"]}]
        status = {"jobStatus": self.rng.choice(["RUNNABLE", "FAILED"])}
        return self.page() | {"jobQueue": name} | ({"filters": filters} if self.rng.random() < 0.5 else status)

    def state(self) -> str:
        return self.rng.choice(["ENABLED", "ENABLED", "DISABLED"])

    def job(self) -> str:
        return self.rng.choice(self.jobs)

    def some(self, field: str, value: Any) -> dict[str, Any]:
        return {field: [value]} if self.rng.random() < 0.5 else self.page()

    def submission(self) -> dict[str, Any]:
        rng = self.rng
        payload: dict[str, Any] = {
            "TrainingJobName": "x",
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": rng.choice([1, 1, 2, 3, 10**400])},
            "Environment": {
                "FAIRSHARE_SIM_SECONDS": str(rng.randint(0, 9)),
                "FAIRSHARE_SIM_EXIT_CODE": rng.choice("01"),
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": rng.randint(1, 20)},
            "HyperParameters": {"lr": "0.1"},
        }
        if rng.random() < 0.3:
            payload = self.broken(payload)
        more: dict[str, Any] = {}
        if rng.random() < 0.5:
            more = {"shareIdentifier": rng.choice(["A", "B", "C"]), "schedulingPriority": rng.randint(0, 99)}
        return more | {
            "jobName": rng.choice(NAMES),
            "jobQueue": rng.choice(NAMES),
            "serviceJobType": "SAGEMAKER_TRAINING",
            "serviceRequestPayload": json.dumps(payload),
            "retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "Retry", "onStatusReason": "*Capacity*"}]},
            "timeoutConfig": {"attemptDurationSeconds": 60},
            "clientToken": str(rng.randint(0, 10**9)),
        }

    def fairshare(self) -> dict[str, Any]:
        shares = [{"shareIdentifier": share, "weightFactor": self.rng.randint(1, 9) / 10} for share in ("A", "B", "D*")]
        return {"shareDecaySeconds": 600, "computeReservation": self.rng.randint(0, 99), "shareDistribution": shares}

    def time_limit(self) -> dict[str, Any]:
        reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
        return {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "TERMINATE"}

    def page(self) -> dict[str, Any]:
        token = self.rng.choice([self.token, self.token, FORGED])
        return {"maxResults": self.rng.randint(1, 3)} | ({"nextToken": token} if token else {})

    def broken(self, value: Any) -> Any:
        """The same with one thing in it, at some depth, that is odd, missing or too much."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.8:
            key = rng.choice(sorted(value))
            match rng.randrange(6):
                case 0:
                    return {name: item for name, item in value.items() if name != key}
                case 1:
                    return value | {rng.choice(["", "unknown", "Tags", "💥"]): rng.choice(ODD)}
                case _:
                    return value | {key: self.broken(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.8:
            return rng.choice([[], value * rng.choice([2, 60, 600]), [self.broken(value[0]), *value[1:]]])
        return rng.choice(ODD)

    def body(self, request: Any) -> bytes:
        """The request as bytes, sometimes not even JSON."""
        if self.rng.random() < 0.97:
            return json.dumps(request).encode()
        odd = [
            b"",
            b"null",
            b"[]",
            b"{",
            b"\xff\xfe",
            b"Action=SubmitJob",
            b"[" * 50_000,
            b'{"a":' * 50_000,
            b"\x00" * 10,
        ]
        return self.rng.choice([*odd, json.dumps(request).encode()[:-3], json.dumps(request).encode("utf-16")])


REQUESTS: dict[str, Callable[[World, str], dict[str, Any]]] = {
    "create_service_environment": World.environment,
    "create_scheduling_policy": lambda world, name: {
        "name": name,
        "fairsharePolicy": world.fairshare(),
        "tags": {"a": "b"},
    },
    "create_job_queue": World.queue,
    "update_service_environment": lambda world, name: {
        "serviceEnvironment": name,
        "state": world.state(),
        "capacityLimits": [{"maxCapacity": world.rng.randint(1, 9), "capacityUnit": "NUM_INSTANCES"}],
    },
    "update_scheduling_policy": lambda world, name: {
        "arn": f"{ARN}scheduling-policy/{name}",
        "fairsharePolicy": world.fairshare(),
    },
    "update_job_queue": lambda world, name: {"jobQueue": name, "state": world.state(), "priority": 3},
    "delete_service_environment": lambda world, name: {"serviceEnvironment": name},
    "delete_scheduling_policy": lambda world, name: {"arn": f"{ARN}scheduling-policy/{name}"},
    "delete_job_queue": lambda world, name: {"jobQueue": name},
    "get_job_queue_snapshot": lambda world, name: {"jobQueue": name},
    "describe_service_environments": lambda world, name: world.some("serviceEnvironments", name),
    "describe_job_queues": lambda world, name: world.some("jobQueues", name),
    "describe_scheduling_policies": lambda world, name: {"arns": [f"{ARN}scheduling-policy/{name}"]},
    "list_scheduling_policies": lambda world, name: world.page(),
    "list_service_jobs": World.listing,
    "describe_service_job": lambda world, name: {"jobId": world.job()},
    "update_service_job": lambda world, name: {"jobId": world.job(), "schedulingPriority": world.rng.randint(0, 99)},
    "terminate_service_job": lambda world, name: {"jobId": world.job(), "reason": "enough"},
    "terminate_service_jobs": lambda world, name: {"jobs": world.rng.choices(world.jobs, k=3), "reason": "enough"},
    "submit_service_job": lambda world, name: world.submission(),
}


def send(operation: str, body: bytes, arn: str = "", query: str = "") -> tuple[int, dict[str, Any]]:
    path = f"/v1/tags/{quote(arn, safe='')}{query}" if operation in TAGS else f"/v1/{operation.replace('_', '')}"
    headers = {"Content-Type": "application/json", "Host": "batch.us-east-1.amazonaws.com"}
    request = Request.from_primitives(TAGS.get(operation, "POST"), HOST + path, headers, body)
    status, _, answer = BatchServiceResponse.dispatch(request, request.url, request.headers)
    return status, json.loads(answer or "{}")


@pytest.mark.parametrize("seed", range(3))
def test_every_answer_is_one_of_aws_s(seed):
    world, clock = World(seed), VirtualClock(START)
    outcomes = {200: 0, 400: 0}
    operations = sorted(OPERATIONS)
    with local_aws(clock) as aws:
        for _ in range(-(-CALLS // 3)):
            operation = world.rng.choice([*operations, *["submit_service_job", "create_job_queue"] * 3])
            request = world.sound(operation)
            if world.rng.random() < 0.5:
                request = world.broken(request)
            fields = request if isinstance(request, dict) else {}
            arn, keys = str(fields.get("resourceArn", "x")), str(fields.get("tagKeys", ""))
            arn = arn.encode(errors="replace").decode() or "x"
            query = f"?tagKeys={quote(keys.encode(errors='replace'))}" if operation == "untag_resource" else ""
            status, answer = send(operation, world.body(request), arn, query)
            assert status in outcomes, (operation, request, answer)
            outcomes[status] += 1
            if status == 400:
                assert answer["__type"].endswith("ClientException"), (operation, request, answer)
                assert answer["message"], (operation, request)
            if "jobId" in answer and operation == "submit_service_job":
                world.jobs.append(answer["jobId"])
            world.token = answer.get("nextToken") or world.token
            clock.advance(world.rng.randint(0, 3_000))
        assert min(outcomes.values()) > CALLS // 3 // 8, outcomes
        assert len(world.jobs) > CALLS // 3 // 100
        check_what_is_left(aws, world)


def check_what_is_left(aws: Any, world: World) -> None:
    """Every job and its training job can still be described, through boto3."""
    sagemaker = aws.client("sagemaker")
    batch = aws.client("batch")
    for job in world.jobs[1:]:
        described = batch.describe_service_job(jobId=job)
        if "latestAttempt" in described:
            arn = described["latestAttempt"]["serviceResourceId"]["value"]
            sagemaker.describe_training_job(TrainingJobName=arn.rsplit("/", 1)[-1])
