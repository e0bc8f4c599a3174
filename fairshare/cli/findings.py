"""What `fairshare.insight.lint` finds, with its place in the files: for ``policy lint`` and the plan of ``setup``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.cli.render import Column, count, table
from fairshare.model import Problem

if TYPE_CHECKING:
    from fairshare.config.jobs import JobFile
    from fairshare.config.project import Project
    from fairshare.insight.traps import Trap

_SHOWN: Final = 5
"""Findings that a plan shows; ``fairshare policy lint`` has them all."""


def findings_of(project: Project, files: Sequence[JobFile] = ()) -> list[Problem]:
    """Return the traps of a project and of job files that are sent to its queues. ``key`` is the code of a trap."""
    from fairshare.insight.lint import find_traps

    return list(_located(project, find_traps(project, files)))


def finding_document(problem: Problem) -> dict[str, Any]:
    """Return a finding for ``-o json``."""
    return {
        "code": problem.key,
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "change": problem.hint,
    }


def findings_in_short(findings: Sequence[Problem], width: int | None) -> str:
    """Return findings for people who came for something else: a line for each, of a few of them."""
    shown = findings[:_SHOWN]
    columns = [Column(""), Column(""), Column("", shrinks=True, prose=True)]
    rows = [[f"  {each.key}", f"line {each.line}", each.message] for each in shown]
    lines = table(columns, rows, width).splitlines()[1:]
    more = f"{len(findings) - len(shown)} more, and what" if len(findings) > len(shown) else "What"
    heading = f"Lint: {count(len(findings), 'finding')} in {Path(findings[0].file).name}"
    return "\n".join([heading, *lines, f"  {more} to change: `fairshare policy lint`."])


def _located(project: Project, traps: Sequence[Trap]) -> Iterator[Problem]:
    """Yield traps as problems with their places in the files."""
    from fairshare.config.yaml_source import parse_yaml, read_text

    document = parse_yaml(read_text(project.file), str(project.file))
    for trap in traps:
        if trap.origin is None:
            found = document.problem(trap.steps, trap.message, hint=trap.change, severity="warning", at_key=True)
            yield replace(found, key=trap.code)
        else:
            at = trap.origin
            place = (at.file, at.line, at.column)
            yield Problem(*place, trap.message, trap.code, trap.change, "warning", at.source_line)
