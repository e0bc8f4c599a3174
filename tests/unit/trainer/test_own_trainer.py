"""`TrainerPayloads` on a user's own ModelTrainer: used as it is, and left as it was."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec, Origin
from fairshare.model import InfeasibleError, UsageError
from fairshare.trainer.payload import TrainerPayloads

MakePayloads = Callable[..., TrainerPayloads]
OwnTrainer = Callable[..., Any]
Write = Callable[[Mapping[str, str]], Path]


def job(trainer: Any, **fields: Any) -> JobSpec:
    return JobSpec(**({"name": "own", "origin": Origin("train_all.py"), "trainer": trainer} | fields))


def state(trainer: Any) -> dict[str, Any]:
    """Everything a ModelTrainer holds, deep, and which session and look-up of defaults it uses."""
    shared = ("sagemaker_session", "config_mgr")
    fields = {name: copy.deepcopy(value) for name, value in vars(trainer).items() if name not in shared}
    return fields | dict(trainer.__pydantic_private__) | {name: id(getattr(trainer, name)) for name in shared}


def test_the_object_is_left_as_it_was(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace
) -> None:
    trainer = own_trainer(
        role=None,
        hyperparameters={"lr": 0.1, "layers": [1, 2]},
        environment={},
        checkpoint_config=sdk.configs.CheckpointConfig(),
        tags=[sdk.configs.Tag(key="owner", value="me")],
    )
    before, fields_set = state(trainer), set(trainer.model_fields_set)
    built = make_payloads().build(job(trainer, role="FromDefaults"))
    gc.collect()
    assert state(trainer) == before
    assert trainer.model_fields_set == fields_set
    assert trainer.checkpoint_config.s3_uri is None
    assert trainer.role is None
    assert built.payload["RoleArn"] == "arn:aws:iam::111122223333:role/FromDefaults"
    assert built.payload["HyperParameters"] == {"lr": "0.1", "layers": "[1, 2]"}
    assert built.tags == {"owner": "me"}


def test_the_object_is_left_as_it_was_when_building_fails(make_payloads: MakePayloads, own_trainer: OwnTrainer) -> None:
    trainer = own_trainer(hyperparameters={"note": "it's"})
    before = state(trainer)
    with pytest.raises(InfeasibleError, match="hyperparameter note: its value holds a '"):
        make_payloads().build(job(trainer))
    assert state(trainer) == before


def test_the_directory_of_a_recipe_outlives_the_build(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, tmp_path: Path
) -> None:
    trainer = own_trainer()
    trainer._temp_recipe_train_dir = TemporaryDirectory(dir=tmp_path)
    trainer._is_llmft_recipe = True
    (Path(trainer._temp_recipe_train_dir.name) / "recipe.yaml").write_text("a: 1")
    built = make_payloads().build(job(trainer))
    gc.collect()
    assert [u.body for u in built.uploads if u.s3_uri.endswith("/recipe.yaml")] == [b"a: 1"]
    assert Path(trainer._temp_recipe_train_dir.name).is_dir()


def test_the_users_own_fields_are_used_and_the_specs_are_not(
    make_payloads: MakePayloads, own_trainer: OwnTrainer
) -> None:
    trainer = own_trainer(environment={"A": "1"})
    built = make_payloads().build(
        job(trainer, role="Other", image="other", instance_type="ml.p4d.24xlarge", environment={"B": "2"})
    )
    assert built.payload["RoleArn"] == "arn:aws:iam::111122223333:role/OwnRole"
    assert built.payload["Environment"] == {"A": "1"}
    assert built.payload["ResourceConfig"]["InstanceType"] == "ml.m5.large"
    assert built.payload["OutputDataConfig"]["S3OutputPath"] == "s3://own-bucket/own"


def test_tags_of_the_submission_join_the_users(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace
) -> None:
    tags = [sdk.configs.Tag(key="owner", value="me"), sdk.configs.Tag(key="kept", value="1")]
    built = make_payloads().build(job(own_trainer(tags=tags), tags={"owner": "team"}))
    assert built.tags == {"owner": "team", "kept": "1"}


def test_c13_tags_that_the_sdk_made_are_cleaned_and_the_users_are_not(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace
) -> None:
    tags = [
        sdk.configs.Tag(key="sagemaker-sdk:jumpstart-model-version", value="*"),
        sdk.configs.Tag(key="cmd", value="lr=1;bs=2"),
    ]
    built = make_payloads().build(job(own_trainer(tags=tags)))
    assert built.tags == {"sagemaker-sdk:jumpstart-model-version": "-", "cmd": "lr=1;bs=2"}


def test_c14_our_ignores_and_the_users_both_count(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, write: Write, sdk: SimpleNamespace
) -> None:
    root = write({"train.py": "", ".venv/x": "", "notes.md": "", "data/big.bin": ""})
    code = sdk.configs.SourceCode(source_dir=str(root), entry_script="train.py", ignore_patterns=["*.md", "data"])
    built = make_payloads().build(job(own_trainer(source_code=code)))
    names = [u.s3_uri.rpartition("/")[2] for u in built.uploads if "/fairshare/source/" in u.s3_uri]
    assert names == ["train.py"]


def test_a_relative_source_is_relative_to_the_working_directory(
    make_payloads: MakePayloads,
    own_trainer: OwnTrainer,
    write: Write,
    sdk: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(write({"train.py": ""}).parent)
    built = make_payloads().build(
        job(own_trainer(source_code=sdk.configs.SourceCode(source_dir="src", entry_script="train.py")))
    )
    assert [u.s3_uri for u in built.uploads if u.s3_uri.endswith("/train.py")]


def test_an_archive_or_an_s3_uri_goes_as_it_is(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace, tmp_path: Path
) -> None:
    (tmp_path / "code.tar.gz").write_bytes(b"archive")

    def build(source: str) -> Any:
        code = sdk.configs.SourceCode(source_dir=source, entry_script="train.py")
        return make_payloads().build(job(own_trainer(source_code=code)))

    packed = build(str(tmp_path / "code.tar.gz"))
    (archive,) = [u for u in packed.uploads if u.body == b"archive"]
    assert archive.s3_uri.endswith("/code.tar.gz")
    assert archive.s3_uri in str(packed.payload["InputDataConfig"])
    (script,) = [u.body.decode() for u in packed.uploads if u.s3_uri.endswith("/sm_train.sh")]
    assert "tar -xzf code.tar.gz" in script
    remote = build("s3://theirs/code/")
    assert "s3://theirs/code/" in str(remote.payload["InputDataConfig"])
    assert not [u for u in remote.uploads if "/fairshare/source/" in u.s3_uri]


def test_c20_the_sdks_hour_is_never_applied_in_silence(make_payloads: MakePayloads, own_trainer: OwnTrainer) -> None:
    trainer = own_trainer()
    assert trainer.stopping_condition.max_runtime_in_seconds == 3600
    built = make_payloads().build(job(trainer))
    assert built.payload["StoppingCondition"] == {"MaxRuntimeInSeconds": 86400}
    assert built.warnings[0].startswith("no max_runtime given: the job may run for 24h (86400 s)")
    from_defaults = make_payloads().build(job(trainer, max_runtime=7200))
    assert (from_defaults.payload["StoppingCondition"], from_defaults.warnings) == ({"MaxRuntimeInSeconds": 7200}, ())


@pytest.mark.parametrize("seconds", [3600, 120])
def test_c20_a_limit_of_the_users_own_is_kept_an_hour_too(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace, seconds: int
) -> None:
    trainer = own_trainer(stopping_condition=sdk.configs.StoppingCondition(max_runtime_in_seconds=seconds))
    built = make_payloads().build(job(trainer, max_runtime=7200))
    assert (built.payload["StoppingCondition"], built.warnings) == ({"MaxRuntimeInSeconds": seconds}, ())


def test_c20_a_condition_without_a_limit_gets_one(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace
) -> None:
    trainer = own_trainer(stopping_condition=sdk.configs.StoppingCondition(max_wait_time_in_seconds=90000))
    built = make_payloads().build(job(trainer))
    assert built.payload["StoppingCondition"] == {"MaxRuntimeInSeconds": 86400, "MaxWaitTimeInSeconds": 90000}
    assert len(built.warnings) == 1


def test_checkpoints_without_a_uri_get_one_for_this_job_and_this_run(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace
) -> None:
    trainer = own_trainer(checkpoint_config=sdk.configs.CheckpointConfig())
    built = make_payloads().build(job(trainer, name="own-lr0"))
    assert built.payload["CheckpointConfig"] == {
        "S3Uri": "s3://team-bucket/fairshare/checkpoints/own-lr0-1700000000000",
        "LocalPath": "/opt/ml/checkpoints",
    }


def test_uploads_are_encrypted_with_the_output_key_as_the_sdk_does(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace
) -> None:
    output = sdk.configs.OutputDataConfig(s3_output_path="s3://results/", kms_key_id="alias/ml")
    built = make_payloads().build(job(own_trainer(output_data_config=output)))
    assert {upload.kms_key for upload in built.uploads} == {"alias/ml"}


def test_a_trainer_for_docker_on_this_machine_is_refused(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace
) -> None:
    trainer = own_trainer(training_mode=sdk.Mode.LOCAL_CONTAINER)
    with pytest.raises(InfeasibleError) as caught:
        make_payloads().build(job(trainer))
    assert caught.value.message == (
        "trainer has training_mode LOCAL_CONTAINER, and a queue runs SageMaker training jobs only"
    )
    assert "fairshare --local" in str(caught.value.hint)


def test_something_else_is_refused(make_payloads: MakePayloads) -> None:
    with pytest.raises(UsageError, match="trainer must be a ModelTrainer, and is of type str"):
        make_payloads().build(job("no trainer"))


def test_no_role_at_all_is_told(make_payloads: MakePayloads, own_trainer: OwnTrainer) -> None:
    with pytest.raises(UsageError, match="no role for the training job"):
        make_payloads().build(job(own_trainer(role=None)))


def test_what_the_sdk_warns_of_is_passed_on(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, write: Write, sdk: SimpleNamespace
) -> None:
    code = sdk.configs.SourceCode(source_dir=str(write({"train.py": ""})), command="python train.py")
    trainer = own_trainer(
        source_code=code,
        hyperparameters={"lr": 1},
        stopping_condition=sdk.configs.StoppingCondition(max_runtime_in_seconds=60),
    )
    (warning,) = make_payloads().build(job(trainer)).warnings
    assert warning.startswith("Hyperparameters are set but are not passed as command-line arguments")
