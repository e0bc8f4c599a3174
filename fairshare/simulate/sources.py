"""A workload from a file, whatever its kind: traces by their names, workload files otherwise."""

from __future__ import annotations

from pathlib import Path

from fairshare.simulate.generate import generate
from fairshare.simulate.trace import TraceFormat, is_trace, load_trace
from fairshare.simulate.workload import Workload
from fairshare.simulate.workload_file import load_workload_file


def load_workload(path: Path, seed: int | None = None, how: TraceFormat | None = None) -> Workload:
    """Read a workload; ``seed`` is for workload files (None = theirs), ``how`` for traces.

    Raises:
        InvalidFileError: the file is wrong.
        UsageError: columns of a CSV trace are not said, or no job runs.
    """
    if is_trace(path):
        return load_trace(path, how or TraceFormat())
    return generate(load_workload_file(path), path, seed)
