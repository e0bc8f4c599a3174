from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest

from fairshare.cli.context import AppContext, Options
from fairshare.cli.start_times import local_zone, run_gate, shown_zone
from fairshare.config.jobs import AutoWaves, WavesSpec
from fairshare.config.times import parse_start, parse_window
from fairshare.model import UsageError
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.windows import Gate

NOW = 1_796_061_600_000
"""2026-11-30T18:00:00Z."""

NIGHTS = parse_window("20:00-06:00 Europe/Berlin")
AT_EIGHT = NOW + 13 * 3_600_000


@pytest.fixture
def context(tmp_path: Path) -> AppContext:
    """The context of a command in Berlin."""
    made = AppContext(Options(), {"TZ": "Europe/Berlin"}, tmp_path)
    made.clock = VirtualClock(NOW)
    return made


def test_without_a_time_waves_may_start_at_once(context: AppContext) -> None:
    assert run_gate(context, None, None, None) == Gate()
    assert run_gate(context, WavesSpec(8, 90), None, None) == Gate()


def test_the_job_file_says_when(context: AppContext, capsys: pytest.CaptureFixture[str]) -> None:
    start = parse_start("08:00 Europe/Berlin")
    for waves in (WavesSpec(8, 90, start, NIGHTS), AutoWaves(start_at=start, window=NIGHTS)):
        assert run_gate(context, waves, None, None) == Gate(AT_EIGHT, NIGHTS)
    assert capsys.readouterr().err == ""


def test_flags_win_over_the_job_file(context: AppContext) -> None:
    waves = WavesSpec(8, 90, parse_start("09:00 UTC"), NIGHTS)
    gate = run_gate(context, waves, "08:00 Europe/Berlin", "mon 01:00-02:00 UTC")
    assert gate == Gate(AT_EIGHT, parse_window("mon 01:00-02:00 UTC"))


def test_a_zone_that_was_not_written_is_told(context: AppContext, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_gate(context, None, "08:00", None) == Gate(AT_EIGHT)
    told = '--start-at: "08:00" is read in this machine\'s zone, Europe/Berlin: 2026-12-01 08:00 +0100\n'
    assert capsys.readouterr().err == told


def test_the_wall_clock_counts(context: AppContext) -> None:
    assert isinstance(context.clock, VirtualClock)
    context.clock.jump(-24 * 3_600_000)
    assert run_gate(context, None, "08:00", None) == Gate(AT_EIGHT - 24 * 3_600_000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda context: run_gate(context, None, "soon", None), '--start-at: "soon" is not a start: write 2026-12-01'),
        (lambda context: run_gate(context, None, None, "20-6"), '--window: "20-6" is not a window: write 20:00-06:00'),
        (
            lambda context: run_gate(context, WavesSpec(1, 1, parse_start("2026-11-30 17:00Z")), None, None),
            'waves.start_at: "2026-11-30 17:00Z" is past: 2026-11-30 17:00 +0000',
        ),
    ],
)
def test_a_time_that_cannot_be_says_where_it_was_written(
    context: AppContext, call: Callable[[AppContext], Gate], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        call(context)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        (":/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
    ],
)
def test_tz_names_the_zone_of_the_machine(text: str, zone: str) -> None:
    assert local_zone({"TZ": text}) == zone
    assert str(shown_zone({"TZ": text})) == zone


def test_else_the_link_does(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    assert local_zone({}, link) == "UTC"
    link.symlink_to("../usr/share/zoneinfo/America/New_York")
    assert local_zone({"TZ": ""}, link) == "America/New_York"
    link.unlink()
    link.symlink_to("/somewhere/else")
    assert local_zone({}, link) is None
    link.unlink()
    link.write_bytes(b"TZif")
    assert local_zone({}, link) is None


def test_times_are_shown_in_utc_where_the_zone_cannot_be_read() -> None:
    assert shown_zone({"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}) is UTC
