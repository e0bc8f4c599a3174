from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fairshare.aws.logs import LOG_GROUP, LogLine, LogReader
from fairshare.model import CredentialsError
from fairshare.scheduler.clock import VirtualClock

JOB = "AWSBatchdigits0"


class FakeLogs:
    """CloudWatch Logs: streams of (time, text), pages of two events, AWS's token rules. None = no log group yet."""

    def __init__(self, refusal: Callable[..., ClientError]) -> None:
        self.streams: dict[str, list[tuple[int, str]]] | None = {}
        self._refusal = refusal

    def describe_log_streams(self, **request: Any) -> dict[str, Any]:
        assert request["logGroupName"] == LOG_GROUP
        if self.streams is None:
            raise self._refusal("The specified log group does not exist.", "ResourceNotFoundException")
        names = sorted(name for name in self.streams if name.startswith(request["logStreamNamePrefix"]))
        start = int(request.get("nextToken", 0))
        page: dict[str, Any] = {"logStreams": [{"logStreamName": name} for name in names[start : start + 1]]}
        return page | ({"nextToken": str(start + 1)} if start + 1 < len(names) else {})

    def get_log_events(self, **request: Any) -> dict[str, Any]:
        name = request["logStreamName"]
        if self.streams is None or name not in self.streams:
            raise self._refusal("The specified log stream does not exist.", "ResourceNotFoundException")
        events = self.streams[name]
        start = int(request["nextToken"]) if "nextToken" in request else 0
        if not request["startFromHead"]:
            start = max(0, len(events) - 2)
        page = events[start : start + 2]
        return {
            "events": [{"timestamp": time, "message": text, "ingestionTime": time} for time, text in page],
            "nextForwardToken": str(start + len(page)),
        }


@pytest.fixture
def logs(
    refusal: Callable[..., ClientError], checked: Callable[[str, Any], Any], session_of: Callable[..., Any]
) -> tuple[LogReader, FakeLogs]:
    """A reader over fake logs."""
    fake = FakeLogs(refusal)
    return LogReader(session_of(logs=checked("logs", fake))), fake


def texts(lines: Any) -> list[str]:
    return [line.message for line in lines]


def test_lines_of_all_hosts_come_in_order_of_time(logs: tuple[LogReader, FakeLogs]) -> None:
    reader, fake = logs
    fake.streams = {
        f"{JOB}/algo-1-9": [(1, "a"), (3, "c"), (5, "e"), (7, "g"), (8, "h")],
        f"{JOB}/algo-2-9": [(2, "b"), (4, "d"), (6, "f")],
        f"{JOB}other/algo-1-9": [(1, "not ours")],
    }

    lines = list(reader.read(JOB))

    assert texts(lines) == list("abcdefgh")
    assert lines[1] == LogLine(2, "b", f"{JOB}/algo-2-9")


def test_an_empty_page_is_not_the_end_of_a_stream(
    checked: Callable[[str, Any], Any], session_of: Callable[..., Any]
) -> None:
    class Gaps:
        """The real service looks through a stretch of time for each page, and there may be nothing in it."""

        def describe_log_streams(self, **request: Any) -> dict[str, Any]:
            return {"logStreams": [{"logStreamName": f"{JOB}/algo-1-9"}]}

        def get_log_events(self, **request: Any) -> dict[str, Any]:
            token = int(request.get("nextToken", 0))
            found = [{"timestamp": token, "message": f"line {token}"}] if token in (0, 2) else []
            return {"events": found, "nextForwardToken": str(min(token + 1, 3))}

    reader = LogReader(session_of(logs=checked("logs", Gaps())))

    assert texts(reader.read(JOB)) == ["line 0", "line 2"]


def test_the_newest_page_of_each_host(logs: tuple[LogReader, FakeLogs]) -> None:
    reader, fake = logs
    fake.streams = {
        f"{JOB}/algo-1-9": [(1, "a"), (2, "b"), (5, "e"), (6, "f")],
        f"{JOB}/algo-2-9": [(3, "c"), (4, "d")],
    }

    assert texts(reader.read(JOB, start_from_head=False)) == list("cdef")


def test_no_group_no_stream_and_no_line_are_no_lines_yet(logs: tuple[LogReader, FakeLogs]) -> None:
    reader, fake = logs

    assert texts(reader.read(JOB)) == []
    fake.streams = {f"{JOB}/algo-1-9": []}
    assert texts(reader.read(JOB)) == []
    fake.streams = None
    assert texts(reader.read(JOB)) == []
    assert texts(reader.read(JOB, start_from_head=False)) == []


def test_a_missing_permission_is_not_taken_for_an_empty_log(
    refusal: Callable[..., ClientError], checked: Callable[[str, Any], Any], session_of: Callable[..., Any]
) -> None:
    class Denied:
        def describe_log_streams(self, **request: Any) -> Any:
            raise refusal("not authorized to perform: logs:DescribeLogStreams", "AccessDeniedException")

    with pytest.raises(CredentialsError, match=f"Cannot find the logs of {JOB}: not authorized"):
        list(LogReader(session_of(logs=checked("logs", Denied()))).read(JOB))


class Script:
    """A clock that changes the world each time somebody sleeps."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        self._steps = list(steps)
        self._clock = VirtualClock(1_000)

    def now(self) -> int:
        return self._clock.now()

    def wall(self) -> int:
        return self._clock.wall()

    def sleep_until(self, at: int) -> None:
        self._clock.sleep_until(at)
        assert self._steps, "follow goes on although everything was read"
        self._steps.pop(0)()


def nothing() -> None:
    """A step in which nothing happens."""


def test_follow_waits_for_the_group_new_lines_new_hosts_and_late_lines(logs: tuple[LogReader, FakeLogs]) -> None:
    reader, fake = logs
    fake.streams = None
    done: list[bool] = []
    first, second = f"{JOB}/algo-1-9", f"{JOB}/algo-2-9"

    def appear() -> None:
        fake.streams = {first: [(1, "a"), (2, "b"), (3, "c")]}

    def grow() -> None:
        assert fake.streams is not None
        fake.streams[first].append((4, "d"))
        fake.streams[second] = [(3, "other host")]

    def finish() -> None:
        done.append(True)

    def late() -> None:
        assert fake.streams is not None
        fake.streams[first].append((5, "late"))

    clock = Script(appear, grow, nothing, finish, late, nothing, nothing)
    lines = texts(reader.follow(JOB, lambda: bool(done), clock))

    assert lines == ["a", "b", "c", "other host", "d", "late"]
    assert clock.now() == 1_000 + 7 * 2_000


def test_follow_of_a_job_that_ended_long_ago_ends(logs: tuple[LogReader, FakeLogs]) -> None:
    reader, fake = logs
    fake.streams = {f"{JOB}/algo-1-9": [(1, "a")]}

    assert texts(reader.follow(JOB, lambda: True, VirtualClock())) == ["a"]
