"""Our payload against the one that the SageMaker SDK builds alone, on moto: equal but for documented differences."""

from __future__ import annotations

import copy
import gc
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from fairshare.config.jobs import JobSpec, Origin
from fairshare.trainer.payload import TrainerPayloads
from fairshare.trainer.sdk import quiet_sdk

pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")

ACCOUNT = "123456789012"
REGION = "us-west-2"
BUCKET = "team-bucket"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/train:1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/ML"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Moto, with the role validation that it cannot answer switched off the SDK's own way."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "SAGEMAKER_VALIDATE_ROLE": "false",
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws(), quiet_sdk():
        yield
        gc.collect()  # the SDK alone leaves temporary directories behind


@pytest.fixture
def sdk() -> SimpleNamespace:
    with quiet_sdk():
        from sagemaker.core.helper.session_helper import Session
        from sagemaker.core.training import configs
        from sagemaker.train.distributed import MPI, Torchrun
        from sagemaker.train.model_trainer import ModelTrainer
    return SimpleNamespace(configs=configs, ModelTrainer=ModelTrainer, Session=Session, Torchrun=Torchrun, MPI=MPI)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("print(1)\n")
    (tmp_path / "src/requirements.txt").write_text("")
    return tmp_path / "src"


@pytest.fixture
def payloads() -> TrainerPayloads:
    return TrainerPayloads(
        region=REGION, account_id=ACCOUNT, bucket=BUCKET, boto_session=None, put_missing=len, environ={}
    )


@pytest.fixture
def full_trainer(sdk: SimpleNamespace, source: Path) -> Callable[..., Any]:
    """A ModelTrainer that says everything a job file can say, with a real Session."""

    def maker(**fields: Any) -> Any:
        c = sdk.configs
        complete = {
            "sagemaker_session": sdk.Session(default_bucket=BUCKET),
            "training_image": IMAGE,
            "role": ROLE,
            "base_job_name": "digits",
            "source_code": c.SourceCode(
                source_dir=str(source), entry_script="train.py", requirements="requirements.txt"
            ),
            "compute": c.Compute(instance_type="ml.m5.large", instance_count=2, volume_size_in_gb=50),
            "stopping_condition": c.StoppingCondition(max_runtime_in_seconds=21600),
            "networking": c.Networking(subnets=["subnet-1"], security_group_ids=["sg-1"]),
            "input_data_config": [c.InputData(channel_name="train", data_source="s3://data/train/")],
            "output_data_config": c.OutputDataConfig(s3_output_path="s3://results/digits"),
            "checkpoint_config": c.CheckpointConfig(s3_uri="s3://results/checkpoints/"),
            "environment": {"MODE": "full"},
            "hyperparameters": {"lr": 0.0001, "amp": True, "none": None, "layers": [64, 64], "tag": "007", "e": ""},
            "tags": [c.Tag(key="owner", value="me")],
        }
        return sdk.ModelTrainer(**(complete | fields))

    return maker


@pytest.fixture
def full_spec(source: Path) -> Callable[..., JobSpec]:
    """The same job as a spec."""

    def maker(**fields: Any) -> JobSpec:
        complete: dict[str, Any] = {
            "name": "digits",
            "origin": Origin("jobs.yaml", 2),
            "source_dir": source,
            "entry": "train.py",
            "requirements": "requirements.txt",
            "instance_type": "ml.m5.large",
            "instance_count": 2,
            "volume_size_gb": 50,
            "role": "ML",
            "image": IMAGE,
            "max_runtime": 21600,
            "network": {"subnets": ["subnet-1"], "security_groups": ["sg-1"]},
            "inputs": {"train": "s3://data/train/"},
            "output": "s3://results/digits",
            "checkpoint": "s3://results/checkpoints/",
            "environment": {"MODE": "full"},
            "hyperparameters": {"lr": 0.0001, "amp": True, "none": None, "layers": [64, 64], "tag": "007", "e": ""},
            "tags": {"owner": "me"},
        }
        return JobSpec(**(complete | fields))

    return maker


