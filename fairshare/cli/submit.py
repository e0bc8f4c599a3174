"""``fairshare submit``: a script, a job file or a Python target -> checked, planned, shown, sent in waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import count, safe
from fairshare.model import MAX_PRIORITY, NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.cli.submission import PreparedRun
    from fairshare.config.jobs import JobSpec, WavesSpec
    from fairshare.insight.wait import WaitResult
    from fairshare.submit.dispatch import RunResult, SubmitPlan

app = new_app()

JOB_FILE: Final = "jobs.yaml"
_COMMAND_LINE: Final = "command line"
_LEFT_OUT_SHOWN: Final = 5


Target = Annotated[
    str | None,
    typer.Argument(
        help="train.py, jobs.yaml or module.py:name of ModelTrainers (default: jobs.yaml beside the project file)."
    ),
]
Share = Annotated[str | None, typer.Option("--share", metavar="SHARE", help="Share identifier.")]
Priority = Annotated[
    int | None, typer.Option("--priority", metavar="0-99", help="Priority inside the share; higher goes first.")
]
Name = Annotated[str | None, typer.Option("--name", help="Name of a script's job (default: the script's).")]
Hp = Annotated[list[str] | None, typer.Option("--hp", metavar="KEY=VALUE", help="Hyperparameter; may be repeated.")]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="KEY=VALUE", help="Environment; may be repeated.")]
Input = Annotated[
    list[str] | None, typer.Option("--input", metavar="CHANNEL=S3_URI", help="Input channel; may be repeated.")
]
Requirements = Annotated[
    str | None, typer.Option("--requirements", metavar="FILE", help="Of a script, in its directory.")
]
InstanceType = Annotated[str | None, typer.Option("--instance-type", metavar="TYPE")]
InstanceCount = Annotated[int | None, typer.Option("--instance-count", metavar="N")]
Image = Annotated[str | None, typer.Option("--image", metavar="URI", help="Training image.")]
Role = Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Execution role: name or ARN.")]
MaxRuntime = Annotated[str | None, typer.Option("--max-runtime", metavar="TIME", help="Longest run: 90 (s), 5m, 6h.")]
WaveSize = Annotated[int | None, typer.Option("--wave-size", metavar="N", help="Jobs in a wave.")]
Interval = Annotated[
    str | None, typer.Option("--interval", metavar="TIME", help="From the start of a wave to that of the next.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", metavar="N", help="Calls a second (default 4.9; on this machine no limit).")
]
RunId = Annotated[str | None, typer.Option("--run-id", metavar="NAME", help="Name of the run.")]
AllowUnknownShare = Annotated[
    bool, typer.Option("--allow-unknown-share", help="Accept a share that the policy lacks; it weighs 1.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show everything, write and send nothing.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until all jobs have ended.")]


@command(
    app,
    examples=(
        "fairshare submit train.py --share HIGHPRI --priority 80 --instance-type ml.g6.12xlarge --hp lr=0.1",
        "fairshare submit jobs.yaml --wave-size 8 --interval 90s",
        "fairshare submit train_all.py:trainers --dry-run",
    ),
    exit_codes=(3, 4, 5, 6, 7, 130, 143),
)
def submit(
    context: AppContext,
    target: Target = None,
    share: Share = None,
    priority: Priority = None,
    queue: QueueFlag = None,
    name: Name = None,
    hp: Hp = None,
    env: Env = None,
    input: Input = None,
    requirements: Requirements = None,
    instance_type: InstanceType = None,
    instance_count: InstanceCount = None,
    image: Image = None,
    role: Role = None,
    max_runtime: MaxRuntime = None,
    wave_size: WaveSize = None,
    interval: Interval = None,
    rate: Rate = None,
    run_id: RunId = None,
    allow_unknown_share: AllowUnknownShare = False,
    dry_run: DryRun = False,
    wait: Wait = False,
) -> None:
    """Send training jobs to a queue, in waves.

    Everything that can be known is checked before the first write, and every problem of every job is told at once.
    """
    from fairshare.cli.submission import prepare_run
    from fairshare.submit.prepare import SubmitOptions
    from fairshare.submit.resolve import Overrides

    _check_priority(priority)
    specs, waves = _read_target(context, target, name=name, requirements=requirements)
    specs = [_with_flags(spec, hp or [], env or [], input or []) for spec in specs]
    runtime = None if max_runtime is None else _seconds("--max-runtime", max_runtime)
    options = SubmitOptions(
        overrides=Overrides(queue, share, priority, instance_type, instance_count, image, role, runtime),
        waves=_waves(waves, wave_size, interval),
        allow_unknown_share=allow_unknown_share,
    )
    run = prepare_run(context, specs, options, run_id=run_id, rate=rate)
    for warning in run.plan.warnings:
        context.out.talk(str(warning))
    if dry_run:
        _show_plan(context, run)
        return
    finish(context, _send(context, run), wait=wait)


# ---------------------------------------------------------------------------------------------------------------------
# Targets


def _read_target(
    context: AppContext, target: str | None, *, name: str | None, requirements: str | None
) -> tuple[list[JobSpec], WavesSpec | None]:
    """Return the jobs a target stands for, and the waves its file asks for."""
    from fairshare.config.job_file import load_job_file

    path = _default_target(context) if target is None else (context.cwd / target)
    if target is not None and path.suffix == ".py" and ":" not in path.name:
        return [_script(path, name=name, requirements=requirements)], None
    for flag, value in (("--name", name), ("--requirements", requirements)):
        if value is not None:
            raise UsageError(f"{flag} is for a script, not for {target or path}", hint="write it in the job file")
    if target is not None and ":" in target:
        from fairshare.cli.submission import bucket_of
        from fairshare.trainer.targets import load_target

        session = context.session
        jobs = load_target(
            target,
            region=session.region,
            account_id=session.account_id,
            bucket=bucket_of(context),
            boto_session=session.boto_session,
        )
        return jobs, None
    if path.suffix not in {".yaml", ".yml"}:
        raise UsageError(f"{target}: what is it?", hint="name a script (.py), a job file (.yaml) or module.py:name")
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}", hint="name a script, a job file or module.py:name")
    file = load_job_file(path)
    return list(file.jobs), file.waves


def _default_target(context: AppContext) -> Path:
    """The job file beside the project file."""
    if context.project is None:
        raise UsageError("nothing to submit", hint="name a script, a job file or module.py:name")
    return context.project.file.absolute().parent / JOB_FILE


def _script(path: Path, *, name: str | None, requirements: str | None) -> JobSpec:
    from fairshare.config.jobs import JobSpec, Origin
    from fairshare.submit.naming import clean_label

    if not path.is_file():
        raise NotFoundError(f"there is no script {path}", hint="the path is relative to the working directory")
    return JobSpec(
        name=name if name is not None else clean_label(path.stem),
        origin=Origin(_COMMAND_LINE),
        source_dir=path.absolute().parent,
        entry=path.name,
        requirements=requirements,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Flags


def _check_priority(priority: int | None) -> None:
    if priority is not None and not 0 <= priority <= MAX_PRIORITY:
        raise UsageError(f"--priority {priority} is not between 0 and {MAX_PRIORITY}", hint="0 is the lowest priority")


def _with_flags(spec: JobSpec, hp: list[str], env: list[str], inputs: list[str]) -> JobSpec:
    """Merge ``--hp``, ``--env`` and ``--input`` over what a job says."""
    if spec.trainer is not None and (hp or env or inputs):
        raise UsageError(
            f'--hp, --env and --input cannot be applied to job "{spec.name}": its own ModelTrainer says it',
            hint="set it in the ModelTrainer",
        )
    return replace(
        spec,
        hyperparameters={**spec.hyperparameters, **_pairs("--hp", hp)},
        environment={**spec.environment, **_pairs("--env", env)},
        inputs={**spec.inputs, **_pairs("--input", inputs)},
    )


def _pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(f"{flag} {text!r} is not KEY=VALUE", hint=f"for example {flag} lr=0.1")
        pairs[key] = value
    return pairs


def _seconds(flag: str, text: str) -> int:
    from fairshare.config.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _waves(written: WavesSpec | None, size: int | None, interval: str | None) -> WavesSpec | None:
    """Return the waves to use: flags over the job file."""
    from fairshare.config.jobs import WavesSpec

    if size is not None and size < 1:
        raise UsageError(f"--wave-size {size} is less than 1", hint="leave it out to send everything in one wave")
    if interval is not None and size is None and written is None:
        raise UsageError("--interval needs --wave-size", hint="for example --wave-size 8 --interval 90s")
    if size is None and written is None:
        return None
    seconds = written.interval if written else 0
    return WavesSpec(
        size=size if size is not None else written.size if written else 1,
        interval=seconds if interval is None else _seconds("--interval", interval),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Screens


def _show_plan(context: AppContext, run: PreparedRun) -> None:
    document = run.plan.to_json()
    context.out.show(
        "SubmitPlan",
        {key: value for key, value in document.items() if key not in {"api_version", "kind"}},
        text=lambda width: f"{_plan_text(run.plan, run.rate, context.place)}\n\nNothing was written or sent.",
        rows="requests",
        name="job_name",
    )


def _plan_text(plan: SubmitPlan, rate: float, place: str) -> str:
    from fairshare.submit.waves import timetable

    queues = sorted({job.request.job_queue for job in plan.jobs})
    shares = sorted({job.request.share_identifier for job in plan.jobs if job.request.share_identifier})
    head = f"{count(len(plan.jobs), 'job')} to queue {', '.join(queues)}" + (
        f" as {', '.join(shares)}" if shares else ""
    )
    return "\n".join(
        [
            f"{head}, {place}",
            "Checked: names, tags, shares, capacity, image region, role, "
            f"payloads (largest {plan.largest_payload_bytes / 1024:.1f} of 10 KiB)",
            *_source_lines(plan),
            f"Uploads: {count(len(plan.uploads), 'object')}, {plan.upload_bytes / 1024:.0f} KiB, "
            "less what is in S3 already",
            "",
            *timetable(plan.waves, rate),
            "",
            f"Run {plan.identity.run_id}",
        ]
    )


def _source_lines(plan: SubmitPlan) -> list[str]:
    """One line for each source directory, with what stays at home (case C14)."""
    lines = []
    for source in plan.sources:
        names = [safe(each.path) for each in source.left_out]
        more = f" and {len(names) - _LEFT_OUT_SHOWN} more" if len(names) > _LEFT_OUT_SHOWN else ""
        left_out = f"; left out: {', '.join(names[:_LEFT_OUT_SHOWN])}{more}" if names else ""
        content = f"{count(source.files, 'file')}, {source.size / 1024:.0f} KiB"
        lines.append(f"Source {safe(source.directory)}: {content}{left_out}")
    return lines


def _send(context: AppContext, run: PreparedRun) -> RunResult:
    from fairshare.cli.progress import SubmitProgress
    from fairshare.cli.submission import send_run

    if context.out.is_for_people:
        context.out.talk(_plan_text(run.plan, run.rate, context.place))
    with SubmitProgress(run.plan, context.out) as progress:
        return send_run(context, run, progress.on_event)


def finish(context: AppContext, result: RunResult, *, wait: bool) -> None:
    """Print the one answer of the command; with ``--wait``, after the jobs have ended."""
    from fairshare.cli.errors import error_text

    failure = result.error()
    if failure is not None and not result.sent:
        raise failure
    waited = _wait(context, result) if wait else None
    document = result.to_json()
    if waited is not None:
        outcomes = {job.job_id: job.outcome.value for job in waited.jobs}
        document["jobs"] = [{**job, "outcome": outcomes[job["job_id"]]} for job in document["jobs"]]
    context.out.show(
        "Run",
        {key: value for key, value in document.items() if key not in {"api_version", "kind"}},
        text=lambda width: _result_text(document, width),
        rows="jobs",
        name="job_id",
    )
    context.out.talk(f"{result.summary()} (run {result.run_id})")
    context.suggest("fairshare queue" if waited is None else "fairshare queue --all")
    if failure is not None:
        context.out.talk(error_text(failure))
        raise typer.Exit(failure.exit_code)
    if waited is not None and waited.exit_code:
        raise typer.Exit(waited.exit_code)


def _wait(context: AppContext, result: RunResult) -> WaitResult:
    from fairshare.insight.wait import wait_for_jobs

    return wait_for_jobs(
        context.jobs,
        result.sent[0][0].request.job_queue,
        [ref.job_id for _, ref in result.sent],
        clock=context.clock,
        timeout=None,
        pace=context.pace,
        on_change=lambda job: context.out.talk(f"{job.job_name}  {job.status}"),
    )


def _result_text(document: dict[str, Any], width: int | None) -> str:
    from fairshare.cli.render import Column, table

    if not document["jobs"]:
        return ""
    has_outcome = any("outcome" in job for job in document["jobs"])
    columns = [Column("JOB", shrinks=True), Column("SHARE"), Column("PRI", right=True), Column("WAVE", right=True)]
    columns.append(Column("OUTCOME" if has_outcome else "ID"))
    rows = [
        [
            job["job_name"],
            job["share_identifier"] or "-",
            "-" if job["scheduling_priority"] is None else str(job["scheduling_priority"]),
            str(job["wave"]),
            job["outcome"] if has_outcome else job["job_id"][:8],
        ]
        for job in document["jobs"]
    ]
    return table(columns, rows, width)
