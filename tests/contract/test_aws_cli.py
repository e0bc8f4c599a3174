"""AWS's own command line against the local AWS, in the order of AWS's tutorial.

The executable is that of FAIRSHARE_TEST_AWS_CLI, else ``.aws-cli/bin/aws`` in the repository, a virtual environment
that holds nothing but ``awscli``. Source: https://docs.aws.amazon.com/batch/latest/userguide/getting-started-sagemaker.html.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from fairshare.aws.jobs import submit_request
from fairshare.local.server import LocalServer
from fairshare.model import JobRequest
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.triggers import ScriptKind, export_triggers
from fairshare.submit.waves import plan_waves

REPOSITORY = Path(__file__).parents[2]
EXECUTABLE = Path(os.environ.get("FAIRSHARE_TEST_AWS_CLI", REPOSITORY / ".aws-cli" / "bin" / "aws"))
START = 1_790_000_000_000
ARN = "arn:aws:batch:us-west-2:123456789012:"

pytestmark = pytest.mark.skipif(
    not EXECUTABLE.exists(), reason=f"no AWS CLI at {EXECUTABLE}: set FAIRSHARE_TEST_AWS_CLI, or run .ci/run"
)


COMMANDS = """
import contextlib, io, json, sys
from awscli.clidriver import create_clidriver

