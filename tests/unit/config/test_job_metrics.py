from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.config.job_file import parse_job_file
from fairshare.model import InvalidFileError


def metrics_of(written: str) -> dict[str, str]:
    text = f"jobs:\n  - name: a\n    source: train.py\n    metrics: {written}\n"
    return dict(parse_job_file(text, Path("jobs.yaml")).jobs[0].metrics)


def test_metrics_are_kept_as_they_are_written() -> None:
    assert metrics_of(r"{accuracy: 'accuracy ([0-9.]+)', 'val:loss': 'val (\S+)'}") == {
        "accuracy": "accuracy ([0-9.]+)",
        "val:loss": r"val (\S+)",
    }
    assert metrics_of("{}") == {}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{loss: loss}", r"jobs.yaml:4:21: error: jobs\[0\].metrics.loss: has no group for the value \(put the number"),
        ("{loss: '('}", r"jobs.yaml:4:21: error: jobs\[0\].metrics.loss: is no regular expression: missing \)"),
        ("{loss: '(" + "x" * 500 + ")'}", "metrics.loss: has 502 characters, SageMaker takes 500"),
        ("{" + "x" * 256 + ": (.*)}", "metrics: has a name of 256 characters, SageMaker takes 255"),
        ("{" + ", ".join(f"m{n}: (.*)" for n in range(41)) + "}", "metrics: has 41 metrics, SageMaker takes 40"),
        ("accuracy", "metrics"),
    ],
)
def test_metrics_that_sagemaker_would_refuse(written: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        metrics_of(written)
