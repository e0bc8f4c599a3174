"""The flags of ``fairshare submit``, in the groups in which its help shows them. Only names, types and help texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from fairshare.cli.command import FlagGroup
from fairshare.cli.notify import NotifyFlag

_PAIR = "KEY=VALUE"


@dataclass(frozen=True)
class TargetFlags(FlagGroup):
    """What to submit."""

    heading: ClassVar = "What to submit"

    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="FILE", help="CreateTrainingJob requests: a JSON object, list or lines."),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep", metavar="KEY=VALUES", help="One job for each value: lr=0.1,0.01 or seed=0:8; may be repeated."
        ),
    ] = None
    array: Annotated[
        int | None, typer.Option("--array", metavar="N", help="N equal jobs, FAIRSHARE_ARRAY_INDEX 0 to N-1 in each.")
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of a script's job (default: the script's).")
    ] = None
    requirements: Annotated[
        str | None, typer.Option("--requirements", metavar="FILE", help="Of a script, in its directory.")
    ] = None


@dataclass(frozen=True)
class QueueFlags(FlagGroup):
    """Where the jobs go, and how they are told from others there."""

    heading: ClassVar = "Queue and share"

    queue: Annotated[
        str | None,
        typer.Option(
            *("--queue", "-q"),
            metavar="QUEUE[,...]",
            help="Key, name or ARN (default: the project's default queue). Several: moved on when one cannot start it.",
        ),
    ] = None
    share: Annotated[str | None, typer.Option("--share", metavar="SHARE", help="Share identifier.")] = None
    quota_share: Annotated[
        str | None, typer.Option("--quota-share", metavar="SHARE", help="Quota share, on a queue that has such.")
    ] = None
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="0-99", help="Priority inside the share; higher goes first.")
    ] = None
    allow_unknown_share: Annotated[
        bool, typer.Option("--allow-unknown-share", help="Accept a share that the policy lacks; it weighs 1.")
    ] = False
    preemption_retries: Annotated[
        int | None,
        typer.Option(
            "--preemption-retries", metavar="N", help="Preempted more often than this, a job ends (default: never)."
        ),
    ] = None


@dataclass(frozen=True)
class JobFlags(FlagGroup):
    """What every job gets, over what its file says."""

    heading: ClassVar = "Every job (over what a job file says)"

    hp: Annotated[list[str] | None, typer.Option("--hp", metavar=_PAIR, help="Hyperparameter; may be repeated.")] = None
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar=_PAIR, help="Environment variable; may be repeated.")
    ] = None
    input: Annotated[
        list[str] | None, typer.Option("--input", metavar="CHANNEL=S3_URI", help="Input channel; may be repeated.")
    ] = None
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="As in ml.g6.12xlarge.")
    ] = None
    instance_count: Annotated[int | None, typer.Option("--instance-count", metavar="N", help="Instances.")] = None
    image: Annotated[str | None, typer.Option("--image", metavar="URI", help="Training image.")] = None
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Execution role: name or ARN.")] = None
    max_runtime: Annotated[
        str | None, typer.Option("--max-runtime", metavar="TIME", help="Longest run: 90 (s), 5m, 6h.")
    ] = None


@dataclass(frozen=True)
class PaceFlags(FlagGroup):
    """When the jobs are sent."""

    heading: ClassVar = "Waves and pace"

    wave_size: Annotated[
        str | None,
        typer.Option("--wave-size", metavar="N|auto", help="Jobs in a wave; auto follows how launches go."),
    ] = None
    interval: Annotated[
        str | None, typer.Option("--interval", metavar="TIME", help="From the start of a wave to that of the next.")
    ] = None
    start_at: Annotated[
        str | None,
        typer.Option("--start-at", metavar="TIME", help='"2026-12-01 08:00 Europe/Berlin", or 08:00: the next such.'),
    ] = None
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="WINDOW", help='Start waves only inside it: "20:00-06:00 Europe/Berlin".'),
    ] = None
    max_in_flight: Annotated[
        int | None, typer.Option("--max-in-flight", metavar="N", help="Jobs that are sent and have not ended, at most.")
    ] = None
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", help="Calls a second (default 4.9; on this machine no limit)."),
    ] = None


@dataclass(frozen=True)
class RunFlags(FlagGroup):
    """What is done with the run as a whole."""

    heading: ClassVar = "Run"

    run_id: Annotated[str | None, typer.Option("--run-id", metavar="NAME", help="Name of the run.")] = None
    only_failed: Annotated[
        bool,
        typer.Option("--only-failed", help="Only what failed, was refused or never sent in the file's latest run."),
    ] = False
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="With --only-failed: compare with this run instead.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show everything, write and send nothing.")] = False
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all jobs have ended.")] = False
    notify: NotifyFlag = None
    export_triggers: Annotated[
        str | None,
        typer.Option(
            "--export-triggers", metavar="sh|bat", help="Send nothing; write a script that does, without fairshare."
        ),
    ] = None
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Folder of --export-triggers (default: triggers-RUN).")
    ] = None
