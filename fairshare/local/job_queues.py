"""Operations on job queues of type SAGEMAKER_TRAINING.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateJobQueue.html and its neighbours. A queue is
VALID at once, unless `fairshare.local.settling` says that it takes a moment; its deletion lasts until its jobs have
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.local.paging import page
from fairshare.local.region import EnvironmentRecord, PolicyRecord, QueueRecord, Region
from fairshare.local.settling import VALID, LifeCycle
from fairshare.local.validation import (
    SERVICE_TYPE,
    check_name,
    check_queue_priority,
    check_state,
    check_tags,
    check_time_limits,
    counts_instances,
)
from fairshare.scheduler.commands import RemoveQueue

MOST_QUEUES: Final = 50
"""Of one account and region (https://docs.aws.amazon.com/general/latest/gr/batch.html)."""


def create_job_queue(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """CreateJobQueue."""
    name, policy_arn = request["jobQueueName"], request.get("schedulingPolicyArn")
    check_name(name, "Job Queue")
    check_state(request.get("state", "ENABLED"))
    check_queue_priority(request["priority"])
    check_time_limits(request.get("jobStateTimeLimitActions") or [])
    check_tags(request.get("tags") or {})
    policy = None if policy_arn is None else region.get_policy(policy_arn)
    if policy is not None and policy.quota is not None and request.get("jobQueueType") not in (SERVICE_TYPE, None):
        raise ClientException("Quota Management feature is only supported for SageMaker Training job queues.")
    environment = _environment_of_new_queue(region, request)
    _check_fit(region, environment, policy, None)
    if name in region.queues:
        raise ClientException("Object already exists")
    if len(region.queues) >= MOST_QUEUES:
        raise ClientException(f"jobQueueName: {len(region.queues)} queues exist (at most {MOST_QUEUES})")
    queue = QueueRecord(
        name=name,
        arn=region.arn(f"job-queue/{name}"),
        priority=request["priority"],
        environment=environment,
        policy=policy,
        state=request.get("state", "ENABLED"),
        time_limits=request.get("jobStateTimeLimitActions") or [],
        tags=dict(request.get("tags") or {}),
        life=LifeCycle(region.settling.creating),
    )
    region.queues[name] = queue
    region.configure_queue(queue)
    return _reference(queue)


def describe_job_queues(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeJobQueues. Names that do not exist are absent from the answer."""
    references = request.get("jobQueues") or []
    if references and request.get("maxResults") is not None:
        raise ClientException("JobQueues and MaxResults cannot both be set")
    if references:
        named = (region.find_queue(reference) for reference in references)
        return {"jobQueues": [_describe(queue) for queue in named if queue is not None]}
    queues, token = page(
        lambda last: (region.queues[name] for name in sorted(region.queues) if last is None or name > last),
        lambda queue: queue.name,
        kind=str,
        operation="DescribeJobQueues",
        max_results=request.get("maxResults"),
        next_token=request.get("nextToken"),
    )
    return {"jobQueues": [_describe(queue) for queue in queues], "nextToken": token}


def update_job_queue(region: Region, request: Mapping[str, Any]) -> dict[str, Any]:
    """UpdateJobQueue: a policy can be replaced, never added or removed (case C05).

    Another environment is taken only while the queue is empty: what AWS does with the jobs in it is not documented, and
    the scheduler here keeps them with the environment they hold capacity of.
    """
    queue = region.get_queue(request["jobQueue"])
    if queue.life.is_changing:
        raise ClientException("Cannot update, resource is being modified")
    state, priority = request.get("state", queue.state), request.get("priority", queue.priority)
    policy_arn, order = request.get("schedulingPolicyArn"), request.get("serviceEnvironmentOrder")
    time_limits = request.get("jobStateTimeLimitActions", queue.time_limits)
    check_state(state)
    check_queue_priority(priority)
    check_time_limits(time_limits)
    if policy_arn is not None and queue.policy is None:
        raise ClientException("schedulingPolicyArn: a first-in-first-out queue cannot get a policy (make a new queue)")
    policy = queue.policy if policy_arn is None else region.get_policy(policy_arn)
    environment = queue.environment if order is None else _ordered_environment(region, order)
    if policy is not None and queue.policy is not None and (policy.quota is None) != (queue.policy.quota is None):
        raise ClientException("schedulingPolicyArn: shares and quota shares cannot be exchanged (make a new queue)")
    _check_fit(region, environment, policy, queue)
    if environment is not queue.environment:
        _leave_environment(region, queue)
    queue.state, queue.priority, queue.time_limits = state, priority, time_limits
    queue.policy, queue.environment = policy, environment
    queue.life.update(region.settling.updating)
    region.configure_queue(queue)
    return _reference(queue)


def delete_job_queue(region: Region, request: Mapping[str, Any]) -> None:
    """DeleteJobQueue: it must be DISABLED; its jobs are ended."""
    queue = region.get_queue(request["jobQueue"])
    if queue.life.is_changing:
        raise ClientException("Cannot delete, resource is being modified")
    if queue.state != "DISABLED":
        raise ClientException(f"jobQueue: {queue.name} is {queue.state} (disable it first)")
    queue.life.delete(region.settling.deleting)
    region.engine.reconfigure(RemoveQueue(queue.name), region.now)


def _environment_of_new_queue(region: Region, request: Mapping[str, Any]) -> EnvironmentRecord:
    """Return the environment of a queue that is being created, with AWS's texts for what does not fit together."""
    order, queue_type = request.get("serviceEnvironmentOrder") or [], request.get("jobQueueType")
    if not order and queue_type == SERVICE_TYPE:
        raise ClientException(f"Job queues of type {SERVICE_TYPE} must have serviceEnvironmentOrder.")
    if queue_type not in (SERVICE_TYPE, None) or request.get("computeEnvironmentOrder") or not order:
        raise ClientException(
            "CreateJobQueue requires either setting computeEnvironmentOrder or setting serviceEnvironmentOrder along "
            f"with a supported jobQueueType. Supported here: {SERVICE_TYPE} with serviceEnvironmentOrder."
        )
    return _ordered_environment(region, order)


def _ordered_environment(region: Region, order: list[Mapping[str, Any]]) -> EnvironmentRecord:
    if len(order) != 1:
        raise ClientException("Job queue can only have 1 service environment.")
    environment = region.find_environment(order[0]["serviceEnvironment"])
    if environment is None or environment.life.is_changing:
        raise ClientException("Service environments must be created and valid before attaching them to a job queue.")
    return environment


def _check_fit(
    region: Region, environment: EnvironmentRecord, policy: PolicyRecord | None, queue: QueueRecord | None
) -> None:
    """Check that environment and policy of a queue go together; ``queue`` is None while it is being created.

    Source: https://docs.aws.amazon.com/batch/latest/userguide/quota-management.html.
    """
    has_quota_shares = policy is not None and policy.quota is not None
    if counts_instances(environment.capacity_limits):
        if has_quota_shares:
            raise ClientException(
                f"serviceEnvironmentOrder: {environment.name} counts NUM_INSTANCES (a queue with quota shares needs "
                "limits by instance type)"
            )
        return
    if not has_quota_shares:
        raise ClientException(
            f"serviceEnvironmentOrder: {environment.name} counts instance types (FIFO and fair-share queues need "
            "NUM_INSTANCES)"
        )
    others = [name for name, other in region.queues.items() if other.environment is environment and other is not queue]
    if others:
        raise ClientException(
            f"serviceEnvironmentOrder: {environment.name} serves job queue {others[0]} (one with limits by instance "
            "type serves one queue)"
        )


def _leave_environment(region: Region, queue: QueueRecord) -> None:
    """Take a queue off its environment. The engine cannot move jobs, so none may be left in it."""
    if not region.is_empty(queue):
        raise ClientException(
            f"serviceEnvironmentOrder: {queue.name} still has jobs, which cannot move (wait until they have ended, or "
            "make another queue)"
        )
    if queue.quota_shares:
        raise ClientException(
            f"serviceEnvironmentOrder: {queue.name} has quota shares, whose limits are of its environment (delete them "
            "first)"
        )
    region.engine.reconfigure(RemoveQueue(queue.name), region.now)


def _reference(queue: QueueRecord) -> dict[str, Any]:
    return {"jobQueueName": queue.name, "jobQueueArn": queue.arn}


def _describe(queue: QueueRecord) -> dict[str, Any]:
    status = queue.life.poll()
    return _reference(queue) | {
        "state": queue.state,
        "status": status,
        "statusReason": "JobQueue Healthy" if status == VALID else None,
        "priority": queue.priority,
        "computeEnvironmentOrder": [],
        "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": queue.environment.arn}],
        "jobQueueType": SERVICE_TYPE,
        "schedulingPolicyArn": None if queue.policy is None else queue.policy.arn,
        "jobStateTimeLimitActions": queue.time_limits,
        "tags": queue.tags,
    }
