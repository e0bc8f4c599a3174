"""Requests read by botocore's model."""

from __future__ import annotations

import json
from typing import Any

import botocore.session
import pytest

from fairshare.local.errors import ClientException
from fairshare.local.request_shape import read_json, read_members


@pytest.fixture(scope="module")
def shapes() -> Any:
    batch = botocore.session.get_session().get_service_model("batch")
    return lambda operation: batch.operation_model(operation).input_shape


def refusal(shape: Any, **values: Any) -> str:
    with pytest.raises(ClientException) as refused:
        read_members(shape, values)
    return str(refused.value)


def test_unknown_members_are_dropped_and_null_ones_absent(shapes):
    values = {"jobId": "a", "schedulingPriority": 0, "unknown": 1}
    assert read_members(shapes("UpdateServiceJob"), values) == {"jobId": "a", "schedulingPriority": 0}
    values = {"jobQueue": "gpu", "jobStatus": None}
    assert read_members(shapes("ListServiceJobs"), values) == {"jobQueue": "gpu"}


def test_a_missing_member_is_named_by_its_path(shapes):
    assert refusal(shapes("UpdateServiceJob"), jobId="a") == "schedulingPriority: missing (required)"
    order = [{"order": 1, "serviceEnvironment": "a"}, {"order": 2}]
    text = refusal(shapes("CreateJobQueue"), jobQueueName="q", priority=1, serviceEnvironmentOrder=order)
    assert text == "serviceEnvironmentOrder[1].serviceEnvironment: missing (required)"


def test_nothing_is_required_when_that_is_asked(shapes):
    assert read_members(shapes("UpdateServiceJob"), {}, are_required=False) == {}


@pytest.mark.parametrize(
    ("priority", "text"),
    [
        ("1", "schedulingPriority: '1' has the wrong type (a whole number)"),
        (1.0, "schedulingPriority: 1.0 has the wrong type (a whole number)"),
        (True, "schedulingPriority: True has the wrong type (a whole number)"),
        ([], "schedulingPriority: [] has the wrong type (a whole number)"),
        (2**31, "schedulingPriority: the number is out of range (-2147483648 - 2147483647)"),
        (10**400, "schedulingPriority: the number is out of range (-2147483648 - 2147483647)"),
    ],
)
def test_numbers(shapes, priority, text):
    assert refusal(shapes("UpdateServiceJob"), jobId="a", schedulingPriority=priority) == text


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        ("1", "fairsharePolicy.shareDistribution[0].weightFactor: '1' has the wrong type (a number)"),
        (float("nan"), "fairsharePolicy.shareDistribution[0].weightFactor: the number is out of range (a finite one)"),
        (10**400, "fairsharePolicy.shareDistribution[0].weightFactor: the number is out of range (a finite one)"),
    ],
)
def test_fractions(shapes, weight, text):
    entries = [{"shareIdentifier": "A", "weightFactor": weight}]
    assert refusal(shapes("CreateSchedulingPolicy"), name="p", fairsharePolicy={"shareDistribution": entries}) == text


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ([], "tags: [] has the wrong type (an object)"),
        ({"a": 1}, "tags.a: 1 has the wrong type (a string)"),
        ({"a": "\ud800"}, r"tags.a: '\ud800' is no valid Unicode (half of a surrogate pair)"),
        ({"\ud800": "a"}, r"tags: '\ud800' is no valid Unicode (half of a surrogate pair)"),
    ],
)
def test_maps_and_text(shapes, tags, text):
    assert refusal(shapes("CreateSchedulingPolicy"), name="p", tags=tags) == text


def test_lists(shapes):
    assert refusal(shapes("TerminateServiceJobs"), jobs="a", reason="r") == "jobs: 'a' has the wrong type (a list)"
    assert refusal(shapes("TerminateServiceJobs"), jobs=[None], reason="r") == (
        "jobs[0]: None has the wrong type (a string)"
    )


def test_a_long_value_is_shortened_in_the_message(shapes):
    text = refusal(shapes("UpdateServiceJob"), jobId=["é" * 5_000], schedulingPriority=1)
    assert text.startswith(r"jobId: ['\xe9\xe9")
    assert text.endswith("... has the wrong type (a string)")
    assert len(text) < 120


def test_json():
    assert read_json(b'{"a": 1}', "request", "an object") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "request: not JSON, Expecting property name enclosed in double quotes: line 1 column 2 (char 1) (rule)"),
        (b"[]", "request: not a JSON object (rule)"),
        (b'{"a":' * 100_000, "request: nested too deeply (at most 100 levels)"),
        (json.dumps("a").encode("utf-16-be") + b"\xff", None),
    ],
)
def test_what_is_no_json_object_is_refused(text, message):
    with pytest.raises(ClientException) as refused:
        read_json(text, "request", "rule")
    assert message is None or str(refused.value) == message
    assert str(refused.value).startswith("request: ")
