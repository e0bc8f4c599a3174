"""Job queues."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.local import environments, job_queues, policies
from fairshare.local.errors import ClientException
from fairshare.local.launcher import Report
from fairshare.model import JobStatus


def describe(cloud: Any, *names: str) -> list[Any]:
    return cloud.call(job_queues.describe_job_queues, jobQueues=list(names))["jobQueues"]


def create(cloud: Any, **request: Any) -> Any:
    return cloud.call(job_queues.create_job_queue, **({"jobQueueName": "q", "priority": 1} | request))


def order(*names: str) -> list[dict[str, Any]]:
    return [{"order": number, "serviceEnvironment": name} for number, name in enumerate(names, 1)]


def test_created_and_described(cloud):
    environment, policy = cloud.environment(), cloud.policy()
    arn = cloud.queue(policy=policy, priority=7)
    assert arn == "arn:aws:batch:us-west-2:123456789012:job-queue/gpu"
    expected = {
        "jobQueueName": "gpu",
        "jobQueueArn": arn,
        "state": "ENABLED",
        "status": "VALID",
        "statusReason": "JobQueue Healthy",
        "priority": 7,
        "computeEnvironmentOrder": [],
        "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": environment}],
        "jobQueueType": "SAGEMAKER_TRAINING",
        "schedulingPolicyArn": policy,
        "jobStateTimeLimitActions": [],
        "tags": {},
    }
    assert describe(cloud, "gpu") == [expected]
    assert describe(cloud, arn, "nope") == [expected]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (
            {"jobQueueType": "SAGEMAKER_TRAINING"},
            "Job queues of type SAGEMAKER_TRAINING must have serviceEnvironmentOrder.",
        ),
        ({"serviceEnvironmentOrder": order("gpu", "cpu")}, "Job queue can only have 1 service environment."),
        (
            {"serviceEnvironmentOrder": order("nope")},
            "Service environments must be created and valid before attaching them to a job queue.",
        ),
        (
            {"serviceEnvironmentOrder": order("gpu"), "schedulingPolicyArn": "arn:aws:batch:us-west-2:1:job-queue/x"},
            "Only scheduling policy Arn can be allowed.",
        ),
        (
            {"serviceEnvironmentOrder": order("gpu"), "schedulingPolicyArn": "arn:aws:batch:::scheduling-policy/x"},
            "SchedulingPolicy arn:aws:batch:::scheduling-policy/x not found.",
        ),
        (
            {"serviceEnvironmentOrder": order("gpu"), "jobQueueName": "my queue!"},
            "Job Queue name should match a valid pattern.",
        ),
        (
            {"serviceEnvironmentOrder": order("gpu"), "priority": 1001},
            "priority: 1001 is out of range (0 - 1000)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_awss_text(cloud, request_, text):
    cloud.environment()
    with pytest.raises(ClientException) as refused:
        create(cloud, **request_)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    "request_",
    [
        {"jobQueueType": "ECS", "serviceEnvironmentOrder": order("gpu")},
        {"computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "c"}]},
        {},
    ],
)
def test_queues_for_compute_jobs_are_refused(cloud, request_):
    cloud.environment()
    with pytest.raises(ClientException, match=r"^CreateJobQueue requires either setting computeEnvironmentOrder or "):
        create(cloud, **request_)


def time_limit(**change: Any) -> dict[str, Any]:
    usual = {
        "reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "state": "RUNNABLE",
        "maxTimeSeconds": 14_400,
        "action": "TERMINATE",
    }
    return usual | change


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        ([time_limit(action="CANCEL")], "Invalid job action. Valid job actions: [TERMINATE]"),
        ([time_limit(), time_limit(maxTimeSeconds=600)], "Duplicate job state limit actions are not allowed."),
        ([time_limit(state="STARTING")], "jobStateTimeLimitActions: state 'STARTING' is unknown (RUNNABLE)"),
        (
            [time_limit(reason="OTHER")],
            "jobStateTimeLimitActions: reason 'OTHER' is unknown (CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY, "
            "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE, MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED)",
        ),
        ([time_limit(maxTimeSeconds=599)], "maxTimeSeconds: 599 is out of range (600 - 86400)"),
    ],
)
def test_time_limits_are_checked(cloud, actions, text):
    cloud.environment()
    with pytest.raises(ClientException) as refused:
        create(cloud, serviceEnvironmentOrder=order("gpu"), jobStateTimeLimitActions=actions)
    assert str(refused.value) == text
    create(cloud, serviceEnvironmentOrder=order("gpu"), jobStateTimeLimitActions=[time_limit()])
    assert describe(cloud, "q")[0]["jobStateTimeLimitActions"] == [time_limit()]


def test_an_environment_that_counts_types_cannot_serve(cloud):
    cloud.call(
        environments.create_service_environment,
        serviceEnvironmentName="typed",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"capacityUnit": "ml.g5.xlarge", "maxCapacity": 3}],
    )
    with pytest.raises(ClientException, match=r"^serviceEnvironmentOrder: typed counts instance types"):
        create(cloud, serviceEnvironmentOrder=order("typed"))


def test_the_same_name_again_is_refused(cloud):
    cloud.fifo_queue()
    with pytest.raises(ClientException, match=r"^Object already exists$"):
        cloud.queue()


def test_pages_exclude_names(cloud):
    cloud.environment()
    for name in ("b", "a"):
        cloud.queue(name)
    page = cloud.call(job_queues.describe_job_queues, maxResults=1)
    assert [queue["jobQueueName"] for queue in page["jobQueues"]] == ["a"]
    with pytest.raises(ClientException, match=r"^JobQueues and MaxResults cannot both be set$"):
        cloud.call(job_queues.describe_job_queues, jobQueues=["a"], maxResults=1)


def test_c05_a_policy_can_be_replaced_but_not_added(cloud):
    cloud.fair_queue()
    other = cloud.policy("other", A=1)
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", schedulingPolicyArn=other, priority=3)
    assert describe(cloud, "gpu")[0]["schedulingPolicyArn"] == other
    assert describe(cloud, "gpu")[0]["priority"] == 3
    cloud.queue("fifo")
    with pytest.raises(ClientException, match=r"^schedulingPolicyArn: a first-in-first-out queue cannot get a policy"):
        cloud.call(job_queues.update_job_queue, jobQueue="fifo", schedulingPolicyArn=other)


def test_a_refused_update_changes_nothing(cloud):
    cloud.fair_queue()
    before = describe(cloud, "gpu")
    with pytest.raises(ClientException):
        cloud.call(job_queues.update_job_queue, jobQueue="gpu", priority=5, serviceEnvironmentOrder=order("nope"))
    assert describe(cloud, "gpu") == before


def test_an_empty_queue_can_change_its_environment(cloud):
    cloud.fifo_queue()
    job = cloud.submit("a", seconds=10)
    cloud.environment("big", capacity=4)
    with pytest.raises(ClientException, match=r"^serviceEnvironmentOrder: gpu still has jobs"):
        cloud.call(job_queues.update_job_queue, jobQueue="gpu", serviceEnvironmentOrder=order("big"))
    cloud.clock.advance(10_000)
    assert cloud.status(job) == "SUCCEEDED"
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", serviceEnvironmentOrder=order("big"))
    assert [cloud.status(cloud.submit(name)) for name in "abcde"] == ["RUNNING"] * 4 + ["RUNNABLE"]


def test_of_two_queues_on_one_environment_the_higher_priority_goes_first(cloud):
    cloud.environment()
    cloud.queue("gpu", priority=1)
    cloud.queue("urgent", priority=10)
    cloud.submit("runs", seconds=60)
    waits, urgent = cloud.submit("waits"), cloud.submit("urgent", jobQueue="urgent")
    cloud.clock.advance(60_000)
    assert (cloud.status(waits), cloud.status(urgent)) == ("RUNNABLE", "RUNNING")


def test_disabled_before_deleted(cloud):
    cloud.fifo_queue()
    with pytest.raises(ClientException, match=r"^jobQueue: gpu is ENABLED \(disable it first\)$"):
        cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    assert describe(cloud, "gpu") == []
    for operation in (job_queues.delete_job_queue, job_queues.update_job_queue):
        with pytest.raises(ClientException, match=r"^JobQueue gpu not found\.$"):
            cloud.call(operation, jobQueue="gpu")


def test_deleting_a_queue_ends_its_jobs(cloud):
    cloud.fifo_queue()
    jobs = [cloud.submit("runs"), cloud.submit("waits")]
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    assert [(cloud.describe(job)["status"], cloud.describe(job)["statusReason"]) for job in jobs] == [
        ("FAILED", "Job queue deleted")
    ] * 2
    assert describe(cloud, "gpu") == []


class SlowToStop:
    """A launcher whose attempts end only when the test says so."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def start(self, attempt: Any, at: int) -> None: ...

    def stop(self, job_id: str, attempt: int) -> None: ...

    def poll(self, now: int) -> list[Any]:
        reports, self.reports = self.reports, []
        return reports

    def close(self) -> None: ...


