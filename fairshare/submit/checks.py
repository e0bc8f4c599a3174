"""Everything that can be known to be wrong before the first write, for all jobs at once.

What AWS would refuse late, or accept and let fail or wait for ever, is a `Problem` here: it names the job, the value
and the next step. Jobs that share a problem share one `Problem`, so a sweep of 240 does not print it 240 times.

The checks come in three steps, because a user's own ModelTrainer and raw ``training_job`` fields are only known once
the payload is built: `check_job` looks at a resolved spec, `check_payload` at the training request, `check_request` at
the whole call made from it. What depends on no queue is in `limits`, `places` and `raw_fields`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairshare.config.errors import did_you_mean
from fairshare.config.jobs import JobSpec
from fairshare.model import MAX_PRIORITY, JobRequest, Problem
from fairshare.scheduler.books import obstacle
from fairshare.scheduler.policy import matching_entry, usable_instances
from fairshare.submit.limits import (
    channel_findings,
    environment_findings,
    hyperparameter_findings,
    size_findings,
    tag_findings,
)
from fairshare.submit.naming import name_problem
from fairshare.submit.places import image_findings, role_findings, s3_findings
from fairshare.submit.raw_fields import payload_findings, raw_findings
from fairshare.submit.report import NEVER_FITS, Finding, Report
from fairshare.submit.requests import MIN_ATTEMPT_SECONDS, max_runtime_of
from fairshare.submit.resolve import QueueFacts, Queues
from fairshare.submit.retries import retry_findings

MAX_RUNTIME_SECONDS: Final = 28 * 86_400
"""Longest MaxRuntimeInSeconds (API_StoppingCondition)."""

_SHARE: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def check(jobs: Sequence[JobSpec], queues: Queues, *, region: str, allow_unknown_share: bool = False) -> list[Problem]:
    """Return every problem of resolved specs, in file order; sweeps need not be expanded."""
    report = Report()
    for job in jobs:
        check_job(report, job, queues, region=region, allow_unknown_share=allow_unknown_share)
    return report.problems()


def check_job(report: Report, job: JobSpec, queues: Queues, *, region: str, allow_unknown_share: bool) -> None:
    """Note what is wrong with a resolved spec: name, queue, share, priority, size, files, image, role, raw fields."""
    if wrong := name_problem(job.name):
        report.error(job, wrong, key="name")
    _check_priority(report, job)
    report.add_all(job, raw_findings(job.training_job), stops_build=True)
    if job.payload is not None:
        report.add_all(job, payload_findings(job.payload), stops_build=True)
    if job.retry is not None:
        report.add_all(job, retry_findings(job.retry))
    if not job.is_finished:
        _check_files(report, job)
    for placed in queues.by_queue(job):
        _check_placed(report, placed, queues, region, allow_unknown_share)
    _check_distinct(report, job, queues)


def _check_placed(report: Report, job: JobSpec, queues: Queues, region: str, allow_unknown_share: bool) -> None:
    """Note what is wrong with a job on one of its queues."""
    queue = _check_queue(report, job, queues)
    if queue is not None and queue.is_fair_share:
        _check_share(report, job, queue, allow_unknown_share)
        _check_no(report, job, "quota_share", queue, "a fair-share queue: it takes a share")
    elif queue is not None and queue.has_quota_shares:
        _check_quota_share(report, job, queue)
        _check_no(report, job, "share", queue, "a queue with quota shares: it takes a quota_share")
    elif queue is not None:
        _check_fifo(report, job, queue, queues)
    if not job.is_finished and (queue is not None or not job.has_open_type):
        _check_complete(report, job)
    if _has_final_shape(job):
        check_shape(report, job, queue, Shape.of_spec(job), region)


def check_payload(
    report: Report,
    job: JobSpec,
    payload: Mapping[str, Any],
    tags: Mapping[str, str],
    *,
    queue: QueueFacts | None,
    region: str,
) -> None:
    """Note what SageMaker would refuse of a built training request, and AWS of the tags beside it.

    Args:
        report: where to.
        job: whose it is.
        payload: the CreateTrainingJob request.
        tags: all that the job will carry.
        queue: where it goes; None when that is not known.
        region: where it runs.
    """
    if not _has_final_shape(job):
        check_shape(report, job, queue, Shape.of_payload(payload), region)
    report.add_all(job, hyperparameter_findings(payload.get("HyperParameters") or {}))
    report.add_all(job, environment_findings(payload.get("Environment") or {}))
    report.add_all(job, channel_findings(payload.get("InputDataConfig") or []))
    report.add_all(job, s3_findings(payload, region))
    report.add_all(job, tag_findings(tags))


def check_quota(report: Report, job: JobSpec, payload: Mapping[str, Any], quotas: Mapping[str, int]) -> None:
    """Warn of a job that needs more instances than the account may use: SageMaker would refuse it, not Batch.

    Args:
        report: where to.
        job: whose it is.
        payload: the CreateTrainingJob request. Spot training and training plans have quotas of their own.
        quotas: instances by type; a type that is absent is not known.
    """
    if payload.get("EnableManagedSpotTraining") or (payload.get("ResourceConfig") or {}).get("TrainingPlanArn"):
        return
    for instance_type, count in Shape.of_payload(payload).groups:
        quota = quotas.get(instance_type or "")
        if quota is not None and type(count) is int and count > quota:
            report.warning(
                job,
                f"it needs {count} {instance_type} and the account's quota for training jobs is {quota}: "
                "SageMaker would refuse it (ResourceLimitExceeded)",
                key="instance_type",
                hint=f'ask AWS for more: Service Quotas, "{instance_type} for training job usage"',
            )


def check_written(report: Report, job: JobSpec, queue: QueueFacts | None, *, region: str) -> None:
    """Note what can be known of a job whose payload could not be built, so that one round of corrections is enough.

    Values that become text only in the payload are taken as empty: their names can be wrong, their length not yet.
    """
    if not job.is_finished and not _has_final_shape(job):
        check_shape(report, job, queue, Shape.of_spec(job), region)
    report.add_all(job, hyperparameter_findings(_raw(job, "HyperParameters") | _texts(job.hyperparameters)))
    report.add_all(job, environment_findings(_raw(job, "Environment") | _texts(job.environment)))
    places = {"OutputDataConfig": {"S3OutputPath": job.output}, "CheckpointConfig": {"S3Uri": job.checkpoint}}
    report.add_all(job, s3_findings(places, region))
    report.add_all(job, tag_findings(job.tags))


def check_alternative(
    report: Report, job: JobSpec, payload: Mapping[str, Any], *, queue: QueueFacts, region: str
) -> None:
    """Note what another queue of a job cannot give to a training request that only shows what it asks for when built.

    ``job`` is the job as it goes there, see `Queues.by_queue`.
    """
    if not _has_final_shape(job):
        check_shape(report, job, queue, Shape.of_payload(payload), region)


def _raw(job: JobSpec, section: str) -> dict[str, Any]:
    """A map of the user's own request; empty when it is none."""
    values = (job.payload or {}).get(section)
    return values if isinstance(values, dict) else {}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else "" for name, value in values.items()}


