"""``metrics``, ``efficiency`` and ``compare`` on jobs of the local AWS, with values published as SageMaker does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairshare.aws.metrics import CloudWatch
from fairshare.aws.session import AwsSession
from fairshare.cli.context import AppContext, Options
from fairshare.cli.main import run
from fairshare.local.testkit import LocalAWS
from fairshare.metrics.ports import TRAINING_NAMESPACE, Datum
from fairshare.scheduler.clock import VirtualClock

START = 1_796_061_600_000
GPUS = 4
HOUR = 3600


class Lab:
    """A FIFO queue of two GPU instances, jobs of an hour, and the command line; time is the virtual clock's."""

    def __init__(self, aws: LocalAWS, clock: VirtualClock, capsys: pytest.CaptureFixture[str], cwd: Path) -> None:
        self._aws, self._clock, self._capsys, self._cwd = aws, clock, capsys, cwd
        self.advance = aws.advance
        self._session = AwsSession(region=aws.region)
        self.batch = self._session.client("batch")
        limits = [{"maxCapacity": 2, "capacityUnit": "NUM_INSTANCES"}]
        environment = self.batch.create_service_environment(
            serviceEnvironmentName="gpu", serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits
        )
        self.batch.create_job_queue(
            jobQueueName="gpu",
            priority=1,
            jobQueueType="SAGEMAKER_TRAINING",
            serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": environment["serviceEnvironmentArn"]}],
        )

    def submit(self, name: str, *, hosts: int = 1, seconds: int = HOUR) -> str:
        payload = {
            "TrainingJobName": name,
            "RoleArn": "arn:aws:iam::123456789012:role/train",
            "ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": hosts, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 86_400},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)},
        }
        answer = self.batch.submit_service_job(
            jobName=name,
            jobQueue="gpu",
            serviceJobType="SAGEMAKER_TRAINING",
            serviceRequestPayload=json.dumps(payload),
        )
        return str(answer["jobId"])

    def publish(self, job_id: str, **hosts: Sequence[float]) -> None:
        """Publish GPU use per device, each minute from now on; ``algo_1=[...]``."""
        name = self.batch.describe_service_job(jobId=job_id)["latestAttempt"]["serviceResourceId"]["value"]
        training = name.rsplit("/", 1)[-1]
        source = CloudWatch(self._session)
        begin = -(-self._clock.now() // 60_000) * 60_000
        source.put(
            [
                Datum(
                    TRAINING_NAMESPACE,
                    "GPUUtilization",
                    (("Host", f"{training}/{host.replace('_', '-')}"),),
                    value * GPUS,
                    "Percent",
                    begin + minute * 60_000,
                )
                for host, values in hosts.items()
                for minute, value in enumerate(values)
            ]
        )

    def screen(self, *argv: str) -> str:
        assert run([*argv, "-q", "gpu"], self._context) == 0
        return self._capsys.readouterr().out

    def fairshare(self, *argv: str) -> Any:
        assert run([*argv, "-q", "gpu", "-o", "json"], self._context) == 0
        return json.loads(self._capsys.readouterr().out)

    def _context(self, options: Options) -> AppContext:
        context = AppContext(options, {"AWS_REGION": self._aws.region}, self._cwd)
        context.__dict__.update(clock=self._clock, session=self._session)
        return context


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Lab]:
    clock = VirtualClock(START)
    with LocalAWS(clock=clock) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        yield Lab(aws, clock, capsys, tmp_path)


def test_from_published_values_to_a_diagnosis_with_its_victim(lab: Lab) -> None:
    idler = lab.submit("idler", hosts=2)
    waiter = lab.submit("waiter", hosts=2)
    lab.advance(1)
    lab.publish(idler, algo_1=[95.0] * 30 + [0.0] * 28, algo_2=[93.0] * 30 + [0.0] * 28)
    lab.advance(HOUR + 60)
    lab.publish(waiter, algo_1=[90.0] * 58, algo_2=[92.0] * 58)
    lab.advance(HOUR + 60)

    series = lab.fairshare("metrics", "idler")["series"]
    assert {(one["name"], one["host"]) for one in series if one["points"]} == {
        ("GPUUtilization", None),
        ("GPUUtilization", "algo-1"),
        ("GPUUtilization", "algo-2"),
    }
    [found] = lab.fairshare("efficiency", "idler")["jobs"]
    assert found["gpu_mean_percent"] == pytest.approx(94 * 30 / 58, abs=0.01)
    assert found["idle_tail_seconds"] == 1680
    assert [one["id"] for one in found["diagnoses"]] == ["idle-after-training"]
    [victim] = found["victims"]
    assert (victim["job_id"], victim["delay_seconds"]) == (waiter, pytest.approx(1780, abs=100))

    differences = {one["name"]: one for one in lab.fairshare("compare", "idler", "waiter")["differences"]}
    assert differences["gpu_use"]["difference"] == pytest.approx(91 - 94 * 30 / 58)
    assert differences["duration"]["difference_percent"] == pytest.approx(0, abs=1)


def test_what_moved_in_the_queue_is_counted(lab: Lab) -> None:
    lab.submit("first")
    lab.submit("second")
    lab.advance(HOUR + 120)

    series = {one["name"]: one for one in lab.fairshare("metrics", "--since", "2h")["series"]}

    assert sum(value for _, value in series["JobsSubmitted"]["points"] if value is not None) == 2
    assert series["JobsMovedToFailed"]["points"] == []
    assert series["JobAttemptExecutionDuration"]["mean"] == pytest.approx(HOUR * 1000)


def test_a_job_that_did_nothing_names_those_who_waited_and_how_long(lab: Lab) -> None:
    """Two hosts do nothing for an hour; a job of both hosts waits for all of it, one of the next hour for none."""
    idler = lab.submit("idler", hosts=2)
    waiter = lab.submit("waiter", hosts=2, seconds=1800)
    lab.advance(1)
    lab.publish(idler, algo_1=[0.0] * 59, algo_2=[0.4] * 59)
    lab.advance(HOUR + 1800 + 60)
    lab.submit("later", hosts=2, seconds=60)
    lab.advance(120)

    jobs = {job["job_name"]: job for job in lab.fairshare("efficiency", "--since", "3h")["jobs"]}

    assert [one["id"] for one in jobs["idler"]["diagnoses"]] == ["idle-gpu"]
    assert {victim["job_id"]: victim["delay_seconds"] for victim in jobs["idler"]["victims"]} == {
        waiter: pytest.approx(HOUR, abs=120)
    }
    assert jobs["waiter"]["phases"]["waiting_seconds"] == pytest.approx(HOUR, abs=5)
    screen = lab.screen("efficiency", "idler")
    assert re.search(r"Without them: waiter by 5\d min( \d+ s)? earlier \(model 1\.0\)\.", screen)
