"""The quota shares of a queue as a table and as a document."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairshare.cli.render import Column, elapsed, safe, table
from fairshare.model import MODEL_VERSION

if TYPE_CHECKING:
    from fairshare.insight.quota_shares import QuotaRow, QuotaTable


def quota_table_document(quotas: QuotaTable) -> dict[str, Any]:
    """Return one entry for each instance type of each quota share, in instances; waits are whole seconds."""
    return {
        "queue": quotas.queue,
        "capacity": dict(quotas.capacity),
        "instances_in_use": dict(quotas.in_use),
        "quota_shares": [
            {
                "quota_share": row.quota_share,
                "instance_type": row.instance_type,
                "sharing": row.sharing.value,
                "owned": row.owned,
                "held": row.held,
                "borrowed": row.borrowed,
                "idle": row.idle,
                "most": row.most,
                "runnable": row.runnable,
                "oldest_wait_seconds": None if row.oldest_wait is None else row.oldest_wait // 1000,
                "enabled": row.is_enabled,
                "standing": row.standing,
            }
            for row in quotas.rows
        ],
    }


def quota_table_text(quotas: QuotaTable, width: int | None) -> str:
    """Return the table for people."""
    shows: dict[Column, Callable[[QuotaRow], str]] = {
        Column("QUOTA SHARE", shrinks=True): lambda row: row.quota_share,
        Column("TYPE", shrinks=True): lambda row: row.instance_type,
        Column("OWNS", right=True): lambda row: str(row.owned),
        Column("HOLDS", right=True): lambda row: str(row.held),
        Column("MOST", right=True): lambda row: "any" if row.most is None else str(row.most),
        Column("RUNNABLE", right=True): lambda row: str(row.runnable),
        Column("OLDEST"): lambda row: "-" if row.oldest_wait is None else elapsed(row.oldest_wait),
        Column("STANDING", shrinks=True, prose=True): lambda row: row.standing,
    }
    if len(quotas.capacity) == 1:  # the line below names the type
        shows = {column: cell for column, cell in shows.items() if column.title != "TYPE"}
    rows = [[cell(row) for cell in shows.values()] for row in quotas.rows]
    use = [f"{quotas.in_use.get(name, 0)} of {number} {safe(name)}" for name, number in quotas.capacity.items()]
    return "\n".join(
        [
            table(list(shows), rows, width) if rows else f"Queue {safe(quotas.queue)} has no quota shares.",
            f"{', '.join(use)} in use.",
            f"MOST: with what it may borrow. Whom AWS preempts is not published (model {MODEL_VERSION}).",
        ]
    )
