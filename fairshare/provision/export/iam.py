"""Least-privilege policies of the people and roles of a stack.

What each role may do is what its commands call and nothing else; a test compares the two. Levels of resources:
https://docs.aws.amazon.com/service-authorization/latest/reference/list_batch.html and the pages beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairshare.provision.export.access import Access

EVERYTHING: Final = ("*",)
"""For actions without a resource level."""

POLICY_VERSION: Final = "2012-10-17"
"""Of the policy language."""

TRAINING: Final = "sagemaker.amazonaws.com"
"""Service that runs the jobs."""

PERMISSION_ONLY: Final[Mapping[str, str]] = {
    "iam:PassRole": "SubmitServiceJob hands the execution role to SageMaker",
    "iam:CreateServiceLinkedRole": "the first service environment of an account makes the role of AWS Batch",
    "batch:TagResource": "resources and jobs are tagged as they are made",
    "kms:Decrypt": "S3 reads objects that the key encrypts",
    "kms:GenerateDataKey": "S3 writes objects that the key encrypts",
}
"""Actions that no call of a command names, and what they are needed for."""

_LINKED_ROLE: Final = (
    "role/aws-service-role/sagemaker-queuing.batch.amazonaws.com/AWSServiceRoleForAWSBatchWithSagemaker"
)
"""https://docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles-batch-sagemaker.html"""
_TRAINING_LOGS: Final = "log-group:/aws/sagemaker/TrainingJobs"
_TRAINING_METRICS: Final = "/aws/sagemaker/*"
_BATCH_JOBS: Final = "AWSBatch*"
"""How AWS Batch begins the names of its training jobs."""


