"""A client nobody here wrote: SageMaker's own SDK, over HTTP against the local AWS, with its role validation left on.

Time is virtual: the SDK's pauses move the clock, so nothing is slept through. The session gets a default bucket because
the SDK otherwise asks STS at a public address that it spells out.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.exceptions
import pytest

from fairshare.local.server import LocalServer
from fairshare.scheduler.clock import VirtualClock

pytestmark = [
    # The SDK replaces directories it built its drivers in without closing them.
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up <TemporaryDirectory:ResourceWarning"),
]

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1"


@pytest.fixture(scope="module")
def sdk() -> SimpleNamespace:
    """The parts of the SDK that are used. Importing them sets up logging and warns about the SDK's own moves."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from sagemaker.core.helper.session_helper import Session
        from sagemaker.core.training.configs import Compute, SourceCode
        from sagemaker.core.utils import utils
        from sagemaker.train.aws_batch import training_queued_job
        from sagemaker.train.aws_batch.training_queue import TrainingQueue
        from sagemaker.train.model_trainer import ModelTrainer
    root.handlers[:], root.level = handlers, level
    return SimpleNamespace(
        Session=Session,
        Compute=Compute,
        SourceCode=SourceCode,
        utils=utils,
        training_queued_job=training_queued_job,
        TrainingQueue=TrainingQueue,
        ModelTrainer=ModelTrainer,
    )


@pytest.fixture(scope="module")
def clock() -> VirtualClock:
    return VirtualClock(1_790_000_000_000)


