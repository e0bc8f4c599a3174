"""Rules of composite alarms: what they refer to, and whether they hold.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fairshare.metrics.evaluate import NotReplayableError
from fairshare.metrics.ports import AlarmState

States = Mapping[str, AlarmState]
_Test = Callable[[States], bool]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<state>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:\"(?P<quoted>[^\"]+)\"|(?P<bare>[^\s()\"]+))\s*\)"
    r"|(?P<word>AND|OR|NOT|TRUE|FALSE|\(|\)))"
)


@dataclass(frozen=True)
class CompositeRule:
    """A rule. ``alarms`` are the names it refers to, in its order; an ARN counts as the name in it."""

    alarms: tuple[str, ...]
    holds: Callable[[States], bool]
    """Whether it holds in these states; what is said of an alarm that does not exist is not true."""


def parse_rule(text: str) -> CompositeRule:
    """Return a rule.

    Raises:
        NotReplayableError: it is not made of AND, OR, NOT, TRUE, FALSE and states of alarms.
    """
    parser = _Parser(text)
    holds = parser.any_of()
    parser.expect("")
    return CompositeRule(tuple(dict.fromkeys(parser.alarms)), holds)


class _Parser:
    def __init__(self, text: str) -> None:
        self.alarms: list[str] = []
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def any_of(self) -> _Test:
        """Read what stands between ORs."""
        tests = [self._all_of()]
        while self._take("OR"):
            tests.append(self._all_of())
        return lambda states: any(test(states) for test in tests)

    def expect(self, token: str) -> None:
        """Read one token, "" being the end."""
        if not self._take(token):
            raise self._wrong()

    def _all_of(self) -> _Test:
        tests = [self._one()]
        while self._take("AND"):
            tests.append(self._one())
        return lambda states: all(test(states) for test in tests)

    def _one(self) -> _Test:
        if self._take("NOT"):
            inner = self._one()
            return lambda states: not inner(states)
        if self._take("("):
            inner = self.any_of()
            self.expect(")")
            return inner
        if self._take("TRUE"):
            return lambda states: True
        if self._take("FALSE"):
            return lambda states: False
        return self._state()

    def _state(self) -> _Test:
        found = self._tokens[self._next]
        if isinstance(found, str):
            raise self._wrong()
        self._next += 1
        state, name = found
        self.alarms.append(name)
        return lambda states: states.get(name) == state

    def _take(self, token: str) -> bool:
        is_there = self._tokens[self._next] == token
        self._next += is_there
        return is_there

    def _split(self) -> list[str | tuple[AlarmState, str]]:
        tokens: list[str | tuple[AlarmState, str]] = []
        text, at = self._text.rstrip(), 0
        while at < len(text):
            if (found := _TOKEN.match(text, at)) is None:
                raise NotReplayableError(f"its rule cannot be read from {text[at : at + 20].strip()!r} on")
            if found["state"]:
                name = found["quoted"] or found["bare"]
                tokens.append((AlarmState(found["state"]), name.split(":alarm:")[-1]))
            else:
                tokens.append(found["word"])
            at = found.end()
        return [*tokens, ""]

    def _wrong(self) -> NotReplayableError:
        return NotReplayableError(f"its rule {self._text!r} cannot be read")
