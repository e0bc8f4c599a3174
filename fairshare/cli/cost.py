"""``fairshare cost``: instance-hours and money of a job, a run, a share or a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.measuring import Listings, ShareFlag, SinceFlag, begin_of, find_detail, past_since
from fairshare.cli.prices import project_prices
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import Column, count, safe, table
from fairshare.model import NotFoundError, PartialError, UsageError

if TYPE_CHECKING:
    from fairshare.insight.costs import Uses
    from fairshare.metrics.cost import Cost, JobUse
    from fairshare.metrics.prices import Prices

app = new_app()

_UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class _Bill:
    """What is shown: jobs with their cost, and the prices that it rests on."""

    jobs: Sequence[tuple[JobUse, Cost]]
    prices: Prices


@command(
    app,
    examples=(
        "fairshare cost lunar-otter",
        "fairshare cost bert-large-7 -o json",
        "fairshare cost --share LOWPRI --since 7d",
    ),
    exit_codes=(3, 4, 6),
)
def cost(
    context: AppContext,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB|RUN", help="A run, or a job; run: and job: before it say which.", show_default=False
        ),
    ] = None,
    queue: QueueFlag = None,
    share: ShareFlag = None,
    since: SinceFlag = None,
) -> None:
    """Show what jobs cost: instance-hours and money, with retried and preempted attempts apart.

    Prices are those of `prices:` in fairshare.yaml, else of AWS's price list. What is not known is never guessed: it is
    named, amounts that need it are null, and the exit code is 3.
    """
    from fairshare.metrics.cost import cost_of

    if what is not None and (share is not None or since is not None):
        raise UsageError("name a job or a run, or a share and a time, not both", hint="a job or a run is counted whole")
    uses = _of_queue(context, queue, share, since) if what is None else _of_text(context, what, queue)
    prices = project_prices(context)
    bill = _Bill([(use, cost_of(use.attempts, prices)) for use in uses.jobs], prices)
    _show(context, bill)
    unknown = dict.fromkeys(name for _, found in bill.jobs for name in found.unknown)
    if unknown:
        context.out.talk(f"Not known, so not counted: {', '.join(unknown)}{_advice(unknown)}")
    if uses.left_out:
        context.out.talk(f"warning: {count(uses.left_out, 'more job')} of this time left out: give a shorter --since")
    if unknown or uses.left_out:
        raise typer.Exit(PartialError.exit_code)


# ---------------------------------------------------------------------------------------------------------------------
# What is counted


def _of_queue(context: AppContext, queue: str | None, share: str | None, since: str | None) -> Uses:
    from fairshare.insight.costs import uses_of_queue

    begin, name = begin_of(context, since), context.choose_queue(queue).name
    past, now = past_since(context, Listings(context), name, begin), context.clock.now()
    return uses_of_queue(context.jobs, context.training_jobs, past.jobs, share=share, since=begin, now=now)


def _of_text(context: AppContext, what: str, queue: str | None) -> Uses:
    """A run of this machine's journals goes before a job of that name."""
    from fairshare.insight.costs import Uses, uses_of_jobs, uses_of_run
    from fairshare.submit.journal import find_run

    kind, colon, name = what.partition(":")
    if not colon or kind not in ("run", "job"):
        kind, name = "", what
    if kind != "job":
        try:
            record = find_run(context.runs_dir, name)
        except (NotFoundError, UsageError):
            if kind == "run":
                raise
        else:
            return uses_of_run(record, context.jobs, context.training_jobs, context.clock.now())
    job = find_detail(context, queue, name)
    return Uses(uses_of_jobs([job], context.training_jobs, context.clock.now()))


def _advice(unknown: Mapping[str, None]) -> str:
    types = [name.removeprefix("price of ") for name in unknown if name.startswith("price of ")]
    return f"\n  Write prices: {{{types[0]}: 1.23}} into fairshare.yaml, for an hour of one instance." if types else ""


# ---------------------------------------------------------------------------------------------------------------------
# Screens


