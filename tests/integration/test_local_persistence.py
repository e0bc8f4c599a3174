"""The state of the local AWS outlives the server: what was acknowledged is there after a restart, as it was."""

from __future__ import annotations

import io
import json
import random
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from fairshare.local.server import LocalServer
from fairshare.model import InvalidFileError
from fairshare.scheduler.clock import VirtualClock

START = 1_790_000_000_000
MINUTE = 60_000
STATUSES = ("SUBMITTED", "RUNNABLE", "SCHEDULED", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
PARTS = 9_000_000
"""Bytes: more than boto3 uploads in one piece."""


@pytest.fixture(scope="module")
def session() -> boto3.session.Session:
    """One for all tests: botocore's service models are read once."""
    return boto3.session.Session(region_name="us-west-2")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def local_server(tmp_path: Path, clock: VirtualClock, session: boto3.session.Session) -> Callable[..., Any]:
    """Serve the state directory of the test; gives a function that makes clients. It ends without saving anything:
    whatever is remembered was written before."""

    @contextmanager
    def serve(**options: Any):
        with LocalServer(state_dir=tmp_path / "local", clock=clock, **options) as server:
            address = server.address
            yield lambda service, region="us-west-2": session.client(
                service,
                region_name=region,
                endpoint_url=address.endpoint_url,
                aws_access_key_id=address.access_key_id,
                aws_secret_access_key=address.secret_access_key,
                config=Config(retries={"total_max_attempts": 1}),
            )

    return serve


def set_up(batch: Any, capacity: int = 1) -> None:
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": capacity, "capacityUnit": "NUM_INSTANCES"}],
    )
    shares = [{"shareIdentifier": share, "weightFactor": weight} for share, weight in (("HIGH", 1), ("LOW", 5))]
    policy = batch.create_scheduling_policy(name="shares", fairsharePolicy={"shareDistribution": shares})
    batch.create_job_queue(
        jobQueueName="gpu",
        priority=1,
        schedulingPolicyArn=policy["arn"],
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}],
    )


def submit(batch: Any, name: str = "a", seconds: float = 60, share: str | None = "HIGH", **more: Any) -> str:
    payload = {
        "TrainingJobName": name,
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)},
    }
    request = {"jobName": name, "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING"}
    request |= {} if share is None else {"shareIdentifier": share}
    return str(batch.submit_service_job(**request, serviceRequestPayload=json.dumps(payload), **more)["jobId"])


def everything(client: Any, region: str = "us-west-2") -> dict[str, Any]:
    """All that Batch and SageMaker tell, without the ids of the answers."""
    batch, sagemaker = client("batch", region), client("sagemaker", region)
    queues = batch.describe_job_queues()["jobQueues"]
    jobs = [
        batch.describe_service_job(jobId=job["jobId"])
        for queue in queues
        for status in STATUSES
        for job in batch.list_service_jobs(jobQueue=queue["jobQueueName"], jobStatus=status)["jobSummaryList"]
    ]
    names = [job["TrainingJobName"] for job in sagemaker.list_training_jobs()["TrainingJobSummaries"]]
    told = {
        "queues": queues,
        "environments": batch.describe_service_environments()["serviceEnvironments"],
        "jobs": sorted(jobs, key=lambda job: str(job["jobId"])),
        "training_jobs": [sagemaker.describe_training_job(TrainingJobName=name) for name in sorted(names)],
    }
    for answer in told["jobs"] + told["training_jobs"]:
        del answer["ResponseMetadata"]
    return told


# -- Batch ------------------------------------------------------------------------------------------------------------


