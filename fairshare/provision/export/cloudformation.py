"""A whole stack as one CloudFormation template: what `setup` makes, with roles, policies, events and the collector."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from fairshare.model import InfeasibleError
from fairshare.provision.dashboard import DesiredDashboard
from fairshare.provision.desired import Desired
from fairshare.provision.export import iam
from fairshare.provision.export.access import Access
from fairshare.provision.export.alarms import alarm_resources
from fairshare.provision.export.batch import batch_resources
from fairshare.provision.export.collector import CODE_BUCKET, CODE_KEY, HAS_COLLECTOR, collector_resources
from fairshare.provision.export.events import HAS_TOPIC, TOPIC, event_resources
from fairshare.provision.export.template import FORMAT_VERSION, LogicalIds, Resource, attribute, ref, substituted

_MOST_RESOURCES: Final = 500
"""https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"""

_EXECUTION_ROLE: Final = "ExecutionRole"


def template(desired: Desired, access: Access) -> dict[str, Any]:
    """Return the template of a stack.

    Account, region and partition are pseudo parameters, so one template serves everywhere.

    Args:
        desired: what `setup` would make at `fairshare.provision.place.PSEUDO`.
        access: what its policies are about, there, too.

    Raises:
        InfeasibleError: the stack is too large for a template.
    """
    ids = LogicalIds(resource.key for resource in desired.resources)
    queues = {queue.name: ids.of("JobQueue", queue.key) for queue in desired.job_queues}
    resources = {
        **batch_resources(desired, ids),
        **alarm_resources(desired, ids),
        **_dashboards(desired.dashboards),
        **_people(access, desired),
        **event_resources(desired.stack, tuple(queues.values())),
        **collector_resources(access, tuple(queues), tuple(queues.values())),
    }
    if len(resources) > _MOST_RESOURCES:
        raise InfeasibleError(
            f"the template would have {len(resources)} resources, and CloudFormation takes {_MOST_RESOURCES}",
            hint="switch alarms off in fairshare.yaml, or divide the stack into several",
        )
    return {
        "AWSTemplateFormatVersion": FORMAT_VERSION,
        "Description": f"Fair-share queues of SageMaker training jobs: stack {desired.stack} of fairshare.",
        "Parameters": _parameters(access),
        "Conditions": {
            HAS_TOPIC: _is_given(TOPIC),
            HAS_COLLECTOR: {"Fn::And": [_is_given(CODE_BUCKET), _is_given(CODE_KEY)]},
        },
        "Resources": {name: resource.to_json() for name, resource in resources.items()},
        "Outputs": _outputs(queues.values()),
    }


def _dashboards(desired: tuple[DesiredDashboard, ...]) -> dict[str, Resource]:
    if not desired:
        return {}
    (dashboard,) = desired
    properties = {"DashboardName": dashboard.name, "DashboardBody": dashboard.body}
    return {"Dashboard": Resource("AWS::CloudWatch::Dashboard", substituted(properties))}


def _parameters(access: Access) -> dict[str, Any]:
    def text(description: str, default: str = "") -> dict[str, str]:
        return {"Type": "String", "Default": default, "Description": description}

    return {
        TOPIC: text(
            "ARN of an SNS topic for alarms and blocked queues; empty: nobody is told. Its policy must let "
            "cloudwatch.amazonaws.com and events.amazonaws.com publish.",
            access.topic or "",
        ),
        CODE_BUCKET: text("Bucket with the package of the collector (infra/collector/README.md); empty: none runs."),
        CODE_KEY: text("Key of the package in that bucket."),
    }


def _people(access: Access, desired: Desired) -> dict[str, Resource]:
    """The execution role of jobs, and a policy for each role of people, by logical id."""
    access = replace(access, roles=(f"${{{_EXECUTION_ROLE}.Arn}}", *access.roles))
    found = {_EXECUTION_ROLE: _execution_role(access)}
    found["ViewerPolicy"] = _managed_policy(f"See the queues and jobs of {access.stack}.", iam.viewer(access))
    found["AdminPolicy"] = _managed_policy(
        f"Set up and tear down {access.stack}; attach the viewer's, too.", iam.admin(access)
    )
    pairs = (*access.shares, *((queue, None) for queue in access.fifo_queues))
    keys = {queue.name: queue.key for queue in desired.job_queues}
    ids = LogicalIds(_submitter_key(keys[queue], share) for queue, share in pairs)
    for queue, share in pairs:
        where = queue if share is None else f"share {share} of {queue}"
        found[ids.of("Submitter", _submitter_key(keys[queue], share))] = _managed_policy(
            f"Send jobs to {where}; attach the viewer's, too.", iam.submitter(access, queue, share)
        )
    return found


def _submitter_key(queue: str, share: str | None) -> str:
    return queue if share is None else f"{queue}.{share.replace('*', '-any')}"


def _execution_role(access: Access) -> Resource:
    policy = {"PolicyName": "training", "PolicyDocument": iam.policy_document(iam.execution(access))}
    trust = iam.trust_document(iam.TRAINING, access.place.account)
    return Resource(
        "AWS::IAM::Role",
        {
            "Description": f"What training jobs of {access.stack} may do.",
            "AssumeRolePolicyDocument": substituted(trust),
            "Policies": [substituted(policy)],
        },
    )


def _managed_policy(description: str, grants: tuple[iam.Grant, ...]) -> Resource:
    document = substituted(iam.policy_document(grants))
    return Resource("AWS::IAM::ManagedPolicy", {"Description": description, "PolicyDocument": document})


def _is_given(parameter: str) -> dict[str, Any]:
    return {"Fn::Not": [{"Fn::Equals": [ref(parameter), ""]}]}


def _outputs(queues: Iterable[str]) -> dict[str, Any]:
    """What people have to copy. A template takes 200 outputs; the policies of submitters are among its resources."""
    role = {
        "Description": "Execution role for jobs: `role` in fairshare.yaml.",
        "Value": attribute(_EXECUTION_ROLE, "Arn"),
    }
    found = {"ViewerPolicy": "Policy of who looks.", "AdminPolicy": "Policy of who sets up and tears down."}
    found |= dict.fromkeys(queues, "Job queue.")
    described = {f"{name}Arn": {"Description": text, "Value": ref(name)} for name, text in found.items()}
    return {f"{_EXECUTION_ROLE}Arn": role, **described}