@pytest.fixture(scope="module")
def server(clock: VirtualClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(state_dir=tmp_path_factory.mktemp("local"), clock=clock) as server:
        yield server


@pytest.fixture(scope="module")
def session(server: LocalServer) -> boto3.session.Session:
    """One for all tests: botocore's service models are read once."""
    return boto3.session.Session(
        aws_access_key_id=server.address.access_key_id,
        aws_secret_access_key=server.address.secret_access_key,
        region_name="us-west-2",
    )


@pytest.fixture(autouse=True)
def environment(
    sdk: Any, server: LocalServer, session: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What leads every client to the local AWS, those that the SDK makes by itself included."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.address.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.address.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.address.secret_access_key)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", session)
    # The SDK keeps its first client for the life of the process.
    monkeypatch.setattr(sdk.utils._ClientCacheMeta, "_instances", {})
    pauses = SimpleNamespace(time=lambda: clock.now() / 1000, sleep=lambda s: clock.advance(round(s * 1000)))
    monkeypatch.setattr(sdk.training_queued_job, "time", pauses)


@pytest.fixture
def trainer(sdk: Any, tmp_path: Path) -> Iterator[Any]:
    """A user's ModelTrainer. Making it asks IAM whether the role exists, may do its work and is trusted."""
    source = tmp_path / "src"
    source.mkdir()
    (source / "train.py").write_text("print('hello')\n")
    trainer = sdk.ModelTrainer(
        sagemaker_session=sdk.Session(default_bucket="a-bucket"),
        role="MLTraining",
        training_image=IMAGE,
        source_code=sdk.SourceCode(source_dir=str(source), entry_script="train.py"),
        compute=sdk.Compute(instance_type="ml.g5.xlarge", instance_count=1),
        base_job_name="digits",
        environment={"FAIRSHARE_SIM_SECONDS": "120"},
        hyperparameters={"lr": 0.1},
    )
    yield trainer
    if trainer._temp_code_dir is not None:
        trainer._temp_code_dir.cleanup()


@pytest.fixture
def queue(sdk: Any, session: Any, request: pytest.FixtureRequest) -> Any:
    """A fair-share queue of the test's own, with one instance."""
    batch, name = session.client("batch"), request.node.name
    batch.create_service_environment(
        serviceEnvironmentName=name,
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
    )
    shares = [{"shareIdentifier": "HIGHPRI", "weightFactor": 1}, {"shareIdentifier": "LOWPRI", "weightFactor": 5}]
    policy = batch.create_scheduling_policy(name=name, fairsharePolicy={"shareDistribution": shares})
    batch.create_job_queue(
        jobQueueName=name,
        jobQueueType="SAGEMAKER_TRAINING",
        priority=1,
        schedulingPolicyArn=policy["arn"],
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": name}],
    )
    return sdk.TrainingQueue(name)


@pytest.fixture
def fresh_call_log(server: LocalServer) -> None:
    server.call_log.clear()


def test_the_role_is_validated(sdk, server, fresh_call_log, trainer):
    assert trainer.role == "arn:aws:iam::123456789012:role/MLTraining"
    operations = [call.operation for call in server.call_log.calls()]
    assert operations[:3] == ["GetRole", "SimulatePrincipalPolicy", "GetRole"]
    with pytest.raises(Exception, match="Nope"):
        sdk.ModelTrainer(
            sagemaker_session=sdk.Session(default_bucket="a-bucket"),
            role="Nope",
            training_image=IMAGE,
            compute=sdk.Compute(instance_type="ml.g5.xlarge", instance_count=1),
        )


def test_submit_and_describe(trainer, queue):
    job = queue.submit(trainer, inputs=None, share_identifier="HIGHPRI", priority=80, tags={"team": "search"})
    described = job.describe()
    assert (described["status"], described["jobName"]) == ("RUNNING", job.job_name)
    assert (described["shareIdentifier"], described["schedulingPriority"]) == ("HIGHPRI", 80)
    assert described["tags"]["team"] == "search"
    assert described["timeoutConfig"] == {"attemptDurationSeconds": 86400}
    payload = json.loads(described["serviceRequestPayload"])
    assert payload["ResourceConfig"]["InstanceType"] == "ml.g5.xlarge"
    name = described["latestAttempt"]["serviceResourceId"]["value"].rsplit("/", 1)[-1]
    assert name.startswith("AWSBatchdigits-")


def test_map_makes_one_job_for_each_input(trainer, queue):
    jobs = queue.map(trainer, inputs=[None, None], job_names=["first", "second"], share_identifier="LOWPRI")
    assert [job.job_name for job in jobs] == ["first", "second"]
    assert [job.describe()["status"] for job in jobs] == ["RUNNING", "RUNNABLE"]


def test_list_jobs_and_get_job(trainer, queue):
    running = queue.submit(trainer, inputs=None, job_name="running", share_identifier="HIGHPRI")
    waiting = queue.submit(trainer, inputs=None, job_name="waiting", share_identifier="LOWPRI")

    def arns(jobs: list[Any]) -> list[str]:
        return [job.job_arn for job in jobs]

    assert arns(queue.list_jobs()) == [running.job_arn]
    assert arns(queue.list_jobs(status="RUNNABLE")) == [waiting.job_arn]
    assert arns(queue.list_jobs(job_name="wait*")) == [waiting.job_arn]
    assert arns(queue.list_jobs_by_share(share_identifier="HIGHPRI")) == [running.job_arn]
    (by_share,) = queue.list_jobs_by_share(status="RUNNABLE", share_identifier="LOWPRI")
    assert (by_share.job_arn, by_share.share_identifier) == (waiting.job_arn, "LOWPRI")
    assert queue.list_jobs_by_share(status="RUNNABLE", share_identifier="HIGHPRI") == []
    assert queue.get_job("WAITING").job_arn == waiting.job_arn
    with pytest.raises(ValueError, match="Cannot find job: nope"):
        queue.get_job("nope")


def test_update_orders_the_share(trainer, queue, clock):
    queue.submit(trainer, inputs=None, share_identifier="LOWPRI")
    first, second = queue.map(trainer, [None, None], job_names=["first", "second"], share_identifier="LOWPRI")
    assert second.update(9)["jobName"] == "second"
    clock.advance(120_000)
    assert [job.describe()["status"] for job in (first, second)] == ["RUNNABLE", "RUNNING"]


def test_terminate_ends_a_job_with_its_reason(trainer, queue):
    job = queue.submit(trainer, inputs=None, share_identifier="LOWPRI")
    job.terminate("enough")
    described = job.describe()
    assert (described["status"], described["statusReason"], described["isTerminated"]) == ("FAILED", "enough", True)


def test_wait_ends_with_the_job_or_with_its_timeout(trainer, queue):
    job = queue.submit(trainer, inputs=None, share_identifier="LOWPRI")
    assert job.wait(timeout=30)["status"] == "RUNNING"
    described = job.wait()
    assert described["status"] == "SUCCEEDED"
    assert described["statusReason"] == "Received status from SageMaker: Training job completed"
    assert described["stoppedAt"] == described["createdAt"] + 120_000


def test_get_model_trainer_reads_the_training_job_back(trainer, queue):
    job = queue.submit(trainer, inputs=None, share_identifier="LOWPRI")
    job.wait()
    again = job.get_model_trainer()
    assert (again.role, again.training_image) == (trainer.role, IMAGE)
    assert (again.compute.instance_type, again.compute.instance_count) == ("ml.g5.xlarge", 1)
    assert again.hyperparameters == {"lr": "0.1"}
    training_job = again._latest_training_job
    assert training_job.training_job_status == "Completed"
    assert training_job.secondary_status == "Completed"
    assert training_job.billable_time_in_seconds == 120


def test_get_model_trainer_of_a_waiting_job_says_so(trainer, queue):
    queue.submit(trainer, inputs=None, share_identifier="LOWPRI")
    waiting = queue.submit(trainer, inputs=None, share_identifier="LOWPRI")
    with pytest.raises(Exception, match="Job is still waiting in queue"):
        waiting.get_model_trainer()


@pytest.fixture
def quota_queue(sdk: Any, session: Any) -> Iterator[Any]:
    """The resources of SageMaker's notebook on quota management (QM-4), made and deleted in its order."""
    batch, name = session.client("batch"), "my-sm-training-qm-jq"
    environment = batch.create_service_environment(
        serviceEnvironmentName="my-sm-training-qm-se",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 3, "capacityUnit": "ml.g5.xlarge"}],
    )
    policy = batch.create_scheduling_policy(
        name="my-qm-scheduling-policy", quotaSharePolicy={"idleResourceAssignmentStrategy": "FIFO"}
    )
    batch.create_job_queue(
        jobQueueName=name,
        jobQueueType="SAGEMAKER_TRAINING",
        priority=1,
        schedulingPolicyArn=policy["arn"],
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": environment["serviceEnvironmentArn"]}],
    )
    terms = {
        "QS1": ({"strategy": "LEND_AND_BORROW", "borrowLimit": 200}, "ENABLED"),
        "QS2": ({"strategy": "LEND"}, "DISABLED"),
        "QS3": ({"strategy": "RESERVE"}, "DISABLED"),
    }
    shares = [
        batch.create_quota_share(
            quotaShareName=share,
            jobQueue=name,
            capacityLimits=[{"maxCapacity": 1, "capacityUnit": "ml.g5.xlarge"}],
            resourceSharingConfiguration=sharing,
            preemptionConfiguration={"inSharePreemption": in_share},
        )["quotaShareArn"]
        for share, (sharing, in_share) in terms.items()
    ]
    yield sdk.TrainingQueue(name)
    for share in shares:
        batch.update_quota_share(quotaShareArn=share, state="DISABLED")
        batch.delete_quota_share(quotaShareArn=share)
        with pytest.raises(botocore.exceptions.ClientError, match="does not exist"):
            batch.describe_quota_share(quotaShareArn=share)
    batch.update_job_queue(jobQueue=name, state="DISABLED")
    batch.delete_job_queue(jobQueue=name)
    batch.delete_scheduling_policy(arn=policy["arn"])
    batch.update_service_environment(serviceEnvironment="my-sm-training-qm-se", state="DISABLED")
    batch.delete_service_environment(serviceEnvironment="my-sm-training-qm-se")


