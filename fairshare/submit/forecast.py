"""What a run is expected to take, said before it begins: the timetable, and when all jobs will have ended.

A prediction names what it rests on, and where nothing is known it says so. It plays the run against queues that nobody
else uses: who else is there, `fairshare queue` tells. Run times are known when an earlier run of the same jobs was
measured, and when they are simulated; a job's ``max_runtime`` is a limit, not a prediction.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from fractions import Fraction
from pathlib import Path
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.config.jobs import AutoWaves
from fairshare.config.times import at_offset
from fairshare.model import FairshareError, JobStatus
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.journal import SUFFIX, read_run
from fairshare.submit.launches import UNKNOWN_LAUNCH_MS, Forecast, LaunchControl, predict_auto
from fairshare.submit.launching import launch_of
from fairshare.submit.records import RunRecord
from fairshare.submit.requests import PlannedJob, max_runtime_of
from fairshare.submit.waves import sent_after_seconds, timetable

SIMULATED_SECONDS: Final = "FAIRSHARE_SIM_SECONDS"
"""Environment variable that tells the local AWS how long a job pretends to run."""

_LOOKED_AT: Final = 5
"""Earlier runs that are searched for run times: reading a journal of a thousand jobs takes a moment."""

_UNBOUNDED: Final = 1_000_000
"""Instances of a queue whose capacity is not known."""


@dataclass(frozen=True)
class RunTimes:
    """How long each job of a plan runs, in ms and in the plan's order, and how that is known."""

    milliseconds: tuple[int, ...]
    basis: str


