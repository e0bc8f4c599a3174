"""Job files (``jobs.yaml``): what to train, on which share and priority, and in which waves.

These are the models, light to import; `fairshare.config.job_file` reads a file into them. A job written on the command
line, or in Python, becomes the same `JobSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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
    """Where the values of the job were written, by key: ``("share",)``, ``("compute", "instance_count")``."""

    def at(self, *key: str) -> Origin:
        """Return where a value was written, else where the job was: ``origin.at("share")``."""
        return self.keys.get(key, self)


@dataclass(frozen=True)
class JobSpec:
    """One training job as a user describes it, or many of them while ``sweep`` is set.

    Paths are absolute. ``trainer`` holds the user's own ModelTrainer object when the job came from a Python target;
    then ``source_dir``, ``entry`` and the other fields that a ModelTrainer has are not used. None means "not said":
    defaults of ``fairshare.yaml`` are filled in by `fairshare.submit.resolve`.
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
    share: str | None = None
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
    tags: Mapping[str, str] = field(default_factory=dict)
    sweep: Mapping[str, Any] | None = None
    """Hyperparameter -> list of values, or ``{range: [start, stop, step]}`` (half-open)."""
    training_job: Mapping[str, Any] = field(default_factory=dict)
    """Raw CreateTrainingJob fields, merged last."""
    trainer: Any = None


@dataclass(frozen=True)
class WavesSpec:
    """Fixed waves: ``size`` jobs every ``interval`` seconds, start to start."""

    size: int
    interval: int


@dataclass(frozen=True)
class JobFile:
    """A whole job file."""

    jobs: tuple[JobSpec, ...]
    waves: WavesSpec | None = None
