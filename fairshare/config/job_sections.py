"""How a job file is written (DESIGN section 3): its keys, and what stands behind each.

`fairshare.config.job_file` turns these sections into `fairshare.config.jobs`. Every short form is read here.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, model_validator

from fairshare.config.errors import WrongValue, did_you_mean
from fairshare.config.fields import (
    Cpu,
    Hyperparameter,
    Instances,
    InstanceType,
    NotEmpty,
    Rate,
    Seconds,
    Size,
    Tags,
    Text,
    TypedValue,
    Whole,
    kind_of,
    one_of,
    read_text_value,
    read_value,
)
from fairshare.config.jobs import LaunchPeak, Resources, SecretRef, When
from fairshare.config.sections import Section
from fairshare.config.sweeps import MAX_POINTS, Sweep, read_sweep
from fairshare.config.wave_sections import LimitsSection, Waves
from fairshare.config.yaml_source import Scalar
from fairshare.model import MAX_PRIORITY

MAX_ATTEMPTS: Final = 10
"""https://docs.aws.amazon.com/batch/latest/APIReference/API_ServiceJobRetryStrategy.html"""

MAX_METRICS: Final = 40
MAX_METRIC_NAME: Final = 255
MAX_METRIC_REGEX: Final = 500
"""https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricDefinition.html (characters), and
API_AlgorithmSpecification.html (metrics of a job)."""

LAUNCHERS: Final = ("torchrun", "mpi", "ray")


class SourceSection(Section):
    """The code of a job. ``entry`` and ``requirements`` are relative to ``dir``, and ``dir`` to the job file."""

    example: ClassVar = "{dir: src, entry: train.py}"

    dir: Text = "."
    entry: Text
    requirements: Text | None = None


class ComputeSection(Section):
    """The instances of a job."""

    example: ClassVar = "{instance_type: ml.g6.12xlarge, instance_count: 1}"

    instance_type: InstanceType | None = None
    instance_count: Instances = 1
    volume_size_gb: Whole | None = Field(default=None, ge=1)


class NetworkSection(Section):
    """The network of a job and the key that encrypts its volumes and output."""

    example: ClassVar = "{subnets: [subnet-1], security_groups: [sg-1]}"

    subnets: tuple[Text, ...] = ()
    security_groups: tuple[Text, ...] = ()
    kms_key: Text | None = None


def _script_as_source(value: object) -> object:
    """``src/train.py`` is short for ``{dir: src, entry: train.py}``."""
    if not isinstance(value, Scalar) or value.is_null:
        return value
    script = PurePosixPath(value.text)
    if script.suffix not in (".py", ".sh"):
        raise WrongValue(f"must be a script (.py or .sh), not {value}", hint="or write {dir: src, entry: train.py}")
    return {"dir": str(script.parent), "entry": script.name}


def _read_launcher(value: object) -> dict[str, Any]:
    """``torchrun`` is short for ``{torchrun: {}}``."""
    launchers = {value.text: {}} if isinstance(value, Scalar) and not value.is_null else value
    if not isinstance(launchers, dict) or len(launchers) != 1:
        found = " and ".join(launchers) if isinstance(launchers, dict) and launchers else kind_of(value)
        raise WrongValue(f"must be one of torchrun, mpi or ray, not {found}", hint="write {torchrun: {}}")
    (name, options), *_ = launchers.items()
    if name not in LAUNCHERS:
        raise WrongValue(f'unknown launcher "{name}"', hint=did_you_mean(name, LAUNCHERS, "launchers"))
    plain = read_value(options)
    if not isinstance(plain, dict | None):
        raise WrongValue(f"the options of {name} must be a mapping, not {kind_of(options)}")
    return {name: plain or {}}


def _read_environment_value(value: object) -> str | SecretRef:
    if not isinstance(value, dict):
        return read_text_value(value)
    if len(value) != 1 or not value.keys() <= {"from_env", "from_file"}:
        keys = ", ".join(value) or "nothing"
        raise WrongValue(f"must have either from_env or from_file, not {keys}", hint="write {from_env: HF_TOKEN}")
    ((key, source),) = value.items()
    name = read_text_value(source)
    if not name:
        raise WrongValue(f"{key} must not be empty")
    return SecretRef(**{key: name})


def _read_metric(value: object) -> str:
    """The regular expression that finds a metric in a line of the log."""
    text = read_text_value(value)
    if len(text) > MAX_METRIC_REGEX:
        raise WrongValue(f"has {len(text)} characters, SageMaker takes {MAX_METRIC_REGEX}")
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise WrongValue(f"is no regular expression: {error}", hint="write 'accuracy ([0-9.]+)'") from None
    if groups == 0:
        raise WrongValue("has no group for the value", hint="put the number in parentheses: 'accuracy ([0-9.]+)'")
    return text


def _check_number_of_metrics(metrics: dict[str, str]) -> dict[str, str]:
    if too_long := next((name for name in metrics if len(name) > MAX_METRIC_NAME), None):
        raise WrongValue(f"has a name of {len(too_long)} characters, SageMaker takes {MAX_METRIC_NAME}")
    if len(metrics) > MAX_METRICS:
        raise WrongValue(f"has {len(metrics)} metrics, SageMaker takes {MAX_METRICS}")
    return metrics


