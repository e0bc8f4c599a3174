"""A session whose clients are chosen by the test, and a fake AWS Batch that settles as slowly as the real one.

Whatever a fake is asked or answers is checked against botocore's service model, so a misspelt field fails here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.session import get_session
from botocore.stub import Stubber
from botocore.validate import ParamValidator

from fairshare.aws.provisioner import BatchProvisioner
from fairshare.aws.session import AwsSession
from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import FairshareConfig, Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.provision.apply import apply
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.plan import Plan, plan_setup, plan_teardown
from fairshare.scheduler.clock import VirtualClock

ACCOUNT = "111122223333"
REGION = "us-west-2"


def _refusal(text: str, code: str = "ClientException", status: int = 400) -> ClientError:
    answer = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Operation")


class CheckedClient:
    """A fake client behind botocore's own validation of requests and answers. ``calls`` holds what was asked."""

    def __init__(self, service: str, fake: Any) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._fake = fake
        self._model = get_session().get_service_model(service)
        self._operations = {xform_name(name): name for name in self._model.operation_names}

    def __getattr__(self, method: str) -> Callable[..., Any]:
        operation = self._model.operation_model(self._operations[method])

        def call(**request: Any) -> Any:
            self._check(request, operation.input_shape, method)
            self.calls.append((method, request))
            answer = getattr(self._fake, method)(**request)
            if operation.output_shape is not None:
                self._check(answer, operation.output_shape, method)
            return answer

        return call

    @staticmethod
    def _check(value: Any, shape: Any, method: str) -> None:
        report = ParamValidator().validate(value, shape)
        unknown = set(value) - set(shape.members)
        assert not report.has_errors(), f"{method}: {report.generate_report()}"
        assert not unknown, f"{method}: unknown {unknown}"


