"""Policies: who is bound to what. Whether they suffice is proved by tests/integration/test_least_privilege.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import Defaults, Project
from fairshare.provision.desired import desired_state
from fairshare.provision.export.access import Access, Options, access_of
from fairshare.provision.export.iam import (
    execution,
    policies_of,
    policy_document,
    submitter,
    submitter_name,
    trust_document,
)
from fairshare.provision.place import Place, place_of

PLACE = Place("aws", "us-west-2", "111122223333")
KEY = "arn:aws:kms:us-west-2:111122223333:key/1"


@pytest.fixture
def access(project: Callable[..., Project]) -> Callable[..., Access]:
    def make(place: Place = PLACE, options: Options | None = None, **changes: Any) -> Access:
        found = project(**changes)
        return access_of(found, desired_state(found), place, options or Options())

    return make


def statement(document: dict[str, Any], sid: str) -> dict[str, Any] | None:
    return next((each for each in document["Statement"] if each["Sid"] == sid), None)


def test_every_share_has_a_submitter_and_every_fifo_queue_one(access: Callable[..., Access]) -> None:
    assert list(policies_of(access())) == [
        "admin",
        "viewer",
        "submitter-gpu.HIGHPRI",
        "submitter-gpu.MIDPRI",
        "submitter-gpu.LOWPRI",
        "submitter-batch",
        "collector",
        "execution-role",
        "execution-role-trust",
    ]


def test_an_entry_for_many_shares_becomes_a_pattern(access: Callable[..., Access]) -> None:
    found = access(shares={"TEAM*": "1"}, options=Options(priority_ceiling=0))
    sent = statement(policy_document(submitter(found, "ml-gpu", "TEAM*")), "SubmitToShare")

    assert submitter_name(found, "ml-gpu", "TEAM*") == "submitter-gpu.TEAM-any"
    assert sent is not None
    assert sent["Condition"] == {
        "StringLike": {"batch:ShareIdentifier": "TEAM*"},
        "NumericLessThanEqualsIfExists": {"batch:SchedulingPriority": "0"},
    }


def test_a_fifo_queue_has_no_share_and_no_priority_to_bind(access: Callable[..., Access]) -> None:
    sent = statement(policy_document(submitter(access(), "ml-batch", None)), "SubmitToQueue")

    assert sent is not None
    assert "Condition" not in sent
    assert sent["Resource"][0] == "arn:aws:batch:us-west-2:111122223333:job-queue/ml-batch"


def test_the_default_bucket_must_be_the_accounts_own(access: Callable[..., Access]) -> None:
    """Its name can be guessed; who took it first must not get the sources."""
    own = {"StringEquals": {"aws:ResourceAccount": "111122223333"}}
    default = policies_of(access())["submitter-batch"]
    chosen = policies_of(access(defaults=Defaults(bucket="team")))["submitter-batch"]

    for sid in ("LookForSources", "SendSources"):
        assert (statement(default, sid) or {})["Condition"] == own
        assert "Condition" not in (statement(chosen, sid) or {})
    assert statement(default, "MakeDefaultBucket") is not None
    assert statement(chosen, "MakeDefaultBucket") is None


def test_a_key_is_used_where_objects_are_and_nowhere_else(access: Callable[..., Access]) -> None:
    documents = policies_of(access(options=Options(kms_key=KEY)))
    using = {
        name: [action for each in document["Statement"] if each.get("Resource") == [KEY] for action in each["Action"]]
        for name, document in documents.items()
    }

    assert {name: actions for name, actions in using.items() if actions} == {
        "viewer": ["kms:Decrypt"],
        "submitter-gpu.HIGHPRI": ["kms:GenerateDataKey"],
        "submitter-gpu.MIDPRI": ["kms:GenerateDataKey"],
        "submitter-gpu.LOWPRI": ["kms:GenerateDataKey"],
        "submitter-batch": ["kms:GenerateDataKey"],
        "execution-role": ["kms:Decrypt", "kms:GenerateDataKey"],
    }


def test_the_role_to_pass_is_that_of_the_file_or_has_the_stacks_name(access: Callable[..., Access]) -> None:
    named = policies_of(access(defaults=Defaults(role="Training")))["submitter-batch"]
    unnamed = policies_of(access())["submitter-batch"]

    assert (statement(named, "PassExecutionRole") or {})["Resource"] == ["arn:aws:iam::111122223333:role/Training"]
    assert (statement(unnamed, "PassExecutionRole") or {})["Resource"] == [
        "arn:aws:iam::111122223333:role/ml-execution"
    ]


def test_people_are_told_by_topics_of_the_stack_and_of_its_alarms(access: Callable[..., Access]) -> None:
    topic = "arn:aws:sns:us-west-2:111122223333:ops"
    told = policies_of(access(alarms=AlarmsSection(sns_topic=topic)))["submitter-batch"]

    assert (statement(told, "TellPeople") or {})["Resource"] == ["arn:aws:sns:us-west-2:111122223333:ml-*", topic]


def test_jobs_get_what_sagemakers_page_lists(access: Callable[..., Access]) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html, CreateTrainingJob, without a VPC."""
    assert {action for grant in execution(access()) for action in grant.actions} == {
        "cloudwatch:PutMetricData",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "logs:CreateLogGroup",
        "logs:DescribeLogStreams",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutObject",
        "ecr:GetAuthorizationToken",
        "ecr:BatchCheckLayerAvailability",
        "ecr:GetDownloadUrlForLayer",
        "ecr:BatchGetImage",
    }


def test_a_stack_without_queues_has_no_statement_about_them(access: Callable[..., Access]) -> None:
    documents = policies_of(access(queues={}))

    assert all(each["Resource"] for each in documents["viewer"]["Statement"])
    assert statement(documents["viewer"], "SeeDispatchOrder") is None


def test_an_account_that_is_not_known_is_no_condition(access: Callable[..., Access]) -> None:
    trust = policies_of(access(place_of("us-west-2", None)))["execution-role-trust"]

    assert trust == trust_document("sagemaker.amazonaws.com")
    assert "Condition" not in trust["Statement"][0]
