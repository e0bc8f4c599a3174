"""``submit --only-failed``: which jobs of an earlier run did not succeed, asked and told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fairshare.cli.context import AppContext
from fairshare.cli.render import count
from fairshare.cli.submit_flags import RunFlags
from fairshare.model import UsageError

if TYPE_CHECKING:
    from fairshare.config.jobs import JobSpec
    from fairshare.submit.dispatch import SubmitPlan

_NAMES_SHOWN: Final = 10


def labels_to_send(context: AppContext, specs: Sequence[JobSpec], flags: RunFlags) -> frozenset[str] | None:
    """Return the labels of the jobs that failed, were refused or never sent in an earlier run, and say how many.

    None without ``--only-failed``: all jobs are to be sent.

    Args:
        context: of the command.
        specs: the jobs to submit; without ``--run``, the latest run of their job file is the one.
        flags: of the command.

    Raises:
        UsageError: the jobs are not from a job file, and no run is named.
        NotFoundError: there is no such run.
        RunHeldError: a process is sending it: what it has not sent, it will.
    """
    if not flags.only_failed:
        if flags.run is not None:
            raise UsageError("--run is for --only-failed", hint="to name the new run, give --run-id")
        return None
    return _labels_of_failed(context, specs, flags.run)


def _labels_of_failed(context: AppContext, specs: Sequence[JobSpec], run: str | None) -> frozenset[str]:
    from fairshare.cli.submission import job_file_of
    from fairshare.submit.holder import Holder
    from fairshare.submit.journal import Journal, find_run
    from fairshare.submit.only_failed import labels_left, latest_run_of
    from fairshare.submit.recovery import check_place, settle

    runs_dir, now = context.runs_dir, context.clock.now()
    record = find_run(runs_dir, run) if run is not None else latest_run_of(runs_dir, job_file_of(specs))
    check_place(record, context.region, context.session.account_id)
    with Journal.open(record.path, Holder("fairshare submit --only-failed", now)) as journal:
        record = settle(journal, context.jobs, now)
    labels = labels_left(record)
    context.out.talk(
        f"{len(labels)} of {count(len(record.jobs), 'job')} of run {record.run_id} failed, were refused or never sent"
    )
    return frozenset(labels)


def show_nothing_left(context: AppContext) -> None:
    """Print the answer of a command that has nothing to send."""
    nothing: list[Any] = []
    context.out.show(
        "Run",
        {"run_id": None, "jobs": nothing, "refused": nothing, "skipped": nothing, "not_sent": nothing},
        text=lambda width: "",
        rows="jobs",
        name="job_id",
    )
    context.out.talk("Nothing was sent")


def tell_missing(context: AppContext, plan: SubmitPlan, labels: frozenset[str] | None) -> None:
    """Say which of the jobs are not in the new run because nothing has their label any more."""
    from fairshare.submit.naming import label_of

    missing = sorted(
        (labels or frozenset()) - {label_of(job.request.job_name, plan.identity.run_id) for job in plan.jobs}
    )
    if missing:
        more = f" and {len(missing) - _NAMES_SHOWN} more" if len(missing) > _NAMES_SHOWN else ""
        names = ", ".join(missing[:_NAMES_SHOWN])
        context.out.talk(f"warning: {count(len(missing), 'job')} of them not found any more: {names}{more}")
