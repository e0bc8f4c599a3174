"""``fairshare efficiency``: whether the devices worked, why not, what to change, and who waited because of it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.measuring import Listings, ShareFlag, SinceFlag, begin_of, jobs_since, judged
from fairshare.cli.output import OutputFormat
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import Column, count, elapsed, hours_text, safe, table
from fairshare.cli.subjects import JobOrRun, check_alone, find_subject
from fairshare.model import MODEL_VERSION, JobDetail, NotFoundError

if TYPE_CHECKING:
    from fairshare.insight.measured import QueueHistory
    from fairshare.metrics.efficiency import DeviceHours, JobEfficiency, ShareEfficiency
    from fairshare.metrics.series import Use
    from fairshare.metrics.victims import Victim

app = new_app()

_BAR: Final = 20
_HOURS: Final = ("allocated", "used", "idle", "unmeasured")
_WORTH_REPLAYING: Final = 10
"""Of several jobs, only those with the most idle capacity have their victims looked for."""

_SHOWN_VICTIMS: Final = 3
_NARROWEST: Final = 40
_WIDE: Final = 100
"""Cells from which on the table of jobs has all of its columns."""

_LEFT_OUT: Final = ("P95", "TAIL")
"""Those that it has not below: the screen of one job has them."""

_FEW_HOURS: Final = 0.1
"""Below so many device-hours, seconds are told."""


@dataclass(frozen=True)
class _Found:
    """The jobs looked at and who waited because of each, by job id; a job missing there was not looked at."""

    jobs: Sequence[JobEfficiency]
    victims: Mapping[str, Sequence[Victim]]


@command(
    app,
    examples=(
        "fairshare efficiency digits-lr0-1",
        "fairshare efficiency lunar-otter",
        "fairshare efficiency --share LOWPRI --since 7d -o json",
    ),
    exit_codes=(4, 6, 7),
)
def efficiency(
    context: AppContext,
    what: JobOrRun = None,
    queue: QueueFlag = None,
    share: ShareFlag = None,
    since: SinceFlag = None,
) -> None:
    """Show how well a job, or the jobs of a run, a share or a queue, used what they held, with diagnoses and advice."""
    check_alone(what, share, since)
    listings = Listings(context)
    subject = None if what is None else find_subject(context, queue, what)
    if subject is not None:
        details: Sequence[JobDetail] = subject.jobs
    else:
        begin = begin_of(context, since)
        details = jobs_since(context, listings, context.choose_queue(queue).name, share, begin).jobs
    is_one = subject is not None and subject.kind == "job"
    jobs = judged(context, details)
    found = _Found(jobs, _victims(context, listings, jobs))
    rows = [_job_document(one, found.victims.get(one.job.job_id)) for one in jobs]
    context.out.show(
        "Efficiency",
        {
            "jobs": [_flat(row) for row in rows] if context.out.format is OutputFormat.CSV else rows,
            "shares": [_share_document(one) for one in _shares(jobs)],
        },
        text=lambda width: _text(found, width, is_one=is_one),
        rows="jobs",
        name="job_id",
    )
    if is_one:
        context.suggest(f"fairshare metrics {what}")
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
            only_to = job.job.stopped_at if len(jobs) == 1 else None
            histories[queue] = _history(context, listings, queue, only_to)
        history = histories[queue]
        victims = None if history is None else history.victims(job, now)
        if victims is not None:
            found[job.job.job_id] = victims
    return found


def _history(context: AppContext, listings: Listings, queue: str, only_to: int | None) -> QueueHistory | None:
    """Return what is known of a queue's past; of one job, who came after its end (ms) cannot have waited for it."""
    from fairshare.insight.measured import QueueHistory
    from fairshare.insight.queues import observe_queue

    try:
        view = observe_queue(context.provisioner, queue, context.stack)
    except NotFoundError:
        return None
    past = listings.of(queue, None if only_to is None else only_to + 1)
    return QueueHistory(past, context.journaled_priorities(), view.capacity, view.policy)


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
    for metric in TrainingMetric:
        document |= _use_document(metric.short_name, found.use.get(metric))
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


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """Return a job's document as a row for spreadsheets: sums in columns of their own, of lists the ids."""
    row: dict[str, Any] = {}
    for name, value in document.items():
        if name == "device_hours":
            row |= {f"{name}_{kind}": None if value is None else value[kind] for kind in _HOURS}
        elif name == "phases":
            row |= value
        elif name in ("diagnoses", "victims"):
            row[name] = None if value is None else " ".join(one.get("id", one.get("job_id")) for one in value)
        else:
            row[name] = value
    return row


def _use_document(name: str, use: Use | None) -> dict[str, Any]:
    values = (None,) * 4 if use is None else (use.mean, use.p10, use.p50, use.p95)
    document: dict[str, Any] = {
        f"{name}_{kind}_percent": None if value is None else round(value, 2)
        for kind, value in zip(("mean", "p10", "p50", "p95"), values, strict=True)
    }
    return document | {f"{name}_points": 0 if use is None else use.points}


def _hours_document(hours: DeviceHours) -> dict[str, float]:
    return {kind: round(getattr(hours, kind), 4) for kind in _HOURS}


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


def _seconds_text(hours: float) -> str:
    return f"{hours * 3600:.0f}"


def _waste_lines(found: JobEfficiency, victims: Sequence[Victim] | None) -> list[str]:
    if found.hours is None or found.judged_use is None:
        return []
    hours = found.hours
    unit, show = ("second", _seconds_text) if hours.allocated < _FEW_HOURS else ("hour", hours_text)
    line = f"  {show(hours.idle)} of {show(hours.allocated)} {found.device_noun}-{unit}s did nothing"
    if hours.unmeasured >= hours.allocated / 100:
        line += f", {show(hours.unmeasured)} were not measured"
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
    rows = [_job_row(job, found.victims.get(job.job.job_id)) for job in _most_idle(found.jobs)]
    if width is None or width >= _WIDE:
        return table(columns, rows, width)
    kept = [number for number, column in enumerate(columns) if column.title not in _LEFT_OUT]
    return table([columns[n] for n in kept], [[row[n] for n in kept] for row in rows], width)


def _job_row(found: JobEfficiency, victims: Sequence[Victim] | None) -> list[str]:
    use = found.judged_use
    numbers = ["no data", "-"] if use is None else [f"{use.mean:.1f} %", f"{use.p95:.0f}"]
    return [
        found.job.job_name,
        found.job.share or "-",
        "-" if found.devices is None else count(found.devices, found.device_noun),
        *numbers,
        "-" if found.shape is None else elapsed(found.shape.idle_tail_seconds * 1000),
        "-" if found.hours is None or use is None else hours_text(found.hours.idle),
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
            f"{hours_text(share.hours.allocated)} {share.device_noun}",
            *map(hours_text, (share.hours.used, share.hours.idle, share.hours.unmeasured)),
        ]
        for share in shares
    ]
    return table(columns, rows, width) if rows else ""
