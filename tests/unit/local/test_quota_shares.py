"""Quota shares in the local AWS: their own operations, and what jobs of such a queue tell."""

from __future__ import annotations

import pytest

from fairshare.local import environments, job_queues, listing, policies, quota_shares, service_jobs, tagging
from fairshare.local.errors import ClientException
from fairshare.local.launcher import Report
from fairshare.model import JobStatus

ARN = "arn:aws:batch:us-west-2:123456789012:job-queue/gpu/quota-share/"
QUOTA = {"idleResourceAssignmentStrategy": "FIFO"}


@pytest.fixture
def notebook(cloud):
    """The queue of SageMaker's notebook (QM-4): three instances, three shares of one each."""
    cloud.quota_queue(3, QS2=(1, "LEND"), QS3=(1, "RESERVE"))
    sharing = {"strategy": "LEND_AND_BORROW", "borrowLimit": 200}
    cloud.quota_share("QS1", 1, preempts=True, resourceSharingConfiguration=sharing)
    return cloud


def submit(cloud, name, share, priority=None, **more):
    more |= {} if priority is None else {"schedulingPriority": priority}
    return cloud.submit(name, seconds=600, quotaShareName=share, **more)


def statuses(cloud, **jobs):
    return {name: cloud.status(job) for name, job in jobs.items()}


def shares_of(cloud, **request):
    return cloud.call(quota_shares.list_quota_shares, jobQueue="gpu", **request)


def test_a_share_is_described_as_it_was_made(notebook):
    assert notebook.call(quota_shares.describe_quota_share, quotaShareArn=f"{ARN}QS1") == {
        "quotaShareName": "QS1",
        "quotaShareArn": f"{ARN}QS1",
        "jobQueueArn": "arn:aws:batch:us-west-2:123456789012:job-queue/gpu",
        "capacityLimits": [{"maxCapacity": 1, "capacityUnit": "ml.g5.xlarge"}],
        "resourceSharingConfiguration": {"strategy": "LEND_AND_BORROW", "borrowLimit": 200},
        "preemptionConfiguration": {"inSharePreemption": "ENABLED"},
        "state": "ENABLED",
        "status": "VALID",
        "tags": {},
    }


def test_shares_are_listed_in_pages_without_tags(notebook):
    first = shares_of(notebook, maxResults=2)
    second = shares_of(notebook, maxResults=2, nextToken=first["nextToken"])
    assert [share["quotaShareName"] for page in (first, second) for share in page["quotaShares"]] == [
        "QS1",
        "QS2",
        "QS3",
    ]
    assert "tags" not in first["quotaShares"][0]


def test_a_share_has_tags_like_every_resource(notebook):
    notebook.call(tagging.tag_resource, resourceArn=f"{ARN}QS2", tags={"team": "b", "cost": "1"})
    notebook.call(tagging.untag_resource, resourceArn=f"{ARN}QS2", tagKeys=["cost"])
    assert notebook.call(tagging.list_tags_for_resource, resourceArn=f"{ARN}QS2")["tags"] == {"team": "b"}
    assert notebook.call(quota_shares.describe_quota_share, quotaShareArn=f"{ARN}QS2")["tags"] == {"team": "b"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"quotaShareName": "QS1"}, "Quota share QS1 already exists."),
        ({"quotaShareName": "a share"}, "Quota share name should match a valid pattern."),
        ({"jobQueue": "none"}, "JobQueue none not found."),
        ({"capacityLimits": []}, "Capacitylimits are required."),
        (
            {"capacityLimits": [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]},
            "capacityLimits: a quota share is measured by instance type, not in NUM_INSTANCES",
        ),
        (
            {"capacityLimits": [{"maxCapacity": 0, "capacityUnit": "ml.g5.xlarge"}]},
            "Max capacity must be more than 0.",
        ),
        (
            {"resourceSharingConfiguration": {"strategy": "GIVE"}},
            "strategy: 'GIVE' is unknown (RESERVE, LEND, LEND_AND_BORROW)",
        ),
        (
            {"resourceSharingConfiguration": {"strategy": "LEND", "borrowLimit": 10}},
            "borrowLimit: a LEND quota share does not borrow (LEND_AND_BORROW does)",
        ),
        (
            {"resourceSharingConfiguration": {"strategy": "LEND_AND_BORROW", "borrowLimit": -2}},
            "borrowLimit: -2 is out of range (-1 or more)",
        ),
        (
            {"preemptionConfiguration": {"inSharePreemption": "ON"}},
            "inSharePreemption: 'ON' is unknown (ENABLED or DISABLED)",
        ),
        ({"state": "OFF"}, "state: 'OFF' is unknown (ENABLED or DISABLED)"),
        ({"tags": {"aws:x": "y"}}, "tags: key aws:x is reserved (keys must not start with aws:)"),
    ],
)
def test_what_is_refused_leaves_nothing(notebook, changes, text):
    with pytest.raises(ClientException) as refused:
        notebook.quota_share("QS9", 1, **changes)
    assert str(refused.value) == text
    assert len(shares_of(notebook)["quotaShares"]) == 3


