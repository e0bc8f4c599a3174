"""Least privilege, proved: what every command calls, its role may call, and a role may nothing that nobody calls.

Each role runs its commands against the local AWS; every call of boto3 is recorded with its parameters and put to the
policies that `fairshare export iam` publishes for that role, resources and conditions included.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import botocore.client
import pytest

from fairshare.cli.main import COMMANDS, run
from fairshare.local.inprocess import InProcessAws, local_aws
from fairshare.provision.export.iam import PERMISSION_ONLY

ACCOUNT = "123456789012"
REGION = "us-east-1"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:lab-news"
HANDLER = Path(__file__).parents[2] / "infra" / "collector" / "handler.py"

PROJECT = """\
version: 1
stack: lab
region: us-east-1
account: "123456789012"
service_environments:
  pool: {capacity: 4, instance_types: [ml.m5.large]}
  sweep: {capacity_limits: {ml.m5.large: 8}}
queues:
  train:
    service_environment: pool
    fairshare: {shares: {HIGHPRI: {weight_factor: 1}, LOWPRI: {weight_factor: 3}}}
  line: {service_environment: pool, fifo: true}
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.m5.large: 5}, sharing: LEND_AND_BORROW}
      TEAMB: {capacity_limits: {ml.m5.large: 3}, sharing: LEND}
tags: {team: search}
defaults: {queue: train, share: LOWPRI, priority: 10, instance_type: ml.m5.large, role: Training, image: python:local}
"""
CHANGED = (
    PROJECT.replace("capacity: 4", "capacity: 5")
    .replace("weight_factor: 3", "weight_factor: 4")
    .replace("{ml.m5.large: 5}", "{ml.m5.large: 6}")
    .replace("      TEAMB: {capacity_limits: {ml.m5.large: 3}, sharing: LEND}\n", "")
    .replace("fifo: true", "fifo: true, priority: 7")
    .replace("tags: {team: search}", "tags: {group: search}\nalarms: {oldest_wait: {threshold: 1h}}")
)
WITHOUT_ALARMS = CHANGED.replace("alarms: {oldest_wait: {threshold: 1h}}", "alarms: {enabled: false}")
JOBS = """\
jobs:
  - name: digits
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 1}
    sweep: {seed: {range: [0, 2]}}
"""

CALL_NOTHING = {
    "demo": "brings a local AWS of its own",
    "export": "reads fairshare.yaml",
    "help": "reads nothing",
    "local": "is the other side",
    "policy": "reads fairshare.yaml and workloads",
    "runs": "reads the journals of this machine",
}
"""Commands that need no policy, and why."""

ROLES = {
    "admin": ("viewer", "admin"),
    "submitter": ("viewer", "submitter-train.LOWPRI"),
    "fifo submitter": ("viewer", "submitter-line"),
    "quota submitter": ("viewer", "submitter-sweep.TEAMA"),
    "viewer": ("viewer",),
    "collector": ("collector",),
}
"""The policies that each role has."""

NEEDS_NONE = {"sts:GetCallerIdentity"}
"""Allowed to everybody, even when a policy denies it
(https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html)."""

ACTIONS = {
    "service-quotas:ListServiceQuotas": "servicequotas:ListServiceQuotas",
    "s3:HeadObject": "s3:GetObject",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectsV2": "s3:ListBucket",
    "batch:TerminateServiceJobs": "batch:TerminateServiceJob",
}
"""Operations that another action allows."""


@dataclass(frozen=True)
class Call:
    """One call of boto3."""

    service: str
    operation: str
    params: Mapping[str, Any]

    @property
    def action(self) -> str:
        name = f"{self.service}:{self.operation}"
        return ACTIONS.get(name, name)

    @property
    def resources(self) -> tuple[str, ...]:
        """ARNs that IAM looks at; ``*`` where the action has no resource level."""
        resources = RESOURCES.get(f"{self.service}:{self.operation}", lambda params: ["*"])
        return tuple(filter(None, resources(self.params)))

    @property
    def context(self) -> dict[str, str]:
        """Condition keys of the request. Every job here was sent by fairshare, and every bucket is the account's."""
        keys = {
            "batch:ShareIdentifier": self.params.get("shareIdentifier"),
            "batch:SchedulingPriority": self.params.get("schedulingPriority"),
            "cloudwatch:namespace": self.params.get("Namespace"),
            "aws:ResourceAccount": ACCOUNT,
            "aws:ResourceTag/fairshare:run": "first",
        }
        return {key: str(value) for key, value in keys.items() if value is not None}


