"""``fairshare simulate``: what policies would do to a workload, side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from fairshare.cli.command import FlagGroup, command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.output import OutputFormat
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import count
from fairshare.model import MODEL_VERSION, UsageError

if TYPE_CHECKING:
    from fairshare.simulate.course import Course
    from fairshare.simulate.expect import Expectation
    from fairshare.simulate.figures import Figures
    from fairshare.simulate.settings import Comparison
    from fairshare.simulate.trace import TraceFormat
    from fairshare.simulate.workload import Workload

app = new_app()

_LONG: Final = 10_000
"""Jobs that take so long to simulate that a person wants to know what is going on."""


@dataclass(frozen=True)
class TraceFlags(FlagGroup):
    """How traces are read."""

    heading: ClassVar[str] = "Traces"

    trace: Annotated[
        list[Path] | None, typer.Option("--trace", metavar="FILE", help="A trace (CSV or SWF, also .gz); may repeat.")
    ] = None
    format: Annotated[
        str | None, typer.Option("--format", metavar="csv|swf", help="Format of traces (default: by their names).")
    ] = None
    map: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="KEY=COLUMN,...",
            help="Columns of submit, duration, size, share, priority, type, id; time=ms for their unit.",
        ),
    ] = None
    unit: Annotated[
        int, typer.Option("--unit", metavar="N", help="So many of what a trace counts are one instance.")
    ] = 1


@dataclass(frozen=True)
class PresentFlags(FlagGroup):
    """What is there already."""

    heading: ClassVar[str] = "From what is there"

    from_queue: Annotated[
        str | None,
        typer.Option("--from-queue", metavar="QUEUE", help="The jobs of a queue as it is now: key, name or ARN."),
    ] = None
    from_run: Annotated[
        list[str] | None, typer.Option("--from-run", metavar="RUN", help="The jobs of a run, as they were; may repeat.")
    ] = None
    assume_runtime: Annotated[
        str | None,
        typer.Option("--assume-runtime", metavar="TIME", help="How long jobs run of which nothing is known: 2h."),
    ] = None


@dataclass(frozen=True)
class WhatIfFlags(FlagGroup):
    """What is compared."""

    heading: ClassVar[str] = "What if"

    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="fifo|FILE",
            help="First in, first out, or a project file; may repeat (default: fifo and the project's).",
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Also the project file with this change. Several keys go together; values of one key are each tried.",
        ),
    ] = None
    capacity: Annotated[
        list[str] | None,
        typer.Option("--capacity", metavar="[ENV[/TYPE]=]N", help="Instances, instead of the file's."),
    ] = None
    blocking: Annotated[
        list[str] | None,
        typer.Option("--blocking", metavar="queue|share|none", help="What a blocked head holds up (default: queue)."),
    ] = None
    victim_rule: Annotated[
        str | None,
        typer.Option(
            "--victim-rule",
            metavar="lowest-priority|latest-start|largest",
            help="Whom quota shares preempt first (default: lowest-priority).",
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Draw workloads with this seed, not their own.")
    ] = None


@dataclass(frozen=True)
class ReportFlags(FlagGroup):
    """What is told."""

    heading: ClassVar[str] = "Report"

    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts; it opens offline.")
    ] = None
    expect: Annotated[
        Path | None, typer.Option("--expect", metavar="FILE", help="Ranges for the figures; exit code 5 outside them.")
    ] = None
    starts: Annotated[bool, typer.Option("--starts", help="In documents: every start, in order.")] = False
    timeline: Annotated[bool, typer.Option("--timeline", help="In documents: use and waiting over time.")] = False


@command(
    app,
    examples=(
        "fairshare simulate scenarios/monday.yaml",
        "fairshare simulate monday.yaml --set queues.gpu.fairshare.shares.LOWPRI.weight_factor=8 --html report.html",
        "fairshare simulate --trace kth.swf.gz --capacity 100 --policy fifo -o json",
        "fairshare simulate --trace philly.csv --map submit=timestamp,duration=duration,size=num_gpus,share=cluster",
        "fairshare simulate --from-queue gpu --capacity 24",
        "fairshare simulate monday.yaml --expect ranges.yaml",
    ),
    exit_codes=(5,),
)
def simulate(
    context: AppContext,
    traces: TraceFlags,
    present: PresentFlags,
    what_if: WhatIfFlags,
    report: ReportFlags,
    workloads: Annotated[
        list[Path] | None, typer.Argument(metavar="[WORKLOAD]...", help="Workload files; traces by their names.")
    ] = None,
    queue: QueueFlag = None,
) -> None:
    """Say what each policy would do to a workload: waits, use of the pool, fairness.

    The scheduler is the model that also runs the local AWS. Several workloads are simulated together.
    """
    expected = _expectations(report.expect)
    workload = _workload(context, traces, present, workloads or [], what_if.seed)
    comparison = _comparison(what_if, _queue_of(context, present, queue))
    began = context.clock.now()
    results = _simulate(context, workload, comparison)
    elapsed_ms = max(1, context.clock.now() - began)
    speed = round(len(workload.jobs) * len(results) * 1000 / elapsed_ms)
    wrong = _show(context, workload, results, report, speed, expected)
    if report.html is not None:
        _write_report(context, report.html, workload, results)
    for text in wrong:
        context.out.talk(text)
    if wrong:
        context.out.talk(f"{len(wrong)} of {count(len(expected), 'range')} not kept")
        raise typer.Exit(5)
    if report.html is None:
        context.out.suggest("the same with --html report.html, for charts")


Result = tuple["Course", "Figures"]


def _expectations(path: Path | None) -> list[Expectation]:
    from fairshare.simulate.expect import load_expectations

    return [] if path is None else load_expectations(path)


def _workload(
    context: AppContext, traces: TraceFlags, present: PresentFlags, files: Sequence[Path], seed: int | None
) -> Workload:
    from fairshare.simulate.sources import load_workload
    from fairshare.simulate.trace import load_trace
    from fairshare.simulate.workload import merge

    how = _trace_format(traces)
    found = [load_workload(path, seed, how) for path in files]
    found += [load_trace(path, how) for path in traces.trace or []]
    found += _present_workloads(context, present)
    if not found:
        hint = "give a workload file, --trace FILE, --from-queue QUEUE or --from-run RUN"
        raise UsageError("there is nothing to simulate", hint=hint)
    return merge(found)


def _present_workloads(context: AppContext, present: PresentFlags) -> list[Workload]:
    from fairshare.config.durations import parse_duration
    from fairshare.insight.workloads import workload_of_queue, workload_of_run
    from fairshare.submit.journal import find_run

    try:
        assume = None if present.assume_runtime is None else parse_duration(present.assume_runtime) * 1000
    except ValueError as error:
        raise UsageError(f"--assume-runtime: {error}") from None
    found = []
    if present.from_queue is not None:
        name = context.choose_queue(present.from_queue).name
        priorities = context.journaled_priorities()
        found.append(
            workload_of_queue(context.jobs, name, now=context.clock.now(), assume=assume, priorities=priorities)
        )
    for run in present.from_run or []:
        record = find_run(context.runs_dir, run)
        found.append(workload_of_run(record, context.jobs, assume=assume, queue_key=lambda name: _key(context, name)))
    return found


def _key(context: AppContext, queue: str) -> str:
    known = context.project.queue(queue) if context.project is not None else None
    return "" if known is None else known[0]


def _queue_of(context: AppContext, present: PresentFlags, queue: str | None) -> str | None:
    """Return the queue that gets the jobs: the one said, else the one they come from if the project has it."""
    if queue is not None or present.from_queue is None:
        return queue
    return _key(context, present.from_queue) or None


def _trace_format(traces: TraceFlags) -> TraceFormat:
    from fairshare.config.errors import did_you_mean
    from fairshare.simulate.columns import parse_map
    from fairshare.simulate.trace import FORMATS, TraceFormat

    if traces.format is not None and traces.format not in FORMATS:
        raise UsageError(f"--format {traces.format}", hint=did_you_mean(traces.format, FORMATS, "formats"))
    return TraceFormat(traces.format, parse_map(traces.map) if traces.map else {}, traces.unit)


def _comparison(flags: WhatIfFlags, queue: str | None) -> Comparison:
    from fairshare.config.errors import did_you_mean
    from fairshare.scheduler.engine import Blocking, VictimRule
    from fairshare.simulate.settings import Comparison
    from fairshare.simulate.variants import parse_change

    scopes = [scope.value for scope in Blocking]
    for word in flags.blocking or []:
        if word not in scopes:
            raise UsageError(f"--blocking {word}", hint=did_you_mean(word, scopes, "scopes"))
    rules = [rule.value for rule in VictimRule]
    if flags.victim_rule is not None and flags.victim_rule not in rules:
        raise UsageError(f"--victim-rule {flags.victim_rule}", hint=did_you_mean(flags.victim_rule, rules, "rules"))
    return Comparison(
        policies=flags.policy or [],
        changes=[parse_change(text) for text in flags.set or []],
        capacities=[_capacity(text) for text in flags.capacity or []],
        blockings=[Blocking(word) for word in dict.fromkeys(flags.blocking or [])],
        queue=queue,
        victim_rule=None if flags.victim_rule is None else VictimRule(flags.victim_rule),
    )


def _capacity(text: str) -> tuple[str | None, int]:
    environment, equals, number = text.rpartition("=")
    if not number.isascii() or not number.isdigit() or (equals and not environment):
        raise UsageError(f"--capacity {text}: this is no number of instances", hint="write 16, or gpu=16")
    return environment or None, int(number)


def _simulate(context: AppContext, workload: Workload, comparison: Comparison) -> list[Result]:
    from fairshare.simulate.figures import figures_of
    from fairshare.simulate.runner import simulate as play
    from fairshare.simulate.settings import settings_of

    present = None if context.project is None else context.project.file
    results = []
    for setting in settings_of(comparison, present):
        if len(workload.jobs) > _LONG and sys.stderr.isatty():
            context.out.talk(f"Simulating {workload.name} under {setting.name} ...")
        course = play(workload, setting)
        results.append((course, figures_of(course)))
    return results


def _show(
    context: AppContext,
    workload: Workload,
    results: Sequence[Result],
    report: ReportFlags,
    jobs_per_second: int,
    expected: Sequence[Expectation],
) -> list[str]:
    """Print the answer; returns one sentence for each range that was not kept."""
    from fairshare.cli.simulate_view import simulation_text
    from fairshare.simulate.document import flat_rows, policy_document
    from fairshare.simulate.expect import violations

    policies = [
        policy_document(course, figures, with_starts=report.starts, with_timeline=report.timeline)
        for course, figures in results
    ]
    wrong = violations(expected, policies)
    notes = _notes(workload, results)
    data: dict[str, Any] = {
        "model_version": MODEL_VERSION,
        "workload": workload.name,
        "simulated_jobs_per_second": jobs_per_second,
        "notes": notes,
        "policies": flat_rows(policies) if context.out.format is OutputFormat.CSV else policies,
    }
    if report.expect is not None:
        data["violations"] = wrong
    context.out.show(
        "Simulation",
        data,
        text=lambda width: simulation_text(workload, results, notes, width),
        rows="policies",
        name="name",
    )
    return wrong


def _notes(workload: Workload, results: Sequence[Result]) -> list[str]:
    from fairshare.simulate.notes import notes_of

    return notes_of(workload, [course.setting for course, _ in results], [figures for _, figures in results])


def _write_report(context: AppContext, path: Path, workload: Workload, results: Sequence[Result]) -> None:
    from fairshare.simulate.report import report_page

    page = report_page(workload, results, _notes(workload, results))
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="give another --html FILE") from None
    context.out.talk(f"Report: {path}")
