"""The local AWS as a server on a loopback port: what `fairshare local start` and the demo run.

Imports moto at the top: import it where a server is started.
"""

from __future__ import annotations

import json
import os
import secrets
import string
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from filelock import FileLock, Timeout

from fairshare.local.call_log import CallLog
from fairshare.local.driver import Driver
from fairshare.local.faults import Faults
from fairshare.local.faulty import FaultyLauncher
from fairshare.local.front import Front, services
from fairshare.local.guard import Guard
from fairshare.local.held_launcher import HeldLauncher
from fairshare.local.history import History, Machinery, Session
from fairshare.local.http_server import HttpServer
from fairshare.local.launcher import Launcher
from fairshare.local.moto_extension import LOCK, installed, publish_training_job
from fairshare.local.moto_hooks import repeatable_moto, reseed
from fairshare.local.processes.period import DEFAULT_PERIOD_SECONDS, check_period
from fairshare.local.repeatable import InstantClock, RegionIds
from fairshare.local.runtime import Runtime
from fairshare.local.simulated import SimulatedLauncher
from fairshare.local.write_log import BODIES_NAME, LOG_NAME, BodyFiles, WriteLog, put_aside
from fairshare.model import FairshareError, UsageError
from fairshare.scheduler.clock import Clock, SystemClock

if TYPE_CHECKING:
    from fairshare.local.processes.allotment import Allotment

LauncherName = Literal["simulated", "process"]

_KEY_ALPHABET: Final = string.ascii_uppercase + "234567"


@dataclass(frozen=True)
class LocalAddress:
    """What a client needs to reach a local AWS."""

    endpoint_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)


