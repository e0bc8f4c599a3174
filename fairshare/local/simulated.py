"""The simulated launcher: a job is a run time, and nothing runs.

The run time comes from the job: ``FAIRSHARE_SIM_SECONDS`` in the ``Environment`` of its training job. It is reported
whole when the attempt starts, its end lying in the future, so the same launcher serves a clock that stands still until
it is moved, the machine's clock, and one where ``speed`` shortens every run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from fairshare.local.launcher import Attempt, Report
from fairshare.model import JobStatus, UsageError

SECONDS_VARIABLE: Final = "FAIRSHARE_SIM_SECONDS"
EXIT_CODE_VARIABLE: Final = "FAIRSHARE_SIM_EXIT_CODE"
DEFAULT_SECONDS: Final = 60.0


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
        """Report the whole run: it starts at once and ends after its run time."""
        job = attempt.job_id, attempt.number
        try:
            seconds, exit_code = _read(attempt.training_job)
        except ValueError as error:
            self._reports.append(Report(*job, JobStatus.FAILED, at, f"ClientError: {error}"))
            return
        end = at + round(seconds * 1000 / self._speed)
        self._reports += [Report(*job, JobStatus.STARTING, at), Report(*job, JobStatus.RUNNING, at)]
        if exit_code == 0:
            self._reports.append(Report(*job, JobStatus.SUCCEEDED, end))
        else:
            reason = f"AlgorithmError: the job asked to fail ({EXIT_CODE_VARIABLE}), exit code: {exit_code}"
            self._reports.append(Report(*job, JobStatus.FAILED, end, reason))

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


def _read(training_job: Mapping[str, Any]) -> tuple[float, int]:
    """Return seconds and exit code. Raises ValueError naming the variable."""
    environment = training_job.get("Environment") or {}
    text = str(environment.get(SECONDS_VARIABLE, DEFAULT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{SECONDS_VARIABLE} is {text!r}, not a number of seconds; write for instance 2.5.")
    code = str(environment.get(EXIT_CODE_VARIABLE, 0))
    if not (code.isascii() and code.isdigit() and int(code) <= 255):
        raise ValueError(f"{EXIT_CODE_VARIABLE} is {code!r}, not an exit code; write 0 to 255.")
    return seconds, int(code)
