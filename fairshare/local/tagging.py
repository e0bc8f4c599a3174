"""Operations on tags, for every kind of resource alike.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_TagResource.html and its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from fairshare.local.errors import ClientException
from fairshare.local.region import EnvironmentRecord, JobRecord, PolicyRecord, QueueRecord, Region
from fairshare.local.validation import check_tags


def tag_resource(region: Region, request: Mapping[str, Any]) -> None:
    """TagResource: adds tags and replaces values."""
    tags = _tags_of(region, request["resourceArn"])
    check_tags(tags | request["tags"])
    tags.update(request["tags"])


def untag_resource(region: Region, request: Mapping[str, Any]) -> None:
    """UntagResource: keys that are not there do not matter."""
    tags = _tags_of(region, request["resourceArn"])
    for key in request["tagKeys"]:
        tags.pop(key, None)


def list_tags_for_resource(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """ListTagsForResource."""
    return {"tags": _tags_of(region, request["resourceArn"])}


def _tags_of(region: Region, arn: str) -> dict[str, str]:
    """Return the live tags of a resource."""
    resources: Iterator[EnvironmentRecord | PolicyRecord | QueueRecord | JobRecord] = chain(
        region.environments.values(), region.policies.values(), region.queues.values(), region.jobs.values()
    )
    resource = next((resource for resource in resources if resource.arn == arn), None)
    if resource is None:
        raise ClientException(f"resourceArn: {arn} does not exist (an environment, policy, queue or service job)")
    return resource.tags
