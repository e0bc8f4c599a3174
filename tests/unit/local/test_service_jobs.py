"""Service jobs: submit, describe, update, terminate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairshare.local import environments, job_queues, policies, service_jobs
from fairshare.local.errors import ClientException, ValidationException
from fairshare.local.stop_training_job import stop_training_job

START = 1_790_000_000_000


def payload(**config: Any) -> str:
    return json.dumps({"TrainingJobName": "x", "ResourceConfig": config})


def test_fs9_the_share_decides_who_goes_next(cloud):
    """FS-9: one instance, HIGHPRI 1, MIDPRI 3, LOWPRI 5, decay 3600 s; jobs submitted lowest share first."""
    cloud.fair_queue(capacity=1)
    jobs = {
        name: cloud.submit(name, share, schedulingPriority=priority)
        for name, share, priority in (
            ("low-1", "LOWPRI", 5),
            ("low-2", "LOWPRI", 5),
            ("low-3", "LOWPRI", 5),
            ("mid", "MIDPRI", 3),
            ("high", "HIGHPRI", 1),
        )
    }
    cloud.clock.advance(5 * 60_000)
    ends = {cloud.describe(job)["stoppedAt"]: name for name, job in jobs.items()}
    assert [ends[end] for end in sorted(ends)] == ["low-1", "high", "mid", "low-2", "low-3"]


def test_fs11_the_sixth_job_of_ten_instances_waits_for_room_in_fifty(cloud):
    cloud.fifo_queue(capacity=50)
    jobs = [cloud.submit(f"job-{number}", instances=10) for number in range(6)]
    assert [cloud.status(job) for job in jobs] == ["RUNNING"] * 5 + ["RUNNABLE"]
    cloud.clock.advance(60_000)
    assert [cloud.status(job) for job in jobs] == ["SUCCEEDED"] * 5 + ["RUNNING"]


def test_c16_a_job_larger_than_the_environment_is_accepted_and_never_starts(cloud):
    cloud.fifo_queue(capacity=4)
    fits, too_large = cloud.submit("fits", instances=4), cloud.submit("too-large", instances=8)
    cloud.clock.advance(10**9)
    assert (cloud.status(fits), cloud.status(too_large)) == ("SUCCEEDED", "RUNNABLE")


def test_a_waiting_job_is_described_without_what_is_not_known_yet(cloud):
    cloud.fair_queue()
    cloud.submit("runs", "LOWPRI")
    job = cloud.submit("waits", "HIGHPRI", schedulingPriority=80, tags={"lr": "0.1"}, clientToken="t")
    assert cloud.describe(job) == {
        "jobId": job,
        "jobArn": f"arn:aws:batch:us-west-2:123456789012:service-job/{job}",
        "jobName": "waits",
        "jobQueue": "arn:aws:batch:us-west-2:123456789012:job-queue/gpu",
        "serviceJobType": "SAGEMAKER_TRAINING",
        "status": "RUNNABLE",
        "createdAt": START,
        "attempts": [],
        "capacityUsage": [{"capacityUnit": "ml.g5.xlarge", "quantity": 1.0}],
        "isTerminated": False,
        "retryStrategy": {"attempts": 1},
        "schedulingPriority": 80,
        "shareIdentifier": "HIGHPRI",
        "serviceRequestPayload": cloud.describe(job)["serviceRequestPayload"],
        "tags": {"lr": "0.1"},
    }


def test_a_finished_job_has_times_a_reason_and_its_training_job(cloud):
    cloud.fifo_queue()
    job = cloud.submit("digits", seconds=90, timeoutConfig={"attemptDurationSeconds": 3600})
    cloud.clock.advance(90_000)
    described = cloud.describe(job)
    reason = "Received status from SageMaker: Training job completed"
    assert (described["status"], described["statusReason"]) == ("SUCCEEDED", reason)
    times = [described[name] for name in ("createdAt", "scheduledAt", "startedAt", "stoppedAt")]
    assert times == [START, START, START, START + 90_000]
    arn = f"arn:aws:sagemaker:us-west-2:123456789012:training-job/AWSBatchdigits{2:032x}"
    resource = {"name": "TrainingJobArn", "value": arn}
    assert described["latestAttempt"] == {"serviceResourceId": resource}
    assert described["attempts"] == [
        {"serviceResourceId": resource, "startedAt": START, "stoppedAt": START + 90_000, "statusReason": reason}
    ]
    assert described["timeoutConfig"] == {"attemptDurationSeconds": 3600}


def test_a_job_that_fails_says_why(cloud):
    cloud.fifo_queue()
    job = cloud.submit("bad", seconds=1, environment={"FAIRSHARE_SIM_EXIT_CODE": "3"})
    cloud.clock.advance(1_000)
    described = cloud.describe(job)
    assert described["status"] == "FAILED"
    assert described["statusReason"] == (
        "Received status from SageMaker: AlgorithmError: the job asked to fail (FAIRSHARE_SIM_EXIT_CODE), exit code: 3"
    )
    assert described["attempts"][0]["statusReason"] == described["statusReason"]


def test_described_by_arn_as_the_sdk_does(cloud):
    cloud.fifo_queue()
    job = cloud.submit("a")
    assert cloud.describe(f"arn:aws:batch:us-west-2:123456789012:service-job/{job}")["jobId"] == job


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        (service_jobs.describe_service_job, {}),
        (service_jobs.update_service_job, {"schedulingPriority": 1}),
        (service_jobs.terminate_service_job, {"reason": "r"}),
    ],
)
def test_an_unknown_job_is_refused(cloud, operation, request_):
    with pytest.raises(ClientException, match=r"^Service job nope not found\.$"):
        cloud.call(operation, jobId="nope", **request_)


# -- what is refused at submission ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"jobQueue": "nope"}, "JobQueue nope not found."),
        ({"jobName": "llama.7b"}, "Job name should match valid pattern"),
        ({"jobName": "_warmup"}, "Job name should match valid pattern"),
        ({"jobName": "a" * 129}, "Job name should match valid pattern"),
        ({"serviceJobType": "OTHER"}, "serviceJobType: 'OTHER' is unknown (SAGEMAKER_TRAINING)"),
        ({"retryStrategy": {}}, "RetryAttempts must be provided with retry strategy."),
        ({"retryStrategy": {"attempts": 0}}, "RetryAttempts must be between 1 and 10."),
        ({"retryStrategy": {"attempts": 11}}, "RetryAttempts must be between 1 and 10."),
        (
            {"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "EXIT"}] * 6}},
            "evaluateOnExit: 6 rules are too many (at most 5)",
        ),
        (
            {"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "STAY"}]}},
            "evaluateOnExit: action 'STAY' is unknown (RETRY or EXIT)",
        ),
        (
            {"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"action": "EXIT", "onStatusReason": "x" * 513}]}},
            "Evaluate on exit condition cannot exceed 512 characters.",
        ),
        (
            {"timeoutConfig": {"attemptDurationSeconds": 59}},
            "AttemptDurationSeconds in Timeout must be at least 60 seconds.",
        ),
        ({"clientToken": "x" * 65}, "clientToken: it has 65 characters (1 - 64)"),
        ({"tags": {"aws:x": "y"}}, "tags: key aws:x is reserved (keys must not start with aws:)"),
        ({"tags": {f"k{n}": "v" for n in range(51)}}, "tags: 51 are too many (at most 50)"),
        ({"quotaShareName": "QS1"}, "quotaShareName: gpu has no quota shares (leave it out)"),
        ({"serviceRequestPayload": "[]"}, "serviceRequestPayload: not a JSON object (a CreateTrainingJob request)"),
        (
            {"serviceRequestPayload": "{}"},
            "serviceRequestPayload: ResourceConfig is missing (Batch reads the instance count in it)",
        ),
        (
            {"serviceRequestPayload": payload(InstanceCount=0)},
            "serviceRequestPayload: InstanceCount is 0 (a whole number of at least 1)",
        ),
        (
            {"serviceRequestPayload": payload(InstanceType="ml.g5.xlarge")},
            "serviceRequestPayload: InstanceCount is None (a whole number of at least 1)",
        ),
        (
            {"serviceRequestPayload": payload(InstanceCount=True)},
            "serviceRequestPayload: InstanceCount is True (a whole number of at least 1)",
        ),
        (
            {"serviceRequestPayload": json.dumps("é" * 5200, ensure_ascii=False)},
            "serviceRequestPayload: 10402 bytes are too many (at most 10240)",
        ),
    ],
)
def test_a_wrong_request_is_refused_and_makes_no_job(cloud, change, text):
    cloud.fifo_queue()
    with pytest.raises(ClientException) as refused:
        cloud.submit("a", **change)
    assert str(refused.value) == text
    assert cloud.status(cloud.submit("next")) == "RUNNING"


def test_a_payload_that_is_no_json_is_refused(cloud):
    cloud.fifo_queue()
    with pytest.raises(ClientException, match=r"^serviceRequestPayload: not JSON, Expecting"):
        cloud.submit("a", serviceRequestPayload="{'x'}")


def test_a_request_is_at_most_30_kib(cloud):
    cloud.fifo_queue()
    tags = {f"key-{number:02}": "é" * 256 for number in range(45)}
    large = " " * 9000 + payload(InstanceCount=1)
    with pytest.raises(ClientException, match=r"^SubmitServiceJob: \d+ bytes are too many for one request"):
        cloud.submit("a", tags=tags, serviceRequestPayload=large)
    assert cloud.status(cloud.submit("a", serviceRequestPayload=large)) == "RUNNING"


def test_awss_own_retry_rules_are_accepted_and_described(cloud):
    cloud.fifo_queue()
    strategy = {"attempts": 3, "evaluateOnExit": [{"action": "Retry", "onStatusReason": "*CapacityError*"}]}
    assert cloud.describe(cloud.submit("a", retryStrategy=strategy))["retryStrategy"] == strategy


def test_a_disabled_queue_takes_no_jobs_but_finishes_what_it_has(cloud):
    cloud.fifo_queue()
    jobs = [cloud.submit("a"), cloud.submit("b")]
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    with pytest.raises(ClientException, match=r"^jobQueue: gpu is DISABLED \(only an ENABLED queue takes jobs\)$"):
        cloud.submit("c")
    cloud.clock.advance(120_000)
    assert [cloud.status(job) for job in jobs] == ["SUCCEEDED", "SUCCEEDED"]


# -- shares and priorities --------------------------------------------------------------------------------------------


def test_c17_a_fair_share_queue_needs_a_share_and_a_fifo_queue_refuses_one(cloud):
    cloud.fair_queue()
    with pytest.raises(ClientException, match=r"^shareIdentifier must be specified\.$"):
        cloud.submit("a")
    with pytest.raises(ClientException, match=r"^ShareIdentifier name should match a valid pattern\.$"):
        cloud.submit("a", "HIGH*")
    cloud.queue("fifo")
    fifo_text = (
        "Job with shareIdentifier or schedulingPriority can onlybe submitted to job queue with fair share scheduling "
        "policy."
    )
    for extra in ({"shareIdentifier": "HIGHPRI"}, {"schedulingPriority": 0}):
        with pytest.raises(ClientException) as refused:
            cloud.submit("a", jobQueue="fifo", **extra)
        assert str(refused.value) == fifo_text


def test_c17_a_share_the_policy_does_not_list_is_accepted(cloud):
    cloud.fair_queue()
    assert cloud.status(cloud.submit("a", "highpri")) == "RUNNING"


def test_a_queue_has_at_most_500_active_shares(cloud):
    cloud.fair_queue()
    jobs = [cloud.submit("a", f"S{number}") for number in range(500)]
    with pytest.raises(ClientException, match=r"^shareIdentifier: gpu has 500 active ones \(at most 500\)$"):
        cloud.submit("a", "S500")
    cloud.submit("a", "S499")
    cloud.call(service_jobs.terminate_service_job, jobId=jobs[0], reason="room")
    cloud.submit("a", "S500")


@pytest.mark.parametrize("priority", [-1, 10_000])
def test_priorities_out_of_range_are_refused(cloud, priority):
    cloud.fair_queue()
    text = r"^Scheduling priority must be between 0 and 9999\.$"
    with pytest.raises(ClientException, match=text):
        cloud.submit("a", "A", schedulingPriority=priority)
    job = cloud.submit("a", "A")
    with pytest.raises(ClientException, match=text):
        cloud.call(service_jobs.update_service_job, jobId=job, schedulingPriority=priority)


def test_c08_priority_0_is_a_priority_and_none_is_not_one(cloud):
    cloud.fair_queue()
    assert cloud.describe(cloud.submit("a", "A", schedulingPriority=0))["schedulingPriority"] == 0
    assert "schedulingPriority" not in cloud.describe(cloud.submit("b", "A"))


def test_an_updated_priority_orders_the_share(cloud):
    cloud.fair_queue()
    cloud.submit("runs", "A")
    first, second = cloud.submit("first", "A"), cloud.submit("second", "A")
    answer = cloud.call(service_jobs.update_service_job, jobId=second, schedulingPriority=9)
    assert (answer["jobId"], answer["jobName"]) == (second, "second")
    cloud.clock.advance(60_000)
    assert (cloud.status(first), cloud.status(second)) == ("RUNNABLE", "RUNNING")
    assert cloud.describe(second)["schedulingPriority"] == 9


def test_an_updated_priority_has_no_effect_without_shares(cloud):
    cloud.fifo_queue()
    cloud.submit("runs")
    first, second = cloud.submit("first"), cloud.submit("second")
    cloud.call(service_jobs.update_service_job, jobId=second, schedulingPriority=9)
    cloud.clock.advance(60_000)
    assert (cloud.status(first), cloud.status(second)) == ("RUNNING", "RUNNABLE")


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_c22_the_same_request_again_makes_no_second_job(cloud):
    cloud.fifo_queue()
    jobs = {cloud.submit("a", clientToken="token") for _ in range(3)}
    assert len(jobs) == 1
    assert cloud.submit("a", clientToken="another") not in jobs
    assert cloud.submit("a") != cloud.submit("a")


def test_c22_a_repeated_token_can_be_rejected_as_aws_s_text_says(cloud, faults):
    cloud.fifo_queue()
    job = cloud.submit("a", clientToken="token")
    faults.replace(("repeated_token=reject",))
    with pytest.raises(ClientException, match=f"^clientToken: it was used before, for the service job {job} "):
        cloud.submit("a", clientToken="token")
    assert cloud.submit("a", clientToken="another") != job


def test_a_token_stands_for_one_request(cloud):
    cloud.fifo_queue()
    cloud.submit("a", clientToken="token")
    with pytest.raises(ClientException, match=r"^clientToken: it was used with another request"):
        cloud.submit("b", clientToken="token")


def test_the_same_request_is_answered_even_when_the_queue_takes_no_jobs_any_more(cloud):
    cloud.fifo_queue()
    job = cloud.submit("a", clientToken="token")
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    assert cloud.submit("a", clientToken="token") == job


# -- terminate --------------------------------------------------------------------------------------------------------


def test_a_waiting_job_ends_at_once_and_never_had_an_attempt(cloud):
    cloud.fifo_queue()
    cloud.submit("runs")
    job = cloud.submit("waits")
    cloud.call(service_jobs.terminate_service_job, jobId=job, reason="changed my mind")
    described = cloud.describe(job)
    assert (described["status"], described["statusReason"]) == ("FAILED", "changed my mind")
    assert (described["isTerminated"], described["attempts"]) == (True, [])


def test_a_running_job_is_stopped_and_gives_its_room_to_the_next(cloud):
    cloud.fifo_queue()
    job, following = cloud.submit("runs"), cloud.submit("waits")
    cloud.clock.advance(10_000)
    cloud.call(service_jobs.terminate_service_job, jobId=job, reason="enough")
    described = cloud.describe(job)
    assert (described["status"], described["statusReason"], described["stoppedAt"]) == (
        "FAILED",
        "enough",
        START + 10_000,
    )
    assert described["attempts"][0]["statusReason"] == "enough"
    assert cloud.status(following) == "RUNNING"
    training_job = next(iter(cloud.training_jobs.values()))
    assert (training_job.status, training_job.failure_reason) == ("Stopped", None)


def test_terminating_a_finished_job_has_no_effect(cloud):
    cloud.fifo_queue()
    job = cloud.submit("a", seconds=1)
    cloud.clock.advance(1_000)
    before = cloud.describe(job)
    cloud.call(service_jobs.terminate_service_job, jobId=job, reason="late")
    assert cloud.describe(job) == before


def test_a_heterogeneous_cluster_counts_all_its_groups(cloud):
    cloud.fifo_queue(capacity=5)
    groups = [
        {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "InstanceGroupName": "a"},
        {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "InstanceGroupName": "b"},
    ]
    jobs = [cloud.submit(name, serviceRequestPayload=payload(InstanceGroups=groups)) for name in "ab"]
    assert cloud.describe(jobs[0])["capacityUsage"] == [
        {"capacityUnit": "ml.g5.xlarge", "quantity": 2.0},
        {"capacityUnit": "ml.c5.xlarge", "quantity": 1.0},
    ]
    assert [cloud.status(job) for job in jobs] == ["RUNNING", "RUNNABLE"]


# -- many at once -----------------------------------------------------------------------------------------------------


def test_many_are_terminated_at_once_and_unknown_ones_count_as_ended(cloud):
    cloud.fifo_queue()
    jobs = [cloud.submit("runs"), cloud.submit("waits")]
    arn = "arn:aws:batch:us-west-2:123456789012:service-job/"
    references = [jobs[0], arn + jobs[1], "nope", arn + "nope"]
    answer = cloud.call(service_jobs.terminate_service_jobs, jobs=references, reason="enough")
    assert answer == {"successful": references, "errors": []}
    assert [cloud.describe(job)["statusReason"] for job in jobs] == ["enough", "enough"]
    assert [cloud.status(job) for job in jobs] == ["FAILED", "FAILED"]


def test_what_is_no_job_is_an_error_of_its_own(cloud):
    cloud.fifo_queue()
    job, queue = cloud.submit("runs"), "arn:aws:batch:us-west-2:123456789012:job-queue/gpu"
    answer = cloud.call(service_jobs.terminate_service_jobs, jobs=["", queue, job], reason="enough")
    assert answer["successful"] == [job]
    assert answer["errors"] == [
        {
            "job": reference,
            "code": "ValidationException",
            "message": f"jobs: {reference!r} is no service job (an id or the ARN of one)",
        }
        for reference in ("", queue)
    ]
    assert cloud.status(job) == "FAILED"


@pytest.mark.parametrize("count", [0, 51])
def test_1_to_50_jobs_are_terminated_at_once(cloud, count):
    with pytest.raises(ClientException) as refused:
        cloud.call(service_jobs.terminate_service_jobs, jobs=["x"] * count, reason="enough")
    assert str(refused.value) == f"jobs: {count} were given (1 - 50)"


# -- what SageMaker refuses, and who stops it there --------------------------------------------------------------------


def test_a_payload_with_a_wrong_type_fails_when_it_is_dispatched_and_has_no_training_job(cloud):
    cloud.fifo_queue()
    request = {
        "TrainingJobName": "x",
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        "HyperParameters": {"lr": 0.1},
    }
    job = cloud.submit("a", serviceRequestPayload=json.dumps(request))
    described = cloud.describe(job)
    assert (described["status"], described["attempts"]) == ("FAILED", [])
    assert described["statusReason"] == (
        "Received status from SageMaker: ValidationException: HyperParameters.lr: 0.1 has the wrong type (a string)"
    )
    assert "latestAttempt" not in described
    assert cloud.training_jobs == {}


def test_an_account_limit_fails_a_job_that_then_has_no_attempts(cloud):
    cloud.fifo_queue()
    reason = (
        "ResourceLimitExceeded: The account-level service limit 'ml.p5.48xlarge for training job usage' is 10 Instances"
    )
    job = cloud.submit("a", environment={"FAIRSHARE_SIM_FAILURES": json.dumps([reason])})
    described = cloud.describe(job)
    assert (described["status"], described["attempts"]) == ("FAILED", [])
    assert described["statusReason"] == f"Received status from SageMaker: {reason}"


def test_a_failure_reason_has_at_most_1024_characters_in_sagemaker(cloud):
    cloud.fifo_queue()
    failures = json.dumps(["AlgorithmError: " + "x" * 2000])
    job = cloud.submit("a", seconds=1, environment={"FAIRSHARE_SIM_FAILURES": failures})
    cloud.clock.advance(1_000)
    assert cloud.status(job) == "FAILED"
    (training_job,) = cloud.training_jobs.values()
    assert len(training_job.describe()["FailureReason"]) == 1024


def test_stop_training_job_fails_the_job_without_terminating_it(cloud):
    cloud.fifo_queue()
    job, following = cloud.submit("a"), cloud.submit("b")
    cloud.clock.advance(10_000)
    name = next(iter(cloud.training_jobs))
    cloud.call(stop_training_job, TrainingJobName=name)
    described = cloud.describe(job)
    assert (described["status"], described["isTerminated"]) == ("FAILED", False)
    assert described["statusReason"] == "Received status from SageMaker: Training job stopped"
    assert described["stoppedAt"] == START + 10_000
    assert cloud.training_jobs[name].describe()["TrainingJobStatus"] == "Stopped"
    assert cloud.status(following) == "RUNNING"
    with pytest.raises(ValidationException) as refused:
        cloud.call(stop_training_job, TrainingJobName=name)
    assert str(refused.value) == "The request was rejected because the training job is in status Stopped."


def test_stopping_an_unknown_training_job_is_refused(cloud):
    with pytest.raises(ValidationException, match=r"^Requested resource not found\.$"):
        cloud.call(stop_training_job, TrainingJobName="nope")


def test_the_priority_of_a_job_that_has_ended_stays(cloud):
    cloud.fair_queue()
    job = cloud.submit("a", "HIGHPRI", seconds=1, schedulingPriority=3)
    cloud.clock.advance(1_000)
    cloud.call(service_jobs.update_service_job, jobId=job, schedulingPriority=9)
    assert cloud.describe(job)["schedulingPriority"] == 3


# -- which way weights and reservation work ----------------------------------------------------------------------------


def running(cloud, jobs):
    return sum(cloud.status(job) == "RUNNING" for job in jobs)


def test_c33_the_lower_weight_gets_more(cloud):
    """20 instances, HIGHPRI 0.25 and LOWPRI 1.0: 16 to 4."""
    cloud.environment(capacity=20)
    cloud.queue(policy=cloud.policy(HIGHPRI=0.25, LOWPRI=1.0))
    cloud.call(environments.update_service_environment, serviceEnvironment="gpu", state="DISABLED")
    jobs = {share: [cloud.submit("x", share) for _ in range(20)] for share in ("LOWPRI", "HIGHPRI")}
    cloud.call(environments.update_service_environment, serviceEnvironment="gpu", state="ENABLED")
    assert {share: running(cloud, ids) for share, ids in jobs.items()} == {"HIGHPRI": 16, "LOWPRI": 4}


def test_c33_the_reserve_shrinks_with_each_active_share(cloud):
    """40 instances, computeReservation 50: 20, 10 and 5 are kept free for shares that may come."""
    cloud.environment(capacity=40)
    policy = cloud.call(policies.create_scheduling_policy, name="p", fairsharePolicy={"computeReservation": 50})["arn"]
    cloud.queue(policy=policy)
    jobs: list[str] = []
    used = []
    for share in ("A", "B", "C"):
        jobs += [cloud.submit("x", share) for _ in range(40)]
        used.append(running(cloud, jobs))
    assert used == [20, 30, 35]


@pytest.mark.parametrize(
    ("fairshare", "text"),
    [
        ({"shareDecaySeconds": 604_801}, "shareDecaySeconds: 604801 is out of range (0 - 604800)"),
        ({"computeReservation": 100}, "computeReservation: 100 is out of range (0 - 99)"),
    ],
)
def test_c33_what_is_out_of_range_is_refused(cloud, fairshare, text):
    with pytest.raises(ClientException) as refused:
        cloud.call(policies.create_scheduling_policy, name="p", fairsharePolicy=fairshare)
    assert str(refused.value) == text
    cloud.call(policies.create_scheduling_policy, name="p", fairsharePolicy={"shareDecaySeconds": 0})
