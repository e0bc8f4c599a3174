"""What the sampler publishes. That it measures real jobs: ``tests/integration/process_launcher/test_metrics.py``."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from fairshare.local.processes.allotment import Allotment
from fairshare.local.processes.sampler import MeasuredJob, Sampler
from fairshare.model import UsageError
from fairshare.scheduler.clock import VirtualClock

START = 1_790_000_040_000


class CloudWatch:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.fails = False

    def put_metric_data(self, **call: Any) -> None:
        self.calls.append(call)
        if self.fails:
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


@pytest.fixture
def cloudwatch() -> CloudWatch:
    return CloudWatch()


@pytest.fixture
def make() -> Iterator[Callable[[float], Sampler]]:
    made: list[Sampler] = []

    def make_sampler(period: float) -> Sampler:
        made.append(Sampler(VirtualClock(START + 4_000), period, Allotment(2, 2**30), None))
        return made[-1]

    yield make_sampler
    for sampler in made:
        sampler.close()


def job(cloudwatch: CloudWatch, folder: Path, **more: Any) -> MeasuredJob:
    fields: dict[str, Any] = {
        "training_job_name": "AWSBatchx",
        "cloudwatch": cloudwatch,
        "pid": os.getpid(),
        "instance_type": "ml.m5.xlarge",
        "volume_bytes": 2**30,
        "directories": (folder,),
        "cpu_seconds": lambda: 1_000.0,
    }
    return MeasuredJob(**fields | more)


@pytest.mark.parametrize(("period", "resolution", "at"), [(60, 60, START), (1, 1, START + 4_000)])
def test_a_job_is_published_as_sagemaker_names_it(make, cloudwatch, tmp_path, period, resolution, at):
    with make(period).measuring(job(cloudwatch, tmp_path)):
        pass
    (call,) = cloudwatch.calls
    assert call["Namespace"] == "/aws/sagemaker/TrainingJobs"
    assert call["MetricData"][0] == {
        "MetricName": "CPUUtilization",
        "Dimensions": [{"Name": "Host", "Value": "AWSBatchx/algo-1"}],
        "Timestamp": datetime.fromtimestamp(at / 1000, UTC),
        "Value": 400.0,
        "Unit": "Percent",
        "StorageResolution": resolution,
    }


def test_a_job_that_cannot_be_measured_or_published_does_not_suffer(make, cloudwatch, tmp_path, caplog):
    cloudwatch.fails = True
    gone = job(cloudwatch, tmp_path / "no-such-directory", pid=2**22 + 1)
    with caplog.at_level(logging.WARNING), make(60).measuring(gone):
        pass
    assert len(cloudwatch.calls) == 1
    assert "values of /aws/sagemaker/TrainingJobs are lost: Could not connect" in caplog.text


def test_the_error_of_a_job_is_its_own(make, cloudwatch, tmp_path):
    with pytest.raises(KeyError, match="theirs"), make(60).measuring(job(cloudwatch, tmp_path)):
        raise KeyError("theirs")


@pytest.mark.parametrize("period", [0, 2, 45, 90, 0.5, -60])
def test_c39_a_period_that_cloudwatch_does_not_have_is_refused(make, period):
    with pytest.raises(UsageError, match=f"^the period of metrics is {period} s") as refused:
        make(period)
    assert refused.value.hint == "CloudWatch can be asked for 1, 5, 10, 20, 30 s or whole minutes."