def test_a_queue_has_20_shares_at_most(cloud):
    cloud.quota_queue(3, **{f"QS{n}": (1, "LEND") for n in range(20)})
    with pytest.raises(ClientException, match=r"^quotaShareName: gpu has 20 quota shares \(at most 20\)$"):
        cloud.quota_share("QS20", 1)


def test_only_a_queue_with_a_quota_policy_has_shares(cloud):
    cloud.fair_queue()
    with pytest.raises(ClientException, match=r"^jobQueue: gpu has no quotaSharePolicy"):
        cloud.quota_share("QS1", 1)


def test_policy_and_environment_go_together(cloud):
    cloud.environment("counted")
    cloud.quota_queue(3)
    with pytest.raises(ClientException, match=r"^serviceEnvironmentOrder: counted counts NUM_INSTANCES"):
        cloud.queue(
            "second", policy="arn:aws:batch:us-west-2:123456789012:scheduling-policy/quotas", environment="counted"
        )
    with pytest.raises(ClientException, match=r"^serviceEnvironmentOrder: gpu serves job queue gpu"):
        cloud.queue("second", policy="arn:aws:batch:us-west-2:123456789012:scheduling-policy/quotas")
    fair = cloud.policy("fair")
    with pytest.raises(ClientException, match=r"^schedulingPolicyArn: shares and quota shares cannot be exchanged"):
        cloud.call(job_queues.update_job_queue, jobQueue="gpu", schedulingPolicyArn=fair)


def test_a_policy_in_use_and_an_environment_in_use_stay(notebook):
    policy = "arn:aws:batch:us-west-2:123456789012:scheduling-policy/quotas"
    with pytest.raises(ClientException, match=r"^arn: quotas is in use by job queue gpu"):
        notebook.call(policies.delete_scheduling_policy, arn=policy)
    notebook.call(environments.update_service_environment, serviceEnvironment="gpu", state="DISABLED")
    with pytest.raises(ClientException, match=r"^Cannot delete, found existing JobQueue relationship$"):
        notebook.call(environments.delete_service_environment, serviceEnvironment="gpu")


