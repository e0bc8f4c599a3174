"""Which jobs of a run are launching, as far as looking at them tells: what `LaunchControl` decides with.

A job counts as launching from its call on, until it is seen to run, to end or to wait in the queue. So a job that has
not been looked at yet counts (it may be launching), and one that waits does not: jobs RUNNABLE never hold a launch,
unless the control says so (``hold_runnable``). A job that launches for far too long is told to the control once and
then counts no more: one bad job must not stall the run.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

from fairshare.model import TERMINAL_STATUSES, WAITING_STATUSES, JobStatus, JobSummary
from fairshare.submit.events import Event, LaunchIsSlow
from fairshare.submit.launches import Launch, LaunchControl
from fairshare.submit.requests import PlannedJob

SLOW_FACTOR: Final = 3
SLOW_FLOOR_MS: Final = 60_000
"""A launch is given up after three times the median launch, or three times what the job declared, and not before."""

UNKNOWN_MS: Final = 900_000
"""The same while nothing is known about launches: SageMaker's often take some minutes."""

_KEPT: Final = 99
"""Launch times that the median is taken of."""

_LAUNCHING: Final = frozenset({JobStatus.SCHEDULED, JobStatus.STARTING})


@dataclass
class _State:
    """A job that has been called and is not known to have launched."""

    job: PlannedJob
    launch: Launch
    called_at: int
    since: int | None = None
    """When it was first seen launching, in this attempt."""
    is_slow: bool = False


class Launching:
    """The launches of a run under one control.

    Args:
        control: decides, and learns from what happens.
        on_event: told of launches that are given up.
    """

    def __init__(self, control: LaunchControl, on_event: Callable[[Event], None]) -> None:
        self.control = control
        self._on_event = on_event
        self._states: dict[int, _State] = {}
        self._holding: dict[int, Launch] = {}
        """Those that count."""
        self._took: deque[int] = deque(maxlen=_KEPT)

    @property
    def count(self) -> int:
        """How many launches count now."""
        return len(self._holding)

    def admits(self, job: PlannedJob) -> bool:
        """Whether one more job may be sent."""
        return self.control.admits(launch_of(job), self._holding.values())

    def called(self, job: PlannedJob, now: int) -> None:
        """A job is sent, or was by an earlier session: it may be launching."""
        launch = launch_of(job)
        self._states[job.index] = _State(job, launch, now)
        self._holding[job.index] = launch

    def forget(self, index: int) -> None:
        """A job was not made after all, or is gone."""
        self._states.pop(index, None)
        self._holding.pop(index, None)

    def is_open(self, index: int) -> bool:
        """Whether it is worth looking at this job: its launch is not over."""
        return index in self._states

    def saw(self, index: int, seen: JobSummary, now: int) -> None:
        """Take in how a job was found."""
        state = self._states.get(index)
        if state is None:
            return
        if seen.status in WAITING_STATUSES:
            self._waits(state, now)
        elif seen.status in _LAUNCHING:
            self._launches(state, now)
        elif seen.status == JobStatus.RUNNING or seen.status in TERMINAL_STATUSES:
            self._is_over(state, seen, now)

    def _waits(self, state: _State, now: int) -> None:
        if state.since is not None:  # it was launching: there was no capacity, or it is tried again
            self.control.capacity_error(now)
            state.since = None
        if not self.control.hold_runnable:
            self._holding.pop(state.job.index, None)

    def _launches(self, state: _State, now: int) -> None:
        if state.since is None:
            state.since, state.is_slow = now, False
        if state.is_slow:
            return
        if now - state.since < self._longest(state.launch):
            self._holding[state.job.index] = state.launch
            return
        state.is_slow = True
        self._holding.pop(state.job.index, None)
        self.control.slow(now)
        self._on_event(LaunchIsSlow(state.job, now - state.since))

    def _is_over(self, state: _State, seen: JobSummary, now: int) -> None:
        self.forget(state.job.index)
        if seen.status == JobStatus.FAILED and seen.started_at is None:
            self.control.capacity_error(now)
            return
        took = _took(state, seen, now)
        self._took.append(took)
        if not state.is_slow:
            self.control.started(state.launch, took, now)

    def _longest(self, launch: Launch) -> int:
        declared = launch.peak.seconds if launch.peak is not None else None
        if declared is None and not self._took:
            return UNKNOWN_MS
        usual = max(median(self._took) if self._took else 0, 0 if declared is None else declared * 1000)
        return max(SLOW_FLOOR_MS, round(SLOW_FACTOR * usual))


def launch_of(job: PlannedJob) -> Launch:
    """Return what a job needs while it launches: its instances and image are read from its payload."""
    payload = json.loads(job.request.payload)
    resources, algorithm = payload.get("ResourceConfig") or {}, payload.get("AlgorithmSpecification") or {}
    groups = resources.get("InstanceGroups") or [resources]
    instances = sum(group.get("InstanceCount") or 1 for group in groups)
    return Launch(job.index, instances, algorithm.get("TrainingImage"), job.launch_peak)


def _took(state: _State, seen: JobSummary, now: int) -> int:
    """How long the launch took: AWS's own times when it gives them, else between looks."""
    if seen.scheduled_at is not None and seen.started_at is not None:
        return max(0, seen.started_at - seen.scheduled_at)
    return now - (state.called_at if state.since is None else state.since)
