"""Settings to compare: a policy, the capacity it has, and the choices that AWS leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from fairshare.config.errors import did_you_mean
from fairshare.config.project import Project, QueueConfig, load_project
from fairshare.config.project_file import type_limits
from fairshare.model import (
    CapacityLimit,
    FairsharePolicy,
    QuotaSharePolicy,
    ShareAttributes,
    SharingStrategy,
    UsageError,
)
from fairshare.scheduler.engine import (
    Blocking,
    EngineOptions,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    TimeLimit,
    VictimRule,
)
from fairshare.scheduler.policy import weights_for_targets
from fairshare.simulate.variants import Change, changed_project, variant_name, variants

FIFO: Final = "fifo"
"""The policy that every other one is measured against."""

ONE_LINE: Final = "(one line)"
"""The quota share that owns a whole pool of several instance types, and so makes one line of all its jobs. AWS
refuses such a name, so nobody else has it."""

_POOL: Final = "pool"
_JOBS: Final = "jobs"
"""The one environment and its queue, where no project file names any."""


@dataclass(frozen=True)
class Setting:
    """One thing to simulate. ``queue`` gets the jobs that name none.

    ``weights`` has, by queue, the weight factors that say what each share is due; a quota share is due its own limits.
    A FIFO queue made of a queue with shares keeps them: it does not obey them, but is measured by them.
    """

    name: str
    environments: Mapping[str, PutEnvironment]
    queues: Mapping[str, PutQueue]
    queue: str
    weights: Mapping[str, Mapping[str, str]]
    options: EngineOptions = field(default_factory=EngineOptions)
    quota_shares: Mapping[str, Sequence[PutQuotaShare]] = field(default_factory=dict)
    """By queue; of those that have any."""
    only_types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By queue, the instance type of each quota share that owns a single one. One line of all jobs keeps them, too."""

    def limits_of(self, queue: str) -> Mapping[str, int]:
        """Return how many instances of each type the queue's environment has; {} where any type counts."""
        environment = self.environments[self.queues[queue].environment]
        return {limit.capacity_unit: limit.max_capacity for limit in environment.capacity_limits}

    def quota_share_of(self, queue: str, share: str) -> PutQuotaShare | None:
        """Return the quota share that jobs of a share go to, which may be the one line of all; None = there is none."""
        return next((each for each in self.quota_shares[queue] if each.name in (share, ONE_LINE)), None)

    def only_type_of(self, queue: str, share: str) -> str:
        """Return the instance type of jobs that name none: the only one of their quota share; "" = it has several."""
        if known := self.only_types.get(queue, {}).get(share):
            return known
        found = self.quota_share_of(queue, share)
        types = [limit.capacity_unit for limit in found.capacity_limits] if found is not None else []
        return types[0] if len(types) == 1 else ""

    def capacity_of(self, queue: str) -> int:
        """Return how many instances the queue's environment has."""
        return self.environments[self.queues[queue].environment].max_capacity


@dataclass(frozen=True)
class Comparison:
    """What to compare, as flags say it.

    ``policies`` are `FIFO` or paths of project files; empty = first in, first out and the present project file.
    ``capacities`` are (environment or None, instances). Several capacities of one environment, several scopes of
    blocking and several values of one key are all tried.
    """

    policies: Sequence[str] = ()
    changes: Sequence[Change] = ()
    capacities: Sequence[tuple[str | None, int]] = ()
    blockings: Sequence[Blocking] = ()
    queue: str | None = None
    victim_rule: VictimRule | None = None
    """Which attempts quota shares preempt first; None = the model's choice."""


def settings_of(comparison: Comparison, present: Path | None) -> list[Setting]:
    """Return the settings to compare; ``present`` is the project file at hand.

    Raises:
        UsageError: nothing says the capacity or the queue, or names something that does not exist.
        InvalidFileError: a project file is wrong, or one that is changed.
    """
    blockings, pools = comparison.blockings, list(variants(comparison.capacities))
    tried: list[Setting] = []
    for setting in _policies(comparison, present):
        for capacity in pools:
            sized = with_capacities(setting, capacity)
            for blocking in blockings or [setting.options.blocking]:
                said = [f"{environment or ''} capacity={n}".strip() for environment, n in capacity]
                words = said if len(pools) > 1 else []
                words = [*words, f"blocking={blocking}"] if len(blockings) > 1 else words
                name = " ".join([setting.name, *words])
                options = replace(sized.options, blocking=blocking)
                if comparison.victim_rule is not None:
                    options = replace(options, victim_rule=comparison.victim_rule)
                tried.append(replace(sized, name=name, options=options))
    _check_capacities(tried)
    return tried


