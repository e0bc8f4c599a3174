"""The ``ModelTrainer`` that a payload is built from: made of a job spec, or a twin of the user's own.

Building changes the object it builds from (it fills in defaults, prefixes and a temporary directory), so it is never
done on the user's. The source is handed to the SDK as the content-addressed URI it will have, never as a local path:
the SDK then neither copies it nor writes the path of this machine into the job's files.

Imports the SDK at its top, so it is imported only inside functions, under `fairshare.trainer.sdk.quiet_sdk`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sagemaker.core.common_utils import instance_supports_kms
from sagemaker.core.training.configs import (
    CheckpointConfig,
    Compute,
    InputData,
    MetricDefinition,
    Networking,
    OutputDataConfig,
    SourceCode,
    StoppingCondition,
    Tag,
)
from sagemaker.train.distributed import MPI, DistributedConfig, Torchrun
from sagemaker.train.model_trainer import Mode, ModelTrainer

from fairshare.config.jobs import JobSpec
from fairshare.model import InfeasibleError, UsageError
from fairshare.trainer.session import CheckedDefaults, RecordingSession

_LAUNCHERS: Mapping[str, type[Any]] = {"torchrun": Torchrun, "mpi": MPI}


def trainer_of(
    spec: JobSpec,
    session: RecordingSession,
    *,
    role: str,
    source_uri: str | None,
    max_runtime: int,
    environment: Mapping[str, str],
    hyperparameters: Mapping[str, str],
) -> Any:
    """Return a new ModelTrainer for a job spec, which is not changed.

    Args:
        spec: the job; ``image`` and ``instance_type`` are set.
        session: where uploads are recorded.
        role: ARN.
        source_uri: where the source will be; None without one.
        max_runtime: seconds.
        environment: variables with secrets filled in.
        hyperparameters: encoded.

    Raises:
        InfeasibleError: a launcher that there is not yet.
        UsageError: an unknown launcher.
    """
    source = {"source_dir": source_uri, "entry_script": spec.entry, "requirements": spec.requirements}
    trainer = ModelTrainer(
        sagemaker_session=session,
        config_mgr=CheckedDefaults(),
        role=role,
        base_job_name=spec.name,
        training_image=spec.image,
        source_code=SourceCode(**_given(source)) if source_uri is not None else None,
        distributed=_launcher_of(spec),
        compute=_compute_of(spec),
        networking=_networking_of(spec),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=max_runtime),
        input_data_config=[InputData(channel_name=name, data_source=at) for name, at in spec.inputs.items()],
        output_data_config=_output_of(spec, session.default_bucket()),
        checkpoint_config=CheckpointConfig(s3_uri=spec.checkpoint) if spec.checkpoint is not None else None,
        environment=dict(environment),
        hyperparameters=dict(hyperparameters),
        tags=[Tag(key=key, value=value) for key, value in spec.tags.items()] or None,
    )
    if spec.metrics:
        metrics = [MetricDefinition(name=name, regex=regex) for name, regex in spec.metrics.items()]
        return trainer.with_metric_definitions(metrics)
    return trainer


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was not said: the SDK tells "not given" from None."""
    return {name: value for name, value in values.items() if value is not None}


def kms_key_of(spec: JobSpec) -> str | None:
    """Return the key that encrypts the job's uploads, output and, where the instance type allows it, volume."""
    key: str | None = (spec.network or {}).get("kms_key")
    return key


def _compute_of(spec: JobSpec) -> Any:
    """Types with a local disk refuse a key for the volume: their disk is always encrypted.

    Source: VolumeKmsKeyId, https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html
    """
    return Compute(
        **_given(
            {
                "instance_type": spec.instance_type,
                "instance_count": spec.instance_count,
                "volume_size_in_gb": spec.volume_size_gb,
                "volume_kms_key_id": kms_key_of(spec) if instance_supports_kms(spec.instance_type) else None,
            }
        )
    )


def _networking_of(spec: JobSpec) -> Any:
    network = spec.network or {}
    vpc = _given({"subnets": network.get("subnets"), "security_group_ids": network.get("security_groups")})
    return Networking(**vpc) if vpc else None


