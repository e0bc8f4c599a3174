"""``retry``: how often Batch runs a job and after which endings it tries again, as an AWS retry strategy.

AWS takes five rules, the first that fits decides, and a rule that fits everything must be the last: what no rule names
ends the job. A lack of capacity needs no rule, because it uses up no attempt
(https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairshare.config.jobs import RetrySpec
from fairshare.submit.report import Finding

MAX_RULES: Final = 5
MAX_PATTERN: Final = 512
"""https://docs.aws.amazon.com/batch/latest/APIReference/API_ServiceJobEvaluateOnExit.html"""

_REASON: Final = "Received status from SageMaker:"
_ERROR_NAME: Final = re.compile(r"[A-Za-z]+")
_NOT_PRINTABLE: Final = re.compile(r"[^ -~]")
_DEFAULT: Final = RetrySpec(on=("InternalServerError", "ResourceLimitExceeded"))
"""Two attempts: again for an internal error or an account quota that is used up, never for a bug of the user's."""


def retry_strategy(spec: RetrySpec | None) -> Mapping[str, Any]:
    """Return the strategy of a job in AWS's names; None = the default.

    A pattern that is one word is the name of an error of SageMaker's, as in ``AlgorithmError``. AWS prints a space
    before it in some texts and none in others, so it becomes two rules. Any other pattern is taken as it is and
    compared with the whole status reason; ``*`` stands for any text.
    """
    spec = spec or _DEFAULT
    rules = [{"action": "RETRY", "on_status_reason": pattern} for pattern in _patterns(spec)]
    rest = {"action": "EXIT", "on_status_reason": "*"}
    return {"attempts": spec.attempts, "evaluate_on_exit": [*rules, rest]}


def retry_findings(spec: RetrySpec) -> Iterator[Finding]:
    """Yield what AWS would refuse of a retry strategy."""
    count = len(_patterns(spec))
    if count >= MAX_RULES:
        yield Finding(
            f"retry.on makes {count} rules, AWS takes {MAX_RULES - 1} beside the last one, EXIT *",
            ("retry", "on"),
            "the name of an error makes two; join names to one pattern with *, as in Received status from SageMaker:*",
        )
    for pattern in spec.on:
        if len(pattern) > MAX_PATTERN:
            yield Finding(
                f"a pattern of retry.on has {len(pattern)} characters, AWS takes {MAX_PATTERN}", ("retry", "on")
            )
        if bad := _NOT_PRINTABLE.search(pattern):
            yield Finding(f"a pattern of retry.on has {bad.group()!r}: AWS takes printable ASCII", ("retry", "on"))


def _patterns(spec: RetrySpec) -> Sequence[str]:
    return [full for pattern in spec.on or _DEFAULT.on for full in _in_full(pattern)]


def _in_full(pattern: str) -> Sequence[str]:
    name = pattern.removesuffix("*")
    return [f"{_REASON} {name}*", f"{_REASON}{name}*"] if _ERROR_NAME.fullmatch(name) else [pattern]