def test_c04_a_queue_is_deleting_until_its_jobs_have_ended(make_cloud):
    launcher = SlowToStop()
    cloud = make_cloud(launcher)
    cloud.fair_queue()
    job = cloud.submit("runs", "LOWPRI")
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    assert describe(cloud, "gpu")[0]["status"] == "DELETING"
    with pytest.raises(ClientException, match=r"^Cannot delete, resource is being modified$"):
        cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    with pytest.raises(ClientException, match=r"^Cannot update, resource is being modified$"):
        cloud.call(job_queues.update_job_queue, jobQueue="gpu", priority=2)
    with pytest.raises(ClientException, match=r"^jobQueue: gpu is being deleted \(only an ENABLED queue takes jobs\)$"):
        cloud.submit("late", "LOWPRI")
    with pytest.raises(ClientException, match=r"^arn: shares is in use by job queue gpu"):
        cloud.call(
            policies.delete_scheduling_policy, arn="arn:aws:batch:us-west-2:123456789012:scheduling-policy/shares"
        )
    launcher.reports = [Report(job, 1, JobStatus.FAILED, cloud.clock.now(), "Training job stopped")]
    assert describe(cloud, "gpu") == []
    assert cloud.status(job) == "FAILED"
    cloud.queue("gpu", priority=2)
    assert describe(cloud, "gpu")[0]["status"] == "VALID"


def test_a_region_has_at_most_50_queues(cloud):
    cloud.environment()
    for number in range(50):
        cloud.queue(f"queue-{number}")
    with pytest.raises(ClientException, match=r"^jobQueueName: 50 queues exist \(at most 50\)$"):
        cloud.queue("one-more")
