"""``fairshare metrics``: what CloudWatch has about a job, a queue or a share, as table, JSON, CSV or picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.measuring import (
    Listings,
    PeriodFlag,
    ShareFlag,
    SinceFlag,
    begin_of,
    finest_period,
    jobs_since,
    read,
)
from fairshare.cli.output import OutputFormat
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import Column, count, elapsed, local_time, safe, table, utc_time
from fairshare.cli.subjects import JobOrRun, Subject, check_alone, find_subject

if TYPE_CHECKING:
    from fairshare.insight.measured import Reading
    from fairshare.metrics.series import Series
    from fairshare.metrics.training import JobSeries
    from fairshare.metrics.window import Window

app = new_app()

_WIDE: Final = 92
"""Cells from which on courses are drawn `_SPARK` wide, else half of it."""

_NARROWEST: Final = 40
_SPARK: Final = 24
_NO_DATA: Final = "no data"


@dataclass(frozen=True)
class _Line:
    """A series to show: ``label`` says of what, ``job_id`` of which job when there are several."""

    series: Series
    label: str
    job_id: str | None = None


@dataclass(frozen=True)
class _View:
    """Everything that is shown of a job, a share or a queue."""

    title: str
    subject: dict[str, Any]
    lines: tuple[_Line, ...]
    window: Window | None
    remarks: tuple[str, ...] = ()
    groups_silent: bool = False
    """Whether people see series without data in one line instead of one each."""


@command(
    app,
    examples=(
        "fairshare metrics digits-lr0-1",
        "fairshare metrics lunar-otter -o json",
        "fairshare metrics --share LOWPRI --since 6h",
        "fairshare metrics --queue gpu -o csv",
        "fairshare metrics 3f2a --plot use.html",
    ),
    exit_codes=(4, 6, 7),
)
def metrics(
    context: AppContext,
    what: JobOrRun = None,
    queue: QueueFlag = None,
    share: ShareFlag = None,
    since: SinceFlag = None,
    period: PeriodFlag = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: a name in .svg, .png or .html.")
    ] = None,
) -> None:
    """Show the use of a job's hosts, of the jobs of a run or a share, or what moved in a queue.

    Per cents are of the devices: CPU by vCPU, GPU and GPU memory by GPU. What CloudWatch has no value about is a gap.
    """
    check_alone(what, share, since)
    if plot is not None:
        from fairshare.metrics.plot import check_plot_path

        check_plot_path(plot)
    if what is not None:
        subject = find_subject(context, queue, what)
        view = (_job_view if subject.kind == "job" else _run_view)(context, subject, period)
    elif share is not None:
        view = _share_view(context, queue, share, begin_of(context, since), period)
    else:
        view = _queue_view(context, queue, begin_of(context, since), period)
    _show(context, view)
    if plot is not None:
        _plot(context, view, plot)
    if what is not None:
        context.suggest(f"fairshare efficiency {what}")
    elif share is not None:
        context.suggest(f"fairshare efficiency --share {share}")


def _job_view(context: AppContext, subject: Subject, period: int | None) -> _View:
    (job,) = subject.jobs
    reading = read(context, [job], period=period)
    measured = reading.jobs[0]
    return _View(
        title=f"{job.job_name}  {job.status}  {size_text(measured)}",
        subject={"job_id": job.job_id, "job_name": job.job_name},
        lines=tuple(_job_lines(measured)),
        window=reading.window,
        remarks=tuple(remarks_on(measured)),
    )


def size_text(measured: JobSeries) -> str:
    """Return ``4 x ml.g6.12xlarge (16 GPUs)``."""
    hosts = measured.hosts
    text = f"{len(hosts)} x {hosts[0].instance_type or 'several types'}" if hosts else "no instances"
    gpus = sum(host.spec.gpus for host in hosts if host.spec is not None)
    return f"{text} ({count(gpus, 'GPU')})" if gpus else text


def remarks_on(measured: JobSeries) -> list[str]:
    """Return what a reader must know about the numbers of a job."""
    remarks = []
    unknown = {host.instance_type or "one of several types" for host in measured.hosts if host.spec is None}
    if unknown:
        remarks.append(
            f"{', '.join(sorted(unknown))}: the number of devices is not known, so CPU and GPU values are raw: as "
            "published, summed over the devices."
        )
    silent = measured.silent_hosts
    if measured.has_data and silent:
        remarks.append(f"No data from {', '.join(silent)}: means are of the other hosts.")
    if not measured.has_data:
        remarks.append("CloudWatch has no data about this job: it has not started, or its first minute is not over.")
    return remarks


def _job_lines(measured: JobSeries) -> list[_Line]:
    lines = []
    for metric, hosts in measured.series.items():
        together = measured.together(metric)
        if together is not None and len(hosts) > 1:
            lines.append(_Line(together, "all"))
        lines.extend(_Line(series, series.host or "all") for series in hosts)
    return lines


def _run_view(context: AppContext, run: Subject, period: int | None) -> _View:
    reading = read(context, run.jobs, period=period)
    return _View(
        title=f"run {run.name}  {count(len(run.jobs), 'job')}",
        subject={"run_id": run.name},
        lines=tuple(_lines_of_jobs(reading)),
        window=reading.window,
        remarks=() if reading.window else ("No job of the run has started yet.",),
    )


def _share_view(context: AppContext, queue: str | None, share: str, begin: int, period: int | None) -> _View:
    choice = context.choose_queue(queue)
    selection = jobs_since(context, Listings(context), choice.name, share, begin)
    reading = read(context, selection.jobs, begin=begin, period=period)
    return _View(
        title=f"{share}  {count(len(selection.jobs), 'job')} that ran",
        subject={"share_identifier": share},
        lines=tuple(_lines_of_jobs(reading)),
        window=reading.window,
        remarks=() if selection.jobs else (f"No job of {share} ran in this time.",),
    )


def _lines_of_jobs(reading: Reading) -> list[_Line]:
    """All jobs together, device by device, then each of them."""
    from fairshare.metrics.training import TrainingMetric, join_series

    lines = []
    for metric in TrainingMetric:
        weighted = [
            (series, host.devices(metric) or 1)
            for measured in reading.jobs
            for host, series in zip(measured.hosts, measured.series.get(metric, ()), strict=False)
            if series.normalised and series.points
        ]
        if weighted:
            lines.append(_Line(join_series(metric.value, weighted), "all jobs"))
        for measured in reading.jobs:
            of_job = measured.together(metric)
            if of_job is not None:
                lines.append(_Line(of_job, measured.job.job_name, measured.job.job_id))
    return lines


def _queue_view(context: AppContext, queue: str | None, begin: int, period: int | None) -> _View:
    from fairshare.metrics.queue import queue_queries, queue_series
    from fairshare.metrics.window import choose_window

    name = context.choose_queue(queue).name.rsplit("/", 1)[-1]
    now = context.clock.now()
    asked = len(queue_queries(name, 60))
    window = choose_window(begin, now, now, period=period, queries=asked, finest=finest_period(context))
    for notice in window.notices:
        context.out.talk(f"note: {notice}")
    answers = context.metrics.series(queue_queries(name, window.period), window.start, window.end)
    return _View(
        title=f"queue {name}",
        subject={"queue": name},
        lines=tuple(_Line(one, "queue") for one in queue_series(answers)),
        window=window,
        remarks=("Counts are totals, durations means; AWS Batch publishes both at best effort.",),
        groups_silent=True,
    )


def _show(context: AppContext, view: _View) -> None:
    if context.out.format is OutputFormat.CSV:
        rows: list[dict[str, Any]] = [
            {"name": line.series.name, "job_id": line.job_id, "host": line.series.host, "unit": line.series.unit}
            | {"normalised": line.series.normalised, "time": utc_time(at), "value": value}
            for line in view.lines
            for at, value in line.series.with_gaps()
        ]
        context.out.show("Metrics", {"points": rows}, text=lambda width: "", rows="points", name="name")
        return
    window = view.window
    document = {
        **view.subject,
        "start": None if window is None else utc_time(window.start),
        "end": None if window is None else utc_time(window.end),
        "period_seconds": None if window is None else window.period,
        "series": [_document(line) for line in view.lines],
    }
    context.out.show("Metrics", document, text=lambda width: _text(view, width), rows="series", name="name")


def _document(line: _Line) -> dict[str, Any]:
    series = line.series
    return {
        "name": series.name,
        "job_id": line.job_id,
        "host": series.host,
        "unit": series.unit,
        "normalised": series.normalised,
        "latest": series.latest,
        "mean": None if series.use is None else series.use.mean,
        "points": [[utc_time(at), value] for at, value in series.with_gaps()],
    }


def _text(view: _View, width: int | None) -> str:
    lines = [safe(view.title)]
    if view.window is not None:
        span = elapsed(view.window.end - view.window.start)
        lines.append(f"{span} from {local_time(view.window.start)}, in steps of {elapsed(view.window.period * 1000)}")
    spark = _SPARK if width is None or width >= _WIDE else _SPARK // 2
    silent = [line.series.name for line in view.lines if view.groups_silent and not line.series.points]
    shown = [line for line in view.lines if line.series.name not in silent]
    if shown:
        columns = (
            Column("METRIC", shrinks=True),
            Column("OF", shrinks=True),
            Column("LATEST", right=True),
            Column("MEAN", right=True),
            Column("P10", right=True),
            Column("P95", right=True),
            Column("POINTS", right=True),
            Column("COURSE"),
        )
        lines.append(table(columns, [_row(line, view.window, spark) for line in shown], width))
    if silent:
        text = f"No data: {', '.join(silent)}."
        lines += [text] if width is None else textwrap.wrap(text, max(_NARROWEST, width), subsequent_indent="  ")
    return "\n".join([*lines, *map(safe, view.remarks)])


def _row(line: _Line, window: Window | None, spark: int) -> list[str]:
    series = line.series
    use = series.use
    if use is None:
        return [series.name, line.label, _NO_DATA, "-", "-", "-", "0", ""]
    if series.unit == "Count":
        middle, spread = f"{sum(point.value for point in series.points):g}", ["-", "-"]
    elif series.unit == "Percent":
        middle, spread = _value(series, use.mean), [f"{use.p10:.0f}", f"{use.p95:.0f}"]
    else:
        middle, spread = _value(series, use.mean), [_value(series, use.p10), _value(series, use.p95)]
    latest = _value(series, series.latest)
    return [series.name, line.label, latest, middle, *spread, str(use.points), _spark(series, window, spark)]


def _value(series: Series, value: float | None) -> str:
    if value is None:
        return _NO_DATA
    match series.unit:
        case "Percent":
            return f"{value:.1f} %" if series.normalised else f"{value:.1f} raw"
        case "Milliseconds":
            return elapsed(round(value))
        case _:
            return f"{value:g}"


def _spark(series: Series, window: Window | None, width: int) -> str:
    """The course over the whole window, so that lines of one table can be compared."""
    from fairshare.metrics.series import sparkline

    if window is None:
        return ""
    step = series.period * 1000
    values: list[float | None] = [None] * max(1, (window.end - window.start) // step)
    for point in series.points:
        values[min(len(values) - 1, (point.at - window.start) // step)] = point.value
    top = 100.0 if series.unit == "Percent" and series.normalised else max(point.value for point in series.points)
    return sparkline(values, width, top)


def _plot(context: AppContext, view: _View, path: Path) -> None:
    from dataclasses import replace

    from fairshare.metrics.plot import plot

    drawn: Sequence[Series] = [replace(line.series, host=line.label) for line in view.lines]
    plot(drawn, safe(view.title), path)
    context.out.talk(f"Drawn to {path}")
