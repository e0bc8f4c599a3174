"""The vocabulary every other package shares: AWS Batch's nouns, its codec and the errors a user meets.

Names are AWS's own in snake_case, so that a reader can search AWS's documentation for them. Nothing here imports a
third-party package, reads a clock or does I/O.

The exception tree (each carries the exit code of the command line and a stable ``code`` for JSON output)::

    FairshareError            1
    |-- UsageError            2   a flag or argument is wrong
    |-- InvalidFileError      2   a file the user wrote is wrong: file:line:column
    |-- PartialError          3   some of many failed
    |-- NotFoundError         4
    |-- InfeasibleError       5   it can never run, or a policy test refused it
    |-- CredentialsError      6
    |-- ThrottledError        7   throttled or out of quota after retries
    |-- WaitTimeoutError      8
    |-- ServiceError          1   AWS answered with an error
    `-- InterruptedRunError   130 / 143
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

API_VERSION: Final = "fairshare/v1"
"""Version of every JSON document that the command line prints."""

MODEL_VERSION: Final = "1.0"
"""Version of the scheduling model, printed with everything the model predicts (AWS publishes no exact algorithm)."""

OWNER_TAG: Final = "fairshare:stack"
"""Tag that marks a resource as provisioned by us; its value is the ``stack`` of ``fairshare.yaml``."""

RUN_TAG: Final = "fairshare:run"
"""Tag of a service job that names the run which sent it."""

MAX_PRIORITY: Final = 99
"""Largest priority a user may give (AWS accepts 9999; the convention of 0-99 is the product's)."""


class JobStatus(StrEnum):
    """Status of an AWS Batch service job, in life-cycle order.

    Source: https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html. PENDING is in AWS's enum, but
    SubmitServiceJob cannot express the dependencies that would lead to it.
    """

    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNABLE = "RUNNABLE"
    SCHEDULED = "SCHEDULED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Whether the job can no longer change."""
        return self in TERMINAL_STATUSES

    @property
    def is_in_use(self) -> bool:
        """Whether the job counts against capacity limits."""
        return self in IN_USE_STATUSES


WAITING_STATUSES: Final = frozenset({JobStatus.SUBMITTED, JobStatus.PENDING, JobStatus.RUNNABLE})
IN_USE_STATUSES: Final = frozenset({JobStatus.SCHEDULED, JobStatus.STARTING, JobStatus.RUNNING})
TERMINAL_STATUSES: Final = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED})
ACTIVE_STATUSES: Final = tuple(status for status in JobStatus if status not in TERMINAL_STATUSES)
"""Statuses of jobs that have not ended, in life-cycle order: a job that moves on while we list is seen, not missed."""


class ResourceType(StrEnum):
    """Kinds of resource that ``fairshare setup`` provisions, in creation order."""

    SERVICE_ENVIRONMENT = "service_environment"
    SCHEDULING_POLICY = "scheduling_policy"
    JOB_QUEUE = "job_queue"
    QUOTA_SHARE = "quota_share"
    ALARM = "alarm"
    DASHBOARD = "dashboard"


@dataclass(frozen=True)
class CapacityLimit:
    """One entry of ``capacityLimits``: ``capacity_unit`` is NUM_INSTANCES or an instance type."""

    max_capacity: int
    capacity_unit: str = "NUM_INSTANCES"


@dataclass(frozen=True)
class ShareAttributes:
    """One entry of ``shareDistribution``.

    ``weight_factor`` is kept as the decimal that was written (``"0.1"``), because arithmetic that decides is exact and
    AWS returns 32-bit floats. It is AWS's inverted weight: lower = more resources.
    """

    share_identifier: str
    weight_factor: str = "1"


@dataclass(frozen=True)
class FairsharePolicy:
    """``fairsharePolicy`` of a scheduling policy. ``share_decay_seconds`` 0 means AWS's default window of 600 s."""

    share_distribution: tuple[ShareAttributes, ...] = ()
    share_decay_seconds: int = 0
    compute_reservation: int = 0


@dataclass(frozen=True)
class QuotaSharePolicy:
    """``quotaSharePolicy`` of a scheduling policy. FIFO is the only strategy that AWS has."""

    idle_resource_assignment_strategy: str = "FIFO"


