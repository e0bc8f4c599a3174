"""``fairshare resume``: send what is left of a run, whatever stopped it, and no job twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.notify import Notifier, NotifyFlag
from fairshare.cli.render import count

if TYPE_CHECKING:
    from fairshare.submit.events import Event
    from fairshare.submit.recovery import Recovery

app = new_app()


@command(
    app,
    examples=(
        "fairshare resume lunar-otter",
        "fairshare resume lunar-otter --failed",
        "fairshare resume sweep --max-in-flight 8",
    ),
    exit_codes=(3, 4, 6, 7, 130, 143),
)
def resume(
    context: AppContext,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or a unique beginning of it.")],
    failed: Annotated[
        bool, typer.Option("--failed", help="Send again, too, what was refused, skipped or ended FAILED.")
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", help="Calls a second (default 4.9; on this machine no limit)."),
    ] = None,
    max_in_flight: Annotated[
        int | None,
        typer.Option("--max-in-flight", metavar="N", help="Jobs sent and not ended, at most (default: as submitted)."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the jobs sent now have ended.")] = False,
    notify: NotifyFlag = None,
) -> None:
    """Go on with a run after Ctrl-C, a crash, an expired login or a full disk.

    A job whose call got no answer is looked for before it is sent again. The waves that are left keep their distances.
    """
    from fairshare.cli.submission import checked_rate, resume_run
    from fairshare.cli.submit_view import finish
    from fairshare.submit.journal import find_run
    from fairshare.submit.recovery import check_place
    from fairshare.submit.rules import check_in_flight

    notifier = Notifier(context, "resume", notify)
    record = find_run(context.runs_dir, run)
    check_place(record, context.region, context.session.account_id)
    check_in_flight(max_in_flight)
    calls_a_second = checked_rate(context, rate)
    recovery, result = resume_run(
        context,
        record,
        rate=calls_a_second,
        failed=failed,
        max_in_flight=max_in_flight,
        progress=lambda recovery: _progress(context, recovery, calls_a_second),
    )
    before = sum(job.has_failed for job in recovery.record.jobs)
    if before and not failed:
        again = f"`{context.with_flags(f'fairshare resume {record.run_id} --failed')}` sends again"
        context.out.talk(f"{count(before, 'job')} failed before; {again}")
    finish(context, result, wait=wait and bool(result.sent), notifier=notifier)


@contextmanager
def _progress(context: AppContext, recovery: Recovery, rate: float) -> Iterator[Callable[[Event], None]]:
    """Say what is left, then show how it is sent."""
    from fairshare.cli.progress import SubmitProgress
    from fairshare.cli.start_times import shown_zone
    from fairshare.cli.submit_view import expected_of
    from fairshare.submit.forecast import plan_lines, recent_runs

    record, plan = recovery.record, recovery.plan
    before = record.count("sent") - len(recovery.found)
    found = f", {len(recovery.found)} found that had no answer" if recovery.found else ""
    context.out.talk(f"Run {record.run_id}: {before} of {count(len(record.jobs), 'job')} sent before{found}")
    done_at = None
    if not plan.jobs:
        context.out.talk("Nothing is left to send")
    elif context.out.is_for_people:
        lines = plan_lines(
            plan,
            rate,
            now=context.clock.wall(),
            zone=shown_zone(context.environ),
            past=recent_runs(context.runs_dir),
            is_simulated=context.session.is_loopback,
        )
        context.out.talk("\n".join([f"{count(len(plan.jobs), 'job')} to send", *lines]))
        done_at = expected_of(context, plan, rate).finish_at
    with SubmitProgress(plan, context.out, context.clock, rate, done_at) as progress:
        yield progress.on_event
