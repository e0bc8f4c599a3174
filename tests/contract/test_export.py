"""Exported documents: they ask for what `setup` asks for, cfn-lint finds nothing in them, and they grant little."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import cfnlint
import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from fairshare.aws.alarms import put_request
from fairshare.aws.resources import create_request
from fairshare.cli.output import yaml_text
from fairshare.config.project import Project, parse_project
from fairshare.model import ResourceType
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.export.access import Options, access_of
from fairshare.provision.export.cloudformation import template
from fairshare.provision.export.iam import PERMISSION_ONLY, policies_of
from fairshare.provision.place import PSEUDO, Place, place_of

TOPIC = "arn:aws:sns:us-west-2:111122223333:ops"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1"
PROJECT = f"""\
version: 1
stack: search
region: us-west-2
account: "111122223333"
service_environments:
  gpu: {{capacity: 16, instance_types: [ml.g6.12xlarge]}}
  gpu-2: {{capacity: 4, instance_types: [ml.m5.large]}}
  sweep: {{capacity_limits: {{ml.c5.xlarge: 8, ml.g5.xlarge: 2}}}}
queues:
  train:
    service_environment: gpu
    priority: 10
    fairshare:
      share_decay_seconds: 3600
      compute_reservation: 5
      shares: {{HIGHPRI: {{weight_factor: 0.1}}, LOW: {{weight_factor: 3}}, "TEAM*": {{weight_factor: 2.5}}}}
  line: {{service_environment: gpu-2, fifo: true}}
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA:
        {{capacity_limits: {{ml.c5.xlarge: 5}}, sharing: LEND_AND_BORROW, borrow_limit: 60, in_share_preemption: true}}
      TEAMB: {{capacity_limits: {{ml.c5.xlarge: 3, ml.g5.xlarge: 2}}, sharing: LEND}}
      TEAM-B: {{capacity_limits: {{ml.c5.xlarge: 1}}, sharing: RESERVE}}
    time_limits: {{insufficient_capacity: 4h, misconfiguration: 10m}}
tags: {{team: search, cost center: "12"}}
defaults: {{role: Training, image: "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/train:1"}}
alarms: {{sns_topic: {TOPIC}}}
"""
EVERYTHING = Options(50, ("s3://data/sets/",), ("s3://out/run/",), KEY)
PARTS = {"AWS::Partition": "aws", "AWS::Region": "us-west-2", "AWS::AccountId": "111122223333"}

SPECIFICATION = Path(cfnlint.__file__).parent / "data" / "AdditionalSpecs" / "Policies.json"
"""Actions of every service and the types of resources they take, from the Service Authorization Reference."""

ONLY_EVERYTHING = {
    "cloudwatch:DescribeAlarms": "API_DescribeAlarms: a narrower scope hides composite alarms",
    "cloudwatch:DescribeAlarmHistory": "API_DescribeAlarmHistory: a narrower scope hides composite alarms",
    "cloudwatch:GetMetricData": "its resource type, dataset, is of OpenTelemetry; metrics have none",
    "cloudwatch:PutMetricData": "its resource type, dataset, is of OpenTelemetry; metrics have a namespace condition",
}
"""Actions that have a resource type which is not for us."""


@pytest.fixture(scope="module")
def project() -> Project:
    return parse_project(PROJECT, Path("fairshare.yaml"))


@pytest.fixture(scope="module")
def desired(project: Project) -> Desired:
    return desired_state(project, PSEUDO)


@pytest.fixture(scope="module")
def plain(project: Project) -> Project:
    """The project without anybody's ARNs in it."""
    alarms = project.alarms.model_copy(update={"sns_topic": None})
    defaults = project.defaults.model_copy(update={"image": None})
    return project.model_copy(update={"alarms": alarms, "defaults": defaults})


@pytest.fixture(scope="module")
def stack(project: Project, desired: Desired) -> dict[str, Any]:
    """The template with all that can be in it."""
    return template(desired, access_of(project, desired, PSEUDO, EVERYTHING))


@pytest.fixture(scope="module")
def policies(project: Project, desired: Desired) -> dict[str, Any]:
    place = place_of(project.region, project.account)
    return policies_of(access_of(project, desired, place, EVERYTHING))


def resolved(value: Any, stack: Mapping[str, Any]) -> Any:
    """Evaluate references as CloudFormation does; a resource's is its ARN, and an empty choice leaves the key out."""
    if isinstance(value, list):
        return [resolved(each, stack) for each in value]
    if not isinstance(value, Mapping):
        return value
    match value:
        case {"Ref": name}:
            return PARTS.get(name) or stack["Parameters"].get(name, {}).get("Default") or _arn(stack, name)
        case {"Fn::Sub": text}:
            return re.sub(r"\$\{([^}]*)\}", lambda found: resolved({"Ref": found[1]}, stack), text)
        case {"Fn::If": [_, chosen, _]}:
            return resolved(chosen, stack)
    return {key: resolved(each, stack) for key, each in value.items()}