def _name_as_dependency(value: object) -> object:
    """``prepare`` is short for ``{job: prepare}``."""
    return {"job": value} if isinstance(value, Scalar) and not value.is_null else value


def _one_as_list(value: object) -> object:
    """A single item may be written without the list around it."""
    return [value] if isinstance(value, dict) or (isinstance(value, Scalar) and not value.is_null) else value


class DependencySection(Section):
    """A job of the same file that must have ended, and how."""

    example: ClassVar = "{job: prepare, when: ok}"

    job: Text
    when: Annotated[When, PlainValidator(one_of("ok", "any", "failed"))] = "ok"


class LaunchPeakSection(Section):
    """What a job takes while it starts."""

    example: ClassVar = "{memory: 6GiB, read: 200MiB/s, for: 90s}"

    memory: Size | None = Field(default=None, ge=1)
    read: Rate | None = Field(default=None, ge=1)
    seconds: Seconds | None = Field(default=None, ge=1, alias="for")


class ResourcesSection(Section):
    """What a job takes of one machine."""

    example: ClassVar = "{cpu: 2, memory: 4GiB, launch_peak: {memory: 6GiB, for: 90s}}"

    cpu: Cpu | None = None
    memory: Size | None = Field(default=None, ge=1)
    launch_peak: LaunchPeakSection | None = None

    def to_resources(self) -> Resources:
        """Return the resources."""
        peak = self.launch_peak
        launch_peak = None if peak is None else LaunchPeak(peak.memory, peak.read, peak.seconds)
        return Resources(self.cpu, self.memory, launch_peak)


class RetrySection(Section):
    """How often Batch runs a job, and after which endings it tries again; how often it may be preempted."""

    example: ClassVar = "{attempts: 3}"

    attempts: Whole = Field(default=2, ge=1, le=MAX_ATTEMPTS)
    on: Annotated[tuple[Text, ...], NotEmpty, BeforeValidator(_one_as_list)] | None = None
    preemption_retries: Whole | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check_effect(self) -> RetrySection:
        if self.on is not None and self.attempts == 1:
            raise WrongValue("has no effect with one attempt", hint="raise attempts or remove it", at=("on",))
        return self


class JobSection(Section):
    """One job, or many while it has a ``sweep`` or an ``array``."""

    example: ClassVar = "{name: digits, source: train.py}"

    name: Text
    source: Annotated[SourceSection, BeforeValidator(_script_as_source)] | None = None
    compute: ComputeSection = Field(default_factory=ComputeSection)
    launcher: Annotated[dict[str, Any], PlainValidator(_read_launcher)] | None = None
    queue: Text | None = None
    queues: Annotated[tuple[Text, ...], NotEmpty] | None = None
    fallback_after: Seconds | None = Field(default=None, ge=1)
    share: Text | None = None
    quota_share: Text | None = None
    priority: Whole | None = Field(default=None, ge=0, le=MAX_PRIORITY)
    role: Text | None = None
    image: Text | None = None
    max_runtime: Seconds | None = Field(default=None, ge=1)
    inputs: dict[Text, Text] = Field(default_factory=dict)
    output: Text | None = None
    checkpoint: Text | None = None
    network: NetworkSection | None = None
    hyperparameters: dict[Text, Hyperparameter] = Field(default_factory=dict)
    environment: dict[Text, Annotated[str | SecretRef, PlainValidator(_read_environment_value)]] = Field(
        default_factory=dict
    )
    metrics: Annotated[
        dict[Text, Annotated[str, PlainValidator(_read_metric)]], AfterValidator(_check_number_of_metrics)
    ] = Field(default_factory=dict)
    tags: Tags = Field(default_factory=dict)
    sweep: Annotated[Sweep, PlainValidator(read_sweep)] | None = None
    array: Whole | None = Field(default=None, ge=1, le=MAX_POINTS)
    after: Annotated[
        tuple[Annotated[DependencySection, BeforeValidator(_name_as_dependency)], ...], BeforeValidator(_one_as_list)
    ] = ()
    retry: RetrySection | None = None
    resources: ResourcesSection = Field(default_factory=ResourcesSection)
    training_job: dict[Text, TypedValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_queues(self) -> JobSection:
        queues = self.queues or ()
        if queues and self.queue is not None:
            raise WrongValue("is beside queue", hint="write queues alone: they are tried in order", at=("queues",))
        for index, queue in enumerate(queues):
            if queue in queues[:index]:
                raise WrongValue(f"{queue} is in the list already", hint="remove one of the two", at=("queues", index))
        if self.fallback_after is not None and len(queues) < 2:
            hint = "write queues: [first, second], or remove it"
            raise WrongValue("has no effect without a second queue", hint=hint, at=("fallback_after",))
        return self


class JobFileSection(Section):
    """The whole of a job file."""

    example: ClassVar = "jobs: [{name: digits, source: train.py}]"

    jobs: Annotated[tuple[JobSection, ...], NotEmpty]
    waves: Waves | None = None
    limits: LimitsSection = Field(default_factory=LimitsSection)
    max_in_flight: Whole | None = Field(default=None, ge=1)
