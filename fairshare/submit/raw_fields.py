"""``training_job``: raw fields of CreateTrainingJob, which are merged into the request as they are.

A misspelt field, or a number where SageMaker wants text, would come back as a FAILED job after the wait in the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from fairshare.config.errors import suggest
from fairshare.submit.report import Finding

_MAPS: Final = (
    "HyperParameters AlgorithmSpecification OutputDataConfig ResourceConfig VpcConfig StoppingCondition "
    "CheckpointConfig DebugHookConfig TensorBoardOutputConfig ExperimentConfig ProfilerConfig Environment "
    "RetryStrategy RemoteDebugConfig InfraCheckConfig SessionChainingConfig ServerlessJobConfig MlflowConfig "
    "ModelPackageConfig"
)
_LISTS: Final = "InputDataConfig Tags DebugRuleConfigurations ProfilerRuleConfigurations"
_TEXTS: Final = "TrainingJobName RoleArn"
_SWITCHES: Final = "EnableNetworkIsolation EnableInterContainerTrafficEncryption EnableManagedSpotTraining"

FIELDS: Final[Mapping[str, type]] = {
    **dict.fromkeys(_MAPS.split(), dict),
    **dict.fromkeys(_LISTS.split(), list),
    **dict.fromkeys(_TEXTS.split(), str),
    **dict.fromkeys(_SWITCHES.split(), bool),
}
"""Fields of CreateTrainingJob and what they hold; a contract test compares them with botocore's model.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
"""

REQUIRED: Final = ("RoleArn", "OutputDataConfig", "ResourceConfig", "AlgorithmSpecification")
"""Fields without which no job can run in a queue. AWS's model asks for the first two only: other kinds of training job
do without the others."""

_CALLED: Final = {dict: "a map", list: "a list", str: "text", bool: "true or false"}
_NUMBERS: Final = {
    "ResourceConfig": ("InstanceCount", "VolumeSizeInGB", "KeepAlivePeriodInSeconds"),
    "StoppingCondition": ("MaxRuntimeInSeconds", "MaxWaitTimeInSeconds", "MaxPendingTimeInSeconds"),
    "RetryStrategy": ("MaximumRetryAttempts",),
}
_LISTS_OF_MAPS: Final = ("InputDataConfig", "Tags")


def payload_findings(payload: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what is wrong with the shape of a whole request, and what it lacks. ``TrainingJobName`` is only a label."""
    for name in REQUIRED:
        if payload.get(name) is None:
            yield Finding(f"{name} is missing in the training request", (name,), "CreateTrainingJob needs it")
    for finding in raw_findings(payload):
        yield replace(finding, message=finding.message.removeprefix("training_job."), at=finding.at[1:])


def raw_findings(fields: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what is wrong with the shape of raw fields. A null takes a field away and is always right.

    A field that this version does not know may be newer than it, so it is a warning.
    """
    for name, value in fields.items():
        at = ("training_job", name)
        kind = FIELDS.get(name)
        if kind is None:
            guess = suggest(name, FIELDS)
            hint = f"did you mean {guess}?" if guess else "fields are spelt as in CreateTrainingJob: RoleArn"
            yield Finding(f"training_job.{name} is no field of CreateTrainingJob that we know", at, hint, "warning")
        elif value is not None and not isinstance(value, kind):
            yield Finding(f"training_job.{name} must be {_CALLED[kind]}", at)
        elif value is not None:
            yield from _inside(name, value, at)


def _inside(name: str, value: Any, at: tuple[str, ...]) -> Iterator[Finding]:
    if name in _LISTS_OF_MAPS and not all(isinstance(each, dict) for each in value):
        yield Finding(f"training_job.{name} must be a list of maps", at)
    elif name == "Tags" and not all(isinstance(each.get(part), str) for each in value for part in ("Key", "Value")):
        yield Finding("training_job.Tags must be a list of {Key: ..., Value: ...}", at, "or write them under tags:")
    for member in _NUMBERS.get(name, ()):
        number = value.get(member)
        if number is not None and type(number) is not int:
            yield Finding(f"training_job.{name}.{member} must be a whole number", at)
    if name == "ResourceConfig":
        groups = value.get("InstanceGroups")
        if groups is not None and not (isinstance(groups, list) and all(isinstance(each, dict) for each in groups)):
            yield Finding("training_job.ResourceConfig.InstanceGroups must be a list of maps", at)
