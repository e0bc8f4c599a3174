"""Changes that take a number of calls."""

from __future__ import annotations

import pytest

from fairshare.local import environments, job_queues, listing, quota_shares
from fairshare.local.errors import ClientException
from fairshare.local.settling import Settling
from fairshare.scheduler.clock import VirtualClock

DELETE_REFUSED = r"^Cannot delete, resource is being modified$"
UPDATE_REFUSED = r"^Cannot update, resource is being modified$"


def environment_statuses(cloud, polls):
    answers = [cloud.call(environments.describe_service_environments) for _ in range(polls)]
    return [[environment["status"] for environment in answer["serviceEnvironments"]] for answer in answers]


def queue_statuses(cloud, polls):
    answers = [cloud.call(job_queues.describe_job_queues, jobQueues=["gpu"]) for _ in range(polls)]
    return [[(queue["status"], queue["statusReason"]) for queue in answer["jobQueues"]] for answer in answers]


def disable(cloud):
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    cloud.call(environments.update_service_environment, serviceEnvironment="gpu", state="DISABLED")


def test_by_default_everything_is_done_at_once(cloud):
    cloud.fifo_queue()
    assert environment_statuses(cloud, 1) == [["VALID"]]
    disable(cloud)
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    cloud.call(environments.delete_service_environment, serviceEnvironment="gpu")
    assert environment_statuses(cloud, 1) == [[]]


def test_a_new_resource_is_creating_for_so_many_polls(cloud):
    cloud.runtime.settle_in(Settling(creating=2))
    cloud.environment()
    assert environment_statuses(cloud, 3) == [["CREATING"], ["CREATING"], ["VALID"]]
    cloud.queue()
    healthy = ("VALID", "JobQueue Healthy")
    assert queue_statuses(cloud, 3) == [[("CREATING", None)], [("CREATING", None)], [healthy]]


def test_an_environment_must_be_valid_before_a_queue_gets_it(cloud):
    cloud.runtime.settle_in(Settling(creating=1))
    cloud.environment()
    with pytest.raises(ClientException) as refused:
        cloud.queue()
    assert str(refused.value) == (
        "Service environments must be created and valid before attaching them to a job queue."
    )
    environment_statuses(cloud, 1)
    cloud.queue()


def test_c04_a_queue_that_is_being_updated_is_neither_updated_nor_deleted(cloud):
    cloud.fifo_queue()
    cloud.runtime.settle_in(Settling(updating=1))
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    with pytest.raises(ClientException, match=DELETE_REFUSED):
        cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    with pytest.raises(ClientException, match=UPDATE_REFUSED):
        cloud.call(job_queues.update_job_queue, jobQueue="gpu", priority=2)
    assert queue_statuses(cloud, 1) == [[("UPDATING", None)]]
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")


def test_c04_an_environment_that_is_being_updated_is_neither_updated_nor_deleted(cloud):
    cloud.environment()
    cloud.runtime.settle_in(Settling(updating=1))
    cloud.call(environments.update_service_environment, serviceEnvironment="gpu", state="DISABLED")
    with pytest.raises(ClientException, match=DELETE_REFUSED):
        cloud.call(environments.delete_service_environment, serviceEnvironment="gpu")
    with pytest.raises(ClientException, match=UPDATE_REFUSED):
        cloud.call(environments.update_service_environment, serviceEnvironment="gpu", state="ENABLED")
    assert environment_statuses(cloud, 2) == [["UPDATING"], ["VALID"]]


def test_deleted_resources_are_seen_deleting_before_they_are_gone(cloud):
    cloud.fifo_queue()
    disable(cloud)
    cloud.runtime.settle_in(Settling(deleting=1))
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    with pytest.raises(ClientException, match=DELETE_REFUSED):
        cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    assert queue_statuses(cloud, 2) == [[("DELETING", None)], []]
    cloud.call(environments.delete_service_environment, serviceEnvironment="gpu")
    with pytest.raises(ClientException, match=r"^Object already exists$"):
        cloud.environment()
    assert environment_statuses(cloud, 2) == [["DELETING"], []]
    cloud.environment()


def test_c04_an_environment_counts_as_used_for_a_moment_after_its_queue_has_gone(cloud):
    cloud.fifo_queue()
    disable(cloud)
    cloud.runtime.settle_in(Settling(detaching=2))
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    for _ in range(2):
        with pytest.raises(ClientException, match=r"^Cannot delete, found existing JobQueue relationship$"):
            cloud.call(environments.delete_service_environment, serviceEnvironment="gpu")
    cloud.call(environments.delete_service_environment, serviceEnvironment="gpu")
    assert environment_statuses(cloud, 1) == [[]]


def test_settling_is_set_for_regions_that_come_later_too(cloud):
    cloud.runtime.settle_in(Settling(creating=1))
    cloud.runtime.open_region("123456789012", "us-west-2")
    cloud.environment()
    assert environment_statuses(cloud, 1) == [["CREATING"]]


def test_an_in_process_aws_can_take_its_time():
    from fairshare.local.inprocess import local_aws

    with local_aws(VirtualClock(0), settling=Settling(creating=1)) as aws:
        batch = aws.client("batch")
        limits = [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]
        batch.create_service_environment(
            serviceEnvironmentName="gpu", serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits
        )
        statuses = [batch.describe_service_environments()["serviceEnvironments"][0]["status"] for _ in range(2)]
    assert statuses == ["CREATING", "VALID"]


def test_an_empty_queue_that_is_deleting_has_an_empty_snapshot(cloud):
    cloud.fair_queue()
    disable(cloud)
    cloud.runtime.settle_in(Settling(deleting=1))
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    front = cloud.call(listing.get_job_queue_snapshot, jobQueue="gpu")["frontOfQueue"]
    assert front["jobs"] == []


def test_a_quota_share_of_a_queue_that_is_deleting_can_neither_change_nor_go(cloud):
    cloud.quota_queue(1, QS1=(1, "LEND"))
    share = "arn:aws:batch:us-west-2:123456789012:job-queue/gpu/quota-share/QS1"
    cloud.call(quota_shares.update_quota_share, quotaShareArn=share, state="DISABLED")
    disable(cloud)
    cloud.runtime.settle_in(Settling(deleting=1))
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    with pytest.raises(ClientException, match=UPDATE_REFUSED):
        cloud.call(quota_shares.update_quota_share, quotaShareArn=share, state="ENABLED")
    with pytest.raises(ClientException, match=DELETE_REFUSED):
        cloud.call(quota_shares.delete_quota_share, quotaShareArn=share)
