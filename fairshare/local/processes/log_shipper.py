"""A training job's output: from its pipe into a file and, line by line, into CloudWatch Logs.

Group and stream are named as SageMaker names them:
https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from fairshare.scheduler.clock import Clock

LOG_GROUP: Final = "/aws/sagemaker/TrainingJobs"

_log = logging.getLogger(__name__)
_MAX_EVENT_BYTES = 250_000  # CloudWatch's limit is 256 KiB, in UTF-8 and with 26 bytes of overhead
_MAX_EVENTS = 10_000  # in one PutLogEvents
_READ_BYTES = 65_536
_LAST_READS = 16  # as much as a pipe of 1 MiB can hold
_TAIL_LINES = 60


class LogShipper:
    """The log of one attempt. Safe to use from several threads.

    A line appears in Logs when it is complete; while one request is under way the next lines gather, so a chatty job
    makes large requests rather than many. Bytes that are not UTF-8 are replaced in Logs and kept in the file. When Logs
    does not answer, lines are in the file only: a job does not fail because its log could not be shipped.

    Args:
        client: boto3 Logs client.
        training_job_name: part of the stream's name.
        file: where the output is kept on this machine.
        clock: gives the time stamps, and the stream's name.
        on_line: told each line of the job's, as it appears in Logs; called by one thread at a time.
    """

    def __init__(
        self,
        client: Any,
        training_job_name: str,
        file: Path,
        clock: Clock,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.stream = f"{training_job_name}/algo-1-{clock.now() // 1000}"
        self._client = client
        self._clock = clock
        self._on_line = on_line
        self._file = file.open("ab", buffering=0)
        self._partial = b""
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._lock = threading.RLock()
        self._has_stream = False

    def note(self, text: str) -> None:
        """Add a line of our own."""
        self._write(f"fairshare: {text}\n".encode())

    def pump(self, pipe: int, ended: int) -> None:
        """Copy ``pipe`` until it closes, or until ``ended`` is readable and what was in the pipe is read.

        Args:
            pipe: descriptor of the job's output; made non-blocking.
            ended: descriptor that becomes readable when the job is over. A process that escaped may hold the pipe open
                for ever; it must not hold the job.
        """
        os.set_blocking(pipe, False)
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        poller.register(ended, select.POLLIN)
        is_over = False
        while not is_over:
            is_over = ended in {descriptor for descriptor, _ in poller.poll()}
            for _ in range(_LAST_READS if is_over else 1):
                try:
                    data = os.read(pipe, _READ_BYTES)
                except BlockingIOError:
                    break
                if not data:
                    return
                self._write(data)

    def tail(self) -> list[str]:
        """Return the last lines that are not blank."""
        with self._lock:
            return list(self._tail)

    def close(self) -> None:
        """Ship an unfinished last line and close the file."""
        with self._lock:
            if self._partial:
                self._write(b"\n")
            self._file.close()

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._keep(data)
            *complete, self._partial = (self._partial + data).split(b"\n")
            while len(self._partial) > _MAX_EVENT_BYTES:
                complete.append(self._partial[:_MAX_EVENT_BYTES])
                self._partial = self._partial[_MAX_EVENT_BYTES:]
            messages = [message for line in complete for message in _messages(line)]
            self._tail.extend(message for message in messages if message.strip())
            for message in messages:
                self._on_line(message)
            for start in range(0, len(messages), _MAX_EVENTS):
                self._ship(messages[start : start + _MAX_EVENTS])

    def _keep(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            _log.warning("%s is not complete: %s", self._file.name, error)

    def _ship(self, messages: list[str]) -> None:
        now = self._clock.now()
        try:
            if not self._has_stream:
                self._make_stream()
            self._client.put_log_events(
                logGroupName=LOG_GROUP,
                logStreamName=self.stream,
                logEvents=[{"timestamp": now, "message": message} for message in messages],
            )
        except (BotoCoreError, ClientError) as error:
            _log.warning("%d log lines of %s are only in %s: %s", len(messages), self.stream, self._file.name, error)

    def _make_stream(self) -> None:
        exists = self._client.exceptions.ResourceAlreadyExistsException
        with contextlib.suppress(exists):
            self._client.create_log_group(logGroupName=LOG_GROUP)
        with contextlib.suppress(exists):
            self._client.create_log_stream(logGroupName=LOG_GROUP, logStreamName=self.stream)
        self._has_stream = True


def _messages(line: bytes) -> Iterator[str]:
    """Text of one line in pieces that an event can hold; nothing for an empty line, which Logs refuses."""
    line = line.rstrip(b"\r")
    for start in range(0, len(line), _MAX_EVENT_BYTES):
        yield line[start : start + _MAX_EVENT_BYTES].decode("utf-8", errors="replace")