def test_deletion_in_the_order_of_aws_samples(notebook):
    for name in ("QS1", "QS2", "QS3"):
        with pytest.raises(ClientException, match=rf"^quotaShareArn: {name} is ENABLED \(disable it first\)$"):
            notebook.call(quota_shares.delete_quota_share, quotaShareArn=ARN + name)
        notebook.call(quota_shares.update_quota_share, quotaShareArn=ARN + name, state="DISABLED")
        notebook.call(quota_shares.delete_quota_share, quotaShareArn=ARN + name)
        with pytest.raises(ClientException, match=rf"^Quota share {ARN}{name} does not exist\.$"):
            notebook.call(quota_shares.describe_quota_share, quotaShareArn=ARN + name)
    notebook.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    notebook.call(job_queues.delete_job_queue, jobQueue="gpu")
    notebook.call(
        policies.delete_scheduling_policy, arn="arn:aws:batch:us-west-2:123456789012:scheduling-policy/quotas"
    )
    notebook.call(environments.update_service_environment, serviceEnvironment="gpu", state="DISABLED")
    notebook.call(environments.delete_service_environment, serviceEnvironment="gpu")
    described = notebook.call(environments.describe_service_environments, serviceEnvironments=["gpu"])
    assert described["serviceEnvironments"] == []


def test_deleting_a_share_ends_its_jobs(notebook):
    running, waiting = submit(notebook, "a", "QS2"), submit(notebook, "b", "QS2")
    notebook.call(quota_shares.update_quota_share, quotaShareArn=f"{ARN}QS2", state="DISABLED")
    assert statuses(notebook, running=running, waiting=waiting) == {"running": "RUNNING", "waiting": "RUNNABLE"}
    notebook.call(quota_shares.delete_quota_share, quotaShareArn=f"{ARN}QS2")
    assert statuses(notebook, running=running, waiting=waiting) == {"running": "FAILED", "waiting": "FAILED"}
    assert "Quota share deleted" in notebook.describe(waiting)["statusReason"]
    assert {share["quotaShareName"] for share in shares_of(notebook)["quotaShares"]} == {"QS1", "QS3"}


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "quotaShareName: missing (every job of gpu belongs to a quota share)"),
        ({"quotaShareName": "QS9"}, "quotaShareName: QS9 does not exist in gpu"),
        (
            {"quotaShareName": "QS1", "shareIdentifier": "A"},
            "shareIdentifier: gpu has quota shares (give quotaShareName instead)",
        ),
        (
            {"quotaShareName": "QS1", "preemptionConfiguration": {"preemptionRetriesBeforeTermination": -1}},
            "preemptionRetriesBeforeTermination: -1 is out of range (0 or more)",
        ),
    ],
)
def test_jobs_that_are_refused(notebook, request_, text):
    with pytest.raises(ClientException) as refused:
        notebook.submit("a", **request_)
    assert str(refused.value) == text


def test_a_disabled_share_takes_no_jobs(notebook):
    notebook.call(quota_shares.update_quota_share, quotaShareArn=f"{ARN}QS3", state="DISABLED")
    with pytest.raises(ClientException, match=r"^quotaShareName: QS3 is DISABLED"):
        submit(notebook, "a", "QS3")


def test_qm4_borrowed_capacity_is_reclaimed_and_a_higher_priority_displaces(notebook):
    high, med, low = (submit(notebook, name, "QS1", n) for name, n in (("high", 3), ("med", 2), ("low", 1)))
    assert statuses(notebook, high=high, med=med, low=low) == {"high": "RUNNING", "med": "RUNNING", "low": "RUNNABLE"}

    owner = submit(notebook, "owner", "QS2", 1)
    assert statuses(notebook, med=med, owner=owner) == {"med": "RUNNABLE", "owner": "RUNNING"}

    notebook.call(service_jobs.update_service_job, jobId=low, schedulingPriority=4)
    assert statuses(notebook, high=high, low=low) == {"high": "RUNNABLE", "low": "RUNNING"}

    reclaimed, displaced = (notebook.describe(job) for job in (med, high))
    assert reclaimed["attempts"] == displaced["attempts"] == []
    assert reclaimed["preemptionSummary"]["preemptedAttemptCount"] == 1
    (attempt,) = reclaimed["preemptionSummary"]["recentPreemptedAttempts"]
    assert attempt["statusReason"] == "Cross-share preemption triggered to reclaim borrowed capacity"
    assert attempt["serviceResourceId"] == reclaimed["latestAttempt"]["serviceResourceId"]
    (attempt,) = displaced["preemptionSummary"]["recentPreemptedAttempts"]
    assert attempt["statusReason"] == "In-share preemption triggered by a higher priority job"
    assert "preemptionSummary" not in notebook.describe(owner)


