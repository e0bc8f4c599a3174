"""Logical ids, references and resources of CloudFormation templates."""

from __future__ import annotations

import re

import pytest

from fairshare.provision.export.template import LogicalIds, Resource, attribute, ref, substituted


@pytest.mark.parametrize(
    ("key", "logical_id"),
    [("gpu", "GpuJobQueue"), ("gpu-a", "GpuAJobQueue"), ("my_GPU2", "MyGPU2JobQueue"), ("7", "7JobQueue")],
)
def test_a_logical_id_is_made_of_the_words_of_a_key(key: str, logical_id: str) -> None:
    assert LogicalIds([key, "other"]).of("JobQueue", key) == logical_id


def test_keys_that_would_become_the_same_are_told_apart_whatever_else_there_is() -> None:
    few, many = LogicalIds(["a-b", "aB", "c"]), LogicalIds(["c", "aB", "z", "a-b"])
    found = [few.of("JobQueue", key) for key in ("a-b", "aB", "c")]

    assert len(set(found)) == 3
    assert all(re.fullmatch("[A-Za-z0-9]+", each) for each in found)
    assert found == [many.of("JobQueue", key) for key in ("a-b", "aB", "c")]
    assert found[2] == "CJobQueue"


def test_one_key_of_several_kinds_is_no_clash() -> None:
    ids = LogicalIds(["gpu", "gpu"])

    assert (ids.of("JobQueue", "gpu"), ids.of("SchedulingPolicy", "gpu")) == ("GpuJobQueue", "GpuSchedulingPolicy")


def test_texts_with_parameters_are_substituted_at_every_depth() -> None:
    value = {"a": ["x", "y${AWS::Region}"], "b": {"c": "$plain", "d": 1}, "e": ("${X}",)}

    assert substituted(value) == {
        "a": ["x", {"Fn::Sub": "y${AWS::Region}"}],
        "b": {"c": "$plain", "d": 1},
        "e": [{"Fn::Sub": "${X}"}],
    }


def test_a_resource_is_written_with_what_it_has() -> None:
    plain = Resource("AWS::A::B", {"Name": ref("X"), "Arn": attribute("Y", "Arn")})
    kept = Resource("AWS::A::B", {}, "HasTopic", holds_data=True)

    assert plain.to_json() == {
        "Type": "AWS::A::B",
        "Properties": {"Name": {"Ref": "X"}, "Arn": {"Fn::GetAtt": ["Y", "Arn"]}},
    }
    assert list(kept.to_json()) == ["Type", "Condition", "DeletionPolicy", "UpdateReplacePolicy", "Properties"]
