"""The simulated launcher: a job is a run time, and nothing runs.

The run time comes from the job: ``FAIRSHARE_SIM_SECONDS`` in the ``Environment`` of its training job. It is reported
whole when the attempt starts, its end lying in the future, so the same launcher serves a clock that stands still until
it is moved, the machine's clock, and one where ``speed`` shortens every run. A job can also be told how its attempts
fail: ``FAIRSHARE_SIM_EXIT_CODE=1`` (every one), or ``FAIRSHARE_SIM_FAILURES='["CapacityError: no p5", "AlgorithmError:
x"]'``, one text for each dispatch, after which it succeeds: so retry rules can be tried out. The final metrics of a
job that succeeds are those of ``FAIRSHARE_SIM_METRICS='{"accuracy": 0.97}'``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairshare.local.launcher import Attempt, Report
from fairshare.model import JobStatus, UsageError

SECONDS_VARIABLE: Final = "FAIRSHARE_SIM_SECONDS"
EXIT_CODE_VARIABLE: Final = "FAIRSHARE_SIM_EXIT_CODE"
FAILURES_VARIABLE: Final = "FAIRSHARE_SIM_FAILURES"
METRICS_VARIABLE: Final = "FAIRSHARE_SIM_METRICS"
DEFAULT_SECONDS: Final = 60.0

_BEFORE_START: Final = ("CapacityError", "ResourceLimitExceeded", "ValidationException")
"""Failures without any run: no instance was there, or SageMaker did not take the job."""


class SimulatedLauncher:
    """Reports what an attempt would do.

    Args:
        speed: run times are divided by it; times of reports stay those of the clock.

    Raises:
        UsageError: ``speed`` is not a positive number.
    """

    def __init__(self, speed: float = 1.0) -> None:
        if not (speed > 0 and math.isfinite(speed)):
            raise UsageError(f"speed is {speed}", hint="Give a number above 0: 60 makes an hour pass in a minute.")
        self._speed = speed
        self._reports: list[Report] = []
        self._stopped: list[tuple[str, int]] = []

    def start(self, attempt: Attempt, at: int) -> None:
        """Report the whole run: it starts at once and ends after its run time, or its ``MaxRuntimeInSeconds``."""
        job = attempt.job_id, attempt.number
        try:
            script = _read(attempt.training_job)
        except ValueError as error:
            self._reports.append(Report(*job, JobStatus.FAILED, at, f"ClientError: {error}"))
            return
        failure = script.failure(attempt.number)
        if failure is not None and failure.startswith(_BEFORE_START):
            self._reports.append(Report(*job, JobStatus.FAILED, at, failure))
            return
        self._reports += [Report(*job, JobStatus.STARTING, at), Report(*job, JobStatus.RUNNING, at)]
        end = at + round(min(script.seconds, script.longest) * 1000 / self._speed)
        if script.seconds > script.longest:
            reason = f"MaxRuntimeExceeded: the training job ran longer than its {script.longest:g} s and was stopped"
            self._reports.append(Report(*job, JobStatus.FAILED, end, reason, secondary_status="MaxRuntimeExceeded"))
        elif failure is not None:
            self._reports.append(Report(*job, JobStatus.FAILED, end, failure))
        else:
            self._reports.append(Report(*job, JobStatus.SUCCEEDED, end, final_metrics=script.metrics))

    def stop(self, job_id: str, attempt: int) -> None:
        """End an attempt at the next poll; the end that was reported before comes too late then."""
        self._stopped.append((job_id, attempt))

    def poll(self, now: int) -> list[Report]:
        """Return what was not returned yet."""
        stops = [Report(*job, JobStatus.FAILED, now, "Training job stopped") for job in self._stopped]
        reports, self._reports, self._stopped = self._reports + stops, [], []
        return reports

    def close(self) -> None:
        """Forget everything; there is no process to end."""
        self._reports, self._stopped = [], []


@dataclass(frozen=True)
class _Script:
    """What a job does: its run time and the longest allowed in seconds, and how its dispatches fail."""

    seconds: float
    longest: float
    exit_code: int
    failures: list[str]
    metrics: Mapping[str, float] = field(default_factory=dict)

    def failure(self, number: int) -> str | None:
        """Return how dispatch ``number`` fails, from 1; None = it succeeds."""
        if number <= len(self.failures):
            return self.failures[number - 1]
        if self.exit_code == 0:
            return None
        return f"AlgorithmError: the job asked to fail ({EXIT_CODE_VARIABLE}), exit code: {self.exit_code}"


def _read(training_job: Mapping[str, Any]) -> _Script:
    """Return what a training job does. Raises ValueError naming the variable that cannot be read."""
    environment = training_job.get("Environment") or {}
    text = str(environment.get(SECONDS_VARIABLE, DEFAULT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{SECONDS_VARIABLE} is {text!r}, not a number of seconds; write for instance 2.5.")
    code = str(environment.get(EXIT_CODE_VARIABLE, 0))
    if not (code.isascii() and code.isdigit() and len(code) <= 3 and int(code) <= 255):
        raise ValueError(f"{EXIT_CODE_VARIABLE} is {code!r}, not an exit code; write 0 to 255.")
    longest = (training_job.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds", math.inf)
    failures = _failures(environment.get(FAILURES_VARIABLE, "[]"))
    return _Script(seconds, longest, int(code), failures, _metrics(environment.get(METRICS_VARIABLE, "{}")))


def _failures(text: str) -> list[str]:
    try:
        failures = json.loads(text)
    except (ValueError, RecursionError):
        failures = None
    if not (isinstance(failures, list) and all(isinstance(failure, str) and failure for failure in failures)):
        raise ValueError(
            f"{FAILURES_VARIABLE} is {text!r}, not a JSON list of texts; write for instance "
            '["CapacityError: no p5", "InternalServerError: x"].'
        )
    return failures


def _metrics(text: str) -> dict[str, float]:
    try:
        metrics = json.loads(text)
        return {str(name): float(value) for name, value in metrics.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        example = '{"accuracy": 0.97}'
        raise ValueError(
            f"{METRICS_VARIABLE} is {text!r}, not a JSON map of numbers; write for instance {example}."
        ) from None
