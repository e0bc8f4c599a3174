"""fairshare local events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fairshare.local import event_reader
from fairshare.local.event_reader import EventsRead


def event(status: str = "RUNNING", name: str = "digits", **detail: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "detail-type": "Batch Service Job State Change",
        "time": "2026-11-30T18:00:00Z",
        "detail": {"status": status, "jobName": name} | detail,
    }


BLOCKED = event("RUNNABLE", "big", statusReason="MISCONFIGURATION:X") | {
    "detail-type": "Batch Service Job Queue Blocked"
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Have a server answer with these pages, then Ctrl-C comes; returns for how long each look waited."""

    def answer(*pages: EventsRead) -> list[float]:
        left, waits = list(pages), []

        class Reader:
            def __init__(self, ready_file: Any) -> None: ...

            def read(self, wait_seconds: float = 0.0) -> EventsRead:
                waits.append(wait_seconds)
                if not left:
                    raise KeyboardInterrupt
                return left.pop(0)

        monkeypatch.setattr(event_reader, "EventReader", Reader)
        return waits

    return answer


def test_events_one_a_line(cli, server):
    server(EventsRead((event(), BLOCKED, event("FAILED", "a\x1b[2J", statusReason="enough")), 0))
    assert cli("local", "events") == 0
    assert cli.out == (
        "2026-11-30T18:00:00Z  RUNNING    digits\n"
        "2026-11-30T18:00:00Z  BLOCKED    big  MISCONFIGURATION:X\n"
        "2026-11-30T18:00:00Z  FAILED     a\\x1b[2J  enough\n"
    )


def test_without_events_it_says_so(cli, server):
    waits = server(EventsRead((), 0))
    assert cli("local", "events") == 0
    assert cli.out == "No events yet.\n"
    assert waits == [0.0]


def test_as_json_they_are_what_eventbridge_delivers(cli, server):
    server(EventsRead((event(),), 3))
    assert cli("local", "events", "-o", "json") == 0
    document = json.loads(cli.out)
    assert (document["kind"], document["events"]) == ("EventList", [event()])
    assert cli.err == "3 older events are no longer kept\n"


def test_followed_until_ctrl_c_one_json_document_a_line(cli, server):
    waits = server(EventsRead((event(),), 0), EventsRead((), 0), EventsRead((event("SUCCEEDED"),), 0))
    assert cli("local", "events", "-f", "-o", "json") == 130
    assert [json.loads(line)["detail"]["status"] for line in cli.out.splitlines()[:2]] == ["RUNNING", "SUCCEEDED"]
    assert set(waits) == {15.0}


def test_followed_for_people(cli, server):
    server(EventsRead((event(),), 0))
    assert cli("local", "events", "--follow") == 130
    assert cli.out == "2026-11-30T18:00:00Z  RUNNING    digits\n"


def test_yaml_cannot_be_followed(cli, server):
    server()
    assert cli("local", "events", "-f", "-o", "yaml") == 2
    assert "events that are followed cannot be printed as yaml" in cli.err
    assert "use -o json" in cli.err


def test_without_a_server_it_says_how_to_start_one(cli, project):
    assert cli("local", "events", "--ready-file", str(project / "none.json")) == 4
    assert "no local AWS is running" in cli.err
    assert "`fairshare local start` starts one" in cli.err
