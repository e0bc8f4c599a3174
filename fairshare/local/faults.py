"""Faults on purpose: what goes wrong between a client and AWS, and at launches, at rates that a test chooses.

A rule is text, ``lost_reply=0.2,throttle=0.2,latency_ms=5,ops=SubmitServiceJob+TerminateServiceJob,seed=7``:

===================  =================================================================================================
lost_reply           rate: the call has its effect, and the connection is closed without an answer
throttle             rate: 429 TooManyRequestsException, no effect
error                rate: 500 ServerException, no effect
expired_token        rate: 403 ExpiredTokenException, no effect
latency_ms           every call waits so long first
submit_tps           a token bucket: so many calls a second, bursts of a second's worth, above that 429
repeated_token       ``reject``: a SubmitServiceJob whose ``clientToken`` made a job before gets 400 ClientException, as
                     AWS's text says; ``return`` (default): it gets that job again, as is usual
capacity_error       rate: an attempt ends at once with ``CapacityError``, as when AWS has no instances
launch_slowdown_ms   every attempt begins so much later
launch_seconds       every attempt is STARTING so long before it runs; simulated time, which ``speed`` divides
contention           how many attempts may launch (from dispatch to RUNNING) at once; 0 = any number. One that begins
                     above that launches badly:
contention_slowdown  its launch takes so many times as long; default 2
contention_failure   rate: its launch fails at its end with ``InternalServerError``; default 0.5
ops                  operations the rule is about, joined by ``+``, or ``all``; default SubmitServiceJob
seed                 of the rule's random numbers; default 0
===================  =================================================================================================

Rates are numbers from 0 to 1. Several rules act together. ``ops`` does not matter to attempts and repeated tokens. What
becomes of an attempt follows from the seed, its job, its number and how many are launching when it begins.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, Final

from fairshare.config.errors import did_you_mean, suggest
from fairshare.local.guard import Refusal
from fairshare.model import UsageError

CAPACITY_REASON: Final = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)
"""SageMaker's words when an instance type is out of stock."""

CONTENTION_REASON: Final = "InternalServerError: We encountered an internal error. Please try again."
"""SageMaker's words when a launch fails inside it."""

ALL: Final = "all"
REJECT: Final = "reject"
_WORDS: Final = {"repeated_token": ("return", REJECT)}
_WHOLE: Final = frozenset({"seed", "contention"})
_SERVED: Final = ("batch", "sagemaker", "s3", "logs", "cloudwatch", "iam", "sts", "events", "sns")
_THROTTLED: Final = Refusal(
    "TooManyRequestsException", "Too Many Requests (a fault of the local AWS, on purpose)", "429 Too Many Requests"
)
_FAILED: Final = Refusal(
    "ServerException", "Internal server error (a fault of the local AWS, on purpose)", "500 Internal Server Error"
)
_EXPIRED: Final = Refusal(
    "ExpiredTokenException",
    "The security token included in the request is expired (a fault of the local AWS, on purpose)",
)


@dataclass(frozen=True)
class Rule:
    """One rule, see the module's docstring. ``submit_tps`` and ``contention`` 0 = no limit."""

    lost_reply: float = field(default=0.0, metadata={"most": 1})
    throttle: float = field(default=0.0, metadata={"most": 1})
    error: float = field(default=0.0, metadata={"most": 1})
    expired_token: float = field(default=0.0, metadata={"most": 1})
    latency_ms: float = 0.0
    submit_tps: float = 0.0
    capacity_error: float = field(default=0.0, metadata={"most": 1})
    launch_slowdown_ms: float = 0.0
    launch_seconds: float = 0.0
    contention: int = 0
    contention_slowdown: float = field(default=2.0, metadata={"least": 1})
    contention_failure: float = field(default=0.5, metadata={"most": 1})
    repeated_token: str = "return"
    ops: frozenset[str] = frozenset({"SubmitServiceJob"})
    seed: int = 0

    def is_about(self, operation: str) -> bool:
        """Whether the rule acts on calls of an operation."""
        return operation in self.ops or ALL in self.ops


def parse_rule(text: str) -> Rule:
    """Return the rule that a text tells.

    Raises:
        UsageError: a key that does not exist, a value that cannot be, an operation that nobody serves.
    """
    settings: dict[str, Any] = {}
    for part in text.split(","):
        key, is_given, value = (word.strip() for word in part.partition("="))
        if not is_given:
            raise _wrong(text, f'"{part}" has no value', "write key=value, joined by commas: lost_reply=0.2,error=0.05")
        settings[key] = _value(text, key, value)
    return Rule(**settings)


def as_text(settings: Mapping[str, Any]) -> str:
    """Return the text of a rule given as keys and values; ``ops`` may be a list."""
    return ",".join(
        f"{key}={value if isinstance(value, str | int | float) else '+'.join(value)}" for key, value in settings.items()
    )


def _value(text: str, key: str, value: str) -> float | int | str | frozenset[str]:
    known = {entry.name: entry for entry in fields(Rule)}
    if key not in known:
        raise _wrong(text, f'there is no fault "{key}"', did_you_mean(key, known, "faults"))
    if key == "ops":
        return _operations(text, value)
    if key in _WORDS:
        if value not in _WORDS[key]:
            raise _wrong(text, f'{key} is "{value}"', f"write {' or '.join(_WORDS[key])}")
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    least, most = known[key].metadata.get("least", 0), known[key].metadata.get("most", math.inf)
    if not (least <= number <= most and math.isfinite(number)) or (key in _WHOLE and number != int(number)):
        kind = "a rate from 0 to 1" if most == 1 else "a whole number" if key in _WHOLE else "a number"
        kind += "" if most == 1 else f" of at least {least}"
        raise _wrong(text, f'{key} is "{value}", not {kind}', f"{key}=0.2 for instance" if most == 1 else f"{key}=5")
    return int(number) if key in _WHOLE else number


