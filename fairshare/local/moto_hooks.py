"""Moto's clock, its random numbers and its calls, taken in hand by the local AWS.

Imports moto at the top: loaded by `fairshare.local.server` and `fairshare.local.inprocess` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import moto.core.utils
import moto.s3.models
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ConnectionClosedError
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.request import Request
from moto.moto_api._internal import mock_random

from fairshare.local.faults import Faults
from fairshare.local.faulty import LostReplyError, answer_with_fate
from fairshare.local.guard import Environ, StartResponse
from fairshare.local.moto_extension import identify
from fairshare.scheduler.clock import Clock


@contextmanager
def repeatable_moto(clock: Clock) -> Iterator[None]:
    """Let moto's times (of objects, roles, log groups) be those of a clock, and all its random ids follow `reseed`."""

    class ClockDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(clock.now() / 1000, tz)

    with (
        patch.object(moto.core.utils, "datetime", SimpleNamespace(datetime=ClockDatetime)),
        patch.object(moto.s3.models, "os", SimpleNamespace(urandom=mock_random.randbytes)),  # upload ids
    ):
        yield


def reseed(text: str) -> None:
    """Let the random ids that moto makes next follow from a text."""
    mock_random.seed(text)


@contextmanager
def faulty_calls(faults: Faults, clock: Clock) -> Iterator[None]:
    """Let faults strike the calls of this process, as they do in a server.

    A lost reply looks as it does there: botocore sees the connection closed, and tries again if it may.
    """
    answer = BotocoreStubber.process_request

    def process(stubber: BotocoreStubber, request: AWSPreparedRequest) -> Any:
        if not faults.rules:
            return answer(stubber, request)
        body = request.body if isinstance(request.body, bytes | str) else b""  # a stream can be read only once
        normal = Request.from_primitives(request.method, request.url, request.headers, body)
        fate = faults.fate_of_call(identify(normal).operation, clock.now())
        refused: list[Any] = []

        def moto_answers(environ: Environ, start_response: StartResponse) -> Any:
            return answer(stubber, request)

        def note(status: str, headers: list[tuple[str, str]]) -> None:
            refused.extend((int(status.split()[0]), dict(headers)))

        try:
            answered = answer_with_fate(fate, clock, moto_answers, normal.environ, note)
        except LostReplyError:
            raise ConnectionClosedError(endpoint_url=request.url) from None
        return (*refused, b"".join(answered)) if refused else answered

    with patch.object(BotocoreStubber, "process_request", process):
        yield
