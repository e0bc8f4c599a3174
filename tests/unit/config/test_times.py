from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

import pytest

from fairshare.config import times
from fairshare.config.times import Window, at_offset, load_zone, make_window, moment, parse_start, parse_window

DST_DAY = int(datetime(2026, 10, 24, 12, tzinfo=UTC).timestamp() * 1000)
NOW = int(datetime(2026, 11, 30, 18, tzinfo=UTC).timestamp() * 1000)


def utc(milliseconds: int) -> str:
    return f"{moment(milliseconds, UTC):%Y-%m-%d %H:%MZ}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01 08:00 Europe/Berlin", "2026-12-01 07:00Z"),
        ("2026-12-01T08:00 Europe/Berlin", "2026-12-01 07:00Z"),
        ("2026-12-01T08:00+01:00", "2026-12-01 07:00Z"),
        ("2026-12-01T08:00:00-0530", "2026-12-01 13:30Z"),
        ("2026-12-01T08:00Z", "2026-12-01 08:00Z"),
        ("2026-12-01 08:00 +01", "2026-12-01 07:00Z"),
        ("2026-12-01 08:00 UTC", "2026-12-01 08:00Z"),
        (" 08:00 America/New_York ", "2026-12-01 13:00Z"),
        ("19:30 UTC", "2026-11-30 19:30Z"),
        ("17:30 UTC", "2026-12-01 17:30Z"),
        ("18:00 UTC", "2026-11-30 18:00Z"),
        ("8:05Z", "2026-12-01 08:05Z"),
    ],
)
def test_a_start_is_an_instant(text: str, expected: str) -> None:
    start = parse_start(text).resolve(NOW, None)
    assert (utc(start.at), start.note) == (expected, "")


def test_c27_a_time_that_happens_twice_means_the_first_and_says_so() -> None:
    start = parse_start("2026-10-25T02:30 Europe/Amsterdam").resolve(DST_DAY, None)
    assert utc(start.at) == "2026-10-25 00:30Z"
    assert start.note == (
        "2026-10-25 02:30 happens twice in Europe/Amsterdam: the first one is meant, 2026-10-25 02:30 +0200"
    )


def test_c27_a_time_that_does_not_exist_is_moved_forward_and_says_so() -> None:
    start = parse_start("2027-03-28T02:30 Europe/Amsterdam").resolve(NOW, None)
    assert utc(start.at) == "2027-03-28 01:30Z"
    assert start.note == (
        "2027-03-28 02:30 does not exist in Europe/Amsterdam: clocks are set forward over it, so it means "
        "2027-03-28 03:30 +0200"
    )


def test_c27_an_offset_leaves_nothing_to_decide() -> None:
    start = parse_start("2026-10-25T02:30+01:00").resolve(DST_DAY, "Europe/Amsterdam")
    assert (utc(start.at), start.note) == ("2026-10-25 01:30Z", "")


def test_a_time_without_a_zone_is_the_machines_and_says_so() -> None:
    start = parse_start("08:00").resolve(NOW, "Europe/Berlin")
    assert utc(start.at) == "2026-12-01 07:00Z"
    assert start.note == '"08:00" is read in this machine\'s zone, Europe/Berlin: 2026-12-01 08:00 +0100'
    twice = parse_start("2026-10-25 02:30").resolve(DST_DAY, "Europe/Berlin")
    assert "this machine's zone, Europe/Berlin" in twice.note
    assert "happens twice" in twice.note


def test_the_next_such_time_is_found_across_a_change_of_the_clocks() -> None:
    late_on_saturday = int(datetime(2026, 10, 24, 21, tzinfo=UTC).timestamp() * 1000)
    assert utc(parse_start("08:00 Europe/Berlin").resolve(late_on_saturday, None).at) == "2026-10-25 07:00Z"


@pytest.mark.parametrize(
    ("text", "zone", "message"),
    [
        ("2026-11-30 18:30 Europe/Berlin", None, r"is past: 2026-11-30 18:30 \+0100"),
        ("2028-01-01 00:00 UTC", None, "more than a year ahead: is the year right"),
        ("08:00", None, "has no time zone, and this machine's is not known"),
        ("08:00", "Mars/Olympus", 'there is no time zone "Mars/Olympus"'),
    ],
)
def test_a_start_that_cannot_be_meant_is_refused(text: str, zone: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_start(text).resolve(NOW, zone)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tomorrow", '"tomorrow" is not a start: write 2026-12-01 08:00 Europe/Berlin'),
        ("2026-12-01", "is not a start"),
        ("8am", "is not a start"),
        ("01.12.2026 08:00", "is not a start"),
        ("2026-02-30 08:00 UTC", "there is no such day or time"),
        ("24:00 UTC", "there is no such day or time"),
        ("08:00+15:00", "there is no such day or time"),
        ("08:00+01:00 Europe/Berlin", "has an offset and a zone"),
        ("08:00 Europe/Berln", "did you mean Europe/Berlin?"),
        ("08:00 utc", "did you mean UTC?"),
        ("08:00 CEST", "write a name such as Europe/Berlin, or UTC"),
        ("08:00 Europe", 'there is no time zone "Europe"'),
    ],
)
def test_what_is_not_a_start_is_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?").replace("+", r"\+")):
        parse_start(text)


def test_a_machine_without_zones_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    monkeypatch.setattr(times, "available_timezones", set)
    with pytest.raises(ValueError, match=r'zone "Nowhere/Here": this machine has no time zones; .* package tzdata'):
        load_zone("Nowhere/Here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20:00-06:00 Europe/Berlin", Window("20:00", "06:00", (0, 1, 2, 3, 4, 5, 6), "Europe/Berlin")),
        ("tue,mon 8:00-20:30 UTC", Window("08:00", "20:30", (0, 1), "UTC")),
        ("sat, sun 00:00 - 24:00 UTC", Window("00:00", "24:00", (5, 6), "UTC")),
    ],
)
def test_a_window_reads_back_as_it_prints(text: str, expected: Window) -> None:
    assert parse_window(text) == expected
    assert parse_window(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("20:00-06:00", "is not a window: write 20:00-06:00 Europe/Berlin"),
        ("20-06 UTC", '"20" is not a time of day'),
        ("20:00-25:00 UTC", '"25:00" is not a time of day'),
        ("mon,tuesday 20:00-06:00 UTC", "is not a window"),
        ("mon,xyz 20:00-06:00 UTC", '"xyz" is not a day: write mon, tue, wed'),
        ("08:00-08:00 UTC", "always open or never: write 00:00-24:00"),
        ("20:00-06:00 Europe/Brlin", "did you mean Europe/Berlin"),
    ],
)
def test_what_is_not_a_window_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_window(text)


def test_a_window_from_its_parts() -> None:
    assert make_window("20:00", "06:00", ("fri",), "UTC") == Window("20:00", "06:00", (4,), "UTC")


def test_times_are_shown_with_their_offset() -> None:
    assert at_offset(NOW, load_zone("Europe/Berlin")) == "2026-11-30 19:00 +0100"
    assert at_offset(NOW + 5_000, UTC, seconds=True) == "2026-11-30 18:00:05 +0000"
