"""Which entries of a source directory are not source: names that never are, and what its ignore files say.

A ``.fairshareignore`` at the top of the directory decides for the whole tree; without one, the ``.gitignore`` files of
the tree do, each for what lies below it, as git reads them (https://git-scm.com/docs/gitignore). Ignore files above the
directory are not read: what is uploaded depends on nothing but the directory.

Names that are never source (`DEFAULT_IGNORES`) stay out whatever a pattern such as ``!*/`` takes back. Only a line of
``.fairshareignore`` that names one in full does: ``!.env.example``.

Patterns are translated by pathspec. Its own matching answers for whole files only; a walk must know of each directory
whether to enter it, so the last rule that matches the entry itself, not something above it, decides here.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from fairshare.model import UsageError

IGNORE_FILE: Final = ".fairshareignore"
GIT_IGNORE_FILE: Final = ".gitignore"

DEFAULT_IGNORES: Final = (
    *(".git", ".hg", ".svn", IGNORE_FILE, GIT_IGNORE_FILE),
    *(".venv", "node_modules", "__pycache__", "*.pyc"),
    *(".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".ipynb_checkpoints", ".DS_Store"),
    *(".env", ".env.*", ".envrc", ".netrc", ".aws", ".ssh"),
)
"""Names (shell patterns) that are never source: history, environments, caches, secrets (case C14).

A pattern is compared with each part of a path, never with a piece of a part: ``.venv`` leaves ``scripts/venv.py`` in. A
virtual environment under any other name is known by its ``pyvenv.cfg``.
"""

_POSIX_CLASSES: Final = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:xdigit:]": "0-9a-fA-F",
}
_DIRECTORY_MARK: Final = "ps_d"
"""Group of a pathspec regular expression that matches the slash after the entry that the pattern names."""


@dataclass(frozen=True)
class Ignores:
    """What to leave out: entries whose name matches one of ``names``, and with ``files`` what ignore files say."""

    names: tuple[str, ...] = DEFAULT_IGNORES
    files: bool = True


class IgnoreRules:
    """The rules of one directory. Paths are relative to it, with ``/`` between their parts."""

    def __init__(self, root: Path, ignores: Ignores) -> None:
        self._root = root
        self._names = ignores.names
        self._files = ignores.files
        self._rules_of: dict[str, list[_Rule]] = {}
        self._has_own = ignores.files and (root / IGNORE_FILE).is_file()
        lines = _lines_of(root / IGNORE_FILE) if self._has_own else []
        self._taken_back = {line[1:].strip().strip("/").rpartition("/")[2] for line in lines if line.startswith("!")}

    def reason(self, path: str, *, is_directory: bool) -> str | None:
        """Return why an entry is left out, None if it is not. What lies above it is not looked at."""
        name = posixpath.basename(path)
        by_name = next((pattern for pattern in self._names if fnmatchcase(name, pattern)), None)
        if by_name is not None and name not in self._taken_back:
            return f"never source: {by_name}"
        if is_directory and self._names and (self._root / path / "pyvenv.cfg").exists():
            return "a virtual environment"
        for folder in self._deciding_folders(path):
            relative = path[len(folder) + 1 :] if folder else path
            for rule in reversed(self._rules(folder)):
                if rule.matches(relative, is_directory=is_directory):
                    return rule.place if rule.ignores else None
        return None

    def reason_above(self, path: str, *, is_directory: bool) -> str | None:
        """Return why an entry, or a directory on the way to it, is left out."""
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        reasons = (self.reason(folder, is_directory=True) for folder in above)
        return next(filter(None, reasons), None) or self.reason(path, is_directory=is_directory)

    def _deciding_folders(self, path: str) -> Iterator[str]:
        """Yield the folders whose ignore files speak of a path, the one that has the last word first."""
        if self._has_own:
            yield ""
        elif self._files:
            folder = posixpath.dirname(path)
            while folder:
                yield folder
                folder = posixpath.dirname(folder)
            yield ""

    def _rules(self, folder: str) -> list[_Rule]:
        if folder not in self._rules_of:
            file = posixpath.join(folder, IGNORE_FILE if self._has_own else GIT_IGNORE_FILE)
            self._rules_of[folder] = list(_rules_in(self._root, file))
        return self._rules_of[folder]


@dataclass(frozen=True)
class _Rule:
    """One line of an ignore file. ``place`` is ``.gitignore:3``."""

    regex: re.Pattern[str]
    ignores: bool
    place: str

    def matches(self, path: str, *, is_directory: bool) -> bool:
        """Whether the rule speaks of the entry itself. ``path`` is relative to the folder of the ignore file."""
        if _DIRECTORY_MARK not in self.regex.groupindex:
            return self.regex.search(path) is not None
        entry = f"{path}/" if is_directory else path
        return any(match.end(_DIRECTORY_MARK) in (-1, len(entry)) for match in self.regex.finditer(entry))


def _rules_in(root: Path, file: str) -> Iterator[_Rule]:
    """Yield the rules of an ignore file, none if there is no such file. A line that is no pattern matches nothing."""
    if not (root / file).is_file():
        return
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    for number, line in enumerate(_lines_of(root / file), start=1):
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `re` on a "[" inside of "[...]", which git takes as it is
            pattern = GitIgnoreSpecPattern(_for_pathspec(line))
            if pattern.regex is not None and pattern.include is not None:
                yield _Rule(pattern.regex, pattern.include, f"{file}:{number}")


def _for_pathspec(line: str) -> str:
    """Write a pattern so that pathspec reads it as git does: it has no POSIX classes and takes ``a/**/`` for ``a/``."""
    for name, characters in _POSIX_CLASSES.items():
        line = line.replace(name, characters)
    return f"{line.rstrip()}*/" if line.rstrip().endswith("/**/") else line


def _lines_of(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}", hint="make it readable") from error
    return [line.removesuffix("\r") for line in text.split("\n")]