class SharingStrategy(StrEnum):
    """``strategy`` of a quota share: what becomes of the part of its capacity that it does not use."""

    RESERVE = "RESERVE"
    """It stays idle."""
    LEND = "LEND"
    """Others may use it."""
    LEND_AND_BORROW = "LEND_AND_BORROW"
    """Others may use it, and this share may use theirs."""


@dataclass(frozen=True)
class ServiceEnvironment:
    """A service environment as AWS describes it."""

    name: str
    arn: str
    capacity_limits: tuple[CapacityLimit, ...]
    state: str = "ENABLED"
    status: str = "VALID"
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SchedulingPolicy:
    """A scheduling policy as AWS describes it. ``fairshare_policy`` is None for a quota-share policy."""

    name: str
    arn: str
    fairshare_policy: FairsharePolicy | None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobQueue:
    """A job queue of type SAGEMAKER_TRAINING as AWS describes it."""

    name: str
    arn: str
    priority: int
    service_environments: tuple[str, ...]
    """ARNs in ``serviceEnvironmentOrder``."""
    scheduling_policy_arn: str | None = None
    time_limits: tuple[tuple[str, int], ...] = ()
    """Reason and seconds of each ``jobStateTimeLimitActions``, by reason."""
    state: str = "ENABLED"
    status: str = "VALID"
    status_reason: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QuotaShare:
    """A quota share of a queue as AWS describes it. ``borrow_limit`` is in per cent of its own limits, -1 = none."""

    name: str
    """``QUEUE/SHARE``: its own name is unique in its queue only."""
    arn: str
    capacity_limits: tuple[CapacityLimit, ...]
    sharing: SharingStrategy
    borrow_limit: int = -1
    in_share_preemption: bool = False
    state: str = "ENABLED"
    status: str = "VALID"
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AlarmMetric:
    """One entry of an alarm's ``Metrics``: a metric, or an expression over the entries beside it.

    ``period`` is in seconds; 0 with an expression that names none. An alarm on one plain metric has the one entry m1.
    """

    id: str = "m1"
    namespace: str = ""
    name: str = ""
    dimensions: tuple[tuple[str, str], ...] = ()
    statistic: str = ""
    period: int = 0
    unit: str | None = None
    expression: str | None = None
    returns_data: bool = True
    """Whether the alarm watches this entry; the others only feed it."""


@dataclass(frozen=True)
class AlarmDefinition:
    """What a CloudWatch alarm watches and whom it tells: a metric alarm has ``metrics``, a composite one a ``rule``."""

    metrics: tuple[AlarmMetric, ...] = ()
    comparison_operator: str = ""
    threshold: float | None = None
    """None = there is no fixed one: a composite alarm, or a band that CloudWatch learns."""
    evaluation_periods: int = 1
    datapoints_to_alarm: int = 1
    treat_missing_data: str = "missing"
    rule: str | None = None
    description: str = ""
    actions_enabled: bool = True
    alarm_actions: tuple[str, ...] = ()
    ok_actions: tuple[str, ...] = ()
    insufficient_data_actions: tuple[str, ...] = ()

    @property
    def period(self) -> int:
        """Seconds that one datapoint covers: the longest period of the metrics; 0 for a composite alarm."""
        return max((metric.period for metric in self.metrics), default=0)


@dataclass(frozen=True)
class Alarm:
    """An alarm as CloudWatch describes it, without its state."""

    name: str
    arn: str
    definition: AlarmDefinition
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dashboard:
    """A dashboard as CloudWatch has it: a text of JSON. ``tags`` holds its owner, as far as the text names one."""

    name: str
    arn: str
    body: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRequest:
    """One SubmitServiceJob call, complete and frozen.

    ``scheduling_priority`` None means "do not send one" (FIFO queues); 0 is a priority and is sent. ``payload`` is the
    CreateTrainingJob request as the exact JSON text that is sent.
    """

    job_name: str
    job_queue: str
    payload: str
    client_token: str
    share_identifier: str | None = None
    scheduling_priority: int | None = None
    retry_strategy: Mapping[str, Any] | None = None
    attempt_duration_seconds: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    quota_share: str | None = None
    """On a queue with quota shares; ``share_identifier`` is None then."""
    preemption_retries: int | None = None
    """How often it may be preempted and queued again; None = without limit."""


