"""`TrainerPayloads` on job specs: what is in the request, what is refused, and that nothing else happens."""

from __future__ import annotations

import copy
import io
import json
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec, SecretRef
from fairshare.model import InfeasibleError, UsageError
from fairshare.submit.ports import LeftOut, Payloads, SourceSummary, Upload
from fairshare.trainer.payload import TrainerPayloads, role_arn

MakeSpec = Callable[..., JobSpec]
MakePayloads = Callable[..., TrainerPayloads]
Write = Callable[[Mapping[str, str]], Path]


def channel(payload: Mapping[str, Any], name: str) -> str:
    """Return the S3 URI of a channel."""
    (found,) = [c["DataSource"]["S3DataSource"] for c in payload["InputDataConfig"] if c["ChannelName"] == name]
    uri: str = found["S3Uri"]
    return uri


def test_a_complete_job(make_payloads: MakePayloads, make_spec: MakeSpec, write: Write) -> None:
    write({"requirements.txt": "", "lib/util.py": ""})
    payloads: Payloads = make_payloads()
    built = payloads.build(
        make_spec(
            requirements="requirements.txt",
            instance_count=2,
            volume_size_gb=100,
            launcher={"torchrun": {"process_count_per_node": 4}},
            inputs={"train": "s3://data/train/"},
            output="s3://results/digits",
            checkpoint="s3://results/checkpoints/",
            network={"subnets": ["subnet-1"], "security_groups": ["sg-1"], "kms_key": "alias/ml"},
            hyperparameters={"epochs": 5},
            environment={"MODE": "full"},
            tags={"owner": "Åsa"},
        )
    )
    payload = dict(built.payload)
    inputs = payload.pop("InputDataConfig")
    assert [c["ChannelName"] for c in inputs] == ["train", "code", "sm_drivers"]
    assert payload.pop("AlgorithmSpecification")["ContainerEntrypoint"] == ["/bin/bash"]
    assert payload == {
        "HyperParameters": {"epochs": "5"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 2,
            "VolumeSizeInGB": 100,
            "VolumeKmsKeyId": "alias/ml",
        },
        "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
        "RoleArn": "arn:aws:iam::111122223333:role/MLTraining",
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "OutputDataConfig": {
            "S3OutputPath": "s3://results/digits",
            "KmsKeyId": "alias/ml",
            "CompressionType": "GZIP",
        },
        "CheckpointConfig": {"S3Uri": "s3://results/checkpoints/", "LocalPath": "/opt/ml/checkpoints"},
        "Environment": {"MODE": "full"},
    }
    assert built.tags == {"owner": "Åsa"}
    assert built.warnings == ()
    source = channel(built.payload, "code")
    names = [u.s3_uri.removeprefix(source) for u in built.uploads if u.s3_uri.startswith(source)]
    assert names == ["lib.py", "lib/util.py", "requirements.txt", "train.py"]
    assert {upload.kms_key for upload in built.uploads} == {"alias/ml"}


def test_the_drivers_name_the_entry_and_no_path_of_this_machine(
    make_payloads: MakePayloads, make_spec: MakeSpec, tmp_path: Path
) -> None:
    built = make_payloads().build(make_spec())
    prefix = channel(built.payload, "sm_drivers")
    drivers = {u.s3_uri.removeprefix(prefix): u.body for u in built.uploads if u.s3_uri.startswith(prefix)}
    assert {"sm_train.sh", "sourcecode.json", "scripts/environment.py", "scripts/install_requirements.py"} <= set(
        drivers
    )
    assert json.loads(drivers["sourcecode.json"])["entry_script"] == "train.py"
    assert not [name for name, body in drivers.items() if str(tmp_path).encode() in body]
    assert not [name for name in drivers if name.endswith(".pyc")]


def test_building_changes_neither_the_spec_nor_the_next_payload(
    make_payloads: MakePayloads, make_spec: MakeSpec
) -> None:
    spec = make_spec(
        hyperparameters={"layers": [1, 2]}, training_job={"StoppingCondition": {"MaxWaitTimeInSeconds": 900}}
    )
    before = copy.deepcopy(spec)
    payloads = make_payloads()
    first = payloads.build(spec)
    first.payload["StoppingCondition"]["MaxWaitTimeInSeconds"] = 1
    assert spec == before
    assert payloads.build(spec).payload["StoppingCondition"] == {
        "MaxRuntimeInSeconds": 600,
        "MaxWaitTimeInSeconds": 900,
    }


def test_equal_jobs_have_equal_payloads_and_a_job_name_is_in_none(
    make_payloads: MakePayloads, make_spec: MakeSpec
) -> None:
    one = make_payloads().build(make_spec())
    other = make_payloads().build(make_spec(name="another-name"))
    assert json.dumps(one.payload) == json.dumps(other.payload)
    assert "TrainingJobName" not in one.payload


