"""One suite for both doors of the local AWS: in this process, and over HTTP. A real boto3 client on a virtual clock."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from fairshare.local.call_log import CallLog
from fairshare.local.inprocess import local_aws
from fairshare.local.server import LocalServer
from fairshare.scheduler.clock import Clock, SystemClock, VirtualClock

START = 1_790_000_000_000
ROLE = "arn:aws:iam::123456789012:role/MLTraining"
LOG_GROUP = "/aws/sagemaker/TrainingJobs"


class Door:
    """A way into a local AWS, with what most tests need."""

    def __init__(self, client: Any, clock: VirtualClock, call_log: CallLog, other_clock: Clock) -> None:
        self.other_clock = other_clock
        """What moto's other services have for the present: in this process they look at the machine's clock."""
        self.client = client
        self.clock = clock
        self.call_log = call_log
        self.batch = client("batch")

    def set_up(self, capacity: int = 1, **weights: float) -> None:
        """Environment ``gpu`` and queue ``gpu``: fair-share with weights, else FIFO."""
        self.batch.create_service_environment(
            serviceEnvironmentName="gpu",
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"maxCapacity": capacity, "capacityUnit": "NUM_INSTANCES"}],
        )
        request: dict[str, Any] = {}
        if weights:
            shares = [{"shareIdentifier": name, "weightFactor": weight} for name, weight in weights.items()]
            fairshare = {"shareDecaySeconds": 3600, "shareDistribution": shares}
            answer = self.batch.create_scheduling_policy(name="gpu", fairsharePolicy=fairshare)
            request["schedulingPolicyArn"] = answer["arn"]
        self.batch.create_job_queue(
            jobQueueName="gpu",
            jobQueueType="SAGEMAKER_TRAINING",
            priority=1,
            serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}],
            **request,
        )

    def submit(self, name: str, seconds: float = 60, instances: int = 1, **more: Any) -> str:
        payload = {
            "TrainingJobName": name,
            "RoleArn": ROLE,
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": instances, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
            "HyperParameters": {"lr": "0.1"},
            "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)} | more.pop("environment", {}),
        }
        request = {
            "jobName": name,
            "jobQueue": "gpu",
            "serviceJobType": "SAGEMAKER_TRAINING",
            "serviceRequestPayload": json.dumps(payload),
        } | more
        return str(self.batch.submit_service_job(**request)["jobId"])

    def status(self, job_id: str) -> str:
        return str(self.batch.describe_service_job(jobId=job_id)["status"])

    def training_job(self, job_id: str) -> dict[str, Any]:
        arn = self.batch.describe_service_job(jobId=job_id)["latestAttempt"]["serviceResourceId"]["value"]
        return self.client("sagemaker").describe_training_job(TrainingJobName=arn.rsplit("/", 1)[-1])


@pytest.fixture(scope="module")
def session() -> boto3.session.Session:
    """One for all tests: botocore's service models are read once."""
    return boto3.session.Session(region_name="us-east-1")


@pytest.fixture(params=["in process", "over HTTP"])
def door(request: pytest.FixtureRequest, tmp_path: Path, session: boto3.session.Session) -> Iterator[Door]:
    clock = VirtualClock(START)
    if request.param == "in process":
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        with local_aws(clock) as aws:
            yield Door(lambda service: session.client(service, **keys), clock, aws.call_log, SystemClock())
        return
    with LocalServer(state_dir=tmp_path / "local", clock=clock) as server:
        address = server.address
        keys = {"aws_access_key_id": address.access_key_id, "aws_secret_access_key": address.secret_access_key}
        url = address.endpoint_url
        yield Door(lambda service: session.client(service, endpoint_url=url, **keys), clock, server.call_log, clock)


def test_fs9_the_share_decides_who_goes_next(door):
    door.set_up(capacity=1, HIGHPRI=1, MIDPRI=3, LOWPRI=5)
    jobs = {
        name: door.submit(name, shareIdentifier=share, schedulingPriority=priority)
        for name, share, priority in (
            ("low-1", "LOWPRI", 5),
            ("low-2", "LOWPRI", 5),
            ("mid", "MIDPRI", 3),
            ("high", "HIGHPRI", 1),
        )
    }
    door.clock.advance(4 * 60_000)
    ends = {door.batch.describe_service_job(jobId=job)["stoppedAt"]: name for name, job in jobs.items()}
    assert [ends[end] for end in sorted(ends)] == ["low-1", "high", "mid", "low-2"]


