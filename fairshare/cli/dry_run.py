"""What ``submit --dry-run`` shows after the plan: what would be uploaded, and the requests, secrets masked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fairshare.cli.render import Column, count, table
from fairshare.config.sizes import format_size

if TYPE_CHECKING:
    from fairshare.submit.dispatch import SubmitPlan

_ROWS_SHOWN: Final = 20


def details_text(plan: SubmitPlan, width: int | None) -> str:
    """Return the uploads, the jobs and the first request of a plan, for people; ``-o json`` has all of it."""
    document = plan.to_json()
    parts = []
    if plan.uploads:
        rows = [[each.label, format_size(len(each.body)), each.s3_uri] for each in plan.uploads]
        columns = [Column("UPLOAD", shrinks=True), Column("SIZE", right=True), Column("TO", shrinks=True)]
        parts.append(_table(columns, rows, width, "upload"))
    if requests := document["requests"]:
        columns = [Column("REQUEST", shrinks=True), Column("QUEUE", shrinks=True), Column("SHARE"), Column("PRI")]
        columns += [Column("WAVE", right=True), Column("PAYLOAD", right=True)]
        sizes = [len(job.request.payload.encode()) for job in plan.jobs]
        rows = [_request_row(request, size) for request, size in zip(requests, sizes, strict=True)]
        parts.append(_table(columns, rows, width, "request"))
        first = json.dumps(requests[0], indent=2)
        parts.append(f"The first request, secrets masked (all {len(requests)} of them: -o json)\n{first}")
    return "\n\n".join(parts)


def _request_row(request: dict[str, Any], size: int) -> list[str]:
    priority = request["scheduling_priority"]
    return [
        request["job_name"],
        request["job_queue"],
        request["share_identifier"] or request["quota_share"] or "-",
        "-" if priority is None else str(priority),
        str(request["wave"]),
        format_size(size),
    ]


def _table(columns: list[Column], rows: list[list[str]], width: int | None, noun: str) -> str:
    more = len(rows) - _ROWS_SHOWN
    shown = table(columns, rows[:_ROWS_SHOWN], width)
    return f"{shown}\n... and {count(more, f'more {noun}')}" if more > 0 else shown
