"""``infra/collector/handler.py`` on a local AWS, and without the packages that Lambda does not have."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairshare.local.testkit import LocalAWS
from fairshare.scheduler.clock import SystemClock

HANDLER = Path(__file__).parents[2] / "infra" / "collector" / "handler.py"
HAS_IN_LAMBDA = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six")

ONLY_BOTO3 = f"""
import sys
class OnlyWhatLambdaHas:
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top not in sys.stdlib_module_names and top not in {HAS_IN_LAMBDA!r} and top not in ("fairshare", "handler"):
            raise ImportError(f"Lambda has no {{name}}")
sys.meta_path.insert(0, OnlyWhatLambdaHas())
sys.path.insert(0, {str(HANDLER.parent)!r})
import boto3, handler
from fairshare.aws.session import AwsSession
AwsSession(region="us-east-1").client("cloudwatch")
print(handler.handler.__name__)
"""


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("collector_handler", HANDLER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("FAIRSHARE_QUEUES", "search-gpu, search-cpu")
    monkeypatch.setenv("FAIRSHARE_STACK", "search")
    return module


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two queues that divide an environment of two instances; three jobs of share A wait in the first."""
    with LocalAWS(clock=SystemClock()) as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        batch = found.client("batch")
        kind = "SAGEMAKER_TRAINING"
        limits = [{"maxCapacity": 2, "capacityUnit": "NUM_INSTANCES"}]
        batch.create_service_environment(
            serviceEnvironmentName="pool", serviceEnvironmentType=kind, capacityLimits=limits
        )
        order = [{"order": 1, "serviceEnvironment": "pool"}]
        fair = {"shareDistribution": [{"shareIdentifier": "A", "weightFactor": 1}]}
        policy = batch.create_scheduling_policy(name="fair", fairsharePolicy=fair)["arn"]
        batch.create_job_queue(
            jobQueueName="search-gpu",
            jobQueueType=kind,
            priority=2,
            schedulingPolicyArn=policy,
            serviceEnvironmentOrder=order,
        )
        batch.create_job_queue(jobQueueName="search-cpu", jobQueueType=kind, priority=1, serviceEnvironmentOrder=order)
        payload = {
            "TrainingJobName": "a",
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
            "Environment": {"FAIRSHARE_SIM_SECONDS": "3600"},
        }
        for name in "abc":
            batch.submit_service_job(
                jobName=name,
                jobQueue="search-gpu",
                serviceJobType=kind,
                shareIdentifier="A",
                schedulingPriority=1,
                serviceRequestPayload=json.dumps(payload),
            )
        yield found


def put_data(aws: LocalAWS) -> dict[tuple[str, ...], set[str]]:
    """Names of the metrics, by the values of their dimensions."""
    found: dict[tuple[str, ...], set[str]] = {}
    for metric in aws.client("cloudwatch").list_metrics(Namespace="fairshare")["Metrics"]:
        where = tuple(dimension["Value"] for dimension in metric["Dimensions"])
        found.setdefault(where, set()).add(metric["MetricName"])
    return found


def test_it_imports_and_makes_clients_with_boto3_alone():
    done = subprocess.run([sys.executable, "-c", ONLY_BOTO3], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("handler\n", "")


def test_a_schedule_publishes_the_gauges_of_every_queue_in_one_call(aws, handler):
    answer = handler.handler({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}, None)

    found = put_data(aws)
    assert answer == {"published": sum(len(names) for names in found.values())}
    assert set(found) == {("search", "search-gpu"), ("search", "search-gpu", "A"), ("search", "search-cpu")}
    assert {"RunnableJobs", "CapacityLimit", "CollectorRuns"} <= found["search", "search-gpu"]
    assert "TargetShare" in found["search", "search-gpu", "A"]
    assert [call.operation for call in aws.calls].count("PutMetricData") == 1


def test_a_second_run_in_the_same_process_does_not_describe_the_queues_again(aws, handler):
    handler.handler({}, None)
    before = len(aws.calls)
    handler.handler({}, None)

    assert {call.operation for call in aws.calls[before:]} == {"ListServiceJobs", "GetMetricData", "PutMetricData"}


def test_the_end_of_a_job_is_counted_and_other_changes_are_not(aws, handler):
    detail = {
        "jobName": "a",
        "jobId": "a1",
        "jobQueue": "arn:aws:batch:us-east-1:123456789012:job-queue/search-gpu",
        "status": "FAILED",
        "shareIdentifier": "A",
        "createdAt": 1,
    }
    event = {"source": "aws.batch", "detail-type": "Batch Service Job State Change", "detail": detail}

    assert handler.handler({**event, "detail": {**detail, "status": "RUNNING"}}, None) == {"published": 0}
    assert put_data(aws) == {}
    assert handler.handler(event, None) == {"published": 4}
    assert put_data(aws) == {
        ("search", "search-gpu"): {"SucceededJobs", "FailedJobs"},
        ("search", "search-gpu", "A"): {"SucceededJobs", "FailedJobs"},
    }