class LocalServer:
    """A local AWS on 127.0.0.1 with an access key of its own, new at each start.

    It goes on where the last server of its state directory stopped, even when that was killed.

    Args:
        state_dir: holds the state, the lock, the ready file and the process launcher's ``jobs``; one server at a time.
        launcher: ``process`` runs training scripts on this machine, ``simulated`` lets run times pass.
        port: 0 = any free one.
        ready_file: written once requests are answered, removed at the end: JSON with ``endpoint_url``,
            ``access_key_id``, ``secret_access_key``, ``pid`` and ``launcher``, for its owner's eyes only. Default:
            ``ready.json`` in ``state_dir``.
        speed: divides simulated run times; times stay those of the clock.
        clock: the machine's, unless given.
        python: interpreter of training scripts. Default: this one.
        environ: the environment that the process launcher picks from. Default: this process's.
        faults: rules of what goes wrong (`fairshare.local.faults`).
        fresh: begin from empty; state from before is moved to ``old-<milliseconds>`` in ``state_dir``.
        metrics_period: seconds between two values of each utilisation metric of training scripts.
        allotment: what that utilisation is a part of. Default: what this process may use of the machine.

    Raises:
        UsageError: a rule that cannot be, a period that CloudWatch does not have.
    """

    def __init__(  # noqa: PLR0913 - each is a flag of `fairshare local start`, or stands in for the machine
        self,
        *,
        state_dir: Path,
        launcher: LauncherName = "simulated",
        port: int = 0,
        ready_file: Path | None = None,
        speed: float = 1.0,
        clock: Clock | None = None,
        python: Path | None = None,
        environ: Mapping[str, str] | None = None,
        faults: Sequence[str] = (),
        fresh: bool = False,
        metrics_period: float = DEFAULT_PERIOD_SECONDS,
        allotment: Allotment | None = None,
    ) -> None:
        self.state_dir = state_dir
        self.ready_file = ready_file or state_dir / "ready.json"
        self._jobs_dir = state_dir / "jobs"
        self.clock = clock or SystemClock()
        self.call_log = CallLog()
        self.faults = Faults(faults)
        self._launcher_name = launcher
        self._is_fresh = fresh
        self._metrics_period = check_period(metrics_period)
        self._allotment = allotment
        self._port = port
        self._speed = speed
        self._python = python or Path(sys.executable)
        self._environ = os.environ if environ is None else environ
        self._undo = ExitStack()
        self._address: LocalAddress | None = None
        self._history: History | None = None

    def start(self) -> LocalAddress:
        """Begin to serve. Everything is undone when something fails.

        Raises:
            UsageError: the port is in use, another server uses the state directory, or this process has a local AWS.
            InvalidFileError: the state is damaged, or was written by another version; names the line.
        """
        if self._address is not None:
            return self._address
        with ExitStack() as undo:
            self._own_state_dir(undo)
            self._clear_up()
            http = HttpServer(self._port)
            undo.callback(http.close)
            address = LocalAddress(http.url, _new_access_key(), secrets.token_urlsafe(30))
            wake = threading.Event()
            log = WriteLog(self.state_dir / LOG_NAME)
            undo.callback(log.close)
            launcher, clock = HeldLauncher(lambda: log.next_seq), InstantClock(self.clock)
            runtime = Runtime(
                launcher,
                clock,
                publish_training_job,
                lock=LOCK,
                ids_of=RegionIds(log.seed).of,
                on_change=wake.set,
                faults=self.faults,
            )
            undo.enter_context(installed(runtime, self.call_log))
            undo.enter_context(repeatable_moto(clock))
            machinery = Machinery(services(), runtime, launcher, clock, self.faults, LOCK, reseed, self._simulated)
            history = History(log, BodyFiles(self.state_dir / BODIES_NAME), machinery)
            self._go_on(history, self._process_launcher(address, wake))
            front = Front(history, self.call_log, runtime.events, self.faults, self.clock)
            undo.enter_context(http.serving(Guard(front, access_key_id=address.access_key_id, port=http.port)))
            # Undone from the bottom up: no new attempts; what runs is ended while it can still write to S3 and Logs.
            undo.callback(launcher.close)
            undo.callback(runtime.close)
            undo.callback(history.close)
            driver = Driver(history, self.clock, wake)
            driver.start()
            undo.callback(driver.stop)
            self._write_ready_file(address)
            undo.callback(self.ready_file.unlink, missing_ok=True)
            self._undo = undo.pop_all()
        self._address, self._history = address, history
        return address

    def stop(self) -> None:
        """End attempts, threads and port, and remove the ready file. Idempotent."""
        self._address = self._history = None
        self._undo.close()

    def set_faults(self, rules: Sequence[str]) -> None:
        """Replace what goes wrong. Raises UsageError for a rule that cannot be, FairshareError while it is stopped."""
        if self._history is None:
            raise _not_running()
        self._history.set_faults(tuple(rules))

    def serve_forever(self, stop: threading.Event) -> None:
        """Start if need be, and serve until ``stop`` is set; then stop."""
        with self:
            stop.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> LocalAddress:
        """Where it serves. Raises FairshareError while it does not."""
        if self._address is None:
            raise _not_running()
        return self._address

    def _own_state_dir(self, undo: ExitStack) -> None:
        self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(self.state_dir / "server.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"A local AWS already uses {self.state_dir}{self._who_is_running()}",
                hint="Stop it with `fairshare local stop`, or choose another directory with `--state-dir`.",
            ) from None
        undo.callback(lock.release)

    def _who_is_running(self) -> str:
        try:
            ready = json.loads(self.ready_file.read_text(encoding="utf-8"))
            return f": process {ready['pid']} at {ready['endpoint_url']}"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _go_on(self, history: History, process_launcher: Launcher | None) -> None:
        """Bring back what was before, and begin."""
        rules = self.faults.rules
        history.replay()
        self.call_log.clear()
        history.begin(Session(self._launcher_name, self._speed, rules), process_launcher)

    def _simulated(self, speed: float) -> Launcher:
        return FaultyLauncher(SimulatedLauncher(speed), self.faults, foresees=True, speed=speed)

    def _clear_up(self) -> None:
        """End the processes that a killed server left (the lock on the directory is ours), and put old state aside."""
        if self._jobs_dir.exists():
            from fairshare.local.processes.launcher import ProcessLauncher

            ProcessLauncher.reap_strays(self._jobs_dir)
        if self._is_fresh:
            put_aside(self.state_dir, (LOG_NAME, BODIES_NAME, self._jobs_dir.name), self.clock.now())
            self._is_fresh = False

    def _process_launcher(self, address: LocalAddress, wake: threading.Event) -> Launcher | None:
        """Return the process launcher, if it is wanted."""
        if self._launcher_name != "process":
            return None
        from fairshare.local.processes.launcher import ProcessLauncher

        launcher = ProcessLauncher(
            endpoint_url=address.endpoint_url,
            access_key_id=address.access_key_id,
            secret_access_key=address.secret_access_key,
            jobs_dir=self._jobs_dir,
            python=self._python,
            notify=wake.set,
            clock=self.clock,
            environ=self._environ,
            metrics_period=self._metrics_period,
            allotment=self._allotment,
        )
        return FaultyLauncher(launcher, self.faults, foresees=False, notify=wake.set)

    def _write_ready_file(self, address: LocalAddress) -> None:
        """Write it whole or not at all, readable by its owner only from the first byte."""
        self.ready_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = asdict(address) | {"pid": os.getpid(), "launcher": self._launcher_name}
        handle, temporary = tempfile.mkstemp(dir=self.ready_file.parent, prefix=f".{self.ready_file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(temporary).replace(self.ready_file)


def _not_running() -> FairshareError:
    return FairshareError("The local AWS is not running", hint="Call start() first.")


def _new_access_key() -> str:
    """Return a key id of AWS's shape; 80 random bits of it are what lets a caller in."""
    return "AKIA" + "".join(secrets.choice(_KEY_ALPHABET) for _ in range(16))
