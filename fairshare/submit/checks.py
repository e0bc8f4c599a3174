"""Everything that can be known to be wrong before the first write, for all jobs at once.

What AWS would refuse late, or accept and let fail or wait for ever, is a `Problem` here: it names the job, the value
and the next step. Jobs that share a problem share one `Problem`, so a sweep of 240 does not print it 240 times.

The checks come in two halves, because a user's own ModelTrainer and raw ``training_job`` fields are only known once the
payload is built: `check_job` looks at a resolved spec, `check_request` at the request made from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fairshare.config.errors import did_you_mean
from fairshare.config.jobs import JobSpec, Origin
from fairshare.model import MAX_PRIORITY, InfeasibleError, InvalidFileError, JobRequest, Problem, partition_of
from fairshare.scheduler.policy import matching_entry, usable_instances
from fairshare.submit.naming import name_problem
from fairshare.submit.requests import canonical_json, max_runtime_of, request_bytes
from fairshare.submit.resolve import QueueFacts, Queues

MAX_PAYLOAD_BYTES: Final = 10 * 1024
MAX_REQUEST_BYTES: Final = 30 * 1024
"""Limits of SubmitServiceJob (https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html), UTF-8 bytes."""

MAX_RUNTIME_SECONDS: Final = 28 * 86_400
"""Longest MaxRuntimeInSeconds (API_StoppingCondition)."""

_NEVER_FITS: Final = "capacity"
"""Key of a problem that is about feasibility, not about how something was written."""

_WRITTEN_AT: Final[Mapping[str, tuple[str, ...]]] = {
    "instance_type": ("compute", "instance_type"),
    "instance_count": ("compute", "instance_count"),
    _NEVER_FITS: ("compute", "instance_count"),
    "entry": ("source", "entry"),
    "requirements": ("source", "requirements"),
}
"""Where the value behind a problem's key stands in a job file, when that is not the key itself."""

_SHARE: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_ECR_IMAGE: Final = re.compile(r"\d{12}\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.(?P<domain>amazonaws\.com(\.cn)?)/")
_LARGEST_SHOWN: Final = 3


class Report:
    """Collects what is wrong; jobs with the same finding at the same place become one problem."""

    def __init__(self) -> None:
        self._jobs: dict[Problem, dict[str, None]] = {}
        self._broken: set[tuple[Origin, str]] = set()

    def error(self, job: JobSpec, message: str, *, key: str = "", hint: str = "") -> None:
        """Note what stops the submission."""
        self._broken.add((job.origin, job.name))
        self._add(job, message, key, hint, "error")

    def warning(self, job: JobSpec, message: str, *, key: str = "", hint: str = "") -> None:
        """Note what the user should know."""
        self._add(job, message, key, hint, "warning")

    def is_sound(self, job: JobSpec) -> bool:
        """Whether no error was noted for the job."""
        return (job.origin, job.name) not in self._broken

    def problems(self) -> list[Problem]:
        """Return the problems in file order, each with the job it is about and how many share it."""
        return sorted(replace(each, message=f"{_whose(jobs)}: {each.message}") for each, jobs in self._jobs.items())

    def _add(self, job: JobSpec, message: str, key: str, hint: str, severity: str) -> None:
        where = job.origin.at(*_WRITTEN_AT.get(key, (key,)))
        problem = Problem(
            where.file, where.line, where.column, message, key, hint, severity, source_line=where.source_line
        )
        self._jobs.setdefault(problem, {})[job.name] = None


def _whose(names: Iterable[str]) -> str:
    first, *others = names
    shown = first if len(first) <= 40 else first[:37] + "..."
    return f'job "{shown}"' + (f" and {len(others)} more" if others else "")


def check(jobs: Sequence[JobSpec], queues: Queues, *, region: str, allow_unknown_share: bool = False) -> list[Problem]:
    """Return every problem of resolved specs, in file order; sweeps need not be expanded."""
    report = Report()
    for job in jobs:
        check_job(report, job, queues, region=region, allow_unknown_share=allow_unknown_share)
    return report.problems()


