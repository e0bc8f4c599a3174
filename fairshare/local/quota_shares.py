"""Operations on quota shares: the parts of a queue that own, lend and borrow instances.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateQuotaShare.html and its neighbours,
https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html. A share is VALID at once, unless
`fairshare.local.settling` says that it takes a moment; its deletion lasts until its jobs have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairshare.local.errors import ClientException
from fairshare.local.paging import page
from fairshare.local.region import QueueRecord, QuotaShareRecord, Region
from fairshare.local.settling import LifeCycle
from fairshare.local.validation import (
    check_in_share_preemption,
    check_name,
    check_quota_limits,
    check_sharing,
    check_state,
    check_tags,
)
from fairshare.scheduler.commands import RemoveQuotaShare
from fairshare.scheduler.quota import MAX_QUOTA_SHARES


def create_quota_share(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """CreateQuotaShare. Limits of all shares together may exceed the environment's: jobs need room in both."""
    name = request["quotaShareName"]
    check_name(name, "Quota share")
    _check_settings(request)
    check_tags(request.get("tags") or {})
    queue = _queue_for_shares(region, request["jobQueue"])
    if name in queue.quota_shares:
        raise ClientException(f"Quota share {name} already exists.")
    if len(queue.quota_shares) >= MAX_QUOTA_SHARES:
        raise ClientException(
            f"quotaShareName: {queue.name} has {len(queue.quota_shares)} quota shares (at most {MAX_QUOTA_SHARES})"
        )
    share = QuotaShareRecord(
        name=name,
        arn=f"{queue.arn}/quota-share/{name}",
        queue=queue,
        capacity_limits=request["capacityLimits"],
        sharing=request["resourceSharingConfiguration"],
        in_share_preemption=request["preemptionConfiguration"]["inSharePreemption"],
        state=request.get("state", "ENABLED"),
        tags=dict(request.get("tags") or {}),
        life=LifeCycle(region.settling.creating),
    )
    queue.quota_shares[name] = share
    region.configure_quota_share(share)
    return _reference(share)


def describe_quota_share(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeQuotaShare, by ARN."""
    share = region.get_quota_share(request["quotaShareArn"])
    return _describe(share) | {"tags": share.tags}


def list_quota_shares(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """ListQuotaShares of a queue: everything but the tags."""
    queue = region.get_queue(request["jobQueue"])
    shares, token = page(
        lambda last: (queue.quota_shares[name] for name in sorted(queue.quota_shares) if last is None or name > last),
        lambda share: share.name,
        kind=str,
        operation="ListQuotaShares",
        max_results=request.get("maxResults"),
        next_token=request.get("nextToken"),
    )
    return {"quotaShares": [_describe(share) for share in shares], "nextToken": token}


def update_quota_share(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """UpdateQuotaShare: what is given replaces what was. What runs above a lower limit may be preempted."""
    share = region.get_quota_share(request["quotaShareArn"])
    if share.life.is_changing or share.queue.is_being_deleted:
        raise ClientException("Cannot update, resource is being modified")
    _check_settings(request)
    share.capacity_limits = request.get("capacityLimits", share.capacity_limits)
    share.sharing = request.get("resourceSharingConfiguration", share.sharing)
    preemption = request.get("preemptionConfiguration") or {"inSharePreemption": share.in_share_preemption}
    share.in_share_preemption = preemption["inSharePreemption"]
    share.state = request.get("state", share.state)
    share.life.update(region.settling.updating)
    region.configure_quota_share(share)
    return _reference(share)


def delete_quota_share(region: Region, request: Mapping[str, Any]) -> None:
    """DeleteQuotaShare: it must be DISABLED; its jobs are ended."""
    share = region.get_quota_share(request["quotaShareArn"])
    if share.life.is_changing or share.queue.is_being_deleted:
        raise ClientException("Cannot delete, resource is being modified")
    if share.state != "DISABLED":
        raise ClientException(f"quotaShareArn: {share.name} is {share.state} (disable it first)")
    share.life.delete(region.settling.deleting)
    region.engine.reconfigure(RemoveQuotaShare(share.name, share.queue.name), region.now)


def _check_settings(request: Mapping[str, Any]) -> None:
    """Check what creation and change have in common; what is absent is not checked."""
    if request.get("capacityLimits") is not None:
        check_quota_limits(request["capacityLimits"])
    if request.get("resourceSharingConfiguration") is not None:
        check_sharing(request["resourceSharingConfiguration"])
    if request.get("preemptionConfiguration") is not None:
        check_in_share_preemption(request["preemptionConfiguration"]["inSharePreemption"])
    check_state(request.get("state", "ENABLED"))


def _queue_for_shares(region: Region, reference: str) -> QueueRecord:
    """Return the queue of a share that is being created: a valid one, with a quota-share policy."""
    queue = region.get_queue(reference)
    if not queue.has_quota_shares:
        raise ClientException(f"jobQueue: {queue.name} has no quotaSharePolicy (its queue needs one)")
    if queue.life.is_changing:
        raise ClientException(f"jobQueue: {queue.name} is {queue.life.status} (it must be VALID)")
    return queue


def _reference(share: QuotaShareRecord) -> dict[str, Any]:
    return {"quotaShareName": share.name, "quotaShareArn": share.arn}


def _describe(share: QuotaShareRecord) -> dict[str, Any]:
    sharing = dict(share.sharing)
    if sharing["strategy"] == "LEND_AND_BORROW":
        sharing.setdefault("borrowLimit", -1)
    return _reference(share) | {
        "jobQueueArn": share.queue.arn,
        "capacityLimits": share.capacity_limits,
        "resourceSharingConfiguration": sharing,
        "preemptionConfiguration": {"inSharePreemption": share.in_share_preemption},
        "state": share.state,
        "status": share.life.poll(),
    }
