"""One fairshare at a time changes a stack, as far as this machine goes.

The lock is the operating system's and ends with its holder, however that ends. Between machines there is no lock: there
`fairshare.provision.stale` notices that somebody else was at work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from fairshare.model import FairshareError

if TYPE_CHECKING:
    from filelock import BaseFileLock


class BusyError(FairshareError):
    """Another process of this machine is changing the same stack."""

    code = "Busy"


@dataclass(frozen=True)
class StackPlace:
    """A stack and where it lives. ``endpoint_url`` None = AWS."""

    stack: str
    region: str
    account_id: str
    endpoint_url: str | None = None

    @property
    def file_name(self) -> str:
        """A file name of its own for each place."""
        digest = sha256(json.dumps(asdict(self)).encode()).hexdigest()
        return f"{self.stack[:64]}-{digest[:16]}"


@contextmanager
def stack_lock(folder: Path, place: StackPlace, command: str) -> Iterator[None]:
    """Hold a stack while its resources are changed.

    Args:
        folder: of the lock files; made when missing.
        place: which stack.
        command: what the holder does, for others to read: ``fairshare setup``.

    Raises:
        BusyError: somebody else holds it.
        FairshareError: the folder cannot be written.
    """
    holder = folder / f"{place.file_name}.json"
    lock = _acquire(holder, place.stack, command)
    try:
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _acquire(holder: Path, stack: str, command: str) -> BaseFileLock:
    from filelock import FileLock, Timeout

    lock = FileLock(holder.with_suffix(".lock"), mode=0o600)
    try:
        holder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock.acquire(timeout=0)
        holder.write_text(json.dumps({"pid": os.getpid(), "command": command}), encoding="utf-8")
    except Timeout:
        raise BusyError(
            f"stack {stack} is being changed by {_holder_text(holder)}",
            hint="Wait until it has ended, then run the same command again to see what is left to do.",
        ) from None
    except OSError as error:
        lock.release()
        raise FairshareError(
            f"cannot keep a lock in {holder.parent}: {error.strerror}",
            hint="Set FAIRSHARE_STATE_DIR to a directory that can be written.",
        ) from error
    return lock


def _holder_text(holder: Path) -> str:
    """Say who holds a lock. The file may be missing, or left behind by a process that was killed."""
    try:
        found = json.loads(holder.read_text(encoding="utf-8"))
        os.kill(found["pid"], 0)
        return f"process {found['pid']} of this machine (`{found['command']}`)"
    except (OSError, ValueError, KeyError, TypeError):
        return "another fairshare process of this machine"