def check_request(report: Report, job: JobSpec, request: JobRequest) -> None:
    """Note what is wrong with the request made from a job as a whole: its size and its time-outs."""
    payload = json.loads(request.payload)
    report.add_all(job, size_findings(request, payload))
    _check_runtime(report, job, request, payload)


def _check_queue(report: Report, job: JobSpec, queues: Queues) -> QueueFacts | None:
    if job.queue is None:
        hint = f"name one with `queue:`, --queue or defaults.queue (queues: {', '.join(queues.keys) or 'none'})"
        report.error(job, "no queue is named", key="queue", hint=hint)
        return None
    facts = queues.find(job.queue)
    if facts is None:
        at = ("queues", str(job.queues.index(job.queue))) if job.queues else ("queue",)
        hint = did_you_mean(job.queue, queues.keys, "queues")
        report.add(job, Finding(f'unknown queue "{job.queue}"', at, hint))
    return facts


def _check_distinct(report: Report, job: JobSpec, queues: Queues) -> None:
    """A queue has several names; a job that moves to the queue it comes from would be sent twice."""
    first: dict[str, str] = {}
    for name in job.queues:
        facts = queues.find(name)
        if facts is not None and (other := first.setdefault(facts.name, name)) != name:
            report.error(job, f"{other} and {name} are one queue", key="queues", hint="remove one of the two")


def _check_priority(report: Report, job: JobSpec) -> None:
    """Case C08: a whole number from 0 to 99; 0 counts, true does not."""
    value: Any = job.priority
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_PRIORITY):
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        report.error(job, f"priority must be a whole number from 0 to {MAX_PRIORITY}, not {shown}", key="priority")


def _check_share(report: Report, job: JobSpec, queue: QueueFacts, allow_unknown: bool) -> None:
    """Case C17: AWS would refuse a missing share, and take a misspelt one at weight 1."""
    shares = ", ".join(queue.weights) or "none"
    if job.share is None:
        hint = f"say `share:`, --share or defaults.share (shares: {shares})"
        report.error(job, f"queue {queue.key} is a fair-share queue and needs a share", key="share", hint=hint)
    elif not _SHARE.fullmatch(job.share):
        hint = "use 1 to 255 letters and digits"
        report.error(job, f'"{job.share}" cannot be a share identifier', key="share", hint=hint)
    elif not allow_unknown and matching_entry(job.share, queue.weights) is None:
        hint = did_you_mean(job.share, queue.weights, "shares")
        message = f'unknown share "{job.share}" in queue {queue.key}: AWS would give it weight 1'
        report.error(job, message, key="share", hint=f"{hint}; --allow-unknown-share sends it as it is")


