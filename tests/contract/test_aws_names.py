"""Our words against AWS's own service model, as botocore ships it.

Every request we build must be valid, every field we read must exist, and the codec between AWS's camelCase and our
snake_case must lose nothing on any shape of the operations we use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import count
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator

from fairshare.aws.answers import environment_from, policy_from, queue_from, quota_share_from
from fairshare.aws.jobs import detail_from, snapshot_from, submit_request, summary_from
from fairshare.aws.resources import KINDS, create_request, update_request
from fairshare.model import (
    CapacityLimit,
    FairsharePolicy,
    JobRequest,
    JobStatus,
    ResourceType,
    ShareAttributes,
    SharingStrategy,
    camel_to_snake,
    snake_to_camel,
    to_camel,
    to_snake,
)
from fairshare.provision.compare import changed_fields
from fairshare.provision.desired import (
    DesiredEnvironment,
    DesiredPolicy,
    DesiredQueue,
    DesiredQuotaShare,
    DesiredResource,
)

BATCH = get_session().get_service_model("batch")
OPERATIONS = [
    f"{verb}{kind}"
    for kind in ("ServiceEnvironment", "SchedulingPolicy", "JobQueue", "QuotaShare")
    for verb in ("Create", "Update", "Delete")
] + [
    "DescribeServiceEnvironments",
    "DescribeSchedulingPolicies",
    "ListSchedulingPolicies",
    "DescribeJobQueues",
    "DescribeQuotaShare",
    "ListQuotaShares",
    "TagResource",
    "SubmitServiceJob",
    "DescribeServiceJob",
    "ListServiceJobs",
    "UpdateServiceJob",
    "TerminateServiceJob",
    "GetJobQueueSnapshot",
]
SHAPES = [
    pytest.param(shape, id=f"{operation}-{direction}")
    for operation in OPERATIONS
    for direction, shape in (
        ("request", BATCH.operation_model(operation).input_shape),
        ("answer", BATCH.operation_model(operation).output_shape),
    )
]


def field_names(shape: Any) -> Iterator[str]:
    """Every field name in a shape, at every depth."""
    match shape.type_name:
        case "structure":
            for name, member in shape.members.items():
                yield name
                yield from field_names(member)
        case "list":
            yield from field_names(shape.member)
        case "map":
            yield from field_names(shape.value)


def sample(shape: Any, numbers: Iterator[int]) -> Any:
    """A value of a shape with every member present and no two leaves alike. Map keys look like a user's."""
    match shape.type_name:
        case "structure":
            return {name: sample(member, numbers) for name, member in shape.members.items()}
        case "list":
            return [sample(shape.member, numbers), sample(shape.member, numbers)]
        case "map":
            return {"camelCase_and_snake": sample(shape.value, numbers)}
        case "string":
            return f"text-{next(numbers)}"
        case "boolean":
            return True
        case "float" | "double":
            return float(next(numbers))
        case _:
            return next(numbers)


def answer(operation: str) -> Any:
    """The fullest answer an operation can give."""
    return sample(BATCH.operation_model(operation).output_shape, count(1))


def assert_valid(operation: str, request: dict[str, Any]) -> None:
    shape = BATCH.operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()
    assert set(field_names_of(request)) <= set(field_names(shape))