def test_fs11_the_sixth_job_of_ten_instances_waits_for_room_in_fifty(door):
    door.set_up(capacity=50)
    jobs = [door.submit(f"job-{number}", instances=10) for number in range(6)]
    assert [door.status(job) for job in jobs] == ["RUNNING"] * 5 + ["RUNNABLE"]
    door.clock.advance(60_000)
    assert [door.status(job) for job in jobs] == ["SUCCEEDED"] * 5 + ["RUNNING"]


def test_an_error_is_a_modelled_exception_with_a_lower_case_message(door):
    door.set_up(HIGHPRI=1)
    with pytest.raises(door.batch.exceptions.ClientException) as refused:
        door.submit("a")
    response = refused.value.response
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert response["Error"] == {"Code": "ClientException", "Message": "shareIdentifier must be specified."}
    assert response["message"] == "shareIdentifier must be specified."


def test_a_whole_life_of_resources(door):
    door.set_up(HIGHPRI=0.1)
    batch = door.batch
    environment = batch.describe_service_environments()["serviceEnvironments"][0]
    (policy_arn,) = [entry["arn"] for entry in batch.list_scheduling_policies()["schedulingPolicies"]]
    policy = batch.describe_scheduling_policies(arns=[policy_arn])["schedulingPolicies"][0]
    queue = batch.describe_job_queues(jobQueues=["gpu"])["jobQueues"][0]
    assert environment["status"] == queue["status"] == "VALID"
    assert queue["serviceEnvironmentOrder"][0]["serviceEnvironment"] == environment["serviceEnvironmentArn"]
    assert queue["schedulingPolicyArn"] == policy["arn"]
    assert policy["fairsharePolicy"]["shareDistribution"][0]["weightFactor"] == 0.10000000149011612
    batch.update_service_environment(
        serviceEnvironment="gpu", state="DISABLED", capacityLimits=[{"maxCapacity": 3, "capacityUnit": "NUM_INSTANCES"}]
    )
    batch.update_scheduling_policy(arn=policy_arn, fairsharePolicy={"computeReservation": 25})
    batch.update_job_queue(jobQueue="gpu", state="DISABLED", priority=9)
    assert batch.describe_job_queues()["jobQueues"][0]["priority"] == 9
    batch.delete_job_queue(jobQueue="gpu")
    batch.delete_scheduling_policy(arn=policy_arn)
    batch.delete_service_environment(serviceEnvironment="gpu")
    assert batch.describe_job_queues()["jobQueues"] == []
    assert batch.list_scheduling_policies()["schedulingPolicies"] == []
    assert batch.describe_service_environments()["serviceEnvironments"] == []


def test_c31_listed_by_status_by_default_and_by_filter_through_boto3s_paginator(door):
    door.set_up(capacity=2, A=1)
    door.submit("done", seconds=1, shareIdentifier="A")
    failed = door.submit("failed", seconds=1, shareIdentifier="A", environment={"FAIRSHARE_SIM_EXIT_CODE": "1"})
    door.clock.advance(1_000)
    running = [door.submit(f"running-{number}", shareIdentifier="A") for number in range(2)]
    door.clock.advance(1)
    waiting = door.submit("waiting", shareIdentifier="A")
    paginator = door.batch.get_paginator("list_service_jobs")

    def ids(**request: Any) -> list[str]:
        pages = paginator.paginate(jobQueue="gpu", PaginationConfig={"PageSize": 1}, **request)
        return [job["jobId"] for page in pages for job in page["jobSummaryList"]]

    assert ids() == running[::-1]
    assert ids(jobStatus="RUNNABLE") == [waiting]
    assert ids(jobStatus="FAILED") == [failed]
    everything = ids(filters=[{"name": "AFTER_CREATED_AT", "values": ["0"]}])
    assert len(everything) == len(set(everything)) == 5
    assert everything[:3] == [waiting, *running[::-1]]


