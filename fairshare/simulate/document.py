"""A simulation as a document of JSON types: the contract of ``fairshare simulate -o json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final

from fairshare.model import FairsharePolicy
from fairshare.scheduler.commands import PutQueue
from fairshare.scheduler.engine import EngineOptions
from fairshare.simulate.course import NOT_YET, Course
from fairshare.simulate.figures import Figures, Preempted, ShareFigures, SizeFigures, Waits
from fairshare.simulate.timeline import Timeline

_BY_KIND: Final = "preemptions_by_kind"


def options_document(options: EngineOptions) -> dict[str, Any]:
    """Return every choice that AWS leaves open, by name."""
    return {name: _plain(value) for name, value in asdict(options).items()}


def policy_document(
    course: Course, figures: Figures, *, with_starts: bool = False, with_timeline: bool = False
) -> dict[str, Any]:
    """Return what one policy did to the workload."""
    document: dict[str, Any] = {
        "name": figures.name,
        "jobs": len(course.workload.jobs),
        "mean_wait_seconds": figures.waits.mean,
        "max_wait_seconds": figures.waits.max,
        "wait_p50_seconds": figures.waits.p50,
        "wait_p95_seconds": figures.waits.p95,
        "mean_slowdown": figures.slowdown,
        "utilization": figures.utilization,
        "utilization_at_peak": figures.utilization_at_peak,
        "makespan_seconds": figures.makespan,
        "throughput_jobs_per_hour": figures.jobs_per_hour,
        **_preempted(figures.preempted),
        "unfinished_jobs": figures.unfinished,
        "time_limited_jobs": sum(figures.given_up.values()),
        "time_limited_by_reason": dict(figures.given_up),
        "share_error": figures.share_error,
        "share_error_max": figures.share_error_max,
        "jain_index": figures.jain,
        "longest_starvation_seconds": figures.starvation,
        "starved_share": figures.starved_share,
        "queue": course.setting.queue,
        "capacity": {name: each.max_capacity for name, each in course.setting.environments.items()},
        "compute_reservation": {name: _reservation(queue) for name, queue in course.setting.queues.items()},
        "options": options_document(course.setting.options),
        "shares": {share.name: _share(share) for share in figures.shares},
        "sizes": [_size(size) for size in figures.sizes],
    }
    if with_timeline:
        document["timeline"] = _timeline(figures.timeline)
    if with_starts:
        document["starts"] = starts_document(course)
    return document


def starts_document(course: Course) -> list[dict[str, Any]]:
    """Return the attempts in the order the scheduler began them; times are seconds since the workload began."""
    jobs = course.workload.jobs
    return [
        {
            "job": jobs[attempt.job].id,
            "share": course.shares[course.share_of[attempt.job]],
            "instances": jobs[attempt.job].demand,
            "submit_seconds": jobs[attempt.job].submit_at / 1000,
            "start_seconds": attempt.start / 1000,
            "end_seconds": None if attempt.end == NOT_YET else attempt.end / 1000,
            "preempted": attempt.is_preempted,
        }
        for attempt in course.attempts()
    ]


def _reservation(queue: PutQueue) -> int:
    return queue.policy.compute_reservation if isinstance(queue.policy, FairsharePolicy) else 0


def flat_rows(policies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each policy as a whole (``share`` empty) and each of its shares, for CSV."""
    rows: list[dict[str, Any]] = []
    for policy in policies:
        rows.append({"name": policy["name"], "share": "", **_flat(policy)})
        rows += [{"name": policy["name"], "share": name, **_flat(share)} for name, share in policy["shares"].items()]
    return rows


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of a document but its name; preemptions by kind become a column each."""
    row: dict[str, Any] = {}
    for key, value in document.items():
        if key == _BY_KIND:
            row |= {f"preemptions_{kind.lower()}": number for kind, number in value.items()}
        elif key != "name" and not isinstance(value, dict | list):
            row[key] = value
    return row


def _share(share: ShareFigures) -> dict[str, Any]:
    return {
        "jobs": share.jobs,
        **_waits(share.waits),
        "mean_slowdown": share.slowdown,
        "capacity_fraction": share.capacity_fraction,
        "due_fraction": share.due_fraction,
        **_preempted(share.preempted),
        "unfinished_jobs": share.unfinished,
        "time_limited_jobs": share.given_up,
    }


def _preempted(preempted: Preempted) -> dict[str, Any]:
    return {
        "preemptions": preempted.attempts,
        _BY_KIND: {kind.name: number for kind, number in preempted.by_kind.items()},
        "lost_instance_seconds": preempted.lost,
    }


def _size(size: SizeFigures) -> dict[str, Any]:
    return {
        "instances_min": size.smallest,
        "instances_max": size.largest,
        "jobs": size.waits.jobs,
        **_waits(size.waits),
    }


def _waits(waits: Waits) -> dict[str, float]:
    return {
        "wait_p50_seconds": waits.p50,
        "wait_p95_seconds": waits.p95,
        "wait_max_seconds": waits.max,
        "wait_mean_seconds": waits.mean,
    }


def _timeline(timeline: Timeline) -> dict[str, Any]:
    def series(values: Sequence[float | None]) -> list[float | None]:
        return [None if value is None else round(value, 4) for value in values]

    return {
        "begin_seconds": timeline.begin / 1000,
        "step_seconds": timeline.step / 1000,
        "used_instances": series(timeline.total_used()),
        "waiting_jobs": series(timeline.waiting),
        "share_error": series(timeline.error),
        "shares": {
            name: {"used_instances": series(used), "due_instances": series(due), "wanted_instances": series(wanted)}
            for name, used, due, wanted in zip(
                timeline.shares, timeline.used, timeline.due, timeline.wanted, strict=True
            )
        },
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return float(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
