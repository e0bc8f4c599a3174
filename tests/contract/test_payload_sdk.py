"""Our payload against the one that the SageMaker SDK builds alone, on moto: equal but for documented differences."""

from __future__ import annotations

import copy
import gc
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
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
        gc.freeze()  # so that the collection below looks at what is new
        yield
        gc.collect()  # the SDK alone leaves temporary directories behind
        gc.unfreeze()


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
    return fresh_payloads()


def fresh_payloads() -> TrainerPayloads:
    return TrainerPayloads(
        region=REGION, account_id=ACCOUNT, bucket=BUCKET, boto_session=None, put_missing=len, environ={}
    )


@pytest.fixture
def full_trainer(sdk: SimpleNamespace, source: Path) -> Callable[..., Any]:
    """A ModelTrainer that says everything a job file can say, with a real Session."""

    def maker(**fields: Any) -> Any:
        c = sdk.configs
        complete = {
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
        if "sagemaker_session" not in fields:
            complete["sagemaker_session"] = sdk.Session(default_bucket=BUCKET)
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


POINTS: list[dict[str, Any]] = [
    *({"lr": lr, "epochs": epochs} for lr in (0.1, 1e-05, 3) for epochs in (0, 5)),
    *({"optimizer": name} for name in ("adamw", "", "007", "1e-4", "true", "null", "größe ✓", 'a "b" \\ c')),
    *({"amp": amp, "clip": None} for amp in (True, False)),
    {"layers": [64, 32, 1.5, "x", None], "empty": []},
    {"schedule": {"name": "cosine", "steps": [1, 2], "nested": {"ü": "✓", "on": True}}},
    {"lr": 0.1, "note": "$HOME `x` \n end"},
    {},
]
"""Hyperparameters of 20 jobs of one sweep."""


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@pytest.fixture
def builds(sdk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fill with one entry for each time that the SDK is asked for a request."""
    asked: list[str] = []
    ask = sdk.ModelTrainer._create_training_job_args

    def counted(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(trainer.base_job_name)
        return ask(trainer, *args, **kwargs)

    monkeypatch.setattr(sdk.ModelTrainer, "_create_training_job_args", counted)
    return asked


@pytest.fixture
def idle_session(sdk: SimpleNamespace) -> Any:
    """A real Session, made once, that does not upload: either takes seconds for 20 points."""

    class Idle(sdk.Session):  # type: ignore[misc,name-defined]
        def upload_data(self, path: str, bucket: str, key_prefix: str, **_: Any) -> str:
            return f"s3://{bucket}/{key_prefix}"

    return Idle(default_bucket=BUCKET)


def test_a_varied_payload_is_what_the_sdk_makes_of_that_point(
    aws: None,
    sdk: SimpleNamespace,
    idle_session: Any,
    payloads: TrainerPayloads,
    full_trainer: Callable[..., Any],
    full_spec: Callable[..., JobSpec],
    builds: list[str],
) -> None:
    assert len(POINTS) == 20
    common = full_spec(launcher={"torchrun": {}}, training_job={"EnableManagedSpotTraining": False})
    for index, point in enumerate(POINTS):
        variables = {"MODE": "full", "FAIRSHARE_ARRAY_INDEX": str(index), "EMPTY": ""}
        checkpoint = f"s3://results/checkpoints/point-{index}/"
        tags = {"owner": "me", "point": str(index)}
        spec = replace(
            common,
            name=f"digits-{index}",
            hyperparameters=point,
            environment=variables,
            checkpoint=checkpoint,
            tags=tags,
        )
        built = payloads.build(spec)
        alone = full_trainer(
            sagemaker_session=idle_session,
            distributed=sdk.Torchrun(),
            hyperparameters=point,
            environment=variables,
            checkpoint_config=sdk.configs.CheckpointConfig(s3_uri=checkpoint),
            tags=[sdk.configs.Tag(key=key, value=value) for key, value in tags.items()],
        )
        theirs, _ = without_uris(alone._create_training_job_args(boto3=True))
        assert theirs.pop("Tags") == [{"Key": key, "Value": value} for key, value in tags.items()]
        del theirs["TrainingJobName"]
        ours, uris = without_uris(built.payload)
        assert canonical(ours) == canonical(theirs | {"EnableManagedSpotTraining": False})
        assert built.tags == tags
        assert {upload.s3_uri.startswith(tuple(uris.values())) for upload in built.uploads} == {True}
    assert builds.count("digits") == len(POINTS), "the SDK alone, one for each point"
    assert builds.count("digits-0") == builds.count("digits-19") == 1, "with hyperparameters and without"
    assert len(builds) == len(POINTS) + 2


@pytest.mark.parametrize("is_own", [False, True], ids=["spec", "own ModelTrainer"])
def test_a_varied_payload_and_its_uploads_are_those_of_a_build_of_its_own(
    aws: None,
    idle_session: Any,
    payloads: TrainerPayloads,
    full_trainer: Callable[..., Any],
    full_spec: Callable[..., JobSpec],
    builds: list[str],
    is_own: bool,
) -> None:
    """Byte for byte, the URIs of uploads included: nothing of source or drivers depends on the point."""

    def spec_at(point: dict[str, Any]) -> JobSpec:
        if is_own:
            return JobSpec(
                name="digits",
                origin=Origin("t.py"),
                trainer=full_trainer(sagemaker_session=idle_session, hyperparameters=point),
            )
        return full_spec(hyperparameters=point)

    specs = [spec_at(point) for point in POINTS]
    varied = [payloads.build(spec) for spec in specs]
    assert len(builds) == 2, "with hyperparameters and without"
    for spec, built in zip(specs, varied, strict=True):
        alone = fresh_payloads().build(spec)
        assert canonical(built.payload) == canonical(alone.payload)
        assert replace(built, payload={}) == replace(alone, payload={})


def test_hyperparameters_that_the_sdk_adds_are_not_lost(
    aws: None,
    sdk: SimpleNamespace,
    idle_session: Any,
    payloads: TrainerPayloads,
    full_trainer: Callable[..., Any],
    builds: list[str],
) -> None:
    """With SMP the SDK does more than to copy: each job is built."""
    with quiet_sdk():
        from sagemaker.train.distributed import SMP

    for seed in (1, 2):
        trainer = full_trainer(
            sagemaker_session=idle_session,
            distributed=sdk.Torchrun(smp=SMP(tensor_parallel_degree=4)),
            hyperparameters={"seed": seed},
        )
        built = payloads.build(JobSpec(name="digits", origin=Origin("t.py"), trainer=trainer))
        alone, _ = without_uris(trainer._create_training_job_args(boto3=True))
        assert built.payload["HyperParameters"] == alone["HyperParameters"]
        assert built.payload["HyperParameters"]["seed"] == str(seed)
        assert "tensor_parallel_degree" in built.payload["HyperParameters"]["mp_parameters"]
    assert len(builds) == 4


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