def test_jobs_and_queues_are_as_they_were_and_simulated_runs_go_on(local_server, clock):
    with local_server() as client:
        batch = client("batch")
        set_up(batch)
        first, second, third = (submit(batch, name, seconds=90) for name in ("first", "second", "third"))
        clock.advance(MINUTE)
        batch.terminate_service_job(jobId=third, reason="enough")
        before = everything(client)
        assert [job["status"] for job in before["jobs"]].count("RUNNING") == 1
    with local_server() as client:
        assert everything(client) == before
        clock.advance(MINUTE)
        batch = client("batch")
        ended, running = batch.describe_service_job(jobId=first), batch.describe_service_job(jobId=second)
        assert (ended["status"], running["status"]) == ("SUCCEEDED", "RUNNING")
        assert running["startedAt"] == ended["stoppedAt"] == ended["startedAt"] + 90_000
        assert batch.describe_service_job(jobId=third)["statusReason"] == "enough"


def test_the_same_random_day_is_replayed_to_the_last_detail(local_server, clock):
    """Two regions, whose engines are looked at at different instants, some calls refused, launches in
    each other's way, restarts between."""
    rng = random.Random(5)
    before: dict[str, Any] = {}
    jobs: dict[str, list[str]] = {"us-west-2": [], "us-east-1": []}
    for day in range(3):
        with local_server(speed=1 + day, faults=["contention=1,launch_seconds=20"]) as client:
            for region in jobs:
                if day == 0:
                    set_up(client("batch", region), capacity=2)
                else:
                    assert everything(client, region) == before[region]
            for _ in range(25):
                clock.advance(rng.randrange(20_000))
                region = rng.choice(list(jobs))
                batch = client("batch", region)
                kind = rng.randrange(8)
                if kind == 0 and jobs[region]:
                    batch.terminate_service_job(jobId=rng.choice(jobs[region]), reason="chance")
                elif kind == 1 and jobs[region]:
                    batch.update_service_job(jobId=rng.choice(jobs[region]), schedulingPriority=rng.randrange(100))
                elif kind == 2:
                    with pytest.raises(batch.exceptions.ClientException):
                        submit(batch, "not a name!")
                else:
                    share, seconds = rng.choice(("HIGH", "LOW")), rng.randrange(1, 120)
                    jobs[region].append(submit(batch, f"job-{len(jobs[region])}", seconds, share))
            before = {region: everything(client, region) for region in jobs}
    with local_server() as client:
        for region in jobs:
            assert len(before[region]["jobs"]) == len(jobs[region]) > 10
            assert everything(client, region) == before[region]


def test_a_token_is_remembered(local_server):
    with local_server() as client:
        set_up(client("batch"))
        job = submit(client("batch"), clientToken="token-1")
    with local_server() as client:
        assert submit(client("batch"), clientToken="token-1") == job


def test_c22_how_a_repeated_token_was_answered_is_remembered(local_server):
    with local_server() as client:
        batch = client("batch")
        set_up(batch)
        jobs = {submit(batch, clientToken="token-1") for _ in range(2)}
    with local_server(faults=["repeated_token=reject"]) as client:
        batch = client("batch")
        with pytest.raises(batch.exceptions.ClientException, match="it was used before"):
            submit(batch, clientToken="token-1")
        jobs.add(submit(batch, clientToken="token-2"))
    with local_server() as client:
        assert jobs == {submit(client("batch"), clientToken=f"token-{number}") for number in (1, 2)}


def test_another_speed_is_for_jobs_that_start_later(local_server, clock):
    with local_server() as client:
        set_up(client("batch"))
        first, second = submit(client("batch"), seconds=120), submit(client("batch"), seconds=120)
    with local_server(speed=60) as client:
        clock.advance(2 * MINUTE + 2_000)
        ended = [client("batch").describe_service_job(jobId=job) for job in (first, second)]
        assert [job["stoppedAt"] - job["startedAt"] for job in ended] == [120_000, 2_000]


