from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from fairshare.config.times import load_zone, moment, parse_window
from fairshare.submit.windows import Gate, closes_at, gate_from_json, opens_at

NIGHTS = parse_window("20:00-06:00 Europe/Berlin")
WEEKDAYS = parse_window("mon,tue,wed,thu,fri 20:00-06:00 Europe/Berlin")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def shown(milliseconds: int) -> str:
    return moment(milliseconds, load_zone("Europe/Berlin")).isoformat(timespec="minutes")


@pytest.mark.parametrize(
    ("at", "opens"),
    [
        ("2026-12-01T19:59+01:00", "2026-12-01T20:00+01:00"),
        ("2026-12-01T20:00+01:00", "2026-12-01T20:00+01:00"),
        ("2026-12-01T23:15+01:00", "2026-12-01T23:15+01:00"),
        ("2026-12-02T05:59+01:00", "2026-12-02T05:59+01:00"),
        ("2026-12-02T06:00+01:00", "2026-12-02T20:00+01:00"),
    ],
)
def test_a_wave_waits_for_the_next_opening(at: str, opens: str) -> None:
    assert shown(opens_at(NIGHTS, ms(at))) == opens


@pytest.mark.parametrize(
    ("at", "opens"),
    [
        ("2026-12-05T05:00+01:00", "2026-12-05T05:00+01:00"),  # Saturday: Friday's window is still open
        ("2026-12-05T06:00+01:00", "2026-12-07T20:00+01:00"),
        ("2026-12-06T21:00+01:00", "2026-12-07T20:00+01:00"),
        ("2026-12-07T01:00+01:00", "2026-12-07T20:00+01:00"),  # Monday: Sunday had none
    ],
)
def test_days_are_those_on_which_a_window_opens(at: str, opens: str) -> None:
    assert shown(opens_at(WEEKDAYS, ms(at))) == opens


def test_a_window_closes_at_its_end() -> None:
    assert shown(closes_at(NIGHTS, ms("2026-12-01T23:15+01:00"))) == "2026-12-02T06:00+01:00"
    assert shown(closes_at(NIGHTS, ms("2026-12-01T12:00+01:00"))) == "2026-12-02T06:00+01:00"


def test_c27_a_window_follows_the_clocks() -> None:
    night = ms("2026-10-24T12:00+02:00")
    assert shown(opens_at(NIGHTS, night)) == "2026-10-24T20:00+02:00"
    assert shown(closes_at(NIGHTS, night)) == "2026-10-25T06:00+01:00"
    assert shown(opens_at(NIGHTS, ms("2026-10-25T12:00+01:00"))) == "2026-10-25T20:00+01:00"


def test_c27_a_window_in_the_repeated_hour_opens_once() -> None:
    window = parse_window("02:15-02:45 Europe/Berlin")
    assert shown(opens_at(window, ms("2026-10-25T00:00+02:00"))) == "2026-10-25T02:15+02:00"
    assert shown(opens_at(window, ms("2026-10-25T02:45+02:00"))) == "2026-10-26T02:15+01:00"


@pytest.mark.parametrize("text", ["02:15-02:45 Europe/Berlin", "02:30-03:00 Europe/Berlin"])
def test_c27_a_window_in_the_missing_hour_is_not_lost(text: str) -> None:
    window = parse_window(text)
    opens = opens_at(window, ms("2027-03-28T00:00+01:00"))
    assert shown(opens)[:10] == "2027-03-28"
    assert closes_at(window, opens) - opens == 30 * 60_000


def test_every_minute_of_a_year_is_inside_or_before_an_opening() -> None:
    at, end = ms("2026-01-01T00:00+00:00"), ms("2027-01-01T00:00+00:00")
    while at < end:
        opens = opens_at(WEEKDAYS, at)
        assert at <= opens < closes_at(WEEKDAYS, opens) <= opens + 11 * 3_600_000
        at += timedelta(hours=7, minutes=13) // timedelta(milliseconds=1)


def test_a_gate_without_conditions_is_open() -> None:
    gate = Gate()
    assert (gate.is_timed, gate.opens_at(5), gate.zone) == (False, 5, UTC)


def test_a_gate_has_a_start_and_a_window() -> None:
    gate = Gate(ms("2026-12-02T12:00+01:00"), NIGHTS)
    assert gate.is_timed
    assert str(gate.zone) == "Europe/Berlin"
    assert shown(gate.opens_at(ms("2026-12-01T22:00+01:00"))) == "2026-12-02T20:00+01:00"
    assert shown(gate.opens_at(ms("2026-12-03T01:00+01:00"))) == "2026-12-03T01:00+01:00"
    assert Gate(100).opens_at(7) == 100
    assert Gate(100).opens_at(107) == 107


@pytest.mark.parametrize("gate", [Gate(), Gate(0), Gate(5, WEEKDAYS)])
def test_a_gate_comes_back_from_a_journal(gate: Gate) -> None:
    document = gate.to_json()
    if gate.window is not None:
        assert document["window"] == asdict(gate.window)
        document["window"]["days"] = list(gate.window.days)
    assert gate_from_json(document) == gate


def test_old_journals_have_no_gate() -> None:
    assert gate_from_json(None) == Gate()
