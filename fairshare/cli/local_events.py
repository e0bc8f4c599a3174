"""``fairshare local events``: what AWS Batch on this machine tells EventBridge, now or as it happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.context import AppContext
from fairshare.cli.output import OutputFormat
from fairshare.cli.ready_file import ReadyFile, default_ready_file
from fairshare.cli.render import safe
from fairshare.model import UsageError

if TYPE_CHECKING:
    from fairshare.local.event_reader import EventsRead

_LOOK_SECONDS: Final = 15.0
"""One look with ``-f``; the server answers earlier when something happens."""

_BLOCKED: Final = "Batch Service Job Queue Blocked"


def events(
    context: AppContext,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    ready_file: ReadyFile = None,
) -> None:
    """Show the EventBridge events of service jobs, oldest first; with -o json as EventBridge delivers them."""
    from fairshare.local.event_reader import EventReader

    if follow and context.out.format not in (OutputFormat.TABLE, OutputFormat.JSON):
        raise UsageError(f"events that are followed cannot be printed as {context.out.format}", hint="use -o json")
    reader = EventReader(ready_file or default_ready_file(context))
    if not follow:
        read = reader.read()
        _warn_of_gap(context, read)
        context.out.show(
            "EventList",
            {"events": [dict(event) for event in read.events]},
            text=lambda width: "\n".join(_line(event) for event in read.events) or "No events yet.",
        )
        return
    while True:
        read = reader.read(_LOOK_SECONDS)
        _warn_of_gap(context, read)
        for event in read.events:
            context.out.write(_line(event) if context.out.is_for_people else json.dumps(event))


def _warn_of_gap(context: AppContext, read: EventsRead) -> None:
    if read.missed:
        context.out.talk(f"{read.missed} older events are no longer kept")


def _line(event: Mapping[str, Any]) -> str:
    detail = event["detail"]
    status = "BLOCKED" if event["detail-type"] == _BLOCKED else detail["status"]
    reason = detail.get("statusReason") or ""
    return safe(f"{event['time']}  {status:<9}  {detail['jobName']}  {reason}".rstrip())
