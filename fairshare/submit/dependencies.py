"""``after``: which jobs of a run wait for which, from the names that a job file has to the places in the run.

The name of a sweep or an array stands for all its jobs, on both sides: each job of the later one waits for every job of
the earlier one. Jobs that share a name are waited for together.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from fairshare.config.errors import did_you_mean
from fairshare.config.jobs import JobSpec
from fairshare.submit.report import Finding, Report
from fairshare.submit.requests import After


def check_dependencies(report: Report, written: Sequence[JobSpec]) -> None:
    """Note names that no job has, jobs that wait for themselves, and cycles, each with all its jobs: ``a -> b -> a``.

    Args:
        report: where to.
        written: all jobs of the run, sweeps and arrays not expanded.
    """
    names = list(dict.fromkeys(job.name for job in written))
    graph: dict[str, dict[str, None]] = {name: {} for name in names}
    for job in written:
        for index, dependency in enumerate(job.after):
            at = ("after", str(index))
            if dependency.job not in graph:
                hint = did_you_mean(dependency.job, names, "jobs")
                report.add(job, Finding(f'it comes after "{dependency.job}", and there is no such job', at, hint))
            elif dependency.job == job.name:
                report.add(job, Finding("it comes after itself", at, "remove its own name from after"))
            else:
                graph[job.name][dependency.job] = None
    while cycle := _cycle(graph):
        _report_cycle(report, written, cycle)
        del graph[cycle[0]][cycle[1]]


def expand_dependencies(written: Sequence[JobSpec], expanded: Sequence[Sequence[JobSpec]]) -> list[tuple[After, ...]]:
    """Return for each job of a run what it waits for.

    Args:
        written: all jobs of the run as written; `check_dependencies` had nothing to say.
        expanded: the jobs that each of them became, in the order of the run. One that became none is not waited for.

    Returns:
        for each job of ``expanded``, all in one row, pairs of places in that row and the condition.
    """
    places: dict[str, list[int]] = {}
    start = 0
    for spec, jobs in zip(written, expanded, strict=True):
        places.setdefault(spec.name, []).extend(range(start, start + len(jobs)))
        start += len(jobs)
    shared = {name: tuple(indexes) for name, indexes in places.items()}
    after = [tuple((shared[each.job], each.when) for each in spec.after if shared[each.job]) for spec in written]
    return [waits for waits, jobs in zip(after, expanded, strict=True) for _ in jobs]


def _cycle(graph: dict[str, dict[str, None]]) -> list[str]:
    """Return the names of one cycle, the first one again at the end; it begins with the job that is written first."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        around: list[str] = error.args[1][:0:-1]  # from the one that waits to the one that is waited for
        first = min(around, key=list(graph).index)
        start = around.index(first)
        return [*around[start:], *around[:start], first]
    return []


def _report_cycle(report: Report, written: Sequence[JobSpec], cycle: Sequence[str]) -> None:
    message = f"it comes after itself: {' -> '.join(cycle)}"
    for job in written:
        for index, dependency in enumerate(job.after):
            if (job.name, dependency.job) == (cycle[0], cycle[1]):
                hint = "remove one of these from its after"
                report.add(job, Finding(message, ("after", str(index)), hint))
                return