def test_a_preempted_job_runs_again_and_its_attempts_count_from_there(notebook):
    med = submit(notebook, "med", "QS1", 2)
    submit(notebook, "high", "QS1", 3)
    submit(notebook, "owner", "QS2")
    assert notebook.status(med) == "RUNNABLE"

    notebook.clock.advance(600_000)
    assert notebook.status(med) == "RUNNING"
    notebook.clock.advance(600_000)
    described = notebook.describe(med)
    assert described["status"] == "SUCCEEDED"
    (attempt,) = described["attempts"]
    assert attempt["serviceResourceId"] == described["latestAttempt"]["serviceResourceId"]
    assert described["preemptionSummary"]["preemptedAttemptCount"] == 1


def test_a_job_without_preemption_retries_fails_when_it_is_preempted(notebook):
    retries = {"preemptionRetriesBeforeTermination": 0}
    submit(notebook, "high", "QS1", 3)
    med = submit(notebook, "med", "QS1", 2, preemptionConfiguration=retries)
    submit(notebook, "owner", "QS2")
    described = notebook.describe(med)
    assert (described["status"], described["preemptionConfiguration"]) == ("FAILED", retries)
    assert described["statusReason"] == "Cross-share preemption triggered to reclaim borrowed capacity"


@pytest.mark.parametrize(
    ("sharing", "instances", "reason"),
    [
        ({"strategy": "RESERVE"}, 3, "Job requirements exceed quota share capacity limits."),
        (
            {"strategy": "LEND_AND_BORROW", "borrowLimit": 50},
            4,
            "Job requirements exceed quota share capacity limits and borrow limits.",
        ),
        (
            {"strategy": "LEND_AND_BORROW", "borrowLimit": 400},
            4,
            "Job requires borrowing that exceeds all configured borrowable capacity.",
        ),
    ],
)
def test_qm1_to_qm3_a_job_that_no_limit_allows_says_so(cloud, sharing, instances, reason):
    cloud.quota_queue(10, OTHER=(1, "LEND"))
    cloud.quota_share("QS", 2, resourceSharingConfiguration=sharing)
    job = submit(cloud, "a", "QS", instances=instances)
    assert cloud.describe(job)["statusReason"] == f"MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED - {reason}"


def test_qm8_a_job_larger_than_the_environment_is_another_misconfiguration(cloud):
    cloud.quota_queue(10, QS=(20, "RESERVE"))
    job = submit(cloud, "a", "QS", instances=12)
    assert cloud.describe(job)["statusReason"].startswith("MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE")


def test_a_snapshot_tells_fronts_and_use_by_share(notebook):
    for name, share in (("a", "QS1"), ("b", "QS1"), ("c", "QS1"), ("d", "QS3")):
        submit(notebook, name, share, 1)
    waiting = submit(notebook, "e", "QS3", 1)
    snapshot = notebook.call(listing.get_job_queue_snapshot, jobQueue="gpu")
    fronts = snapshot["frontOfQuotaShares"]["quotaShares"]
    assert set(fronts) == {"QS1", "QS3"}
    assert fronts["QS3"][0]["jobArn"] == notebook.describe(waiting)["jobArn"]
    utilization = snapshot["queueUtilization"]
    assert utilization["totalCapacityUsage"] == [{"capacityUnit": "ml.g5.xlarge", "quantity": 3.0}]
    assert utilization["quotaShareUtilization"]["topCapacityUtilization"] == [
        {"quotaShareName": "QS1", "capacityUsage": [{"capacityUnit": "ml.g5.xlarge", "quantity": 2.0}]},
        {"quotaShareName": "QS3", "capacityUsage": [{"capacityUnit": "ml.g5.xlarge", "quantity": 1.0}]},
    ]