def setting_of(name: str, project: Project, queue: str | None = None) -> Setting:
    """Return a project's policies as a setting; ``queue`` gets the jobs, by default the project's own choice.

    Raises:
        UsageError: there is no such queue, or the project leaves the choice open.
    """
    return Setting(
        name=name,
        environments={
            key: PutEnvironment(key, config.instances, capacity_limits=config.limits if config.by_type else ())
            for key, config in project.service_environments.items()
        },
        queues={key: _put_queue(key, config) for key, config in project.queues.items()},
        queue=_default_queue(project, queue),
        weights={key: _weights(config) for key, config in project.queues.items()},
        quota_shares={
            key: _quota_shares(key, config) for key, config in project.queues.items() if config.has_quota_shares
        },
        only_types={key: _only_types(config) for key, config in project.queues.items() if config.has_quota_shares},
    )


def first_in_first_out(setting: Setting) -> Setting:
    """Return the same environments and queues without shares: the oldest job goes first, and its queue waits for it.

    A pool of several instance types is one line, too: its head waits for instances of its type, and everything behind
    waits with it. (On AWS a FIFO queue has an environment that counts instances of any type; there the head waits for
    SageMaker's capacity of its type.)
    """
    queues = {
        key: queue if isinstance(queue.policy, QuotaSharePolicy) else replace(queue, policy=None)
        for key, queue in setting.queues.items()
    }
    lines = {key: [one_line(key, setting.limits_of(key))] for key in setting.quota_shares}
    return replace(setting, name=FIFO, queues=queues, quota_shares=lines)


def one_line(queue: str, limits: Mapping[str, int]) -> PutQuotaShare:
    """Return the quota share that owns a whole pool (instances by type): a strict line of all jobs of the queue."""
    owned = tuple(CapacityLimit(number, instance_type) for instance_type, number in limits.items())
    return PutQuotaShare(ONE_LINE, queue, owned, SharingStrategy.RESERVE)


def single_pool(capacity: int = 0) -> Setting:
    """Return one FIFO queue on one environment."""
    return Setting(FIFO, {_POOL: PutEnvironment(_POOL, capacity)}, {_JOBS: PutQueue(_JOBS, _POOL)}, _JOBS, {_JOBS: {}})


def with_capacities(setting: Setting, capacities: Sequence[tuple[str | None, int]]) -> Setting:
    """Return a setting with other numbers of instances; None is the environment of the queue that gets the jobs.

    Raises:
        UsageError: there is no such environment, or the number is below 1.
    """
    environments = dict(setting.environments)
    for name, capacity in capacities:
        key, _, instance_type = (setting.queues[setting.queue].environment if name is None else name).partition("/")
        if key not in environments:
            hint = did_you_mean(key, environments, "service environments")
            raise UsageError(f"--capacity: policy {setting.name} has no service environment {key}", hint=hint)
        if capacity < 1:
            raise UsageError(f"--capacity {capacity}: a pool has at least 1 instance", hint="write --capacity 16")
        environments[key] = _resized(environments[key], instance_type, capacity)
    return replace(setting, environments=environments)


def _resized(environment: PutEnvironment, instance_type: str, capacity: int) -> PutEnvironment:
    """Return an environment with another number of instances; of one type where they are counted by type."""
    limits = {limit.capacity_unit: limit.max_capacity for limit in environment.capacity_limits}
    if not limits:
        if instance_type:
            raise UsageError(
                f"--capacity {environment.name}/{instance_type}: {environment.name} counts instances of any type",
                hint=f"write --capacity {environment.name}={capacity}",
            )
        return replace(environment, max_capacity=capacity)
    chosen = instance_type or (next(iter(limits)) if len(limits) == 1 else "")
    if chosen not in limits:
        problem = f"has no {chosen}" if chosen else "counts instances by type"
        raise UsageError(
            f"--capacity: service environment {environment.name} {problem}",
            hint=f"write --capacity {environment.name}/{next(iter(limits))}={capacity} (types: {', '.join(limits)})",
        )
    limits[chosen] = capacity
    owned = tuple(CapacityLimit(number, name) for name, number in limits.items())
    return replace(environment, max_capacity=sum(limits.values()), capacity_limits=owned)


