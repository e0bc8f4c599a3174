"""``fairshare compare``: two jobs, runs or shares side by side, and which differences are more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.measuring import Listings, SinceFlag, begin_of, jobs_since, judged
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import Column, count, elapsed, hours_text, safe, table
from fairshare.cli.subjects import Subject, find_subject, split_subject
from fairshare.model import JobDetail, NotFoundError

if TYPE_CHECKING:
    from fairshare.metrics.compare import Difference, Figures

app = new_app()

_SEED: Final = 0
"""The same values always get the same verdict."""

_WHAT: Final = "A job, a run, or share:NAME; job:, run: and share: before it say which."


@command(
    app,
    examples=(
        "fairshare compare bert-before bert-after",
        "fairshare compare run:lunar-otter run:solar-lynx -o json",
        "fairshare compare share:MIDPRI share:LOWPRI --since 7d",
    ),
    exit_codes=(4, 6, 7),
)
def compare(
    context: AppContext,
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help=_WHAT)],
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help=_WHAT)],
    queue: QueueFlag = None,
    since: SinceFlag = None,
) -> None:
    """Compare duration, use, waste, spill and failures of two jobs, runs or shares.

    Of several jobs a side, means are compared, and a permutation test says whether they differ by more than noise.
    """
    from fairshare.metrics.compare import compare as differences_of

    begin = begin_of(context, since)
    listings = Listings(context)
    sides = [_side(context, listings, text, queue, begin) for text in (baseline, candidate)]
    before, after = (_figures(context, side.jobs) for side in sides)
    found = differences_of(before, after, Random(_SEED))
    context.out.show(
        "Comparison",
        {
            "baseline": _side_document(sides[0]),
            "candidate": _side_document(sides[1]),
            "differences": [_document(one) for one in found],
        },
        text=lambda width: _text(sides, found, width),
        rows="differences",
        name="name",
    )
    if sides[1].kind == "job":
        context.suggest(f"fairshare efficiency {sides[1].jobs[0].job_name}")


def _figures(context: AppContext, jobs: Sequence[JobDetail]) -> list[Figures]:
    """What is compared of jobs; with their cost when the project has prices."""
    from fairshare.cli.prices import project_prices
    from fairshare.insight.costs import uses_of_jobs
    from fairshare.metrics.compare import figures_of
    from fairshare.metrics.cost import cost_of

    figures = {job.job.job_id: figures_of(job) for job in judged(context, jobs)}
    if context.project is not None and context.project.prices.per_hour:
        prices = project_prices(context)
        for use in uses_of_jobs(jobs, context.training_jobs, context.clock.now()):
            amount = cost_of(use.attempts, prices).amount
            figures[use.job_id] = replace(figures[use.job_id], cost=None if amount is None else float(amount))
    return list(figures.values())


def _side(context: AppContext, listings: Listings, text: str, queue: str | None, begin: int) -> Subject:
    kind, name = split_subject(text)
    if kind != "share":
        return find_subject(context, queue, text)
    jobs = jobs_since(context, listings, context.choose_queue(queue).name, name, begin).jobs
    if not jobs:
        raise NotFoundError(f"no job of share {name} ran in this time", hint="look further back with --since")
    return Subject("share", name, jobs)


def _side_document(side: Subject) -> dict[str, Any]:
    return {"kind": side.kind, "name": side.name, "job_ids": [job.job_id for job in side.jobs]}


def _document(found: Difference) -> dict[str, Any]:
    return {
        "name": found.name,
        "unit": found.unit,
        "baseline": found.baseline,
        "candidate": found.candidate,
        "difference": found.absolute,
        "difference_percent": None if found.percent is None else round(found.percent, 2),
        "baseline_runs": found.baseline_runs,
        "candidate_runs": found.candidate_runs,
        "probability": found.probability,
        "verdict": found.verdict.value,
    }


def _text(sides: Sequence[Subject], found: Sequence[Difference], width: int | None) -> str:
    columns = (
        Column("MEASURE"),
        Column("BASELINE", right=True),
        Column("CANDIDATE", right=True),
        Column("DIFFERENCE", right=True),
        Column("VERDICT", shrinks=True, prose=True),
    )
    rows = [
        [
            one.name.replace("_", " "),
            _value(one.unit, one.baseline),
            _value(one.unit, one.candidate),
            _difference_text(one),
            _verdict_text(one),
        ]
        for one in found
    ]
    titles = [
        f"{role:<10}{side.kind} {safe(side.name)}" + (f", {count(len(side.jobs), 'job')}" if side.kind != "job" else "")
        for role, side in zip(("baseline", "candidate"), sides, strict=True)
    ]
    return "\n".join([*titles, table(columns, rows, width)])


def _value(unit: str, value: float | None) -> str:
    if value is None:
        return "no data"
    match unit:
        case "s":
            return elapsed(round(value * 1000))
        case "%":
            return f"{value:.1f} %"
        case "part":
            return f"{value * 100:.0f} %"
        case "h":
            return f"{hours_text(value)} h"
        case "money":
            return f"{value:.2f}"
        case _:
            return f"{value:,.1f} {unit}"


def _difference_text(found: Difference) -> str:
    absolute = found.absolute
    if absolute is None:
        return "-"
    points = f"{absolute:+.1f} points" if found.unit == "%" else ""
    if found.unit == "part":
        return f"{absolute * 100:+.0f} points"
    if found.percent is None:
        return points or ("none" if not absolute else f"{absolute:+,.1f} {found.unit}")
    text = f"{found.percent:+.1f} %"
    return f"{text} ({points})" if points else text


def _verdict_text(found: Difference) -> str:
    if found.probability is None:
        return found.verdict.value
    return f"{found.verdict.value} (p {found.probability:.3f}, {found.baseline_runs} and {found.candidate_runs} runs)"
