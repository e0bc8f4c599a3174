"""The shape of ``fairshare.yaml`` as it is written. `fairshare.config.project` turns it into what programs use.

DESIGN section 3 is the schema. Keys that a later version will know are in ``not_yet`` of their section.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from fairshare.config.alarms import AlarmsSection
from fairshare.config.errors import WrongValue
from fairshare.config.fields import (
    AccountId,
    Flag,
    InstanceType,
    Name,
    NotEmpty,
    Region,
    Seconds,
    ShareIdentifier,
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
from fairshare.model import MAX_PRIORITY
from fairshare.scheduler.policy import weights_for_targets

MAX_DECAY_SECONDS = 604_800
MAX_RESERVATION = 99
MAX_QUEUE_PRIORITY = 1_000
MAX_SHARES = 500


class ServiceEnvironmentConfig(Section):
    """A service environment: how many instances may be in use at once, and of which types.

    ``capacity`` is AWS's ``capacityLimits`` in NUM_INSTANCES, which counts instances of any type; ``instance_types`` is
    what submission accepts.
    """

    not_yet: ClassVar = frozenset({"capacity_limits"})
    example: ClassVar = "{capacity: 16, instance_types: [ml.g6.12xlarge]}"

    capacity: Whole = Field(ge=1)
    instance_types: Annotated[tuple[InstanceType, ...], NotEmpty]


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


class QueueSection(Section):
    """A queue: fair-share, or first in, first out."""

    not_yet: ClassVar = frozenset({"quota_shares", "time_limits"})
    example: ClassVar = "{service_environment: gpu, fairshare: {...}}"

    service_environment: Text
    priority: Whole = Field(default=1, ge=0, le=MAX_QUEUE_PRIORITY)
    fairshare: FairshareSection | None = None
    fifo: Flag = False

    @model_validator(mode="after")
    def _check_one_of_two(self) -> QueueSection:
        if self.fifo == (self.fairshare is not None):
            hint = "AWS can never turn one into the other"
            raise WrongValue("must have either fairshare or fifo: true", hint=hint)
        return self


class Defaults(Section):
    """What jobs get when they do not say it themselves. ``max_runtime`` is in seconds, ``bucket`` an S3 bucket name."""

    example: ClassVar = "{queue: gpu, share: LOWPRI, priority: 10}"

    queue: Text | None = None
    share: Text | None = None
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