@dataclass(frozen=True)
class Grant:
    """One statement that allows something. ``condition`` is as in a policy document."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: Mapping[str, Mapping[str, str]] | None = None


def policy_document(grants: Iterable[Grant]) -> dict[str, Any]:
    """Return a policy document. A grant on nothing, as on the queues of a stack that has none, is left out."""
    return {"Version": POLICY_VERSION, "Statement": [_statement(grant) for grant in grants if grant.resources]}


def trust_document(service: str, account: str | None = None) -> dict[str, Any]:
    """Return the policy that lets an AWS service take a role; with an account, for resources of that account only.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html.
    """
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    if account is not None:
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": account}}
    return {"Version": POLICY_VERSION, "Statement": [statement]}


def viewer(access: Access) -> tuple[Grant, ...]:
    """Look: queues, shares, jobs, logs, metrics, alarms, costs, results, and plans that are not applied."""
    arn = access.place.arn
    alarms = (arn("cloudwatch", f"alarm:{access.stack}-*"),)
    return (
        Grant(
            "ListQueuesAndJobs",
            (
                "batch:DescribeJobQueues",
                "batch:DescribeSchedulingPolicies",
                "batch:DescribeServiceEnvironments",
                "batch:DescribeServiceJob",
                "batch:ListSchedulingPolicies",
                "batch:ListServiceJobs",
            ),
            EVERYTHING,
        ),
        Grant(
            "ReadMetricsAlarmsAndPrices",
            (
                "cloudwatch:DescribeAlarmHistory",
                "cloudwatch:DescribeAlarms",
                "cloudwatch:GetMetricData",
                "pricing:GetProducts",
            ),
            EVERYTHING,
        ),
        Grant("ReadTagsOfAlarms", ("cloudwatch:ListTagsForResource",), alarms),
        Grant("ReadDashboard", ("cloudwatch:GetDashboard",), _dashboards(access)),
        Grant("ListQuotaShares", ("batch:ListQuotaShares",), _arns(access, "job-queue", access.quota_queues)),
        Grant("ReadQuotaShares", ("batch:DescribeQuotaShare",), _quota_shares(access, access.quota_queues)),
        Grant("SeeDispatchOrder", ("batch:GetJobQueueSnapshot",), _arns(access, "job-queue", access.queues)),
        Grant(
            "ReadTrainingJobs",
            ("sagemaker:DescribeTrainingJob",),
            (arn("sagemaker", f"training-job/{_BATCH_JOBS}"),),
        ),
        Grant("FindLogs", ("logs:DescribeLogStreams",), (arn("logs", f"{_TRAINING_LOGS}:*"),)),
        Grant("ReadLogs", ("logs:GetLogEvents",), (arn("logs", f"{_TRAINING_LOGS}:log-stream:{_BATCH_JOBS}"),)),
        Grant("ReadResults", ("s3:GetObject",), _objects(access, access.writable), _own_bucket(access)),
        *_key(access, "ReadEncrypted", "kms:Decrypt"),
    )


def submitter(access: Access, queue: str, share: str | None, *, is_quota: bool = False) -> tuple[Grant, ...]:
    """Send jobs to one share of one queue, up to a priority, and end jobs; beside what a `viewer` may do.

    AWS Batch cannot tell whose job an UpdateServiceJob or TerminateServiceJob is about: a submitter may end the jobs of
    other shares that fairshare sent.

    Args:
        access: the stack.
        queue: name.
        share: entry of its policy; an entry ``PREFIX*`` allows every share that begins so. None: the queue is FIFO.
        is_quota: the share is a quota share, which is a resource of its own.
    """
    place = access.place
    jobs = _arns(access, "service-job", ("*",))
    roles = access.roles or (place.arn("iam", f"role/{access.stack}-execution", regional=False),)
    bucket = (place.bucket(access.bucket),)
    return (
        Grant(
            "SubmitToShare" if share is not None else "SubmitToQueue",
            ("batch:SubmitServiceJob",),
            (*_arns(access, "job-queue", (queue, f"{queue}/quota-share/{share}") if is_quota else (queue,)), *jobs),
            _condition(None if is_quota else share, None if share is None else access.options.priority_ceiling),
        ),
        Grant("TagJobs", ("batch:TagResource",), jobs),
        Grant("EndJobs", ("batch:TerminateServiceJob",), jobs, {"Null": {"aws:ResourceTag/fairshare:run": "false"}}),
        Grant("PassExecutionRole", ("iam:PassRole",), roles, {"StringEquals": {"iam:PassedToService": TRAINING}}),
        Grant("LookForSources", ("s3:ListBucket",), bucket, _own_bucket(access)),
        Grant(
            "SendSources",
            ("s3:GetObject", "s3:PutObject"),
            _objects(access, (access.own_objects,)),
            _own_bucket(access),
        ),
        *((Grant("MakeDefaultBucket", ("s3:CreateBucket",), bucket),) if access.is_default_bucket else ()),
        *_key(access, "SendEncrypted", "kms:GenerateDataKey"),
        Grant("ReadQuotas", ("servicequotas:ListServiceQuotas",), EVERYTHING),
        Grant("TellPeople", ("sns:Publish",), _topics(access)),
    )


def admin(access: Access) -> tuple[Grant, ...]:
    """Set up and tear down the stack, and end any job; beside what a `viewer` may do."""
    names = (f"{access.stack}-*",)
    environments = _arns(access, "service-environment", names)
    policies = _arns(access, "scheduling-policy", names)
    queues = _arns(access, "job-queue", names)
    return (
        Grant("ManageEnvironments", _managed("ServiceEnvironment"), environments),
        Grant("ManagePolicies", _managed("SchedulingPolicy"), policies),
        Grant("ManageQueues", _managed("JobQueue"), queues),
        Grant(
            "ManageQuotaShares",
            _managed("QuotaShare"),
            _quota_shares(access, names) if access.quota_shares else (),
        ),
        Grant("AddQuotaShares", ("batch:CreateQuotaShare",), queues if access.quota_shares else ()),
        Grant("AttachPolicies", ("batch:CreateJobQueue", "batch:UpdateJobQueue"), policies),
        Grant("AttachEnvironments", ("batch:CreateJobQueue",), environments),
        Grant(
            "ManageAlarms",
            (
                "cloudwatch:DeleteAlarms",
                "cloudwatch:PutMetricAlarm",
                "cloudwatch:TagResource",
                "cloudwatch:UntagResource",
            ),
            (access.place.arn("cloudwatch", f"alarm:{access.stack}-*"),),
        ),
        Grant("ManageDashboard", ("cloudwatch:DeleteDashboards", "cloudwatch:PutDashboard"), _dashboards(access)),
        Grant(
            "Tag",
            ("batch:TagResource", "batch:UntagResource"),
            (*environments, *policies, *queues, *(_quota_shares(access, names) if access.quota_shares else ())),
        ),
        Grant(
            "MakeServiceLinkedRole",
            ("iam:CreateServiceLinkedRole",),
            (access.place.arn("iam", _LINKED_ROLE, regional=False),),
            {"StringEquals": {"iam:AWSServiceName": "sagemaker-queuing.batch.amazonaws.com"}},
        ),
        Grant("EndJobs", ("batch:TerminateServiceJob",), _arns(access, "service-job", ("*",))),
    )


def collector(access: Access) -> tuple[Grant, ...]:
    """Publish the gauges of every queue (`fairshare metrics publish`)."""
    return (
        Grant(
            "ReadQueues",
            (
                "batch:DescribeJobQueues",
                "batch:DescribeSchedulingPolicies",
                "batch:DescribeServiceEnvironments",
                "batch:ListServiceJobs",
                "cloudwatch:GetMetricData",
            ),
            EVERYTHING,
        ),
        Grant("ListQuotaShares", ("batch:ListQuotaShares",), _arns(access, "job-queue", access.quota_queues)),
        Grant(
            "PublishGauges",
            ("cloudwatch:PutMetricData",),
            EVERYTHING,
            {"StringEquals": {"cloudwatch:namespace": "fairshare"}},
        ),
    )


def execution(access: Access) -> tuple[Grant, ...]:
    """What SageMaker does for a training job: its image, data, output, log and metrics.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html, "CreateTrainingJob API: Execution Role
    Permissions". Jobs in a VPC need its network actions, too.
    """
    place = access.place
    buckets = tuple(dict.fromkeys(objects.partition("/")[0] for objects in access.readable))
    group = place.arn("logs", _TRAINING_LOGS)
    return (
        Grant("ListData", ("s3:ListBucket",), tuple(map(place.bucket, buckets))),
        Grant("ReadData", ("s3:GetObject",), _objects(access, access.readable)),
        Grant("WriteOutput", ("s3:PutObject",), _objects(access, access.writable)),
        *_key(access, "Encrypt", "kms:Decrypt", "kms:GenerateDataKey"),
        Grant(
            "WriteLogs",
            ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
            (group, f"{group}:*"),
        ),
        Grant(
            "PublishUse",
            ("cloudwatch:PutMetricData",),
            EVERYTHING,
            {"StringLike": {"cloudwatch:namespace": _TRAINING_METRICS}},
        ),
        Grant("EnterRegistry", ("ecr:GetAuthorizationToken",), EVERYTHING),
        Grant(
            "PullImage",
            ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
            access.repositories,
        ),
    )


def policies_of(access: Access) -> dict[str, dict[str, Any]]:
    """Return all documents of a stack by the name of their file, without its extension."""
    submitters = {
        submitter_name(access, queue, share): submitter(access, queue, share)
        for queue, share in (*access.shares, *((queue, None) for queue in access.fifo_queues))
    }
    submitters |= {
        submitter_name(access, queue, share): submitter(access, queue, share, is_quota=True)
        for queue, share in access.quota_shares
    }
    grants = {"admin": admin(access), "viewer": viewer(access), **submitters}
    grants |= {"collector": collector(access), "execution-role": execution(access)}
    documents = {name: policy_document(each) for name, each in grants.items()}
    account = None if access.place.account == "*" else access.place.account
    return documents | {"execution-role-trust": trust_document(TRAINING, account)}


def submitter_name(access: Access, queue: str, share: str | None) -> str:
    """``submitter-gpu.HIGHPRI``; an entry ``TEAM*`` becomes ``TEAM-any``. Neither a key nor a share has a dot."""
    key = queue.removeprefix(f"{access.stack}-")
    return f"submitter-{key}" + ("" if share is None else f".{share.replace('*', '-any')}")


def _statement(grant: Grant) -> dict[str, Any]:
    statement: dict[str, Any] = {"Sid": grant.sid, "Effect": "Allow"}
    statement |= {"Action": list(grant.actions), "Resource": list(dict.fromkeys(grant.resources))}
    if grant.condition is not None:
        statement["Condition"] = {operator: dict(keys) for operator, keys in grant.condition.items()}
    return statement


def _managed(kind: str) -> tuple[str, ...]:
    return tuple(f"batch:{verb}{kind}" for verb in ("Create", "Delete", "Update"))


def _arns(access: Access, kind: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(access.place.arn("batch", f"{kind}/{name}") for name in names)


def _quota_shares(access: Access, queues: Iterable[str]) -> tuple[str, ...]:
    return _arns(access, "job-queue", (f"{queue}/quota-share/*" for queue in queues))


def _dashboards(access: Access) -> tuple[str, ...]:
    return (access.place.arn("cloudwatch", f"dashboard/{access.stack}-*", regional=False),)


def _objects(access: Access, patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(access.place.bucket, patterns))


def _own_bucket(access: Access) -> Mapping[str, Mapping[str, str]] | None:
    """The name of the default bucket can be guessed: one that somebody else made under it is not ours."""
    if not access.is_default_bucket or access.place.account == "*":
        return None
    return {"StringEquals": {"aws:ResourceAccount": access.place.account}}


def _condition(share: str | None, ceiling: int | None) -> Mapping[str, Mapping[str, str]] | None:
    """A job without a priority is as good as one with 0: the ceiling holds where there is one."""
    if ceiling is None:
        return None
    identifier = (
        {}
        if share is None
        else {"StringLike" if share.endswith("*") else "StringEquals": {"batch:ShareIdentifier": share}}
    )
    return identifier | {"NumericLessThanEqualsIfExists": {"batch:SchedulingPriority": str(ceiling)}}


def _key(access: Access, sid: str, *actions: str) -> tuple[Grant, ...]:
    return () if access.options.kms_key is None else (Grant(sid, actions, (access.options.kms_key,)),)


def _topics(access: Access) -> tuple[str, ...]:
    own = access.place.arn("sns", f"{access.stack}-*")
    return (own,) if access.topic is None else (own, access.topic)
