"""``fairshare.yaml``, read and checked: the stack, its service environments, queues, shares and defaults for jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from fairshare.config.alarms import AlarmsSection, Kind
from fairshare.config.jobs import Limits
from fairshare.config.policy_tests import PolicyTest
from fairshare.config.prices import PriceTable, price_table
from fairshare.config.project_checks import check_project
from fairshare.config.project_file import (
    Defaults,
    FairshareSection,
    ProjectFile,
    QueueSection,
    QuotaShareSection,
    ServiceEnvironmentConfig,
)
from fairshare.config.sections import read_section, unwrap
from fairshare.config.yaml_source import Document, parse_yaml, read_text
from fairshare.model import Problem, SharingStrategy

__all__ = [
    "PROJECT_FILE",
    "Defaults",
    "FairshareConfig",
    "Project",
    "QueueConfig",
    "QuotaShareConfig",
    "ServiceEnvironmentConfig",
    "check_document",
    "find_project",
    "load_project",
    "parse_project",
]

PROJECT_FILE: Final = "fairshare.yaml"


class FairshareConfig(BaseModel):
    """The fair-share policy of a queue.

    ``shares`` maps share identifiers (``PREFIX*`` included) to AWS's weight factor as the decimal text that was
    written, or that follows from the targets. ``share_decay_seconds`` 0 means AWS's default window of 600 s.
    """

    model_config = ConfigDict(frozen=True)

    share_decay_seconds: int = 0
    compute_reservation: int = 0
    shares: dict[str, str] = Field(default_factory=dict)


class QuotaShareConfig(BaseModel):
    """A quota share. ``borrow_limit`` is in per cent of its ``capacity_limits`` (instances by type); -1 = no limit."""

    model_config = ConfigDict(frozen=True)

    capacity_limits: dict[str, int]
    sharing: SharingStrategy
    borrow_limit: int = -1
    in_share_preemption: bool = False


class QueueConfig(BaseModel):
    """A job queue. ``service_environment`` is a key of the project's service environments.

    ``time_limits`` are seconds by AWS's reason, such as ``CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY``: a job that blocks
    the queue for that long is ended.
    """

    model_config = ConfigDict(frozen=True)

    service_environment: str
    priority: int = 1
    fairshare: FairshareConfig | None = None
    quota_shares: dict[str, QuotaShareConfig] | None = None
    time_limits: dict[str, int] = Field(default_factory=dict)

    @property
    def is_fifo(self) -> bool:
        """Whether jobs go first in, first out: such a queue takes no share and no priority."""
        return self.fairshare is None and self.quota_shares is None

    @property
    def share_names(self) -> tuple[str, ...]:
        """The shares or quota shares that are known by name: without ``PREFIX*``; none of a FIFO queue."""
        entries = tuple(self.quota_shares or () if self.fairshare is None else self.fairshare.shares)
        return tuple(entry for entry in entries if not entry.endswith("*"))

    @property
    def kind(self) -> Kind:
        """What decides whose job is next."""
        return "quota shares" if self.has_quota_shares else "fifo" if self.is_fifo else "fair-share"

    @property
    def has_quota_shares(self) -> bool:
        """Whether every job belongs to a quota share, and instances are counted by type."""
        return self.quota_shares is not None


class Project(BaseModel):
    """A whole project. ``file`` is where it was read; ``warnings`` is what may be meant otherwise."""

    model_config = ConfigDict(frozen=True)

    version: int = 1
    stack: str
    region: str | None = None
    profile: str | None = None
    account: str | None = None
    service_environments: dict[str, ServiceEnvironmentConfig] = Field(default_factory=dict)
    queues: dict[str, QueueConfig] = Field(default_factory=dict)
    defaults: Defaults = Field(default_factory=Defaults)
    limits: Limits = Limits()
    """Of launches, for every submission; a job file's own win, key by key."""
    prices: PriceTable = PriceTable()
    tags: dict[str, str] = Field(default_factory=dict)
    alarms: AlarmsSection = Field(default_factory=AlarmsSection)
    policy_tests: tuple[PolicyTest, ...] = ()
    """What ``fairshare policy test`` checks."""
    file: Path = Path(PROJECT_FILE)
    warnings: tuple[Problem, ...] = ()

    def resource_name(self, key: str) -> str:
        """Return the name in AWS of an environment, a queue or a queue's policy: ``search-ml-gpu``."""
        return f"{self.stack}-{key}"

    def queue(self, name: str) -> tuple[str, QueueConfig] | None:
        """Return key and configuration of a queue by its key, its name in AWS or its ARN; None for one of others."""
        if name.startswith("arn:"):
            return self._queue_of_arn(name)
        for key, queue in self.queues.items():
            if name == key:
                return key, queue
        for key, queue in self.queues.items():
            if name == self.resource_name(key):
                return key, queue
        return None

    def _queue_of_arn(self, arn: str) -> tuple[str, QueueConfig] | None:
        """``arn:aws:batch:us-west-2:111122223333:job-queue/search-ml-gpu``, in any partition."""
        parts = arn.split(":", 5)
        if len(parts) < 6 or not parts[5].startswith("job-queue/"):
            return None
        region, account, name = parts[3], parts[4], parts[5].removeprefix("job-queue/")
        if self.region not in (None, region) or self.account not in (None, account):
            return None
        return next(((key, queue) for key, queue in self.queues.items() if self.resource_name(key) == name), None)


