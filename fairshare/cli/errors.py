"""How an error is told: to people as ``file:line:column`` with the line and a caret, to programs as a JSON document."""

from __future__ import annotations

import re
from typing import Any, Final

from fairshare.cli.render import count, display_width, safe
from fairshare.model import API_VERSION, FairshareError, InterruptedRunError, InvalidFileError, Problem

_LINES: Final = "\n"
"""What a message may hold beside visible characters."""

_WORD: Final = re.compile(r"[^\s,:\[\]{}#]+")

_MAY_SHOW_A_SECRET: Final = re.compile(r"token|secret|passw|passphrase|credential|key|://[^/\s]*@", re.IGNORECASE)

_CELLS_SHOWN: Final = 160
"""Of a line in a file; a longer one is cut on both sides of the place."""


def error_text(error: FairshareError) -> str:
    """Return what people read on stderr."""
    if isinstance(error, InvalidFileError):
        total = count(sum(problem.severity == "error" for problem in error.problems), "problem")
        return "\n".join([*(problem_text(problem) for problem in error.problems), f"{total}. Nothing was changed."])
    prefix = "" if isinstance(error, InterruptedRunError) else "error: "
    lines = [prefix + safe(error.message, keep=_LINES)]
    if error.hint:
        lines.append(f"  {safe(error.hint, keep=_LINES)}")
    return "\n".join(lines)


def problem_text(problem: Problem) -> str:
    """Return one problem of a file: the message, then the line it is on with a caret under the place, then the hint.

    A line that may hold a secret is not shown (case C46).
    """
    lines = [safe(str(problem))]
    hint = safe(problem.hint)
    if not problem.source_line or not problem.line or _MAY_SHOW_A_SECRET.search(problem.source_line):
        return "\n".join([*lines, *([f"  {hint}"] if hint else [])])
    source, start = _around(problem.source_line.rstrip("\r\n"), max(0, problem.column - 1))
    margin = f"{problem.line:>5} | "
    before = " " * display_width(_shown(source[:start]))
    caret = "^" * max(1, display_width(_shown(_marked(source, start, problem.key))))
    lines.append(margin + _shown(source))
    lines.append(f"{' ' * 5} | {before}{caret} {hint}".rstrip())
    return "\n".join(lines)


def error_document(error: FairshareError) -> dict[str, Any]:
    """Return the JSON document for ``-o json``."""
    detail: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, InvalidFileError):
        detail["problems"] = [
            {
                "file": problem.file,
                "line": problem.line,
                "column": problem.column,
                "key": problem.key,
                "message": problem.message,
                "hint": problem.hint,
                "severity": problem.severity,
            }
            for problem in error.problems
        ]
    return {"api_version": API_VERSION, "kind": "Error", "error": detail}


def _around(source: str, start: int) -> tuple[str, int]:
    """Return a line, or the part of a long one that is around a place, and where in it the place is."""
    if len(source) <= _CELLS_SHOWN:
        return source, start
    first = max(0, min(start - _CELLS_SHOWN // 4, len(source) - _CELLS_SHOWN))
    part = source[first : first + _CELLS_SHOWN]
    before, after = "..." if first else "", "..." if first + _CELLS_SHOWN < len(source) else ""
    return before + part + after, len(before) + start - first


def _shown(text: str) -> str:
    """A tab in a source line takes one cell, so that the caret stays under its place."""
    return safe(text.replace("\t", " "))


def _marked(source: str, start: int, key: str) -> str:
    """Return the text that the caret underlines: the key if it stands there, else the word or quoted text."""
    rest = source[start:]
    if key and rest.startswith(key):
        return key
    if rest[:1] in {'"', "'"} and (end := rest.find(rest[0], 1)) > 0:
        return rest[: end + 1]
    word = _WORD.match(rest)
    return word[0] if word else rest[:1]
