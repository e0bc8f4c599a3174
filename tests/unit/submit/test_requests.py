from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec
from fairshare.model import JobRequest, UsageError
from fairshare.submit.naming import JobNames
from fairshare.submit.ports import BuiltPayload
from fairshare.submit.requests import (
    build_request,
    client_token,
    request_bytes,
)
from fairshare.submit.resolve import QueueFacts
from fairshare.submit.retries import retry_strategy

MakeJob = Callable[..., JobSpec]
NAMES = JobNames("digits-a1b2c3", "digits-a1b2c3")


@pytest.fixture
def request_of(make_job: MakeJob, facts: QueueFacts) -> Callable[..., JobRequest]:
    def make(payload: dict[str, Any] | None = None, tags: dict[str, str] | None = None, **options: Any) -> JobRequest:
        job = make_job(**options.pop("job", {}))
        built = BuiltPayload(payload or {}, tags=tags)
        return build_request(job, built, queue=facts, names=NAMES, run_id="run-1", index=0, **options)

    return make


def test_the_request_is_complete(request_of: Callable[..., JobRequest]) -> None:
    request = request_of({"StoppingCondition": {"MaxRuntimeInSeconds": 7200}, "RoleArn": "arn:é"})

    assert request == JobRequest(
        job_name="digits-a1b2c3",
        job_queue="search-ml-gpu",
        payload='{"RoleArn":"arn:é","StoppingCondition":{"MaxRuntimeInSeconds":7200},"TrainingJobName":"digits-a1b2c3"}',
        client_token=hashlib.sha256(("run-1\0000\0" + request.payload).encode()).hexdigest(),
        share_identifier="HIGHPRI",
        scheduling_priority=10,
        retry_strategy=retry_strategy(None),
        attempt_duration_seconds=7200,
        tags={"fairshare:run": "run-1"},
    )


def test_c08_priority_zero_is_in_the_request(request_of: Callable[..., JobRequest]) -> None:
    assert request_of(job={"priority": 0}).scheduling_priority == 0
    assert request_of(job={"priority": None}).scheduling_priority is None


def test_tags_of_the_user_win_over_the_sdks_and_the_run_over_both(request_of: Callable[..., JobRequest]) -> None:
    request = request_of(tags={"sdk": "1", "team": "sdk"}, job={"tags": {"team": "ml", "fairshare:run": "forged"}})

    assert request.tags == {"sdk": "1", "team": "ml", "fairshare:run": "run-1"}


@pytest.mark.parametrize(
    ("condition", "attempt"),
    [
        ({"MaxRuntimeInSeconds": 21_600}, 21_600),
        ({"MaxRuntimeInSeconds": 30}, 60),
        ({}, 86_400),
        (None, 86_400),
    ],
)
def test_c20_an_attempt_may_last_as_long_as_the_job(
    request_of: Callable[..., JobRequest], condition: Any, attempt: int
) -> None:
    assert request_of({"StoppingCondition": condition}).attempt_duration_seconds == attempt


def test_c20_an_attempt_limit_of_the_users_own_is_kept(request_of: Callable[..., JobRequest]) -> None:
    assert request_of({}, attempt_timeout=600).attempt_duration_seconds == 600


def test_retries_are_for_internal_errors_and_quotas_only() -> None:
    strategy = retry_strategy(None)
    rules = [(rule["action"], rule["on_status_reason"]) for rule in strategy["evaluate_on_exit"]]

    assert strategy["attempts"] == 2
    assert rules == [
        ("RETRY", "Received status from SageMaker: InternalServerError*"),
        ("RETRY", "Received status from SageMaker:InternalServerError*"),
        ("RETRY", "Received status from SageMaker: ResourceLimitExceeded*"),
        ("RETRY", "Received status from SageMaker:ResourceLimitExceeded*"),
        ("EXIT", "*"),
    ]


def test_the_payload_is_one_text_whatever_the_order_of_its_fields(request_of: Callable[..., JobRequest]) -> None:
    one, other = request_of({"a": 1, "b": {"c": 2, "d": 3}}), request_of({"b": {"d": 3, "c": 2}, "a": 1})

    assert one.payload == other.payload
    assert one.client_token == other.client_token


def test_c22_the_token_follows_from_run_index_and_payload() -> None:
    token = client_token("run-1", 0, "{}")

    assert len(token) == 64
    assert token == client_token("run-1", 0, "{}")
    assert (
        len({token, client_token("run-2", 0, "{}"), client_token("run-1", 1, "{}"), client_token("run-1", 0, "[]")})
        == 4
    )
    assert client_token("run-1", 11, "{}") != client_token("run-11", 1, "{}")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, "\ud800"])
def test_a_payload_that_is_not_json_is_refused(request_of: Callable[..., JobRequest], value: Any) -> None:
    with pytest.raises(UsageError, match='job "digits": its training request is not JSON'):
        request_of({"x": value})


def test_the_size_of_a_request_counts_the_payload_as_the_text_it_is_sent_as() -> None:
    request = JobRequest("a", "q", '{"x":"é"}', "t" * 64)

    without = request_bytes(replace(request, payload=""))

    assert request_bytes(request) - without == len('{\\"x\\":\\"é\\"}'.encode())
