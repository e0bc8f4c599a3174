"""Raw CreateTrainingJob fields: misspelt ones, and values of another kind than SageMaker's."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.submit.raw_fields import raw_findings


def test_fields_of_the_right_kind_pass() -> None:
    fields = {
        "EnableNetworkIsolation": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": None},
        "ResourceConfig": {"InstanceGroups": [{"InstanceType": "ml.m5.large", "InstanceCount": 1}]},
        "InputDataConfig": [{"ChannelName": "train"}],
        "VpcConfig": None,
    }

    assert list(raw_findings(fields)) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"EnableNetworkIsolation": "yes"}, "EnableNetworkIsolation must be true or false"),
        ({"Environment": ["A"]}, "Environment must be a map"),
        ({"RoleArn": 5}, "RoleArn must be text"),
        ({"Tags": {"a": "b"}}, "Tags must be a list"),
        ({"Tags": [{"Key": "a"}]}, "Tags must be a list of {Key: ..., Value: ...}"),
        ({"InputDataConfig": ["train"]}, "InputDataConfig must be a list of maps"),
        ({"ResourceConfig": {"InstanceGroups": [1]}}, "ResourceConfig.InstanceGroups must be a list of maps"),
        ({"ResourceConfig": {"VolumeSizeInGB": "30"}}, "ResourceConfig.VolumeSizeInGB must be a whole number"),
        (
            {"RetryStrategy": {"MaximumRetryAttempts": True}},
            "RetryStrategy.MaximumRetryAttempts must be a whole number",
        ),
    ],
)
def test_fields_of_another_kind_are_errors(fields: dict[str, Any], message: str) -> None:
    (finding,) = raw_findings(fields)

    assert (finding.message, finding.severity) == (f"training_job.{message}", "error")
    assert finding.at == ("training_job", next(iter(fields)))


def test_a_field_that_is_not_known_is_a_warning_with_a_guess() -> None:
    misspelt, unheard_of = raw_findings({"Enviroment": {}, "Xyz": 1})

    assert misspelt.message == "training_job.Enviroment is no field of CreateTrainingJob that we know"
    assert (misspelt.severity, misspelt.hint) == ("warning", "did you mean Environment?")
    assert unheard_of.hint == "fields are spelt as in CreateTrainingJob: RoleArn"