aws = create_clidriver()
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = aws.main(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
"""What ``aws`` does, for each list of words that comes in: its start costs more than all that it does here."""


class Cli:
    """Runs ``aws batch``."""

    def __init__(self, server: LocalServer, clock: VirtualClock, home: Path) -> None:
        address = server.address
        self.clock = clock
        self.endpoint_url = address.endpoint_url
        self._environment = {
            "PATH": f"{EXECUTABLE.parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "HOME": str(home),
            "AWS_ENDPOINT_URL": address.endpoint_url,
            "AWS_ACCESS_KEY_ID": address.access_key_id,
            "AWS_SECRET_ACCESS_KEY": address.secret_access_key,
            "AWS_DEFAULT_REGION": "us-west-2",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._process = subprocess.Popen(
            [EXECUTABLE.with_name("python"), "-c", COMMANDS],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, service: str) -> tuple[int, str, str]:
        """Return the exit code, and what was said on stdout and stderr."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([service, *words, "--output", "json"]), file=self._process.stdin, flush=True)
        code, out, err = json.loads(self._process.stdout.readline())
        return code, out, err

    def script(self, path: Path) -> subprocess.CompletedProcess[str]:
        """Run a shell script that calls ``aws``."""
        command = ["/bin/sh", str(path)]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=120, check=False)

    def client(self, service: str) -> Any:
        """A boto3 client of the same server."""
        return boto3.client(
            service,
            region_name=self._environment["AWS_DEFAULT_REGION"],
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self._environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._environment["AWS_SECRET_ACCESS_KEY"],
        )

    def close(self) -> None:
        self._process.communicate()

    def __call__(self, *words: str, service: str = "batch") -> dict[str, Any]:
        code, out, err = self.run(*words, service=service)
        assert code == 0, err
        return json.loads(out or "{}")

    def refusal(self, *words: str, service: str = "batch") -> str:
        code, out, err = self.run(*words, service=service)
        assert code != 0, out
        return err.strip()


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Cli]:
    clock = VirtualClock(START)
    with LocalServer(state_dir=tmp_path / "local", clock=clock) as server:
        cli = Cli(server, clock, tmp_path)
        yield cli
        cli.close()


def payload(name: str) -> str:
    return json.dumps(
        {
            "TrainingJobName": name,
            "RoleArn": "arn:aws:iam::123456789012:role/MLTraining",
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 300},
        }
    )


def submit(aws: Cli, name: str, *more: str) -> dict[str, Any]:
    common = ("--job-name", name, "--job-queue", "gpu", "--service-job-type", "SAGEMAKER_TRAINING")
    retry = ("--retry-strategy", "attempts=1", "--timeout-config", "attemptDurationSeconds=60")
    return aws("submit-service-job", *common, *retry, "--service-request-payload", payload(name), *more)


def test_the_cli_cannot_tell_it_from_aws(aws):
    create_resources(aws)
    first, second = run_jobs(aws)
    end_jobs(aws, first, second)
    change_and_delete(aws)


def create_resources(aws: Cli) -> None:
    environment = ("--service-environment-name", "gpu", "--service-environment-type", "SAGEMAKER_TRAINING")
    limits = ("--capacity-limits", "capacityUnit=NUM_INSTANCES,maxCapacity=1")
    assert aws("create-service-environment", *environment, *limits, "--tags", "team=search") == {
        "serviceEnvironmentName": "gpu",
        "serviceEnvironmentArn": f"{ARN}service-environment/gpu",
    }
    assert aws.refusal("create-service-environment", *environment, *limits) == (
        "An error occurred (ClientException) when calling the CreateServiceEnvironment operation: Object already exists"
    )
    shares = "shareDecaySeconds=3600,shareDistribution=[{shareIdentifier=HIGHPRI,weightFactor=1},"
    shares += "{shareIdentifier=LOWPRI,weightFactor=5}]"
    policy = aws("create-scheduling-policy", "--name", "gpu", "--fairshare-policy", shares)
    assert policy == {"name": "gpu", "arn": f"{ARN}scheduling-policy/gpu"}
    queue = ("--job-queue-name", "gpu", "--job-queue-type", "SAGEMAKER_TRAINING", "--priority", "1")
    assert "must have serviceEnvironmentOrder." in aws.refusal("create-job-queue", *queue)
    order = ("--service-environment-order", "order=1,serviceEnvironment=gpu")
    created = aws("create-job-queue", *queue, *order, "--scheduling-policy-arn", policy["arn"])
    assert created == {"jobQueueName": "gpu", "jobQueueArn": f"{ARN}job-queue/gpu"}
    (described,) = aws("describe-job-queues", "--job-queues", "gpu")["jobQueues"]
    assert (described["status"], described["statusReason"]) == ("VALID", "JobQueue Healthy")


def run_jobs(aws: Cli) -> tuple[dict[str, Any], dict[str, Any]]:
    assert "shareIdentifier must be specified." in aws.refusal(
        *("submit-service-job", "--job-name", "x", "--job-queue", "gpu", "--service-job-type", "SAGEMAKER_TRAINING"),
        *("--service-request-payload", payload("x")),
    )
    first = submit(aws, "first", "--share-identifier", "LOWPRI", "--scheduling-priority", "0")
    second = submit(aws, "second", "--share-identifier", "HIGHPRI", "--scheduling-priority", "1")
    assert sorted(first) == ["jobArn", "jobId", "jobName"]
    (running,) = aws("list-service-jobs", "--job-queue", "gpu")["jobSummaryList"]
    assert (running["jobId"], running["status"]) == (first["jobId"], "RUNNING")
    assert running["capacityUsage"] == [{"capacityUnit": "ml.c5.xlarge", "quantity": 1.0}]
    waiting = aws("describe-service-job", "--job-id", second["jobId"])
    assert (waiting["status"], waiting["schedulingPriority"], waiting["attempts"]) == ("RUNNABLE", 1, [])
    assert "startedAt" not in waiting
    snapshot = aws("get-job-queue-snapshot", "--job-queue", "gpu")
    assert snapshot["frontOfQueue"]["jobs"] == [{"jobArn": second["jobArn"], "earliestTimeAtPosition": START}]
    aws("update-service-job", "--job-id", second["jobId"], "--scheduling-priority", "9")
    assert aws("describe-service-job", "--job-id", second["jobId"])["schedulingPriority"] == 9
    return first, second


def end_jobs(aws: Cli, first: dict[str, Any], second: dict[str, Any]) -> None:
    assert aws("terminate-service-job", "--job-id", first["jobId"], "--reason", "enough") == {}
    ended = aws("describe-service-job", "--job-id", first["jobId"])
    assert (ended["status"], ended["statusReason"], ended["isTerminated"]) == ("FAILED", "enough", True)
    aws("tag-resource", "--resource-arn", second["jobArn"], "--tags", "lr=0.1,gone=x")
    aws("untag-resource", "--resource-arn", second["jobArn"], "--tag-keys", "gone")
    assert aws("list-tags-for-resource", "--resource-arn", second["jobArn"]) == {"tags": {"lr": "0.1"}}
    training_job = aws("describe-service-job", "--job-id", second["jobId"])["latestAttempt"]["serviceResourceId"]
    name = training_job["value"].rsplit("/", 1)[-1]
    aws("stop-training-job", "--training-job-name", name, service="sagemaker")
    stopped = aws("describe-service-job", "--job-id", second["jobId"])
    reason = "Received status from SageMaker: Training job stopped"
    assert (stopped["status"], stopped["statusReason"], stopped["isTerminated"]) == ("FAILED", reason, False)


def change_and_delete(aws: Cli) -> None:
    policy = f"{ARN}scheduling-policy/gpu"
    aws("update-scheduling-policy", "--arn", policy, "--fairshare-policy", "computeReservation=25")
    (described,) = aws("describe-scheduling-policies", "--arns", policy)["schedulingPolicies"]
    assert described["fairsharePolicy"]["computeReservation"] == 25
    assert "is in use by job queue gpu" in aws.refusal("delete-scheduling-policy", "--arn", policy)
    assert "disable it first" in aws.refusal("delete-job-queue", "--job-queue", "gpu")
    aws("update-job-queue", "--job-queue", "gpu", "--state", "DISABLED", "--priority", "2")
    assert aws("delete-job-queue", "--job-queue", "gpu") == {}
    assert aws("describe-job-queues") == {"jobQueues": []}
    assert "JobQueue gpu not found." in aws.refusal("get-job-queue-snapshot", "--job-queue", "gpu")
    aws("delete-scheduling-policy", "--arn", policy)
    aws("update-service-environment", "--service-environment", "gpu", "--state", "DISABLED")
    aws("delete-service-environment", "--service-environment", "gpu")
    assert aws("describe-service-environments") == {"serviceEnvironments": []}
    assert aws("list-scheduling-policies") == {"schedulingPolicies": []}


def test_an_exported_script_sends_its_run_with_it(aws: Cli, tmp_path: Path) -> None:
    batch = aws.client("batch")
    limits = [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]
    batch.create_service_environment(
        serviceEnvironmentName="gpu", serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits
    )
    share = {"shareIdentifier": "LOWPRI", "weightFactor": 1.0}
    policy = batch.create_scheduling_policy(name="gpu", fairsharePolicy={"shareDistribution": [share]})
    batch.create_job_queue(
        jobQueueName="gpu",
        jobQueueType="SAGEMAKER_TRAINING",
        priority=1,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}],
        schedulingPolicyArn=policy["arn"],
    )
    requests = [
        JobRequest(name, "gpu", payload(name), f"{name}-token", "LOWPRI", 0, {"attempts": 1}, 60, {"team": "search"})
        for name in ("first", "second")
    ]
    jobs = tuple(PlannedJob(index, 1, request) for index, request in enumerate(requests))
    identity = RunIdentity("night", START, "us-west-2", "123456789012")
    plan = SubmitPlan(identity, plan_waves(2, None, 0, START), jobs)
    for name, content in export_triggers(plan, ScriptKind.SH, submit_request, endpoint_url=aws.endpoint_url).items():
        path = tmp_path / "night shift" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    for _ in range(2):  # the second time it has nothing to do
        done = aws.script(tmp_path / "night shift" / "submit.sh")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == "all 2 jobs are sent"

    sent = [batch.list_service_jobs(jobQueue="gpu", jobStatus=status) for status in ("RUNNING", "RUNNABLE")]
    assert [[job["jobName"] for job in each["jobSummaryList"]] for each in sent] == [["first"], ["second"]]
    (second,) = sent[1]["jobSummaryList"]
    described = batch.describe_service_job(jobId=second["jobId"])
    assert (described["tags"], described["schedulingPriority"]) == ({"team": "search"}, 0)
