from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.parsers import ResponseParserError
from botocore.stub import Stubber

from fairshare.aws.jobs import BatchJobs, submit_request
from fairshare.model import (
    CredentialsError,
    FrontOfQueueJob,
    JobAttempt,
    JobRef,
    JobRequest,
    JobStatus,
    NotFoundError,
    QueueSnapshot,
    ServiceError,
    ThrottledError,
)

TRAINING_JOB = "arn:aws:sagemaker:us-west-2:111122223333:training-job/AWSBatchdigits88b610a69aa8380ca5b0a7aba3f81cb8"
LATEST = {"serviceResourceId": {"name": "TrainingJobArn", "value": TRAINING_JOB}}
REQUEST = JobRequest(job_name="digits", job_queue="ml-gpu", payload='{"a":1}', client_token="t" * 64)
SUBMIT = {
    "jobName": "digits",
    "jobQueue": "ml-gpu",
    "serviceJobType": "SAGEMAKER_TRAINING",
    "serviceRequestPayload": '{"a":1}',
    "clientToken": "t" * 64,
}


def entry(job_id: str, status: str = "RUNNING", created_at: int = 1, **fields: Any) -> dict[str, Any]:
    """One entry of ListServiceJobs."""
    required = {"jobId": job_id, "jobName": job_id, "serviceJobType": "SAGEMAKER_TRAINING"}
    return required | {"status": status, "createdAt": created_at, "jobArn": f"arn:{job_id}"} | fields


@pytest.fixture
def batch(stubbed: Callable[[str], tuple[Any, Stubber]], session_of: Callable[..., Any]) -> tuple[BatchJobs, Stubber]:
    """The adapter on a client that answers from a Stubber, which checks requests and answers against AWS's model."""
    client, stubber = stubbed("batch")
    return BatchJobs(session_of(batch=client)), stubber


class Listing:
    """ListServiceJobs over a fixed queue, with AWS's rules: RUNNING by default, a filter beats the status."""

    def __init__(self, jobs: list[dict[str, Any]], page: int = 100) -> None:
        self.jobs = jobs
        self._page = page

    def list_service_jobs(self, **request: Any) -> dict[str, Any]:
        jobs = self.jobs
        for one in request.get("filters", []):
            if one["name"] == "JOB_NAME":
                jobs = [job for job in jobs if job["jobName"].lower() == one["values"][0].lower()]
        if not request.get("filters"):
            jobs = [job for job in jobs if job["status"] == request.get("jobStatus", "RUNNING")]
        start = int(request.get("nextToken", 0))
        page: dict[str, Any] = {"jobSummaryList": jobs[start : start + self._page]}
        return page | ({"nextToken": str(start + self._page)} if start + self._page < len(jobs) else {})


@pytest.fixture
def jobs_over(checked: Callable[[str, Any], Any], session_of: Callable[..., Any]) -> Callable[[Any], Any]:
    """The adapter over a fake client, and the checked client for its calls."""

    def make(fake: Any) -> tuple[BatchJobs, Any]:
        client = checked("batch", fake)
        return BatchJobs(session_of(batch=client)), client

    return make


# -- submit ----------------------------------------------------------------------------------------------------------


