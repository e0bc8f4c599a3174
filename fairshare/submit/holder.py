"""Who holds a run: an exclusive lock, and a note beside it that tells others truthfully who has it.

The lock is the operating system's and ends with its holder, however that ends. The note is written after the lock was
got and removed before it is given back, so a note that is left over is one of a process that was killed.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from fairshare.model import FairshareError

if TYPE_CHECKING:
    from filelock import BaseFileLock


class RunHeldError(FairshareError):
    """Another process is sending, or resuming, the same run."""

    code = "Busy"


@dataclass(frozen=True)
class Holder:
    """A process that holds a run. ``since`` is milliseconds since the epoch.

    ``command`` names the command only: its flags may hold secrets (case C46).
    """

    command: str
    since: int
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.since)
        return f"process {self.pid} on {self.host} since {moment:%Y-%m-%d %H:%M:%S} UTC (`{self.command}`)"

    @property
    def may_be_alive(self) -> bool:
        """Whether the process is there, as far as can be told from here."""
        if self.host != socket.gethostname():
            return True
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except OSError:
            return False
        return True


class RunLock:
    """The lock of one run, got by `acquire`."""

    def __init__(self, lock: BaseFileLock, note: Path) -> None:
        self._lock = lock
        self._note = note

    @classmethod
    def acquire(cls, path: Path, holder: Holder) -> RunLock:
        """Lock the run whose journal is ``path``; its directory is made when missing.

        Raises:
            RunHeldError: another process holds it; the message says who.
            FairshareError: the directory cannot be written.
        """
        from filelock import FileLock, Timeout

        note = path.with_suffix(".holder")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = FileLock(path.with_suffix(".lock"), mode=0o600)
            lock.acquire(timeout=0)
        except Timeout:
            raise RunHeldError(
                f'run "{path.stem}" is held by {_holder_text(note)}',
                hint="wait for it to end, or stop it with Ctrl-C there; `fairshare runs` shows how far it is",
            ) from None
        except OSError as error:
            raise FairshareError(
                f"cannot keep runs in {path.parent}: {error.strerror}",
                hint="set FAIRSHARE_STATE_DIR to a directory that can be written",
            ) from error
        with suppress(OSError):  # a full disk is told when the journal is written
            note.write_text(json.dumps(asdict(holder)), encoding="utf-8")
        return cls(lock, note)

    def release(self) -> None:
        """Let the run go. Idempotent."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._note.unlink(missing_ok=True)
            self._lock.release()


def _holder_text(note: Path) -> str:
    with suppress(OSError, ValueError, TypeError):
        holder = Holder(**json.loads(note.read_text(encoding="utf-8")))
        if holder.may_be_alive:
            return str(holder)
    return "another fairshare process"
