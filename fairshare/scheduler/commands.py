"""What the engine is told: jobs, environments, queues and the choices that AWS leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from fairshare.model import FairsharePolicy

MIN_CAPACITY_BACKOFF_MS: Final = 1000


class Blocking(StrEnum):
    """What a head that cannot be placed holds up."""

    QUEUE = "queue"
    """Its whole queue, strict head of line: what AWS's pages on blocked queues support."""
    SHARE = "share"
    """Its own share; heads of other shares may go."""
    NONE = "none"
    """Nothing: every job that fits may go (backfill), in the order of shares and priorities."""


@dataclass(frozen=True)
class EngineOptions:
    """Choices that AWS does not document; printed with every model result.

    ``history_weight`` is the part of a share's usage that comes from its decaying history; the rest is what it holds at
    the instant, so that jobs placed in the same instant count at once. 0 means "current use only".

    ``capacity_backoff_ms`` is how long a job that came back for lack of capacity is not placed again. 0 is "the next
    pass", and values below `MIN_CAPACITY_BACKOFF_MS` count as that: where AWS takes minutes to refuse, a simulated
    execution refuses at once, and would be asked for ever in the same instant.
    """

    history_weight: Fraction = Fraction(9, 10)
    blocking: Blocking = Blocking.QUEUE
    capacity_backoff_ms: int = 0

    def __post_init__(self) -> None:
        Blocking(self.blocking)  # a word will do
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
    """

    job_id: str
    queue: str
    demand: int = 1
    share_identifier: str | None = None
    scheduling_priority: int = 0
    attempts: int = 1
    evaluate_on_exit: tuple[RetryRule, ...] = ()
    attempt_duration_ms: int | None = None


@dataclass(frozen=True)
class PutEnvironment:
    """Create or change a service environment. A lower limit never stops what runs; disabled = no new placements."""

    name: str
    max_capacity: int
    enabled: bool = True


@dataclass(frozen=True)
class TimeLimit:
    """One of ``jobStateTimeLimitActions``: ends the head of the queue that is blocked for ``reason`` for that long.

    ``reason`` is a code such as ``CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY``.
    """

    reason: str
    max_time_ms: int


@dataclass(frozen=True)
class PutQueue:
    """Create or change a queue. ``policy`` None = first in, first out; not ``enabled`` = takes no new jobs."""

    name: str
    environment: str
    priority: int = 1
    policy: FairsharePolicy | None = None
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


Change = PutEnvironment | PutQueue | RemoveEnvironment | RemoveQueue
