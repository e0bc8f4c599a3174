"""``fairshare submit``: a script, a job file or a Python target -> checked, planned, shown, sent in waves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.notify import Notifier
from fairshare.cli.only_failed import labels_to_send, show_nothing_left, tell_missing
from fairshare.cli.submit_flags import JobFlags, PaceFlags, QueueFlags, RunFlags, TargetFlags
from fairshare.cli.submit_options import submit_options
from fairshare.cli.submit_targets import read_target
from fairshare.cli.submit_view import expected_of, finish, plan_text, show_plan
from fairshare.cli.triggers import export_run, script_kind

if TYPE_CHECKING:
    from fairshare.cli.submission import PreparedRun
    from fairshare.submit.dispatch import RunResult

app = new_app()

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="TARGET",
        help="train.py, jobs.yaml, module.py:name of ModelTrainers, or - for stdin "
        "(default: jobs.yaml beside the project file).",
    ),
]


@command(
    app,
    examples=(
        "fairshare submit train.py --share HIGHPRI --priority 80 --instance-type ml.g6.12xlarge --hp lr=0.1",
        "fairshare submit train.py --sweep lr=0.1,0.01 --sweep seed=0:8",
        "fairshare submit jobs.yaml --wave-size 8 --interval 90s",
        'fairshare submit jobs.yaml --start-at "08:00 Europe/Berlin" --window "20:00-06:00 Europe/Berlin"',
        "fairshare submit train_all.py:trainers --dry-run",
        "fairshare submit --payload request.json",
    ),
    exit_codes=(3, 4, 5, 6, 7, 130, 143),
)
def submit(
    context: AppContext,
    target_flags: TargetFlags,
    queue_flags: QueueFlags,
    job_flags: JobFlags,
    pace: PaceFlags,
    run_flags: RunFlags,
    target: Target = None,
) -> None:
    """Send training jobs to a queue, in waves.

    Everything that can be known is checked before the first write, and every problem of every job is told at once.
    """
    from fairshare.cli.submission import prepare_run

    notifier = Notifier(context, "submit", run_flags.notify)
    kind = script_kind(run_flags.export_triggers, run_flags.out)
    file = read_target(context, target, target_flags, job_flags)
    options = submit_options(context, file, queue_flags, job_flags, pace)
    labels = labels_to_send(context, file.jobs, run_flags)
    if labels is not None and not labels:
        show_nothing_left(context)
        return
    options = replace(options, only=labels)
    run = prepare_run(context, file.jobs, options, run_id=run_flags.run_id, rate=pace.rate)
    for warning in run.plan.warnings:
        context.out.talk(str(warning))
    tell_missing(context, run.plan, labels)
    if run_flags.dry_run:
        show_plan(context, run)
        return
    if kind is not None:
        export_run(context, run, kind, run_flags.out)
        return
    finish(context, _send(context, run), wait=run_flags.wait, notifier=notifier)


def _send(context: AppContext, run: PreparedRun) -> RunResult:
    from fairshare.cli.progress import SubmitProgress
    from fairshare.cli.submission import send_run

    done_at = None
    if context.out.is_for_people:
        context.out.talk(plan_text(context, run))
        done_at = expected_of(context, run.plan, run.rate).finish_at
    with SubmitProgress(run.plan, context.out, context.clock, run.rate, done_at) as progress:
        return send_run(context, run, progress.on_event)
