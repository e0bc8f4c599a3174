"""`LocalAWS`, for the tests and notebooks of people who use fairshare or AWS Batch: an AWS of their own.

Imports nothing heavy until one is entered. The page ``docs/testing.md`` shows it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from fairshare.local.faults import Faults, as_text
from fairshare.local.processes.period import DEFAULT_PERIOD_SECONDS, check_period
from fairshare.model import UsageError
from fairshare.scheduler.clock import Clock, VirtualClock

if TYPE_CHECKING:
    from fairshare.local.call_log import ApiCall, CallLog
    from fairshare.local.processes.allotment import Allotment
    from fairshare.local.server import LauncherName, LocalServer

Part = TypeVar("Part")
Mode = Literal["in_process", "server"]

DEFAULT_REGION: Final = "us-east-1"
START: Final = 1_767_225_600_000
"""Where the virtual clock of an in-process AWS begins, in milliseconds: 2026-01-01T00:00:00Z."""


class LocalAWS:
    """AWS on this machine, from empty, inside a ``with`` block::

        with LocalAWS() as aws:
            batch = aws.client("batch")
            ...
            aws.advance(60)

    In-process, boto3 is patched (make clients and sessions inside the block) and time stands still until `advance`
    moves it. A server listens on 127.0.0.1 and can be reached by other processes; its time is the machine's.

    Args:
        mode: ``in_process`` or ``server``. One of either at a time in a process.
        launcher: ``simulated``: a job's run time is its variable ``FAIRSHARE_SIM_SECONDS``. ``process``, of a server
            only: its script runs on this machine.
        speed: divides simulated run times.
        faults: rules of what goes wrong, as for ``fairshare local start --faults``; or one of them.
        region: of `client` and `environment`.
        state_dir: of a server: where its state is and stays. Default: a directory that goes with the block.
        clock: in place of the default one.
        metrics_period: of a server with processes: seconds between two values of what a training script uses.
        allotment: of the same: what its utilisation is a part of. Default: the machine.

    Raises:
        UsageError: a choice that cannot be; at the begin of the block, when this process has a local AWS already.
    """

    def __init__(  # noqa: PLR0913 - keywords, each with a default
        self,
        mode: Mode = "in_process",
        *,
        launcher: LauncherName = "simulated",
        speed: float = 1.0,
        faults: str | Sequence[str] = (),
        region: str = DEFAULT_REGION,
        state_dir: Path | None = None,
        clock: Clock | None = None,
        metrics_period: float = DEFAULT_PERIOD_SECONDS,
        allotment: Allotment | None = None,
    ) -> None:
        if mode == "in_process" and launcher == "process":
            raise UsageError(
                "The process launcher needs a server: its jobs are processes that call it",
                hint='Write LocalAWS("server", launcher="process").',
            )
        if mode == "in_process" and state_dir is not None:
            raise UsageError(
                "An in-process AWS keeps nothing", hint='Leave state_dir out, or write LocalAWS("server").'
            )
        self.region = region
        self._mode = mode
        self._launcher: LauncherName = launcher
        self._speed = speed
        self._rules = Faults((faults,) if isinstance(faults, str) else faults).rules
        self._state_dir = state_dir
        self._metrics_period = check_period(metrics_period)
        self._allotment = allotment
        self._clock = clock or (VirtualClock(START) if mode == "in_process" else None)
        self._undo = ExitStack()
        self._faults: Faults | None = None
        self._call_log: CallLog | None = None
        self._server: LocalServer | None = None
        self._new_client: Callable[[str, str], Any] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            if self._mode == "server":
                self._enter_server(undo)
            else:
                self._enter_process(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._faults = self._call_log = self._server = self._new_client = None
        self._undo.close()

    @property
    def endpoint_url(self) -> str:
        """Where the server listens, e.g. ``http://127.0.0.1:40571``. Raises UsageError in-process: nothing listens."""
        if self._server is None:
            raise UsageError("This local AWS has no address", hint='Enter LocalAWS("server") to get one.')
        return self._server.address.endpoint_url

    @property
    def calls(self) -> list[ApiCall]:
        """What was called and not refused by a fault, oldest first."""
        return self._entered(self._call_log).calls()

    def environment(self) -> dict[str, str]:
        """Return the variables with which AWS's clients, in this or another process, find this AWS and no account.

        Unset ``AWS_PROFILE`` beside them, if it may be set: it would name a profile that is not there.
        """
        self._entered(self._faults)
        variables = {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        if self._server is not None:
            address = self._server.address
            variables |= {
                "AWS_ACCESS_KEY_ID": address.access_key_id,
                "AWS_SECRET_ACCESS_KEY": address.secret_access_key,
                "AWS_ENDPOINT_URL": address.endpoint_url,
                "NO_PROXY": "127.0.0.1",
            }
        return variables

    def client(self, service: str, region: str | None = None) -> Any:
        """Return a boto3 client of this AWS."""
        return self._entered(self._new_client)(service, region or self.region)

    def faults(self, *rules: str, **rule: float | str | Sequence[str]) -> None:
        """Replace what goes wrong: rules as text, one more as keywords; nothing = nothing goes wrong any more::

            aws.faults(lost_reply=0.5, ops=["SubmitServiceJob", "TerminateServiceJob"], seed=7)

        Raises:
            UsageError: a rule that cannot be.
        """
        wanted = (*rules, as_text(rule)) if rule else rules
        if self._server is not None:
            self._server.set_faults(wanted)
        else:
            self._entered(self._faults).replace(wanted)

    def advance(self, seconds: float) -> None:
        """Let time pass at once. Raises UsageError when the clock is the machine's."""
        if not isinstance(self._clock, VirtualClock):
            raise UsageError(
                "The time of this local AWS is the machine's and cannot be advanced",
                hint="Use the in-process mode, or give clock=VirtualClock(...), or shorten run times with speed=.",
            )
        self._clock.advance(round(seconds * 1000))

    def _enter_process(self, undo: ExitStack) -> None:
        from fairshare.local.inprocess import local_aws

        faults = Faults(self._rules)
        entered = undo.enter_context(local_aws(self._clock, speed=self._speed, faults=faults))
        self._faults, self._call_log, self._new_client = faults, entered.call_log, entered.client

    def _enter_server(self, undo: ExitStack) -> None:
        from fairshare.local.endpoint import LocalEndpoint
        from fairshare.local.server import LocalServer

        state_dir = self._state_dir or Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="fairshare-")))
        self._server = undo.enter_context(
            LocalServer(
                state_dir=state_dir,
                launcher=self._launcher,
                speed=self._speed,
                clock=self._clock,
                faults=self._rules,
                metrics_period=self._metrics_period,
                allotment=self._allotment,
            )
        )
        address = self._server.address
        endpoint = LocalEndpoint(address.endpoint_url, address.access_key_id, address.secret_access_key)
        undo.callback(endpoint.close)
        self._faults, self._call_log = self._server.faults, self._server.call_log
        self._new_client = endpoint.client

    def _entered(self, part: Part | None) -> Part:
        if part is None:
            raise UsageError("This local AWS is not running", hint="Use it inside `with LocalAWS() as aws:`.")
        return part
