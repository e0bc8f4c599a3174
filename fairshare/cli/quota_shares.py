"""The quota shares of a queue as a table and as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairshare.cli.render import Column, elapsed, safe, table
from fairshare.model import MODEL_VERSION

if TYPE_CHECKING:
    from fairshare.insight.quota_shares import QuotaTable


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
    columns = (
        Column("QUOTA SHARE", shrinks=True),
        Column("TYPE", shrinks=True),
        Column("OWNS", right=True),
        Column("HOLDS", right=True),
        Column("MOST", right=True),
        Column("RUNNABLE", right=True),
        Column("OLDEST"),
        Column("STANDING", shrinks=True, prose=True),
    )
    rows = [
        [
            row.quota_share,
            row.instance_type,
            str(row.owned),
            str(row.held),
            "any" if row.most is None else str(row.most),
            str(row.runnable),
            "-" if row.oldest_wait is None else elapsed(row.oldest_wait),
            row.standing,
        ]
        for row in quotas.rows
    ]
    use = [f"{quotas.in_use.get(name, 0)} of {number} {safe(name)}" for name, number in quotas.capacity.items()]
    return "\n".join(
        [
            table(columns, rows, width) if rows else f"Queue {safe(quotas.queue)} has no quota shares.",
            f"{', '.join(use)} in use.",
            f"MOST: with what it may borrow. Whom AWS preempts is not published (model {MODEL_VERSION}).",
        ]
    )