def test_qm4_the_notebook_on_quota_management(trainer, quota_queue, session):
    def submit(name: str, share: str, priority: int) -> Any:
        retries = {"preemptionRetriesBeforeTermination": 3}
        return quota_queue.submit(
            trainer, None, name, priority=priority, quota_share_name=share, preemption_config=retries
        )

    def statuses(*jobs: Any) -> list[str]:
        return [job.describe()["status"] for job in jobs]

    high, med, low = submit("high", "QS1", 3), submit("med", "QS1", 2), submit("low", "QS1", 1)
    assert statuses(high, med, low) == ["RUNNING", "RUNNING", "RUNNABLE"]

    owner = submit("owner", "QS2", 1)
    assert statuses(high, med, low, owner) == ["RUNNING", "RUNNABLE", "RUNNABLE", "RUNNING"]

    low.update(4)
    assert statuses(high, med, low, owner) == ["RUNNABLE", "RUNNABLE", "RUNNING", "RUNNING"]

    described = med.describe()
    assert (described["quotaShareName"], described["attempts"]) == ("QS1", [])
    assert described["preemptionConfiguration"] == {"preemptionRetriesBeforeTermination": 3}
    assert described["preemptionSummary"]["preemptedAttemptCount"] == 1
    (preempted,) = described["preemptionSummary"]["recentPreemptedAttempts"]
    assert preempted["serviceResourceId"] == described["latestAttempt"]["serviceResourceId"]
    sagemaker = session.client("sagemaker")
    training_job = sagemaker.describe_training_job(
        TrainingJobName=preempted["serviceResourceId"]["value"].rsplit("/", 1)[-1]
    )
    assert training_job["TrainingJobStatus"] == "Stopped"

    fronts = session.client("batch").get_job_queue_snapshot(jobQueue=quota_queue.queue_name)["frontOfQuotaShares"]
    assert set(fronts["quotaShares"]) == {"QS1"}
    assert fronts["quotaShares"]["QS1"][0]["jobArn"] == high.job_arn

    assert {job.wait()["status"] for job in (high, med, low, owner)} == {"SUCCEEDED"}
    assert [len(job.describe()["attempts"]) for job in (high, med, low, owner)] == [1, 1, 1, 1]


def test_a_share_and_a_quota_share_at_once_are_refused_by_the_sdk(trainer, quota_queue):
    with pytest.raises(ValueError, match="share"):
        quota_queue.submit(trainer, None, "both", share_identifier="HIGHPRI", quota_share_name="QS1")