class FakeBatch:
    """Environments, policies and queues. A change is in progress for ``slow`` looks; changes meanwhile are refused."""

    def __init__(self, slow: int = 0) -> None:
        self.slow = slow
        self.environments: dict[str, dict[str, Any]] = {}
        self.policies: dict[str, dict[str, Any]] = {}
        self.queues: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, list[str]] = {}
        """Statuses of the jobs in a queue."""
        self.on_create: Callable[[], None] = lambda: None
        """Called when a resource has been made, before the answer: an exception is an answer that is lost."""
        self._pending: dict[int, int] = {}

    # environments

    def create_service_environment(self, **request: Any) -> dict[str, Any]:
        name = request["serviceEnvironmentName"]
        detail = request | {"serviceEnvironmentArn": self._arn("service-environment", name), "status": "CREATING"}
        self._create(self.environments, name, detail)
        return {"serviceEnvironmentName": name, "serviceEnvironmentArn": detail["serviceEnvironmentArn"]}

    def describe_service_environments(self, **request: Any) -> dict[str, Any]:
        return {"serviceEnvironments": self._look(self.environments, request.get("serviceEnvironments"))}

    def update_service_environment(self, *, serviceEnvironment: str, **settings: Any) -> dict[str, Any]:
        detail = self._update(self.environments, serviceEnvironment, settings)
        return {name: detail[name] for name in ("serviceEnvironmentName", "serviceEnvironmentArn")}

    def delete_service_environment(self, *, serviceEnvironment: str) -> dict[str, Any]:
        used = (queue["serviceEnvironmentOrder"][0]["serviceEnvironment"] for queue in self.queues.values())
        if any(arn.endswith(f"/{serviceEnvironment}") for arn in used):
            raise _refusal("Cannot delete, found existing JobQueue relationship")
        return self._delete(self.environments, serviceEnvironment)

    # queues

    def create_job_queue(self, **request: Any) -> dict[str, Any]:
        name = request["jobQueueName"]
        detail = request | {
            "jobQueueArn": self._arn("job-queue", name),
            "status": "CREATING",
            "computeEnvironmentOrder": [],
        }
        self._create(self.queues, name, detail)
        return {"jobQueueName": name, "jobQueueArn": detail["jobQueueArn"]}

    def describe_job_queues(self, **request: Any) -> dict[str, Any]:
        return {"jobQueues": self._look(self.queues, request.get("jobQueues"))}

    def update_job_queue(self, *, jobQueue: str, **settings: Any) -> dict[str, Any]:
        detail = self._update(self.queues, jobQueue, settings)
        return {name: detail[name] for name in ("jobQueueName", "jobQueueArn")}

    def delete_job_queue(self, *, jobQueue: str) -> dict[str, Any]:
        return self._delete(self.queues, jobQueue)

    # policies

    def create_scheduling_policy(self, **request: Any) -> dict[str, Any]:
        detail = request | {"arn": self._arn("scheduling-policy", request["name"])}
        self._create(self.policies, detail["arn"], detail)
        return {"name": detail["name"], "arn": detail["arn"]}

    def list_scheduling_policies(self, *, maxResults: int, nextToken: str = "0") -> dict[str, Any]:
        """One policy a page, and an empty page first."""
        arns = list(self.policies)
        position = int(nextToken)
        page: dict[str, Any] = {
            "schedulingPolicies": [{"arn": arn} for arn in arns[position - 1 : position] if position]
        }
        return page | ({"nextToken": str(position + 1)} if position < len(arns) else {})

    def describe_scheduling_policies(self, *, arns: list[str]) -> dict[str, Any]:
        assert len(arns) <= 100
        return {"schedulingPolicies": [self.policies[arn] for arn in reversed(arns) if arn in self.policies]}

    def update_scheduling_policy(self, *, arn: str, **settings: Any) -> dict[str, Any]:
        self.policies[arn].update(settings)
        return {}

    def delete_scheduling_policy(self, *, arn: str) -> dict[str, Any]:
        if any(queue.get("schedulingPolicyArn") == arn for queue in self.queues.values()):
            raise _refusal("policy is in use")
        if self.policies.pop(arn, None) is None:
            raise _refusal(f"SchedulingPolicy {arn} not found.")
        return {}

    # tags and jobs

    def tag_resource(self, *, resourceArn: str, tags: dict[str, str]) -> dict[str, Any]:
        detail = self._of_arn(resourceArn)
        detail["tags"] = {**detail.get("tags", {}), **tags}
        return {}

    def untag_resource(self, *, resourceArn: str, tagKeys: list[str]) -> dict[str, Any]:
        detail = self._of_arn(resourceArn)
        detail["tags"] = {key: value for key, value in detail["tags"].items() if key not in tagKeys}
        return {}

    def list_service_jobs(self, *, jobQueue: str, jobStatus: str, maxResults: int) -> dict[str, Any]:
        named = [f"job-{number}" for number, status in enumerate(self.jobs.get(jobQueue, [])) if status == jobStatus]
        required = {"jobName": "train", "serviceJobType": "SAGEMAKER_TRAINING", "createdAt": 1, "status": jobStatus}
        return {"jobSummaryList": [required | {"jobId": job_id} for job_id in named]}

    # how changes settle

    def _arn(self, kind: str, name: str) -> str:
        return f"arn:aws:batch:{REGION}:{ACCOUNT}:{kind}/{name}"

    def _of_arn(self, arn: str) -> dict[str, Any]:
        kind, name = arn.rsplit(":", 1)[-1].split("/")
        found = {"service-environment": self.environments, "job-queue": self.queues, "scheduling-policy": self.policies}
        return found[kind][arn if kind == "scheduling-policy" else name]

    def _create(self, resources: dict[str, dict[str, Any]], key: str, detail: dict[str, Any]) -> None:
        if key in resources:
            raise _refusal("Object already exists")
        resources[key] = detail
        self._pending[id(detail)] = self.slow
        self.on_create()

    def _update(self, resources: dict[str, dict[str, Any]], name: str, settings: dict[str, Any]) -> dict[str, Any]:
        detail = self._settled(resources, name)
        detail.update(settings, status="UPDATING")
        self._pending[id(detail)] = self.slow
        return detail

    def _delete(self, resources: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
        detail = self._settled(resources, name)
        if detail["state"] != "DISABLED":
            raise _refusal("Cannot delete, the resource is ENABLED")
        detail["status"] = "DELETING"
        self._pending[id(detail)] = self.slow
        return {}

    def _settled(self, resources: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
        if name not in resources:
            raise _refusal(f"{name} does not exist")
        if resources[name]["status"] not in ("VALID", "INVALID"):
            raise _refusal("Cannot delete, resource is being modified")
        return resources[name]

    def _look(self, resources: dict[str, dict[str, Any]], names: list[str] | None) -> list[dict[str, Any]]:
        """Describe, in no useful order; each look brings what is in progress one step further."""
        answer = []
        for name in reversed(list(resources)):
            if names is not None and name not in names:
                continue
            detail = resources[name]
            left = self._pending.get(id(detail), 0)
            self._pending[id(detail)] = left - 1
            if left > 0 or detail["status"] in ("VALID", "INVALID"):
                answer.append(dict(detail))
            elif detail["status"] == "DELETING":
                del resources[name]
            else:
                detail["status"] = "VALID"
                answer.append(dict(detail))
        return answer


class ChosenClients(AwsSession):
    """A session whose clients are given. Its account is known without asking."""

    account_id = ACCOUNT  # type: ignore[assignment]

    def __init__(self, **clients: Any) -> None:
        super().__init__(region=REGION, profile="ml")
        self._chosen = clients
        self.asked: list[tuple[str, int | None]] = []

    def client(self, service: str, *, retries: int | None = None) -> Any:
        self.asked.append((service, retries))
        return self._chosen[service]


class Bench:
    """A provisioner of stack ``ml`` on a fake AWS Batch and a virtual clock, and the steps of the commands."""

    start = 1_000_000

    def __init__(self, fake: FakeBatch, **options: Any) -> None:
        self.fake = fake
        self.client = CheckedClient("batch", fake)
        self.session = ChosenClients(batch=self.client)
        self.clock = VirtualClock(self.start)
        self.provisioner = BatchProvisioner(self.session, self.clock, **options)

    @staticmethod
    def desired(capacity: int = 16, priority: int = 10, low: str = "5", **tags: str) -> Desired:
        """One environment ``gpu``, a fair-share queue ``gpu`` and a FIFO queue ``fifo``."""
        shares = FairshareConfig(shares={"HIGHPRI": "0.1", "LOWPRI": low}, share_decay_seconds=3600)
        environment = ServiceEnvironmentConfig(capacity=capacity, instance_types=("ml.c5.xlarge",))
        queues = {
            "gpu": QueueConfig(service_environment="gpu", priority=priority, fairshare=shares),
            "fifo": QueueConfig(service_environment="gpu", priority=0),
        }
        off = AlarmsSection(enabled=False)
        environments = {"gpu": environment}
        return desired_state(
            Project(stack="ml", service_environments=environments, queues=queues, tags=tags, alarms=off)
        )

    def plan(self, desired: Desired, *, adopt: bool = False) -> Plan:
        observed = self.provisioner.observe(desired.names, desired.stack)
        return plan_setup(desired, observed, region=REGION, account_id=ACCOUNT, adopt=adopt)

    def plan_teardown(self, *, end_jobs: bool = False) -> Plan:
        observed = self.provisioner.observe((), "ml")
        return plan_teardown(observed, "ml", region=REGION, account_id=ACCOUNT, end_jobs=end_jobs)

    def setup(self, desired: Desired) -> None:
        apply(self.plan(desired), self.provisioner, lambda change: None)

    def teardown(self, *, end_jobs: bool = False) -> None:
        apply(self.plan_teardown(end_jobs=end_jobs), self.provisioner, lambda change: None)

    def changes(self) -> list[str]:
        """Names of the calls that change something, since the last time."""
        made = [method for method, _ in self.client.calls if not method.startswith(("describe", "list"))]
        self.client.calls.clear()
        return made


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """Make a bench; ``slow`` = looks that a change takes."""
    return lambda slow=0, **options: Bench(FakeBatch(slow), **options)


@pytest.fixture
def refusal() -> Callable[..., ClientError]:
    """Make the exception of an answer that refuses."""
    return _refusal


@pytest.fixture
def checked() -> Callable[[str, Any], CheckedClient]:
    """Put a fake client behind botocore's validation."""
    return CheckedClient


@pytest.fixture
def session_of() -> Callable[..., ChosenClients]:
    """Make a session of given clients, by service name."""
    return ChosenClients


@pytest.fixture
def stubbed() -> Callable[[str], tuple[Any, Stubber]]:
    """Make a real client that answers from a Stubber."""

    def make(service: str) -> tuple[Any, Stubber]:
        keys = {"aws_access_key_id": "AKEXAMPLE", "aws_secret_access_key": "example"}
        client = get_session().create_client(service, region_name=REGION, **keys)
        stubber = Stubber(client)
        stubber.activate()
        return client, stubber

    return make
