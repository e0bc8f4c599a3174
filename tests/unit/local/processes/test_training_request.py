from __future__ import annotations

from typing import Any

import pytest

from fairshare.local.processes.training_request import (
    Channel,
    Checkpoint,
    RefusalError,
    S3Location,
    TrainingRequest,
    read_request,
)


def body(**fields: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "digits",
        "AlgorithmSpecification": {"ContainerEntrypoint": ["/bin/bash"], "ContainerArguments": ["-c", "true"]},
        "OutputDataConfig": {"S3OutputPath": "s3://b/out/"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        **fields,
    }


def channel(name: str = "train", **fields: Any) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": "s3://b/in", **fields}}}


def reason(**fields: Any) -> str:
    with pytest.raises(RefusalError) as caught:
        read_request("AWSBatchdigits", body(**fields))
    return str(caught.value)


def test_a_request_is_read() -> None:
    request = read_request(
        "AWSBatchdigits",
        body(
            HyperParameters={"lr": "0.1"},
            Environment={"A": "b"},
            InputDataConfig=[channel() | {"ContentType": "text/csv"}],
            CheckpointConfig={"S3Uri": "s3://b/ck", "LocalPath": "/opt/ml/state/"},
            StoppingCondition={"MaxRuntimeInSeconds": 60},
        ),
    )
    assert request == TrainingRequest(
        name="AWSBatchdigits",
        command=("/bin/bash", "-c", "true"),
        channels=(Channel("train", S3Location("b", "in"), "text/csv"),),
        hyperparameters={"lr": "0.1"},
        environment={"A": "b"},
        output=S3Location("b", "out/AWSBatchdigits/output"),
        compress_model=True,
        checkpoint=Checkpoint(S3Location("b", "ck"), "/opt/ml/state"),
        max_runtime_seconds=60,
        instance_type="ml.m5.large",
    )
    assert not request.uses_sdk_drivers


def test_what_is_not_said_has_sagemakers_defaults() -> None:
    request = read_request("j", body(CheckpointConfig={"S3Uri": "s3://b"}))
    assert request.max_runtime_seconds == 86_400
    assert request.checkpoint == Checkpoint(S3Location("b", ""), "/opt/ml/checkpoints")
    assert (request.channels, request.environment, request.hyperparameters) == ((), {}, {})


def test_locations_join_without_doubled_slashes() -> None:
    assert S3Location("b", "").join("x", "y").uri == "s3://b/x/y"
    assert S3Location("b", "a/").join("x").uri == "s3://b/a/x"


@pytest.mark.parametrize("name", ["../../etc", "", "-a", "a_b", "a" * 64, "a b", "a\n"])
def test_a_name_that_is_no_training_job_name_is_refused(name: str) -> None:
    with pytest.raises(RefusalError, match=r"^ValidationException: TrainingJobName .* must match \[a-zA-Z0-9\]"):
        read_request(name, body())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"AlgorithmSpecification": {"TrainingImage": "xgboost"}},
            "ClientError: the request has no ContainerEntrypoint: it would run what is inside the training image, and "
            "this machine runs processes, not images. Give ModelTrainer a SourceCode, or run this job in the cloud.",
        ),
        (
            {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2}},
            "ClientError: this machine runs one host per training job, and ResourceConfig asks for 2. "
            "Use InstanceCount 1 here (torchrun or MPI start several processes on one host).",
        ),
        (
            {"ResourceConfig": {"InstanceGroups": [{"InstanceCount": 1}, {"InstanceCount": 3}]}},
            "ClientError: this machine runs one host per training job, and ResourceConfig asks for 4. "
            "Use InstanceCount 1 here (torchrun or MPI start several processes on one host).",
        ),
        (
            {"InputDataConfig": [channel(S3DataType="ManifestFile")]},
            "ValidationException: channel 'train' has S3DataType ManifestFile; the local AWS reads S3Prefix only. "
            "Give the objects a common prefix, or run this job in the cloud.",
        ),
        (
            {"InputDataConfig": [{"ChannelName": "train", "DataSource": {"FileSystemDataSource": {}}}]},
            "ClientError: channel 'train' reads FileSystemDataSource; the local AWS has S3 only. Copy the data to S3.",
        ),
        (
            {"InputDataConfig": [channel() | {"InputMode": "Pipe"}]},
            "ClientError: channel 'train' uses Pipe mode; the local AWS copies files. Use InputMode File.",
        ),
        (
            {"InputDataConfig": [channel() | {"RecordWrapperType": "RecordIO"}]},
            "ClientError: channel 'train' wants RecordIO, which the local AWS does not make. Use None.",
        ),
        (
            {"InputDataConfig": [channel("..")]},
            "ValidationException: channel name '..' must match [A-Za-z0-9._-]+.",
        ),
        (
            {"InputDataConfig": [channel(S3Uri="/data")]},
            "ValidationException: S3Uri of channel 'train' is '/data', not an S3 URI. Write it as s3://bucket/prefix.",
        ),
        (
            {"OutputDataConfig": {}},
            "ValidationException: OutputDataConfig.S3OutputPath is None, not an S3 URI. Write it as s3://bucket/prefix.",
        ),
        (
            {"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": "/tmp/c"}},
            "ClientError: CheckpointConfig.LocalPath is '/tmp/c'; on this machine a job owns /opt/ml only. "
            "Use /opt/ml/checkpoints.",
        ),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 0}},
            "ValidationException: StoppingCondition.MaxRuntimeInSeconds is 0, not a whole number of seconds from 1.",
        ),
    ],
)
def test_what_cannot_run_here_is_refused_with_a_reason_and_a_way_out(fields: dict[str, Any], expected: str) -> None:
    assert reason(**fields) == expected


