"""The launcher port: how the local AWS runs the training job behind an attempt.

Two adapters: `fairshare.local.simulated.SimulatedLauncher` (a run time, no process) and
`fairshare.local.processes.launcher.ProcessLauncher` (SageMaker's training-container contract as a process group).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fairshare.model import JobStatus


@dataclass(frozen=True)
class Attempt:
    """One attempt that the scheduler dispatched. ``number`` counts from 1."""

    job_id: str
    number: int
    training_job_name: str
    """Unique SageMaker name, e.g. ``AWSBatchdigits-lr0-1`` + 32 hex digits."""
    training_job: Mapping[str, Any]
    """The CreateTrainingJob request (PascalCase), as it was in ``serviceRequestPayload``."""
    region: str
    account_id: str


@dataclass(frozen=True)
class Report:
    """What execution did with an attempt, for `Engine.report`.

    ``status`` is one of STARTING, RUNNING, SUCCEEDED, FAILED. ``at`` is integer milliseconds and may lie in the future
    (a simulated run is reported whole when it starts). ``reason`` is the SageMaker text without Batch's prefix, e.g.
    ``AlgorithmError: ..., exit code: 1``. ``secondary_status`` overrides SageMaker's secondary status (``Uploading``);
    a report whose ``status`` equals the present one changes only that.
    """

    job_id: str
    attempt: int
    status: JobStatus
    at: int
    reason: str | None = None
    secondary_status: str | None = None
    model_artifact: str | None = None
    """S3 URI of ``model.tar.gz``, with SUCCEEDED, when there is one."""
    final_metrics: Mapping[str, float] = field(default_factory=dict)
    """With the end: the last value of each metric that the log told."""


class Launcher(Protocol):
    """Runs attempts. Called under the local AWS's lock: every method returns at once."""

    def start(self, attempt: Attempt, at: int) -> None:
        """Begin an attempt at ``at`` ms. Never raises for a bad job: the attempt is reported FAILED instead."""

    def stop(self, job_id: str, attempt: int) -> None:
        """Ask an attempt to end (TERM, then KILL after the grace). Its end arrives as a report."""

    def poll(self, now: int) -> list[Report]:
        """Return the reports that came in since the last poll, oldest first."""

    def close(self) -> None:
        """End every attempt still running and wait until no process of theirs is left. Idempotent."""