def _policies(comparison: Comparison, present: Path | None) -> list[Setting]:
    wanted = list(dict.fromkeys(comparison.policies)) or ([FIFO] if present is None else [FIFO, str(present)])
    if comparison.changes and present is None:
        raise UsageError("--set changes a project file, and there is none", hint="give --file fairshare.yaml")
    files = {text: _named(text, wanted, comparison.queue) for text in wanted if text != FIFO}
    changed = [
        setting_of(variant_name(present.stem, changes), changed_project(present, changes), comparison.queue)
        for changes in variants(comparison.changes)
        if changes and present is not None
    ]
    if present is not None:
        base = setting_of(FIFO, load_project(present), comparison.queue)
    else:
        base = next(iter(files.values()), single_pool())
    return [first_in_first_out(base) if text == FIFO else files[text] for text in wanted] + changed


def _named(text: str, wanted: Sequence[str], queue: str | None) -> Setting:
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"--policy {text}: there is no such file", hint=f"give {FIFO}, or the path of a project file")
    stems = [Path(each).stem for each in wanted]
    return setting_of(path.stem if stems.count(path.stem) == 1 else text, load_project(path), queue)


def _check_capacities(settings: Sequence[Setting]) -> None:
    for setting in settings:
        if setting.capacity_of(setting.queue) < 1:
            raise UsageError("nothing says how many instances there are", hint="give --capacity N, or a project file")


def _put_queue(key: str, config: QueueConfig) -> PutQueue:
    policy: FairsharePolicy | QuotaSharePolicy | None = QuotaSharePolicy() if config.has_quota_shares else None
    if config.fairshare is not None:
        policy = FairsharePolicy(
            tuple(ShareAttributes(share, weight) for share, weight in config.fairshare.shares.items()),
            config.fairshare.share_decay_seconds,
            config.fairshare.compute_reservation,
        )
    time_limits = tuple(TimeLimit(reason, seconds * 1000) for reason, seconds in config.time_limits.items())
    return PutQueue(key, config.service_environment, config.priority, policy, time_limits=time_limits)


def _quota_shares(key: str, config: QueueConfig) -> list[PutQuotaShare]:
    return [
        PutQuotaShare(
            name=name,
            queue=key,
            capacity_limits=type_limits(share.capacity_limits),
            sharing=share.sharing,
            borrow_limit=share.borrow_limit,
            in_share_preemption=share.in_share_preemption,
        )
        for name, share in (config.quota_shares or {}).items()
    ]


def _only_types(config: QueueConfig) -> dict[str, str]:
    shares = (config.quota_shares or {}).items()
    return {name: next(iter(share.capacity_limits)) for name, share in shares if len(share.capacity_limits) == 1}


def _weights(config: QueueConfig) -> dict[str, str]:
    """Return weight factors by share; those of quota shares make each due its part of all limits."""
    if config.fairshare is not None:
        return config.fairshare.shares
    owned = {name: sum(share.capacity_limits.values()) for name, share in (config.quota_shares or {}).items()}
    total = sum(owned.values())
    return weights_for_targets({name: Fraction(100 * number, total) for name, number in owned.items()}) if owned else {}


def _default_queue(project: Project, wanted: str | None) -> str:
    name = wanted or project.defaults.queue or (next(iter(project.queues)) if len(project.queues) == 1 else None)
    queues = ", ".join(project.queues) or "none"
    if name is None:
        raise UsageError(f"{project.file}: which queue gets the jobs? It has {queues}", hint="give -q QUEUE")
    found = project.queue(name)
    if found is None:
        raise UsageError(f"{project.file} has no queue {name}", hint=did_you_mean(name, project.queues, "queues"))
    return found[0]
