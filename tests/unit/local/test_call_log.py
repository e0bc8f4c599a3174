"""The call log."""

from __future__ import annotations

import pytest

from fairshare.local.call_log import ApiCall, CallLog, is_write, short_params


@pytest.mark.parametrize(
    ("operation", "method", "writes"),
    [
        ("SubmitServiceJob", "POST", True),
        ("PutObject", "PUT", True),
        ("CreateBucket", "PUT", True),
        ("TagResource", "POST", True),
        ("UpdateJobQueue", "POST", True),
        ("StartQuery", "POST", True),
        ("SomethingNew", "POST", True),
        ("DescribeServiceJob", "POST", False),
        ("ListServiceJobs", "POST", False),
        ("GetJobQueueSnapshot", "POST", False),
        ("HeadBucket", "HEAD", False),
        ("FilterLogEvents", "POST", False),
        ("SimulatePrincipalPolicy", "POST", False),
        ("GET /unknown", "GET", False),
        ("POST /unknown", "POST", True),
    ],
)
def test_what_may_change_something(operation, method, writes):
    assert is_write(operation, method) is writes


def test_only_short_values_without_secrets_are_kept():
    params = {
        "jobName": "a",
        "schedulingPriority": 0,
        "startFromHead": True,
        "serviceRequestPayload": "{}",
        "long": "x" * 201,
        "tags": {"a": "b"},
        "nothing": None,
    }
    assert short_params(params) == {"jobName": "a", "schedulingPriority": 0, "startFromHead": True}


def test_the_oldest_calls_are_forgotten():
    log = CallLog(kept=2)
    for name in ("a", "b", "c"):
        log.add(ApiCall("s3", name, is_write=name == "c"))
    assert [call.operation for call in log.calls()] == ["b", "c"]
    assert [call.operation for call in log.writes()] == ["c"]
    log.clear()
    assert log.calls() == []


def test_a_call_as_json():
    call = ApiCall("batch", "ListServiceJobs", False, {"jobQueue": "gpu"})
    assert call.to_json() == {
        "service": "batch",
        "operation": "ListServiceJobs",
        "is_write": False,
        "params": {"jobQueue": "gpu"},
    }
