"""``fairshare efficiency``: whether the devices worked, why not, what to change, and who waited because of it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.measuring import Listings, ShareFlag, SinceFlag, begin_of, find_detail, jobs_since, judged
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import Column, count, elapsed, safe, table
from fairshare.model import MODEL_VERSION, JobDetail, NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.insight.measured import QueueHistory
    from fairshare.metrics.efficiency import DeviceHours, JobEfficiency, ShareEfficiency
    from fairshare.metrics.series import Use
    from fairshare.metrics.victims import Victim

app = new_app()

_BAR: Final = 20
_WORTH_REPLAYING: Final = 10
"""Of several jobs, only those with the most idle capacity have their victims looked for."""

_SHOWN_VICTIMS: Final = 3
_NARROWEST: Final = 40
_NO_HOURS: Final = 1e-6
"""What sums of rounded hours may differ by."""


@dataclass(frozen=True)
class _Found:
    """The jobs looked at and who waited because of each, by job id; a job missing there was not looked at."""

    jobs: Sequence[JobEfficiency]
    victims: Mapping[str, Sequence[Victim]]


@command(
    app,
    examples=("fairshare efficiency digits-lr0-1", "fairshare efficiency --share LOWPRI --since 7d -o json"),
    exit_codes=(4, 6, 7),
)
def efficiency(
    context: AppContext,
    job: Annotated[
        str | None,
        typer.Argument(metavar="JOB", help="Name, id, a unique prefix of one, or ARN.", show_default=False),
    ] = None,
    queue: QueueFlag = None,
    share: ShareFlag = None,
    since: SinceFlag = None,
) -> None:
    """Show how well a job, or the jobs of a share or a queue, used what they held, with diagnoses and advice."""
    if job is not None and (share is not None or since is not None):
        raise UsageError("name a job, or a share and a time, not both", hint="a job is shown from its start on")
    listings = Listings(context)
    if job is not None:
        details: Sequence[JobDetail] = [find_detail(context, queue, job)]
    else:
        begin = begin_of(context, since)
        details = jobs_since(context, listings, context.choose_queue(queue).name, share, begin).jobs
    jobs = judged(context, details)
    found = _Found(jobs, _victims(context, listings, jobs))
    context.out.show(
        "Efficiency",
        {
            "jobs": [_job_document(one, found.victims.get(one.job.job_id)) for one in jobs],
            "shares": [_share_document(one) for one in _shares(jobs)],
        },
        text=lambda width: _text(found, width, is_one=job is not None),
        rows="jobs",
        name="job_id",
    )
    if job is not None:
        context.suggest(f"fairshare metrics {job}")
    elif jobs:
        context.suggest(f"fairshare efficiency {_most_idle(jobs)[0].job.job_name}")


def _shares(jobs: Sequence[JobEfficiency]) -> list[ShareEfficiency]:
    from fairshare.metrics.efficiency import by_share

    return by_share(jobs)


def _most_idle(jobs: Sequence[JobEfficiency]) -> list[JobEfficiency]:
    return sorted(jobs, key=lambda job: -(job.wasted_ms * job.instances))


def _victims(context: AppContext, listings: Listings, jobs: Sequence[JobEfficiency]) -> dict[str, Sequence[Victim]]:
    """Ask the scheduler core who waited, queue by queue; a queue that is gone has no answer."""
    now = context.clock.now()
    histories: dict[str, QueueHistory | None] = {}
    found: dict[str, Sequence[Victim]] = {}
    for job in _most_idle(jobs)[:_WORTH_REPLAYING]:
        queue = job.job.job_queue
        if not queue or not job.wasted_ms:
            continue
        if queue not in histories:
            histories[queue] = _history(context, listings, queue)
        history = histories[queue]
        if history is not None:
            found[job.job.job_id] = history.victims(job, now)
    return found


def _history(context: AppContext, listings: Listings, queue: str) -> QueueHistory | None:
    from fairshare.insight.measured import QueueHistory
    from fairshare.insight.queues import observe_queue

    try:
        view = observe_queue(context.provisioner, queue, context.stack)
    except NotFoundError:
        return None
    return QueueHistory(tuple(listings.of(queue)), context.journaled_priorities(), view.capacity, view.policy)


def _job_document(found: JobEfficiency, victims: Sequence[Victim] | None) -> dict[str, Any]:
    from fairshare.metrics.training import TrainingMetric

    document: dict[str, Any] = {
        "job_id": found.job.job_id,
        "job_name": found.job.job_name,
        "status": found.job.status,
        "share_identifier": found.job.share_identifier,
        "instance_type": found.instance_type,
        "instances": found.instances,
        "device": found.device_noun,
        "devices": found.devices,
    }
    for name, metric in (
        ("gpu", TrainingMetric.GPU),
        ("gpu_memory", TrainingMetric.GPU_MEMORY),
        ("cpu", TrainingMetric.CPU),
        ("memory", TrainingMetric.MEMORY),
        ("disk", TrainingMetric.DISK),
    ):
        document |= _use_document(name, found.use.get(metric))
    return document | {
        "warm_up_seconds": None if found.shape is None else found.shape.warm_up_seconds,
        "idle_tail_seconds": None if found.shape is None else found.shape.idle_tail_seconds,
        "phases": {
            "waiting_seconds": found.phases.waiting // 1000,
            "launching_seconds": found.phases.launching // 1000,
            "downloading_seconds": found.phases.downloading // 1000,
            "training_seconds": found.phases.training // 1000,
            "uploading_seconds": found.phases.uploading // 1000,
        },
        "device_hours": None if found.hours is None else _hours_document(found.hours),
        "spilled_mib": found.spilled_mib,
        "diagnoses": [
            {"id": one.id, "title": one.title, "evidence": one.evidence, "advice": one.advice}
            for one in found.diagnoses
        ],
        "victims": None
        if victims is None
        else [
            {
                "job_id": victim.job_id,
                "job_name": victim.job_name,
                "share_identifier": victim.share_identifier,
                "delay_seconds": victim.delay // 1000,
            }
            for victim in victims
        ],
        "model_version": MODEL_VERSION,
    }


def _use_document(name: str, use: Use | None) -> dict[str, Any]:
    values = (None,) * 4 if use is None else (use.mean, use.p10, use.p50, use.p95)
    document: dict[str, Any] = {
        f"{name}_{kind}_percent": None if value is None else round(value, 2)
        for kind, value in zip(("mean", "p10", "p50", "p95"), values, strict=True)
    }
    return document | {f"{name}_points": 0 if use is None else use.points}


def _hours_document(hours: DeviceHours) -> dict[str, float]:
    return {
        "allocated": round(hours.allocated, 4),
        "used": round(hours.used, 4),
        "idle": round(hours.idle, 4),
        "unmeasured": round(hours.unmeasured, 4),
    }


def _share_document(share: ShareEfficiency) -> dict[str, Any]:
    return {
        "share_identifier": share.share_identifier,
        "device": share.device_noun,
        "jobs": share.jobs,
        "mean_percent": None if share.mean_percent is None else round(share.mean_percent, 2),
        "device_hours": _hours_document(share.hours),
    }


def _text(found: _Found, width: int | None, *, is_one: bool) -> str:
    if is_one:
        job = found.jobs[0]
        return _job_text(job, found.victims.get(job.job.job_id), width)
    if not found.jobs:
        return "No job ran in this time."
    return "\n\n".join(part for part in (_jobs_table(found, width), _shares_table(_shares(found.jobs), width)) if part)


def _job_text(found: JobEfficiency, victims: Sequence[Victim] | None, width: int | None) -> str:
    size = f"{found.instances} x {found.instance_type or 'several types'}"
    if found.devices is not None:
        size += f" ({count(found.devices, found.device_noun)})"
    lines = [f"{safe(found.job.job_name)}  {safe(found.job.status)}  {safe(size)}", *_phase_lines(found)]
    lines += _use_lines(found)
    for diagnosis in found.diagnoses:
        lines += [
            *_wrapped(f"Diagnosis {diagnosis.id}: {diagnosis.title}.", "  ", width),
            *_wrapped(safe(diagnosis.evidence), "    ", width),
            *_wrapped(safe(diagnosis.advice), "    ", width),
        ]
    if not found.diagnoses and found.judged_use is not None:
        lines.append("  No diagnosis: nothing stands out.")
    return "\n".join([*lines, *_waste_lines(found, victims)])


def _wrapped(text: str, indent: str, width: int | None) -> list[str]:
    """Break text into lines that fit the terminal; a pipe gets one line."""
    if width is None:
        return [indent + text]
    return textwrap.wrap(text, max(width, _NARROWEST), initial_indent=indent, subsequent_indent=indent)


def _phase_lines(found: JobEfficiency) -> list[str]:
    phases = found.phases
    parts = {
        "waited": phases.waiting,
        "launching": phases.launching,
        "downloading": phases.downloading,
        "training": phases.training,
        "uploading": phases.uploading,
    }
    spoken = [f"{name} {elapsed(spent)}" for name, spent in parts.items() if spent >= 1000]
    return [f"  {', '.join(spoken)}"] if spoken else []


def _use_lines(found: JobEfficiency) -> list[str]:
    from fairshare.metrics.training import TrainingMetric

    titles = {
        TrainingMetric.GPU: "GPU use",
        TrainingMetric.GPU_MEMORY: "GPU memory",
        TrainingMetric.CPU: "CPU use",
        TrainingMetric.MEMORY: "memory",
        TrainingMetric.DISK: "disk",
    }
    if not found.use:
        reason = "" if found.devices is not None else ", or the devices of its instance type are not known"
        return [f"  no data: CloudWatch has nothing to judge this job by{reason}"]
    lines = [f"  {titles[metric]:<12}{_use_text(use)}" for metric, use in found.use.items()]
    if found.shape is not None:
        warm, tail = found.shape.warm_up_seconds, found.shape.idle_tail_seconds
        lines.append(f"  warm-up {elapsed(warm * 1000)}, idle tail {elapsed(tail * 1000)}")
    return lines


def _use_text(use: Use) -> str:
    filled = min(_BAR, round(use.mean / 100 * _BAR))
    bar = "#" * filled + "-" * (_BAR - filled)
    spread = f"p10 {use.p10:.0f}  p50 {use.p50:.0f}  p95 {use.p95:.0f}"
    return f"{use.mean:5.1f} %  {bar}  {spread}  ({count(use.points, 'point')})"


def _hours(hours: float) -> str:
    """Return hours for people: ``11.9``, and ``0.0042`` of a short job."""
    return f"{hours:.1f}" if hours >= 1 or hours < _NO_HOURS else f"{hours:.2g}"


def _waste_lines(found: JobEfficiency, victims: Sequence[Victim] | None) -> list[str]:
    if found.hours is None or found.judged_use is None:
        return []
    hours, noun = found.hours, found.device_noun
    line = f"  {_hours(hours.idle)} of {_hours(hours.allocated)} {noun}-hours did nothing"
    if hours.unmeasured >= hours.allocated / 100:
        line += f", {_hours(hours.unmeasured)} were not measured"
    lines = [f"{line}."]
    if victims:
        lines.append(f"    Without them: {_victims_text(victims)} earlier (model {MODEL_VERSION}).")
    elif victims is not None:
        lines.append(f"    No other job waited because of them (model {MODEL_VERSION}).")
    return lines


def _victims_text(victims: Sequence[Victim]) -> str:
    named = [f"{safe(victim.job_name)} by {elapsed(victim.delay)}" for victim in victims[:_SHOWN_VICTIMS]]
    rest = victims[_SHOWN_VICTIMS:]
    if rest:
        named.append(f"{count(len(rest), 'more job')} by {elapsed(sum(v.delay for v in rest))} together")
    return ", ".join(named)


def _jobs_table(found: _Found, width: int | None) -> str:
    columns = (
        Column("JOB", shrinks=True),
        Column("SHARE", shrinks=True),
        Column("DEVICES", right=True),
        Column("USE", right=True),
        Column("P95", right=True),
        Column("TAIL", right=True),
        Column("IDLE H", right=True),
        Column("DELAYED", right=True),
        Column("DIAGNOSES", shrinks=True, prose=True),
    )
    return table(columns, [_job_row(job, found.victims.get(job.job.job_id)) for job in _most_idle(found.jobs)], width)


def _job_row(found: JobEfficiency, victims: Sequence[Victim] | None) -> list[str]:
    use = found.judged_use
    numbers = ["no data", "-"] if use is None else [f"{use.mean:.1f} %", f"{use.p95:.0f}"]
    return [
        found.job.job_name,
        found.job.share_identifier or "-",
        "-" if found.devices is None else count(found.devices, found.device_noun),
        *numbers,
        "-" if found.shape is None else elapsed(found.shape.idle_tail_seconds * 1000),
        "-" if found.hours is None or use is None else _hours(found.hours.idle),
        "-" if not victims else count(len(victims), "job"),
        ", ".join(one.id for one in found.diagnoses) or "-",
    ]


def _shares_table(shares: Sequence[ShareEfficiency], width: int | None) -> str:
    columns = (
        Column("SHARE", shrinks=True),
        Column("JOBS", right=True),
        Column("USE", right=True),
        Column("DEVICE-HOURS", right=True),
        Column("USED", right=True),
        Column("IDLE", right=True),
        Column("UNMEASURED", right=True),
    )
    rows = [
        [
            share.share_identifier or "-",
            str(share.jobs),
            "no data" if share.mean_percent is None else f"{share.mean_percent:.1f} %",
            f"{_hours(share.hours.allocated)} {share.device_noun}",
            *map(_hours, (share.hours.used, share.hours.idle, share.hours.unmeasured)),
        ]
        for share in shares
    ]
    return table(columns, rows, width) if rows else ""