def raise_errors(problems: Sequence[Problem]) -> None:
    """Raise when there is an error among the problems.

    Raises:
        InfeasibleError: all that is wrong is that jobs are larger than their environment (case C16).
        InvalidFileError: anything else; holds the errors and the warnings.
    """
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors and all(problem.key == _NEVER_FITS for problem in errors):
        raise InfeasibleError("\n".join(map(str, errors)), hint=errors[0].hint)
    if errors:
        raise InvalidFileError(list(problems))


def check_job(report: Report, job: JobSpec, queues: Queues, *, region: str, allow_unknown_share: bool) -> None:
    """Note what is wrong with a resolved spec: name, queue, share, priority, size, files, image and role."""
    if wrong := name_problem(job.name):
        report.error(job, wrong, key="name")
    _check_priority(report, job)
    queue = _check_queue(report, job, queues)
    if queue is not None and queue.is_fair_share:
        _check_share(report, job, queue, allow_unknown_share)
    elif queue is not None:
        _check_fifo(report, job, queue, queues)
    if job.trainer is None:
        _check_complete(report, job)
        _check_files(report, job)
        check_shape(report, job, queue, Shape.of_spec(job), region)


def check_request(report: Report, job: JobSpec, queue: QueueFacts, request: JobRequest, *, region: str) -> None:
    """Note what is wrong with the request made from a job: size, run time, and the shape the payload gave it."""
    payload = json.loads(request.payload)
    check_shape(report, job, queue, Shape.of_payload(payload), region)
    _check_sizes(report, job, request, payload)
    _check_runtime(report, job, request, payload)


def _check_queue(report: Report, job: JobSpec, queues: Queues) -> QueueFacts | None:
    if job.queue is None:
        hint = f"name one with `queue:`, --queue or defaults.queue (queues: {', '.join(queues.keys) or 'none'})"
        report.error(job, "no queue is named", key="queue", hint=hint)
        return None
    facts = queues.find(job.queue)
    if facts is None:
        report.error(
            job, f'unknown queue "{job.queue}"', key="queue", hint=did_you_mean(job.queue, queues.keys, "queues")
        )
    return facts


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


def _check_fifo(report: Report, job: JobSpec, queue: QueueFacts, queues: Queues) -> None:
    fair = [key for key in queues.keys if (other := queues.find(key)) and other.is_fair_share]
    hint = f"leave it out, or use a fair-share queue ({', '.join(fair)})" if fair else "leave it out"
    for key, value in (("share", job.share), ("priority", job.priority)):
        if value is not None:
            message = f"queue {queue.key} is first-in-first-out and takes no {key} ({value})"
            report.error(job, message, key=key, hint=hint)


def _check_complete(report: Report, job: JobSpec) -> None:
    for key, flag in (("instance_type", "--instance-type"), ("image", "--image"), ("role", "--role")):
        if not getattr(job, key):
            report.error(job, f"no {key} is given", key=key, hint=f"say `{key}:`, {flag} or defaults.{key}")


def _check_files(report: Report, job: JobSpec) -> None:
    if job.source_dir is None:  # the image has a program of its own
        return
    if not job.source_dir.is_dir():
        report.error(job, f"source directory {job.source_dir} does not exist", key="source")
        return
    for key, name in (("entry", job.entry), ("requirements", job.requirements)):
        if name and not (job.source_dir / name).is_file():
            alike = sorted(each.name for each in job.source_dir.iterdir() if each.suffix == Path(name).suffix)
            hint = did_you_mean(name, alike, "files") if alike else ""
            report.error(job, f'{key} file "{name}" is not in {job.source_dir}', key=key, hint=hint)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """What a job asks of an environment and a region. ``groups`` are (instance type, count); a field may be unknown."""

    groups: tuple[tuple[str | None, int], ...]
    image: str | None
    role: str | None

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
        return cls(
            tuple((group.get("InstanceType"), group.get("InstanceCount", 0)) for group in groups),
            (payload.get("AlgorithmSpecification") or {}).get("TrainingImage"),
            payload.get("RoleArn"),
        )


