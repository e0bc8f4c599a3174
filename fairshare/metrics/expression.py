"""The part of CloudWatch's metric math that can be computed here: arithmetic, comparisons, IF and FILL.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html. Everything works on one
instant at a time. What looks at several, at many metrics or at other accounts (SEARCH, SELECT, RATE, METRICS, bands) is
refused by name.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

from fairshare.metrics.evaluate import NotReplayableError

Values = Mapping[str, float | None]
"""Value of each id at an instant; None = there is none."""

Formula = Callable[[Values], float | None]
"""Gives the value of an expression at an instant, None when it has none."""

_TOKEN: Final = re.compile(r"\s*(?:\d+\.?\d*(?:[eE][-+]?\d+)?|[A-Za-z_]\w*|>=|<=|==|!=|[-+*/()<>,])")
_LEVELS: Final[tuple[Mapping[str, Callable[[float, float], float]], ...]] = (
    {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.truediv},
)
"""Operators of two operands, those that bind least first; all from left to right."""


def parse_expression(text: str) -> Formula:
    """Return an expression as a function.

    A datapoint of it exists where all it needs exist; what is not a finite number (a division by 0) is none.

    Raises:
        NotReplayableError: it holds something that cannot be computed here.
    """
    parser = _Parser(text)
    formula = parser.operation(0)
    parser.expect("")
    return formula


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def operation(self, level: int) -> Formula:
        """Read operands of this level, and the operators between them."""
        if level == len(_LEVELS):
            return self._operand()
        left = self.operation(level + 1)
        while (operate := _LEVELS[level].get(self._tokens[self._next])) is not None:
            self._next += 1
            left = _of_two(operate, left, self.operation(level + 1))
        return left

    def expect(self, token: str) -> None:
        """Read one token, "" being the end."""
        if self._tokens[self._next] != token:
            raise self._unknown(self._tokens[self._next] or "its end")
        self._next += 1

    def _operand(self) -> Formula:
        token = self._tokens[self._next]
        self._next += 1
        if token == "-":
            operand = self._operand()
            return _of_two(operator.sub, lambda values: 0.0, operand)
        if token == "(":
            inner = self.operation(0)
            self.expect(")")
            return inner
        if token[:1].isdigit():
            return lambda values: float(token)
        if not token or not (token[0].isalpha() or token[0] == "_"):
            raise self._unknown(token or "its end")
        if self._tokens[self._next] != "(":
            return lambda values: values.get(token)
        return self._function(token)

    def _function(self, name: str) -> Formula:
        self.expect("(")
        arguments = [self.operation(0)]
        while self._tokens[self._next] == ",":
            self._next += 1
            arguments.append(self.operation(0))
        self.expect(")")
        match name, arguments:
            case "IF", (condition, then):
                return _if(condition, then, lambda values: None)
            case "IF", (condition, then, otherwise):
                return _if(condition, then, otherwise)
            case "FILL", (series, filling):
                return lambda values: filling(values) if (value := series(values)) is None else value
            case _:
                raise self._unknown(name)

    def _split(self) -> list[str]:
        tokens, at = [], 0
        text = self._text.rstrip()
        while at < len(text):
            if (found := _TOKEN.match(text, at)) is None:
                raise self._unknown(text[at:].strip()[:20])
            tokens.append(found[0].strip())
            at = found.end()
        return [*tokens, ""]

    def _unknown(self, what: str) -> NotReplayableError:
        return NotReplayableError(f"{what} in its expression {self._text!r} is not supported")


def _of_two(operate: Callable[[float, float], float], left: Formula, right: Formula) -> Formula:
    def compute(values: Values) -> float | None:
        first, second = left(values), right(values)
        if first is None or second is None:
            return None
        if operate is operator.truediv and second == 0:
            return None
        result = float(operate(first, second))
        return result if math.isfinite(result) else None

    return compute


def _if(condition: Formula, then: Formula, otherwise: Formula) -> Formula:
    def compute(values: Values) -> float | None:
        is_true = condition(values)
        if is_true is None:
            return None
        return then(values) if is_true else otherwise(values)

    return compute
