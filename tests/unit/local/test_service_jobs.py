"""Service jobs: submit, describe, update, terminate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairshare.local import job_queues, service_jobs
from fairshare.local.errors import ClientException

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
