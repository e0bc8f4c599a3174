"""The limits that are checked before a submission are those of botocore's models."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.session import Session

from fairshare.submit import limits, places
from fairshare.submit.raw_fields import FIELDS, REQUIRED

SAGEMAKER = Session().get_service_model("sagemaker")
BATCH = Session().get_service_model("batch")
KINDS = {"structure": dict, "map": dict, "list": list, "string": str, "boolean": bool}


def shape(name: str) -> dict[str, Any]:
    """Return the constraints of a shape: ``max``, ``pattern``."""
    return dict(SAGEMAKER.shape_for(name)._shape_model)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("HyperParameters", limits.MAX_HYPERPARAMETERS),
        ("HyperParameterKey", limits.MAX_HYPERPARAMETER_NAME),
        ("HyperParameterValue", limits.MAX_HYPERPARAMETER_VALUE),
        ("TrainingEnvironmentMap", limits.MAX_VARIABLES),
        ("TrainingEnvironmentKey", limits.MAX_VARIABLE_NAME),
        ("TrainingEnvironmentValue", limits.MAX_VARIABLE_VALUE),
        ("InputDataConfig", limits.MAX_CHANNELS),
        ("ChannelName", limits.MAX_CHANNEL_NAME),
        ("TagList", limits.MAX_TAGS),
        ("TagKey", limits.MAX_TAG_KEY),
        ("TagValue", limits.MAX_TAG_VALUE),
        ("AlgorithmImage", places.MAX_IMAGE),
        ("S3Uri", places.MAX_S3_URI),
    ],
)
def test_c10_limits_are_sagemakers(name: str, limit: int) -> None:
    assert shape(name)["max"] == limit


def test_c13_batch_takes_the_tags_that_sagemaker_takes() -> None:
    tags = BATCH.shape_for("TagrisTagsMap")

    assert tags.metadata["max"] == limits.MAX_TAGS
    assert (tags.key.metadata["max"], tags.value.metadata["max"]) == (limits.MAX_TAG_KEY, limits.MAX_TAG_VALUE)
    assert shape("TagKey")["pattern"] == shape("TagValue")["pattern"] == r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)"


def test_c10_patterns_of_names_are_sagemakers() -> None:
    assert shape("TrainingEnvironmentKey")["pattern"] == limits.VARIABLE_NAME.pattern
    assert shape("ChannelName")["pattern"].replace("\\.", ".") == limits.CHANNEL_NAME.pattern.replace("\\.", ".")
    assert shape("HyperParameterValue")["pattern"] == ".*", "a line break is warned of"


def test_raw_fields_are_those_of_create_training_job() -> None:
    members = SAGEMAKER.operation_model("CreateTrainingJob").input_shape.members

    assert {name: KINDS[member.type_name] for name, member in members.items()} == FIELDS


def test_what_aws_requires_of_a_raw_request_is_required() -> None:
    needed = SAGEMAKER.operation_model("CreateTrainingJob").input_shape.required_members

    assert set(needed) <= {"TrainingJobName", *REQUIRED}
