"""Log lines of training jobs, from CloudWatch Logs.

SageMaker writes one stream for each host: ``<training job>/algo-<n>-<time>`` in group ``/aws/sagemaker/TrainingJobs``.
The group appears with the first job of an account and a stream with the first line of a host, so "not there" means "no
lines yet". Source: https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from fairshare.aws.errors import translated
from fairshare.aws.paging import pages
from fairshare.aws.session import AwsSession
from fairshare.model import NotFoundError
from fairshare.scheduler.clock import Clock

LOG_GROUP: Final = "/aws/sagemaker/TrainingJobs"
_POLL_MS: Final = 2_000
_LOOPBACK_POLL_MS: Final = 200
_QUIET_LOOKS: Final = 2
"""A finished job's last lines may come late: it has been read when so many looks in a row found nothing."""


@dataclass(frozen=True)
class LogLine:
    """One line. ``stream`` is the whole stream name; its part after the slash names the host."""

    timestamp_ms: int
    message: str
    stream: str


class LogReader:
    """Reads log lines of training jobs of one account and region."""

    def __init__(self, session: AwsSession) -> None:
        self._session = session
        self._poll_ms = _LOOPBACK_POLL_MS if session.is_loopback else _POLL_MS

    def read(self, training_job_name: str, *, start_from_head: bool = True) -> Iterator[LogLine]:
        """Yield the lines that are there now, of all hosts, in order of time.

        Args:
            training_job_name: SageMaker's name of the job, from its latest attempt.
            start_from_head: False = only the newest page of each host, at most 10,000 lines.
        """
        if start_from_head:
            yield from self._new_lines(training_job_name, {})
            return
        tails = [self._page(stream, {"startFromHead": False})[0] for stream in self._streams(training_job_name)]
        yield from heapq.merge(*tails, key=_time)

    def follow(self, training_job_name: str, is_done: Callable[[], bool], clock: Clock) -> Iterator[LogLine]:
        """Yield the lines from the beginning on, waiting for more until the job is done and everything was read.

        Args:
            training_job_name: SageMaker's name of the job.
            is_done: whether the job has ended; asked before each look, so that no last line is missed.
            clock: for the pause between two looks.
        """
        tokens: dict[str, str] = {}
        quiet_looks = 0
        while quiet_looks < _QUIET_LOOKS:
            done = is_done()
            found = False
            for line in self._new_lines(training_job_name, tokens):
                found = True
                yield line
            quiet_looks = quiet_looks + 1 if done and not found else 0
            if quiet_looks < _QUIET_LOOKS:
                clock.sleep_until(clock.now() + self._poll_ms)

    def _new_lines(self, training_job_name: str, tokens: dict[str, str]) -> Iterator[LogLine]:
        """Yield what came since the tokens (by stream) were taken, and move them on."""
        streams = self._streams(training_job_name)
        yield from heapq.merge(*(self._stream_lines(stream, tokens) for stream in streams), key=_time)

    def _stream_lines(self, stream: str, tokens: dict[str, str]) -> Iterator[LogLine]:
        """Yield the lines of one stream after its token. GetLogEvents answers with the same token at the end."""
        while True:
            token = tokens.get(stream)
            lines, next_token = self._page(stream, {} if token is None else {"nextToken": token})
            yield from lines
            if next_token is None or next_token == token:
                return
            tokens[stream] = next_token

    def _page(self, stream: str, position: dict[str, Any]) -> tuple[list[LogLine], str | None]:
        request = {"logGroupName": LOG_GROUP, "logStreamName": stream, "startFromHead": True} | position
        try:
            with translated(f"read the log {stream}", self._session.caller):
                answer = self._session.client("logs").get_log_events(**request)
        except NotFoundError:
            return [], None
        lines = [LogLine(event["timestamp"], event["message"], stream) for event in answer["events"]]
        return lines, answer.get("nextForwardToken")

    def _streams(self, training_job_name: str) -> list[str]:
        describe = self._session.client("logs").describe_log_streams
        prefix = f"{training_job_name}/"
        try:
            with translated(f"find the logs of {training_job_name}", self._session.caller):
                listing = pages(describe, logGroupName=LOG_GROUP, logStreamNamePrefix=prefix)
                return [stream["logStreamName"] for page in listing for stream in page["logStreams"]]
        except NotFoundError:
            return []


def _time(line: LogLine) -> int:
    return line.timestamp_ms
