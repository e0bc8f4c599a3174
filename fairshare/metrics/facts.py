"""Facts about a measured job: flat, named, None where nothing is known. The rules of diagnosis speak of these only.

Use is judged between warm-up and idle tail (`fairshare.metrics.shape`), so that an idle end is not taken for a slow
input. Per cents are of the devices; ``swing`` is the distance from the 10th to the 95th percentile. The first and the
last value are of parts of a period, in which a script begins and ends: no swing and no rise counts them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.metrics.instance_types import InstanceType, more_memory, more_vcpus, smaller
from fairshare.metrics.phases import PhaseTimes
from fairshare.metrics.ports import Point
from fairshare.metrics.series import Sample, Series, Use, summarise
from fairshare.metrics.shape import IDLE_PERCENT, Shape
from fairshare.metrics.training import JobSeries, TrainingMetric
from fairshare.model import TERMINAL_STATUSES

Fact = float | str | None
"""What is known, or None."""

_QUARTERS: Final = 4
_LEAST_TO_SWING: Final = 3
"""Values between the first and the last."""


def facts_of(
    measured: JobSeries, metric: TrainingMetric, shape: Shape | None, phases: PhaseTimes, spilled_mib: int | None
) -> Mapping[str, Fact]:
    """Return every fact that a rule may use.

    Args:
        measured: series of the job's hosts.
        metric: what it is judged by, GPU or CPU use.
        shape: of that metric; None without data.
        phases: time in each phase.
        spilled_mib: from its log; None = not read.
    """
    judged = measured.together(metric)
    return {
        "job_name": measured.job.job_name,
        "device": "GPU" if metric is TrainingMetric.GPU else "vCPU",
        "ended": int(measured.job.status in TERMINAL_STATUSES),
        "spilled_mib": spilled_mib,
        "judged_highest": None if judged is None else max(point.value for point in judged.points),
        **_busy_facts(judged),
        **_use_facts(measured, shape),
        **_shape_facts(shape, phases),
        **_host_facts(measured, metric, shape),
        **_instance_facts(measured, metric, shape),
    }


def _busy_facts(judged: Series | None) -> dict[str, Fact]:
    """For how long the devices did something."""
    if judged is None:
        return {"busy_points": None, "busy_seconds": None, "busy_part": None}
    points, busy = len(judged.points), sum(point.value >= IDLE_PERCENT for point in judged.points)
    return {
        "idle_percent": IDLE_PERCENT,
        "busy_points": busy,
        "busy_seconds": busy * judged.period,
        "busy_part": busy / points,
        "idle": format_duration((points - busy) * judged.period),
    }


def _use_facts(measured: JobSeries, shape: Shape | None) -> dict[str, Fact]:
    found: dict[str, Fact] = {}
    for metric in TrainingMetric:
        name = metric.short_name
        use = steady_use(measured, metric, shape)
        whole = measured.together(metric)
        found |= {
            f"{name}_mean": None if use is None else use.mean,
            f"{name}_p10": None if use is None else use.p10,
            f"{name}_p50": None if use is None else use.p50,
            f"{name}_p95": None if use is None else use.p95,
            f"{name}_swing": _swing(whole, shape),
            f"{name}_highest": None if whole is None else max(point.value for point in whole.points),
            f"{name}_points": 0 if whole is None else len(whole.points),
            **_growth(name, whole),
        }
    return found


def steady_use(measured: JobSeries, metric: TrainingMetric, shape: Shape | None) -> Use | None:
    """Return the use of all hosts together between warm-up and idle tail; of the whole time when all of it is tail."""
    series = measured.together(metric)
    return None if series is None else summarise([Sample(point.value) for point in _steady(series.points, shape)])


def _steady(points: Sequence[Point], shape: Shape | None) -> Sequence[Point]:
    """Return the points between warm-up and idle tail; all when there is none in between."""
    if shape is None or shape.steady_from >= shape.steady_to:
        return points
    return [point for point in points if shape.steady_from <= point.at < shape.steady_to] or points


def _swing(series: Series | None, shape: Shape | None) -> float | None:
    """Return how far apart the 10th and the 95th percentile are, in the steady time.

    Not counting the first and the last value: of a short job, one of them alone would be the 10th percentile.
    """
    inner = () if series is None else series.points[1:-1]
    if len(inner) < _LEAST_TO_SWING:
        return None
    use = summarise([Sample(point.value) for point in _steady(inner, shape)])
    return None if use is None else use.p95 - use.p10


def _growth(name: str, series: Series | None) -> dict[str, Fact]:
    """How many points a metric rose from the first quarter of the time to the last, and in its slowest quarter."""
    values = [] if series is None else [point.value for point in series.points[1:-1]]
    if len(values) < 2 * _QUARTERS:
        return {f"{name}_rise": None, f"{name}_slowest_rise": None}
    ends = [len(values) * number // _QUARTERS for number in range(_QUARTERS + 1)]
    means = [fmean(values[begin:end]) for begin, end in pairwise(ends)]
    return {
        f"{name}_rise": means[-1] - means[0],
        f"{name}_slowest_rise": min(after - before for before, after in pairwise(means)),
    }


def _shape_facts(shape: Shape | None, phases: PhaseTimes) -> dict[str, Fact]:
    found: dict[str, Fact] = {
        "launch_seconds": phases.before_training / 1000,
        "launch_part": phases.before_training / phases.held if phases.held else None,
        "launch": format_duration(phases.before_training // 1000),
        "trained": format_duration(phases.training // 1000),
        "downloading": format_duration(phases.downloading // 1000),
    }
    if shape is None:
        return found
    return found | {
        "measured_points": shape.points,
        "measured": format_duration(shape.measured_seconds),
        "tail_points": shape.tail_points,
        "tail_part": shape.idle_tail_seconds / shape.measured_seconds,
        "tail_percent": 100 * shape.idle_tail_seconds / shape.measured_seconds,
        "tail": format_duration(shape.idle_tail_seconds),
        "worked": format_duration(shape.measured_seconds - shape.idle_tail_seconds),
    }


def _host_facts(measured: JobSeries, metric: TrainingMetric, shape: Shape | None) -> dict[str, Fact]:
    """The host that differs most from the others, by its mean use while the job worked."""
    means = _host_means(measured.series.get(metric, ()), shape) if measured.is_comparable(metric) else {}
    if len(means) < 2:
        return {"odd_host": None, "odd_host_gap": None}
    others = {name: median(value for other, value in means.items() if other != name) for name in means}
    odd = max(means, key=lambda name: (abs(means[name] - others[name]), -means[name]))
    return {
        "odd_host": odd,
        "odd_host_mean": means[odd],
        "other_hosts_mean": others[odd],
        "odd_host_gap": abs(means[odd] - others[odd]),
    }


def _host_means(hosts: Iterable[Series], shape: Shape | None) -> dict[str, float]:
    means = {}
    for series in hosts:
        values = [p.value for p in series.points if shape is None or shape.steady_from <= p.at < shape.steady_to]
        if values and series.host is not None:
            means[series.host] = fmean(values)
    return means


def _instance_facts(measured: JobSeries, metric: TrainingMetric, shape: Shape | None) -> dict[str, Fact]:
    spec = measured.hosts[0].spec if measured.hosts else None
    if spec is None:
        return {"instance_type": measured.hosts[0].instance_type if measured.hosts else None}
    cpu = steady_use(measured, TrainingMetric.CPU, shape)
    judged = steady_use(measured, metric, shape)
    vcpus_used = None if cpu is None else cpu.p95 / 100 * spec.vcpus
    gpus_used = None if judged is None or not spec.gpus else judged.p95 / 100 * spec.gpus
    return {
        "instance_type": spec.name,
        "vcpus": spec.vcpus,
        "gpus": spec.gpus,
        "vcpus_per_gpu": spec.vcpus // spec.gpus if spec.gpus else None,
        "memory_gib": spec.memory_mib / 1024,
        "vcpus_used": vcpus_used,
        "gpus_used": gpus_used,
        "gpus_needed": None if gpus_used is None else math.ceil(gpus_used),
        "vcpus_needed": None if vcpus_used is None else math.ceil(vcpus_used),
        "spare_gpus": None if gpus_used is None else spec.gpus - math.ceil(gpus_used),
        "more_cpu_type": _name(more_vcpus(spec)),
        "more_memory_type": _name(more_memory(spec)),
        "smaller_type": _name(smaller(spec, vcpus=vcpus_used or 0, gpus=gpus_used or 0)),
    }


def _name(found: InstanceType | None) -> str | None:
    return None if found is None else found.name
