"""What the engine is told: jobs, environments, queues and the choices that AWS leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from fairshare.model import CapacityLimit, FairsharePolicy, QuotaSharePolicy, SharingStrategy

MIN_CAPACITY_BACKOFF_MS: Final = 1000


class Blocking(StrEnum):
    """What a head that cannot be placed holds up."""

    QUEUE = "queue"
    """Its whole queue, strict head of line: what AWS's pages on blocked queues support. On a queue with quota shares,
    which are queues of their own, its share."""
    SHARE = "share"
    """Its own share; heads of other shares may go."""
    NONE = "none"
    """Nothing: every job that fits may go (backfill), in the order of shares and priorities."""


class VictimRule(StrEnum):
    """Which job is preempted first, of those that may be. AWS's choice is not published: all of these are the model's.

    https://docs.aws.amazon.com/batch/latest/userguide/preemption.html names what it depends on (number and type of
    borrowed instances, priorities, duration), not how. Ties: the later start, the larger job, the later submission.
    """

    LOWEST_PRIORITY = "lowest-priority"
    """The lowest priority; then whoever started last, and so loses the least work."""
    LATEST_START = "latest-start"
    """Whoever started last, whatever its priority."""
    LARGEST = "largest"
    """The largest, so that few jobs are stopped; then the lowest priority."""


@dataclass(frozen=True)
class EngineOptions:
    """Choices that AWS does not document; printed with every model result.

    ``history_weight`` is the part of a share's usage that comes from its decaying history; the rest is what it holds at
    the instant, so that jobs placed in the same instant count at once. 0 means "current use only".

    ``capacity_backoff_ms`` is how long a job that came back for lack of capacity is not placed again. 0 is "the next
    pass", and values below `MIN_CAPACITY_BACKOFF_MS` count as that: where AWS takes minutes to refuse, a simulated
    execution refuses at once, and would be asked for ever in the same instant.

    ``victim_rule`` orders the jobs that a queue with quota shares may preempt.
    """

    history_weight: Fraction = Fraction(9, 10)
    blocking: Blocking = Blocking.QUEUE
    capacity_backoff_ms: int = 0
    victim_rule: VictimRule = VictimRule.LOWEST_PRIORITY

    def __post_init__(self) -> None:
        Blocking(self.blocking)  # a word will do
        VictimRule(self.victim_rule)
        if not 0 <= self.history_weight <= 1:
            raise ValueError(f"a history weight lies between 0 and 1, not at {self.history_weight}")
        if self.capacity_backoff_ms < 0:
            raise ValueError(f"a capacity backoff of {self.capacity_backoff_ms} ms is before now")


class RetryAction(StrEnum):
    """What a rule does with a failed attempt."""

    RETRY = "RETRY"
    EXIT = "EXIT"


@dataclass(frozen=True)
class RetryRule:
    """One entry of ``evaluateOnExit``. ``on_status_reason`` is a glob: ``*`` stands for any text, anywhere."""

    action: RetryAction
    on_status_reason: str


@dataclass(frozen=True)
class JobSubmission:
    """What the scheduler needs to know of a job.

    ``demand`` is in instances and is placed whole (a gang). ``attempts`` counts the first one
    (https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html); the first of ``evaluate_on_exit``
    that matches decides about a failed one, and without a match it is retried. ``attempt_duration_ms`` counts from the
    start of an attempt (RUNNING).

    A queue with quota shares counts by instance type: there ``quota_share`` and ``demand_by_type`` (type, instances)
    are needed, and ``demand`` is the sum. A job that was preempted more than ``preemption_retries`` times ends; None =
    it is queued again without limit (API_ServiceJobPreemptionConfiguration). These use no attempt.
    """

    job_id: str
    queue: str
    demand: int = 1
    share_identifier: str | None = None
    scheduling_priority: int = 0
    attempts: int = 1
    evaluate_on_exit: tuple[RetryRule, ...] = ()
    attempt_duration_ms: int | None = None
    quota_share: str | None = None
    demand_by_type: tuple[tuple[str, int], ...] = ()
    preemption_retries: int | None = None


@dataclass(frozen=True)
class PutEnvironment:
    """Create or change a service environment. A lower limit never stops what runs; disabled = no new placements.

    ``capacity_limits`` by instance type serve a queue with quota shares; ``max_capacity``, of all instances whatever
    their type, is not looked at then.
    """

    name: str
    max_capacity: int
    enabled: bool = True
    capacity_limits: tuple[CapacityLimit, ...] = ()


@dataclass(frozen=True)
class TimeLimit:
    """One of ``jobStateTimeLimitActions``: ends the head of the queue that is blocked for ``reason`` for that long.

    ``reason`` is a code such as ``CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY``.
    """

    reason: str
    max_time_ms: int


@dataclass(frozen=True)
class PutQueue:
    """Create or change a queue. ``policy`` None = first in, first out; not ``enabled`` = takes no new jobs.

    A queue whose policy is a `QuotaSharePolicy` has the quota shares that `PutQuotaShare` gives it.
    """

    name: str
    environment: str
    priority: int = 1
    policy: FairsharePolicy | QuotaSharePolicy | None = None
    enabled: bool = True
    time_limits: tuple[TimeLimit, ...] = ()


@dataclass(frozen=True)
class RemoveEnvironment:
    """Delete an environment without queues."""

    name: str


@dataclass(frozen=True)
class RemoveQueue:
    """Delete a queue; jobs of it that have not ended are ended."""

    name: str


@dataclass(frozen=True)
class PutQuotaShare:
    """Create or change a quota share of a queue; its jobs stay.

    ``borrow_limit`` is in per cent of each of the share's own limits, and of a LEND_AND_BORROW share only; -1 = none
    (API_QuotaShareResourceSharingConfiguration). A share that is not ``enabled`` takes no new jobs; those it has go on.
    What runs above a limit that was lowered is not stopped, but may be preempted for a share below its own
    (https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html, capacity limit restoration).
    """

    name: str
    queue: str
    capacity_limits: tuple[CapacityLimit, ...]
    sharing: SharingStrategy
    borrow_limit: int = -1
    in_share_preemption: bool = False
    enabled: bool = True


@dataclass(frozen=True)
class RemoveQuotaShare:
    """Delete a quota share; jobs of it that have not ended are ended."""

    name: str
    queue: str


Change = PutEnvironment | PutQueue | PutQuotaShare | RemoveEnvironment | RemoveQueue | RemoveQuotaShare
