"""What a training job may use of this machine: the whole that its utilisation is a part of.

Imports psutil: loaded only where the process launcher runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from fairshare.model import UsageError

_CGROUP_FILES: Final = ("memory.max", "memory/memory.limit_in_bytes")
"""Of version 2 and 1, below ``/sys/fs/cgroup``, as a container sees them."""


@dataclass(frozen=True)
class Allotment:
    """Cores and memory. ``cores`` may be a fraction.

    Raises:
        UsageError: nothing is left of either.
    """

    cores: float
    memory_bytes: int

    def __post_init__(self) -> None:
        if not (self.cores > 0 and self.memory_bytes > 0):
            raise UsageError(
                f"jobs are given {self.cores} cores and {self.memory_bytes} bytes", hint="Give them some of each."
            )

    @classmethod
    def of_machine(cls) -> Allotment:
        """Return what this process may use: the whole machine, or what its container leaves of it."""
        return cls(cores(), min((psutil.virtual_memory().total, *_limits(Path("/sys/fs/cgroup")))))


def cores() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _limits(cgroup: Path) -> Iterator[int]:
    """Yield the container's memory limits in bytes; ``max`` is none."""
    for name in _CGROUP_FILES:
        try:
            text = (cgroup / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            yield int(text)