def _check_quota_share(report: Report, job: JobSpec, queue: QueueFacts) -> None:
    """Every job of such a queue belongs to a quota share that exists (API_SubmitServiceJob)."""
    known = queue.quota_shares or {}
    if job.quota_share is None:
        hint = f"say `quota_share:`, --quota-share or defaults.quota_share (quota shares: {', '.join(known) or 'none'})"
        report.error(job, f"queue {queue.key} needs a quota share", key="quota_share", hint=hint)
    elif job.quota_share not in known:
        hint = did_you_mean(job.quota_share, known, "quota shares")
        message = f'unknown quota share "{job.quota_share}" in queue {queue.key}'
        report.error(job, message, key="quota_share", hint=hint)


def _check_no(report: Report, job: JobSpec, key: str, queue: QueueFacts, reason: str) -> None:
    if (value := getattr(job, key)) is not None:
        message = f"{key} ({value}) cannot be used: {queue.key} is {reason}"
        report.error(job, message, key=key, hint=f"remove {key}")


def _check_fifo(report: Report, job: JobSpec, queue: QueueFacts, queues: Queues) -> None:
    fair = [key for key in queues.keys if (other := queues.find(key)) and not other.is_fifo]
    hint = f"leave it out, or use a queue with shares ({', '.join(fair)})" if fair else "leave it out"
    for key, value in (("share", job.share), ("quota_share", job.quota_share), ("priority", job.priority)):
        if value is not None:
            message = f"queue {queue.key} is first-in-first-out and takes no {key} ({value})"
            report.error(job, message, key=key, hint=hint)


def _check_complete(report: Report, job: JobSpec) -> None:
    for key, flag in (("instance_type", "--instance-type"), ("image", "--image"), ("role", "--role")):
        if not getattr(job, key):
            hint = f"say `{key}:`, {flag} or defaults.{key}"
            report.error(job, f"no {key} is given", key=key, hint=hint, stops_build=True)


def _check_files(report: Report, job: JobSpec) -> None:
    if job.source_dir is None:  # the image has a program of its own
        return
    if not job.source_dir.is_dir():
        report.error(job, f"source directory {job.source_dir} does not exist", key="source", stops_build=True)
        return
    for key, name in (("entry", job.entry), ("requirements", job.requirements)):
        if name and not (job.source_dir / name).is_file():
            alike = sorted(each.name for each in job.source_dir.iterdir() if each.suffix == Path(name).suffix)
            hint = did_you_mean(name, alike, "files") if alike else ""
            message = f'{key} file "{name}" is not in {job.source_dir}'
            report.error(job, message, key=key, hint=hint, stops_build=True)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """What a job asks of an environment and a region. ``groups`` are (instance type, count); a field may be unknown."""

    groups: tuple[tuple[str | None, int], ...]
    image: str | None
    role: str | None
    is_private_image: bool = False
    """The image is in a registry inside the job's VPC."""

    @property
    def instances(self) -> int:
        """Instances the job holds at once: it starts when all of them are free."""
        return sum(count for _, count in self.groups)

    @classmethod
    def of_spec(cls, job: JobSpec) -> Shape:
        """As the job says."""
        return cls(((job.instance_type, job.instance_count),), job.image, job.role)

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Shape:
        """As the CreateTrainingJob request says, instance groups included."""
        resources = payload.get("ResourceConfig") or {}
        groups = resources.get("InstanceGroups") or [resources]
        algorithm = payload.get("AlgorithmSpecification") or {}
        access = (algorithm.get("TrainingImageConfig") or {}).get("TrainingRepositoryAccessMode")
        return cls(
            tuple((group.get("InstanceType"), group.get("InstanceCount", 0)) for group in groups),
            algorithm.get("TrainingImage"),
            payload.get("RoleArn"),
            is_private_image=access == "Vpc",
        )


def _has_final_shape(job: JobSpec) -> bool:
    """Whether nothing can change what the spec asks for: no ModelTrainer or request of the user's, no raw fields."""
    return not job.is_finished and not job.training_job


