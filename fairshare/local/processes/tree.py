"""Finding the processes of a training job: which one to ask to stop, and which are left over.

Imports psutil: loaded only where the process launcher runs.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_LOOK_AGAIN_SECONDS = 0.02
_KILL_SECONDS = 10  # a process that hangs in the kernel is given up after that
_DRIVER_MARK = "/sm_drivers/"


def user_processes(supervisor: int) -> list[psutil.Process]:
    """Return the topmost processes of the user's own below a process: those that SIGTERM should reach.

    SageMaker sends SIGTERM to the container's first process, a shell that would not pass it on; here the training
    script itself gets it and can save its work. Its own children do not: a script that ends its workers decides when
    (torchrun passes the signal on). The SDK's start script and drivers are passed over, and so are shells that wait for
    something, unless they trap the signal.

    Args:
        supervisor: pid of the job's process shim.
    """
    children: dict[int, list[psutil.Process]] = defaultdict(list)
    try:
        for process in psutil.Process(supervisor).children(recursive=True):
            children[process.ppid()].append(process)
    except psutil.NoSuchProcess:
        return []
    found = []
    waiting = list(children[supervisor])
    while waiting:
        process = waiting.pop()
        below = children[process.pid]
        if _is_driver(process):
            waiting += below
        elif below and _is_shell(process):
            waiting += below
            if _traps_term(process):
                found.append(process)
        else:
            found.append(process)
    return found


def marked_processes(variable: str, value: str) -> Iterator[psutil.Process]:
    """Yield the processes whose initial environment has ``variable`` = ``value``, whatever their session or parent."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable) == value:
                yield process
        except psutil.Error:  # gone, or another user's
            continue


def kill_marked(variable: str, value: str) -> int:
    """Kill all `marked_processes`, and what they start meanwhile, until there are none; return how many there were.

    Their ends are watched from outside rather than waited for: one of them may be a child of ours, and its exit status
    belongs to whoever started it.
    """
    killed = set[psutil.Process]()
    give_up_at = time.monotonic() + _KILL_SECONDS
    while (alive := list(marked_processes(variable, value))) and time.monotonic() < give_up_at:
        killed.update(alive)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_LOOK_AGAIN_SECONDS)
    return len(killed)


def _is_driver(process: psutil.Process) -> bool:
    return any(_DRIVER_MARK in argument for argument in _command_line(process))


def _is_shell(process: psutil.Process) -> bool:
    command = _command_line(process)
    return bool(command) and Path(command[0]).name.lstrip("-") in _SHELLS


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _traps_term(process: psutil.Process) -> bool:
    """Whether the process has a handler for SIGTERM, as Linux tells (SigCgt in proc(5)); False elsewhere."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