def _show(context: AppContext, bill: _Bill) -> None:
    from fairshare.metrics.cost import by_share, total

    shares = by_share(bill.jobs)
    whole = total(found for _, found in bill.jobs)
    known = {name: price for name, price in bill.prices.known.items() if price is not None}
    context.out.show(
        "Cost",
        {
            "currency": bill.prices.currency,
            "prices": [
                {"instance_type": name, "per_hour": float(price.amount), "source": price.source}
                for name, price in known.items()
            ],
            "jobs": [_job_document(*each) for each in bill.jobs],
            "shares": [
                {"share_identifier": share, "jobs": _count(bill, share), **_document(found)}
                for share, found in shares.items()
            ],
            "total": {"jobs": len(bill.jobs), **_document(whole)},
        },
        text=lambda width: _text(bill, shares, whole, width),
        rows="jobs",
        name="job_id",
    )


def _count(bill: _Bill, share: str | None) -> int:
    return sum(use.share_identifier == share for use, _ in bill.jobs)


def _job_document(use: JobUse, found: Cost) -> dict[str, Any]:
    kinds = sorted({name for attempt in use.attempts for name in attempt.instances})
    billable = [attempt.billable_ms for attempt in use.attempts]
    return {
        "job_id": use.job_id,
        "job_name": use.job_name,
        "run_id": use.run_id,
        "share_identifier": use.share_identifier,
        "status": use.status,
        "instance_type": kinds[0] if len(kinds) == 1 else None,
        "attempts": len(use.attempts),
        "billable_seconds": None if None in billable else sum(ms or 0 for ms in billable) // 1000,
        **_document(found),
    }


def _document(found: Cost) -> dict[str, Any]:
    from fairshare.metrics.cost import Purpose

    apart = {f"{each.value}_amount": float(found.by_purpose.get(each, Decimal(0))) for each in Purpose}
    return {
        "instance_seconds": found.instance_ms // 1000,
        "instance_hours": round(found.instance_ms / 3_600_000, 4),
        "amount": None if found.amount is None else float(found.amount),
        "known_amount": float(found.known_amount),
        **apart,
        "is_running": found.is_running,
        "unknown": list(found.unknown),
    }


def _text(bill: _Bill, shares: Mapping[str | None, Cost], whole: Cost, width: int | None) -> str:
    if not bill.jobs:
        return "No job held instances."
    columns = (
        Column("JOB", shrinks=True),
        Column("SHARE", shrinks=True),
        Column("STATUS"),
        Column("TRIES", right=True),
        Column("HOURS", right=True),
        Column("COST", right=True),
        Column("RETRIED", right=True),
        Column("PREEMPTED", right=True),
    )
    rows = [
        [use.job_name, use.share_identifier or "-", use.status, str(len(use.attempts)), *_cells(found)]
        for use, found in bill.jobs
    ]
    if len(shares) > 1 or len(bill.jobs) > 1:
        rows += [[f"{_count(bill, share)} of", share or "-", "", "", *_cells(found)] for share, found in shares.items()]
        rows.append([f"{len(bill.jobs)} in all", "", "", "", *_cells(whole)])
    lines = [table(columns, rows, width), f"HOURS: of one instance. COST: in {bill.prices.currency}, of all tries."]
    lines += [
        f"{safe(name)}: {price.amount:f} an hour ({price.source})"
        for name, price in bill.prices.known.items()
        if price is not None
    ]
    if whole.is_running:
        lines.append("Jobs that run are counted up to now.")
    return "\n".join(lines)


def _cells(found: Cost) -> list[str]:
    from fairshare.metrics.cost import Purpose

    apart = [found.by_purpose.get(each, Decimal(0)) for each in (Purpose.RETRIED, Purpose.PREEMPTED)]
    return [
        f"{found.instance_ms / 3_600_000:.2f}",
        _UNKNOWN if found.amount is None else _money(found.amount),
        *("-" if not amount else _money(amount) for amount in apart),
    ]


def _money(amount: Decimal) -> str:
    """Every digit that there is, so that the lines of a table add up: ``17.25``, ``8.625``, ``5.00``."""
    digits = f"{amount.normalize():f}"
    whole, _, part = digits.partition(".")
    return f"{whole}.{part:0<2}"
