"""The shape of ``fairshare.yaml`` as it is written. `fairshare.config.project` turns it into what programs use.

DESIGN section 3 is the schema.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field, model_validator

from fairshare.config.alarms import AlarmsSection
from fairshare.config.durations import format_duration
from fairshare.config.errors import WrongValue
from fairshare.config.fields import (
    AccountId,
    BorrowLimit,
    Flag,
    Instances,
    InstanceType,
    Name,
    NotEmpty,
    Region,
    Seconds,
    ShareIdentifier,
    Sharing,
    Tags,
    Target,
    Text,
    WeightFactor,
    Whole,
)
from fairshare.config.policy_tests import WrittenPolicyTest
from fairshare.config.prices import WrittenPrices
from fairshare.config.sections import Section
from fairshare.config.wave_sections import LimitsSection
from fairshare.model import MAX_PRIORITY, CapacityLimit, SharingStrategy
from fairshare.scheduler.policy import weights_for_targets

MAX_DECAY_SECONDS = 604_800
MAX_RESERVATION = 99
MAX_QUEUE_PRIORITY = 1_000
MAX_SHARES = 500
MAX_QUOTA_SHARES = 20
MAX_TYPES = 5
"""Instance types of an environment or a quota share (https://docs.aws.amazon.com/batch/latest/userguide/quota-management.html)."""

MIN_TIME_LIMIT = 600
MAX_TIME_LIMIT = 86_400
CAPACITY_CODE: Final = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
MISCONFIGURATION_CODES: Final = (
    "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED",
)

TYPE_LIMITS: Final = "{ml.c5.2xlarge: 8}"

CapacityLimits = Annotated[dict[InstanceType, Instances], NotEmpty, Field(max_length=MAX_TYPES)]
"""Instances by instance type: AWS's ``capacityLimits`` where quotas are managed."""


class ServiceEnvironmentConfig(Section):
    """A service environment: how many instances may be in use at once, and of which types.

    Either ``capacity``, AWS's ``capacityLimits`` in NUM_INSTANCES, which counts instances of any type, with the
    ``instance_types`` that submission accepts; or ``capacity_limits`` by type, for a queue with quota shares.
    ``instance_types`` is filled in both cases.
    """

    example: ClassVar = "{capacity: 16, instance_types: [ml.g6.12xlarge]}"

    capacity: Instances | None = None
    instance_types: tuple[InstanceType, ...]
    capacity_limits: CapacityLimits | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_types(cls, written: Any) -> Any:
        if not isinstance(written, dict) or "capacity_limits" not in written:
            return written
        if others := [key for key in ("capacity", "instance_types") if key in written]:
            hint = "capacity counts instances of any type; capacity_limits has a number for each, and names them all"
            raise WrongValue(f"has capacity_limits and also {' and '.join(others)}", hint=hint)
        limits = written["capacity_limits"]
        return written | {"instance_types": list(limits) if isinstance(limits, dict) else []}

    @model_validator(mode="after")
    def _check_one_of_two(self) -> ServiceEnvironmentConfig:
        if self.capacity is None and self.capacity_limits is None:
            hint = f"write {self.example}, or for quota shares {{capacity_limits: {TYPE_LIMITS}}}"
            raise WrongValue("must have either capacity or capacity_limits", hint=hint)
        if not self.instance_types:
            raise WrongValue("must not be empty", at=("instance_types",))
        return self

    @property
    def by_type(self) -> bool:
        """Whether instances are counted by type, which only a queue with quota shares can use."""
        return self.capacity_limits is not None

    @property
    def instances(self) -> int:
        """Instances that may be in use at once, of whatever type."""
        return self.capacity if self.capacity is not None else sum((self.capacity_limits or {}).values())

    @property
    def limits(self) -> tuple[CapacityLimit, ...]:
        """AWS's ``capacityLimits``, types in alphabetical order."""
        if self.capacity_limits is not None:
            return type_limits(self.capacity_limits)
        return (CapacityLimit(self.instances),)


def type_limits(limits: dict[str, int]) -> tuple[CapacityLimit, ...]:
    """Return limits by instance type as AWS writes them, types in alphabetical order: its lists have none."""
    return tuple(CapacityLimit(limits[name], name) for name in sorted(limits))


class ShareSection(Section):
    """One entry of ``shares``: a weight factor (lower = more) or a target portion of the capacity."""

    example: ClassVar = "{weight_factor: 1} or {target: 60%}"

    weight_factor: WeightFactor | None = None
    target: Target | None = None

    @model_validator(mode="after")
    def _check_one_of_two(self) -> ShareSection:
        if (self.weight_factor is None) == (self.target is None):
            raise WrongValue("must have either weight_factor or target", hint=f"write {self.example}")
        return self


class FairshareSection(Section):
    """The fair-share policy of a queue. Bounds: API_FairsharePolicy; 500 entries is what the service accepts."""

    example: ClassVar = "{shares: {HIGHPRI: {weight_factor: 1}, LOWPRI: {weight_factor: 5}}}"

    share_decay_seconds: Seconds = Field(default=0, ge=0, le=MAX_DECAY_SECONDS)
    compute_reservation: Whole = Field(default=0, ge=0, le=MAX_RESERVATION)
    shares: dict[ShareIdentifier, ShareSection] = Field(default_factory=dict, max_length=MAX_SHARES)

    @model_validator(mode="after")
    def _check_targets(self) -> FairshareSection:
        targets = self._targets()
        if not targets:
            return self
        if len(targets) < len(self.shares):
            others = ", ".join(name for name in self.shares if name not in targets)
            raise WrongValue(f"shares mix target and weight_factor ({others})", hint="use the same for all shares")
        total = sum(targets.values(), Fraction(0))
        if total != 100:
            raise WrongValue(f"the targets of the shares add up to {_decimal(total)}%, not 100%")
        self.weight_factors()
        return self

    def weight_factors(self) -> dict[str, str]:
        """Return weight factors by share identifier, as decimal text; targets are turned into weights."""
        targets = self._targets()
        if targets:
            try:
                return weights_for_targets(targets)
            except ValueError as error:
                raise WrongValue(str(error)) from None
        return {name: share.weight_factor for name, share in self.shares.items() if share.weight_factor is not None}

    def _targets(self) -> dict[str, Fraction]:
        return {name: share.target for name, share in self.shares.items() if share.target is not None}


class QuotaShareSection(Section):
    """A quota share: a queue of its own in a queue, with instances of its own (API_CreateQuotaShare)."""

    example: ClassVar = "{capacity_limits: {ml.c5.2xlarge: 5}, sharing: LEND_AND_BORROW}"

    capacity_limits: CapacityLimits
    sharing: Sharing
    borrow_limit: BorrowLimit | None = None
    in_share_preemption: Flag = False

    @model_validator(mode="after")
    def _check_borrow_limit(self) -> QuotaShareSection:
        if self.borrow_limit is not None and self.sharing is not SharingStrategy.LEND_AND_BORROW:
            hint = "remove it, or write sharing: LEND_AND_BORROW"
            raise WrongValue(f"a share that is {self.sharing} does not borrow", hint=hint, at=("borrow_limit",))
        return self


def _check_time_limit(seconds: int) -> int:
    if not MIN_TIME_LIMIT <= seconds <= MAX_TIME_LIMIT:
        raise WrongValue(f"must be between 10m and 24h, not {format_duration(seconds)}")
    return seconds


TimeLimit = Annotated[Seconds, AfterValidator(_check_time_limit)]


class TimeLimitsSection(Section):
    """How long a job at the head of the queue may be blocked before it is ended: AWS's ``jobStateTimeLimitActions``.

    Bounds in seconds: API_JobStateTimeLimitAction. Reasons:
    https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html
    """

    example: ClassVar = "{insufficient_capacity: 4h, misconfiguration: 10m}"

    insufficient_capacity: TimeLimit | None = None
    misconfiguration: TimeLimit | None = None

    def by_reason(self, *, has_quota_shares: bool) -> dict[str, int]:
        """Return seconds by AWS's reason. A misconfiguration has two where there are quota shares."""
        codes = MISCONFIGURATION_CODES if has_quota_shares else MISCONFIGURATION_CODES[:1]
        found = {} if self.insufficient_capacity is None else {CAPACITY_CODE: self.insufficient_capacity}
        return found if self.misconfiguration is None else found | dict.fromkeys(codes, self.misconfiguration)


QuotaShares = Annotated[dict[Name, QuotaShareSection], NotEmpty, Field(max_length=MAX_QUOTA_SHARES)]


class QueueSection(Section):
    """A queue: fair-share; first in, first out; or with quota shares."""

    example: ClassVar = "{service_environment: gpu, fairshare: {...}}"

    service_environment: Text
    priority: Whole = Field(default=1, ge=0, le=MAX_QUEUE_PRIORITY)
    fairshare: FairshareSection | None = None
    fifo: Flag = False
    quota_shares: QuotaShares | None = None
    time_limits: TimeLimitsSection = Field(default_factory=TimeLimitsSection)

    @model_validator(mode="after")
    def _check_one_of_three(self) -> QueueSection:
        if [self.fifo, self.fairshare is not None, self.quota_shares is not None].count(True) != 1:
            hint = "AWS can never turn one into the other"
            raise WrongValue("must have exactly one of fairshare, fifo: true and quota_shares", hint=hint)
        return self


class Defaults(Section):
    """What jobs get when they do not say it themselves. ``max_runtime`` is in seconds, ``bucket`` an S3 bucket name."""

    example: ClassVar = "{queue: gpu, share: LOWPRI, priority: 10}"

    queue: Text | None = None
    share: Text | None = None
    quota_share: Text | None = None
    priority: Whole | None = Field(default=None, ge=0, le=MAX_PRIORITY)
    role: Text | None = None
    image: Text | None = None
    instance_type: InstanceType | None = None
    max_runtime: Seconds | None = Field(default=None, ge=1)
    bucket: Text | None = None


def _check_version(version: int) -> int:
    if version != 1:
        raise WrongValue(f"this fairshare reads version 1, not {version}")
    return version


class ProjectFile(Section):
    """The whole of ``fairshare.yaml``."""

    example: ClassVar = "version: 1 and stack: my-team on lines of their own"

    version: Annotated[Whole, AfterValidator(_check_version)]
    stack: Name
    region: Region | None = None
    profile: Text | None = None
    account: AccountId | None = None
    service_environments: dict[Name, ServiceEnvironmentConfig] = Field(default_factory=dict)
    queues: dict[Name, QueueSection] = Field(default_factory=dict)
    defaults: Defaults = Field(default_factory=Defaults)
    limits: LimitsSection = Field(default_factory=LimitsSection)
    prices: WrittenPrices = Field(default_factory=dict)
    tags: Tags = Field(default_factory=dict)
    alarms: AlarmsSection = Field(default_factory=AlarmsSection)
    policy_tests: tuple[WrittenPolicyTest, ...] = ()


def _decimal(number: Fraction) -> str:
    """Return a rational with up to six decimals as text: ``99.99``."""
    return f"{float(number):.6f}".rstrip("0").rstrip(".")