def test_c48_a_source_is_read_once_and_held_once_for_all_jobs(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write
) -> None:
    payloads = make_payloads()
    first = payloads.build(make_spec(name="a"))
    write({"train.py": "edited between two waves\n"})
    second = payloads.build(make_spec(name="b", hyperparameters={"lr": 1}))
    assert [u.s3_uri for u in first.uploads] == [u.s3_uri for u in second.uploads]
    assert all(one is other for one, other in zip(first.uploads, second.uploads, strict=True))
    assert channel(make_payloads().build(make_spec()).payload, "code") != channel(first.payload, "code")


def test_c48_many_files_are_packed_and_uploaded_once_for_all_jobs_runs_and_users(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write
) -> None:
    write({f"pkg/m{number}.py": str(number) for number in range(2_000)})
    payloads = make_payloads()
    uris = {
        upload.s3_uri: upload
        for seed in range(5)
        for upload in payloads.build(make_spec(hyperparameters={"seed": seed})).uploads
        if "/fairshare/source/" in upload.s3_uri
    }
    ((uri, upload),) = uris.items()
    assert re.fullmatch(r"s3://team-bucket/fairshare/source/[0-9a-f]{32}\.tar\.gz", uri)
    assert channel(payloads.build(make_spec()).payload, "code") == uri
    with tarfile.open(fileobj=io.BytesIO(upload.body), mode="r:gz") as archive:
        assert len(archive.getnames()) == 2_002
    again = make_payloads().build(make_spec())
    assert upload in again.uploads, "another run, or another user of the bucket, wants the same object"
    write({"pkg/m7.py": "edited"})
    assert channel(payloads.build(make_spec()).payload, "code") == uri, "a later wave uses the first snapshot"
    assert channel(make_payloads().build(make_spec()).payload, "code") != uri


def test_a_directory_that_cannot_be_uploaded_is_looked_at_once(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write
) -> None:
    link = write({"train.py": ""}) / "gone"
    link.symlink_to("nowhere")
    payloads = make_payloads()
    for removed in (False, True):
        if removed:
            link.unlink()
        with pytest.raises(UsageError, match="a symbolic link that leads nowhere") as caught:
            payloads.build(make_spec())
        assert caught.value.hint == "remove the link, or make its target"


def test_a_packed_source_is_unpacked_by_the_sdks_script(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write
) -> None:
    (write({"tool": "#!/bin/sh\n"}) / "tool").chmod(0o755)
    built = make_payloads().build(make_spec())
    uri = channel(built.payload, "code")
    (script,) = [u.body.decode() for u in built.uploads if u.s3_uri.endswith("/sm_train.sh")]
    assert f"tar -xzf {uri.rpartition('/')[2]} \n" in script


def test_c14_what_is_uploaded_and_what_is_left_out_is_told(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write
) -> None:
    root = write({".gitignore": "*.ckpt\n", "m.ckpt": "", ".env": ""})
    built = make_payloads().build(make_spec())
    assert built.source == SourceSummary(
        str(root),
        channel(built.payload, "code"),
        files=2,
        size=len("print(1)\n"),
        left_out=(
            LeftOut(".env", "never source: .env"),
            LeftOut(".gitignore", "never source: .gitignore"),
            LeftOut("m.ckpt", ".gitignore:1"),
        ),
    )
    assert make_payloads().build(make_spec(source_dir=None, entry=None)).source is None


def test_different_sources_never_share_a_uri(make_payloads: MakePayloads, make_spec: MakeSpec, tmp_path: Path) -> None:
    payloads = make_payloads()
    bodies: dict[str, bytes] = {}
    for text in ("one", "two"):
        source = tmp_path / text
        source.mkdir()
        (source / "train.py").write_text(text)
        built = payloads.build(make_spec(source_dir=source))
        uri = f"{channel(built.payload, 'code')}train.py"
        bodies |= {u.s3_uri: u.body for u in built.uploads if u.s3_uri == uri}
    assert list(bodies.values()) == [b"one", b"two"]


def test_c14_secrets_beside_the_script_are_not_uploaded(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write
) -> None:
    write({".env": "SECRET=hunter2", ".git/config": "hunter2"})
    assert not [u for u in make_payloads().build(make_spec()).uploads if b"hunter2" in u.body]


