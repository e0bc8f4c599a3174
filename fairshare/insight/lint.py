"""Traps in policies: what a file may say, and AWS accepts, and people regret. Nothing is asked or simulated.

Each finding says what happens, with numbers, and what to change. What is wrong, not merely unwise, is refused when the
file is read (`fairshare.config`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from fairshare.config.durations import format_duration
from fairshare.config.errors import did_you_mean
from fairshare.config.jobs import JobFile, JobSpec
from fairshare.config.project import FairshareConfig, Project, QueueConfig
from fairshare.config.project_file import MISCONFIGURATION_CODES
from fairshare.config.yaml_source import Steps
from fairshare.insight.lint_quotas import quota_job_traps, quota_traps
from fairshare.insight.traps import Trap
from fairshare.scheduler.policy import (
    DEFAULT_WINDOW_MS,
    matching_entry,
    parse_weight,
    share_fractions,
    usable_instances,
)

_IMPORTANT: Final = re.compile(r"HIGH|PROD|URGENT|CRITICAL|PRIMARY", re.IGNORECASE)
_MINOR: Final = re.compile(r"LOW|BATCH|BACKFILL|SCRATCH|PLAYGROUND", re.IGNORECASE)

_WASTEFUL_RESERVATION: Final = Fraction(1, 4)
"""A reservation that keeps more than this part of the pool from a share that is alone is told about."""

_QUOTA_ERROR: Final = "ResourceLimitExceeded"


def find_traps(project: Project, files: Sequence[JobFile] = ()) -> list[Trap]:
    """Return the traps of a project, and of job files that are sent to its queues, in the order of the rules."""
    jobs = [job for file in files for job in file.jobs]
    traps = [trap for queue in project.queues for trap in _policy_traps(project, queue)]
    return [*traps, *(trap for job in jobs for trap in _job_traps(project, job))]


def _policy_traps(project: Project, queue: str) -> Iterator[Trap]:
    config = project.queues[queue]
    yield from _no_time_limit(config, queue)
    yield from quota_traps(project, queue)
    if config.fairshare is None:
        return
    capacity = project.service_environments[config.service_environment].instances
    steps: Steps = ("queues", queue, "fairshare")
    yield from _inverted_weights(config.fairshare, queue, steps)
    yield from _hungry_reservation(config.fairshare, capacity, queue, steps)
    yield from _crumbs(config.fairshare, capacity, queue, steps)
    longest = project.defaults.max_runtime
    if longest is not None and project.defaults.queue in (None, queue):
        yield from _short_memory(config.fairshare, longest, queue, steps)


def _no_time_limit(config: QueueConfig, queue: str) -> Iterator[Trap]:
    """P08: a job that can never start stays at the head, and what it holds up waits until somebody notices."""
    if MISCONFIGURATION_CODES[0] in config.time_limits:
        return
    held_up = "its quota share" if config.has_quota_shares else "the queue"
    yield Trap(
        "P08",
        f"a job that can never start blocks the head of queue {queue} for ever, and holds up {held_up}: one that needs "
        f"more instances than there are, submitted on Friday evening, costs {held_up} the weekend",
        "write time_limits: {misconfiguration: 10m}, and insufficient_capacity: 4h for a head that SageMaker has no "
        "instances for; AWS ends such a job then",
        ("queues", queue),
    )


def _inverted_weights(policy: FairshareConfig, queue: str, steps: Steps) -> Iterator[Trap]:
    """P01: a share whose name says that it matters has a larger weight factor than one whose name says the opposite."""
    weights = {name: parse_weight(weight) for name, weight in policy.shares.items()}
    parts = share_fractions(policy.shares)
    for high in filter(_IMPORTANT.search, weights):
        lower = [low for low in weights if _MINOR.search(low) and weights[low] < weights[high]]
        if lower:
            low = min(lower, key=lambda name: weights[name])
            yield Trap(
                "P01",
                f"queue {queue} gives {high} less than {low}: weight factors are inverted, so {high} "
                f"({policy.shares[high]}) gets {_percent(parts[high])} and {low} ({policy.shares[low]}) "
                f"{_percent(parts[low])} when all are busy",
                "swap them: a lower weight factor is a larger part; or write target: 60% and let fairshare do it",
                (*steps, "shares", high),
            )


def _hungry_reservation(policy: FairshareConfig, capacity: int, queue: str, steps: Steps) -> Iterator[Trap]:
    """P02: a reservation leaves much of the pool idle while few shares are active."""
    percent = policy.compute_reservation
    alone, two = (usable_instances(capacity, percent, active) for active in (1, 2))
    if percent and Fraction(capacity - alone, capacity) > _WASTEFUL_RESERVATION:
        yield Trap(
            "P02",
            f"queue {queue} leaves {capacity - alone} of {capacity} instances idle while one share is active, and "
            f"{capacity - two} while two are: compute_reservation {percent} keeps ({percent}/100)^n of the pool",
            "lower compute_reservation; 10 keeps a tenth from a share that is alone, and a hundredth from two",
            (*steps, "compute_reservation"),
        )


def _crumbs(policy: FairshareConfig, capacity: int, queue: str, steps: Steps) -> Iterator[Trap]:
    """P03: a share is due next to nothing when all are busy, on a pool that has an instance for each of them."""
    parts = share_fractions(policy.shares) if 0 < len(policy.shares) <= capacity else {}
    for name, part in parts.items():
        if part * capacity < Fraction(1, 2):
            yield Trap(
                "P03",
                f"{name} is due {float(part * capacity):.2f} of {capacity} instances of queue {queue} when all shares "
                "are busy: its jobs wait for others to have nothing to do",
                "lower its weight_factor, or leave it so if that is what it is for",
                (*steps, "shares", name),
            )


def _short_memory(policy: FairshareConfig, longest: int, queue: str, steps: Steps) -> Iterator[Trap]:
    """P04: use is forgotten before a job has ended, so weights decide little."""
    window = max(policy.share_decay_seconds, DEFAULT_WINDOW_MS // 1000)
    if longest > window and policy.shares:
        place: Steps = (*steps, "share_decay_seconds") if policy.share_decay_seconds else steps
        yield Trap(
            "P04",
            f"queue {queue} forgets use after {format_duration(window)}, and jobs may run for "
            f"{format_duration(longest)}: by the time a job ends, every other share looks unused, and shares take "
            "turns whatever their weights",
            "set share_decay_seconds to ten times a typical job (AWS takes up to 7 d), or lower max_runtime",
            place,
        )


def _job_traps(project: Project, job: JobSpec) -> Iterator[Trap]:
    yield from _no_second_chance(job)
    name = job.queue or project.defaults.queue or (next(iter(project.queues)) if len(project.queues) == 1 else None)
    found = project.queue(name) if name else None
    if found is None:
        return
    queue, config = found
    if config.has_quota_shares:
        yield from quota_job_traps(project, job, queue)
        return
    capacity = project.service_environments[config.service_environment].instances
    if config.fairshare is not None:
        yield from _never_alone(job, config.fairshare, capacity, queue)
        share = job.share or project.defaults.share
        yield from _strange_share(job, share, config.fairshare.shares, queue)
    elif job.instance_count > capacity:
        yield _too_large(job, capacity, capacity, queue)


def _never_alone(job: JobSpec, policy: FairshareConfig, capacity: int, queue: str) -> Iterator[Trap]:
    """P05: a job that never fits, or not while its share is the only one."""
    usable = usable_instances(capacity, policy.compute_reservation, 1)
    if job.instance_count > usable:
        yield _too_large(job, usable, capacity, queue)


def _too_large(job: JobSpec, usable: int, capacity: int, queue: str) -> Trap:
    limit = f"has {capacity}" if usable == capacity else f"lets a share that is alone use {usable} of {capacity}"
    return Trap(
        "P05",
        f"job {job.name} needs {job.instance_count} instances at once, and queue {queue} {limit}: it never starts, and "
        "nothing behind it does",
        "lower compute.instance_count, raise the capacity"
        + ("" if usable == capacity else ", or lower compute_reservation"),
        origin=job.origin.at("compute", "instance_count"),
    )


def _strange_share(job: JobSpec, share: str | None, weights: Mapping[str, str], queue: str) -> Iterator[Trap]:
    """P06: a share the policy does not list weighs 1."""
    if share is None or not weights or matching_entry(share, weights) is not None:
        return
    part = share_fractions({**weights, share: "1"})[share]
    yield Trap(
        "P06",
        f"job {job.name} goes to share {share}, which queue {queue} does not list: it weighs 1, and gets "
        f"{_percent(part)} when all are busy",
        did_you_mean(share, weights, "shares") + "; or list it",
        origin=job.origin.at("share"),
    )


def _no_second_chance(job: JobSpec) -> Iterator[Trap]:
    """P07: rules of one's own replace ours, which try again when a quota of the account is used up."""
    if job.retry is None or not job.retry.on or job.retry.attempts < 2:
        return
    if not any(_QUOTA_ERROR in pattern or pattern.strip("*") == "" for pattern in job.retry.on):
        yield Trap(
            "P07",
            f"job {job.name} is not tried again when an account quota is used up ({_QUOTA_ERROR}): its own retry.on "
            "replaces the default rules, and that error uses an attempt and ends the job",
            f"add {_QUOTA_ERROR} to retry.on",
            origin=job.origin.at("retry", "on"),
        )


def _percent(part: Fraction) -> str:
    return f"{float(part) * 100:.0f} %"
