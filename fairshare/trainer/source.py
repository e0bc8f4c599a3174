"""A directory as what is uploaded of it: relative POSIX paths, content and exec bits, in a fixed order.

Decides which symbolic links may be followed (case C15), what cannot be uploaded at all and how much is too much; what
is left out is for `fairshare.trainer.ignore` to say (case C14). A tree is read once and then held: editing the
directory afterwards changes nothing (case C48). Knows nothing of S3 or of the SageMaker SDK.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import posixpath
import tarfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from fairshare.model import UsageError
from fairshare.submit.ports import LeftOut
from fairshare.trainer.ignore import IGNORE_FILE, IgnoreRules, Ignores

SIZE_LIMIT: Final = 200 * 1024 * 1024
"""Bytes that one directory may upload."""

FILE_LIMIT: Final = 10_000
"""Files that one directory may upload."""

PACKED_FROM: Final = 100
"""Files from which on a tree travels as one archive: S3 takes each object as a request of its own."""

_SHOWN: Final = 3
"""Largest entries that an error names."""


@dataclass(frozen=True)
class SourceFile:
    """One file. ``path`` is relative to the root, with ``/`` between its parts on every system."""

    path: str
    body: bytes = field(repr=False)
    executable: bool = False


@dataclass(frozen=True)
class SourceTree:
    """What is uploaded of a directory.

    ``files`` are sorted by path. ``left_out`` names what was ignored, sorted, directories with a ``/`` at the end.
    """

    root: Path
    files: tuple[SourceFile, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(len(file.body) for file in self.files)

    @cached_property
    def digest(self) -> str:
        """64 hex digits that are equal for equal paths, contents and exec bits, and for nothing else.

        Depends neither on the root's place nor on times or the order of a directory listing.
        """
        whole = hashlib.sha256()
        for file in self.files:
            path = file.path.encode()
            whole.update(b"%d:%b%d" % (len(path), path, file.executable))
            whole.update(hashlib.sha256(file.body).digest())
        return whole.hexdigest()

    @cached_property
    def archive(self) -> bytes:
        """The tree as ``tar.gz``, with exec bits and without times, owners or anything else of this machine."""
        packed = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for file in self.files:
                entry = tarfile.TarInfo(file.path)
                entry.size = len(file.body)
                entry.mode = 0o755 if file.executable else 0o644
                archive.addfile(entry, io.BytesIO(file.body))
        return packed.getvalue()

    def travels_packed(self, entry: str | None) -> bool:
        """Whether the tree goes up as one archive rather than file by file.

        It does when it has many files, and when a file is executable: an object in S3 is not. The SDK's scripts make
        ``entry`` executable themselves.
        """
        script = None if entry is None else posixpath.normpath(entry)
        loses_bits = any(file.executable and file.path != script for file in self.files)
        return loses_bits or len(self.files) >= PACKED_FROM

    def reason_left_out(self, path: str) -> str | None:
        """Return why a path, or a directory that it is in, was left out."""
        out = {each.path.rstrip("/"): each.reason for each in self.left_out}
        parents = PurePosixPath(path).parents
        return next((out[str(each)] for each in (PurePosixPath(path), *parents) if str(each) in out), None)

    def __contains__(self, path: object) -> bool:
        return any(file.path == path for file in self.files)


def collect(
    root: Path, ignores: Ignores | None = None, *, size_limit: int = SIZE_LIMIT, file_limit: int = FILE_LIMIT
) -> SourceTree:
    """Read a directory.

    Args:
        root: the directory; may itself be a symbolic link.
        ignores: what to leave out; None = what is never source, and what the ignore files say.
        size_limit: bytes that may not be exceeded; checked before any content is read.
        file_limit: files that may not be exceeded.

    Raises:
        UsageError: no such directory; symbolic links that lead outside of it or nowhere, pipes, sockets or devices,
            what cannot be read, names that are not UTF-8, one line each; or more than one of the limits.
    """
    if not root.is_dir():
        raise UsageError(f"{root}: not a directory", hint="give the directory that holds the training script")
    walk = _Walk(root, Ignores() if ignores is None else ignores)
    walk.enter(walk.real_root, "", frozenset())
    walk.raise_refusals()
    _check_count(root, walk.found, file_limit)
    _check_size(root, walk.found, size_limit)
    files = tuple(_read(root, path, real) for path, real in sorted(walk.found.items()))
    return SourceTree(root, files, tuple(sorted(walk.left_out)))


class _Walk:
    """One pass over a directory that finds files and reads none."""

    def __init__(self, root: Path, ignores: Ignores) -> None:
        self.root = root
        self.real_root = root.resolve()
        self.found: dict[str, Path] = {}
        self.left_out: list[LeftOut] = []
        self._refused: list[tuple[str, str]] = []
        self._rules = IgnoreRules(self.real_root, ignores)

    def enter(self, directory: Path, prefix: str, ancestors: frozenset[Path]) -> None:
        """Look at everything in a directory; ``ancestors`` are the real directories that led here."""
        ancestors |= {directory}
        for name in self._names_in(directory):
            path, place = prefix + name, directory / name
            is_directory = place.is_dir()
            real: Path | None = place
            reason = self._rules.reason(path, is_directory=is_directory)
            if reason is None and place.is_symlink():
                real = self._target(place, path)
                reason = None if real is None else self._reason_behind(real, ancestors)
            if reason is not None:
                self.left_out.append(LeftOut(f"{path}/" if is_directory else path, reason))
            elif real is not None and is_directory:
                self.enter(real, f"{path}/", ancestors)
            elif real is not None:
                self._add(path, real)

    def raise_refusals(self) -> None:
        """Raise what cannot be uploaded, all of it at once, each with what to do about it."""
        if len(self._refused) == 1:
            ((message, hint),) = self._refused
            raise UsageError(message, hint=hint)
        if self._refused:
            raise UsageError("\n".join(f"{message}: {hint}" for message, hint in self._refused))

    def _target(self, link: Path, path: str) -> Path | None:
        """Return what a link leads to; None if it must not be followed."""
        try:
            real = link.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
            message = f"{self.root / path}: a symbolic link that leads nowhere ({link.readlink()})"
            self._refuse(message, "remove the link, or make its target")
            return None
        if not real.is_relative_to(self.real_root):
            message = f"{self.root / path}: a symbolic link to {real}, which is outside of the source directory"
            hint = "copy what it leads to into the source directory: nothing outside of it is ever uploaded"
            self._refuse(message, hint)
            return None
        return real

    def _reason_behind(self, real: Path, ancestors: frozenset[Path]) -> str | None:
        """Return why the target of a link inside the directory is left out."""
        if real in ancestors:
            return "a link to a directory that it is in"
        inside = real.relative_to(self.real_root).as_posix()
        reason = self._rules.reason_above(inside, is_directory=real.is_dir())
        return None if reason is None else f"a link to {inside}, which is left out ({reason})"

    def _names_in(self, directory: Path) -> list[str]:
        try:
            return sorted(entry.name for entry in directory.iterdir())
        except OSError as error:
            self._refuse(f"{directory}: cannot be read: {error.strerror}", "make it readable")
            return []

    def _add(self, path: str, real: Path) -> None:
        try:
            path.encode()
        except UnicodeEncodeError:
            message = f"{self.root}: the file name {os.fsencode(path)!r} is not UTF-8, which S3 cannot hold"
            self._refuse(message, "rename the file")
            return
        if real.is_file():
            self.found[path] = real
        else:
            message = f"{self.root / path}: a pipe, a socket or a device, which has no content to upload"
            self._refuse(message, f"remove it, or name it in {IGNORE_FILE}")

    def _refuse(self, message: str, hint: str) -> None:
        self._refused.append((message, hint))


def _read(root: Path, path: str, real: Path) -> SourceFile:
    try:
        return SourceFile(path, real.read_bytes(), executable=bool(real.stat().st_mode & 0o100))
    except OSError as error:
        raise UsageError(f"{root / path}: cannot be read: {error.strerror}", hint="make it readable") from error


def _check_count(root: Path, found: Mapping[str, Path], limit: int) -> None:
    if len(found) <= limit:
        return
    most = Counter(PurePosixPath(path).parts[0] for path in found).most_common(_SHOWN)
    lines = [f"  {name}/  {count:,} files" for name, count in most if count > 1]
    raise UsageError(
        "\n".join([f"{root}: {len(found):,} files to upload, more than {limit:,}; most of them in:", *lines]),
        hint=f"name what is not source in {IGNORE_FILE}, or move data to S3 and name it under inputs",
    )


def _check_size(root: Path, found: Mapping[str, Path], limit: int) -> None:
    sizes = {path: real.stat().st_size for path, real in found.items()}
    if (total := sum(sizes.values())) <= limit:
        return
    entries: dict[str, list[str]] = {}
    for path in sizes:
        entries.setdefault(PurePosixPath(path).parts[0], []).append(path)
    ranked = sorted(entries.items(), key=lambda entry: -sum(sizes[path] for path in entry[1]))
    lines = [_entry_size(name, paths, sizes) for name, paths in ranked[:_SHOWN]]
    raise UsageError(
        "\n".join([f"{root}: {_mib(total)} to upload, more than {_mib(limit)}; the largest:", *lines]),
        hint=f"move data to S3 and name it under inputs, or name what is not source in {IGNORE_FILE}",
    )


def _entry_size(name: str, paths: list[str], sizes: dict[str, int]) -> str:
    if paths == [name]:
        return f"  {name}  {_mib(sizes[name])}"
    largest = max(paths, key=lambda path: sizes[path])
    whole = _mib(sum(sizes[path] for path in paths))
    return f"  {name}/  {whole} in {len(paths)} files, the largest {largest} with {_mib(sizes[largest])}"


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"