def _operations(text: str, value: str) -> frozenset[str]:
    names = frozenset(value.split("+"))
    if names != {ALL}:
        from botocore.session import get_session

        session = get_session()
        known = {name for service in _SERVED for name in session.get_service_model(service).operation_names}
        for name in sorted(names - known):
            near = suggest(name, known) or "SubmitServiceJob for instance"
            raise _wrong(text, f'ops names "{name}", which is no operation served here', f"did you mean {near}?")
    return names


def _wrong(text: str, what: str, hint: str) -> UsageError:
    return UsageError(f'faults "{text}": {what}', hint=hint)


# -- at work ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallFate:
    """What happens to one call: it waits, then is refused or carried out; then its answer may be lost."""

    latency_ms: int = 0
    refusal: Refusal | None = None
    loses_reply: bool = False


@dataclass(frozen=True)
class AttemptFate:
    """What happens to one attempt: it begins late, or fails at once; then it launches, or fails at the end of that."""

    delay_ms: int = 0
    launch_ms: int = 0
    """How long it is STARTING on top of what it needs anyway. Simulated time."""
    reason: str | None = None
    """Why it fails at once; None = it does not."""
    launch_failure: str | None = None
    """Why its launch fails; None = it does not."""


class _Bucket:
    """A token bucket of ``rate`` a second that holds at most a second's worth, and at least one token."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = self._tokens = max(1.0, rate)
        self._at: int | None = None

    def take(self, now: int) -> bool:
        if self._at is not None:
            self._tokens = min(self._most, self._tokens + max(0, now - self._at) * self._rate / 1000)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class _ActiveRule:
    """A rule with its random numbers and its tokens."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._random = Random(rule.seed)
        self._bucket = _Bucket(rule.submit_tps) if rule.submit_tps > 0 else None

    def fate_of_call(self, now: int) -> CallFate:
        rule = self.rule
        throttled, failed, expired, lost = (
            self._random.random() < rate for rate in (rule.throttle, rule.error, rule.expired_token, rule.lost_reply)
        )
        refusal = _EXPIRED if expired else _THROTTLED if throttled else _FAILED if failed else None
        if refusal is None and self._bucket is not None and not self._bucket.take(now):
            refusal = _THROTTLED
        return CallFate(round(rule.latency_ms), refusal, lost)

    def fate_of_attempt(self, job_id: str, number: int, launching: int) -> AttemptFate:
        """The same attempt in the same company always has the same fate, whenever it is asked for."""
        rule, draw = self.rule, Random(f"{self.rule.seed}/{job_id}/{number}")
        is_out_of_stock, fails_in_a_crowd = draw.random() < rule.capacity_error, draw.random() < rule.contention_failure
        is_crowded = 0 < rule.contention < launching
        return AttemptFate(
            round(rule.launch_slowdown_ms),
            round(1000 * rule.launch_seconds * (rule.contention_slowdown if is_crowded else 1)),
            CAPACITY_REASON if is_out_of_stock else None,
            CONTENTION_REASON if is_crowded and fails_in_a_crowd else None,
        )


class Faults:
    """The rules in force. Safe to use from several threads.

    Args:
        rules: as they are written.

    Raises:
        UsageError: see `parse_rule`.
    """

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self.replace(tuple(rules))

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules as they were written."""
        return self._texts

    @property
    def reject_repeated_tokens(self) -> bool:
        """Whether a ``clientToken`` may make a job once only, rather than find the job it made."""
        with self._lock:
            return any(active.rule.repeated_token == REJECT for active in self._active)

    def replace(self, rules: tuple[str, ...]) -> None:
        """Exchange all rules; none = nothing goes wrong any more. Raises UsageError, and changes nothing then."""
        active = [_ActiveRule(parse_rule(text)) for text in rules]
        with self._lock:
            self._texts, self._active = rules, active

    def fate_of_call(self, operation: str, now: int) -> CallFate:
        """Draw what happens to a call that arrives at ``now`` ms."""
        with self._lock:
            fates = [active.fate_of_call(now) for active in self._active if active.rule.is_about(operation)]
        return CallFate(
            sum(fate.latency_ms for fate in fates),
            next((fate.refusal for fate in fates if fate.refusal is not None), None),
            any(fate.loses_reply for fate in fates),
        )

    def fate_of_attempt(self, job_id: str, number: int, launching: int = 1) -> AttemptFate:
        """Return what happens to an attempt.

        Args:
            job_id: of its service job.
            number: of the attempt, from 1.
            launching: how many attempts launch when it begins, itself included.
        """
        with self._lock:
            fates = [active.fate_of_attempt(job_id, number, launching) for active in self._active]
        return AttemptFate(
            sum(fate.delay_ms for fate in fates),
            sum(fate.launch_ms for fate in fates),
            next((fate.reason for fate in fates if fate.reason is not None), None),
            next((fate.launch_failure for fate in fates if fate.launch_failure is not None), None),
        )
