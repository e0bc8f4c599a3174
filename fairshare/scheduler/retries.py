"""What follows a failed attempt: another one, the end, or the same one again for lack of capacity.

Sources: https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html,
https://docs.aws.amazon.com/batch/latest/userguide/sm_job_stuck_in_runnable_capacity.html.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from fairshare.scheduler.commands import RetryAction
from fairshare.scheduler.jobs import EngineJob

REASON_PREFIX: Final = "Received status from SageMaker:"
"""How AWS Batch begins the reason of an attempt that SageMaker ended.

AWS's guide prints a space after the colon, the SageMaker SDK's default rule has none. A bare reason gets the guide's
form before rules see it, a reason with either form is matched as it was reported. A rule that must work whichever form
AWS sends is written in both forms.
"""

_NO_CAPACITY: Final = ("CapacityError", "MaxPendingTime")
"""Beginnings of SageMaker's reasons that say: no instances.

The second is for jobs that SageMaker stopped when ``MaxPendingTimeInSeconds`` had passed; AWS publishes no text for it.
"""


class Verdict(Enum):
    """What becomes of a job whose attempt failed."""

    FAIL = auto()
    RETRY = auto()
    WAIT_FOR_CAPACITY = auto()
    """No attempt was used."""


def judge(job: EngineJob, reason: str | None) -> Verdict:
    """Decide about the present attempt of a job, which ended with SageMaker's ``reason``.

    The first matching rule of ``evaluateOnExit`` decides; without a match the job is retried while attempts are left.
    """
    text = reason or ""
    bare = text.removeprefix(REASON_PREFIX).lstrip()
    if bare.startswith(_NO_CAPACITY):
        return Verdict.WAIT_FOR_CAPACITY
    if len(job.attempts) + 1 >= job.max_attempts:
        return Verdict.FAIL
    if not text.startswith(REASON_PREFIX):
        text = f"{REASON_PREFIX} {text}"
    for rule in job.retry_rules:
        if glob_matches(rule.on_status_reason, text):
            return Verdict.RETRY if rule.action == RetryAction.RETRY else Verdict.FAIL
    return Verdict.RETRY


def glob_matches(pattern: str, text: str) -> bool:
    """Return whether the whole text matches; ``*`` stands for any text, everything else for itself, case included.

    The API reference allows ``*`` at the end only, the user guide uses it anywhere. Linear in the length of the text
    for each ``*``, whatever the pattern.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
