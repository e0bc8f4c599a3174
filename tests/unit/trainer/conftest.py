"""Builders for the tests of `fairshare.trainer`: a source directory, job specs, payload builders, users' trainers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec, Origin
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.ports import Upload
from fairshare.trainer.payload import TrainerPayloads
from fairshare.trainer.sdk import quiet_sdk
from fairshare.trainer.targets import offline_sdk

ACCOUNT = "111122223333"
REGION = "us-west-2"
BUCKET = "team-bucket"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/train:1"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in this package may open a connection, to loopback neither, nor look for credentials."""

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Write files below ``tmp_path/src`` and return that directory."""

    def writer(files: Mapping[str, str]) -> Path:
        root = tmp_path / "src"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return writer


@pytest.fixture
def make_spec(write: Callable[[Mapping[str, str]], Path]) -> Callable[..., JobSpec]:
    """Return a complete job; keyword arguments replace its fields."""

    def maker(**fields: Any) -> JobSpec:
        source = write({"lib.py": ""})
        if not (source / "train.py").exists():
            write({"train.py": "print(1)\n"})
        complete: dict[str, Any] = {
            "name": "digits",
            "origin": Origin("jobs.yaml", 2, 5),
            "source_dir": source,
            "entry": "train.py",
            "instance_type": "ml.m5.large",
            "image": IMAGE,
            "role": "MLTraining",
            "max_runtime": 600,
        }
        return JobSpec(**(complete | fields))

    return maker


@pytest.fixture
def make_payloads() -> Callable[..., TrainerPayloads]:
    """Return a payload builder whose clock stands at 1,700,000,000,000 ms and whose uploads go nowhere."""

    def put_missing(uploads: Sequence[Upload]) -> int:
        return len(uploads)

    def maker(**arguments: Any) -> TrainerPayloads:
        complete: dict[str, Any] = {
            "region": REGION,
            "account_id": ACCOUNT,
            "bucket": BUCKET,
            "boto_session": None,
            "put_missing": put_missing,
            "clock": VirtualClock(1_700_000_000_000),
            "environ": {},
        }
        return TrainerPayloads(**(complete | arguments))

    return maker


@pytest.fixture
def own_trainer(write: Callable[[Mapping[str, str]], Path]) -> Callable[..., Any]:
    """Return a ModelTrainer as a user's program makes it; keyword arguments replace or add fields."""

    def maker(**fields: Any) -> Any:
        with quiet_sdk(), offline_sdk(region=REGION, account_id=ACCOUNT, bucket="own-bucket"):
            from sagemaker.core.training.configs import Compute, SourceCode
            from sagemaker.train.model_trainer import ModelTrainer

            complete: dict[str, Any] = {
                "training_image": IMAGE,
                "role": "OwnRole",
                "base_job_name": "own",
                "source_code": SourceCode(source_dir=str(write({"train.py": "print(1)\n"})), entry_script="train.py"),
                "compute": Compute(instance_type="ml.m5.large", instance_count=1),
            }
            return ModelTrainer(**(complete | fields))

    return maker


@pytest.fixture
def sdk() -> SimpleNamespace:
    """Return the SDK's classes that a user's program names."""
    with quiet_sdk():
        from sagemaker.core.helper.session_helper import Session
        from sagemaker.core.training import configs
        from sagemaker.train.distributed import MPI, Torchrun
        from sagemaker.train.model_trainer import Mode, ModelTrainer
    return SimpleNamespace(
        configs=configs, ModelTrainer=ModelTrainer, Mode=Mode, Session=Session, Torchrun=Torchrun, MPI=MPI
    )
