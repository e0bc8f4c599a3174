"""Assertions about policies, as people write them in ``policy_tests`` of fairshare.yaml:

HIGHPRI p95 wait < 10m on scenarios/monday.yaml
no share waits > 4h
LOWPRI gets >= 10% when busy
utilization >= 80% when busy on traces/kth.swf.gz
TEAMA preemptions <= 5
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Annotated, Final

from pydantic import PlainValidator

from fairshare.config.durations import parse_duration
from fairshare.config.errors import WrongValue
from fairshare.config.fields import kind_of, read_text_value

COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {"<=": le, ">=": ge, "<": lt, ">": gt}

_WAIT: Final = re.compile(r"(?P<who>\S+) (?P<figure>p50|p95|max|mean) wait (?P<sign>[<>]=?) ?(?P<value>\S+)")
_NO_SHARE: Final = re.compile(r"no share waits (?P<sign>>=?) ?(?P<value>\S+)")
_PORTION: Final = re.compile(r"(?P<who>\S+) gets (?P<sign>[<>]=?) ?(?P<value>\S+)")
_USE: Final = re.compile(r"utili[sz]ation (?P<sign>[<>]=?) ?(?P<value>\S+)")
_PREEMPTIONS: Final = re.compile(r"(?:(?P<who>\S+) )?preemptions (?P<sign>[<>]=?) ?(?P<value>[0-9]{1,9})")
_PERCENT: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,4})?%")
_FORMS: Final = (
    "HIGHPRI p95 wait < 10m, no share waits > 4h, LOWPRI gets >= 10% when busy, utilization >= 80% when busy, "
    "TEAMA preemptions <= 5; "
    "each may end with: on scenarios/monday.yaml"
)


@dataclass(frozen=True)
class PolicyTest:
    """One assertion.

    ``figure`` is p50, p95, max or mean (of a share's waits, seconds), ``portion`` (of what was used) or
    ``utilization``, both parts of 1, or ``preemptions`` (a number). ``share`` is None for every share, for utilisation,
    and for the preemptions of all shares together.
    ``is_refused``: the comparison must not hold ("no share waits > 4h"). ``workload`` is a path as it was written;
    None = every workload at hand.
    """

    text: str
    figure: str
    sign: str
    bound: float
    share: str | None = None
    when_busy: bool = False
    is_refused: bool = False
    workload: str | None = None

    def holds(self, value: float) -> bool:
        """Whether a value of the figure is as it should be."""
        return COMPARE[self.sign](value, self.bound) is not self.is_refused


def parse_policy_test(text: str) -> PolicyTest:
    """Read an assertion.

    Raises:
        ValueError: it is none; the text says what to write.
    """
    said = " ".join(text.split())
    claim, on, workload = said.partition(" on ")
    claim, when_busy = (claim.removesuffix(" when busy"), claim.endswith(" when busy"))
    where = workload.strip() or None
    if on and where is None:
        raise ValueError(f'"{text}": on which workload? Write its file after on')
    if match := _NO_SHARE.fullmatch(claim):
        _refuse_busy(text, when_busy)
        bound = float(parse_duration(match["value"]))
        return PolicyTest(said, "max", match["sign"], bound, is_refused=True, workload=where)
    if match := _WAIT.fullmatch(claim):
        _refuse_busy(text, when_busy)
        bound = float(parse_duration(match["value"]))
        return PolicyTest(said, match["figure"], match["sign"], bound, match["who"], workload=where)
    if match := _PORTION.fullmatch(claim):
        bound = _portion(match["value"])
        return PolicyTest(said, "portion", match["sign"], bound, match["who"], when_busy, workload=where)
    if match := _USE.fullmatch(claim):
        bound = _portion(match["value"])
        return PolicyTest(said, "utilization", match["sign"], bound, None, when_busy, workload=where)
    if match := _PREEMPTIONS.fullmatch(claim):
        _refuse_busy(text, when_busy)
        return PolicyTest(said, "preemptions", match["sign"], float(match["value"]), match["who"], workload=where)
    raise ValueError(f'"{text}" is not an assertion that can be tested')


def preemptions_of(text: str) -> str | None:
    """Return the share whose preemptions an assertion is about, without its queue; "" = all shares, None = it is not.

    What is no assertion at all is none about preemptions either.
    """
    try:
        test = parse_policy_test(text)
    except ValueError:
        return None
    return (test.share or "").rpartition("/")[2] if test.figure == "preemptions" else None


def _refuse_busy(text: str, when_busy: bool) -> None:
    if when_busy:
        raise ValueError(f'"{text}": waits and preemptions count, busy or not: leave "when busy" out')


def _portion(text: str) -> float:
    part = Fraction(text[:-1]) / 100 if _PERCENT.fullmatch(text) else None
    if part is None or part > 1:
        raise ValueError(f'"{text}" is not a part: write per cent, as in 10%')
    return float(part)


def _read(value: object) -> PolicyTest:
    if isinstance(value, PolicyTest):
        return value
    text = read_text_value(value)
    if not text.strip():
        raise WrongValue(f"must be an assertion, not {kind_of(value)}", hint=f"write {_FORMS}")
    try:
        return parse_policy_test(text)
    except ValueError as error:
        raise WrongValue(str(error), hint=f"write {_FORMS}") from None


WrittenPolicyTest = Annotated[PolicyTest, PlainValidator(_read)]
"""An assertion in a file."""
