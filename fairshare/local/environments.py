"""Operations on service environments: the capacity that queues share.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateServiceEnvironment.html and its neighbours. An
environment is VALID at once and gone at once, unless `fairshare.local.settling` says that it takes a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.local.paging import page
from fairshare.local.region import EnvironmentRecord, Region
from fairshare.local.settling import LifeCycle
from fairshare.local.validation import (
    SERVICE_TYPE,
    check_capacity_limits,
    check_name,
    check_service_type,
    check_state,
    check_tags,
    counts_instances,
)
from fairshare.scheduler.commands import RemoveEnvironment

MOST_ENVIRONMENTS: Final = 50
"""Of one account and region (https://docs.aws.amazon.com/general/latest/gr/batch.html)."""


def create_service_environment(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """CreateServiceEnvironment."""
    name, limits = request["serviceEnvironmentName"], request.get("capacityLimits") or []
    check_name(name, "Service environment")
    check_service_type("serviceEnvironmentType", request["serviceEnvironmentType"])
    check_state(request.get("state", "ENABLED"))
    check_capacity_limits(limits)
    check_tags(request.get("tags") or {})
    if name in region.environments:
        raise ClientException("Object already exists")
    if len(region.environments) >= MOST_ENVIRONMENTS:
        raise ClientException(
            f"serviceEnvironmentName: {len(region.environments)} environments exist (at most {MOST_ENVIRONMENTS})"
        )
    environment = EnvironmentRecord(
        name=name,
        arn=region.arn(f"service-environment/{name}"),
        capacity_limits=limits,
        state=request.get("state", "ENABLED"),
        tags=dict(request.get("tags") or {}),
        life=LifeCycle(region.settling.creating),
    )
    region.environments[name] = environment
    region.configure_environment(environment)
    return _reference(environment)


def describe_service_environments(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeServiceEnvironments. Names that do not exist are absent from the answer."""
    references = request.get("serviceEnvironments") or []
    if references and request.get("maxResults") is not None:
        raise ClientException("ServiceEnvironments and MaxResults cannot both be set")
    if references:
        named = (region.find_environment(reference) for reference in references)
        return {"serviceEnvironments": [_describe(environment) for environment in named if environment is not None]}
    environments, token = page(
        lambda last: (region.environments[name] for name in sorted(region.environments) if last is None or name > last),
        lambda environment: environment.name,
        kind=str,
        operation="DescribeServiceEnvironments",
        max_results=request.get("maxResults"),
        next_token=request.get("nextToken"),
    )
    return {"serviceEnvironments": [_describe(environment) for environment in environments], "nextToken": token}


def update_service_environment(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """UpdateServiceEnvironment: state and limits. A lower limit never ends what runs."""
    environment = region.get_environment(request["serviceEnvironment"])
    if environment.life.is_changing:
        raise ClientException("Cannot update, resource is being modified")
    limits = request.get("capacityLimits")
    check_state(request.get("state", environment.state))
    if limits is not None:
        check_capacity_limits(limits)
        if counts_instances(limits) != counts_instances(environment.capacity_limits):
            raise ClientException("capacityLimits: instances and instance types cannot be exchanged (make a new one)")
        environment.capacity_limits = limits
    environment.state = request.get("state", environment.state)
    environment.life.update(region.settling.updating)
    region.configure_environment(environment)
    return _reference(environment)


def delete_service_environment(region: Region, request: Mapping[str, Any]) -> None:
    """DeleteServiceEnvironment: it must serve no queue and be DISABLED."""
    environment = region.get_environment(request["serviceEnvironment"])
    if environment.life.is_changing:
        raise ClientException("Cannot delete, resource is being modified")
    if _counts_as_attached(region, environment):
        raise ClientException("Cannot delete, found existing JobQueue relationship")
    if environment.state != "DISABLED":
        raise ClientException(f"serviceEnvironment: {environment.name} is {environment.state} (disable it first)")
    environment.life.delete(region.settling.deleting)
    region.engine.reconfigure(RemoveEnvironment(environment.name), region.now)


def _counts_as_attached(region: Region, environment: EnvironmentRecord) -> bool:
    """Whether a queue uses it, or one did a moment ago."""
    if any(queue.environment is environment for queue in region.queues.values()):
        return True
    environment.refusals_left -= 1
    return environment.refusals_left >= 0


def _reference(environment: EnvironmentRecord) -> dict[str, Any]:
    return {"serviceEnvironmentName": environment.name, "serviceEnvironmentArn": environment.arn}


def _describe(environment: EnvironmentRecord) -> dict[str, Any]:
    return _reference(environment) | {
        "serviceEnvironmentType": SERVICE_TYPE,
        "state": environment.state,
        "status": environment.life.poll(),
        "capacityLimits": environment.capacity_limits,
        "tags": environment.tags,
    }
