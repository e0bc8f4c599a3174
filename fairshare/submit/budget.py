"""The rate budget that all fairshare processes of a user on a host share, for one account, region and address.

It is a small file in the runtime directory, changed under a lock. Its times are on the machine's monotonic clock, which
is one for all processes and does not jump; it begins anew at each boot, so the file carries the boot's id, and its name
the host (a home directory may be shared by hosts). A file that cannot be believed counts as a token just taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.model import FairshareError
from fairshare.submit.rate import Bucket

if TYPE_CHECKING:
    from filelock import BaseFileLock

_LOCK_SECONDS: Final = 10
"""A change takes well under a millisecond: who waits so long waits for a process that was stopped."""

_FURTHEST_MS: Final = 600_000
"""A token further away than this is of another boot: ten minutes of sending by all processes together."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class BudgetKey:
    """Whose calls share a budget. ``endpoint_url`` None = AWS."""

    account_id: str
    region: str
    endpoint_url: str | None
    host: str

    @property
    def file_name(self) -> str:
        """A file name of its own for each key."""
        return f"rate-{sha256(json.dumps(asdict(self)).encode()).hexdigest()[:24]}.json"


def boot_id() -> str:
    """Return what identifies this boot of the machine; "" where the system does not say (then times alone must do)."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


class SharedBucket:
    """A token bucket in a file, on the machine's monotonic clock. An adapter of `fairshare.submit.rate.Buckets`.

    Args:
        folder: the runtime directory; made when missing.
        key: whose budget.
        uptime: milliseconds on a clock that is the same for all processes of the host and never jumps.
        boot: of the machine.
    """

    def __init__(self, folder: Path, key: BudgetKey, uptime: Callable[[], int], boot: str) -> None:
        self._path = folder / key.file_name
        self._uptime = uptime
        self._boot = boot
        self._lock: BaseFileLock | None = None

    @contextmanager
    def taken(self, now: int) -> Iterator[tuple[Bucket, int]]:
        """Lend the bucket, with the time on its own clock.

        Raises:
            FairshareError: the file cannot be written, or its lock is not to be had.
        """
        from filelock import Timeout

        try:
            with self._locked():
                time = self._uptime()
                bucket = self._read(time)
                yield bucket, time
                self._write(bucket)
        except Timeout:
            raise FairshareError(
                f"the rate budget {self._path} has been locked for {_LOCK_SECONDS} seconds",
                hint="is another fairshare process stopped (Ctrl-Z)? Let it go on, or end it",
            ) from None
        except OSError as error:
            raise FairshareError(
                f"cannot keep the rate budget in {self._path.parent}: {error.strerror}",
                hint="set XDG_RUNTIME_DIR or FAIRSHARE_STATE_DIR to a directory that can be written",
            ) from error

    def _locked(self) -> BaseFileLock:
        if self._lock is None:
            from filelock import FileLock

            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock(self._path.with_suffix(".lock"), mode=0o600, timeout=_LOCK_SECONDS)
        return self._lock

    def _read(self, time: int) -> Bucket:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return Bucket()
        try:
            return self._believed(json.loads(text), time)
        except (ValueError, KeyError, TypeError):
            return Bucket(next_at=Fraction(time + 1000))

    def _believed(self, state: Mapping[str, Any], time: int) -> Bucket:
        """Return the bucket of the file; a full one when it is of another boot; ValueError when it makes no sense."""
        next_at, percent, slowed_at = Fraction(state["next_at"]), int(state["percent"]), state["slowed_at"]
        if state["boot_id"] != self._boot or next_at > time + _FURTHEST_MS:
            return Bucket()
        if not 0 < percent <= 100:
            raise ValueError(f"{percent} percent")
        if slowed_at is not None and int(slowed_at) > time:
            slowed_at = None
        return Bucket(next_at, percent, slowed_at)

    def _write(self, bucket: Bucket) -> None:
        # Microseconds are kept, rounded up: exact fractions would grow, and a token must not come early.
        micros = -(-bucket.next_at * 1000 // 1)
        state = {"boot_id": self._boot, "next_at": f"{micros}/1000", "percent": bucket.percent}
        text = json.dumps({**state, "slowed_at": bucket.slowed_at}).encode()
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text)
        finally:
            os.close(file)
