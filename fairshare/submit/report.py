"""What is wrong with the jobs of a submission, collected: all problems of all jobs, each where its value was written.

A rule is a function that yields `Finding`\\ s and knows of no job; a `Report` joins them with the jobs they are about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairshare.config.jobs import JobSpec, Origin
from fairshare.model import InfeasibleError, InvalidFileError, Problem

NEVER_FITS: Final = "capacity"
"""Key of a problem that is about feasibility, not about how something was written."""

_SECTION_OF: Final = {
    "instance_type": "compute",
    "instance_count": "compute",
    "entry": "source",
    "requirements": "source",
}
"""Keys that stand one level down in a job file."""

_RAW_FIELD_OF: Final = {
    "hyperparameters": "HyperParameters",
    "environment": "Environment",
    "inputs": "InputDataConfig",
    "output": "OutputDataConfig",
    "checkpoint": "CheckpointConfig",
    "compute": "ResourceConfig",
    "image": "AlgorithmSpecification",
    "role": "RoleArn",
    "max_runtime": "StoppingCondition",
}
"""Where a value that the job file does not have under its own key may stand below ``training_job``."""


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a value. ``at`` is where a job file has the value: ``("hyperparameters", "lr")``."""

    message: str
    at: tuple[str, ...] = ()
    hint: str = ""
    severity: str = "error"
    """``error`` or ``warning``."""


class Report:
    """Collects what is wrong; jobs with the same finding at the same place become one problem."""

    def __init__(self) -> None:
        self._jobs: dict[Problem, dict[str, None]] = {}
        self._unbuildable: set[tuple[Origin, str]] = set()

    def error(self, job: JobSpec, message: str, *, key: str = "", hint: str = "", stops_build: bool = False) -> None:
        """Note what stops the submission. ``stops_build``: without it there is no point in building the payload."""
        self.add(job, Finding(message, (key,) if key else (), hint), stops_build=stops_build)

    def warning(self, job: JobSpec, message: str, *, key: str = "", hint: str = "") -> None:
        """Note what the user should know."""
        self.add(job, Finding(message, (key,) if key else (), hint, "warning"))

    def add_all(self, job: JobSpec, findings: Iterable[Finding], *, stops_build: bool = False) -> None:
        """Note what a rule found."""
        for finding in findings:
            self.add(job, finding, stops_build=stops_build)

    def add(self, job: JobSpec, finding: Finding, *, stops_build: bool = False) -> None:
        """Note one finding."""
        if stops_build and finding.severity == "error":
            self._unbuildable.add((job.origin, job.name))
        where = _place_of(finding.at, job.origin)
        problem = Problem(
            where.file,
            where.line,
            where.column,
            finding.message,
            ".".join(finding.at),
            finding.hint,
            finding.severity,
            source_line=where.source_line,
        )
        self._jobs.setdefault(problem, {})[job.name] = None

    def can_build(self, job: JobSpec) -> bool:
        """Whether nothing was noted for the job without which its payload cannot be built."""
        return (job.origin, job.name) not in self._unbuildable

    def problems(self) -> list[Problem]:
        """Return the problems in file order, each with the job it is about and how many share it."""
        return sorted(replace(each, message=f"{_whose(jobs)}: {each.message}") for each, jobs in self._jobs.items())


def raise_errors(problems: Sequence[Problem]) -> None:
    """Raise when there is an error among the problems.

    Raises:
        InfeasibleError: all that is wrong is that jobs are larger than their environment (case C16).
        InvalidFileError: anything else; holds the errors and the warnings.
    """
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors and all(problem.key == NEVER_FITS for problem in errors):
        raise InfeasibleError("\n".join(map(str, errors)), hint=errors[0].hint)
    if errors:
        raise InvalidFileError(list(problems))


def _place_of(at: tuple[str, ...], origin: Origin) -> Origin:
    """The most exact place that is known: of the value, of the sweep or raw field it comes from, of its section."""
    if at == (NEVER_FITS,):
        at = ("instance_count",)
    if len(at) == 1 and (section := _SECTION_OF.get(at[0])):
        at = (section, *at)
    section = at[0] if at else ""
    candidates = [at]
    if section == "hyperparameters":
        candidates.append(("sweep", *at[1:]))
    candidates += [("training_job", _RAW_FIELD_OF.get(section, section)), (section,)]
    return next((origin.keys[path] for path in candidates if path in origin.keys), origin)


def _whose(names: Iterable[str]) -> str:
    first, *others = names
    shown = first if len(first) <= 40 else first[:37] + "..."
    return f'job "{shown}"' + (f" and {len(others)} more" if others else "")
