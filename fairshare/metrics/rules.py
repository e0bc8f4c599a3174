"""The diagnoses: a table of rules, each with what must hold, what is shown as evidence, and what to change.

A rule is data. It speaks of the facts of `fairshare.metrics.facts` by name: `when` lists alternatives, each of which is
a list of comparisons that must all hold; a fact that is not known holds nowhere. Evidence and advice are templates over
the same facts, and of the pieces of advice the first counts whose facts are all known. Thresholds are ours; each rule
has a series that fires it and one that does not among the tests.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Final

from fairshare.metrics.shape import IDLE_PERCENT

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<": operator.lt,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Test:
    """A comparison of one fact with a number: ``Test("gpu_mean", "<", 75)``."""

    fact: str
    comparison: str
    limit: float

    def holds(self, facts: Mapping[str, float | str | None]) -> bool:
        """Whether the fact is known, a number, and compares like this."""
        value = facts.get(self.fact)
        return isinstance(value, int | float) and _OPERATORS[self.comparison](value, self.limit)


@dataclass(frozen=True)
class Rule:
    """One diagnosis. ``when``: alternatives of comparisons that all hold; ``unless``: rules that explain it better."""

    id: str
    title: str
    when: tuple[tuple[Test, ...], ...]
    evidence: str
    advice: tuple[str, ...]
    unless: tuple[str, ...] = ()

    def holds(self, facts: Mapping[str, float | str | None]) -> bool:
        """Whether one of the alternatives holds."""
        return any(all(test.holds(facts) for test in alternative) for alternative in self.when)


@dataclass(frozen=True)
class Diagnosis:
    """What a rule found about a job, in words."""

    id: str
    title: str
    evidence: str
    advice: str


_ENOUGH: Final = Test("measured_points", ">=", 3)
_WORKED: Final = Test("judged_highest", ">=", IDLE_PERCENT)
_HAS_GPUS: Final = Test("gpus", ">=", 1)
_NO_GPUS: Final = Test("gpus", "==", 0)

_MEMORY: Final = ("memory-pressure", "memory-growth")
"""A processor that waits for memory looks like one that waits for anything else."""

RULES: Final = (
    Rule(
        id="memory-pressure",
        title="memory is nearly full",
        when=((Test("memory_points", ">=", 3), Test("memory_highest", ">=", 90)),),
        evidence="Memory reached {memory_highest:.0f} % (p95 {memory_p95:.0f} %).",
        advice=(
            "Set compute.instance_type to {more_memory_type}, or use fewer loader processes or smaller batches: at "
            "100 % the job is killed.",
            "Use fewer loader processes or smaller batches, or a type with more memory: at 100 % the job is killed.",
        ),
    ),
    Rule(
        id="memory-growth",
        title="memory grows all the time",
        when=((Test("memory_rise", ">=", 8), Test("memory_slowest_rise", ">=", 1.5)),),
        evidence="Memory rose by {memory_rise:.0f} points from the first quarter of the run to the last, to "
        "{memory_highest:.0f} %, without a pause.",
        advice=(
            "Find what is kept from step to step (tensors with their graph, growing lists, caches without a bound); "
            "with checkpoint set, a restart costs one interval only.",
        ),
    ),
    Rule(
        id="object-store-spill",
        title="the object store spills to disk",
        when=((Test("spilled_mib", ">=", 1),),),
        evidence="The log says that {spilled_mib:,.0f} MiB were spilled.",
        advice=(
            "Raise launcher.ray.object_store_memory, or lower the read parallelism and the block size; else set "
            "compute.instance_type to {more_memory_type}.",
            "Raise launcher.ray.object_store_memory, or lower the read parallelism and the block size.",
        ),
    ),
    Rule(
        id="disk-fills",
        title="the disk fills while memory is short: objects are spilled or cached",
        when=((Test("disk_rise", ">=", 20), Test("disk_slowest_rise", ">=", 1), Test("memory_mean", ">=", 70)),),
        evidence="Disk use rose by {disk_rise:.0f} points to {disk_highest:.0f} %; memory was at {memory_mean:.0f} %.",
        advice=(
            "Set compute.instance_type to {more_memory_type}, or raise launcher.ray.object_store_memory; "
            "compute.volume_size_gb only buys time.",
            "Raise launcher.ray.object_store_memory or use a type with more memory; compute.volume_size_gb only buys "
            "time.",
        ),
    ),
    Rule(
        id="idle-gpu",
        title="the GPUs did nothing",
        when=((_ENOUGH, _HAS_GPUS, Test("judged_highest", "<", IDLE_PERCENT)),),
        evidence="In {measured}, the GPUs were never more than {judged_highest:.1f} % busy.",
        advice=(
            "If the script needs no GPU, set compute.instance_type to a type without; if it does, it does not find "
            "them: see `fairshare logs {job_name}`.",
        ),
    ),
    # Processors, unlike GPUs, are busy for a moment when a program begins and ends, whatever it does in between.
    Rule(
        id="idle",
        title="the job did nothing",
        when=(
            (_ENOUGH, _NO_GPUS, Test("judged_highest", "<", IDLE_PERCENT)),
            (_ENOUGH, _NO_GPUS, Test("busy_part", "<", 0.3), Test("busy_seconds", "<", 61)),
            (_ENOUGH, _NO_GPUS, Test("busy_part", "<", 0.1), Test("busy_points", "<", 3)),
        ),
        evidence="For {idle} of {measured}, the {vcpus} vCPUs were less than {idle_percent:.0f} % busy.",
        advice=(
            "See `fairshare logs {job_name}` for what it waits for; if waiting is all it does, set "
            "compute.instance_type to {smaller_type}.",
            "See `fairshare logs {job_name}` for what it waits for, and let it wait elsewhere.",
        ),
        unless=_MEMORY,
    ),
    Rule(
        id="input-starves-gpu",
        title="the input pipeline starves the GPUs: the processors cannot prepare enough",
        when=((_ENOUGH, _HAS_GPUS, _WORKED, Test("gpu_mean", "<", 75), Test("cpu_mean", ">=", 80)),),
        evidence="CPU is at {cpu_mean:.0f} % while GPU use averages {gpu_mean:.0f} % (p10 {gpu_p10:.0f}, p95 "
        "{gpu_p95:.0f}).",
        advice=(
            "Set compute.instance_type to {more_cpu_type}, which has more vCPUs per GPU, or prepare the data once, "
            "before training.",
            "Prepare the data once, before training, or set compute.instance_type to a type with more vCPUs per GPU.",
        ),
    ),
    Rule(
        id="input-waits",
        title="the input pipeline starves the GPUs: they wait for data",
        when=(
            (
                _ENOUGH,
                _HAS_GPUS,
                _WORKED,
                Test("gpu_mean", "<", 75),
                Test("gpu_swing", ">=", 25),
                Test("cpu_mean", "<", 80),
            ),
        ),
        evidence="GPU use swings between {gpu_p10:.0f} and {gpu_p95:.0f} % (mean {gpu_mean:.0f} %) while CPU is only "
        "at {cpu_mean:.0f} %.",
        advice=(
            "Raise the number of loader processes (num_workers of a DataLoader; there are {vcpus_per_gpu} vCPUs for "
            "each GPU) and let them prefetch; for many small files pack them, or let inputs stream (FastFile mode).",
        ),
    ),
    Rule(
        id="input-waits-cpu",
        title="the script waits for data more than it computes",
        when=(
            (_ENOUGH, _NO_GPUS, _WORKED, Test("cpu_mean", "<", 75), Test("cpu_swing", ">=", 25)),
            (_ENOUGH, _NO_GPUS, _WORKED, Test("vcpus_used", "<", 0.8)),
        ),
        evidence="CPU use lies between {cpu_p10:.0f} and {cpu_p95:.0f} % (mean {cpu_mean:.0f} %), at most "
        "{vcpus_used:.1f} of {vcpus} vCPUs.",
        advice=(
            "Read ahead in other threads or processes (num_workers of a DataLoader, up to {vcpus}), or bring the data "
            "closer: pack small files, or keep them on the volume instead of streaming.",
        ),
        unless=(*_MEMORY, "idle"),
    ),
    Rule(
        id="cpu-bound",
        title="the processors are the limit",
        when=((_ENOUGH, _NO_GPUS, Test("cpu_p50", ">=", 85)),),
        evidence="CPU is at {cpu_mean:.0f} % (p10 {cpu_p10:.0f}) of all {vcpus} vCPUs.",
        advice=(
            "To make it faster, set compute.instance_type to {more_cpu_type}; nothing else is short.",
            "To make it faster, spread it over more instances (compute.instance_count) or use a newer family.",
        ),
    ),
    Rule(
        id="over-allocated",
        title="the instance has more GPUs than the job uses",
        when=(
            (
                _ENOUGH,
                _WORKED,
                Test("gpus", ">=", 2),
                Test("gpu_mean", "<", 55),
                Test("gpu_swing", "<", 25),
                Test("spare_gpus", ">=", 1),
            ),
        ),
        evidence="GPU use is steady at {gpu_mean:.0f} %: as if {gpus_needed} of {gpus} GPUs worked.",
        advice=(
            "Set compute.instance_type to {smaller_type}, or let every GPU work (launcher: {{torchrun: {{}}}} starts "
            "one process for each).",
            "Let every GPU work (launcher: {{torchrun: {{}}}} starts one process for each), or use a smaller type.",
        ),
    ),
    Rule(
        id="over-allocated-cpu",
        title="the instance has more vCPUs than the job uses",
        when=(
            (
                _ENOUGH,
                _NO_GPUS,
                _WORKED,
                Test("cpu_p95", "<", 55),
                Test("cpu_swing", "<", 25),
                Test("vcpus_used", ">=", 0.8),
                Test("vcpus", ">=", 4),
            ),
        ),
        evidence="CPU use is steady at {cpu_mean:.0f} %: {vcpus_used:.1f} of {vcpus} vCPUs.",
        advice=(
            "Set compute.instance_type to {smaller_type}, or let the script use more processes.",
            "Let the script use more processes, or use a smaller type.",
        ),
        unless=(*_MEMORY, "idle"),
    ),
    Rule(
        id="odd-host",
        title="one host does not keep pace with the others",
        when=((_ENOUGH, _WORKED, Test("odd_host_gap", ">=", 20)),),
        evidence="{odd_host} averages {odd_host_mean:.0f} % {device} use, the others {other_hosts_mean:.0f} %.",
        advice=(
            "Compare its lines in `fairshare logs {job_name}`; check that inputs are spread evenly over the hosts "
            "(ShardedByS3Key splits by file, not by size); if the host itself is slow, submit again.",
        ),
    ),
    Rule(
        id="idle-after-training",
        title="the devices are held after the work is done",
        when=((_ENOUGH, _WORKED, Test("tail_part", ">=", 0.1), Test("tail_points", ">=", 3)),),
        evidence="After {worked} of work the {device}s were idle for the last {tail} ({tail_percent:.0f} % of the "
        "run).",
        advice=(
            "Move what comes after training (evaluation, export, upload) to a job of its own with after: [{job_name}] "
            "on a type without GPUs, and let the script exit.",
        ),
        unless=("memory-growth", "idle"),
    ),
    Rule(
        id="launch-dominated",
        title="launching takes longer than training",
        when=((Test("ended", "==", 1), Test("launch_part", ">=", 0.5), Test("launch_seconds", ">=", 60)),),
        evidence="{launch} of launching ({downloading} of it downloading) for {trained} of training.",
        advice=(
            "Do more in one job (several points of the sweep in one script), use a smaller image, or let inputs "
            "stream (FastFile mode) instead of downloading them first.",
        ),
    ),
)


def diagnose(facts: Mapping[str, float | str | None], rules: Sequence[Rule] = RULES) -> tuple[Diagnosis, ...]:
    """Return what holds of a job, in the order of the rules."""
    holding = {rule.id for rule in rules if rule.holds(facts)}
    return tuple(
        Diagnosis(rule.id, rule.title, rule.evidence.format_map(facts), _first_known(rule.advice, facts))
        for rule in rules
        if rule.id in holding and holding.isdisjoint(rule.unless)
    )


def _first_known(templates: Sequence[str], facts: Mapping[str, float | str | None]) -> str:
    for template in templates:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name]
        if all(facts.get(field) is not None for field in fields):
            return template.format_map(facts)
    return templates[-1].format_map(facts)