def test_submit_sends_what_was_frozen_and_nothing_else(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_response("submit_service_job", {"jobId": "id-1", "jobName": "digits", "jobArn": "arn:1"}, SUBMIT)

    assert jobs.submit(REQUEST) == JobRef("id-1", "arn:1", "digits")
    stubber.assert_no_pending_responses()


def test_submit_sends_every_option() -> None:
    request = JobRequest(
        **{name: getattr(REQUEST, name) for name in ("job_name", "job_queue", "payload", "client_token")},
        share_identifier="HIGHPRI",
        scheduling_priority=80,
        retry_strategy={"attempts": 2, "evaluate_on_exit": [{"action": "EXIT", "on_status_reason": "*"}]},
        attempt_duration_seconds=3600,
        tags={"fairshare:run": "lunar-otter", "Some_Tag": ""},
    )

    assert submit_request(request) == SUBMIT | {
        "shareIdentifier": "HIGHPRI",
        "schedulingPriority": 80,
        "retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "EXIT", "onStatusReason": "*"}]},
        "timeoutConfig": {"attemptDurationSeconds": 3600},
        "tags": {"fairshare:run": "lunar-otter", "Some_Tag": ""},
    }


@pytest.mark.parametrize("retries", [None, 0, 3])
def test_c08_no_preemption_retry_is_sent_and_no_limit_is_not(
    batch: tuple[BatchJobs, Stubber], retries: int | None
) -> None:
    jobs, stubber = batch
    quota = {"quotaShareName": "TEAMA"}
    if retries is not None:
        quota |= {"preemptionConfiguration": {"preemptionRetriesBeforeTermination": retries}}  # type: ignore[dict-item]
    stubber.add_response("submit_service_job", {"jobId": "id-1", "jobName": "digits", "jobArn": "a"}, SUBMIT | quota)

    jobs.submit(replace(REQUEST, quota_share="TEAMA", preemption_retries=retries))

    stubber.assert_no_pending_responses()


def test_c08_a_priority_of_0_is_sent_and_none_is_not() -> None:
    common = {"job_name": "a", "job_queue": "q", "payload": "{}", "client_token": "t"}

    assert submit_request(JobRequest(**common, scheduling_priority=0))["schedulingPriority"] == 0
    assert "schedulingPriority" not in submit_request(JobRequest(**common))


def test_submit_is_one_call_that_botocore_does_not_repeat(
    stubbed: Callable[[str], tuple[Any, Stubber]], session_of: Callable[..., Any]
) -> None:
    client, stubber = stubbed("batch")
    session = session_of(batch=client)
    stubber.add_response("submit_service_job", {"jobId": "id-1", "jobName": "digits"})

    BatchJobs(session).submit(REQUEST)

    assert session.asked == [("batch", 0)]


@pytest.mark.parametrize(
    ("code", "status", "transient"),
    [
        ("TooManyRequestsException", 429, True),
        ("ServerException", 500, True),
        ("ClientException", 400, False),
    ],
)
def test_submit_leaves_the_answer_to_the_caller(
    batch: tuple[BatchJobs, Stubber], code: str, status: int, transient: bool
) -> None:
    jobs, stubber = batch
    stubber.add_client_error("submit_service_job", code, "JobQueue ml-gpu not found.", status)

    with pytest.raises(ServiceError, match=r"Cannot submit job digits: JobQueue ml-gpu not found\.") as caught:
        jobs.submit(REQUEST)

    assert (caught.value.aws_code, caught.value.http_status) == (code, status)
    assert caught.value.is_transient is transient


@pytest.mark.parametrize("answer", [{}, ResponseParserError("Unable to parse response")])
def test_c22_an_answer_that_was_cut_off_is_no_answer(
    session_of: Callable[..., Any], answer: dict[str, Any] | ResponseParserError
) -> None:
    class Cut:
        def submit_service_job(self, **request: Any) -> dict[str, Any]:
            if isinstance(answer, Exception):
                raise answer
            return answer

    with pytest.raises(ServiceError, match="Cannot submit job digits: the answer was cut off") as caught:
        BatchJobs(session_of(batch=Cut())).submit(REQUEST)

    assert caught.value.http_status is None
    assert caught.value.is_transient


def test_submit_with_expired_credentials_is_no_service_error(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_client_error("submit_service_job", "ExpiredTokenException", "expired", 403)

    with pytest.raises(CredentialsError, match="expired"):
        jobs.submit(REQUEST)


# -- list and find ---------------------------------------------------------------------------------------------------


def test_c31_every_status_is_listed_with_one_filter(jobs_over: Callable[[Any], Any]) -> None:
    statuses = ["RUNNABLE", "RUNNABLE", "SCHEDULED", "STARTING", "RUNNING", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    fake = Listing(
        [entry(f"job-{number}", status, number) for number, status in enumerate(statuses)]
        + [entry("stopped", "FAILED", 20, statusReason="Stopped", isTerminated=True), entry("odd", "REHEARSING", 30)]
    )
    jobs, client = jobs_over(fake)

    found = jobs.list("ml-gpu")

    assert [job.job_id for job in found] == ["odd", "stopped", *(f"job-{number}" for number in reversed(range(8)))]
    assert found[0].status == "REHEARSING"
    assert (found[1].status, found[1].status_reason, found[1].is_terminated) == ("FAILED", "Stopped", True)
    assert client.calls == [
        (
            "list_service_jobs",
            {"jobQueue": "ml-gpu", "maxResults": 100, "filters": [{"name": "AFTER_CREATED_AT", "values": ["0"]}]},
        )
    ]


def test_statuses_are_listed_one_by_one_in_life_cycle_order(jobs_over: Callable[[Any], Any]) -> None:
    fake = Listing([entry("a", "RUNNABLE", 1), entry("b", "RUNNING", 2), entry("c", "FAILED", 3)])
    jobs, client = jobs_over(fake)

    found = jobs.list("ml-gpu", {JobStatus.RUNNING, JobStatus.RUNNABLE})

    assert [(job.job_id, job.status) for job in found] == [("b", "RUNNING"), ("a", "RUNNABLE")]
    assert [request["jobStatus"] for _, request in client.calls] == ["RUNNABLE", "RUNNING"]
    assert jobs.list("ml-gpu", []) == []


def test_a_job_that_moves_on_between_two_listings_is_listed_once(jobs_over: Callable[[Any], Any]) -> None:
    class Moving(Listing):
        def list_service_jobs(self, **request: Any) -> dict[str, Any]:
            answer = super().list_service_jobs(**request)
            self.jobs = [entry("a", "RUNNING")]
            return answer

    jobs, _ = jobs_over(Moving([entry("a", "RUNNABLE")]))

    assert [job.status for job in jobs.list("ml-gpu", {JobStatus.RUNNABLE, JobStatus.RUNNING})] == ["RUNNING"]


def test_c30_1500_pages_of_one_job(jobs_over: Callable[[Any], Any]) -> None:
    jobs, client = jobs_over(Listing([entry(f"job-{number}", created_at=number) for number in range(1_500)], page=1))

    assert len(jobs.list("ml-gpu")) == 1_500
    assert len(client.calls) == 1_500


def test_c30_an_empty_page_is_not_the_end(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_response("list_service_jobs", {"jobSummaryList": [], "nextToken": "a"})
    stubber.add_response("list_service_jobs", {"jobSummaryList": [entry("late")]})

    assert [job.job_id for job in jobs.list("ml-gpu")] == ["late"]


def test_c30_a_repeated_token_is_an_error(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    for _ in range(2):
        stubber.add_response("list_service_jobs", {"jobSummaryList": [entry("a")], "nextToken": "same"})

    with pytest.raises(ServiceError, match="repeated a page token"):
        jobs.list("ml-gpu")


def test_c49_a_page_holds_100_jobs(jobs_over: Callable[[Any], Any]) -> None:
    jobs, client = jobs_over(Listing([entry(f"job-{number}") for number in range(301)]))

    assert len(jobs.list("ml-gpu")) == 301
    assert len(client.calls) == 4


def test_c49_a_walk_asks_for_a_page_when_it_is_wanted(jobs_over: Callable[[Any], Any]) -> None:
    jobs, client = jobs_over(Listing([entry(f"job-{number}", created_at=number) for number in range(900)]))

    walk = jobs.walk("ml-gpu", created_before=5_000)

    assert [len(page) for page in (next(walk), next(walk))] == [100, 100]
    filters = [{"name": "BEFORE_CREATED_AT", "values": ["5000"]}]
    assert client.calls[0] == ("list_service_jobs", {"jobQueue": "ml-gpu", "maxResults": 100, "filters": filters})
    assert len(client.calls) == 2


def test_a_summary_is_read_whole_and_carries_no_priority(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    usage = [{"capacityUnit": "ml.g5.xlarge", "quantity": 2.0}, {"capacityUnit": "ml.c5.xlarge", "quantity": 1.0}]
    times = {"scheduledAt": 2, "startedAt": 3, "stoppedAt": 4}
    one = entry("a", capacityUsage=usage, latestAttempt=LATEST, shareIdentifier="HIGHPRI", **times)
    stubber.add_response("list_service_jobs", {"jobSummaryList": [one, {**entry("b"), "capacityUsage": []}]})

    first, second = jobs.list("ml-gpu")

    assert (first.instances, first.share_identifier, first.scheduling_priority) == (3, "HIGHPRI", None)
    assert (first.created_at, first.scheduled_at, first.started_at, first.stopped_at) == (1, 2, 3, 4)
    assert first.training_job_name == "AWSBatchdigits88b610a69aa8380ca5b0a7aba3f81cb8"
    assert (second.instances, second.training_job_name, second.started_at) == (0, None, None)


def test_a_summary_tells_its_quota_share(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_response("list_service_jobs", {"jobSummaryList": [entry("a", quotaShareName="TEAMA"), entry("b")]})

    first, second = jobs.list("ml-gpu")

    assert (first.quota_share, first.share_identifier, first.share) == ("TEAMA", None, "TEAMA")
    assert (second.quota_share, second.share) == (None, None)


def test_an_unknown_queue_is_not_found(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_client_error("list_service_jobs", "ClientException", "JobQueue nope not found.", 400)

    with pytest.raises(NotFoundError, match=r"Cannot list the jobs of queue nope: JobQueue nope not found\."):
        jobs.list("nope")


def test_throttling_of_a_listing_is_told_after_the_retries(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_client_error("list_service_jobs", "TooManyRequestsException", "Too Many Requests", 429)

    with pytest.raises(ThrottledError, match="Too Many Requests"):
        jobs.list("ml-gpu")


def test_find_takes_the_newest_of_exactly_that_name(jobs_over: Callable[[Any], Any]) -> None:
    fake = Listing(
        [
            entry("1", "FAILED", 10, jobName="digits"),
            entry("2", "SUCCEEDED", 20, jobName="digits"),
            entry("3", "RUNNING", 30, jobName="DIGITS"),
        ]
    )
    jobs, client = jobs_over(fake)

    found = jobs.find("ml-gpu", "digits")

    assert found is not None
    assert found.job_id == "2"
    assert client.calls[0][1]["filters"] == [{"name": "JOB_NAME", "values": ["digits"]}]
    assert jobs.find("ml-gpu", "other") is None


# -- the rest --------------------------------------------------------------------------------------------------------


def detail(job_id: str, **fields: Any) -> dict[str, Any]:
    """The answer of DescribeServiceJob."""
    return entry(job_id, jobQueue="arn:queue", startedAt=5) | fields


def test_describe_reads_details_and_leaves_out_what_is_not_known(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    attempt = LATEST | {"startedAt": 7, "stoppedAt": 9, "statusReason": "CapacityError"}
    answer = detail(
        "a",
        schedulingPriority=0,
        serviceRequestPayload='{"TrainingJobName": "digits"}',
        attempts=[attempt, {}],
        timeoutConfig={"attemptDurationSeconds": 60},
        tags={"Some_Tag": "x"},
    )
    stubber.add_response("describe_service_job", answer, {"jobId": "a"})
    stubber.add_client_error("describe_service_job", "ClientException", "Job gone not found", 400)
    stubber.add_client_error("describe_service_job", "ClientException", "whatever AWS says", 400)
    stubber.add_response("describe_service_job", detail("d", serviceRequestPayload="not JSON"), {"jobId": "d"})

    found = jobs.describe(["a", "gone", "gone-too", "d"])

    assert list(found) == ["a", "d"]
    assert found["a"].scheduling_priority == 0
    assert found["a"].payload == {"TrainingJobName": "digits"}
    assert found["a"].attempts == (
        JobAttempt("AWSBatchdigits88b610a69aa8380ca5b0a7aba3f81cb8", 7, 9, "CapacityError"),
        JobAttempt(None),
    )
    assert (found["a"].job_queue, found["a"].attempt_duration_seconds) == ("arn:queue", 60)
    assert found["a"].tags == {"Some_Tag": "x"}
    assert (found["d"].payload, found["d"].attempt_duration_seconds) == ({}, None)


def test_preempted_attempts_are_told_apart_from_the_others(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    arn = {"name": "TrainingJobArn", "value": "arn:aws:sagemaker:us-west-2:111122223333:training-job/AWSBatcha1"}
    reason = "Cross-share preemption triggered to reclaim borrowed capacity"
    gone = {"serviceResourceId": arn, "startedAt": 1, "stoppedAt": 2, "statusReason": reason}
    answer = {
        "jobId": "a",
        "jobName": "a",
        "jobQueue": "q",
        "serviceJobType": "SAGEMAKER_TRAINING",
        "status": "RUNNABLE",
        "startedAt": 1,
        "preemptionSummary": {"preemptedAttemptCount": 3, "recentPreemptedAttempts": [gone]},
    }
    stubber.add_response("describe_service_job", answer, {"jobId": "a"})

    found = jobs.describe(["a"])["a"]

    assert found.preempted_attempts == (JobAttempt("AWSBatcha1", 1, 2, reason),)
    assert (found.preemptions, found.preemption_reason, found.attempts) == (3, reason, ())


def test_a_job_that_was_never_preempted_says_so(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_response("describe_service_job", detail("a", quotaShareName="TEAMA"), {"jobId": "a"})
    summary = {"preemptedAttemptCount": 12, "recentPreemptedAttempts": [LATEST, {}]}
    stubber.add_response("describe_service_job", detail("b", preemptionSummary=summary), {"jobId": "b"})

    never, often = jobs.describe(["a", "b"]).values()

    assert (never.quota_share, never.preemptions, never.preempted_attempts) == ("TEAMA", 0, ())
    assert (often.preemptions, len(often.preempted_attempts), often.preemption_reason) == (12, 2, None)


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [("ServerException", 500, ServiceError), ("TooManyRequestsException", 429, ThrottledError)],
)
def test_describe_does_not_take_trouble_for_a_missing_job(
    batch: tuple[BatchJobs, Stubber], code: str, status: int, expected: type[Exception]
) -> None:
    jobs, stubber = batch
    stubber.add_client_error("describe_service_job", code, "trouble", status)

    with pytest.raises(expected, match="Cannot describe job a: trouble"):
        jobs.describe(["a"])


def test_snapshot_reads_order_and_use(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    unit = "NUM_INSTANCES"
    stubber.add_response(
        "get_job_queue_snapshot",
        {
            "frontOfQueue": {
                "jobs": [{"jobArn": "arn:aws:batch:r:1:service-job/b", "earliestTimeAtPosition": 8}, {"jobArn": "a"}],
                "lastUpdatedAt": 1,
            },
            "queueUtilization": {
                "totalCapacityUsage": [{"capacityUnit": unit, "quantity": 9.0}],
                "fairshareUtilization": {
                    "activeShareCount": 2,
                    "topCapacityUtilization": [
                        {"shareIdentifier": "team-a", "capacityUsage": [{"capacityUnit": unit, "quantity": 5.0}]},
                        {"shareIdentifier": "team-b", "capacityUsage": [{"capacityUnit": unit, "quantity": 4.0}]},
                    ],
                },
            },
        },
        {"jobQueue": "ml-gpu"},
    )
    stubber.add_response("get_job_queue_snapshot", {})

    assert jobs.snapshot("ml-gpu") == QueueSnapshot(
        (FrontOfQueueJob("arn:aws:batch:r:1:service-job/b", 8), FrontOfQueueJob("a")), 9, {"team-a": 5, "team-b": 4}
    )
    assert jobs.snapshot("ml-gpu") == QueueSnapshot()


def test_snapshot_reads_the_fronts_and_the_use_of_quota_shares(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    usage = [{"capacityUnit": "ml.c5.2xlarge", "quantity": 5.0}, {"capacityUnit": "ml.p5.48xlarge", "quantity": 1.0}]
    held = {"quotaShareName": "Team_A", "capacityUsage": usage}
    stubber.add_response(
        "get_job_queue_snapshot",
        {
            "frontOfQuotaShares": {
                "quotaShares": {"Team_A": [{"jobArn": "a", "earliestTimeAtPosition": 8}, {"jobArn": "b"}], "idle": []},
                "lastUpdatedAt": 1,
            },
            "queueUtilization": {
                "totalCapacityUsage": usage,
                "quotaShareUtilization": {"topCapacityUtilization": [held, {"quotaShareName": "idle"}]},
            },
        },
        {"jobQueue": "ml-gpu"},
    )

    assert jobs.snapshot("ml-gpu") == QueueSnapshot(
        instances_in_use=6,
        front_of_quota_shares={"Team_A": FrontOfQueueJob("a", 8)},
        instances_by_quota_share={"Team_A": {"ml.c5.2xlarge": 5, "ml.p5.48xlarge": 1}, "idle": {}},
    )


def test_update_and_terminate(batch: tuple[BatchJobs, Stubber]) -> None:
    jobs, stubber = batch
    stubber.add_response("update_service_job", {}, {"jobId": "a", "schedulingPriority": 0})
    stubber.add_response("terminate_service_job", {}, {"jobId": "a", "reason": "no longer needed"})
    stubber.add_client_error("terminate_service_job", "ClientException", "Job b does not exist", 400)

    jobs.update_priority("a", 0)
    jobs.terminate("a", "no longer needed")
    with pytest.raises(NotFoundError, match="Cannot end job b"):
        jobs.terminate("b", "x")
    stubber.assert_no_pending_responses()
