"""A workload: jobs, when they come and how long they run. Everything that is not the scheduler's to decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairshare.model import UsageError


class WorkJob(NamedTuple):
    """One job. Times are milliseconds, ``submit_at`` counts from the begin of the workload.

    ``queue`` is a key of the project's queues; "" = the simulation's own. ``share`` is a share identifier, or the quota
    share of a queue that has such. ``instance_type`` counts only there; "" = the only one that the share has.
    """

    id: str
    submit_at: int
    run_time: int
    demand: int
    share: str
    priority: int = 0
    queue: str = ""
    instance_type: str = ""


@dataclass(frozen=True)
class Workload:
    """Jobs in the order they come; those of one instant in the order of their source.

    ``left_out`` counts jobs of the source that never ran (no run time, or no instance), and ``assumptions`` says what
    the source did not tell and somebody decided.
    """

    name: str
    jobs: Sequence[WorkJob]
    left_out: int = 0
    assumptions: tuple[str, ...] = ()


def workload_of(
    name: str,
    jobs: Iterable[WorkJob],
    *,
    left_out: int = 0,
    assumptions: tuple[str, ...] = (),
    from_first: bool = True,
) -> Workload:
    """Return a workload; its time begins with its first job, unless ``from_first`` is False.

    Raises:
        UsageError: there is no job.
    """
    ordered = sorted(jobs, key=lambda job: job.submit_at)
    if not ordered:
        raise UsageError(f"{name} has no job that runs", hint="check it, and which columns are mapped")
    if from_first and (begin := ordered[0].submit_at):
        ordered = [job._replace(submit_at=job.submit_at - begin) for job in ordered]
    return Workload(name, ordered, left_out, assumptions)


def merge(workloads: Sequence[Workload]) -> Workload:
    """Return several workloads as one; they begin together, and job ids get the workload's name where they repeat."""
    if len(workloads) == 1:
        return workloads[0]
    ids = [job.id for workload in workloads for job in workload.jobs]
    repeats = len(set(ids)) < len(ids)
    jobs = [
        job._replace(id=f"{number}:{job.id}") if repeats else job
        for number, workload in enumerate(workloads, 1)
        for job in workload.jobs
    ]
    return Workload(
        " + ".join(workload.name for workload in workloads),
        sorted(jobs, key=lambda job: job.submit_at),
        sum(workload.left_out for workload in workloads),
        tuple(dict.fromkeys(text for workload in workloads for text in workload.assumptions)),
    )