def test_priority_0_arrives_and_an_update_reorders(door):
    door.set_up(A=1)
    door.submit("runs", shareIdentifier="A")
    zero = door.submit("zero", shareIdentifier="A", schedulingPriority=0)
    one = door.submit("one", shareIdentifier="A", schedulingPriority=1)
    assert door.batch.describe_service_job(jobId=zero)["schedulingPriority"] == 0

    def front() -> list[str]:
        jobs = door.batch.get_job_queue_snapshot(jobQueue="gpu")["frontOfQueue"]["jobs"]
        return [job["jobArn"].rsplit("/", 1)[-1] for job in jobs]

    assert front() == [one, zero]
    door.batch.update_service_job(jobId=zero, schedulingPriority=2)
    assert front() == [zero, one]


def test_terminate_frees_the_room_and_stops_the_training_job(door):
    door.set_up()
    job, following = door.submit("runs"), door.submit("waits")
    assert "ResponseMetadata" in door.batch.terminate_service_job(jobId=job, reason="enough")
    described = door.batch.describe_service_job(jobId=job)
    assert (described["status"], described["statusReason"], described["isTerminated"]) == ("FAILED", "enough", True)
    assert door.training_job(job)["TrainingJobStatus"] == "Stopped"
    assert door.status(following) == "RUNNING"


def test_the_training_job_behind_an_attempt_is_sagemakers(door):
    door.set_up()
    job = door.submit("digits", seconds=90)
    described = door.training_job(job)
    assert (described["TrainingJobStatus"], described["SecondaryStatus"]) == ("InProgress", "Training")
    assert described["RoleArn"] == ROLE
    assert described["HyperParameters"] == {"lr": "0.1"}
    assert described["ResourceConfig"]["InstanceType"] == "ml.g5.xlarge"
    door.clock.advance(90_000)
    described = door.training_job(job)
    assert (described["TrainingJobStatus"], described["BillableTimeInSeconds"]) == ("Completed", 90)
    assert described["TrainingEndTime"].timestamp() * 1000 == START + 90_000
    sagemaker = door.client("sagemaker")
    (summary,) = sagemaker.list_training_jobs(StatusEquals="Completed")["TrainingJobSummaries"]
    assert summary["TrainingJobName"] == described["TrainingJobName"]
    found = sagemaker.search(
        Resource="TrainingJob",
        SearchExpression={
            "Filters": [{"Name": "TrainingJobName", "Operator": "Equals", "Value": described["TrainingJobName"]}]
        },
    )
    assert found["Results"][0]["TrainingJob"]["TrainingJobStatus"] == "Completed"


def test_tags_of_arns_with_any_number_of_slashes(door):
    door.set_up()
    arn = door.batch.describe_service_job(jobId=door.submit("a"))["jobArn"]
    door.batch.tag_resource(resourceArn=arn, tags={"team": "søk", "gone": ""})
    door.batch.untag_resource(resourceArn=arn, tagKeys=["gone"])
    assert door.batch.list_tags_for_resource(resourceArn=arn)["tags"] == {"team": "søk"}
    assert door.batch.describe_service_job(jobId=arn)["tags"] == {"team": "søk"}
    with pytest.raises(door.batch.exceptions.ClientException, match="does not exist"):
        door.batch.list_tags_for_resource(resourceArn="arn:aws:batch:us-east-1:123456789012:job-queue/a/quota-share/b")


def test_moto_still_serves_the_rest_of_batch(door):
    assert door.batch.describe_compute_environments()["computeEnvironments"] == []


def test_a_role_is_there_and_may_do_everything(door):
    iam = door.client("iam")
    role = iam.get_role(RoleName="MLTraining")["Role"]
    assert role["Arn"] == ROLE
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    answer = iam.simulate_principal_policy(
        PolicySourceArn=ROLE, ActionNames=["s3:GetObject", "s3:PutObject"], ResourceArns=["arn:aws:s3:::b/*"]
    )
    decisions = [(result["EvalActionName"], result["EvalDecision"]) for result in answer["EvaluationResults"]]
    assert decisions == [("s3:GetObject", "allowed"), ("s3:PutObject", "allowed")]
    assert answer["IsTruncated"] is False


@pytest.mark.parametrize("arn", ["arn:aws:iam::123456789012:role/Nope", "arn:aws:iam::123456789012:user/me"])
def test_a_role_that_does_not_exist_may_do_nothing(door, arn):
    with pytest.raises(ClientError) as refused:
        door.client("iam").simulate_principal_policy(PolicySourceArn=arn, ActionNames=["s3:GetObject"])
    assert refused.value.response["Error"]["Code"] == "NoSuchEntity"