def _arn(service: str, resource: str, *, regional: bool = True) -> str:
    return f"arn:aws:{service}:{REGION if regional else ''}:{ACCOUNT}:{resource}"


def _batch(kind: str, name: str) -> str:
    return name if name.startswith("arn:") else _arn("batch", f"{kind}/{name}")


def _bucket(params: Mapping[str, Any]) -> str:
    return "arn:aws:s3:::" + "/".join(filter(None, [params["Bucket"], params.get("Key")]))


def _queue(params: Mapping[str, Any]) -> list[str | None]:
    """A queue and what it refers to."""
    environments = [entry["serviceEnvironment"] for entry in params.get("serviceEnvironmentOrder", ())]
    name = params.get("jobQueueName") or params["jobQueue"]
    return [_batch("job-queue", name), params.get("schedulingPolicyArn"), *environments]


def _environment(params: Mapping[str, Any]) -> list[str | None]:
    return [_batch("service-environment", params.get("serviceEnvironmentName") or params["serviceEnvironment"])]


def _policy(params: Mapping[str, Any]) -> list[str | None]:
    return [params.get("arn") or _batch("scheduling-policy", params["name"])]


def _alarms(names: Sequence[str]) -> list[str | None]:
    return [_arn("cloudwatch", f"alarm:{name}") for name in names]


def _dashboards(names: Sequence[str]) -> list[str | None]:
    return [_arn("cloudwatch", f"dashboard/{name}", regional=False) for name in names]


RESOURCES: Mapping[str, Callable[[Mapping[str, Any]], list[str | None]]] = {
    "batch:SubmitServiceJob": lambda p: [
        _batch("job-queue", p["jobQueue"]),
        _batch("service-job", "new"),
        _batch("job-queue", f"{p['jobQueue']}/quota-share/{p['quotaShareName']}") if "quotaShareName" in p else None,
    ],
    "batch:CreateQuotaShare": lambda p: [
        _batch("job-queue", p["jobQueue"]),
        _batch("job-queue", f"{p['jobQueue']}/quota-share/{p['quotaShareName']}"),
    ],
    **{f"batch:{verb}QuotaShare": lambda p: [p["quotaShareArn"]] for verb in ("Update", "Delete", "Describe")},
    "batch:ListQuotaShares": lambda p: [_batch("job-queue", p["jobQueue"])],
    "batch:GetJobQueueSnapshot": lambda p: [_batch("job-queue", p["jobQueue"])],
    "batch:TerminateServiceJob": lambda p: [_batch("service-job", p["jobId"])],
    **{f"batch:{verb}JobQueue": _queue for verb in ("Create", "Update", "Delete")},
    **{f"batch:{verb}ServiceEnvironment": _environment for verb in ("Create", "Update", "Delete")},
    **{f"batch:{verb}SchedulingPolicy": _policy for verb in ("Create", "Update", "Delete")},
    **{f"batch:{verb}Resource": lambda p: [p["resourceArn"]] for verb in ("Tag", "Untag")},
    "cloudwatch:PutMetricAlarm": lambda p: _alarms([p["AlarmName"]]),
    "cloudwatch:DeleteAlarms": lambda p: _alarms(p["AlarmNames"]),
    **{f"cloudwatch:{verb}Resource": lambda p: [p["ResourceARN"]] for verb in ("ListTagsFor", "Tag", "Untag")},
    **{f"cloudwatch:{verb}Dashboard": lambda p: _dashboards([p["DashboardName"]]) for verb in ("Get", "Put")},
    "cloudwatch:DeleteDashboards": lambda p: _dashboards(p["DashboardNames"]),
    "logs:DescribeLogStreams": lambda p: [_arn("logs", f"log-group:{p['logGroupName']}:*")],
    "logs:GetLogEvents": lambda p: [_arn("logs", f"log-group:{p['logGroupName']}:log-stream:{p['logStreamName']}")],
    "sagemaker:DescribeTrainingJob": lambda p: [_arn("sagemaker", f"training-job/{p['TrainingJobName']}")],
    "sns:Publish": lambda p: [p["TopicArn"]],
    **{f"s3:{name}": lambda p: [_bucket(p)] for name in ("HeadBucket", "HeadObject", "GetObject", "PutObject")},
    "s3:CreateBucket": lambda p: [_bucket(p)],
}
"""Operation -> ARNs that IAM looks at. What is not here has no resource level."""


