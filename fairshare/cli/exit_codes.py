"""What each exit code means: one table for every ``--help`` and for ``fairshare help exit-codes``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

EXIT_CODES: Final = {
    0: "ok",
    1: "failed",
    2: "wrong usage, or an invalid file",
    3: "some of many failed",
    4: "not found",
    5: "refused, or can never run",
    6: "credentials",
    7: "throttled, or out of quota",
    8: "timeout",
    10: "the plan has changes, or an alarm is firing",
    11: "an alarm lacks data",
    130: "interrupted (Ctrl-C)",
    143: "terminated (SIGTERM)",
}

_ALWAYS: Final = (0, 1, 2)
"""Codes that every command may end with."""


def exit_code_line(codes: Iterable[int]) -> str:
    """Return one line naming the codes that matter for a command, e.g. ``0 ok, 1 failed, 4 not found``."""
    return ", ".join(f"{code} {EXIT_CODES[code]}" for code in sorted({*_ALWAYS, *codes}))
