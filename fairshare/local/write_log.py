"""What the state directory of the local AWS holds: the log of everything that changed its state, and S3's bodies.

``calls.jsonl``: one JSON object a line (`fairshare.submit.lines`), 0600; the kinds of records are those of
`fairshare.local.history`. ``s3/<sha256>``: bodies of S3 requests, each content once. Both only grow: a
SubmitServiceJob takes about 1 KB and its payload, and a body stays after its object has gone. ``fairshare local start
--fresh`` begins anew.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairshare.model import FairshareError, InvalidFileError, Problem
from fairshare.submit.lines import check_seq, decode, encode

FORMAT: Final = 1
"""Version of the log's format."""

LOG_NAME: Final = "calls.jsonl"
BODIES_NAME: Final = "s3"
START_AGAIN: Final = "`fairshare local start --fresh` puts the old state aside and begins from empty"


class WriteLog:
    """The log, open for reading first and for appending afterwards. One process at a time.

    `append` is called under the local AWS's lock; `sync` without it, by several threads, which share one fsync.

    Args:
        path: the file; made when it does not exist.

    Raises:
        InvalidFileError: its first line is damaged, or of another version.
        FairshareError: it cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._syncing = threading.Lock()
        self._problem: str | None = None
        self._written = self._synced = 0
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            header = self._read_header()
            if header is None:
                self.append("header", {"format": FORMAT, "seed": secrets.token_hex(16)})
                self.sync()
                _sync_folder(path.parent)
                header = self._read_header()
        except OSError as error:
            raise _cannot(path, error) from error
        assert header is not None
        self.seed: str = header["seed"]
        """Random text that ids are made from; the same as long as the log lives."""

    @property
    def next_seq(self) -> int:
        """The number of the record that is appended next."""
        return self._written

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Give every record behind the header with the number of its line; then cut a torn last line.

        Raises:
            InvalidFileError: damage other than a torn last line; names the line.
        """
        sound = number = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    number -= 1
                    break
                record = self._decode(line, number)
                if number > 1:
                    yield number, record
                sound += len(line)
        os.ftruncate(self._file, sound)
        os.fsync(self._file)
        self._written = self._synced = number

    def append(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Add a record; it is on the disk after the next `sync`.

        Raises:
            FairshareError: the disk is full. Nothing can be added any more: what happened since is not in the log.
        """
        self.check()
        line = encode(self._written, kind, fields)
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                os.ftruncate(self._file, before)
                raise OSError(0, "the disk is full")
        except OSError as error:
            self._problem = error.strerror
            raise _cannot(self.path, error) from error
        self._written += 1

    def sync(self) -> int:
        """Put what was appended before the call on the disk. Returns how many records are there."""
        wanted = self._written
        with self._syncing:
            if self._synced < wanted:
                written = self._written
                try:
                    os.fsync(self._file)
                except OSError as error:
                    self._problem = error.strerror
                    raise _cannot(self.path, error) from error
                self._synced = written
            return self._synced

    def check(self) -> None:
        """Raise FairshareError when nothing can be added any more."""
        if self._problem is not None:
            raise FairshareError(
                f"{self.path} could not be written ({self._problem}), so no change is accepted any more",
                hint="free some space and start the local AWS again",
            )

    def close(self) -> None:
        """Let the file go."""
        os.close(self._file)

    def _read_header(self) -> dict[str, Any] | None:
        """Return the first record, or None when there is no whole first line: then nothing was ever acknowledged."""
        with self.path.open("rb") as file:
            line = file.readline()
        if not line.endswith(b"\n"):
            os.ftruncate(self._file, 0)
            return None
        header = self._decode(line, 1)
        if header.get("format") != FORMAT:
            raise self._damaged(1, f"it has format {header.get('format')}, this fairshare reads format {FORMAT}")
        return header

    def _decode(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            record = decode(line[:-1])
            check_seq(record, number - 1)
        except (ValueError, KeyError) as error:
            raise self._damaged(number, f"damaged log: {error}") from None
        return record

    def _damaged(self, number: int, what: str) -> InvalidFileError:
        return InvalidFileError([Problem(str(self.path), number, 1, what, hint=START_AGAIN)])


class BodyFiles:
    """Bodies by content: a body is there whole and on the disk, or not at all.

    Args:
        folder: made when the first one is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, body: bytes) -> str:
        """Keep a body; return its name. Raises FairshareError when it cannot be written."""
        name = hashlib.sha256(body).hexdigest()
        path = self._folder / name
        if path.exists():
            return name
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
            _sync_folder(self._folder)
        except OSError as error:
            raise _cannot(path, error) from error
        return name

    def read(self, name: str) -> bytes:
        """Return a body. Raises FairshareError when it is not there."""
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise FairshareError(f"cannot read {self._folder / name}: {error.strerror}", hint=START_AGAIN) from None

    def keep_only(self, names: set[str]) -> None:
        """Remove every other file: bodies of requests that were refused, or never finished."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name not in names:
                    path.unlink()


def put_aside(state_dir: Path, names: Sequence[str], at: int) -> None:
    """Move what there is of these files and folders into ``old-<at>``, out of the way."""
    present = [state_dir / name for name in names if (state_dir / name).exists()]
    if present:
        aside = state_dir / f"old-{at}"
        aside.mkdir(mode=0o700)
        for path in present:
            path.rename(aside / path.name)


def _cannot(path: Path, error: OSError) -> FairshareError:
    return FairshareError(
        f"cannot keep the state of the local AWS in {path}: {error.strerror}",
        hint="free some space, or choose another directory with --state-dir",
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