def recent_runs(runs_dir: Path) -> Iterator[RunRecord]:
    """Yield the runs in a directory whose journals changed last, the latest first; what cannot be read is left out."""
    paths = sorted(runs_dir.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in paths[:_LOOKED_AT]:
        with suppress(FairshareError):
            yield read_run(path)


def known_run_times(plan: SubmitPlan, past: Iterable[RunRecord], *, is_simulated: bool) -> RunTimes | None:
    """Return the run times of a plan's jobs; None unless all of them are known.

    Args:
        plan: with the jobs.
        past: earlier runs, the latest first; their measured jobs are looked for by name.
        is_simulated: whether the jobs go to the local AWS, which may simulate them.
    """
    told = [_simulated_ms(job) for job in plan.jobs] if is_simulated else []
    if told and None not in told:
        return RunTimes(tuple(each for each in told if each is not None), SIMULATED_SECONDS)
    wanted = {_label(job.request.job_name) for job in plan.jobs}
    for run in past:
        measured = _measured_ms(run)
        if wanted <= measured.keys():
            times = tuple(measured[_label(job.request.job_name)] for job in plan.jobs)
            return RunTimes(times, f"measured in run {run.run_id}")
    return None


def finish_at(plan: SubmitPlan, rate: float, times: RunTimes) -> int | None:
    """Return when the last job ends, ms of the wall clock, if nobody else uses the queues.

    None when it depends on more than times: jobs that come after a later one, or a limit of jobs in flight.
    """
    if plan.rules.max_in_flight is not None:
        return None
    pools = {queue: _Pool(capacity) for queue, capacity in plan.capacities.items()}
    ends: dict[int, int] = {}
    for job, sent_at, length in zip(plan.jobs, _sent_at(plan, rate), times.milliseconds, strict=True):
        before = [index for indexes, _ in job.after for index in indexes]
        if not ends.keys() >= set(before):
            return None
        pool = pools.setdefault(job.request.job_queue, _Pool(_UNBOUNDED))
        ready = max([sent_at, *(ends[index] for index in before)])
        ends[job.index] = pool.run(launch_of(job).instances, ready, length)
    return max(ends.values(), default=None)


class _Pool:
    """The instances of a queue that starts jobs in the order in which they come."""

    def __init__(self, capacity: int) -> None:
        self._idle = capacity
        self._busy_until: list[int] = []
        self._latest_start = 0

    def run(self, instances: int, ready: int, length: int) -> int:
        """Start a job at ``ready`` ms or as soon as there is room, and return when it ends."""
        start = max(ready, self._latest_start)
        never_used = min(instances, self._idle)
        self._idle -= never_used
        for _ in range(min(instances - never_used, len(self._busy_until))):
            start = max(start, heapq.heappop(self._busy_until))
        for _ in range(instances):
            heapq.heappush(self._busy_until, start + length)
        self._latest_start = start
        return start + length


@dataclass(frozen=True)
class Prediction:
    """When a plan is expected to be sent and done, in ms of the wall clock; None = not known.

    ``basis`` says how the run times are known; None = they are not.
    """

    sent_at: int | None
    finish_at: int | None
    basis: str | None


def predict(plan: SubmitPlan, rate: float, *, past: Iterable[RunRecord] = (), is_simulated: bool = False) -> Prediction:
    """Return for programs what `plan_lines` says to people; its arguments are the same."""
    times = known_run_times(plan, past, is_simulated=is_simulated)
    auto, basis = plan.rules.auto, None if times is None else times.basis
    if auto is not None and plan.jobs:
        expected = _expected_of_auto(plan, auto, times)
        return Prediction(None, expected.finish_at, basis)
    sent_at = None
    if plan.waves and not plan.may_be_held:
        sent_at = plan.waves[0].starts_at + 1000 * sent_after_seconds(plan.waves, rate, plan.rules.gate)
    return Prediction(sent_at, None if times is None else finish_at(plan, rate, times), basis)


def plan_lines(
    plan: SubmitPlan, rate: float, *, now: int, zone: tzinfo, past: Iterable[RunRecord] = (), is_simulated: bool = False
) -> list[str]:
    """Return the timetable of a plan and the predicted finish, as lines for people.

    Args:
        plan: what will be sent.
        rate: calls a second; 0 = no limit.
        now: the wall clock, ms.
        zone: that times of day are shown in; a window's own goes first.
        past: earlier runs, the latest first.
        is_simulated: whether the local AWS may simulate the jobs.
    """
    gate = plan.rules.gate
    shown_in = zone if gate.window is None else gate.zone
    times = known_run_times(plan, past, is_simulated=is_simulated)
    if plan.rules.auto is not None and plan.jobs:
        return _auto_lines(plan, plan.rules.auto, times, now, shown_in)
    lines = timetable(plan.waves, rate, gate=gate, zone=shown_in, now=now, at_earliest=plan.may_be_held)
    end = None if times is None else finish_at(plan, rate, times)
    return [*lines, _finish_line(plan, times, end, now, shown_in)] if lines else []


def _auto_lines(plan: SubmitPlan, auto: AutoWaves, times: RunTimes | None, now: int, zone: tzinfo) -> list[str]:
    """Waves that find their size: what is expected of them, and by which assumptions."""
    expected = _expected_of_auto(plan, auto, times)
    most = _control(plan, auto).ceiling
    lines = timetable(expected.waves, 0, gate=plan.rules.gate, zone=zone, now=now)[:-1]
    held = "; jobs that wait in the queue count as launching and may lose their place" if auto.hold_runnable else ""
    lines.append(f"  Waves follow the launches, at first {most} at once{held}")
    if expected.launched_at is not None:
        taken = format_duration((expected.launched_at - plan.waves[0].starts_at) // 1000)
        lines.append(f"  Prediction: all launched in {taken} ({_launch_basis(plan)})")
    return [*lines, _finish_line(plan, times, expected.finish_at, now, zone)]


def _expected_of_auto(plan: SubmitPlan, auto: AutoWaves, times: RunTimes | None) -> Forecast:
    return predict_auto(
        [launch_of(job) for job in plan.jobs],
        _control(plan, auto),
        UNKNOWN_LAUNCH_MS // 1000,
        sum(plan.capacities.values()) or _UNBOUNDED,
        run_seconds=None if times is None else [-(-each // 1000) for each in times.milliseconds],
        start_at=plan.waves[0].starts_at,
    )


def _control(plan: SubmitPlan, auto: AutoWaves) -> LaunchControl:
    return LaunchControl(plan.rules.limits, first=auto.first, hold_runnable=auto.hold_runnable)


def _launch_basis(plan: SubmitPlan) -> str:
    if all(job.launch_peak is not None and job.launch_peak.seconds is not None for job in plan.jobs):
        return "launches as long as resources.launch_peak.for says"
    return (
        f"a launch is taken to last {format_duration(UNKNOWN_LAUNCH_MS // 1000)}; resources.launch_peak.for says better"
    )


def _finish_line(plan: SubmitPlan, times: RunTimes | None, end: int | None, now: int, zone: tzinfo) -> str:
    if times is None:
        longest = max(max_runtime_of(json.loads(job.request.payload)) for job in plan.jobs)
        limit = f"max_runtime ends a job after {format_duration(longest)}"
        return f"  Prediction: the finish is not known, since no run times are; {limit}"
    if end is None:
        return "  Prediction: the finish is not known, since jobs wait for others"
    end += max(0, now - plan.waves[0].starts_at)  # it took a while to make the plan
    instances = sum(plan.capacities.values())
    pool = f"{instances} instances" if instances else "as many instances as it takes"
    when = f"{at_offset(end, zone)}, in {format_duration(max(0, end - now) // 1000)}"
    return f"  Prediction: all done by {when} (run times: {times.basis}; {pool}, nobody else in the queue)"


def _sent_at(plan: SubmitPlan, rate: float) -> Iterator[int]:
    """When each job is sent, in order; a wave that takes longer than the interval holds up the next."""
    per_job = 1000 / Fraction(str(rate)) if rate > 0 else Fraction(0)
    end = Fraction(0)
    for wave in plan.waves:
        start = max(Fraction(wave.starts_at), end)
        yield from (int(start + number * per_job) for number in range(wave.count))
        end = start + wave.count * per_job


def _simulated_ms(job: PlannedJob) -> int | None:
    text = (json.loads(job.request.payload).get("Environment") or {}).get(SIMULATED_SECONDS)
    try:
        return None if text is None else int(Fraction(text) * 1000)
    except (ValueError, ZeroDivisionError):  # the local AWS will say so
        return None


def _measured_ms(run: RunRecord) -> Mapping[str, int]:
    """How long the jobs of a run took that succeeded, by `_label`."""
    return {
        _label(job.request.job_name): max(0, job.stopped_at - job.started_at)
        for job in run.jobs
        if job.status == JobStatus.SUCCEEDED and job.started_at is not None and job.stopped_at is not None
    }


def _label(job_name: str) -> str:
    """A job's name without the token of its run: the same in every run."""
    return job_name.rpartition("-")[0]
