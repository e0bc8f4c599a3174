"""A CreateTrainingJob request, read for running on this machine.

What cannot run here, or would break SageMaker's own scripts later, is refused before anything starts, with a reason
that says which field, why, and what to do. Field meanings:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

SDK_CHANNEL: Final = "sm_drivers"
"""The channel in which SageMaker's SDK sends its start script and drivers."""

CODE_CHANNEL: Final = "code"
"""The channel in which SageMaker's SDK sends the user's source directory."""

DEFAULT_CHECKPOINT_PATH: Final = "/opt/ml/checkpoints"
DEFAULT_MAX_RUNTIME_SECONDS: Final = 86_400

_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_CHANNEL_NAME = re.compile(r"[A-Za-z0-9._-]+")
_SHELL_SUFFIX = re.compile(r"\w+", re.ASCII)


class RefusalError(Exception):
    """The attempt cannot run. The text is the whole failure reason, with SageMaker's prefix."""


@dataclass(frozen=True)
class S3Location:
    """A bucket and a key prefix (without a leading slash)."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, uri: Any, field: str) -> S3Location:
        """Read ``s3://bucket/key``. Raises RefusalError naming ``field``."""
        match = re.fullmatch(r"s3://([^/]+)/?(.*)", uri if isinstance(uri, str) else "", re.DOTALL)
        if match is None:
            raise _invalid(f"{field} is {uri!r}, not an S3 URI. Write it as s3://bucket/prefix.")
        return cls(match[1], match[2])

    def join(self, *parts: str) -> S3Location:
        """Return the location below this one."""
        return S3Location(self.bucket, "/".join(part for part in (self.key.rstrip("/"), *parts) if part))

    @property
    def uri(self) -> str:
        """``s3://bucket/key``."""
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class Channel:
    """One entry of ``InputDataConfig``: objects that are copied to ``/opt/ml/input/data/<name>``."""

    name: str
    source: S3Location
    content_type: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """``CheckpointConfig``: a directory of the container that is kept in S3."""

    location: S3Location
    path: str = DEFAULT_CHECKPOINT_PATH


@dataclass(frozen=True)
class TrainingRequest:
    """What the process launcher needs of a CreateTrainingJob request. Paths are the container's (``/opt/ml/...``)."""

    name: str
    command: tuple[str, ...]
    """``ContainerEntrypoint`` followed by ``ContainerArguments``."""
    channels: tuple[Channel, ...]
    hyperparameters: Mapping[str, str]
    environment: Mapping[str, str]
    output: S3Location
    """Where this job's artefacts go: ``<S3OutputPath>/<name>/output``."""
    compress_model: bool
    checkpoint: Checkpoint | None
    max_runtime_seconds: int
    instance_type: str
    volume_bytes: int | None = None
    """``VolumeSizeInGB``; None = not given."""
    metric_definitions: tuple[Mapping[str, Any], ...] = ()
    """``MetricDefinitions`` as they are written, see `fairshare.local.processes.final_metrics`."""

    @property
    def uses_sdk_drivers(self) -> bool:
        """Whether SageMaker's SDK made this request (its start script runs the user's code)."""
        return any(channel.name == SDK_CHANNEL for channel in self.channels)


def read_request(name: str, body: Mapping[str, Any]) -> TrainingRequest:
    """Read a CreateTrainingJob request.

    Args:
        name: name of the training job; it overrides the body's ``TrainingJobName``.
        body: the request, keys in PascalCase.

    Raises:
        RefusalError: the request is wrong, or needs what a process on one machine cannot give.
    """
    if _JOB_NAME.fullmatch(name) is None:
        raise _invalid(f"TrainingJobName {name!r} must match {_JOB_NAME.pattern}.")
    algorithm = body.get("AlgorithmSpecification") or {}
    output = body.get("OutputDataConfig") or {}
    request = TrainingRequest(
        name=name,
        command=_command(algorithm),
        channels=tuple(_channels(body.get("InputDataConfig") or (), algorithm.get("TrainingInputMode", "File"))),
        hyperparameters=_strings(body.get("HyperParameters")),
        environment=_strings(body.get("Environment")),
        output=S3Location.parse(output.get("S3OutputPath"), "OutputDataConfig.S3OutputPath").join(name, "output"),
        compress_model=output.get("CompressionType", "GZIP") != "NONE",
        checkpoint=_checkpoint(body.get("CheckpointConfig")),
        max_runtime_seconds=_max_runtime(body.get("StoppingCondition") or {}),
        instance_type=_instance_type(body.get("ResourceConfig") or {}),
        volume_bytes=_volume_bytes(body.get("ResourceConfig") or {}),
        metric_definitions=tuple(algorithm.get("MetricDefinitions") or ()),
    )
    if request.uses_sdk_drivers:
        _refuse_what_breaks_the_sdk_scripts(request)
    return request


def _invalid(problem: str) -> RefusalError:
    return RefusalError(f"ValidationException: {problem}")


def _unsupported(problem: str) -> RefusalError:
    return RefusalError(f"ClientError: {problem}")