def check_shape(report: Report, job: JobSpec, queue: QueueFacts | None, shape: Shape, region: str) -> None:
    """Note what the environment or the region cannot give."""
    if any(type(count) is not int or count < 1 for _, count in shape.groups):
        message = "instance_count must be a whole number from 1 on"
        report.error(job, message, key="instance_count", stops_build=True)
    elif queue is not None and queue.has_quota_shares:
        _check_quotas(report, job, queue, shape)
    elif queue is not None:
        _check_demand(report, job, queue, shape.instances)
    if queue is not None and queue.instance_types:
        for instance_type in {name: None for name, _ in shape.groups if name and name not in queue.instance_types}:
            hint = did_you_mean(instance_type, queue.instance_types, "instance types")
            if job.queues:
                hint += "; without an instance_type the job takes that of each of its queues"
            report.error(
                job, f"queue {queue.key} is not for instance type {instance_type}", key="instance_type", hint=hint
            )
    if shape.image:
        report.add_all(job, image_findings(shape.image, region, is_private=shape.is_private_image))
    if shape.role:
        report.add_all(job, role_findings(shape.role, region))


def _check_demand(report: Report, job: JobSpec, queue: QueueFacts, demand: int) -> None:
    """Case C16. AWS accepts a job that is too large and keeps it RUNNABLE for ever."""
    if demand > queue.capacity:
        report.error(
            job,
            f"it needs {demand} instances at once and queue {queue.key} has {queue.capacity}: it could never start",
            key=NEVER_FITS,
            hint="lower instance_count, or raise the capacity of the service environment",
        )
        return
    reservation = queue.compute_reservation
    alone = usable_instances(queue.capacity, reservation, 1)
    if not queue.is_fair_share or demand <= alone:
        return
    enough = next((n for n in range(2, 501) if usable_instances(queue.capacity, reservation, n) >= demand), None)
    when = f"it starts only while {enough} shares are active" if enough else "no number of active shares lets it start"
    report.warning(
        job,
        f"it needs {demand} instances, and with compute_reservation {reservation} a lone share of queue {queue.key} "
        f"may use {alone} of {queue.capacity}: {when}",
        key="instance_count",
        hint="lower instance_count or compute_reservation",
    )


def _check_quotas(report: Report, job: JobSpec, queue: QueueFacts, shape: Shape) -> None:
    """Cases QM-1 to QM-3 and QM-8 of AWS's guide: AWS accepts a job that no limit allows, and keeps it for ever."""
    needs: dict[str, int] = {}
    for instance_type, count in shape.groups:
        if instance_type is not None:
            needs[instance_type] = needs.get(instance_type, 0) + count
    for instance_type, number in needs.items():
        if 0 < queue.limits.get(instance_type, 0) < number:
            report.error(
                job,
                f"it needs {number} instances of {instance_type} at once and queue {queue.key} has "
                f"{queue.limits[instance_type]}: it could never start",
                key=NEVER_FITS,
                hint="lower instance_count, or raise the service environment's capacity_limits",
            )
            return
    shares = queue.quota_shares or {}
    terms = shares.get(job.quota_share or "")
    if terms is None or any(name not in queue.limits for name in needs):
        return  # told elsewhere
    if (why := obstacle(job.quota_share or "", tuple(needs.items()), shares)) is not None:
        owned = ", ".join(f"{terms.limit(name)} {name}" for name in needs)
        borrows = "without limit" if terms.borrow_limit < 0 else f"up to {terms.borrow_limit} % of it"
        more = f", and may borrow {borrows}" if terms.borrows else ""
        wanted = ", ".join(f"{number} {name}" for name, number in needs.items())
        report.error(
            job,
            f"it needs {wanted} at once; quota share {job.quota_share} owns {owned}{more}: it could never start "
            f"({why})",
            key=NEVER_FITS,
            hint="lower instance_count, or raise capacity_limits or borrow_limit of the quota share",
        )


def _check_runtime(report: Report, job: JobSpec, request: JobRequest, payload: Mapping[str, Any]) -> None:
    """Case C20: the training request and Batch each have a limit; the shorter one ends the job."""
    runtime = max_runtime_of(payload)
    attempt = request.attempt_duration_seconds
    if not 1 <= runtime <= MAX_RUNTIME_SECONDS:
        message = f"max_runtime must be from 1 s to 28 days ({MAX_RUNTIME_SECONDS} s), not {runtime} s"
        report.error(job, message, key="max_runtime")
    elif attempt is not None and attempt < MIN_ATTEMPT_SECONDS:
        message = f"an attempt's time limit must be at least {MIN_ATTEMPT_SECONDS} s, not {attempt} s"
        report.error(job, message, key="max_runtime")
    elif attempt is not None and attempt < runtime:
        message = f"Batch ends an attempt after {attempt} s, before the job's own limit of {runtime} s"
        report.warning(job, message, key="max_runtime", hint="raise the attempt's time limit or lower max_runtime")