def test_log_lines_can_be_put_and_read(door):
    logs = door.client("logs")
    stream = "AWSBatchx/algo-1-1790000000"
    logs.create_log_group(logGroupName=LOG_GROUP)
    logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
    now = door.other_clock.now()  # CloudWatch Logs refuses lines that are two weeks old
    events = [{"timestamp": now + number, "message": f"line {number}"} for number in range(3)]
    logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)
    read = logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True)["events"]
    assert [event["message"] for event in read] == ["line 0", "line 1", "line 2"]
    found = logs.filter_log_events(logGroupName=LOG_GROUP, logStreamNamePrefix="AWSBatchx/algo-")["events"]
    assert len(found) == 3


def test_every_call_is_noted_and_writes_are_told_from_reads(door):
    door.set_up(A=1)
    door.call_log.clear()
    door.submit("a", shareIdentifier="A", clientToken="t")
    door.batch.list_service_jobs(jobQueue="gpu")
    door.client("sts").get_caller_identity()
    s3 = door.client("s3")
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="a/b c.json", Body=b"{}", ContentType="application/json")
    s3.get_object(Bucket="bucket", Key="a/b c.json")["Body"].read()
    door.client("cloudwatch").list_metrics()
    calls = [(call.service, call.operation, call.is_write) for call in door.call_log.calls()]
    assert calls == [
        ("batch", "SubmitServiceJob", True),
        ("batch", "ListServiceJobs", False),
        ("sts", "GetCallerIdentity", False),
        ("s3", "CreateBucket", True),
        ("s3", "PutObject", True),
        ("s3", "GetObject", False),
        ("cloudwatch", "ListMetrics", False),
    ]
    assert [call.operation for call in door.call_log.writes()] == ["SubmitServiceJob", "CreateBucket", "PutObject"]
    params = {"jobName": "a", "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING", "shareIdentifier": "A"}
    assert door.call_log.calls()[0].params == params | {"clientToken": "t"}
    assert door.call_log.calls()[4].params == {"Bucket": "bucket", "Key": "a/b c.json"}


def test_what_is_uploaded_is_what_is_read(door):
    """The call log looks into requests; it must not change one."""
    s3 = door.client("s3")
    s3.create_bucket(Bucket="bucket")
    for content_type in ("application/json", "application/x-amz-json-1.1", "text/plain", "application/octet-stream"):
        body = b'{"a": 1}&b=c' * 100
        s3.put_object(Bucket="bucket", Key="key", Body=body, ContentType=content_type)
        assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == body