def test_qm5_utilisation_of_two_shares(cloud):
    cloud.quota_queue(9, A=(5, "LEND"), B=(4, "LEND"))
    for share, number in (("A", 5), ("B", 4)):
        submit(cloud, share, share, instances=number)
    utilization = cloud.call(listing.get_job_queue_snapshot, jobQueue="gpu")["queueUtilization"]
    assert utilization["totalCapacityUsage"] == [{"capacityUnit": "ml.g5.xlarge", "quantity": 9.0}]
    assert [
        (share["quotaShareName"], share["capacityUsage"][0]["quantity"])
        for share in utilization["quotaShareUtilization"]["topCapacityUtilization"]
    ] == [("A", 5.0), ("B", 4.0)]


def test_jobs_are_listed_by_quota_share(notebook):
    submit(notebook, "a", "QS1")
    submit(notebook, "b", "QS2")
    listed = notebook.call(
        listing.list_service_jobs, jobQueue="gpu", filters=[{"name": "QUOTA_SHARE_NAME", "values": ["QS2"]}]
    )
    assert [(job["jobName"], job["quotaShareName"]) for job in listed["jobSummaryList"]] == [("b", "QS2")]


def test_an_environment_with_limits_by_type_follows_its_changes(notebook):
    limits = [{"maxCapacity": 1, "capacityUnit": "ml.g5.xlarge"}]
    notebook.call(environments.update_service_environment, serviceEnvironment="gpu", capacityLimits=limits)
    first, second = submit(notebook, "a", "QS2"), submit(notebook, "b", "QS3")
    assert statuses(notebook, first=first, second=second) == {"first": "RUNNING", "second": "RUNNABLE"}


def test_the_terms_of_a_share_can_change(notebook):
    submit(notebook, "a", "QS1")
    second = submit(notebook, "b", "QS2")
    third = submit(notebook, "c", "QS2")
    assert statuses(notebook, second=second, third=third) == {"second": "RUNNING", "third": "RUNNABLE"}
    limits = [{"maxCapacity": 2, "capacityUnit": "ml.g5.xlarge"}]
    notebook.call(quota_shares.update_quota_share, quotaShareArn=f"{ARN}QS2", capacityLimits=limits)
    assert notebook.status(third) == "RUNNING"
    described = notebook.call(quota_shares.describe_quota_share, quotaShareArn=f"{ARN}QS2")
    assert described["capacityLimits"] == limits
    assert described["resourceSharingConfiguration"] == {"strategy": "LEND"}


def events_of(cloud):
    page = cloud.runtime.events.after(0)
    return [(event.detail_type.removeprefix("Batch Service Job "), event) for event in page.events]


def test_a_preemption_is_two_events_and_a_count(notebook):
    points = []
    notebook.runtime.metrics.subscribe(points.append)
    submit(notebook, "high", "QS1", 3)
    med = submit(notebook, "med", "QS1", 2)
    submit(notebook, "owner", "QS2", 1)

    arn = notebook.describe(med)["jobArn"]
    preemptions = [(kind, event) for kind, event in events_of(notebook) if kind.startswith("Preemption")]
    assert [(kind, event.resources) for kind, event in preemptions] == [
        ("Preemption Started", (arn,)),
        ("Preemption Completed", (arn,)),
    ]
    started, completed = (event.to_json()["detail"] for _, event in preemptions)
    assert started == {
        "preemptedJobArn": arn,
        "status": "RUNNING",
        "statusReason": "PREEMPTION_IN_PROGRESS: Cross-share preemption triggered to reclaim borrowed capacity",
    }
    assert (completed["preemptedJobArn"], completed["status"]) == (arn, "RUNNABLE")
    assert completed["preemptionSummary"]["preemptedAttemptCount"] == 1
    assert completed["preemptionSummary"]["recentPreemptedAttempts"][0]["statusReason"] == (
        "Cross-share preemption triggered to reclaim borrowed capacity"
    )

    notebook.clock.advance(1_200_000)
    assert notebook.status(med) == "SUCCEEDED"
    counted = [point.name for point in points]
    assert (counted.count("JobsPreempted"), counted.count("JobsRetried")) == (1, 0)
    assert counted.count("JobsMovedToScheduled") == 4
    assert counted.count("JobsMovedToSucceeded") == 3


