"""Filling in what a job does not say: from flags, from ``defaults`` of ``fairshare.yaml``, and from its queue.

A flag beats the job file, the job file beats ``defaults``. A default share, quota share or priority reaches only a
queue that has such, because AWS refuses it elsewhere; one that was written for the job, or given as a flag, stays and
is reported by `fairshare.submit.checks` (case C17: it must not be dropped in silence).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from fairshare.config.jobs import JobSpec, RetrySpec
from fairshare.model import UsageError
from fairshare.scheduler.books import Terms

if TYPE_CHECKING:
    from fairshare.config.project import Project

_TRAINER_FIELDS: Final = ("instance_type", "instance_count", "image", "role", "max_runtime")
"""What a user's own ModelTrainer says about itself, so that no flag may."""


@dataclass(frozen=True)
class Overrides:
    """What the command line says for every job of a submission. None means "not said"; 0 is a priority (case C08)."""

    queue: str | None = None
    queues: tuple[str, ...] | None = None
    """Several, in the order in which they are tried; the first is ``queue``."""
    share: str | None = None
    quota_share: str | None = None
    priority: int | None = None
    instance_type: str | None = None
    instance_count: int | None = None
    image: str | None = None
    role: str | None = None
    max_runtime: int | None = None
    """Seconds."""
    preemption_retries: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the fields that were said."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class QueueFacts:
    """What submission must know of a queue, whoever made it."""

    name: str
    """Name or ARN as it is sent to AWS."""
    key: str
    """What the user calls it: its key in ``fairshare.yaml``, or the same as ``name``."""
    is_fair_share: bool
    capacity: int
    """Instances of its service environment."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Share identifier, or prefix entry ``PREFIX*``, to weight factor. Empty for FIFO."""
    instance_types: tuple[str, ...] = ()
    """Types its service environment is for; empty = not restricted."""
    compute_reservation: int = 0
    quota_shares: Mapping[str, Terms] | None = None
    """What each quota share may use; None where there are none."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Instances by type, where those are counted."""

    @property
    def has_quota_shares(self) -> bool:
        """Whether every job belongs to a quota share."""
        return self.quota_shares is not None

    @property
    def is_fifo(self) -> bool:
        """Whether the queue takes neither share nor priority."""
        return not self.is_fair_share and not self.has_quota_shares

    def capacity_for(self, quota_shares: Iterable[str | None]) -> int:
        """Return the most instances that jobs of these quota shares may hold together, all borrowed ones included.

        Elsewhere that is all there is, whatever the shares.
        """
        if self.quota_shares is None:
            return self.capacity
        asked = set(quota_shares)
        terms = [each for name, each in self.quota_shares.items() if name in asked]
        most = 0
        for instance_type, there_is in self.limits.items():
            ceilings = [each.ceiling(instance_type) for each in terms]
            most += min(there_is, sum(there_is if ceiling is None else ceiling for ceiling in ceilings))
        return most

    def answers_to(self, name: str) -> bool:
        """Whether a user who says ``name`` means this queue: its key, AWS name, or ARN."""
        return name in (self.key, self.name, self.name.rsplit("/", 1)[-1])


def queue_facts_from_project(project: Project, key: str) -> QueueFacts:
    """Return the facts of the queue with that key, as the file describes it."""
    queue = project.queues[key]
    environment = project.service_environments[queue.service_environment]
    policy = queue.fairshare
    return QueueFacts(
        name=project.resource_name(key),
        key=key,
        is_fair_share=policy is not None,
        capacity=environment.instances,
        weights=policy.shares if policy else {},
        instance_types=environment.instance_types,
        compute_reservation=policy.compute_reservation if policy else 0,
        quota_shares=None
        if queue.quota_shares is None
        else {
            name: Terms(share.capacity_limits, share.sharing, share.borrow_limit, share.in_share_preemption)
            for name, share in queue.quota_shares.items()
        },
        limits=environment.capacity_limits or {},
    )


class Queues:
    """The queues a job may name: those of the project, and others the caller has observed on AWS."""

    def __init__(self, project: Project | None, observed: Iterable[QueueFacts] = ()) -> None:
        self._project = project
        self._own = {key: queue_facts_from_project(project, key) for key in project.queues} if project else {}
        self._observed = list(observed)

    @property
    def keys(self) -> list[str]:
        """What the queues are called."""
        return [*self._own, *(facts.key for facts in self._observed)]

    def find(self, name: str) -> QueueFacts | None:
        """Return the queue that goes by that key, AWS name or ARN."""
        if self._project and (found := self._project.queue(name)):
            return self._own[found[0]]
        return next((facts for facts in self._observed if facts.answers_to(name)), None)

    def by_queue(self, job: JobSpec) -> list[JobSpec]:
        """Return a resolved job as it goes to each of its ``queues``; one that names a single queue as it is.

        A share is for the fair-share queues among them, a quota share for those that have such, and a priority for
        both. An instance type that nobody wrote for the job is
        that of the queue's environment, where the job's default is not one of its types.
        """
        if not job.queues:
            return [job]
        found = {name: self.find(name) for name in job.queues}
        known = [facts for facts in found.values() if facts is not None]
        return [_placed(job, name, facts, known) for name, facts in found.items()]

    @property
    def default(self) -> str | None:
        """The queue of a job that names none: the project's default, else the only one there is."""
        if self._project and self._project.defaults.queue is not None:
            return self._project.defaults.queue
        return self.keys[0] if len(self.keys) == 1 else None