def without_uris(payload: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a payload without the URIs of what the SDK uploads, and those URIs by channel."""
    plain: dict[str, Any] = json.loads(json.dumps(payload))
    uris = {}
    for channel in plain["InputDataConfig"]:
        if channel["ChannelName"] in ("code", "sm_drivers"):
            uris[channel["ChannelName"]] = channel["DataSource"]["S3DataSource"].pop("S3Uri")
    return plain, uris


@pytest.mark.parametrize("launcher", [None, "torchrun", "mpi"])
def test_a_spec_is_what_the_sdk_makes_of_the_same_trainer(
    aws: None,
    sdk: SimpleNamespace,
    payloads: TrainerPayloads,
    full_trainer: Callable[..., Any],
    full_spec: Callable[..., JobSpec],
    launcher: str | None,
) -> None:
    runner = {None: None, "torchrun": sdk.Torchrun(process_count_per_node=2), "mpi": sdk.MPI()}[launcher]
    options = {None: None, "torchrun": {"torchrun": {"process_count_per_node": 2}}, "mpi": {"mpi": {}}}[launcher]
    alone, their_uris = without_uris(full_trainer(distributed=runner)._create_training_job_args(boto3=True))
    built = payloads.build(full_spec(launcher=options))
    ours, our_uris = without_uris(built.payload)
    assert alone.pop("TrainingJobName").startswith("digits-")
    assert alone.pop("Tags") == [{"Key": "owner", "Value": "me"}]
    assert ours == alone
    assert built.tags == {"owner": "me"}
    assert set(our_uris) == set(their_uris) == {"code", "sm_drivers"}


def test_a_users_own_trainer_is_what_the_sdk_makes_of_it(
    aws: None, payloads: TrainerPayloads, full_trainer: Callable[..., Any]
) -> None:
    trainer = full_trainer()
    session = trainer.sagemaker_session
    before = {
        name: copy.deepcopy(v) for name, v in vars(trainer).items() if name not in ("sagemaker_session", "config_mgr")
    }
    built = payloads.build(JobSpec(name="digits", origin=Origin("t.py"), trainer=trainer))
    assert {name: vars(trainer)[name] for name in before} == before
    assert trainer.sagemaker_session is session
    alone, _ = without_uris(trainer._create_training_job_args(boto3=True))
    del alone["TrainingJobName"], alone["Tags"]
    assert without_uris(built.payload)[0] == alone


def test_what_we_upload_is_what_the_sdk_uploads_but_for_byte_code_and_the_place_of_the_source(
    aws: None, payloads: TrainerPayloads, full_trainer: Callable[..., Any], full_spec: Callable[..., JobSpec]
) -> None:
    theirs = without_uris(full_trainer()._create_training_job_args(boto3=True))[1]
    built = payloads.build(full_spec())
    ours = without_uris(built.payload)[1]
    s3 = boto3.client("s3")

    def sent_by_sdk(channel: str) -> dict[str, bytes]:
        prefix = theirs[channel].removeprefix(f"s3://{BUCKET}/") + "/"
        keys = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]]
        return {key.removeprefix(prefix): s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def recorded(channel: str) -> dict[str, bytes]:
        return {
            u.s3_uri.removeprefix(ours[channel]): u.body for u in built.uploads if u.s3_uri.startswith(ours[channel])
        }

    assert recorded("code") == sent_by_sdk("code")
    drivers = {name: body for name, body in sent_by_sdk("sm_drivers").items() if "__pycache__" not in name}
    mine = recorded("sm_drivers")
    place = json.loads(mine.pop("sourcecode.json")).pop("source_dir")
    assert json.loads(drivers.pop("sourcecode.json")).pop("source_dir").startswith("/")
    assert place == ours["code"]
    assert mine == drivers


def test_two_jobs_in_one_second_share_a_prefix_with_the_sdk_and_never_with_us(
    aws: None,
    sdk: SimpleNamespace,
    payloads: TrainerPayloads,
    full_trainer: Callable[..., Any],
    full_spec: Callable[..., JobSpec],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sagemaker.train.model_trainer._get_unique_name", lambda base: f"{base}-20261130120000")
    sdk_uris, our_uris, our_bodies = [], [], []
    for text in ("one", "two"):
        source = tmp_path / text
        source.mkdir()
        (source / "train.py").write_text(text)
        (source / "requirements.txt").write_text("")
        code = sdk.configs.SourceCode(source_dir=str(source), entry_script="train.py")
        alone = full_trainer(source_code=code)._create_training_job_args(boto3=True)
        sdk_uris.append(without_uris(alone)[1]["code"])
        built = payloads.build(full_spec(source_dir=source))
        uri = without_uris(built.payload)[1]["code"]
        our_uris.append(uri)
        our_bodies += [u.body for u in built.uploads if u.s3_uri == f"{uri}train.py"]
    key = f"{sdk_uris[0]}/train.py".removeprefix(f"s3://{BUCKET}/")
    assert sdk_uris[0] == sdk_uris[1]
    assert boto3.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"two", (
        "the first job's code is gone"
    )
    assert our_uris[0] != our_uris[1]
    assert our_bodies == [b"one", b"two"]


def test_the_private_method_still_has_the_shape_we_call(sdk: SimpleNamespace) -> None:
    signature = inspect.signature(sdk.ModelTrainer._create_training_job_args)
    assert [(p.name, p.default) for p in signature.parameters.values()] == [
        ("self", inspect.Parameter.empty),
        ("input_data_config", None),
        ("boto3", False),
    ]


def test_what_we_replace_in_the_sdk_is_still_there(sdk: SimpleNamespace) -> None:
    """Names that `fairshare.trainer` overrides or patches; a renamed one would let a call through to AWS."""
    with quiet_sdk():
        from sagemaker.core.helper import session_helper
        from sagemaker.train.defaults import DEFAULT_MAX_RUNTIME_IN_SECONDS, TrainDefaults

    for owner, names in {
        sdk.Session: ["default_bucket", "account_id", "upload_data", "upload_string_as_file_body", "_initialize"],
        sdk.ModelTrainer: ["train", "_create_training_job_args"],
        TrainDefaults: ["get_role", "get_sagemaker_session"],
        session_helper: ["sts_regional_endpoint"],
    }.items():
        assert [name for name in names if name not in vars(owner)] == []
    private = sdk.ModelTrainer.__private_attributes__
    assert {"_temp_code_dir", "_temp_recipe_train_dir", "_tensorboard_output_config"} <= set(private)
    assert DEFAULT_MAX_RUNTIME_IN_SECONDS == 3600
    assert [*inspect.signature(sdk.Session.upload_data).parameters] == [
        *("self", "path", "bucket", "key_prefix", "callback", "extra_args"),
    ]


def test_every_field_of_a_payload_is_one_of_sagemakers(
    payloads: TrainerPayloads, full_spec: Callable[..., JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    import botocore.session
    from botocore.validate import ParamValidator

    model = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
    payload = dict(payloads.build(full_spec(launcher={"torchrun": {}})).payload) | {"TrainingJobName": "x"}
    report = ParamValidator().validate(payload, model.input_shape)
    assert report.generate_report() == ""
