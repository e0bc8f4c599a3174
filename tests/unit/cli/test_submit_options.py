"""Flags of ``submit`` over what a job file says about its run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairshare.cli.context import AppContext, Options
from fairshare.cli.submit_flags import JobFlags, PaceFlags, QueueFlags
from fairshare.cli.submit_options import submit_options
from fairshare.config.jobs import AutoWaves, JobFile, JobSpec, LaunchPeak, Limits, Origin, Resources, WavesSpec
from fairshare.config.paths import local_ready_file
from fairshare.config.times import parse_window
from fairshare.local.processes.allotment import Allotment
from fairshare.model import UsageError
from fairshare.submit.prepare import SubmitOptions

FIXED = WavesSpec(8, 90)
AUTO = AutoWaves(first=4, hold_runnable=True)


def options(
    waves: WavesSpec | AutoWaves | None = None,
    *,
    pace: PaceFlags | None = None,
    queue: QueueFlags | None = None,
    jobs: JobFlags | None = None,
) -> SubmitOptions:
    context = AppContext(Options(), {}, Path("/nowhere"))
    file = JobFile((), waves, Limits(concurrent_launches=3), max_in_flight=7)
    return submit_options(context, file, queue or QueueFlags(), jobs or JobFlags(), pace or PaceFlags())


@pytest.mark.parametrize(
    ("written", "size", "interval", "expected"),
    [
        (None, None, None, None),
        (None, "4", None, WavesSpec(4, 0)),
        (None, "4", "1m", WavesSpec(4, 60)),
        (FIXED, None, None, FIXED),
        (FIXED, "4", None, WavesSpec(4, 90)),
        (FIXED, None, "0", WavesSpec(8, 0)),
        (AUTO, None, None, AUTO),
        (AUTO, "4", "5m", WavesSpec(4, 300)),
        (AUTO, "auto", None, AUTO),
        (FIXED, "auto", None, AutoWaves()),
        (None, "auto", None, AutoWaves()),
    ],
)
def test_flags_win_over_the_waves_of_the_file(
    written: WavesSpec | AutoWaves | None,
    size: str | None,
    interval: str | None,
    expected: WavesSpec | AutoWaves | None,
) -> None:
    assert options(written, pace=PaceFlags(wave_size=size, interval=interval)).waves == expected


@pytest.mark.parametrize(
    ("pace", "message"),
    [
        (PaceFlags(wave_size="0"), "--wave-size 0 is neither a number from 1 on nor auto"),
        (PaceFlags(wave_size="many"), "--wave-size many is neither a number from 1 on nor auto"),
        (PaceFlags(interval="90s"), "--interval needs --wave-size"),
        (PaceFlags(wave_size="auto", interval="90s"), "--interval has no effect with --wave-size auto"),
        (PaceFlags(wave_size="2", interval="1:30"), '--interval: "1:30" is not a duration: 1:30 could be minutes or'),
    ],
)
def test_flags_of_waves_that_make_no_sense(pace: PaceFlags, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(pace=pace)
    assert caught.value.message.startswith(message)


def test_limits_of_the_file_are_kept_and_the_flag_wins() -> None:
    assert options().limits == Limits(concurrent_launches=3)
    assert options().max_in_flight == 7
    assert options(pace=PaceFlags(max_in_flight=2)).max_in_flight == 2


@pytest.mark.parametrize(("launcher", "is_limited"), [("process", True), ("simulated", False)])
def test_launches_of_scripts_on_this_machine_share_its_memory(tmp_path: Path, launcher: str, is_limited: bool) -> None:
    environ = {"FAIRSHARE_STATE_DIR": str(tmp_path)}
    ready = local_ready_file(environ)
    ready.parent.mkdir()
    ready.write_text(json.dumps({"launcher": launcher}))
    context = AppContext(Options(local=True), environ, tmp_path)

    def memory(waves: WavesSpec | AutoWaves, peak: LaunchPeak | None, limits: Limits | None = None) -> int | None:
        job = JobSpec("a", Origin("jobs.yaml"), resources=Resources(launch_peak=peak))
        file = JobFile((job,), waves, limits or Limits())
        return submit_options(context, file, QueueFlags(), JobFlags(), PaceFlags()).limits.memory

    gigabyte = LaunchPeak(memory=1 << 30)
    assert memory(AUTO, gigabyte) == (Allotment.of_machine().memory_bytes if is_limited else None)
    assert memory(AUTO, gigabyte, Limits(memory=5)) == 5
    assert memory(AUTO, None) is None
    assert memory(FIXED, gigabyte) is None


def test_the_window_of_the_file_is_kept() -> None:
    window = parse_window("20:00-06:00 UTC")
    assert options(WavesSpec(1, 0, None, window)).window == window


def test_c08_a_priority_of_zero_is_said() -> None:
    assert options(queue=QueueFlags(priority=0)).overrides.given() == {"priority": 0}
    with pytest.raises(UsageError, match=r"^--priority 100 is not between 0 and 99$"):
        options(queue=QueueFlags(priority=100))


def test_several_queues_are_tried_in_their_order() -> None:
    assert options(queue=QueueFlags(queue="p5")).overrides.given() == {"queue": "p5"}
    assert options(queue=QueueFlags(queue="p5, p4")).overrides.given() == {"queue": "p5", "queues": ("p5", "p4")}
    for text in ("p5,", "p5,p5"):
        with pytest.raises(UsageError, match=rf"^--queue {text}: write each queue once, with commas between them$"):
            options(queue=QueueFlags(queue=text))


def test_c28_a_run_time_is_a_duration() -> None:
    assert options(jobs=JobFlags(max_runtime="1h30m")).overrides.max_runtime == 5400
    with pytest.raises(UsageError, match=r'^--max-runtime: "1.5h" is not a duration'):
        options(jobs=JobFlags(max_runtime="1.5h"))