def resolve(
    specs: Sequence[JobSpec], project: Project | None, overrides: Overrides, queues: Queues | None = None
) -> list[JobSpec]:
    """Return the specs with everything filled in that can be; what is still None is for `checks` to report.

    A job on a queue with shares or quota shares that has no priority from anywhere gets 0: AWS takes a missing one for
    0 on some queues and refuses it on others. A default role or run time reaches a user's own ModelTrainer, which uses
    it where it says nothing itself.

    Args:
        specs: jobs as written; sweeps may be expanded or not.
        project: the configuration, when there is one.
        overrides: the flags.
        queues: the queues jobs may name; those of the project when left out.

    Raises:
        UsageError: a flag that a Python target's own ModelTrainer decides, such as ``--instance-type``.
    """
    queues = queues or Queues(project)
    _refuse_trainer_flags(specs, overrides)
    return [_fill(_overridden(spec, overrides.given()), project, queues) for spec in specs]


def _overridden(spec: JobSpec, given: Mapping[str, Any]) -> JobSpec:
    """Return the spec with the flags in it, and without the positions of what they replace."""
    given = dict(given)
    if (retries := given.pop("preemption_retries", None)) is not None:
        spec = replace(spec, retry=replace(spec.retry or RetrySpec(), preemption_retries=retries))
    kept = {path: place for path, place in spec.origin.keys.items() if path[-1] not in given}
    queues = given.get("queues", ()) if "queue" in given else spec.queues
    return replace(spec, **{**given, "queues": queues}, origin=replace(spec.origin, keys=kept))


def _placed(job: JobSpec, name: str, facts: QueueFacts | None, others: Sequence[QueueFacts]) -> JobSpec:
    """Return a job without what is for others of its queues only. What fits none of them stays, and is reported."""
    job = replace(job, queue=name)
    if facts is None:
        return job
    if not facts.is_fair_share and any(other.is_fair_share for other in others):
        job = replace(job, share=None)
    if not facts.has_quota_shares and any(other.has_quota_shares for other in others):
        job = replace(job, quota_share=None)
    if facts.is_fifo and any(not other.is_fifo for other in others):
        job = replace(job, priority=None)
    if job.has_open_type and facts.instance_types and job.instance_type not in facts.instance_types:
        job = replace(job, instance_type=facts.instance_types[0])
    return job


def _fill(spec: JobSpec, project: Project | None, queues: Queues) -> JobSpec:
    if spec.queue is None:
        spec = replace(spec, queue=queues.default)
    named = spec.queues or (() if spec.queue is None else (spec.queue,))
    found = [facts for name in named if (facts := queues.find(name)) is not None]
    spec = replace(spec, has_open_type=_has_open_type(spec))
    wanted = ["role", "max_runtime"]
    if not spec.is_finished:
        wanted += ["image", "instance_type"]
    fallback = {}
    if any(facts.is_fair_share for facts in found):
        wanted.append("share")
    if any(facts.has_quota_shares for facts in found):
        wanted.append("quota_share")
    if any(not facts.is_fifo for facts in found):
        wanted.append("priority")
        fallback = {"priority": 0}
    defaults = {name: getattr(project.defaults, name) for name in wanted} if project else {}
    said = {name: value for name, value in defaults.items() if value is not None}
    return replace(spec, **{name: value for name, value in (fallback | said).items() if getattr(spec, name) is None})


def _has_open_type(spec: JobSpec) -> bool:
    raw = spec.training_job.get("ResourceConfig")
    is_said = spec.instance_type is not None or (isinstance(raw, Mapping) and "InstanceType" in raw)
    return bool(spec.queues) and not is_said and not spec.is_finished


def _refuse_trainer_flags(specs: Sequence[JobSpec], overrides: Overrides) -> None:
    flags = [f"--{name.replace('_', '-')}" for name in overrides.given() if name in _TRAINER_FIELDS]
    if not flags:
        return
    for spec in specs:
        if spec.trainer is not None:
            raise UsageError(
                f'{", ".join(flags)} cannot be applied to job "{spec.name}": its own ModelTrainer says it',
                hint="set it in the ModelTrainer (Compute, training_image, role, StoppingCondition)",
            )
        if spec.payload is not None:
            raise UsageError(
                f'{", ".join(flags)} cannot be applied to job "{spec.name}": its own training request says it',
                hint="set it there (ResourceConfig, AlgorithmSpecification, RoleArn, StoppingCondition)",
            )
