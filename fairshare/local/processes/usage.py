"""What process trees use at an instant: processor time, what they waited for a processor, and memory.

Imports psutil: loaded only where the process launcher runs.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

Children = Mapping[int, Sequence[psutil.Process]]
"""The processes of the machine by the pid of their parent."""

_NANOSECONDS: Final = 1e9


@dataclass(frozen=True)
class TreeUse:
    """What a process and all its descendants use.

    ``cpu_seconds`` is all processor time so far, that of descendants who have ended included. ``waited_seconds`` says
    of each thread that lives, by id, how long it was ready to run while no core was free (on Linux; elsewhere nothing
    is known). ``memory_bytes`` is the proportional set size: pages that several processes share are counted once (on
    Linux; elsewhere what each has of its own).
    """

    cpu_seconds: float
    waited_seconds: Mapping[int, float]
    memory_bytes: int
    pids: frozenset[int]
    read_at: float
    """When its processor time was read, in seconds on the monotonic clock."""


def children_of_all() -> Children:
    """Look at every process of the machine once, for any number of trees."""
    children: dict[int, list[psutil.Process]] = defaultdict(list)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has just ended
            children[process.ppid()].append(process)
    return children


def read_tree(root: int, children: Children) -> TreeUse | None:
    """Return what the tree below and including the process ``root`` uses; None when it has ended."""
    try:
        waiting = [psutil.Process(root)]
    except psutil.Error:
        return None
    read_at = time.monotonic()
    cpu_seconds, waited_seconds = 0.0, dict[int, float]()
    found: list[psutil.Process] = []
    while waiting:
        process = waiting.pop()
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        found.append(process)
        waiting += children.get(process.pid, ())
        cpu_seconds += times.user + times.system
        # What has ended and was waited for is in its parent's account.
        cpu_seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        waited_seconds.update(_waited(process.pid))
    if not found:
        return None
    memory_bytes = sum(map(_memory, found))  # slow, so not before all processor time is read
    return TreeUse(cpu_seconds, waited_seconds, memory_bytes, frozenset(process.pid for process in found), read_at)


def _waited(pid: int) -> Iterator[tuple[int, float]]:
    """Yield the threads of a process with how long each waited on a run queue.

    Source: https://docs.kernel.org/scheduler/sched-stats.html, "/proc/<pid>/schedstat".
    """
    with contextlib.suppress(OSError):  # the process has just ended, or this is not Linux
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has
                _, waited, _ = (thread / "schedstat").read_text(encoding="ascii").split()
                yield int(thread.name), int(waited) / _NANOSECONDS


def _memory(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.uss))
    except psutil.Error:  # it has ended, or does not let itself be looked at
        return 0
