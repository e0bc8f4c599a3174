"""The memory of the local AWS: every change is written down before it is acknowledged, and done again at start.

State is a deterministic replay: the same calls at the same instants, with the same ids, through the same code. What is
written down (`fairshare.local.write_log`), each record with the instant ``at`` it acts at:

========  =============================================================================================================
session   a server started, with its launcher, speed and faults; what ran in processes before has failed
call      a request that changes something and was not refused, with its body (of S3: a file)
reports   what the process launcher did with its attempts; the simulated one would say the same again
moved     jobs were started or stopped by the passing of time alone
faults    the faults were changed
========  =============================================================================================================

One lock is held from reading the clock to writing the record, so the order of the log is the order of the effects. A
call is answered, and the launcher told to start what the call started, when its record is on the disk: threads that
wait for the disk at the same time share one fsync.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from fairshare.local.call_log import CALL_KEY, ApiCall
from fairshare.local.faults import Faults
from fairshare.local.guard import Application, Environ, StartResponse
from fairshare.local.held_launcher import HeldLauncher
from fairshare.local.launcher import Launcher, Report
from fairshare.local.repeatable import InstantClock
from fairshare.local.runtime import Runtime
from fairshare.local.write_log import START_AGAIN, BodyFiles, WriteLog
from fairshare.local.wsgi_call import Answer, describe_request, make_request
from fairshare.model import FairshareError, InvalidFileError, JobStatus, Problem

RESTARTED: Final = "InternalServerError: the local AWS was restarted"
"""Why an attempt failed whose process ended with the server. A retry strategy may take it up, nothing else does."""

_CHECKED: Final = "SubmitServiceJob"
"""The operation whose answer must be the same again: it holds the job's id."""

_REPEATED: Final = ApiCall("", "a call of the past", True)


@dataclass(frozen=True)
class Session:
    """How a server runs jobs: ``launcher`` is ``simulated`` or ``process``, ``faults`` are rules as written."""

    launcher: str
    speed: float
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Machinery:
    """What a history moves, all of it on the clock and under the lock given here."""

    app: Application
    runtime: Runtime
    launcher: HeldLauncher
    clock: InstantClock
    faults: Faults
    lock: AbstractContextManager[Any]
    reseed: Callable[[str], None]
    """Makes the random ids of other services follow from a text."""
    simulated: Callable[[float], Launcher]
    """Makes a simulated launcher of a speed."""


