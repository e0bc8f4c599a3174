"""``fairshare metrics publish``: the gauges that AWS does not publish, once or at an interval, for cron and daemons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.kept import keep, read_kept
from fairshare.cli.outcomes import keep_ends
from fairshare.cli.render import Column, count, elapsed, safe, table
from fairshare.model import ServiceError, ThrottledError, UsageError

if TYPE_CHECKING:
    from fairshare.insight.collect import Cursor, Look
    from fairshare.metrics.gauges import QueueGauges

app = new_app()

_LONGEST_PAUSE: Final = 10
"""Intervals: while AWS throttles, or does not answer, the pause doubles up to this."""


@command(
    app,
    name="metrics publish",
    examples=(
        "fairshare metrics publish",
        "fairshare metrics publish --queue gpu --every 60s",
        "fairshare metrics publish --local -o json",
    ),
    exit_codes=(4, 6, 7),
)
def metrics_publish(
    context: AppContext,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", "-q", metavar="QUEUE", help="Key, name or ARN; repeatable (default: the project's)."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One run and no more: the default.")] = False,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="Run again and again, as 60s, until it is stopped.")
    ] = None,
) -> None:
    """Publish what AWS does not: depth, oldest wait, use and target of queues and shares, under `fairshare`.

    At most ten calls for a queue of 300 active jobs, however many have ended. How jobs ended is noted in the journals
    of this machine. docs/gauges.md lists the gauges.
    """
    if once and every is not None:
        raise UsageError("--once and --every exclude each other", hint="leave one of them out")
    interval = None if every is None else _milliseconds(every)
    queues = _queues(context, queue or [])
    pause = interval or 0
    while True:
        began = context.clock.now()
        try:
            _run(context, queues)
            pause = interval or 0
        except (ThrottledError, ServiceError) as error:
            if interval is None or (isinstance(error, ServiceError) and not error.is_transient):
                raise
            pause = min(2 * pause, _LONGEST_PAUSE * interval)
            context.out.talk(f"warning: nothing is published this time: {error.message}")
        if interval is None:
            return
        context.clock.sleep_until(began + pause)


def _milliseconds(text: str) -> int:
    from fairshare.config.durations import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--every: {error}", hint="give the time between two runs, as 60s or 5m") from None
    if seconds < 1:
        raise UsageError("--every: 0 leaves no time between two runs", hint="60s is what CloudWatch keeps")
    return seconds * 1000


def _queues(context: AppContext, given: Sequence[str]) -> list[str]:
    """Return names or ARNs: those given, else every queue of the project."""
    if given:
        return list(dict.fromkeys(context.choose_queue(each).name for each in given))
    if context.project is None or not context.project.queues:
        return [context.choose_queue(None).name]
    return [context.project.resource_name(key) for key in context.project.queues]


def _run(context: AppContext, queues: Sequence[str]) -> None:
    from fairshare.insight.collect import gauges, look_at
    from fairshare.metrics.gauges import gauge_data

    now = context.clock.now()
    files = [_cursor_file(context, queue) for queue in queues]
    looks = [
        look_at(queue, context.queue_source, context.metrics, now=now, cursor=_read_cursor(file), stack=context.stack)
        for queue, file in zip(queues, files, strict=True)
    ]
    found = gauges(looks, now)
    data = [datum for each in found for datum in gauge_data(each, now)]
    context.metrics.put(data)
    for look, file in zip(looks, files, strict=True):
        keep(file, look.cursor.to_json())
    keep_ends(context, "metrics publish", [job for look in looks for job in look.ended or ()])
    context.out.show(
        "CollectorRun",
        {"queues": [_document(*each) for each in zip(found, looks, strict=True)], "published": len(data)},
        text=lambda width: "\n".join(
            [*(_text(each, width) for each in found), f"Published {count(len(data), 'value')}."]
        ),
        rows="queues",
        name="queue",
    )


def _cursor_file(context: AppContext, queue: str) -> Path:
    """One file for each queue of each place."""
    session = context.session
    place = [session.endpoint_url, session.region, context.profile, context.environ.get("AWS_PROFILE"), queue]
    return context.state_dir / "collector" / f"{sha256(json.dumps(place).encode()).hexdigest()[:24]}.json"


def _read_cursor(file: Path) -> Cursor | None:
    from fairshare.insight.collect import Cursor

    try:
        return Cursor.from_json(read_kept(file))
    except (ValueError, TypeError, KeyError):
        return None


def _document(gauges: QueueGauges, look: Look) -> dict[str, Any]:
    return {
        "queue": gauges.queue,
        "stack": gauges.stack or None,
        "gauges": dict(gauges.values),
        "shares": [{"share_identifier": share, "gauges": dict(of)} for share, of in sorted(gauges.shares.items())],
        "ended_job_ids": None if look.ended is None else [job.job_id for job in look.ended],
    }


def _text(gauges: QueueGauges, width: int | None) -> str:
    columns = (
        Column("SHARE", shrinks=True),
        Column("RUNNABLE", right=True),
        Column("LAUNCHING", right=True),
        Column("RUNNING", right=True),
        Column("OLDEST"),
        Column("USED", right=True),
        Column("USAGE", right=True),
        Column("TARGET", right=True),
        Column("NOTE", shrinks=True, prose=True),
    )
    rows = [_row("all", gauges.values), *(_row(share, of) for share, of in sorted(gauges.shares.items()))]
    used = f"{gauges.values['CapacityUsed']:g} of {count(int(gauges.values['CapacityLimit']), 'instance')} in use"
    return "\n".join([f"queue {safe(gauges.queue)}  {used}", table(columns, rows, width)])


def _row(share: str, values: Any) -> list[str]:
    def shown(name: str, suffix: str = "") -> str:
        return f"{values[name]:.4g}{suffix}" if name in values else "-"

    ended = [f"{values[name]:g} {word}" for name, word in _ENDS.items() if values.get(name)]
    notes = [word for name, word in _FLAGS.items() if values.get(name)]
    oldest = values.get("OldestWaitSeconds")
    return [
        share,
        *(shown(name) for name in ("RunnableJobs", "LaunchingJobs", "RunningJobs")),
        elapsed(round(oldest * 1000)) if oldest else "-",
        shown("CapacityUsed"),
        shown("UsageShare", " %"),
        shown("TargetShare", " %"),
        ", ".join([*notes, *ended]),
    ]


_FLAGS: Final = {"Blocked": "blocked", "StarvedShare": "starved", "IdleCapacityWhileWaiting": "idle capacity"}
_ENDS: Final = {"SucceededJobs": "succeeded", "FailedJobs": "failed"}