def test_c22_many_threads_with_shared_tokens_make_each_job_once(door):
    door.set_up(capacity=1000)
    clients = [door.client("batch") for _ in range(4)]
    payload = json.dumps({"ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}})
    errors: list[Exception] = []

    def send(client: Any) -> None:
        try:
            for number in range(15):
                client.submit_service_job(
                    jobName=f"job-{number}",
                    jobQueue="gpu",
                    serviceJobType="SAGEMAKER_TRAINING",
                    serviceRequestPayload=payload,
                    clientToken=f"token-{number}",
                )
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=send, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(door.batch.list_service_jobs(jobQueue="gpu")["jobSummaryList"]) == 15


def test_many_jobs_are_terminated_at_once(door):
    door.set_up(capacity=2)
    jobs = [door.submit(name) for name in "abc"]
    answer = door.batch.terminate_service_jobs(jobs=[*jobs, "nope", "arn:x"], reason="enough")
    assert answer["successful"] == [*jobs, "nope"]
    (error,) = answer["errors"]
    assert (error["job"], error["code"]) == ("arn:x", "ValidationException")
    assert {door.status(job) for job in jobs} == {"FAILED"}


def test_a_training_job_can_be_stopped(door):
    door.set_up()
    job = door.submit("a")
    sagemaker, name = door.client("sagemaker"), door.training_job(job)["TrainingJobName"]
    sagemaker.stop_training_job(TrainingJobName=name)
    assert door.status(job) == "FAILED"
    assert sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "Stopped"
    for unknown, text in ((name, "is in status Stopped."), ("nope", "Requested resource not found.")):
        with pytest.raises(ClientError) as refused:
            sagemaker.stop_training_job(TrainingJobName=unknown)
        assert refused.value.response["Error"]["Code"] == "ValidationException"
        assert refused.value.response["Error"]["Message"].endswith(text)


def failing(*reasons: str) -> dict[str, str]:
    return {"FAIRSHARE_SIM_FAILURES": json.dumps(reasons)}


def test_c34_waiting_for_capacity_uses_no_attempt_and_an_account_limit_does(door):
    door.set_up(capacity=2)
    limited = door.submit("limited", environment=failing("ResourceLimitExceeded: limit is 0, in use 0, asked 1"))
    described = door.batch.describe_service_job(jobId=limited)
    assert (described["status"], described["attempts"]) == ("FAILED", [])
    assert "latestAttempt" not in described
    waits = door.submit(
        "waits",
        environment=failing(*["CapacityError: no p5"] * 5, "AlgorithmError: x"),
        retryStrategy={"attempts": 2},
    )
    described = door.batch.describe_service_job(jobId=waits)
    assert (described["status"], described["attempts"]) == ("RUNNABLE", [])
    assert described["statusReason"].startswith("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - ")
    for _ in range(7):
        door.clock.advance(60_000)
        described = door.batch.describe_service_job(jobId=waits)
    assert described["status"] == "SUCCEEDED"
    ends = [
        attempt["statusReason"].removeprefix("Received status from SageMaker: ") for attempt in described["attempts"]
    ]
    assert ends == ["AlgorithmError: x", "Training job completed"]
    for attempts in (0, 11):
        with pytest.raises(door.batch.exceptions.ClientException, match=r"RetryAttempts must be between 1 and 10\."):
            door.submit("a", retryStrategy={"attempts": attempts})


def test_the_metrics_of_aws_batch_can_be_read(door):
    door.set_up()
    for name in ("a", "b"):
        door.submit(name, seconds=60)
    door.clock.advance(150_000)
    door.batch.list_service_jobs(jobQueue="gpu")
    cloudwatch = door.client("cloudwatch")
    metrics = cloudwatch.list_metrics(Namespace="AWS/Batch", MetricName="JobsSubmitted")["Metrics"]
    assert [metric["Dimensions"] for metric in metrics] == [[{"Name": "JobQueueName", "Value": "gpu"}]]

    def statistics(name: str, unit: str, kind: str) -> list[float]:
        points = cloudwatch.get_metric_statistics(
            Namespace="AWS/Batch",
            MetricName=name,
            Dimensions=[{"Name": "JobQueueName", "Value": "gpu"}],
            StartTime=START / 1000 - 60,
            EndTime=START / 1000 + 3600,
            Period=3600,
            Statistics=[kind],
            Unit=unit,
        )["Datapoints"]
        return [point[kind] for point in points]

    assert statistics("JobsMovedToSucceeded", "Count", "Sum") == [2.0]
    assert statistics("JobAttemptRunnableToScheduledDuration", "Milliseconds", "Maximum") == [60_000.0]


def test_eventbridge_rules_match_the_events(door):
    door.set_up()
    logs, events = door.client("logs"), door.client("events")
    logs.create_log_group(logGroupName="/events")
    pattern = {
        "source": ["aws.batch"],
        "detail-type": ["Batch Service Job State Change"],
        "detail": {"status": ["SUCCEEDED"]},
    }
    events.put_rule(Name="done", EventPattern=json.dumps(pattern))
    events.put_rule(Name="gone", EventPattern=json.dumps(pattern))
    group = "arn:aws:logs:us-east-1:123456789012:log-group:"
    events.put_targets(Rule="done", Targets=[{"Id": "1", "Arn": group + "/events"}])
    events.put_targets(Rule="gone", Targets=[{"Id": "1", "Arn": "arn:aws:lambda:us-east-1:123456789012:function:f"}])
    job = door.submit("a", seconds=60)
    door.clock.advance(60_000)
    assert door.status(job) == "SUCCEEDED"
    streams = logs.describe_log_streams(logGroupName="/events")["logStreams"]
    assert len(streams) == 1
    read = logs.get_log_events(logGroupName="/events", logStreamName=streams[0]["logStreamName"], startFromHead=True)
    event = json.loads(read["events"][0]["message"])
    assert (event["detail"]["jobId"], event["detail"]["status"]) == (job, "SUCCEEDED")
    assert (event["source"], event["time"]) == ("aws.batch", "2026-09-21T14:14:20Z")