def _arn(stack: Mapping[str, Any], logical_id: str) -> str:
    resource = stack["Resources"][logical_id]
    kind, name_key = {
        "AWS::Batch::ServiceEnvironment": ("service-environment", "ServiceEnvironmentName"),
        "AWS::Batch::SchedulingPolicy": ("scheduling-policy", "Name"),
        "AWS::Batch::JobQueue": ("job-queue", "JobQueueName"),
    }[resource["Type"]]
    return f"arn:aws:batch:us-west-2:111122223333:{kind}/{resource['Properties'][name_key]}"


def properties(stack: Mapping[str, Any], kind: str) -> list[Any]:
    """Properties of all resources of a type, resolved."""
    found = [each["Properties"] for each in stack["Resources"].values() if each["Type"] == kind]
    return [resolved(each, stack) for each in found]


def pascal(request: Any) -> Any:
    """Names of the API's request as CloudFormation has them."""
    if isinstance(request, Mapping):
        return {key[0].upper() + key[1:]: value if key == "tags" else pascal(value) for key, value in request.items()}
    return [pascal(each) for each in request] if isinstance(request, list) else request


def test_every_batch_resource_is_what_setup_asks_for(desired: Desired, stack: dict[str, Any]) -> None:
    def arn_of(kind: ResourceType, name: str) -> str:
        return f"arn:aws:batch:us-west-2:111122223333:{kind.value.replace('_', '-')}/{name}"

    for kind, wanted in (
        ("AWS::Batch::ServiceEnvironment", desired.service_environments),
        ("AWS::Batch::SchedulingPolicy", desired.scheduling_policies),
        ("AWS::Batch::JobQueue", desired.job_queues),
    ):
        asked = [pascal(create_request(each, arn_of)) for each in wanted]
        assert properties(stack, kind) == asked
        assert asked


def test_every_quota_share_is_what_setup_asks_for(desired: Desired, stack: dict[str, Any]) -> None:
    """Batch takes a queue by name, as setup gives it, or by ARN, as a reference gives it."""
    asked = [pascal(create_request(each, lambda kind, name: name)) for each in desired.quota_shares]
    for request in asked:
        request["JobQueue"] = f"arn:aws:batch:us-west-2:111122223333:job-queue/{request['JobQueue']}"

    assert properties(stack, "AWS::Batch::QuotaShare") == asked
    assert [each["QuotaShareName"] for each in asked] == ["TEAMA", "TEAMB", "TEAM-B"]
    assert asked[0]["ResourceSharingConfiguration"] == {"Strategy": "LEND_AND_BORROW", "BorrowLimit": 60}


def test_every_alarm_is_what_setup_asks_for(desired: Desired, stack: dict[str, Any]) -> None:
    asked = []
    for alarm in desired.alarms:
        request = put_request(alarm.name, alarm.definition)
        request["Tags"] = [{"Key": key, "Value": value} for key, value in alarm.tags.items()]
        assert request.pop("InsufficientDataActions") == []
        asked.append(request)

    assert properties(stack, "AWS::CloudWatch::Alarm") == asked
    assert len(asked) > 10
    assert {tuple(each["AlarmActions"]) for each in asked} == {(TOPIC,)}


def test_the_dashboard_is_what_setup_asks_for(project: Project, stack: dict[str, Any]) -> None:
    (asked,) = desired_state(project, Place("aws", "us-west-2", "111122223333")).dashboards
    (found,) = properties(stack, "AWS::CloudWatch::Dashboard")

    assert found == {"DashboardName": asked.name, "DashboardBody": asked.body}
    assert asked.name == "search-us-west-2"


def test_cfn_lint_finds_nothing(stack: dict[str, Any]) -> None:
    matches = lint(yaml_text(stack), config=ManualArgs(regions=["us-west-2", "cn-north-1"], include_checks=["I"]))

    assert [f"{each.rule.id} {each.message} {each.path}" for each in matches] == []


def test_cfn_lint_would_find_something(stack: dict[str, Any]) -> None:
    policy = json.loads(json.dumps(stack["Resources"]["TrainSchedulingPolicy"]))
    policy["Properties"]["FairsharePolicy"]["ComputeReservation"] = 100
    broken = {"Resources": {"TrainSchedulingPolicy": policy}}

    assert [each.rule.id for each in lint(yaml_text(broken), config=ManualArgs(regions=["us-west-2"]))] == ["E3034"]


def test_a_template_holds_no_account_region_or_partition(plain: Project) -> None:
    wanted = desired_state(plain, PSEUDO)
    text = json.dumps(template(wanted, access_of(plain, wanted, PSEUDO)))

    assert "111122223333" not in text
    assert "us-west-2" not in text
    assert "arn:aws" not in text


