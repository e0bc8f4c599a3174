"""Operations on tags, for every kind of resource alike.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_TagResource.html and its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """Return the live tags of a resource of this account and region."""
    if (share := region.find_quota_share(arn)) is not None:
        return share.tags
    kind, _, name = arn.removeprefix(region.arn("")).partition("/")
    resources: Mapping[str, Mapping[str, EnvironmentRecord | PolicyRecord | QueueRecord | JobRecord]] = {
        "service-environment": region.environments,
        "scheduling-policy": region.policies,
        "job-queue": region.queues,
        "service-job": region.jobs,
    }
    resource = resources.get(kind, {}).get(name)
    if resource is None or resource.arn != arn:
        raise ClientException(
            f"resourceArn: {arn} does not exist (an environment, policy, queue, quota share or service job)"
        )
    return resource.tags