@dataclass(frozen=True)
class JobRef:
    """What SubmitServiceJob answers."""

    job_id: str
    job_arn: str
    job_name: str


@dataclass(frozen=True)
class JobSummary:
    """One row of ListServiceJobs. Times are integer milliseconds since the epoch.

    ``status`` is a plain string: a status that this version does not know is shown as it is (case C31).
    ``scheduling_priority`` is None because ListServiceJobs does not carry it.
    """

    job_id: str
    job_arn: str
    job_name: str
    status: str
    created_at: int
    share_identifier: str | None = None
    scheduling_priority: int | None = None
    status_reason: str | None = None
    scheduled_at: int | None = None
    started_at: int | None = None
    stopped_at: int | None = None
    instances: int | None = None
    """Capacity the job uses, in instances (``capacityUsage`` summed)."""
    is_terminated: bool = False
    training_job_name: str | None = None
    """Name of the SageMaker job behind the latest attempt, read from its ARN; None until one exists."""
    quota_share: str | None = None
    """``quotaShareName``, on a queue with quota shares."""

    @property
    def share(self) -> str | None:
        """Its share identifier or quota share, whichever its queue has; None on a first-in-first-out queue."""
        return self.share_identifier if self.quota_share is None else self.quota_share


@dataclass(frozen=True)
class JobAttempt:
    """One attempt in DescribeServiceJob."""

    training_job_name: str | None
    started_at: int | None = None
    stopped_at: int | None = None
    status_reason: str | None = None