def check_shape(report: Report, job: JobSpec, queue: QueueFacts | None, shape: Shape, region: str) -> None:
    """Note what the environment or the region cannot give."""
    if any(type(count) is not int or count < 1 for _, count in shape.groups):
        report.error(job, "instance_count must be a whole number from 1 on", key="instance_count")
    elif queue is not None:
        _check_demand(report, job, queue, shape.instances)
    if queue is not None and queue.instance_types:
        for instance_type in {name: None for name, _ in shape.groups if name and name not in queue.instance_types}:
            hint = did_you_mean(instance_type, queue.instance_types, "instance types")
            report.error(
                job, f"queue {queue.key} is not for instance type {instance_type}", key="instance_type", hint=hint
            )
    _check_image(report, job, shape.image, region)
    _check_role(report, job, shape.role, region)


def _check_demand(report: Report, job: JobSpec, queue: QueueFacts, demand: int) -> None:
    """Case C16. AWS accepts a job that is too large and keeps it RUNNABLE for ever."""
    if demand > queue.capacity:
        report.error(
            job,
            f"it needs {demand} instances at once and queue {queue.key} has {queue.capacity}: it could never start",
            key=_NEVER_FITS,
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


def _check_image(report: Report, job: JobSpec, image: str | None, region: str) -> None:
    """Case C19: SageMaker pulls an image of Amazon ECR from its own region only."""
    match = _ECR_IMAGE.match(image or "")
    if match is None:
        return
    if match["region"] != region:
        message = f"its image is in region {match['region']} and the job would run in {region}"
        report.error(job, message, key="image", hint=f"use the image's copy in {region}, or --region {match['region']}")
    elif match["domain"].endswith(".cn") != (partition_of(region) == "aws-cn"):
        domain = "amazonaws.com.cn" if partition_of(region) == "aws-cn" else "amazonaws.com"
        report.error(job, f"images of region {region} are under {domain}, not {match['domain']}", key="image")


def _check_role(report: Report, job: JobSpec, role: str | None, region: str) -> None:
    """Case C07: ``arn:aws-cn:`` roles cannot be used outside China, and so on. A bare name fits anywhere."""
    if role and role.startswith("arn:") and role.split(":")[1] != partition_of(region):
        message = f"its role is of partition {role.split(':')[1]} and region {region} is in {partition_of(region)}"
        report.error(job, message, key="role", hint="use a role of the account the job runs in")


def _check_runtime(report: Report, job: JobSpec, request: JobRequest, payload: Mapping[str, Any]) -> None:
    """Case C20: the training request and Batch each have a limit; the shorter one ends the job."""
    runtime = max_runtime_of(payload)
    attempt = request.attempt_duration_seconds
    if not 1 <= runtime <= MAX_RUNTIME_SECONDS:
        message = f"max_runtime must be from 1 s to 28 days ({MAX_RUNTIME_SECONDS} s), not {runtime} s"
        report.error(job, message, key="max_runtime")
    elif attempt is not None and attempt < runtime:
        message = f"Batch ends an attempt after {attempt} s, before the job's own limit of {runtime} s"
        report.warning(job, message, key="max_runtime", hint="raise the attempt's time limit or lower max_runtime")


def _check_sizes(report: Report, job: JobSpec, request: JobRequest, payload: Mapping[str, Any]) -> None:
    size = len(request.payload.encode())
    if size > MAX_PAYLOAD_BYTES:
        message = f"its training request is {_bytes(size)}, Batch takes {_bytes(MAX_PAYLOAD_BYTES)}"
        hint = f"largest: {_largest(payload)}; move long values into a file in S3"
        report.error(job, message, key="payload", hint=hint)
    size = request_bytes(request)
    if size > MAX_REQUEST_BYTES:
        message = f"its whole request is {_bytes(size)}, Batch takes {_bytes(MAX_REQUEST_BYTES)}"
        hint = f"largest: {_largest({'payload': request.payload, 'tags': dict(request.tags)})}"
        report.error(job, message, key="request", hint=hint)


def _largest(document: Mapping[str, Any]) -> str:
    """The largest fields, entry by entry for the maps a user fills (hyperparameters, environment, tags)."""
    fields: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            fields |= {f"{name}.{key}": {key: each} for key, each in value.items()}
        else:
            fields[name] = value
    sizes = sorted(((len(canonical_json(value).encode()), name) for name, value in fields.items()), reverse=True)
    return ", ".join(f"{name} {_bytes(size)}" for size, name in sizes[:_LARGEST_SHOWN])


def _bytes(size: int) -> str:
    """To the byte, so that a value just above a limit does not look equal to it."""
    return f"{size:,} bytes"
