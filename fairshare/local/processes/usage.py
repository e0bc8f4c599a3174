"""What process trees use at an instant: processor time and memory.

Imports psutil: loaded only where the process launcher runs.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

Children = Mapping[int, Sequence[psutil.Process]]
"""The processes of the machine by the pid of their parent."""


@dataclass(frozen=True)
class TreeUse:
    """What a process and all its descendants use.

    ``cpu_seconds`` is all processor time so far, that of descendants who have ended included. ``memory_bytes`` is the
    proportional set size: pages that several processes share are counted once (on Linux; elsewhere what each has of its
    own).
    """

    cpu_seconds: float
    memory_bytes: int
    pids: frozenset[int]


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
    cpu_seconds, memory_bytes, pids = 0.0, 0, set[int]()
    while waiting:
        process = waiting.pop()
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        pids.add(process.pid)
        waiting += children.get(process.pid, ())
        cpu_seconds += times.user + times.system
        # What has ended and was waited for is in its parent's account.
        cpu_seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        memory_bytes += _memory(process)
    return TreeUse(cpu_seconds, memory_bytes, frozenset(pids)) if pids else None


def _memory(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.uss))
    except psutil.Error:  # it has ended, or does not let itself be looked at
        return 0