class History:
    """WSGI application in front of the services, which remembers; and what the driver pumps.

    Args:
        log: where it is written.
        bodies: where S3's bodies are.
        machinery: see there.
    """

    def __init__(self, log: WriteLog, bodies: BodyFiles, machinery: Machinery) -> None:
        self._log = log
        self._bodies = bodies
        self._does = machinery
        self._session: Session | None = None
        self._is_closed = False

    # -- the present -----------------------------------------------------------------------------------------------

    def answer(self, call: ApiCall, environ: Environ, body: bytes, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request; when it changed something, only after that is on the disk.

        Raises:
            FairshareError: the disk is full.
        """
        fields: dict[str, Any] = {}
        if call.is_write:
            self._log.check()
            fields = {"request": describe_request(environ)} | self._keep(call, body)
        with self._instant() as at:
            if call.is_write:
                self._does.reseed(f"{self._log.seed}/{self._log.next_seq}")
            answered = Answer(self._does.app, environ)
            if call.is_write and answered.status < 400:
                checksum = zlib.crc32(answered.body) if call.operation == _CHECKED else None
                self._log.append("call", {"at": at, "status": answered.status, "checksum": checksum, **fields})
        self._settle()
        start_response(answered.status_line, answered.headers)
        return [answered.body]

    def pump(self) -> None:
        """Do everything that is due, and write down what that started."""
        with self._instant():
            self._does.runtime.pump()
        self._settle()

    def next_event_at(self) -> int | None:
        """Return the instant, in milliseconds, at which something will happen by itself; None = nothing will."""
        return self._does.runtime.next_event_at()

    def set_faults(self, rules: tuple[str, ...]) -> None:
        """Change the faults. Raises UsageError for a rule that cannot be."""
        with self._instant() as at:
            self._change_faults(rules)
            self._log.append("faults", {"at": at, "rules": rules})
        self._settle()

    def begin(self, session: Session, launcher: Launcher | None) -> None:
        """Go on from what `replay` brought back.

        Args:
            session: how jobs run from now on.
            launcher: the process launcher; None with the simulated one.
        """
        with self._does.lock, self._does.clock.held() as at:
            self._log.append("session", {"at": at} | asdict(session))
            self._enter(session, launcher, at)
            self._note_moves(at)
        self._settle()

    def close(self) -> None:
        """Take in no more of what the launcher does: what runs now was interrupted, whatever becomes of it.

        Calls are still answered, so that a job that is being stopped can save its files.
        """
        with self._does.lock:
            self._is_closed = True

    @contextmanager
    def _instant(self) -> Iterator[int]:
        """Hold the lock and the clock; take in what the launcher did, and write down what begins and ends."""
        does = self._does
        with does.lock, does.clock.held() as at:
            if not self._is_closed and (reports := does.launcher.news(at)):
                self._log.append("reports", {"at": at, "reports": [asdict(report) for report in reports]})
                self._log.sync()
                self._receive(reports)
            try:
                yield at
            finally:
                self._note_moves(at)

    def _note_moves(self, at: int) -> None:
        if self._does.launcher.has_orders:
            self._log.append("moved", {"at": at})

    def _settle(self) -> None:
        self._does.launcher.carry_out(self._log.sync())

    def _change_faults(self, rules: tuple[str, ...]) -> None:
        self._does.runtime.pump()  # what is due by now meets the old ones
        self._does.faults.replace(rules)

    def _receive(self, reports: Iterable[Report]) -> None:
        self._does.launcher.arrive(reports)
        self._does.runtime.pump()

    def _keep(self, call: ApiCall, body: bytes) -> dict[str, str]:
        """Return the fields that tell a body."""
        if not body:
            return {}
        if call.service == "s3":
            return {"body_file": self._bodies.keep(body)}
        try:
            return {"body": body.decode()}
        except UnicodeDecodeError:
            return {"body_base64": base64.b64encode(body).decode()}

    # -- the past --------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Do everything again that the log tells.

        Raises:
            InvalidFileError: a line is damaged, or has another outcome than it had; names the line.
        """
        used: set[str] = set()
        with self._does.lock:
            for number, record in self._log.read():
                used.add(record.get("body_file", ""))
                try:
                    with self._does.clock.held(record["at"]) as at:
                        self._repeat(record, at)
                except FairshareError as error:
                    raise self._refused(number, error.message) from None
                except Exception as error:
                    what = f"it cannot be done again ({type(error).__name__}: {error})"
                    raise self._refused(number, what) from error
        self._bodies.keep_only(used)

    def _repeat(self, record: Mapping[str, Any], at: int) -> None:
        match record["type"]:
            case "call":
                self._repeat_call(record)
            case "reports":
                self._receive(_as_report(fields) for fields in record["reports"])
            case "moved":
                self._does.runtime.pump()
            case "faults":
                self._change_faults(tuple(record["rules"]))
            case "session":
                self._enter(Session(record["launcher"], record["speed"], tuple(record["faults"])), None, at)
            case kind:
                raise FairshareError(f'unknown record "{kind}"')

    def _repeat_call(self, record: Mapping[str, Any]) -> None:
        self._does.reseed(f"{self._log.seed}/{record['seq']}")
        environ = make_request(record["request"], self._body(record)) | {CALL_KEY: _REPEATED}
        answered = Answer(self._does.app, environ)
        if answered.status != record["status"]:
            raise FairshareError(f"the call was answered with {record['status']}, and is with {answered.status} now")
        if record["checksum"] not in (None, zlib.crc32(answered.body)):
            raise FairshareError("the call was answered otherwise; perhaps another version of fairshare wrote it")

    def _body(self, record: Mapping[str, Any]) -> bytes:
        if "body_file" in record:
            return self._bodies.read(record["body_file"])
        if "body_base64" in record:
            return base64.b64decode(record["body_base64"])
        return str(record.get("body", "")).encode()

    def _enter(self, session: Session, launcher: Launcher | None, at: int) -> None:
        """Change over to a session at ``at`` ms: simulated runs go on, whatever ran in processes has failed."""
        does, before = self._does, self._session
        if before is not None and before.launcher == "simulated":
            does.runtime.pump()
        reports = []
        if before is not None and "process" in (before.launcher, session.launcher):
            reports = [Report(*key, JobStatus.FAILED, at, RESTARTED) for key in does.launcher.in_flight(at)]
        does.faults.replace(session.faults)
        if session.launcher == "simulated":
            does.launcher.use(does.simulated(session.speed), foresees=True)
        else:
            does.launcher.use(launcher, foresees=False)
        self._session = session
        self._receive(reports)

    def _refused(self, number: int, what: str) -> InvalidFileError:
        return InvalidFileError([Problem(str(self._log.path), number, 1, what, hint=START_AGAIN)])


def _as_report(fields: Mapping[str, Any]) -> Report:
    return Report(**{**fields, "status": JobStatus(fields["status"])})
