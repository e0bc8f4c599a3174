"""The environments and queues of an engine, and the changes that are made to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fairshare.model import CapacityLimit, FairsharePolicy, QuotaSharePolicy, SharingStrategy
from fairshare.scheduler.books import Terms
from fairshare.scheduler.commands import EngineOptions, PutEnvironment, PutQueue, PutQuotaShare
from fairshare.scheduler.fair_share import FairShareQueue
from fairshare.scheduler.queues import Environment, FifoQueue, Queue
from fairshare.scheduler.quota import QuotaQueue

MAX_CAPACITY_LIMITS: Final = 5
"""Of a quota share (https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html)."""


class Resources:
    """What exists. Every change that cannot be made raises KeyError or ValueError, and nothing has changed then."""

    def __init__(self, options: EngineOptions) -> None:
        self.environments: dict[str, Environment] = {}
        self.queues: dict[str, Queue[Any]] = {}
        self._options = options

    def put_environment(self, change: PutEnvironment) -> None:
        """Create or change an environment."""
        limits = limits_by_type(change.capacity_limits)
        environment = self.environments.setdefault(change.name, Environment(change.name))
        if environment.queues and bool(limits) != bool(environment.limits):
            raise ValueError(f"environment {change.name} serves a queue: it goes on counting as it does")
        environment.max_capacity = sum(limits.values()) if limits else change.max_capacity
        environment.limits = limits
        environment.enabled = change.enabled

    def remove_environment(self, name: str) -> None:
        """Delete an environment; there need not be one."""
        if (gone := self.environments.get(name)) is not None and gone.queues:
            raise ValueError(f"environment {name} still has queues")
        self.environments.pop(name, None)

    def put_queue(self, change: PutQueue, now: int) -> Queue[Any]:
        """Create or change a queue, but for its time limits, and return it."""
        environment = self.environments[change.environment]
        queue = self.queues.get(change.name)
        if queue is None:
            queue = self._new_queue(change, environment)
        elif queue.is_closing:
            raise ValueError(f"queue {change.name} is being deleted")
        elif queue.environment != change.environment:
            raise ValueError(f"queue {change.name} cannot move to another environment while the engine runs")
        elif type(queue) is not _kind_of(change):
            raise ValueError(f"queue {change.name} keeps its kind: a policy can be replaced, never added or removed")
        if isinstance(queue, FairShareQueue) and isinstance(change.policy, FairsharePolicy):
            queue.set_policy(change.policy, now)
        queue.priority = change.priority
        queue.enabled = change.enabled
        self.queues[change.name] = queue
        environment.attach(queue)
        return queue

    def quota_queue(self, name: str) -> QuotaQueue:
        """Return a queue that has quota shares."""
        queue = self.queues[name]
        if not isinstance(queue, QuotaQueue):
            raise ValueError(f"queue {name} has no quota shares: its policy is of another kind")
        return queue

    def put_quota_share(self, change: PutQuotaShare) -> QuotaQueue:
        """Create or change a quota share, and return its queue."""
        queue = self.quota_queue(change.queue)
        limits = limits_by_type(change.capacity_limits)
        sharing = SharingStrategy(change.sharing)
        if not 1 <= len(limits) <= MAX_CAPACITY_LIMITS:
            raise ValueError(
                f"quota share {change.name} has {len(limits)} capacity limits, not 1 to {MAX_CAPACITY_LIMITS}"
            )
        if change.borrow_limit < -1:
            raise ValueError(f"a borrow limit of {change.borrow_limit} per cent is below -1, which means none")
        if change.borrow_limit != -1 and sharing != SharingStrategy.LEND_AND_BORROW:
            raise ValueError(f"quota share {change.name} has a borrow limit, which only LEND_AND_BORROW shares have")
        terms = Terms(limits, sharing, change.borrow_limit, change.in_share_preemption)
        queue.put_share(change.name, terms, change.enabled)
        return queue

    def drop_if_closed(self, queue: Queue[Any]) -> None:
        """Forget a queue being deleted once its last job has ended."""
        if queue.is_closing and queue.is_empty:
            self.environments[queue.environment].detach(queue)
            del self.queues[queue.name]

    def _new_queue(self, change: PutQueue, environment: Environment) -> Queue[Any]:
        kind = _kind_of(change)
        if kind is QuotaQueue and not environment.limits:
            raise ValueError(
                f"queue {change.name} has quota shares: environment {environment.name} must have limits "
                "by instance type"
            )
        if kind is not QuotaQueue and environment.limits:
            raise ValueError(
                f"environment {environment.name} has limits by instance type: only a queue with quota "
                f"shares can use it, and {change.name} has none"
            )
        if kind is QuotaQueue and environment.queues:
            raise ValueError(
                f"environment {environment.name} serves queue {environment.queues[0].name}: one with "
                "limits by instance type serves one queue"
            )
        return kind(change.name, change.environment, self._options)


def limits_by_type(limits: Iterable[CapacityLimit]) -> dict[str, int]:
    """Return capacity by instance type. Raises ValueError: a type twice, or a limit below 0."""
    by_type: dict[str, int] = {}
    for limit in limits:
        if limit.capacity_unit in by_type:
            raise ValueError(f"two capacity limits for {limit.capacity_unit}")
        if limit.max_capacity < 0:
            raise ValueError(f"a capacity limit of {limit.max_capacity} for {limit.capacity_unit} is below 0")
        by_type[limit.capacity_unit] = limit.max_capacity
    return by_type


def _kind_of(change: PutQueue) -> type[FifoQueue | FairShareQueue | QuotaQueue]:
    if change.policy is None:
        return FifoQueue
    return QuotaQueue if isinstance(change.policy, QuotaSharePolicy) else FairShareQueue