# ---------------------------------------------------------------------------------------------------------------------
# A part of IAM, as far as our policies use it


def allows(statements: Sequence[Mapping[str, Any]], call: Call) -> bool:
    """Whether each resource of a call is allowed by a statement. All statements of ours allow."""
    return all(any(_applies(statement, call, resource) for statement in statements) for resource in call.resources)


def _applies(statement: Mapping[str, Any], call: Call, resource: str) -> bool:
    assert statement["Effect"] == "Allow"
    return (
        call.action in statement["Action"]
        and any(fnmatchcase(resource, pattern) for pattern in statement["Resource"])
        and all(
            _holds(operator, call.context.get(key), value)
            for operator, keys in statement.get("Condition", {}).items()
            for key, value in keys.items()
        )
    )


def _holds(operator: str, found: str | None, wanted: str) -> bool:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html"""
    if operator == "Null":
        return (found is None) is (wanted == "true")
    if found is None:
        return operator.endswith("IfExists")
    match operator.removesuffix("IfExists"):
        case "StringEquals":
            return found == wanted
        case "StringLike":
            return fnmatchcase(found, wanted)
        case "NumericLessThanEquals":
            return float(found) <= float(wanted)
    raise AssertionError(operator)


# ---------------------------------------------------------------------------------------------------------------------
# Every role at work


@dataclass
class Recorder:
    """Runs command lines; what they call is kept under the role that runs them."""

    aws: InProcessAws
    folder: Path
    calls: dict[str, list[Call]] = field(default_factory=dict)
    commands: set[str] = field(default_factory=set)
    role: str = ""

    def note(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        if self.role:
            self.calls.setdefault(self.role, []).append(Call(service, operation, params))

    def __call__(self, *argv: str, codes: Sequence[int] = (0,)) -> Any:
        """Run a command line as the present role; return what it printed, from JSON where it is some."""
        known = [name for name in COMMANDS if argv[: len(name.split())] == tuple(name.split())]
        self.commands.add(max(known, key=len))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*argv])
        assert code in codes, (argv, code, out.getvalue(), err.getvalue())
        text = out.getvalue()
        return json.loads(text) if text.startswith("{") else text

    @contextlib.contextmanager
    def acting_as(self, role: str) -> Iterator[None]:
        self.role = role
        try:
            yield
        finally:
            self.role = ""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """All roles, one after the other, in a project that is set up, used and torn down."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".git").mkdir()
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text("print('hello')\n")
    (folder / "fairshare.yaml").write_text(PROJECT)
    (folder / "jobs.yaml").write_text(JOBS)
    (folder / "long.yaml").write_text(JOBS.replace("SECONDS: 1", "SECONDS: 1000000"))
    real = botocore.client.BaseClient._make_api_call
    with pytest.MonkeyPatch.context() as patch, local_aws(speed=1000) as aws:
        recorder = Recorder(aws, folder)

        def call(client: Any, operation: str, params: Mapping[str, Any]) -> Any:
            recorder.note(client.meta.service_model.service_name, operation, params)
            answer = real(client, operation, params)
            if operation == "DescribeTrainingJob":
                path = answer["OutputDataConfig"]["S3OutputPath"].rstrip("/")
                answer["ModelArtifacts"] = {"S3ModelArtifacts": f"{path}/model.tar.gz"}
            return answer

        patch.chdir(folder)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "FAIRSHARE_STATE_DIR": str(folder / "state"),
            "FAIRSHARE_QUEUES": "lab-train,lab-line",
        }.items():
            patch.setenv(name, value)
        patch.setattr(botocore.client.BaseClient, "_make_api_call", call)
        _play(recorder)
        yield recorder


