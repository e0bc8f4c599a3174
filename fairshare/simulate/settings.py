"""Settings to compare: a policy, the capacity it has, and the choices that AWS leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from fairshare.config.errors import did_you_mean
from fairshare.config.project import Project, QueueConfig, load_project
from fairshare.model import FairsharePolicy, ShareAttributes, UsageError
from fairshare.scheduler.engine import Blocking, EngineOptions, PutEnvironment, PutQueue
from fairshare.simulate.variants import Change, changed_project, variant_name, variants

FIFO: Final = "fifo"
"""The policy that every other one is measured against."""

_POOL: Final = "pool"
_JOBS: Final = "jobs"
"""The one environment and its queue, where no project file names any."""


@dataclass(frozen=True)
class Setting:
    """One thing to simulate. ``queue`` gets the jobs that name none.

    ``weights`` has, by queue, the weight factors that say what each share is due. A FIFO queue made of a fair-share
    queue keeps them: it does not obey them, but is measured by them.
    """

    name: str
    environments: Mapping[str, PutEnvironment]
    queues: Mapping[str, PutQueue]
    queue: str
    weights: Mapping[str, Mapping[str, str]]
    options: EngineOptions = field(default_factory=EngineOptions)

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
                tried.append(replace(sized, name=name, options=replace(sized.options, blocking=blocking)))
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
            key: PutEnvironment(key, config.instances) for key, config in project.service_environments.items()
        },
        queues={key: _put_queue(key, config) for key, config in project.queues.items()},
        queue=_default_queue(project, queue),
        weights={key: config.fairshare.shares if config.fairshare else {} for key, config in project.queues.items()},
    )


def first_in_first_out(setting: Setting) -> Setting:
    """Return the same environments and queues without shares."""
    queues = {key: replace(queue, policy=None) for key, queue in setting.queues.items()}
    return replace(setting, name=FIFO, queues=queues)


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
        key = setting.queues[setting.queue].environment if name is None else name
        if key not in environments:
            hint = did_you_mean(key, environments, "service environments")
            raise UsageError(f"--capacity: policy {setting.name} has no service environment {key}", hint=hint)
        if capacity < 1:
            raise UsageError(f"--capacity {capacity}: a pool has at least 1 instance", hint="write --capacity 16")
        environments[key] = replace(environments[key], max_capacity=capacity)
    return replace(setting, environments=environments)


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
    policy = None
    if config.fairshare is not None:
        policy = FairsharePolicy(
            tuple(ShareAttributes(share, weight) for share, weight in config.fairshare.shares.items()),
            config.fairshare.share_decay_seconds,
            config.fairshare.compute_reservation,
        )
    return PutQueue(key, config.service_environment, config.priority, policy)


def _default_queue(project: Project, wanted: str | None) -> str:
    name = wanted or project.defaults.queue or (next(iter(project.queues)) if len(project.queues) == 1 else None)
    queues = ", ".join(project.queues) or "none"
    if name is None:
        raise UsageError(f"{project.file}: which queue gets the jobs? It has {queues}", hint="give -q QUEUE")
    found = project.queue(name)
    if found is None:
        raise UsageError(f"{project.file} has no queue {name}", hint=did_you_mean(name, project.queues, "queues"))
    return found[0]