@dataclass(frozen=True)
class JobDetail(JobSummary):
    """What DescribeServiceJob answers, in addition to a summary."""

    job_queue: str = ""
    attempts: tuple[JobAttempt, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    attempt_duration_seconds: int | None = None
    preempted_attempts: tuple[JobAttempt, ...] = ()
    """The recent ones that were stopped to give their capacity to another job; AWS lists them apart."""
    preemptions: int = 0
    """How many there were in all."""

    @property
    def preemption_reason(self) -> str | None:
        """Why it was preempted the last time, in AWS's words; None when it never was, or AWS does not say."""
        reasons = [attempt.status_reason for attempt in self.preempted_attempts if attempt.status_reason]
        return reasons[-1] if reasons else None


@dataclass(frozen=True)
class FrontOfQueueJob:
    """One entry of ``frontOfQueue`` in GetJobQueueSnapshot, in dispatch order."""

    job_arn: str
    earliest_time_at_position: int | None = None

    @property
    def job_id(self) -> str:
        """The id at the end of the ARN."""
        return self.job_arn.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class QueueSnapshot:
    """What GetJobQueueSnapshot answers: the first 100 RUNNABLE jobs in dispatch order and the use of capacity."""

    front_of_queue: tuple[FrontOfQueueJob, ...] = ()
    instances_in_use: int = 0
    instances_by_share: Mapping[str, int] = field(default_factory=dict)
    front_of_quota_shares: Mapping[str, FrontOfQueueJob] = field(default_factory=dict)
    """First RUNNABLE job of each quota share that has one."""
    instances_by_quota_share: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By instance type."""


def partition_of(region: str) -> str:
    """Return the ARN partition of a region (case C07): ``aws``, ``aws-cn`` or ``aws-us-gov``."""
    if region.startswith("cn-"):
        return "aws-cn"
    if region.startswith("us-gov-"):
        return "aws-us-gov"
    return "aws"


# ---------------------------------------------------------------------------------------------------------------------
# camelCase <-> snake_case. Lossless on every field name of the operations we touch (a contract test holds that).

_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def camel_to_snake(name: str) -> str:
    """``shareDecaySeconds`` -> ``share_decay_seconds``."""
    return _BOUNDARY.sub("_", name).lower()


def snake_to_camel(name: str) -> str:
    """``share_decay_seconds`` -> ``shareDecaySeconds``."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


_OPAQUE: Final = frozenset({"tags"})
"""Maps whose keys belong to the user and are never renamed."""

_MAPS_BY_NAME: Final = {"frontOfQuotaShares": "quotaShares", "front_of_quota_shares": "quota_shares"}
"""Structures with a map by the user's names (of quota shares): those are not renamed, what they stand for is."""


def to_snake(value: Any) -> Any:
    """Rename the keys of a decoded AWS answer to snake_case, at every depth, leaving the user's own keys alone."""
    return _rename(value, camel_to_snake)


def to_camel(value: Any) -> Any:
    """Rename snake_case keys to AWS's camelCase, at every depth, leaving the user's alone; inverse of `to_snake`."""
    return _rename(value, snake_to_camel)


def _rename(value: Any, rename: Callable[[str], str], named_map: str | None = None) -> Any:
    """Rename keys at every depth, but not those of ``_OPAQUE`` maps, nor the names in the map ``named_map``."""
    if isinstance(value, list | tuple):
        return [_rename(item, rename) for item in value]
    if not isinstance(value, Mapping):
        return value
    renamed: dict[str, Any] = {}
    for key, item in value.items():
        if key in _OPAQUE:
            renamed[rename(key)] = item
        elif key == named_map and isinstance(item, Mapping):
            renamed[rename(key)] = {name: _rename(entry, rename) for name, entry in item.items()}
        else:
            renamed[rename(key)] = _rename(item, rename, _MAPS_BY_NAME.get(key))
    return renamed


# ---------------------------------------------------------------------------------------------------------------------


class FairshareError(Exception):
    """Anything that a user is told without a traceback.

    Args:
        message: what is wrong and where, one sentence or one line per problem.
        hint: what to do next; shown on a line of its own.
    """

    exit_code: int = 1
    code: str = "Error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(FairshareError):
    """A flag or an argument is wrong."""

    exit_code = 2
    code = "Usage"


class PartialError(FairshareError):
    """Some of many failed."""

    exit_code = 3
    code = "Partial"


class NotFoundError(FairshareError):
    """Nothing goes by that id, name or ARN."""

    exit_code = 4
    code = "NotFound"


class InfeasibleError(FairshareError):
    """What was asked can never happen, for instance a job larger than its environment."""

    exit_code = 5
    code = "Infeasible"


class CredentialsError(FairshareError):
    """No credentials, expired ones, ones without permission, or of another account than the file says."""

    exit_code = 6
    code = "Credentials"


class ThrottledError(FairshareError):
    """Still throttled, or out of quota, after all retries."""

    exit_code = 7
    code = "Throttled"


class WaitTimeoutError(FairshareError):
    """What was waited for did not happen in time."""

    exit_code = 8
    code = "Timeout"


class ServiceError(FairshareError):
    """AWS answered with an error that nothing above describes better.

    Args:
        message: text for people; holds AWS's own text.
        aws_code: AWS's error code, e.g. ``ClientException``.
        http_status: HTTP status of the answer; None when there was no answer.
        hint: what to do next.
    """

    code = "Service"

    def __init__(
        self, message: str, *, aws_code: str = "", http_status: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.aws_code = aws_code
        self.http_status = http_status

    @property
    def is_transient(self) -> bool:
        """Whether trying again may help: no answer at all, 429, or a 5xx."""
        return self.http_status is None or self.http_status == 429 or self.http_status >= 500


class InterruptedRunError(FairshareError):
    """A signal stopped the command; what was done is kept. ``exit_code`` is 128 + the signal's number."""

    code = "Interrupted"

    def __init__(self, message: str, *, signal_number: int = 2, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = 128 + signal_number


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong in a file a user wrote. ``line`` and ``column`` count from 1; 0 means "the file as a whole"."""

    file: str
    line: int
    column: int
    message: str
    key: str = ""
    hint: str = ""
    severity: str = "error"
    """``error`` or ``warning``."""
    source_line: str = ""
    """Text of the line, for display under the message."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {self.severity}: {self.message}"


class InvalidFileError(FairshareError):
    """A file the user wrote is wrong. Holds every problem that could be found, in file order."""

    exit_code = 2
    code = "InvalidFile"

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        lines = [str(p) + (f" ({p.hint})" if p.hint else "") for p in self.problems]
        super().__init__("\n".join(lines), hint=None)
