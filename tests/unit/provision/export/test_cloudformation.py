"""The template as a whole: what is in it, and when. tests/contract/test_export.py holds it against AWS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import Project, QueueConfig
from fairshare.model import InfeasibleError
from fairshare.provision.desired import desired_state
from fairshare.provision.export.access import access_of
from fairshare.provision.export.cloudformation import template
from fairshare.provision.place import PSEUDO


@pytest.fixture
def stack(project: Callable[..., Project]) -> Callable[..., dict[str, Any]]:
    def make(**changes: Any) -> dict[str, Any]:
        found = project(**changes)
        desired = desired_state(found, PSEUDO)
        return template(desired, access_of(found, desired, PSEUDO))

    return make


def kinds(stack: dict[str, Any]) -> Counter[str]:
    return Counter(resource["Type"] for resource in stack["Resources"].values())


def test_all_that_setup_makes_is_there_and_what_people_need_around_it(stack: Callable[..., dict[str, Any]]) -> None:
    assert kinds(stack(alarms=AlarmsSection())) == {
        "AWS::Batch::ServiceEnvironment": 1,
        "AWS::Batch::SchedulingPolicy": 1,
        "AWS::Batch::JobQueue": 2,
        "AWS::CloudWatch::Alarm": 17,
        "AWS::CloudWatch::Dashboard": 1,
        "AWS::IAM::Role": 2,
        "AWS::IAM::ManagedPolicy": 6,
        "AWS::Events::Rule": 5,
        "AWS::Lambda::Function": 1,
        "AWS::Lambda::Permission": 2,
        "AWS::Logs::LogGroup": 2,
        "AWS::Logs::ResourcePolicy": 1,
        "AWS::SQS::Queue": 1,
        "AWS::SQS::QueuePolicy": 1,
    }


def test_without_alarms_nothing_watches(stack: Callable[..., dict[str, Any]]) -> None:
    found = kinds(stack(alarms=AlarmsSection(enabled=False)))

    assert not {"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard"} & found.keys()


def test_a_stack_without_queues_has_nothing_to_tell_of(stack: Callable[..., dict[str, Any]]) -> None:
    found = kinds(stack(queues={}))

    assert not {"AWS::Events::Rule", "AWS::Lambda::Function"} & found.keys()


def test_the_collector_is_there_when_its_package_is(stack: Callable[..., dict[str, Any]]) -> None:
    found = stack()
    conditional = {name for name, each in found["Resources"].items() if each.get("Condition") == "HasCollector"}

    assert conditional == {name for name in found["Resources"] if name.startswith("Collector")}
    assert len(conditional) == 7
    assert found["Parameters"]["CollectorCodeBucket"]["Default"] == ""


def test_queues_refer_to_what_they_need_and_outputs_to_what_people_need(stack: Callable[..., dict[str, Any]]) -> None:
    found = stack()
    queue = found["Resources"]["GpuJobQueue"]["Properties"]

    assert queue["ServiceEnvironmentOrder"] == [{"Order": 1, "ServiceEnvironment": {"Ref": "GpuServiceEnvironment"}}]
    assert queue["SchedulingPolicyArn"] == {"Ref": "GpuSchedulingPolicy"}
    assert "SchedulingPolicyArn" not in found["Resources"]["BatchJobQueue"]["Properties"]
    assert found["Outputs"]["ExecutionRoleArn"]["Value"] == {"Fn::GetAtt": ["ExecutionRole", "Arn"]}
    assert found["Outputs"]["GpuJobQueueArn"]["Value"] == {"Ref": "GpuJobQueue"}


def test_submitters_may_pass_the_role_of_the_stack(stack: Callable[..., dict[str, Any]]) -> None:
    statements = stack()["Resources"]["GpuHIGHPRISubmitter"]["Properties"]["PolicyDocument"]["Statement"]
    (passing,) = [each for each in statements if each["Sid"] == "PassExecutionRole"]

    assert passing["Resource"] == [{"Fn::Sub": "${ExecutionRole.Arn}"}]


def test_equal_projects_give_equal_templates(stack: Callable[..., dict[str, Any]]) -> None:
    assert repr(stack()) == repr(stack())


def test_a_stack_that_no_template_can_hold_is_refused(stack: Callable[..., dict[str, Any]]) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"""
    queues = {f"q{number}": QueueConfig(service_environment="gpu") for number in range(70)}

    with pytest.raises(InfeasibleError) as error:
        stack(queues=queues, alarms=AlarmsSection())

    assert error.value.message.startswith("the template would have ")
    assert error.value.message.endswith(" resources, and CloudFormation takes 500")
    assert error.value.hint == "switch alarms off in fairshare.yaml, or divide the stack into several"