def test_the_pipe_mode_of_the_algorithm_counts_for_channels_that_say_nothing() -> None:
    algorithm = {**body()["AlgorithmSpecification"], "TrainingInputMode": "Pipe"}
    assert "uses Pipe mode" in reason(AlgorithmSpecification=algorithm, InputDataConfig=[channel()])
    read_request("j", body(AlgorithmSpecification=algorithm, InputDataConfig=[channel() | {"InputMode": "File"}]))


def test_a_path_out_of_the_jobs_directory_is_refused() -> None:
    checkpoint = {"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/../../etc"}
    assert "a job owns /opt/ml only" in reason(CheckpointConfig=checkpoint)


SDK = [channel("sm_drivers")]


def test_a_quote_in_a_hyperparameter_is_refused_because_it_breaks_the_sdks_script() -> None:
    assert reason(InputDataConfig=SDK, HyperParameters={"note": "it's"}) == (
        "ValidationException: hyperparameter 'note' contains a single quote, which breaks the start script of "
        "SageMaker's SDK (unexpected EOF while looking for matching `''). Take it out, or put the value into a file."
    )


@pytest.mark.parametrize("name", ["model.lr", "a b", "naïve"])
def test_a_hyperparameter_name_that_is_no_shell_name_is_refused(name: str) -> None:
    assert reason(InputDataConfig=SDK, HyperParameters={name: "1"}) == (
        f"ValidationException: the name of hyperparameter {name!r} becomes part of a shell variable in the start "
        "script of SageMaker's SDK. Use letters, digits, '_' and '-' only."
    )


def test_a_channel_name_that_is_no_shell_name_is_refused() -> None:
    assert reason(InputDataConfig=[*SDK, channel("my-data")]) == (
        "ValidationException: the name of channel 'my-data' becomes part of a shell variable in the start script of "
        "SageMaker's SDK. Use letters, digits and '_' only."
    )


def test_without_the_sdks_drivers_quotes_and_dots_are_fine() -> None:
    request = read_request("j", body(InputDataConfig=[channel("my-data")], HyperParameters={"model.lr": "it's"}))
    assert request.hyperparameters == {"model.lr": "it's"}


def test_the_sdk_accepts_dashes_and_double_quotes() -> None:
    request = read_request("j", body(InputDataConfig=SDK, HyperParameters={"model-dir": 'say "hi"'}))
    assert request.uses_sdk_drivers