def test_c20_no_limit_given_is_a_day_and_said(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    built = make_payloads().build(make_spec(max_runtime=None))
    assert built.payload["StoppingCondition"] == {"MaxRuntimeInSeconds": 86400}
    assert built.warnings == (
        "no max_runtime given: the job may run for 24h (86400 s), SageMaker's own default; "
        "set max_runtime to change it",
    )


def test_c20_a_limit_that_was_given_is_kept_and_not_talked_about(
    make_payloads: MakePayloads, make_spec: MakeSpec
) -> None:
    hours = make_payloads().build(make_spec(max_runtime=21600))
    assert (hours.payload["StoppingCondition"], hours.warnings) == ({"MaxRuntimeInSeconds": 21600}, ())
    raw = make_payloads().build(
        make_spec(max_runtime=None, training_job={"StoppingCondition": {"MaxRuntimeInSeconds": 3600}})
    )
    assert (raw.payload["StoppingCondition"], raw.warnings) == ({"MaxRuntimeInSeconds": 3600}, ())


def test_secrets_are_in_the_payload_and_their_names_beside_it(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    built = make_payloads(environ={"HF_TOKEN": "hf_1", "LOGIN": "me"}).build(
        make_spec(environment={"A": "1", "HF_TOKEN": SecretRef("HF_TOKEN"), "DB_LOGIN": SecretRef("LOGIN")})
    )
    assert built.payload["Environment"] == {"A": "1", "HF_TOKEN": "hf_1", "DB_LOGIN": "me"}
    assert built.secret_environment == ("HF_TOKEN", "DB_LOGIN")
    assert [text.split(":")[0] for text in built.warnings] == ["environment DB_LOGIN"]


def test_raw_fields_win_and_tags_among_them_join_the_tags(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    built = make_payloads().build(
        make_spec(
            tags={"owner": "me"},
            checkpoint="s3://b/c/",
            training_job={
                "EnableManagedSpotTraining": True,
                "Tags": [{"Key": "raw", "Value": "1"}],
                "CheckpointConfig": None,
                "OutputDataConfig": {"S3OutputPath": "s3://elsewhere/"},
            },
        )
    )
    assert built.payload["EnableManagedSpotTraining"] is True
    assert built.payload["OutputDataConfig"] == {"S3OutputPath": "s3://elsewhere/", "CompressionType": "GZIP"}
    assert "CheckpointConfig" not in built.payload
    assert "Tags" not in built.payload
    assert built.tags == {"raw": "1", "owner": "me"}


def test_an_algorithm_without_source_has_no_drivers(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    built = make_payloads().build(make_spec(source_dir=None, entry=None, hyperparameters={"a.b": "it's"}))
    assert built.uploads == ()
    assert built.payload["HyperParameters"] == {"a.b": "it's"}
    assert "ContainerEntrypoint" not in built.payload["AlgorithmSpecification"]


def test_a_local_input_is_recorded_and_a_missing_one_told(
    make_payloads: MakePayloads, make_spec: MakeSpec, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.csv").write_text("1")
    built = make_payloads().build(make_spec(inputs={"train": str(tmp_path / "data")}))
    uri = channel(built.payload, "train")
    assert uri.startswith("s3://team-bucket/fairshare/input/")
    assert f"{uri}x.csv" in [upload.s3_uri for upload in built.uploads]
    with pytest.raises(UsageError) as caught:
        make_payloads().build(make_spec(inputs={"train": "/no/such"}))
    assert caught.value.message == (
        "the SageMaker SDK refuses the job: Not a valid S3 URI or local file path: /no/such."
    )


def test_types_with_a_local_disk_get_no_key_for_the_volume(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    built = make_payloads().build(make_spec(instance_type="ml.g6.12xlarge", network={"kms_key": "alias/ml"}))
    assert "VolumeKmsKeyId" not in built.payload["ResourceConfig"]
    assert built.payload["OutputDataConfig"]["KmsKeyId"] == "alias/ml"
    assert "VpcConfig" not in built.payload


def test_mpi_and_its_options_reach_the_drivers(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    built = make_payloads().build(make_spec(launcher={"mpi": {"mpi_additional_options": ["-x", "A=1"]}}))
    (distributed,) = [u.body for u in built.uploads if u.s3_uri.endswith("/distributed.json")]
    assert json.loads(distributed) == {"process_count_per_node": None, "mpi_additional_options": ["-x", "A=1"]}


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"launcher": {"ray": {}}}, InfeasibleError, "the launcher ray is not supported yet"),
        ({"launcher": {"slurm": {}}}, UsageError, "there is no launcher slurm"),
        (
            {"launcher": {"torchrun": {"processes": 2}}},
            UsageError,
            "the SageMaker SDK refuses the job: processes: Extra inputs are not permitted",
        ),
        ({"hyperparameters": {"note": "it's"}}, InfeasibleError, "hyperparameter note: its value holds a '"),
        ({"hyperparameters": {"lr": float("nan")}}, UsageError, "hyperparameter lr is nan"),
        ({"training_job": {"X": float("inf")}}, UsageError, "the training request cannot be written as JSON"),
        ({"training_job": {"TrainingJobName": "x"}}, UsageError, "training_job.TrainingJobName: Batch makes this name"),
        ({"entry": "trian.py"}, UsageError, "entry trian.py is not in "),
        ({"requirements": "reqs.txt"}, UsageError, "requirements reqs.txt is not in "),
        ({"image": None}, UsageError, "no training image"),
        ({"instance_type": None}, UsageError, "no instance type"),
        ({"entry": None}, UsageError, "a source directory without an entry script"),
        ({"source_dir": None}, UsageError, "an entry script or requirements without their directory"),
        ({"role": None}, UsageError, "no role for the training job"),
        ({"environment": {"T": SecretRef("GONE")}}, UsageError, "environment T: the variable GONE is not set here"),
    ],
)
def test_what_is_wrong_is_told_by_field(
    make_payloads: MakePayloads,
    make_spec: MakeSpec,
    fields: dict[str, Any],
    kind: type[UsageError],
    message: str,
) -> None:
    with pytest.raises(kind) as caught:
        make_payloads().build(make_spec(**fields))
    assert caught.value.message.startswith(message)
    assert "digits" not in caught.value.message, "jobs of a sweep share the message of a shared mistake"
    assert caught.value.hint


def test_a_misspelt_or_ignored_entry_is_explained(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write
) -> None:
    with pytest.raises(UsageError) as caught:
        make_payloads().build(make_spec(entry="trian.py"))
    assert caught.value.hint == "did you mean train.py?"
    write({".env.py": ""})
    with pytest.raises(UsageError, match=r"entry .env.py is not in .*src; it is left out \(never source: .env.\*\)"):
        make_payloads().build(make_spec(entry=".env.py"))


def test_c15_a_link_to_credentials_stops_the_build(
    make_payloads: MakePayloads, make_spec: MakeSpec, write: Write, tmp_path: Path
) -> None:
    (tmp_path / "credentials").write_text("aws_secret_access_key")
    (write({"train.py": ""}) / "notes.txt").symlink_to(tmp_path / "credentials")
    with pytest.raises(UsageError, match="outside of the source directory"):
        make_payloads().build(make_spec())


@pytest.mark.parametrize(
    ("role", "region", "arn"),
    [
        ("MLTraining", "us-west-2", "arn:aws:iam::111122223333:role/MLTraining"),
        ("service-role/ML", "cn-north-1", "arn:aws-cn:iam::111122223333:role/service-role/ML"),
        ("/team/ML", "us-gov-west-1", "arn:aws-us-gov:iam::111122223333:role/team/ML"),
        ("arn:aws:iam::444455556666:role/Theirs", "us-west-2", "arn:aws:iam::444455556666:role/Theirs"),
    ],
)
def test_a_role_is_a_name_or_an_arn(role: str, region: str, arn: str) -> None:
    assert role_arn(role, region=region, account_id="111122223333") == arn


def test_the_sdks_configuration_file_fills_in_what_a_job_leaves_out(
    make_payloads: MakePayloads, make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "SchemaVersion: '1.0'\n"
        "SageMaker:\n"
        "  TrainingJob:\n"
        "    RoleArn: arn:aws:iam::111122223333:role/FromConfig\n"
        "    Environment: {FROM_CONFIG: '1'}\n"
    )
    monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", str(file))
    built = make_payloads().build(make_spec(role=None))
    assert built.payload["RoleArn"] == "arn:aws:iam::111122223333:role/FromConfig"
    assert built.payload["Environment"] == {"FROM_CONFIG": "1"}
    assert make_payloads().build(make_spec()).payload["RoleArn"].endswith("role/MLTraining")


def test_upload_is_handed_on(make_payloads: MakePayloads) -> None:
    sent: list[Upload] = []
    payloads = make_payloads(put_missing=lambda uploads: sent.extend(uploads) or 1)
    upload = Upload("s3://b/k", b"x", "source k")
    assert payloads.upload([upload]) == 1
    assert sent == [upload]


def test_nothing_is_left_in_the_temporary_directory(
    make_payloads: MakePayloads, make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    make_payloads().build(make_spec())
    assert list(scratch.iterdir()) == []


def test_the_sdk_builder_is_told_nothing_about_the_time(
    make_payloads: MakePayloads, make_spec: MakeSpec, sdk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_payloads().build(make_spec()).payload
    monkeypatch.setattr("sagemaker.train.model_trainer._get_unique_name", lambda base: f"{base}-20990101000000")
    assert make_payloads().build(make_spec()).payload == first


def test_metrics_become_metric_definitions(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    algorithm = make_payloads().build(make_spec(metrics={"loss": r"loss (\S+)"})).payload["AlgorithmSpecification"]

    assert algorithm["MetricDefinitions"] == [{"Name": "loss", "Regex": r"loss (\S+)"}]
    assert "MetricDefinitions" not in make_payloads().build(make_spec()).payload["AlgorithmSpecification"]
