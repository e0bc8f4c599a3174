"""What of an earlier run is worth another one: its jobs that failed, were refused, or were never sent.

``resume --failed`` sends those as they were; this is for a new run, with what the job file and the sources say now.
Jobs of the two runs are matched by label: the job's name, with what its sweep varied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from fairshare.config.jobs import JobSpec
from fairshare.model import NotFoundError, UsageError
from fairshare.submit.journal import list_runs
from fairshare.submit.naming import assign_names, label_of
from fairshare.submit.records import RunRecord


def latest_run_of(runs_dir: Path, job_file: str | None) -> RunRecord:
    """Return the newest run that a job file was submitted as.

    Args:
        runs_dir: of the journals; damaged ones are passed over.
        job_file: absolute path; None = the jobs are not from a job file.

    Raises:
        UsageError: there is no job file to go by.
        NotFoundError: no run is of that file.
    """
    if job_file is None:
        raise UsageError("--only-failed: of which run? The jobs are not from a job file", hint="add --run RUN")
    for run in list_runs(runs_dir, on_damage=lambda error: None):
        if run.identity.job_file == job_file:
            return run
    raise NotFoundError(f"no run of {job_file} was submitted from this machine", hint="leave --only-failed out")


def labels_left(record: RunRecord) -> list[str]:
    """Return the labels of jobs that did not succeed and do not go on, in the order of the run.

    A job that was skipped because it was not needed is not among them.
    """
    left = [job for job in record.jobs if job.has_failed or job.state in {"waiting", "unknown"}]
    return [label_of(job.request.job_name, record.run_id) for job in left]


def only(expanded: Sequence[Sequence[JobSpec]], labels: Collection[str], run_id: str) -> list[list[JobSpec]]:
    """Return those of a run's jobs whose label is among the given ones.

    Args:
        expanded: the jobs that each written job became.
        labels: from `labels_left`.
        run_id: of the run that the jobs are for.

    Raises:
        NotFoundError: it is none of them.
    """
    names = assign_names(run_id, [job.name for jobs in expanded for job in jobs])
    chosen = iter([label_of(each.job_name, run_id) in labels for each in names])
    found = [
        [job for job, is_chosen in zip(jobs, list(islice(chosen, len(jobs))), strict=True) if is_chosen]
        for jobs in expanded
    ]
    if not any(found):
        raise NotFoundError("none of the jobs that did not succeed is there any more", hint="submit all, or resume")
    return found