# ---------------------------------------------------------------------------------------------------------------------
# Review of the policies


@cache
def actions_of(service: str) -> Mapping[str, Any]:
    specification = json.loads(SPECIFICATION.read_text())[service]
    return {name: tuple(entry.get("Resources", ())) for name, entry in specification["Actions"].items()} | {
        "ARNs": {name: tuple(entry.get("ARNFormats", ())) for name, entry in specification.get("Resources", {}).items()}
    }


def statements(policies: Mapping[str, Any], stack: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All statements of identity policies: the documents', and those in the template."""
    for name, document in policies.items():
        if not name.endswith("-trust"):
            yield from ((name, statement) for statement in document["Statement"])
    for logical_id, resource in stack["Resources"].items():
        found = resource["Properties"]
        documents = [policy["PolicyDocument"] for policy in found.get("Policies", ())]
        documents += [found["PolicyDocument"]] if resource["Type"] == "AWS::IAM::ManagedPolicy" else []
        yield from ((logical_id, statement) for document in documents for statement in document["Statement"])


def test_every_action_exists_and_none_is_a_pattern(policies: dict[str, Any], stack: dict[str, Any]) -> None:
    for name, statement in statements(policies, stack):
        for action in statement["Action"]:
            service, operation = action.split(":")
            assert operation.lower() in actions_of(service), (name, action)
            assert "*" not in action


def test_everything_is_allowed_only_where_aws_knows_no_resources(
    policies: dict[str, Any], stack: dict[str, Any]
) -> None:
    for name, statement in statements(policies, stack):
        for action in statement["Action"]:
            service, operation = action.split(":")
            has_level = bool(actions_of(service)[operation.lower()]) and action not in ONLY_EVERYTHING
            assert (statement["Resource"] == ["*"]) is not has_level, (name, action)


def test_every_resource_is_of_a_type_that_its_action_takes(policies: dict[str, Any]) -> None:
    """An ARN of a type that an action does not take allows nothing: a mistake that AWS does not report."""
    for name, statement in statements(policies, {"Resources": {}}):
        if statement["Resource"] == ["*"]:
            continue
        for action in statement["Action"]:
            service, operation = action.split(":")
            kinds = actions_of(service)[operation.lower()]
            formats = [each for kind in kinds for each in actions_of(service)["ARNs"][kind]]
            patterns = [re.sub(r"\$\{[^}]*\}|\.\*", "*", each) for each in formats]
            for resource in statement["Resource"]:
                assert any(fnmatchcase(resource, pattern) for pattern in patterns), (name, action, resource)


def test_metrics_are_published_to_a_namespace_only(policies: dict[str, Any], stack: dict[str, Any]) -> None:
    found = [each for _, each in statements(policies, stack) if "cloudwatch:PutMetricData" in each["Action"]]

    assert len(found) == 4
    assert all(list(*each["Condition"].values()) == ["cloudwatch:namespace"] for each in found)


def test_roles_are_passed_to_one_service_and_trust_one(policies: dict[str, Any], stack: dict[str, Any]) -> None:
    passing = [each for _, each in statements(policies, stack) if "iam:PassRole" in each["Action"]]
    assert passing
    assert {each["Condition"]["StringEquals"]["iam:PassedToService"] for each in passing} == {"sagemaker.amazonaws.com"}

    (trust,) = policies["execution-role-trust"]["Statement"]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}


def test_a_policy_fits_into_what_iam_takes(policies: dict[str, Any]) -> None:
    """6,144 characters without blanks (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html)."""
    sizes = {name: len(re.sub(r"\s", "", json.dumps(document))) for name, document in policies.items()}

    assert max(sizes.values()) < 6144, sizes


def test_permission_only_actions_say_what_they_are_for() -> None:
    assert {"iam:PassRole", "iam:CreateServiceLinkedRole", "batch:TagResource"} < PERMISSION_ONLY.keys()
    assert all(len(reason) > 20 for reason in PERMISSION_ONLY.values())


def test_what_is_kept_is_encrypted_and_what_fails_is_kept(stack: dict[str, Any]) -> None:
    (queue,) = properties(stack, "AWS::SQS::Queue")
    assert queue["SqsManagedSseEnabled"] is True

    dead_letters = {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    (function,) = [each for each in stack["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]
    assert function["Properties"]["DeadLetterConfig"] == {"TargetArn": dead_letters}
    rules = [each for each in stack["Resources"].values() if each["Type"] == "AWS::Events::Rule"]
    assert len(rules) == 5
    for rule in rules:
        (target,) = rule["Properties"]["Targets"]
        assert target["DeadLetterConfig"] == {"Arn": dead_letters}


def test_another_partition_is_another_partition(plain: Project) -> None:
    access = access_of(plain, desired_state(plain), Place("aws-cn", "cn-north-1", "111122223333"))

    assert "arn:aws:" not in json.dumps(policies_of(access))
