"""Service environments."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.local import environments as api
from fairshare.local.errors import ClientException

TYPE = {"serviceEnvironmentType": "SAGEMAKER_TRAINING"}


def limits(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"capacityUnit": unit, "maxCapacity": capacity} for unit, capacity in pairs]


def describe(cloud: Any, *names: str) -> list[Any]:
    return cloud.call(api.describe_service_environments, serviceEnvironments=list(names))["serviceEnvironments"]


def test_created_and_described(cloud):
    answer = cloud.call(
        api.create_service_environment,
        serviceEnvironmentName="gpu",
        capacityLimits=limits(("NUM_INSTANCES", 16)),
        tags={"team": "search"},
        **TYPE,
    )
    arn = "arn:aws:batch:us-west-2:123456789012:service-environment/gpu"
    assert answer == {"serviceEnvironmentName": "gpu", "serviceEnvironmentArn": arn}
    expected = {
        "serviceEnvironmentName": "gpu",
        "serviceEnvironmentArn": arn,
        "serviceEnvironmentType": "SAGEMAKER_TRAINING",
        "state": "ENABLED",
        "status": "VALID",
        "capacityLimits": [{"capacityUnit": "NUM_INSTANCES", "maxCapacity": 16}],
        "tags": {"team": "search"},
    }
    assert describe(cloud, "gpu") == [expected]
    assert describe(cloud, arn) == [expected]


@pytest.mark.parametrize(
    ("capacity", "text"),
    [
        (limits(), "Capacitylimits are required."),
        (limits(*[(f"ml.g5.{n}xlarge", 1) for n in (2, 4, 8, 12, 16, 24)]), "Number of capacity limits exceeds 5."),
        (limits(("NUM_INSTANCES", 0)), "Max capacity must be more than 0."),
        (
            limits(("NUM_INSTANCES", 1), ("ml.g5.xlarge", 1)),
            "Capacity units must specify either number of instances OR instance type, but not both",
        ),
        (
            limits(("NUM_INSTANCES", 1), ("NUM_INSTANCES", 2)),
            "capacityLimits: the same capacityUnit is there twice (one limit for each unit)",
        ),
    ],
)
def test_capacity_limits_are_refused_with_awss_text(cloud, capacity, text):
    with pytest.raises(ClientException) as refused:
        cloud.call(api.create_service_environment, serviceEnvironmentName="gpu", capacityLimits=capacity, **TYPE)
    assert str(refused.value) == text


def test_there_is_one_type_of_environment(cloud):
    request = {"serviceEnvironmentName": "gpu", "capacityLimits": limits(("NUM_INSTANCES", 1))}
    with pytest.raises(ClientException) as refused:
        cloud.call(api.create_service_environment, serviceEnvironmentType="EKS", **request)
    assert str(refused.value) == "serviceEnvironmentType: 'EKS' is unknown (SAGEMAKER_TRAINING)"


def test_an_unknown_unit_is_answered_with_all_instance_types(cloud):
    capacity = limits(("VCPU", 4))
    with pytest.raises(ClientException) as refused:
        cloud.call(api.create_service_environment, serviceEnvironmentName="gpu", capacityLimits=capacity, **TYPE)
    assert str(refused.value).startswith("VCPU is unknown capacity unit in [ml.")
    assert "ml.p5.48xlarge" in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "gpu!", "x" * 129])
def test_a_bad_name_is_refused(cloud, name):
    with pytest.raises(ClientException, match=r"^Service environment name should match a valid pattern\.$"):
        cloud.environment(name)


def test_the_same_name_again_is_refused(cloud):
    cloud.environment()
    with pytest.raises(ClientException, match=r"^Object already exists$"):
        cloud.environment()


def test_pages_in_order_of_name(cloud):
    for name in ("c", "a", "b"):
        cloud.environment(name)
    first = cloud.call(api.describe_service_environments, maxResults=2)
    assert [environment["serviceEnvironmentName"] for environment in first["serviceEnvironments"]] == ["a", "b"]
    second = cloud.call(api.describe_service_environments, maxResults=2, nextToken=first["nextToken"])
    assert [environment["serviceEnvironmentName"] for environment in second["serviceEnvironments"]] == ["c"]
    assert second["nextToken"] is None


def test_names_and_a_page_size_exclude_each_other(cloud):
    with pytest.raises(ClientException, match=r"^ServiceEnvironments and MaxResults cannot both be set$"):
        cloud.call(api.describe_service_environments, serviceEnvironments=["gpu"], maxResults=1)


def test_unknown_names_and_arns_of_others_are_absent(cloud):
    cloud.environment()
    other = "arn:aws:batch:us-west-2:999999999999:service-environment/gpu"
    assert describe(cloud, "nope", other) == []


def test_a_lower_limit_never_ends_what_runs(cloud):
    cloud.fifo_queue(capacity=2)
    running = [cloud.submit("a"), cloud.submit("b")]
    cloud.call(api.update_service_environment, serviceEnvironment="gpu", capacityLimits=limits(("NUM_INSTANCES", 1)))
    waiting = cloud.submit("c")
    assert [cloud.status(job) for job in [*running, waiting]] == ["RUNNING", "RUNNING", "RUNNABLE"]
    assert describe(cloud, "gpu")[0]["capacityLimits"][0]["maxCapacity"] == 1


def test_disabled_means_no_new_placements(cloud):
    cloud.fifo_queue(capacity=2)
    running = cloud.submit("a", seconds=60)
    cloud.call(api.update_service_environment, serviceEnvironment="gpu", state="DISABLED")
    waiting = cloud.submit("b")
    assert (cloud.status(running), cloud.status(waiting)) == ("RUNNING", "RUNNABLE")
    cloud.call(api.update_service_environment, serviceEnvironment="gpu", state="ENABLED")
    assert cloud.status(waiting) == "RUNNING"


def test_instances_and_types_cannot_be_exchanged(cloud):
    cloud.environment()
    with pytest.raises(ClientException, match=r"^capacityLimits: instances and instance types cannot be exchanged"):
        cloud.call(api.update_service_environment, serviceEnvironment="gpu", capacityLimits=limits(("ml.g5.xlarge", 1)))


def test_deleted_only_when_no_queue_uses_it_and_disabled(cloud):
    cloud.fifo_queue()
    with pytest.raises(ClientException, match=r"^Cannot delete, found existing JobQueue relationship$"):
        cloud.call(api.delete_service_environment, serviceEnvironment="gpu")
    cloud.environment("free")
    with pytest.raises(ClientException, match=r"^serviceEnvironment: free is ENABLED \(disable it first\)$"):
        cloud.call(api.delete_service_environment, serviceEnvironment="free")
    cloud.call(api.update_service_environment, serviceEnvironment="free", state="DISABLED")
    cloud.call(api.delete_service_environment, serviceEnvironment="free")
    assert describe(cloud, "free") == []


@pytest.mark.parametrize("operation", [api.update_service_environment, api.delete_service_environment])
def test_an_unknown_environment_is_refused(cloud, operation):
    with pytest.raises(ClientException, match=r"^ServiceEnvironment nope not found\.$"):
        cloud.call(operation, serviceEnvironment="nope")


def test_a_region_has_at_most_50_environments(cloud):
    for number in range(50):
        cloud.environment(f"environment-{number}")
    with pytest.raises(ClientException, match=r"^serviceEnvironmentName: 50 environments exist \(at most 50\)$"):
        cloud.environment("one-more")