def find_project(start: Path) -> Path | None:
    """Return the ``fairshare.yaml`` in ``start`` or the nearest directory above it, up to the repository's root.

    The root is the first directory that holds ``.git``, else the root of the file system.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
        if (folder / ".git").exists():
            return None
    return None


def load_project(path: Path) -> Project:
    """Read and check a project file.

    Raises:
        InvalidFileError: with every problem of the file; warnings alone do not raise.
    """
    return parse_project(read_text(path), path)


def parse_project(text: str, path: Path) -> Project:
    """Check the text of a project file; ``path`` is its name in messages. Raises as `load_project`."""
    return check_document(parse_yaml(text, str(path)), path)


def check_document(document: Document, path: Path) -> Project:
    """Check a project file that was read as YAML; for those who change the tree first. Raises as `load_project`."""
    read, problems = read_section(ProjectFile, document)
    found = check_project(document)
    errors = [problem for problem in found if problem.severity == "error"]
    warnings = sorted(problem for problem in found if problem.severity == "warning")
    written = unwrap(read, document, problems, errors)
    return Project(
        version=written.version,
        stack=written.stack,
        region=written.region,
        profile=written.profile,
        account=written.account,
        service_environments=written.service_environments,
        queues={key: _queue(queue) for key, queue in written.queues.items()},
        defaults=written.defaults,
        limits=written.limits.to_limits(),
        prices=price_table(written.prices),
        tags=written.tags,
        alarms=written.alarms,
        policy_tests=written.policy_tests,
        file=path,
        warnings=tuple(warnings),
    )


def _queue(written: QueueSection) -> QueueConfig:
    return QueueConfig(
        service_environment=written.service_environment,
        priority=written.priority,
        fairshare=None if written.fairshare is None else _fairshare(written.fairshare),
        quota_shares=None
        if written.quota_shares is None
        else {name: _quota_share(share) for name, share in written.quota_shares.items()},
        time_limits=written.time_limits.by_reason(has_quota_shares=written.quota_shares is not None),
    )


def _quota_share(written: QuotaShareSection) -> QuotaShareConfig:
    return QuotaShareConfig(
        capacity_limits=written.capacity_limits,
        sharing=written.sharing,
        borrow_limit=-1 if written.borrow_limit is None else written.borrow_limit,
        in_share_preemption=written.in_share_preemption,
    )


def _fairshare(written: FairshareSection) -> FairshareConfig:
    return FairshareConfig(
        share_decay_seconds=written.share_decay_seconds,
        compute_reservation=written.compute_reservation,
        shares=written.weight_factors(),
    )
