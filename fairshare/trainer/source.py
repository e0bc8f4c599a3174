"""A directory as what is uploaded of it: relative POSIX paths, content and exec bits, in a fixed order.

Decides what is left out (case C14), which symbolic links may be followed (case C15) and how much is too much. Knows
nothing of S3 or of the SageMaker SDK.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from fairshare.model import UsageError

DEFAULT_IGNORES: Final = (
    *(".git", ".hg", ".svn"),
    *(".venv", "node_modules", "__pycache__", "*.pyc"),
    *(".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".ipynb_checkpoints", ".DS_Store"),
    *(".env", ".env.*", ".envrc", ".netrc", ".aws", ".ssh"),
)
"""Names (shell patterns) that are never source: history, environments, caches, secrets.

A pattern is compared with each part of a path, never with a piece of a part: ``.venv`` leaves ``scripts/venv.py`` in. A
virtual environment under any other name is known by its ``pyvenv.cfg``.
"""

SIZE_LIMIT: Final = 200 * 1024 * 1024
"""Bytes that one directory may upload."""

_SHOWN: Final = 3
"""Largest entries that the size error names."""


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
    left_out: tuple[str, ...] = ()

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

    def __contains__(self, path: object) -> bool:
        return any(file.path == path for file in self.files)


def collect(root: Path, ignore: Sequence[str] = DEFAULT_IGNORES, size_limit: int = SIZE_LIMIT) -> SourceTree:
    """Read a directory.

    Args:
        root: the directory; may itself be a symbolic link.
        ignore: shell patterns of names to leave out.
        size_limit: bytes that may not be exceeded; checked before any content is read.

    Raises:
        UsageError: no such directory, a symbolic link that leads outside of it or nowhere, a file that cannot be read,
            a name that is not UTF-8, or more than ``size_limit`` bytes.
    """
    if not root.is_dir():
        raise UsageError(f"{root}: not a directory", hint="give the directory that holds the training script")
    walk = _Walk(root, ignore)
    walk.enter(walk.real_root, "", frozenset())
    _check_size(root, walk.found, size_limit)
    files = tuple(_read(root, path, real) for path, real in sorted(walk.found.items()))
    return SourceTree(root, files, tuple(sorted(walk.left_out)))


class _Walk:
    """One pass over a directory that finds files and reads none."""

    def __init__(self, root: Path, ignore: Sequence[str]) -> None:
        self.root = root
        self.real_root = root.resolve()
        self.found: dict[str, Path] = {}
        self.left_out: list[str] = []
        self._ignore = ignore

    def enter(self, directory: Path, prefix: str, ancestors: frozenset[Path]) -> None:
        """Look at everything in a directory; ``ancestors`` are the real directories that led here."""
        ancestors |= {directory}
        for entry in sorted(self._entries(directory), key=lambda e: e.name):
            path = prefix + entry.name
            real = None if self._is_ignored(entry.name) else self._follow(entry, path)
            if real is None or real in ancestors:
                self.left_out.append(path)
            elif not real.is_dir():
                self._add(path, real)
            elif (real / "pyvenv.cfg").exists():
                self.left_out.append(f"{path}/")
            else:
                self.enter(real, f"{path}/", ancestors)

    def _entries(self, directory: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return list(entries)
        except PermissionError as error:
            raise UsageError(f"{directory}: cannot be read: {error.strerror}", hint="make it readable") from error

    def _add(self, path: str, real: Path) -> None:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{self.root}: the file name {os.fsencode(path)!r} is not UTF-8, which S3 cannot hold",
                hint="rename the file",
            ) from None
        if real.is_file():
            self.found[path] = real
        else:
            self.left_out.append(path)

    def _is_ignored(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._ignore)

    def _follow(self, entry: os.DirEntry[str], path: str) -> Path | None:
        """Return where an entry's content is; None when a link leads to something that is ignored."""
        if not entry.is_symlink():
            return Path(entry.path)
        try:
            real = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
            raise UsageError(
                f"{self.root / path}: a symbolic link that leads nowhere ({Path(entry.path).readlink()})",
                hint="remove the link, or make its target",
            ) from None
        if not real.is_relative_to(self.real_root):
            raise UsageError(
                f"{self.root / path}: a symbolic link to {real}, which is outside of the source directory",
                hint="copy what the link leads to into the source directory: nothing outside of it is ever uploaded",
            )
        inside = real.relative_to(self.real_root).parts
        return None if any(map(self._is_ignored, inside)) else real


def _read(root: Path, path: str, real: Path) -> SourceFile:
    try:
        return SourceFile(path, real.read_bytes(), executable=bool(real.stat().st_mode & 0o100))
    except OSError as error:
        raise UsageError(f"{root / path}: cannot be read: {error.strerror}", hint="make it readable") from error


def _check_size(root: Path, found: dict[str, Path], limit: int) -> None:
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
        hint="move data to S3 and name it under inputs, or keep it outside of the source directory",
    )


def _entry_size(name: str, paths: list[str], sizes: dict[str, int]) -> str:
    if paths == [name]:
        return f"  {name}  {_mib(sizes[name])}"
    largest = max(paths, key=lambda path: sizes[path])
    whole = _mib(sum(sizes[path] for path in paths))
    return f"  {name}/  {whole} in {len(paths)} files, the largest {largest} with {_mib(sizes[largest])}"


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"
