"""Findings beside a plan: few lines, and none that is wider than the terminal."""

from __future__ import annotations

import pytest

from fairshare.cli.findings import findings_in_short
from fairshare.model import Problem


def finding(line: int) -> Problem:
    return Problem("fairshare.yaml", line, 3, f"queue q{line} " + "forgets what was used " * 6, "P04", "remember")


@pytest.mark.parametrize("width", [60, 80])
def test_each_finding_has_one_line_and_a_few_are_shown(width: int) -> None:
    lines = findings_in_short([finding(line) for line in range(7, 16)], width).splitlines()

    assert lines[0] == "Lint: 9 findings in fairshare.yaml"
    assert lines[1].startswith("  P04  line 7   queue q7 forgets what was used")
    assert len(lines) == 7
    assert max(map(len, lines)) <= width
    assert lines[-1] == "  4 more, and what to change: `fairshare policy lint`."


def test_one_finding() -> None:
    lines = findings_in_short([finding(7)], None).splitlines()

    assert lines[0] == "Lint: 1 finding in fairshare.yaml"
    assert lines[1].endswith("forgets what was used")
    assert lines[2:] == ["  What to change: `fairshare policy lint`."]