def _output_of(spec: JobSpec, bucket: str) -> Any:
    """SageMaker adds the training job's name to the path, so that jobs share a prefix and not their output."""
    path = spec.output if spec.output is not None else f"s3://{bucket}/fairshare/output"
    return OutputDataConfig(**_given({"s3_output_path": path, "kms_key_id": kms_key_of(spec)}), compression_type="GZIP")


def _launcher_of(spec: JobSpec) -> Any:
    if not spec.launcher:
        return None
    name, options = next(iter(spec.launcher.items()))
    if name == "ray":
        raise InfeasibleError("the launcher ray is not supported yet", hint="use torchrun or mpi, or no launcher")
    if name not in _LAUNCHERS:
        raise UsageError(f"there is no launcher {name}", hint=f"use {' or '.join(_LAUNCHERS)}")
    return _LAUNCHERS[name](**(options or {}))


def launcher_options(trainer: Any) -> Mapping[str, Any]:
    """Return the options of a trainer's launcher; empty without one."""
    distributed: DistributedConfig | None = trainer.distributed
    return distributed.model_dump() if distributed is not None else {}


def check_usable(trainer: Any, what: str) -> None:
    """Refuse what is no ModelTrainer, or one that does not make SageMaker training jobs. ``what`` names it.

    Raises:
        UsageError: it is something else.
        InfeasibleError: it trains in Docker on this machine.
    """
    if not isinstance(trainer, ModelTrainer):
        raise UsageError(
            f"{what} must be a ModelTrainer, and is of type {type(trainer).__name__}",
            hint="give an object of sagemaker.train.ModelTrainer",
        )
    if trainer.training_mode is not Mode.SAGEMAKER_TRAINING_JOB:
        raise InfeasibleError(
            f"{what} has training_mode {trainer.training_mode.name}, and a queue runs SageMaker training jobs only",
            hint="remove training_mode; to run on this machine, use fairshare --local",
        )


@contextmanager
def twin_of(trainer: Any, session: RecordingSession) -> Iterator[Any]:
    """Yield a copy of a user's ModelTrainer that uses ``session`` and may be changed at will, within the block only.

    Nothing that the copy does reaches the original, except that both share the temporary directory of a recipe, which
    is only read: the copy must not remove it, as a ModelTrainer does when it goes.
    """
    twin = trainer.model_copy()
    own = {name: copy.deepcopy(value) for name, value in vars(twin).items() if name != "sagemaker_session"}
    vars(twin).update(own, sagemaker_session=session, config_mgr=CheckedDefaults())
    twin._tensorboard_output_config = copy.deepcopy(twin._tensorboard_output_config)
    twin._temp_code_dir = None
    try:
        yield twin
    finally:
        twin._temp_recipe_train_dir = None


_POINT: Final = frozenset({"hyperparameters", "environment"})
_UNUSED: Final = frozenset({"sagemaker_session", "config_mgr", "_latest_training_job", "_temp_code_dir"})
"""Fields that a twin does not take over, and those that no request is built from."""


def same_for_all_points(trainer: Any) -> Mapping[str, Any]:
    """Return what of a user's ModelTrainer its request is built from, other than what a point may vary.

    The values are the trainer's own; they may be compared and copied, not changed.
    """
    fields = {
        name: value
        for name, value in {**vars(trainer), **trainer.__pydantic_private__}.items()
        if name not in _POINT and name not in _UNUSED
    }
    if (checkpoint := trainer.checkpoint_config) is not None:
        fields["checkpoint_config"] = checkpoint.model_copy(update={"s3_uri": None})
    if (recipe := trainer._temp_recipe_train_dir) is not None:  # a copy of it would remove the directory
        fields["_temp_recipe_train_dir"] = recipe.name
    return fields


def has_sdk_limit(trainer: Any) -> bool:
    """Whether the run-time limit is the SDK's, not the user's (case C20).

    The SDK fills in 3600 s at construction. It then says None to the other two conditions, which a user leaves out; a
    condition of the user's without a limit stays without one.
    """
    condition = trainer.stopping_condition
    limit = condition.max_runtime_in_seconds
    return not isinstance(limit, int) or (limit == 3600 and condition.max_pending_time_in_seconds is None)