def test_what_was_due_before_the_faults_changed_met_the_old_ones(local_server, clock, tmp_path, session):
    with local_server() as client:
        set_up(client("batch"))
        submit(client("batch"), seconds=10)
        waiting = submit(client("batch"), seconds=60)
        clock.advance(12_000)
        before = client("batch").describe_service_job(jobId=waiting)
        assert before["startedAt"] == before["scheduledAt"] == START + 10_000
        _ask(client, "PUT", "/moto-api/fairshare/faults", b'{"rules": ["launch_slowdown_ms=5000"]}')
    with local_server() as client:
        again = client("batch").describe_service_job(jobId=waiting)
        assert (again["startedAt"], again["status"]) == (before["startedAt"], "RUNNING")


def test_a_clock_that_went_back_does_not_bring_the_past_back(local_server, clock, tmp_path, session):
    with local_server() as client:
        set_up(client("batch"))
        clock.advance(60 * MINUTE)
        job = submit(client("batch"))
        before = everything(client)
    clock._now = START
    with local_server() as client:
        assert everything(client) == before
        assert client("batch").describe_service_job(jobId=job)["status"] == "RUNNING"


def test_a_reset_is_remembered(local_server):
    with local_server() as client:
        set_up(client("batch"))
        submit(client("batch"))
        _ask(client, "POST", "/moto-api/reset")
    with local_server() as client:
        assert client("batch").describe_job_queues()["jobQueues"] == []
        set_up(client("batch"))
        assert client("batch").describe_service_job(jobId=submit(client("batch")))["status"] == "RUNNING"


def _ask(client: Callable[..., Any], method: str, path: str, body: bytes | None = None) -> None:
    """Send a signed request by hand."""
    batch = client("batch")
    scope = f"{batch._request_signer._credentials.access_key}/20261130/us-west-2/batch/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}
    request = urllib.request.Request(batch.meta.endpoint_url + path, data=body, headers=headers, method=method)
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


# -- the other services -----------------------------------------------------------------------------------------------


def test_objects_buckets_roles_and_logs_are_there_again(local_server, tmp_path):
    big = random.Random(1).randbytes(PARTS)
    with local_server() as client:
        s3, iam, logs = client("s3"), client("iam"), client("logs")
        s3.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        s3.put_object(Bucket="data", Key="a/ü b", Body=b"\x00\xff", Metadata={"my_key": "x"}, ContentType="text/plain")
        s3.put_object(Bucket="data", Key="gone", Body=b"gone")
        s3.delete_object(Bucket="data", Key="gone")
        s3.put_object(Bucket="data", Key="empty", Body=b"")
        s3.upload_fileobj(io.BytesIO(big), "data", "big")
        s3.copy_object(Bucket="data", Key="copy", CopySource={"Bucket": "data", "Key": "a/ü b"})
        iam.create_role(RoleName="mine", AssumeRolePolicyDocument="{}")
        logs.create_log_group(logGroupName="jobs")
        logs.create_log_stream(logGroupName="jobs", logStreamName="s")
        events = [{"timestamp": START, "message": "ein Wort: Füße"}]
        logs.put_log_events(logGroupName="jobs", logStreamName="s", logEvents=events)
        heads = {key: s3.head_object(Bucket="data", Key=key) for key in ("a/ü b", "big", "copy", "empty")}
        role = iam.get_role(RoleName="mine")["Role"]
    with local_server() as client:
        s3 = client("s3")
        listed = [item["Key"] for item in s3.list_objects_v2(Bucket="data")["Contents"]]
        assert listed == ["a/ü b", "big", "copy", "empty"]
        assert s3.get_object(Bucket="data", Key="copy")["Body"].read() == b"\x00\xff"
        assert s3.get_object(Bucket="data", Key="big")["Body"].read() == big
        for key, head in heads.items():
            again = s3.head_object(Bucket="data", Key=key)
            for field in ("ETag", "LastModified", "ContentLength", "ContentType", "Metadata"):
                assert again[field] == head[field], (key, field)
        assert heads["a/ü b"]["Metadata"] == {"my_key": "x"}
        assert client("iam").get_role(RoleName="mine")["Role"] == role
        messages = client("logs").get_log_events(logGroupName="jobs", logStreamName="s")["events"]
        assert [event["message"] for event in messages] == ["ein Wort: Füße"]