def field_names_of(value: Any) -> Iterator[str]:
    """Every key in a request, at every depth, tags left out."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            if name != "tags":
                yield from field_names_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from field_names_of(inner)


# -- the codec -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_the_codec_loses_no_field_name(shape: Any) -> None:
    names = list(field_names(shape))

    assert [snake_to_camel(camel_to_snake(name)) for name in names] == names
    assert len({camel_to_snake(name) for name in names}) == len(set(names))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_codec_loses_no_value(shape: Any) -> None:
    value = sample(shape, count(1))

    assert to_camel(to_snake(value)) == value


def test_names_of_quota_shares_are_the_users_and_stay_as_they_are() -> None:
    job = {"jobArn": "arn:x", "earliestTimeAtPosition": 1}
    answer = {"frontOfQuotaShares": {"quotaShares": {"teamAlpha": job, "team_b": job, "tags": job}, "lastUpdatedAt": 2}}
    renamed = {"job_arn": "arn:x", "earliest_time_at_position": 1}

    read = to_snake(answer)
    assert read["front_of_quota_shares"] == {
        "quota_shares": {"teamAlpha": renamed, "team_b": renamed, "tags": renamed},
        "last_updated_at": 2,
    }
    assert to_camel(read) == answer


BORROWS = {
    "resourceSharingConfiguration": {"strategy": "LEND_AND_BORROW", "borrowLimit": 50},
    "preemptionConfiguration": {"inSharePreemption": "ENABLED"},
}


# -- what we read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "full"),
    [
        (environment_from, answer("DescribeServiceEnvironments")["serviceEnvironments"][0]),
        (policy_from, answer("DescribeSchedulingPolicies")["schedulingPolicies"][0]),
        (queue_from, answer("DescribeJobQueues")["jobQueues"][0]),
        (quota_share_from, answer("DescribeQuotaShare") | BORROWS),
        (detail_from, answer("DescribeServiceJob") | {"serviceRequestPayload": '{"a": 1}'}),
        (snapshot_from, answer("GetJobQueueSnapshot")),
    ],
    ids=["environment", "policy", "queue", "quota share", "job", "snapshot"],
)
def test_every_field_of_a_model_is_filled_from_the_fullest_answer(
    read: Callable[[Any], Any], full: dict[str, Any]
) -> None:
    """A misspelt name would leave the field at its default."""
    model = read(full)

    unfilled = [field.name for field in fields(model) if getattr(model, field.name) in (None, "", (), {}, [], 0)]
    assert unfilled == []


def test_a_summary_is_filled_but_for_the_priority_that_aws_does_not_list() -> None:
    model = summary_from(answer("ListServiceJobs")["jobSummaryList"][0])

    unfilled = [field.name for field in fields(model) if getattr(model, field.name) in (None, "", 0)]
    assert unfilled == ["scheduling_priority"]


def test_nested_values_come_from_their_own_fields() -> None:
    environment = environment_from(answer("DescribeServiceEnvironments")["serviceEnvironments"][0])
    policy = policy_from(answer("DescribeSchedulingPolicies")["schedulingPolicies"][0])
    assert policy.fairshare_policy is not None
    values = [
        *((limit.max_capacity, limit.capacity_unit) for limit in environment.capacity_limits),
        *((share.share_identifier, share.weight_factor) for share in policy.fairshare_policy.share_distribution),
        (policy.fairshare_policy.share_decay_seconds, policy.fairshare_policy.compute_reservation),
    ]

    assert len(set(values)) == 5
    assert all(value not in (None, "", 0, "1") for pair in values for value in pair)
    snapshot = snapshot_from(answer("GetJobQueueSnapshot"))
    assert all(job.earliest_time_at_position for job in snapshot.front_of_queue)
    assert all(snapshot.instances_by_share.values())


def test_the_environments_of_a_queue_are_read_in_their_order() -> None:
    full = answer("DescribeJobQueues")["jobQueues"][0]
    full["serviceEnvironmentOrder"] = [{"order": order, "serviceEnvironment": f"arn-{order}"} for order in (3, 1, 2)]

    assert queue_from(full).service_environments == ("arn-1", "arn-2", "arn-3")


def test_our_statuses_are_those_of_aws_in_its_order() -> None:
    assert list(JobStatus) == BATCH.shape_for("ServiceJobStatus").enum


# -- what we send ----------------------------------------------------------------------------------------------------

TAGS = {"fairshare:stack": "ml", "camelCase": "x"}
DESIRED: list[DesiredResource] = [
    DesiredEnvironment("ml-gpu", "gpu", (CapacityLimit(16),), ("ml.c5.xlarge",), tags=TAGS),
    DesiredPolicy("ml-gpu", "gpu", FairsharePolicy((ShareAttributes("A", "0.1"),), 3600, 50), TAGS),
    DesiredPolicy("ml-gpu", "gpu", None, TAGS),
    DesiredQueue(
        "ml-gpu",
        "gpu",
        10,
        "ml-gpu",
        "ml-gpu",
        time_limits=(("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", 600),),
        tags=TAGS,
    ),
    DesiredQuotaShare(
        "ml-gpu/A", "gpu/A", (CapacityLimit(5, "ml.c5.xlarge"),), SharingStrategy.LEND_AND_BORROW, 50, True, tags=TAGS
    ),
]
NAMES = {
    ResourceType.SERVICE_ENVIRONMENT: "ServiceEnvironment",
    ResourceType.SCHEDULING_POLICY: "SchedulingPolicy",
    ResourceType.JOB_QUEUE: "JobQueue",
    ResourceType.QUOTA_SHARE: "QuotaShare",
}


def arn_of(resource_type: ResourceType, name: str) -> str:
    return f"arn:aws:batch:us-west-2:111122223333:{resource_type.value}/{name}"


@pytest.mark.parametrize("desired", DESIRED, ids=lambda desired: desired.resource_type.value)
def test_requests_for_resources_are_valid_and_complete(desired: DesiredResource) -> None:
    noun = NAMES[desired.resource_type]
    every_field = frozenset(field.field for field in changed_fields(desired, None))
    created = create_request(desired, arn_of)
    updated = update_request(desired, every_field, arn_of)
    reference = {KINDS[desired.resource_type].reference_field: "ml-gpu"}

    assert_valid(f"Create{noun}", created)
    assert_valid(f"Update{noun}", reference | updated)
    assert_valid(f"Delete{noun}", reference)
    assert updated.items() <= created.items()
    left_out = set(BATCH.operation_model(f"Update{noun}").input_shape.members) - set(reference) - set(updated)
    assert left_out <= {"quotaSharePolicy", "fairsharePolicy", "computeEnvironmentOrder"}
    assert bool(updated) is (created.keys() != {"name", "quotaSharePolicy", "tags"}), "a quota policy has one setting"
    assert update_request(desired, frozenset({"tags.team"}), arn_of) == {}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.plural)
def test_describe_names_its_fields_as_aws_does(kind: Any) -> None:
    irregular = {"scheduling_policies": "SchedulingPolicies", "quota_share": "QuotaShare"}
    noun = irregular.get(kind.plural, f"{NAMES[kind.resource_type]}s")
    operation = BATCH.operation_model(f"Describe{noun}")

    assert kind.lookup_field in operation.input_shape.members
    assert kind.answer_field in (*operation.output_shape.members, "")


def test_the_request_of_a_job_is_valid_and_complete() -> None:
    request = submit_request(
        JobRequest(
            job_name="digits",
            job_queue="ml-gpu",
            payload="{}",
            client_token="t" * 64,
            share_identifier="HIGHPRI",
            scheduling_priority=0,
            retry_strategy={"attempts": 2, "evaluate_on_exit": [{"action": "RETRY", "on_status_reason": "x*"}]},
            attempt_duration_seconds=60,
            tags=TAGS,
            quota_share="A",
            preemption_retries=0,
        )
    )

    assert_valid("SubmitServiceJob", request)
    unused = set(BATCH.operation_model("SubmitServiceJob").input_shape.members) - set(request)
    assert unused == set()