def _play(recorder: Recorder) -> None:
    with recorder.acting_as("admin"):
        recorder("setup", "--yes")
        (recorder.folder / "fairshare.yaml").write_text(CHANGED)
        recorder("setup", "--yes")
    recorder.aws.client("sns").create_topic(Name="lab-news")
    with recorder.acting_as("submitter"):
        recorder("submit", "--run-id", "first", "--wait", "--notify", f"sns:{TOPIC}")
        recorder("submit", "long.yaml", "--run-id", "second")
        recorder("resume", "second")
    waiting = recorder("queue", "-q", "train", "-o", "json")["jobs"]
    with recorder.acting_as("submitter"):
        recorder("cancel", waiting[0]["job_id"], "--yes")
    _forget_sources(recorder.aws)
    shutil.rmtree(recorder.folder / "state" / "cache")  # another person's machine asks for the quotas itself
    with recorder.acting_as("fifo submitter"):
        recorder("submit", "long.yaml", "--run-id", "third", "-q", "line", "--notify", f"sns:{TOPIC}")
        recorder("resume", "third")
        recorder("cancel", "--run", "third", "--yes")
    _forget_sources(recorder.aws)
    shutil.rmtree(recorder.folder / "state" / "cache")
    with recorder.acting_as("quota submitter"):
        to_team = ("-q", "sweep", "--quota-share", "TEAMA")
        recorder("submit", "long.yaml", "--run-id", "fourth", *to_team, "--notify", f"sns:{TOPIC}")
        recorder("resume", "fourth")
        recorder("cancel", "--run", "fourth", "--yes")
    with recorder.acting_as("collector"):
        recorder("metrics", "publish")
        _invoke_lambda()
    ended = next(
        job for job in recorder("queue", "-q", "train", "--all", "-o", "json")["jobs"] if job["status"] == "SUCCEEDED"
    )
    _leave_traces(recorder.aws, ended["training_job_name"])
    with recorder.acting_as("viewer"):
        _look(recorder, ended["job_id"])
    with recorder.acting_as("admin"):
        recorder("cancel", "--run", "second", "--yes")
        (recorder.folder / "fairshare.yaml").write_text(WITHOUT_ALARMS)
        recorder("setup", "--yes")
        recorder("teardown", "--yes", "--end-jobs")


def _look(recorder: Recorder, job: str) -> None:
    for command in (
        ("setup", "--dry-run"),
        ("queue",),
        ("shares",),
        ("simulate", "--from-queue", "train", "--assume-runtime", "1h"),
        ("job", job),
        ("logs", job),
        ("wait", job),
        ("metrics", job),
        ("metrics", "--queue", "train"),
        ("metrics", "--share", "LOWPRI"),
        ("efficiency", job),
        ("compare", "first", "second"),
        ("results", "first", "--get", "models"),
    ):
        recorder(*command, codes=(0, 3))
    for command in (("alarms",), ("alarms", "review"), ("alarms", "backtest")):
        recorder(*command, codes=(0, 10, 11))
    recorder("cost", "first", codes=(3,))


def _forget_sources(aws: InProcessAws) -> None:
    """Remove the default bucket, so that who submits next makes it."""
    s3, bucket = aws.client("s3"), f"sagemaker-{REGION}-{ACCOUNT}"
    for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        s3.delete_object(Bucket=bucket, Key=entry["Key"])
    s3.delete_bucket(Bucket=bucket)