def test_an_upload_in_parts_can_be_ended_after_a_restart(local_server):
    with local_server() as client:
        client("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        upload = client("s3").create_multipart_upload(Bucket="data", Key="k")["UploadId"]
        part = client("s3").upload_part(Bucket="data", Key="k", UploadId=upload, PartNumber=1, Body=b"part")
    with local_server() as client:
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        client("s3").complete_multipart_upload(Bucket="data", Key="k", UploadId=upload, MultipartUpload=parts)
        assert client("s3").get_object(Bucket="data", Key="k")["Body"].read() == b"part"


def test_bodies_are_files_that_only_their_owner_reads(local_server, tmp_path):
    with local_server() as client:
        client("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        for key in ("one", "two"):
            client("s3").put_object(Bucket="data", Key=key, Body=b"the same")
        with pytest.raises(client("s3").exceptions.NoSuchBucket):
            client("s3").put_object(Bucket="elsewhere", Key="k", Body=b"refused")
    folder = tmp_path / "local" / "s3"
    assert sorted(file.read_bytes() for file in folder.iterdir())[-1] == b"the same"
    assert folder.stat().st_mode & 0o777 == 0o700
    with local_server():
        assert b"refused" not in [file.read_bytes() for file in folder.iterdir()]
    assert b"the same" in [file.read_bytes() for file in folder.iterdir()]


def test_the_log_holds_no_signature_and_no_reads(local_server, tmp_path):
    with local_server() as client:
        set_up(client("batch"))
        submit(client("batch"))
        client("batch").describe_job_queues()
        client("s3").list_buckets()
    text = (tmp_path / "local" / "calls.jsonl").read_text()
    assert (tmp_path / "local" / "calls.jsonl").stat().st_mode & 0o777 == 0o600
    assert "Signature" not in text
    assert "describejobqueues" not in text
    kinds = [json.loads(line)["type"] for line in text.splitlines()]
    assert kinds == ["header", "session", "call", "call", "call", "call"]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_torn_last_line_was_never_acknowledged_and_is_cut(local_server, tmp_path):
    with local_server() as client:
        set_up(client("batch"))
        kept = submit(client("batch"), "kept")
        before = everything(client)
        submit(client("batch"), "torn")
    log = tmp_path / "local" / "calls.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    with local_server() as client:
        told = everything(client)
        assert [job["jobId"] for job in told["jobs"]] == [kept]
        assert told == before
        submit(client("batch"), "another")
    with local_server() as client:
        assert len(everything(client)["jobs"]) == 2


def test_other_damage_is_refused_with_its_line(local_server, tmp_path):
    with local_server() as client:
        set_up(client("batch"))
    log = tmp_path / "local" / "calls.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"gpu", b"gpx")
    log.write_bytes(b"".join(lines))
    with pytest.raises(InvalidFileError) as refused, local_server():
        pass
    problem = refused.value.problems[0]
    assert (problem.file, problem.line) == (str(log), 3)
    assert problem.message == "damaged log: its checksum is wrong"
    assert problem.hint == "`fairshare local start --fresh` puts the old state aside and begins from empty"
    with local_server(fresh=True) as client:
        assert client("batch").describe_job_queues()["jobQueues"] == []


def test_another_outcome_of_a_call_is_refused_with_its_line(local_server, tmp_path, monkeypatch):
    """As when another version of fairshare decides otherwise: acknowledged jobs must not change behind one's back."""
    with local_server() as client:
        set_up(client("batch"))
        submit(client("batch"))
    monkeypatch.setattr("fairshare.local.service_jobs.check_job_name", _refuse)
    with pytest.raises(InvalidFileError, match="the call was answered with 200, and is with 400 now"), local_server():
        pass


def _refuse(name: str) -> None:
    from fairshare.local.errors import ClientException

    raise ClientException("jobName: no")


def test_fresh_puts_the_old_state_aside(local_server, tmp_path, clock):
    with local_server() as client:
        set_up(client("batch"))
        client("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        client("s3").put_object(Bucket="data", Key="k", Body=b"body")
    clock.advance(5)
    with local_server(fresh=True) as client:
        assert client("batch").describe_job_queues()["jobQueues"] == []
    aside = tmp_path / "local" / f"old-{START + 5}"
    assert sorted(path.name for path in aside.iterdir()) == ["calls.jsonl", "s3"]
    with local_server() as client:
        assert client("batch").describe_job_queues()["jobQueues"] == []


def test_a_full_disk_is_an_error_and_nothing_is_acknowledged_any_more(local_server, monkeypatch):
    with local_server() as client:
        set_up(client("batch"))
        with monkeypatch.context() as patched:
            patched.setattr("fairshare.local.write_log.os.write", lambda file, data: 0)
            with pytest.raises(client("batch").exceptions.ClientError) as failed:
                submit(client("batch"))
        assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert "the disk is full" in failed.value.response["Error"]["Message"]
        with pytest.raises(client("batch").exceptions.ClientError, match="no change is accepted any more"):
            submit(client("batch"))
        assert len(client("batch").describe_job_queues()["jobQueues"]) == 1
    with local_server() as client:
        assert everything(client)["jobs"] == []


def test_quota_shares_and_what_was_preempted_outlive_the_server(local_server, clock):
    limit = [{"maxCapacity": 1, "capacityUnit": "ml.g5.xlarge"}]
    off = {"inSharePreemption": "DISABLED"}
    with local_server() as client:
        batch = client("batch")
        batch.create_service_environment(
            serviceEnvironmentName="gpu",
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"maxCapacity": 2, "capacityUnit": "ml.g5.xlarge"}],
        )
        quotas = {"idleResourceAssignmentStrategy": "FIFO"}
        policy = batch.create_scheduling_policy(name="quotas", quotaSharePolicy=quotas)
        batch.create_job_queue(
            jobQueueName="gpu",
            priority=1,
            schedulingPolicyArn=policy["arn"],
            serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}],
        )
        for name, strategy in (("OWN", "LEND"), ("BIG", "LEND_AND_BORROW")):
            batch.create_quota_share(
                quotaShareName=name,
                jobQueue="gpu",
                capacityLimits=limit,
                resourceSharingConfiguration={"strategy": strategy},
                preemptionConfiguration=off,
                tags={"team": name},
            )
        for name, share in (("a", "BIG"), ("b", "BIG"), ("c", "OWN")):
            submit(batch, name, share=None, quotaShareName=share)
        before = look(batch)
        assert before["statuses"] == {"a": "RUNNING", "b": "RUNNABLE", "c": "RUNNING"}
        assert before["preempted"] == {"b": 1}
    with local_server() as client:
        batch = client("batch")
        assert look(batch) == before
        clock.advance(2 * MINUTE)
        after = look(batch)
        assert set(after["statuses"].values()) == {"SUCCEEDED"}
        assert after["preempted"] == {"b": 1}


def look(batch: Any) -> dict[str, Any]:
    """Return what the API tells of a queue with quota shares."""
    after = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]
    jobs = [
        batch.describe_service_job(jobId=job["jobId"])
        for job in batch.list_service_jobs(jobQueue="gpu", filters=after)["jobSummaryList"]
    ]
    shares = batch.list_quota_shares(jobQueue="gpu")["quotaShares"]
    return {
        "shares": [batch.describe_quota_share(quotaShareArn=share["quotaShareArn"])["tags"] for share in shares],
        "terms": shares,
        "statuses": {job["jobName"]: job["status"] for job in jobs},
        "preempted": {
            job["jobName"]: job["preemptionSummary"]["preemptedAttemptCount"]
            for job in jobs
            if "preemptionSummary" in job
        },
        "fronts": batch.get_job_queue_snapshot(jobQueue="gpu")["frontOfQuotaShares"]["quotaShares"],
    }