def test_the_last_preemption_ends_in_a_failed_job(notebook):
    submit(notebook, "high", "QS1", 3)
    submit(notebook, "med", "QS1", 2, preemptionConfiguration={"preemptionRetriesBeforeTermination": 0})
    submit(notebook, "owner", "QS2", 1)
    completed = [event for kind, event in events_of(notebook) if kind == "Preemption Completed"]
    assert [event.detail["status"] for event in completed] == ["FAILED"]


class Stoppable:
    """A launcher whose attempts run until they are stopped, and then take their time."""

    def __init__(self):
        self.reports, self.stopped = [], []

    def start(self, attempt, at):
        job = attempt.job_id, attempt.number
        self.reports += [Report(*job, JobStatus.STARTING, at), Report(*job, JobStatus.RUNNING, at)]

    def stop(self, job_id, attempt):
        self.stopped.append((job_id, attempt))

    def poll(self, now):
        reports, self.reports = self.reports, []
        return reports

    def close(self): ...


@pytest.fixture
def slow(make_cloud):
    """Two instances of two shares, one of which has both, and a job that waits for its own."""
    launcher = Stoppable()
    cloud = make_cloud(launcher)
    cloud.quota_queue(2, OWN=(1, "LEND"))
    cloud.quota_share("BIG", 1, "LEND_AND_BORROW")
    jobs = [submit(cloud, "a", "BIG", 2), submit(cloud, "b", "BIG", 1), submit(cloud, "c", "OWN", 1)]
    return cloud, launcher, jobs


def test_until_it_has_stopped_a_preempted_job_keeps_its_instances(slow):
    cloud, launcher, (_, victim, owner) = slow
    assert launcher.stopped == [(victim, 1)]
    assert statuses(cloud, victim=victim, owner=owner) == {"victim": "RUNNING", "owner": "RUNNABLE"}
    assert cloud.describe(victim)["statusReason"].startswith("PREEMPTION_IN_PROGRESS: ")

    cloud.clock.advance(20_000)
    launcher.reports.append(Report(victim, 1, JobStatus.FAILED, cloud.clock.now(), "Training job stopped"))
    assert statuses(cloud, victim=victim, owner=owner) == {"victim": "RUNNABLE", "owner": "RUNNING"}


def test_a_job_that_ends_before_it_is_stopped_has_succeeded(slow):
    cloud, launcher, (_, victim, owner) = slow
    launcher.reports.append(Report(victim, 1, JobStatus.SUCCEEDED, cloud.clock.now()))
    assert statuses(cloud, victim=victim, owner=owner) == {"victim": "SUCCEEDED", "owner": "RUNNING"}
    assert "preemptionSummary" not in cloud.describe(victim)
    assert len(cloud.describe(victim)["attempts"]) == 1


def test_a_job_that_is_terminated_while_it_is_stopped_does_not_come_back(slow):
    cloud, launcher, (_, victim, owner) = slow
    cloud.call(service_jobs.terminate_service_job, jobId=victim, reason="enough")
    launcher.reports.append(Report(victim, 1, JobStatus.FAILED, cloud.clock.now(), "Training job stopped"))
    assert statuses(cloud, victim=victim, owner=owner) == {"victim": "FAILED", "owner": "RUNNING"}
    assert cloud.describe(victim)["statusReason"] == "enough"
    assert launcher.stopped == [(victim, 1)]
