from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fairshare.local.launcher import Attempt, Report
from fairshare.local.processes.final_metrics import FinalMetrics
from fairshare.local.processes.training_request import RefusalError
from fairshare.local.simulated import SimulatedLauncher
from fairshare.local.training_jobs import TrainingJob
from fairshare.model import JobStatus

ACCURACY = {"Name": "accuracy", "Regex": r"accuracy ([0-9.]+)"}


def test_the_last_value_of_each_metric_counts() -> None:
    metrics = FinalMetrics([ACCURACY, {"Name": "loss", "Regex": r"loss ([-+.e\d]+|nan)"}])
    for line in ("epoch 1  loss 2.5  accuracy 0.31", "epoch 2  loss 1e-3  accuracy 0.97", "saved"):
        metrics.read(line)

    assert metrics.values() == {"accuracy": 0.97, "loss": 0.001}


@pytest.mark.parametrize("line", ["accuracy 0.9.1", "accuracy unknown", ""])
def test_what_is_no_number_is_left_out(line: str) -> None:
    metrics = FinalMetrics([ACCURACY])
    metrics.read("accuracy 0.5")
    metrics.read(line)

    assert metrics.values() == {"accuracy": 0.5}


def test_infinities_are_left_out() -> None:
    metrics = FinalMetrics([{"Name": "loss", "Regex": "loss (.*)"}])
    metrics.read("loss inf")
    metrics.read("loss nan")

    assert metrics.values() == {}


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        ("(", "Regex of metric definition 'accuracy' is no regular expression"),
        ("accuracy", "Regex of metric definition 'accuracy' has no group"),
    ],
)
def test_a_definition_that_cannot_be_is_refused(regex: str, message: str) -> None:
    with pytest.raises(RefusalError, match=f"^ValidationException: {message}"):
        FinalMetrics([{"Name": "accuracy", "Regex": regex}])


def test_a_training_job_tells_its_final_metrics_once_it_has_ended() -> None:
    job = TrainingJob("AWSBatchx", "arn:x", {}, created_at=0)
    job.apply(Report("job", 1, JobStatus.RUNNING, 1_000))
    assert "FinalMetricDataList" not in job.describe()

    job.apply(Report("job", 1, JobStatus.SUCCEEDED, 2_000, final_metrics={"accuracy": 0.97}))

    entry = {"MetricName": "accuracy", "Value": 0.97, "Timestamp": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)}
    assert job.describe()["FinalMetricDataList"] == [entry]


def simulated(metrics: str) -> list[Report]:
    launcher = SimulatedLauncher()
    environment = {"FAIRSHARE_SIM_METRICS": metrics}
    launcher.start(Attempt("job", 1, "AWSBatchx", {"Environment": environment}, "us-west-2", "123456789012"), 0)
    return launcher.poll(0)


def test_a_simulated_job_has_the_metrics_it_is_told() -> None:
    assert simulated('{"accuracy": 0.5, "loss": 2}')[-1].final_metrics == {"accuracy": 0.5, "loss": 2.0}


@pytest.mark.parametrize("text", ["accuracy", "[1]", '{"accuracy": "high"}', '{"accuracy": null}'])
def test_simulated_metrics_that_cannot_be_read_fail_the_job(text: str) -> None:
    (report,) = simulated(text)

    assert report.status is JobStatus.FAILED
    assert report.reason is not None
    assert report.reason.startswith(f"ClientError: FAIRSHARE_SIM_METRICS is {text!r}, not a JSON map of numbers")
