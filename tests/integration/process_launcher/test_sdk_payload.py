"""Requests made by SageMaker's own SDK: its start script and drivers run the user's code here as in a container."""

from __future__ import annotations

import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fairshare.model import JobStatus

TRAIN = """
import argparse, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--layers")
parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
args = parser.parse_args()
(pathlib.Path(args.model_dir) / "model.txt").write_text(f"{args.lr} {args.layers}")
(pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"]) / "curve.txt").write_text("down")
data = (pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]) / "a.csv").read_text()
print("trained on", data, "host", os.environ["SM_CURRENT_HOST"], "of", os.environ["SM_HOSTS"])
"""


@pytest.fixture
def sdk(bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Builds a request with ModelTrainer, uploading to the bench's S3 as the SDK does by itself."""
    monkeypatch.setenv("SAGEMAKER_VALIDATE_ROLE", "false")
    monkeypatch.setenv("TELEMETRY_OPT_OUT", "true")
    for name, value in {
        "AWS_ENDPOINT_URL": bench.endpoint.url,
        "AWS_ACCESS_KEY_ID": "AKIALOCAL",
        "AWS_SECRET_ACCESS_KEY": "local-secret",
        "AWS_DEFAULT_REGION": "us-west-2",
    }.items():
        monkeypatch.setenv(name, value)
    source = tmp_path / "src"
    source.mkdir()

    def build(files: dict[str, str], hyperparameters: dict[str, Any] | None = None, **source_code: Any) -> Any:
        for name, text in files.items():
            (source / name).write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _build(bench, source, hyperparameters or {}, source_code)

    return build


def _build(bench: Any, source: Path, hyperparameters: dict[str, Any], source_code: dict[str, Any]) -> Any:
    import boto3
    from sagemaker.core.helper.session_helper import Session
    from sagemaker.train.configs import Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition
    from sagemaker.train.model_trainer import ModelTrainer

    session = Session(boto_session=boto3.Session(), default_bucket="training-data")
    trainer = ModelTrainer(
        training_image="123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1",
        source_code=SourceCode(source_dir=str(source), **{"entry_script": "train.py", **source_code}),
        compute=Compute(instance_type="ml.m5.large", instance_count=1),
        role="arn:aws:iam::123456789012:role/Training",
        base_job_name="digits",
        hyperparameters=hyperparameters,
        stopping_condition=StoppingCondition(max_runtime_in_seconds=600),
        output_data_config=OutputDataConfig(s3_output_path="s3://training-data/output"),
        sagemaker_session=session,
    )
    bench.put("digits/a.csv", "1,2,3")
    data = [InputData(channel_name="train", data_source="s3://training-data/digits/")]
    return trainer._create_training_job_args(input_data_config=data, boto3=True)


def test_a_model_trainer_job_trains_and_leaves_its_model(bench: Any, sdk: Any) -> None:
    request = sdk({"train.py": TRAIN}, {"lr": 0.1, "layers": [64, 64], "model-dir": "/opt/ml/model"})
    attempt = bench.start(request)
    report = bench.end(attempt)
    log = bench.log(attempt)
    assert report.status is JobStatus.SUCCEEDED, "\n".join(log)
    assert bench.unpack(report.model_artifact) == {"model.txt": "0.1 [64, 64]"}
    assert bench.unpack(report.model_artifact.replace("model.tar", "output.tar")) == {"curve.txt": "down"}
    assert 'trained on 1,2,3 host algo-1 of ["algo-1"]' in log
    assert "Training Container Execution Completed" in log
    assert not any("/opt/ml" in line for line in log)
    assert not any("local-secret" in line for line in log), "the driver masks it"


def test_a_failing_model_trainer_job_says_why(bench: Any, sdk: Any) -> None:
    report = bench.run(sdk({"train.py": "print('epoch 1')\nraise ValueError('loss is nan')"}))
    assert report.status is JobStatus.FAILED
    first, _, last_lines = report.reason.partition("\nLast log lines:\n")
    assert first.startswith("AlgorithmError: Traceback (most recent call last):")
    assert first.endswith(", exit code: 1")
    lines = last_lines.splitlines()
    assert (lines[0], lines[-1]) == ("  epoch 1", "  ValueError: loss is nan")


def test_the_signal_reaches_the_users_script_below_the_driver(bench: Any, sdk: Any, rendezvous: Any) -> None:
    script = f"""
import os, pathlib, signal, socket, sys
signalled, on_signal = os.pipe()
os.set_blocking(on_signal, False)
signal.set_wakeup_fd(on_signal)  # a signal that comes before the script waits wakes it too, unlike signal.pause()
def save(*_):
    pathlib.Path(os.environ["SM_MODEL_DIR"], "last.txt").write_text("epoch 3")
    print("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
socket.create_connection(("127.0.0.1", {rendezvous.port})).sendall(b"here")
os.read(signalled, 1)
"""
    attempt = bench.start(sdk({"train.py": script}))
    rendezvous.wait()
    bench.stop(attempt)
    report = bench.end(attempt)
    assert (report.reason, report.secondary_status) == ("The training job was stopped", "Stopped")
    assert bench.unpack(report.model_artifact) == {"last.txt": "epoch 3"}
    assert bench.log(attempt)[-2:] == ["saved", "Training Container Execution Completed"] or "saved" in bench.log(
        attempt
    )


def test_a_shell_script_and_a_command_can_be_the_entry(bench: Any, sdk: Any) -> None:
    attempt = bench.start(sdk({"train.sh": "echo from the shell $@"}, {"lr": 0.1}, entry_script="train.sh"))
    assert bench.end(attempt).status is JobStatus.SUCCEEDED
    assert "from the shell --lr 0.1" in bench.log(attempt)


def wheel(directory: Path, name: str) -> Path:
    """A wheel of one module that says where it is."""
    path = directory / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "print('imported from', __file__)\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


def test_requirements_are_installed_for_the_job_only(bench: Any, sdk: Any, tmp_path: Path) -> None:
    package = wheel(tmp_path, "only_for_this_job")
    requirements = f"only_for_this_job @ {package.as_uri()}\npsutil\n"
    files = {"train.py": "import only_for_this_job, psutil, subprocess", "requirements.txt": requirements}
    request = sdk(files, requirements="requirements.txt")
    request["Environment"] = {"PIP_NO_INDEX": "1"}
    attempt = bench.start(request)
    report = bench.end(attempt)
    log = bench.log(attempt)
    assert report.status is JobStatus.SUCCEEDED, "\n".join(log)
    home = bench.jobs_dir / attempt.training_job_name
    assert any(line.startswith(f"imported from {home}/venv/lib/") for line in log)
    assert any(line.startswith("Requirement already satisfied: psutil in ") for line in log)
    absent = subprocess.run([sys.executable, "-c", "import only_for_this_job"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in absent.stderr


def test_satisfied_requirements_need_no_network(bench: Any, sdk: Any) -> None:
    request = sdk({"train.py": "", "requirements.txt": "numpy\n"}, requirements="requirements.txt")
    request["Environment"] = {"PIP_INDEX_URL": "http://127.0.0.1:9/"}
    attempt = bench.start(request)
    assert bench.end(attempt).status is JobStatus.SUCCEEDED
    log = bench.log(attempt)
    assert any(line.startswith("Requirement already satisfied: numpy") for line in log)
    assert not any("Retrying" in line or "Collecting" in line for line in log)


def test_a_quote_in_a_hyperparameter_is_refused_before_it_breaks_the_sdks_script(bench: Any, sdk: Any) -> None:
    attempt = bench.start(sdk({"train.py": TRAIN}, {"note": "it's"}))
    assert bench.end(attempt).reason.startswith(
        "ValidationException: hyperparameter 'note' contains a single quote, which breaks the start script"
    )
    assert [report.status for report in bench.of(attempt)] == [JobStatus.STARTING, JobStatus.FAILED]
    assert bench.stored("output/") == []
