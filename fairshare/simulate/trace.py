"""Reads traces: CSV files with any columns, and the Standard Workload Format (SWF), both also gzipped.

Only jobs that ran count: those with a run time and a size above 0. A line that cannot be read is an error with its file
and line; nothing is guessed. SWF: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from fairshare.model import MAX_PRIORITY, InvalidFileError, Problem, UsageError
from fairshare.simulate.columns import (
    MAP_EXAMPLE,
    NEEDED,
    TIME_UNITS,
    Row,
    has_header,
    number_reader,
    text_index,
)
from fairshare.simulate.workload import WorkJob, Workload, workload_of

SWF_FIELDS: Final = (
    *("id", "submit", "wait", "run", "alloc_procs", "cpu", "mem", "req_procs", "req_time"),
    *("req_mem", "status", "user", "group", "app", "queue", "partition", "prev", "think"),
)
_SWF_MAP: Final = {"submit": "submit", "duration": "run", "size": "alloc_procs", "share": "user", "id": "id"}

FORMATS: Final = ("csv", "swf")

ALL: Final = "all"
"""The share of every job when no column says one."""

_MAX_PROBLEMS: Final = 20
_UNKNOWN: Final = "none"
"""The share of jobs whose field is empty."""


@dataclass(frozen=True)
class TraceFormat:
    """How to read a trace.

    ``format`` None = by the file's name. ``mapped`` is what `fairshare.simulate.columns.parse_map` gives, ``unit`` how
    many of what the trace counts make one instance: sizes are divided by it and rounded up.
    """

    format: str | None = None
    mapped: Mapping[str, str] = field(default_factory=dict)
    unit: int = 1


def is_trace(path: Path) -> bool:
    """Whether a file's name says that it is a trace."""
    return _format_by_name(path) is not None


def load_trace(path: Path, how: TraceFormat) -> Workload:
    """Read a trace.

    Raises:
        UsageError: the format or a column is not said, or does not exist.
        InvalidFileError: the file or lines of it cannot be read.
    """
    format = how.format or _format_by_name(path)
    if format not in FORMATS:
        raise UsageError(f"{path}: is it CSV or SWF?", hint="give --format csv or --format swf")
    if how.unit < 1:
        raise UsageError(f"--unit {how.unit}: an instance cannot hold less than one", hint="leave it out, or give 1")
    with _open_text(path) as file:
        return _Reader(path, how).swf(file) if format == "swf" else _Reader(path, how).csv(file)


def _format_by_name(path: Path) -> str | None:
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    return suffix if suffix in FORMATS else None


@contextmanager
def _open_text(path: Path) -> Iterator[TextIO]:
    try:
        open_text = gzip.open if path.name.lower().endswith(".gz") else open
        with open_text(path, "rt", encoding="utf-8-sig", errors="strict", newline="") as file:
            yield file
    except UnicodeDecodeError:
        raise InvalidFileError([Problem(str(path), 0, 0, "is not UTF-8 text", hint="convert it")]) from None
    except (EOFError, zlib.error):
        raise InvalidFileError([Problem(str(path), 0, 0, "is not a whole gzip file", hint="fetch it again")]) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidFileError([Problem(str(path), 0, 0, f"cannot be read: {reason}")]) from None


