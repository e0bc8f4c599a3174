"""Metrics of a training job: what its metric definitions find in its log.

SageMaker searches each line of the log with the regular expression of each definition; the first group is the value,
and the last value found is the final one of ``FinalMetricDataList``. Sources:
https://docs.aws.amazon.com/sagemaker/latest/dg/define-train-metrics.html,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fairshare.local.processes.training_request import RefusalError


class FinalMetrics:
    """Reads lines and keeps the last value of each metric. Not for several threads at once.

    Args:
        definitions: ``MetricDefinitions`` of an ``AlgorithmSpecification``.

    Raises:
        RefusalError: a regular expression cannot be compiled, or has no group for the value.
    """

    def __init__(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        self._patterns = {str(each["Name"]): _compiled(str(each["Name"]), str(each["Regex"])) for each in definitions}
        self._values: dict[str, float] = {}

    def read(self, line: str) -> None:
        """Look at one line of the log. What was found and is not a number is left out."""
        for name, pattern in self._patterns.items():
            found = pattern.search(line)
            value = None if found is None else _number(found[1])
            if value is not None:
                self._values[name] = value

    def values(self) -> dict[str, float]:
        """Return the last value of each metric that was found, in the order of the definitions."""
        return {name: self._values[name] for name in self._patterns if name in self._values}


def _compiled(name: str, text: str) -> re.Pattern[str]:
    where = f"ValidationException: Regex of metric definition {name!r}"
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise RefusalError(f"{where} is no regular expression: {error}.") from None
    if pattern.groups == 0:
        raise RefusalError(f"{where} has no group: put the number in parentheses, as in 'accuracy ([0-9.]+)'.")
    return pattern


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None
