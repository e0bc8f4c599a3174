"""ListServiceJobs and GetJobQueueSnapshot."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.local import job_queues, listing, service_jobs
from fairshare.local.errors import ClientException

START = 1_790_000_000_000


def names(cloud: Any, **request: Any) -> list[str]:
    answer = cloud.call(listing.list_service_jobs, **({"jobQueue": "gpu"} | request))
    return [job["jobName"] for job in answer["jobSummaryList"]]


def filtered(name: str, *values: str) -> list[dict[str, Any]]:
    return [{"name": name, "values": list(values)}]


def some_jobs(cloud: Any) -> None:
    """Five jobs, one second apart: done (SUCCEEDED), Test1 (FAILED), test10 (RUNNING), b and c (RUNNABLE)."""
    cloud.fair_queue()
    cloud.submit("done", "A", seconds=1)
    cloud.clock.advance(1_000)
    failed = cloud.submit("Test1", "B", seconds=1, environment={"FAIRSHARE_SIM_EXIT_CODE": "1"})
    cloud.clock.advance(1_000)
    assert cloud.status(failed) == "FAILED"
    cloud.submit("test10", "A", seconds=1000)
    cloud.clock.advance(1_000)
    cloud.submit("b", "B")
    cloud.clock.advance(1_000)
    cloud.submit("c", "A")


def test_without_a_status_only_running_jobs(cloud):
    some_jobs(cloud)
    assert names(cloud) == ["test10"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [("SUCCEEDED", ["done"]), ("FAILED", ["Test1"]), ("RUNNABLE", ["c", "b"]), ("STARTING", [])],
)
def test_a_status_newest_first(cloud, status, expected):
    some_jobs(cloud)
    assert names(cloud, jobStatus=status) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("test1", ["Test1"]), ("TEST1*", ["test10", "Test1"]), ("*", ["c", "b", "test10", "Test1", "done"]), ("x", [])],
)
def test_job_names_without_case_and_with_a_star(cloud, value, expected):
    some_jobs(cloud)
    assert names(cloud, filters=filtered("JOB_NAME", value)) == expected


def test_a_filter_makes_the_status_count_for_nothing(cloud):
    some_jobs(cloud)
    everything = ["c", "b", "test10", "Test1", "done"]
    assert names(cloud, filters=filtered("AFTER_CREATED_AT", "0"), jobStatus="FAILED") == everything
    assert names(cloud, filters=filtered("JOB_NAME", "done"), jobStatus="RUNNING") == ["done"]


def test_times_are_exclusive(cloud):
    some_jobs(cloud)
    assert names(cloud, filters=filtered("AFTER_CREATED_AT", str(START + 2_000))) == ["c", "b"]
    assert names(cloud, filters=filtered("BEFORE_CREATED_AT", str(START + 2_000))) == ["Test1", "done"]


def test_a_share_combines_with_a_status(cloud):
    some_jobs(cloud)
    assert names(cloud, filters=filtered("SHARE_IDENTIFIER", "A")) == ["test10"]
    assert names(cloud, filters=filtered("SHARE_IDENTIFIER", "A"), jobStatus="RUNNABLE") == ["c"]
    assert names(cloud, filters=filtered("SHARE_IDENTIFIER", "a"), jobStatus="RUNNABLE") == []
    assert names(cloud, filters=filtered("QUOTA_SHARE_NAME", "A")) == []


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"jobQueue": None}, "jobQueue: missing (name or ARN of a queue)"),
        ({"jobQueue": "nope"}, "JobQueue nope not found."),
        ({"jobStatus": "DONE"}, "jobStatus: 'DONE' is unknown (SUBMITTED, PENDING, RUNNABLE, SCHEDULED, STARTING, "),
        (
            {"filters": filtered("JOB_NAME", "a") + filtered("SHARE_IDENTIFIER", "A")},
            "filters: 2 were given (only one filter can be used at a time)",
        ),
        ({"filters": filtered("JOB_NAME")}, "filters: values are missing (at least one)"),
        ({"filters": filtered("job_name", "a")}, "filters: 'job_name' is unknown (JOB_NAME, "),
        (
            {"filters": filtered("AFTER_CREATED_AT", "yesterday")},
            "filters: 'yesterday' is no time (one number of milliseconds since 1970)",
        ),
        ({"maxResults": 0}, "maxResults: 0 is out of range (1 - 100)"),
        ({"maxResults": 101}, "maxResults: 101 is out of range (1 - 100)"),
        ({"nextToken": "x"}, "nextToken: not a token of ListServiceJobs (send back the one of the answer before)"),
    ],
)
def test_what_cannot_be_listed(cloud, request_, text):
    some_jobs(cloud)
    with pytest.raises(ClientException) as refused:
        names(cloud, **request_)
    assert str(refused.value).startswith(text)


def test_a_summary_tells_what_awss_does(cloud):
    cloud.fair_queue()
    job = cloud.submit("a", "HIGHPRI", schedulingPriority=5)
    cloud.call(service_jobs.terminate_service_job, jobId=job, reason="enough")
    (summary,) = cloud.call(listing.list_service_jobs, jobQueue="gpu", jobStatus="FAILED")["jobSummaryList"]
    assert "schedulingPriority" not in summary
    assert "serviceRequestPayload" not in summary
    assert summary["isTerminated"] is True
    assert (summary["shareIdentifier"], summary["statusReason"]) == ("HIGHPRI", "enough")
    running = cloud.submit("b", "HIGHPRI")
    (summary,) = cloud.call(listing.list_service_jobs, jobQueue="gpu")["jobSummaryList"]
    assert summary["jobId"] == running
    assert summary["isTerminated"] is None


def test_c31_every_status_is_found_by_one_listing_each_or_by_one_filter(cloud):
    some_jobs(cloud)
    by_status = [
        name
        for status in ("SUBMITTED", "PENDING", "RUNNABLE", "SCHEDULED", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
        for name in names(cloud, jobStatus=status)
    ]
    assert sorted(by_status) == sorted(names(cloud, filters=filtered("AFTER_CREATED_AT", "0")))


def test_pages_hold_every_job_once_while_jobs_come(cloud):
    cloud.fifo_queue(capacity=300)
    for number in range(250):
        cloud.submit(f"job-{number}")
    found: list[str] = []
    token = None
    while True:
        answer = cloud.call(listing.list_service_jobs, jobQueue="gpu", nextToken=token)
        found += [job["jobName"] for job in answer["jobSummaryList"]]
        cloud.submit("comes-later")
        if (token := answer["nextToken"]) is None:
            break
    assert found == [f"job-{number}" for number in reversed(range(250))]


def test_a_full_last_page_has_no_token(cloud):
    cloud.fifo_queue(capacity=10)
    for name in "abcd":
        cloud.submit(name)
    first = cloud.call(listing.list_service_jobs, jobQueue="gpu", maxResults=2)
    second = cloud.call(listing.list_service_jobs, jobQueue="gpu", maxResults=2, nextToken=first["nextToken"])
    assert [job["jobName"] for job in second["jobSummaryList"]] == ["b", "a"]
    assert second["nextToken"] is None


# -- snapshot ---------------------------------------------------------------------------------------------------------


def snapshot(cloud: Any) -> Any:
    return cloud.call(listing.get_job_queue_snapshot, jobQueue="gpu")


def test_the_front_of_the_queue_in_dispatch_order_with_times_at_the_position(cloud):
    cloud.fair_queue()
    cloud.submit("runs", "LOWPRI")
    low = cloud.submit("low", "LOWPRI")
    cloud.clock.advance(5_000)
    high = cloud.submit("high", "HIGHPRI")
    front = snapshot(cloud)["frontOfQueue"]
    arn = "arn:aws:batch:us-west-2:123456789012:service-job/"
    assert [entry["jobArn"] for entry in front["jobs"]] == [arn + high, arn + low]
    assert [entry["earliestTimeAtPosition"] for entry in front["jobs"]] == [START + 5_000, START + 5_000]
    cloud.clock.advance(1_000)
    assert snapshot(cloud)["frontOfQueue"] == {"jobs": front["jobs"], "lastUpdatedAt": START + 6_000}


def test_the_front_holds_100_jobs(cloud):
    cloud.fifo_queue()
    for number in range(102):
        cloud.submit(f"job-{number}")
    assert len(snapshot(cloud)["frontOfQueue"]["jobs"]) == 100


def test_fs10_use_of_a_fair_share_queue_in_instances(cloud):
    cloud.environment(capacity=9)
    cloud.queue(policy=cloud.policy(**{"team-a": 1, "team-b": 1}))
    cloud.submit("a", "team-a", instances=5)
    cloud.submit("b", "team-b", instances=4)
    use = snapshot(cloud)["queueUtilization"]
    assert use == {
        "totalCapacityUsage": [{"capacityUnit": "NUM_INSTANCES", "quantity": 9.0}],
        "fairshareUtilization": {
            "activeShareCount": 2,
            "topCapacityUtilization": [
                {"shareIdentifier": "team-a", "capacityUsage": [{"capacityUnit": "NUM_INSTANCES", "quantity": 5.0}]},
                {"shareIdentifier": "team-b", "capacityUsage": [{"capacityUnit": "NUM_INSTANCES", "quantity": 4.0}]},
            ],
        },
        "lastUpdatedAt": START,
    }


def test_use_names_the_20_shares_that_use_most_and_counts_all(cloud):
    cloud.environment(capacity=100)
    cloud.queue(policy=cloud.policy(A=1))
    for number in range(22):
        cloud.submit("a", f"S{number:02}", instances=2 if number == 21 else 1)
    use = snapshot(cloud)["queueUtilization"]["fairshareUtilization"]
    assert use["activeShareCount"] == 22
    top = [entry["shareIdentifier"] for entry in use["topCapacityUtilization"]]
    assert top == ["S21", *[f"S{number:02}" for number in range(19)]]


def test_use_of_a_fifo_queue_by_instance_type(cloud):
    cloud.fifo_queue(capacity=3)
    assert snapshot(cloud)["queueUtilization"]["totalCapacityUsage"] == []
    for _ in range(3):
        cloud.submit("a", seconds=10)
    assert snapshot(cloud)["queueUtilization"]["totalCapacityUsage"] == [
        {"capacityUnit": "ml.g5.xlarge", "quantity": 3.0}
    ]
    cloud.clock.advance(10_000)
    assert snapshot(cloud)["queueUtilization"]["totalCapacityUsage"] == []


def test_a_snapshot_of_an_unknown_queue_is_refused(cloud):
    with pytest.raises(ClientException, match=r"^JobQueue gpu not found\.$"):
        snapshot(cloud)
    cloud.fifo_queue()
    cloud.call(listing.get_job_queue_snapshot, jobQueue="arn:aws:batch:us-west-2:123456789012:job-queue/gpu")
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    assert snapshot(cloud)["frontOfQueue"]["jobs"] == []
