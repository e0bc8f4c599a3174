"""How the flags of ``submit`` and what a job file says about its run become one `SubmitOptions`: flags win."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fairshare.cli.context import AppContext
from fairshare.cli.start_times import run_gate
from fairshare.cli.submit_flags import JobFlags, PaceFlags, QueueFlags
from fairshare.config.paths import local_ready_file
from fairshare.model import MAX_PRIORITY, UsageError

if TYPE_CHECKING:
    from fairshare.config.jobs import AutoWaves, JobFile, Limits, WavesSpec
    from fairshare.submit.prepare import SubmitOptions
    from fairshare.submit.resolve import Overrides

_AUTO: Final = "auto"


def submit_options(
    context: AppContext, file: JobFile, queue: QueueFlags, jobs: JobFlags, pace: PaceFlags
) -> SubmitOptions:
    """Return what is said about a submission as a whole.

    Raises:
        UsageError: a flag is wrong, or flags contradict each other.
    """
    from fairshare.submit.prepare import SubmitOptions

    overrides = _overrides(queue, jobs)
    waves = _waves(file.waves, pace)
    gate = run_gate(context, file.waves, pace.start_at, pace.window)
    return SubmitOptions(
        overrides=overrides,
        waves=waves,
        start_at=gate.start_at,
        window=gate.window,
        limits=_limits(context, file, waves),
        max_in_flight=file.max_in_flight if pace.max_in_flight is None else pace.max_in_flight,
        allow_unknown_share=queue.allow_unknown_share,
    )


def _limits(context: AppContext, file: JobFile, waves: WavesSpec | AutoWaves | None) -> Limits:
    """Return what the file says; launches that run as processes of this machine share its memory if nothing else is
    said."""
    from fairshare.config.jobs import AutoWaves, Limits

    known = file.limits.over(context.project.limits if context.project else Limits())
    peaks = [job.resources.launch_peak for job in file.jobs]
    tells_memory = any(peak is not None and peak.memory is not None for peak in peaks)
    if not (isinstance(waves, AutoWaves) and tells_memory and known.memory is None and _runs_scripts_here(context)):
        return file.limits
    from fairshare.local.processes.allotment import Allotment

    return replace(file.limits, memory=Allotment.of_machine().memory_bytes)


def _runs_scripts_here(context: AppContext) -> bool:
    """Whether jobs go to a local AWS that runs them as processes; not when it only lets time pass."""
    if not context.options.local:
        return False
    try:
        told = json.loads(local_ready_file(context.environ).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # that there is none is told where it is called
        return False
    return bool(told.get("launcher") == "process")


def _overrides(queue: QueueFlags, jobs: JobFlags) -> Overrides:
    from fairshare.submit.resolve import Overrides

    if queue.priority is not None and not 0 <= queue.priority <= MAX_PRIORITY:
        raise UsageError(
            f"--priority {queue.priority} is not between 0 and {MAX_PRIORITY}", hint="0 is the lowest priority"
        )
    if queue.preemption_retries is not None and queue.preemption_retries < 0:
        raise UsageError(
            f"--preemption-retries {queue.preemption_retries} is below 0", hint="0 ends a job when it is preempted"
        )
    queues = _queues(queue.queue)
    return Overrides(
        queue=queues[0] if queues else None,
        queues=queues if len(queues) > 1 else None,
        share=queue.share,
        quota_share=queue.quota_share,
        preemption_retries=queue.preemption_retries,
        priority=queue.priority,
        instance_type=jobs.instance_type,
        instance_count=jobs.instance_count,
        image=jobs.image,
        role=jobs.role,
        max_runtime=None if jobs.max_runtime is None else _seconds("--max-runtime", jobs.max_runtime),
    )


def _queues(text: str | None) -> tuple[str, ...]:
    """Return the queues that ``--queue`` names; those after the first are for jobs that do not start there."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(
            f"--queue {text}: write each queue once, with commas between them", hint="for example --queue p5,p4"
        )
    return names


def _seconds(flag: str, text: str) -> int:
    from fairshare.config.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _waves(written: WavesSpec | AutoWaves | None, flags: PaceFlags) -> WavesSpec | AutoWaves | None:
    """Return the waves to use: flags over the job file."""
    from fairshare.config.jobs import AutoWaves, WavesSpec

    fixed = written if isinstance(written, WavesSpec) else None
    if flags.wave_size == _AUTO:
        if flags.interval is not None:
            raise UsageError("--interval has no effect with --wave-size auto", hint="remove one of the two")
        return AutoWaves() if fixed is not None or written is None else written
    size = None if flags.wave_size is None else _size(flags.wave_size)
    if flags.interval is not None and size is None and fixed is None:
        raise UsageError("--interval needs --wave-size", hint="for example --wave-size 8 --interval 90s")
    if size is None and fixed is None:
        return written
    waves = fixed or WavesSpec(size=1, interval=0)
    interval = waves.interval if flags.interval is None else _seconds("--interval", flags.interval)
    return replace(waves, size=waves.size if size is None else size, interval=interval)


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"--wave-size {text} is neither a number from 1 on nor {_AUTO}",
            hint="leave it out to send everything in one wave",
        )
    return int(text)