def _strings(values: Mapping[str, Any] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (values or {}).items()}


def _command(algorithm: Mapping[str, Any]) -> tuple[str, ...]:
    entrypoint = algorithm.get("ContainerEntrypoint")
    if not entrypoint:
        raise _unsupported(
            "the request has no ContainerEntrypoint: it would run what is inside the training image, and this machine "
            "runs processes, not images. Give ModelTrainer a SourceCode, or run this job in the cloud."
        )
    return (*map(str, entrypoint), *map(str, algorithm.get("ContainerArguments") or ()))


def _channels(entries: Iterable[Mapping[str, Any]], default_mode: str) -> Iterable[Channel]:
    for entry in entries:
        name = str(entry.get("ChannelName", ""))
        if _CHANNEL_NAME.fullmatch(name) is None or set(name) == {"."}:
            raise _invalid(f"channel name {name!r} must match {_CHANNEL_NAME.pattern}.")
        mode = entry.get("InputMode") or default_mode
        if mode == "Pipe":
            raise _unsupported(f"channel {name!r} uses Pipe mode; the local AWS copies files. Use InputMode File.")
        if entry.get("RecordWrapperType") == "RecordIO":
            raise _unsupported(f"channel {name!r} wants RecordIO, which the local AWS does not make. Use None.")
        yield Channel(name, _channel_source(name, entry.get("DataSource") or {}), entry.get("ContentType"))


def _channel_source(name: str, data_source: Mapping[str, Any]) -> S3Location:
    source = data_source.get("S3DataSource")
    if source is None:
        kinds = ", ".join(sorted(data_source)) or "nothing"
        raise _unsupported(f"channel {name!r} reads {kinds}; the local AWS has S3 only. Copy the data to S3.")
    kind = source.get("S3DataType", "S3Prefix")
    if kind != "S3Prefix":
        raise _invalid(
            f"channel {name!r} has S3DataType {kind}; the local AWS reads S3Prefix only. Give the objects a common "
            "prefix, or run this job in the cloud."
        )
    return S3Location.parse(source.get("S3Uri"), f"S3Uri of channel {name!r}")


def _checkpoint(config: Mapping[str, Any] | None) -> Checkpoint | None:
    if not config:
        return None
    path = str(config.get("LocalPath") or DEFAULT_CHECKPOINT_PATH).rstrip("/")
    if not path.startswith("/opt/ml/") or ".." in path.split("/"):
        raise _unsupported(
            f"CheckpointConfig.LocalPath is {path!r}; on this machine a job owns /opt/ml only. "
            f"Use {DEFAULT_CHECKPOINT_PATH}."
        )
    return Checkpoint(S3Location.parse(config.get("S3Uri"), "CheckpointConfig.S3Uri"), path)


def _max_runtime(condition: Mapping[str, Any]) -> int:
    seconds = condition.get("MaxRuntimeInSeconds", DEFAULT_MAX_RUNTIME_SECONDS)
    if not isinstance(seconds, int) or seconds < 1:
        raise _invalid(f"StoppingCondition.MaxRuntimeInSeconds is {seconds!r}, not a whole number of seconds from 1.")
    return seconds


def _instance_type(resources: Mapping[str, Any]) -> str:
    groups = resources.get("InstanceGroups") or [resources]
    count = sum(group.get("InstanceCount", 1) for group in groups)
    if count != 1:
        raise _unsupported(
            f"this machine runs one host per training job, and ResourceConfig asks for {count}. "
            "Use InstanceCount 1 here (torchrun or MPI start several processes on one host)."
        )
    return str(groups[0].get("InstanceType", "local"))


def _volume_bytes(resources: Mapping[str, Any]) -> int | None:
    size = resources.get("VolumeSizeInGB")
    return size * 2**30 if isinstance(size, int) and size > 0 else None


def _refuse_what_breaks_the_sdk_scripts(request: TrainingRequest) -> None:
    """The SDK writes ``export SM_HP_<NAME>='<value>'`` into a file that bash reads.

    A quote in a value, or a name that is no shell identifier, makes bash fail there with neither a message nor a
    failure file (SDK 1.27: ``scripts/environment.py``), in the cloud as well.
    """
    for name, value in request.hyperparameters.items():
        if "'" in value:
            raise _invalid(
                f"hyperparameter {name!r} contains a single quote, which breaks the start script of SageMaker's SDK "
                "(unexpected EOF while looking for matching `''). Take it out, or put the value into a file."
            )
        if _SHELL_SUFFIX.fullmatch(name.replace("-", "_")) is None:
            raise _invalid(
                f"the name of hyperparameter {name!r} becomes part of a shell variable in the start script of "
                "SageMaker's SDK. Use letters, digits, '_' and '-' only."
            )
    for channel in request.channels:
        if _SHELL_SUFFIX.fullmatch(channel.name) is None:
            raise _invalid(
                f"the name of channel {channel.name!r} becomes part of a shell variable in the start script of "
                "SageMaker's SDK. Use letters, digits and '_' only."
            )