def _leave_traces(aws: InProcessAws, training_job: str) -> None:
    """A log and a model: the simulated launcher makes none."""
    logs = aws.client("logs")
    group, stream = "/aws/sagemaker/TrainingJobs", f"{training_job}/algo-1-1796061600"
    with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
        logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz"):
        pass
    training = aws.client("sagemaker").describe_training_job(TrainingJobName=training_job)
    bucket, key = training["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").split("/", 1)
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body.getvalue())


def _invoke_lambda() -> None:
    specification = spec_from_file_location("collector_handler", HANDLER)
    assert specification is not None
    assert specification.loader is not None
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    assert module.handler({"source": "aws.events"}, None)["published"] > 0


Policies = Mapping[str, Sequence[Mapping[str, Any]]]


@pytest.fixture(scope="module")
def policies(recorded: Recorder) -> Policies:
    """Statements by policy, from the files that ``fairshare export iam`` writes."""
    (recorded.folder / "fairshare.yaml").write_text(PROJECT)
    recorded("export", "iam", "--max-priority", "50", "--out", "infra")
    files = (recorded.folder / "infra" / "iam").iterdir()
    return {path.stem: json.loads(path.read_text())["Statement"] for path in files}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_its_commands_do(recorded: Recorder, policies: Policies, role: str) -> None:
    statements = [statement for name in ROLES[role] for statement in policies[name]]
    calls = [call for call in recorded.calls[role] if call.action not in NEEDS_NONE]

    assert len(calls) > 3
    assert [call for call in calls if not allows(statements, call)] == []


@pytest.mark.parametrize("policy", sorted({name for names in ROLES.values() for name in names}))
def test_a_policy_allows_nothing_that_nobody_calls(recorded: Recorder, policies: Policies, policy: str) -> None:
    called = {call.action for role, names in ROLES.items() if policy in names for call in recorded.calls[role]}
    granted = {action for statement in policies[policy] for action in statement["Action"]}

    assert granted - called - PERMISSION_ONLY.keys() == set()


def test_every_command_is_recorded_or_calls_nothing(recorded: Recorder) -> None:
    assert recorded.commands | CALL_NOTHING.keys() == set(COMMANDS)


def test_a_submitter_is_bound_to_a_share_a_priority_and_a_queue(policies: Policies) -> None:
    def submit(queue: str = "lab-train", share: str | None = "LOWPRI", priority: int | None = 10) -> bool:
        params = {"jobQueue": queue, "shareIdentifier": share, "schedulingPriority": priority}
        return allows(policies["submitter-train.LOWPRI"], Call("batch", "SubmitServiceJob", params))

    assert submit()
    assert submit(priority=50)
    assert submit(priority=0)
    assert submit(priority=None)
    assert not submit(priority=51)
    assert not submit(share="HIGHPRI")
    assert not submit(share=None)
    assert not submit(queue="lab-line")
    assert not submit(queue="other-train")


def test_a_viewer_changes_nothing(policies: Policies) -> None:
    actions = {action.split(":")[1] for statement in policies["viewer"] for action in statement["Action"]}

    assert all(action.startswith(("Describe", "Get", "List")) for action in actions)


def test_an_admin_touches_no_other_stack(policies: Policies) -> None:
    for service, operation, params in (
        ("batch", "DeleteJobQueue", {"jobQueue": "other-train"}),
        ("batch", "TagResource", {"resourceArn": _batch("service-environment", "other-pool")}),
        ("cloudwatch", "DeleteAlarms", {"AlarmNames": ["lab-a", "other-b"]}),
        ("cloudwatch", "PutDashboard", {"DashboardName": "other-us-east-1"}),
    ):
        assert not allows(policies["admin"], Call(service, operation, params)), operation


def test_the_collector_publishes_into_its_namespace_only(policies: Policies) -> None:
    put = "PutMetricData"

    assert allows(policies["collector"], Call("cloudwatch", put, {"Namespace": "fairshare"}))
    assert not allows(policies["collector"], Call("cloudwatch", put, {"Namespace": "AWS/Billing"}))
