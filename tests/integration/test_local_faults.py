"""Faults as clients see them: over HTTP and in-process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from fairshare import LocalAWS
from fairshare.local.server import LocalServer
from fairshare.model import UsageError
from fairshare.scheduler.clock import VirtualClock

ONCE = Config(retries={"total_max_attempts": 1})
FAULTS = "/moto-api/fairshare/faults"


@pytest.fixture(params=["server", "in_process"])
def aws(request: pytest.FixtureRequest) -> Iterator[LocalAWS]:
    with LocalAWS(request.param, clock=VirtualClock(1_790_000_000_000)) as aws:
        yield aws


def client(aws: LocalAWS, service: str = "batch") -> Any:
    """A client that tries once."""
    import boto3

    variables = aws.environment()
    return boto3.session.Session(region_name="us-east-1").client(
        service,
        endpoint_url=variables.get("AWS_ENDPOINT_URL"),
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        config=ONCE,
    )


def set_up(batch: Any, capacity: int = 1) -> None:
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": capacity, "capacityUnit": "NUM_INSTANCES"}],
    )
    batch.create_job_queue(
        jobQueueName="gpu", priority=1, serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}]
    )


def submit(batch: Any, **more: Any) -> str:
    payload = {"ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}}
    request = {"jobName": "a", "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING"} | more
    return str(batch.submit_service_job(**request, serviceRequestPayload=json.dumps(payload))["jobId"])


def job_count(batch: Any) -> int:
    return sum(
        len(batch.list_service_jobs(jobQueue="gpu", jobStatus=status)["jobSummaryList"])
        for status in ("RUNNABLE", "RUNNING")
    )


def test_a_lost_reply_has_its_effect_and_the_token_finds_it(aws: LocalAWS) -> None:
    batch = client(aws)
    set_up(batch)
    aws.faults(lost_reply=1)
    with pytest.raises(ConnectionClosedError, match="Connection was closed before we received a valid response"):
        submit(batch, clientToken="t")
    assert job_count(batch) == 1
    aws.faults()
    job = submit(batch, clientToken="t")
    assert job_count(batch) == 1
    assert batch.describe_service_job(jobId=job)["status"] == "RUNNING"


def test_botocore_tries_again_after_a_lost_reply(aws: LocalAWS) -> None:
    batch = client(aws)
    set_up(batch)
    aws.faults(lost_reply=0.5, seed=4)
    for number in range(6):
        submit(aws.client("batch"), clientToken=f"t{number}")
    assert job_count(batch) == 6
    assert len([call for call in aws.calls if call.operation == "SubmitServiceJob"]) > 6


@pytest.mark.parametrize(
    ("rule", "status", "code", "message"),
    [
        ("throttle=1", 429, "TooManyRequestsException", "Too Many Requests (a fault of the local AWS, on purpose)"),
        ("error=1", 500, "ServerException", "Internal server error (a fault of the local AWS, on purpose)"),
        ("expired_token=1", 403, "ExpiredTokenException", "The security token included in the request is expired"),
    ],
)
def test_refusals_have_no_effect(aws: LocalAWS, rule: str, status: int, code: str, message: str) -> None:
    batch = client(aws)
    set_up(batch)
    aws.faults(rule)
    with pytest.raises(ClientError) as refused:
        submit(batch)
    response = refused.value.response
    assert (response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]) == (status, code)
    assert message in response["Error"]["Message"]
    assert job_count(batch) == 0


def test_c22_a_repeated_token_is_rejected_when_a_rule_says_so(aws: LocalAWS) -> None:
    batch = client(aws)
    set_up(batch)
    aws.faults("repeated_token=reject")
    job = submit(batch, clientToken="t")
    with pytest.raises(ClientError, match=f"it was used before, for the service job {job}"):
        submit(batch, clientToken="t")
    assert job_count(batch) == 1


def test_too_many_launches_at_once_are_slow_and_fail(aws: LocalAWS) -> None:
    """Ten at once where two fit: the first two start as they should, the others are late, and fail."""
    batch = client(aws)
    set_up(batch, capacity=10)
    aws.faults("contention=2,launch_seconds=10,contention_slowdown=3,contention_failure=1")
    jobs = [submit(batch, jobName=f"job-{n}") for n in range(10)]

    def statuses() -> list[str]:
        return [batch.describe_service_job(jobId=job)["status"] for job in jobs]

    assert statuses() == ["STARTING"] * 10
    aws.advance(10)
    assert statuses() == ["RUNNING"] * 2 + ["STARTING"] * 8
    aws.advance(20)
    assert statuses() == ["RUNNING"] * 2 + ["FAILED"] * 8
    reason = "Received status from SageMaker: InternalServerError: We encountered an internal error. Please try again."
    assert batch.describe_service_job(jobId=jobs[-1])["statusReason"] == reason


def test_ops_choose_what_is_struck_whatever_the_service(aws: LocalAWS) -> None:
    s3, iam = client(aws, "s3"), client(aws, "iam")
    s3.create_bucket(Bucket="data")
    aws.faults("error=1,ops=PutObject+GetRole", "throttle=1,ops=ListBuckets")
    for call in (
        lambda: s3.put_object(Bucket="data", Key="k", Body=b"x"),
        lambda: iam.get_role(RoleName="MLTraining"),
    ):
        with pytest.raises(ClientError) as refused:
            call()
        assert refused.value.response["Error"]["Code"] == "ServerException"
    with pytest.raises(ClientError, match="TooManyRequestsException"):
        s3.list_buckets()
    assert s3.list_objects_v2(Bucket="data")["KeyCount"] == 0


def test_the_bucket_is_refilled_as_time_passes(aws: LocalAWS) -> None:
    batch = client(aws)
    set_up(batch)
    aws.faults(submit_tps=2)
    submit(batch)
    submit(batch)
    with pytest.raises(ClientError, match="TooManyRequestsException"):
        submit(batch)
    aws.advance(0.5)
    submit(batch)


def test_latency_lets_time_pass(aws: LocalAWS) -> None:
    batch = client(aws)
    set_up(batch)
    aws.faults(latency_ms=2_500)
    job = submit(batch)
    assert batch.describe_service_job(jobId=job)["createdAt"] == 1_790_000_002_500


def test_a_capacity_error_and_a_slow_launch(aws: LocalAWS) -> None:
    batch = client(aws)
    set_up(batch)
    aws.faults(launch_slowdown_ms=5_000)
    job = submit(batch)
    aws.advance(4.9)
    assert batch.describe_service_job(jobId=job)["status"] == "SCHEDULED"
    aws.advance(0.2)
    assert batch.describe_service_job(jobId=job)["status"] == "RUNNING"
    batch.terminate_service_job(jobId=job, reason="enough")
    aws.faults(capacity_error=1)
    starved = submit(batch)
    aws.faults()
    aws.advance(3600)
    assert batch.describe_service_job(jobId=starved)["status"] in ("FAILED", "SUCCEEDED")
    failed = [job for job in aws.client("sagemaker").list_training_jobs(StatusEquals="Failed")["TrainingJobSummaries"]]
    described = aws.client("sagemaker").describe_training_job(TrainingJobName=failed[0]["TrainingJobName"])
    assert described["FailureReason"].startswith("CapacityError: Unable to provision requested ML compute capacity")


def test_a_wrong_rule_is_refused_and_changes_nothing(aws: LocalAWS) -> None:
    aws.faults(error=1, ops="ListBuckets")
    with pytest.raises(UsageError, match='there is no fault "eror"'):
        aws.faults(eror=1)
    with pytest.raises(ClientError, match="ServerException"):
        client(aws, "s3").list_buckets()


# -- over HTTP, by hand -----------------------------------------------------------------------------------------------


def ask(aws: LocalAWS, method: str, body: bytes = b"", path: str = FAULTS) -> tuple[int, Any]:
    import http.client
    from urllib.parse import urlsplit

    key = aws.environment()["AWS_ACCESS_KEY_ID"]
    scope = f"{key}/20261130/us-east-1/batch/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}
    connection = http.client.HTTPConnection(urlsplit(aws.endpoint_url).netloc, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_the_faults_page_shows_replaces_and_ends_them() -> None:
    with LocalAWS("server", faults="error=1") as aws:
        assert ask(aws, "GET") == (200, {"rules": ["error=1"]})
        assert ask(aws, "PUT", b'{"rules": ["throttle=1,ops=all"]}') == (200, {"rules": ["throttle=1,ops=all"]})
        assert ask(aws, "GET") == (200, {"rules": ["throttle=1,ops=all"]})
        with pytest.raises(ClientError, match="TooManyRequestsException"):
            client(aws, "s3").list_buckets()
        wrong = {"message": 'faults "oops=1": there is no fault "oops"'}
        status, told = ask(aws, "PUT", b'{"rules": ["oops=1"]}')
        assert (status, told["message"]) == (400, wrong["message"])
        assert "lost_reply" in told["hint"]
        for body in (b"", b"[]", b'{"rules": [1]}', b'{"rules": "error=1"}'):
            status, told = ask(aws, "PUT", body)
            assert (status, told["message"]) == (400, "the body is not JSON with rules")
            assert told["hint"] == 'send {"rules": ["lost_reply=0.2,seed=7"]}'
        assert ask(aws, "DELETE") == (200, {"rules": []})
        client(aws, "s3").list_buckets()


def test_the_faults_page_is_guarded() -> None:
    import http.client
    from urllib.parse import urlsplit

    with LocalAWS("server") as aws:
        connection = http.client.HTTPConnection(urlsplit(aws.endpoint_url).netloc, timeout=10)
        connection.request("PUT", FAULTS, body=b'{"rules": ["error=1"]}')
        assert connection.getresponse().status == 403
        connection.close()
        assert ask(aws, "GET") == (200, {"rules": []})


def test_faults_of_attempts_are_replayed_as_they_were(tmp_path: Any) -> None:
    """Which attempts lacked capacity is part of the past; a restart without faults does not change it."""
    clock = VirtualClock(1_790_000_000_000)
    rules = ("launch_slowdown_ms=3000,seed=2",)
    told = []
    for faults in (rules, ()):
        with LocalAWS("server", state_dir=tmp_path, clock=clock, faults=faults) as aws:
            batch = client(aws)
            if faults:
                set_up(batch)
                job = submit(batch)
                aws.advance(10)
                batch.describe_service_job(jobId=job)
            described = batch.describe_service_job(jobId=job)
            told.append((described["scheduledAt"], described["startedAt"], described["status"]))
            later = submit(batch) if not faults else ""
    assert told[0] == told[1]
    assert told[0][1] - told[0][0] == 3_000
    assert later


def test_a_wrong_rule_is_refused_before_anything_starts(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match='faults "lostreply=1": there is no fault "lostreply"'):
        LocalServer(state_dir=tmp_path / "local", faults=["lostreply=1"])
    assert not (tmp_path / "local").exists()
