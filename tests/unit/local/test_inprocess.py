"""The local AWS inside this process."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import boto3
import pytest
from moto import mock_aws
from moto.batch.models import BatchBackend, batch_backends
from moto.moto_api import recorder

from fairshare.local.inprocess import local_aws
from fairshare.local.simulated import SimulatedLauncher
from fairshare.model import UsageError
from fairshare.scheduler.clock import VirtualClock


def set_up(batch):
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
    )
    batch.create_job_queue(
        jobQueueName="gpu",
        priority=1,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}],
    )


def submit(batch):
    payload = '{"TrainingJobName": "a", "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}}'
    request = {"jobName": "a", "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING"}
    return batch.submit_service_job(**request, serviceRequestPayload=payload)["jobId"]


def test_ids_can_be_foreseen():
    numbers = count(1)
    with local_aws(VirtualClock(0), new_id=lambda: UUID(int=next(numbers))) as aws:
        set_up(aws.client("batch"))
        assert submit(aws.client("batch")) == "00000000-0000-0000-0000-000000000001"
        described = aws.client("batch").describe_service_job(jobId="00000000-0000-0000-0000-000000000001")
        arn = described["latestAttempt"]["serviceResourceId"]["value"]
        assert arn == "arn:aws:sagemaker:us-east-1:123456789012:training-job/AWSBatcha" + f"{2:032x}"


def test_without_a_clock_it_is_now():
    with local_aws() as aws:
        set_up(aws.client("batch"))
        job = aws.client("batch").describe_service_job(jobId=submit(aws.client("batch")))
        assert 0 <= aws.clock.now() - job["createdAt"] < 60_000


def test_regions_and_accounts_are_kept_apart(monkeypatch):
    with local_aws(VirtualClock(0)) as aws:
        set_up(aws.client("batch", "us-west-2"))
        assert aws.client("batch", "eu-west-1").describe_job_queues()["jobQueues"] == []
        monkeypatch.setenv("MOTO_ACCOUNT_ID", "999999999999")
        assert aws.client("batch", "us-west-2").describe_job_queues()["jobQueues"] == []


def test_motos_reset_empties_everything_but_the_role():
    with local_aws(VirtualClock(0)) as aws:
        set_up(aws.client("batch"))
        submit(aws.client("batch"))
        with mock_aws():  # nested: does not reset
            assert len(aws.client("batch").describe_job_queues()["jobQueues"]) == 1
        from moto.core.base_backend import BackendDict

        BackendDict.reset()
        assert aws.client("batch").describe_job_queues()["jobQueues"] == []
        assert aws.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
        assert aws.client("iam").get_role(RoleName="MLTraining")["Role"]["RoleName"] == "MLTraining"
        set_up(aws.client("batch"))
        assert aws.client("batch").describe_service_job(jobId=submit(aws.client("batch")))["status"] == "RUNNING"


def test_each_begins_empty_and_leaves_moto_as_it_was():
    for _ in range(2):
        with local_aws(VirtualClock(0)) as aws:
            assert aws.client("batch").describe_job_queues()["jobQueues"] == []
            set_up(aws.client("batch"))
    assert batch_backends.backend is BatchBackend
    assert "_record_request" not in vars(recorder)
    with mock_aws():
        assert boto3.client("iam", region_name="us-east-1").list_roles()["Roles"] == []


def test_there_can_be_one_only():
    with (
        local_aws(VirtualClock(0)) as aws,
        pytest.raises(UsageError, match=r"^This process already has a local AWS, and moto keeps its state in one"),
        local_aws(VirtualClock(0)),
    ):
        pass
    with local_aws(VirtualClock(0)) as aws:
        assert aws.client("batch").describe_job_queues()["jobQueues"] == []


def test_the_launcher_is_closed_even_after_an_error():
    class Noticing(SimulatedLauncher):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    launcher = Noticing()
    with pytest.raises(ZeroDivisionError), local_aws(VirtualClock(0), launcher):
        _ = 1 / 0
    assert launcher.closed == 1


def test_a_fault_of_ours_is_not_hidden(monkeypatch):
    from fairshare.local import moto_responses

    def fails(region, request):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(
        moto_responses.BatchServiceResponse, "describe_job_queues", moto_responses._method(fails), raising=True
    )
    with local_aws(VirtualClock(0)) as aws, pytest.raises(ZeroDivisionError, match="a bug"):
        aws.client("batch").describe_job_queues()


def test_the_account_here_has_no_quotas_of_instances_and_can_be_asked():
    with local_aws(VirtualClock(0)) as aws:
        quotas = aws.client("service-quotas")
        assert quotas.list_service_quotas(ServiceCode="sagemaker", MaxResults=100)["Quotas"] == []
        assert quotas.list_aws_default_service_quotas(ServiceCode="vpc")["Quotas"]