class _Reader:
    """Turns the rows of one trace into jobs, and collects what is wrong."""

    def __init__(self, path: Path, how: TraceFormat) -> None:
        self._path = path
        self._mapped = dict(how.mapped)
        self._unit = how.unit
        self._scale = TIME_UNITS[self._mapped.pop("time", "s")]
        self._problems: list[Problem] = []
        self._left_out = 0

    def swf(self, file: TextIO) -> Workload:
        self._mapped = _SWF_MAP | self._mapped
        job_of = self._job_reader(SWF_FIELDS)
        lines = ((number, line.split()) for number, line in enumerate(file, 1) if not line.startswith(";"))
        return self._workload((row for row in lines if row[1]), job_of, len(SWF_FIELDS))

    def csv(self, file: TextIO) -> Workload:
        rows = csv.reader(file)
        named = has_header(self._mapped)
        header = [name.strip() for name in next(rows, [])] if named else []
        if missing := [key for key in NEEDED if key not in self._mapped]:
            said = f" (columns: {', '.join(header)})" if header else ""
            raise UsageError(f"{self._path}: no column is mapped to {', '.join(missing)}{said}", hint=MAP_EXAMPLE)
        job_of = self._job_reader(header)
        try:
            return self._workload(((rows.line_num, row) for row in rows if row), job_of, len(header))
        except csv.Error as error:
            raise InvalidFileError([Problem(str(self._path), rows.line_num, 1, f"not CSV: {error}")]) from None

    def _workload(
        self, rows: Iterator[tuple[int, Row]], job_of: Callable[[int, Row], WorkJob | None], width: int
    ) -> Workload:
        jobs: list[WorkJob] = []
        for line, row in rows:
            try:
                if width and len(row) != width:
                    raise ValueError(f"has {len(row)} fields, not {width}")
                job = job_of(len(jobs) + self._left_out + 1, row)
            except ValueError as error:
                self._problem(line, str(error))
            except IndexError:
                self._problem(line, f"has only {len(row)} fields")
            else:
                if job is None:
                    self._left_out += 1
                else:
                    jobs.append(job)
        if self._problems:
            raise InvalidFileError(self._problems)
        if "share" in self._mapped:
            jobs = _with_named_shares(jobs, self._mapped["share"])
        return workload_of(self._path.name, jobs, left_out=self._left_out, assumptions=self._assumptions())

    def _job_reader(self, header: Sequence[str]) -> Callable[[int, Row], WorkJob | None]:
        """Return what makes a job of a row with its number; None for a job that never ran."""
        submit, duration, size = (number_reader(self._mapped[key], header, self._scale) for key in NEEDED)
        priority = number_reader(self._mapped["priority"], header, 1.0) if "priority" in self._mapped else None
        share_of = _share_reader(self._mapped.get("share"), header)
        id_index = text_index(self._mapped["id"], header) if "id" in self._mapped else None
        type_index = text_index(self._mapped["type"], header) if "type" in self._mapped else None
        scale, unit = self._scale, self._unit

        def job_of(number: int, row: Row) -> WorkJob | None:
            run_time, demand = duration(row), size(row)
            if run_time is None or demand is None or run_time <= 0 or demand <= 0:
                return None
            at = submit(row)
            if at is None:
                raise ValueError("a job that ran has no time of submission")
            return WorkJob(
                id=row[id_index] if id_index is not None else str(number),
                submit_at=round(at * scale),
                run_time=max(1, round(run_time * scale)),
                demand=math.ceil(demand / unit),
                share=share_of(row),
                priority=0 if priority is None else _priority(priority(row)),
                instance_type="" if type_index is None else row[type_index].strip(),
            )

        return job_of

    def _problem(self, line: int, message: str) -> None:
        if len(self._problems) == _MAX_PROBLEMS:
            self._problems.append(Problem(str(self._path), line, 1, "more problems follow"))
            raise InvalidFileError(self._problems)
        self._problems.append(Problem(str(self._path), line, 1, message))

    def _assumptions(self) -> tuple[str, ...]:
        share = self._mapped.get("share")
        texts = [f"{self._path.name}: {f'each {share} is a share' if share else f'every job is of share {ALL}'}"]
        if self._unit > 1:
            texts.append(f"{self._path.name}: {self._unit} of its units are one instance, rounded up")
        return tuple(texts)


def _share_reader(column: str | None, header: Sequence[str]) -> Callable[[Row], str]:
    if column is None:
        return lambda row: ALL
    index = text_index(column, header)
    return lambda row: row[index].strip() or _UNKNOWN


def _with_named_shares(jobs: list[WorkJob], column: str) -> list[WorkJob]:
    """Put a column's name before its shares where all of them are bare numbers: ``user12``; -1 is SWF's "not known"."""
    found = {job.share for job in jobs} - {_UNKNOWN}
    if not all(share.lstrip("-").isdigit() for share in found):
        return jobs
    prefix = "share" if column.startswith("#") else column
    names = {share: _UNKNOWN if share.startswith("-") else prefix + share for share in found} | {_UNKNOWN: _UNKNOWN}
    return [job._replace(share=names[job.share]) for job in jobs]


def _priority(value: float | None) -> int:
    if value is None or not 0 <= value <= MAX_PRIORITY:
        raise ValueError(f"a priority lies between 0 and {MAX_PRIORITY}")
    return int(value)
