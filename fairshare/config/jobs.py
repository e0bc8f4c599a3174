"""Job files (``jobs.yaml``): what to train, on which share and priority, and in which waves.

These are the models, light to import; `fairshare.config.job_file` reads a file into them. A job written on the command
line, or in Python, becomes the same `JobSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from fairshare.config.sweeps import Sweep
    from fairshare.config.times import StartTime, Window

When: TypeAlias = Literal["ok", "any", "failed"]
"""What must have become of the jobs that a job waits for: all SUCCEEDED, all ended, or at least one FAILED."""


@dataclass(frozen=True)
class SecretRef:
    """Where a secret environment value comes from. The value itself never enters a file of ours."""

    from_env: str | None = None
    from_file: str | None = None


@dataclass(frozen=True)
class Origin:
    """Where a job was written: a file position, or the command line (line 0)."""

    file: str
    line: int = 0
    column: int = 0
    source_line: str = field(default="", compare=False)
    """Text of the line, for display under a message."""
    keys: Mapping[tuple[str, ...], Origin] = field(default_factory=dict, compare=False, repr=False)
    """Where the values of the job were written, by key: ``("share",)``, ``("compute", "instance_count")``.

    Items of a list go by their number: ``("after", "0")``.
    """

    def at(self, *key: str) -> Origin:
        """Return where a value was written, else where the job was: ``origin.at("share")``."""
        return self.keys.get(key, self)


@dataclass(frozen=True)
class Dependency:
    """``job`` is the name of a job in the same file; that of a sweep or an array stands for all its jobs."""

    job: str
    when: When = "ok"


@dataclass(frozen=True)
class LaunchPeak:
    """What a job takes while it starts, on each of its instances. None = not known."""

    memory: int | None = None
    """Bytes."""
    read: int | None = None
    """Bytes a second from shared storage."""
    seconds: int | None = None
    """How long the launch lasts."""


@dataclass(frozen=True)
class Resources:
    """What a job takes of one machine; the cloud gives it whole instances. None = not known."""

    cpu: Fraction | None = None
    """Processors."""
    memory: int | None = None
    """Bytes."""
    launch_peak: LaunchPeak | None = None


@dataclass(frozen=True)
class RetrySpec:
    """How often Batch runs a job, the first time included, and after which endings it tries again.

    ``on`` holds patterns of status reasons in place of the default ones; empty = the default ones. What they mean is in
    `fairshare.submit.retries`. A job of a quota share that was preempted more than ``preemption_retries`` times ends;
    None = it is queued again without limit. These use no attempt.
    """

    attempts: int = 2
    on: tuple[str, ...] = ()
    preemption_retries: int | None = None


@dataclass(frozen=True)
class JobSpec:
    """One training job as a user describes it, or many of them while ``sweep`` or ``array`` is set.

    Paths are absolute. ``trainer`` holds the user's own ModelTrainer object when the job came from a Python target, and
    ``payload`` the user's own CreateTrainingJob request; then ``source_dir``, ``entry`` and the other fields that those
    have are not used. None means "not said": defaults of ``fairshare.yaml`` are filled in by
    `fairshare.submit.resolve`.
    """

    name: str
    origin: Origin
    source_dir: Path | None = None
    entry: str | None = None
    requirements: str | None = None
    instance_type: str | None = None
    instance_count: int = 1
    volume_size_gb: int | None = None
    launcher: Mapping[str, Any] | None = None
    """At most one key: ``torchrun``, ``mpi`` or ``ray``, with that launcher's options."""
    queue: str | None = None
    queues: tuple[str, ...] = ()
    """Queues that the job may use, in order, when it names several; the first of them is ``queue``."""
    fallback_after: int | None = None
    """Seconds that the job may wait in a queue before it moves on to the next of ``queues``; None = for ever."""
    has_open_type: bool = False
    """Whether it named no instance type, so that each of its ``queues`` may give its own."""
    share: str | None = None
    quota_share: str | None = None
    """What ``share`` is on a queue with quota shares."""
    priority: int | None = None
    role: str | None = None
    image: str | None = None
    max_runtime: int | None = None
    """Seconds."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    output: str | None = None
    checkpoint: str | None = None
    network: Mapping[str, Any] | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str | SecretRef] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Metric -> regular expression whose first group is its value in a line of the log."""
    tags: Mapping[str, str] = field(default_factory=dict)
    sweep: Sweep | None = None
    array: int | None = None
    """Number of equal jobs, told apart by ``FAIRSHARE_ARRAY_INDEX`` (from 0) in their environment."""
    after: tuple[Dependency, ...] = ()
    """The job is sent when all of these hold."""
    retry: RetrySpec | None = None
    resources: Resources = Resources()
    training_job: Mapping[str, Any] = field(default_factory=dict)
    """Raw CreateTrainingJob fields, merged last."""
    trainer: Any = None
    payload: Mapping[str, Any] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the user made the training request: then image, role, instances and run time are the user's, too."""
        return self.trainer is not None or self.payload is not None


@dataclass(frozen=True)
class WavesSpec:
    """Fixed waves: ``size`` jobs every ``interval`` seconds, start to start."""

    size: int
    interval: int
    start_at: StartTime | None = None
    """When the first wave starts; None = at once."""
    window: Window | None = None
    """When waves may start; None = always."""


@dataclass(frozen=True)
class AutoWaves:
    """Waves that find their own size: a job is sent when there is room for one more launch."""

    first: int | None = None
    """Launches at once to begin with; None = as many as the limits say, or a few."""
    hold_runnable: bool = False
    """Whether jobs that wait in the queue count as launches, too."""
    start_at: StartTime | None = None
    window: Window | None = None


@dataclass(frozen=True)
class Limits:
    """What launches may take of things they share, all together. None = no limit."""

    concurrent_launches: int | None = None
    """Jobs."""
    image_pulls: int | None = None
    """Instances."""
    read_bandwidth: int | None = None
    """Bytes a second."""
    memory: int | None = None
    """Bytes."""

    def over(self, general: Limits) -> Limits:
        """Return these limits, and the ``general`` ones for what these do not say."""
        said = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}
        return replace(general, **said)


@dataclass(frozen=True)
class JobFile:
    """A whole job file."""

    jobs: tuple[JobSpec, ...]
    waves: WavesSpec | AutoWaves | None = None
    limits: Limits = Limits()
    max_in_flight: int | None = None
    """Jobs of the run that may be in Batch and not have ended; None = any number."""
