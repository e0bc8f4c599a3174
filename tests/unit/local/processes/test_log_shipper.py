from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from fairshare.local.processes.log_shipper import LOG_GROUP, LogShipper
from fairshare.scheduler.clock import VirtualClock


class FakeLogs:
    """The calls of CloudWatch Logs that a shipper makes."""

    class exceptions:
        class ResourceAlreadyExistsException(Exception):
            pass

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.batches: list[list[dict[str, Any]]] = []
        self.is_down = False

    def create_log_group(self, **_: Any) -> None:
        self.calls.append("group")
        raise self.exceptions.ResourceAlreadyExistsException

    def create_log_stream(self, **names: Any) -> None:
        self.calls.append(names["logStreamName"])

    def put_log_events(self, **request: Any) -> None:
        if self.is_down:
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")
        assert request["logGroupName"] == LOG_GROUP
        self.batches.append(request["logEvents"])

    @property
    def messages(self) -> list[str]:
        return [event["message"] for batch in self.batches for event in batch]


@pytest.fixture
def logs() -> FakeLogs:
    return FakeLogs()


@pytest.fixture
def shipper(logs: FakeLogs, tmp_path: Path) -> Iterator[LogShipper]:
    shipper = LogShipper(logs, "digits", tmp_path / "log", VirtualClock(1_700_000_123_456))
    yield shipper
    shipper.close()


def pump(shipper: LogShipper, *pieces: bytes, close: bool = True) -> None:
    """Let a shipper read ``pieces``; without ``close``, somebody holds the pipe open after the job has ended."""
    output, job = os.pipe()
    ended, end = os.pipe()
    for piece in pieces:
        os.write(job, piece)
    if close:
        os.close(job)
    else:
        os.write(end, b"\0")
    shipper.pump(output, ended)
    for descriptor in {output, ended, end} | (set() if close else {job}):
        os.close(descriptor)


def test_lines_go_to_the_stream_that_sagemaker_would_name(shipper: LogShipper, logs: FakeLogs) -> None:
    pump(shipper, b"one\ntwo\n")
    assert shipper.stream == "digits/algo-1-1700000123"
    assert logs.calls == ["group", "digits/algo-1-1700000123"]
    assert logs.batches == [
        [{"timestamp": 1_700_000_123_456, "message": "one"}, {"timestamp": 1_700_000_123_456, "message": "two"}]
    ]


def test_the_file_keeps_every_byte(shipper: LogShipper, tmp_path: Path) -> None:
    pump(shipper, b"bar\r 50 %\r 100 %\n\n\xff\xfe\nno newline")
    shipper.close()
    assert (tmp_path / "log").read_bytes() == b"bar\r 50 %\r 100 %\n\n\xff\xfe\nno newline\n"


def test_logs_get_text_without_blank_lines(shipper: LogShipper, logs: FakeLogs) -> None:
    pump(shipper, b"windows\r\n\n\r\nbad \xff byte\n  indented\n")
    assert logs.messages == ["windows", "bad � byte", "  indented"]


def test_a_character_cut_in_two_by_the_pipe_arrives_whole(shipper: LogShipper, logs: FakeLogs) -> None:
    first, second = "é".encode()
    for piece in (bytes([first]), bytes([second]) + b"\n"):
        pump(shipper, piece)
    assert logs.messages == ["é"]


def test_an_unfinished_line_is_shipped_at_the_end(shipper: LogShipper, logs: FakeLogs) -> None:
    pump(shipper, b"done")
    assert logs.messages == []
    shipper.close()
    assert logs.messages == ["done"]


def test_a_line_longer_than_an_event_is_split(shipper: LogShipper, logs: FakeLogs) -> None:
    for piece in (b"x" * 60_000,) * 9:
        pump(shipper, piece)
    pump(shipper, b"\n")
    assert [len(message) for message in logs.messages] == [250_000, 250_000, 40_000]


def test_many_short_lines_are_sent_in_requests_that_logs_accepts(shipper: LogShipper, logs: FakeLogs) -> None:
    pump(shipper, b"x\n" * 25_000)
    assert [len(batch) for batch in logs.batches] == [10_000, 10_000, 5_000]


def test_a_process_that_holds_the_pipe_does_not_hold_the_job(shipper: LogShipper, logs: FakeLogs) -> None:
    pump(shipper, b"last words\n", close=False)
    assert logs.messages == ["last words"]


def test_the_tail_has_the_last_lines(shipper: LogShipper) -> None:
    pump(shipper, b"".join(b"line %d\n \n" % n for n in range(100)))
    assert shipper.tail()[0] == "line 40"
    assert shipper.tail()[-1] == "line 99"


def test_our_own_lines_say_whose_they_are(shipper: LogShipper, logs: FakeLogs) -> None:
    shipper.note("warning: careful")
    assert logs.messages == ["fairshare: warning: careful"]


def test_without_logs_the_lines_are_in_the_file(
    shipper: LogShipper, logs: FakeLogs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs.is_down = True
    with caplog.at_level(logging.WARNING):
        pump(shipper, b"one\ntwo\n")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"
    assert caplog.messages == [
        f"2 log lines of {shipper.stream} are only in {tmp_path}/log: "
        'Could not connect to the endpoint URL: "http://127.0.0.1:9"'
    ]
    logs.is_down = False
    pump(shipper, b"three\n")
    assert logs.messages == ["three"]
