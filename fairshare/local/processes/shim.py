"""The small parent of a training job's processes: run as a script, imports the standard library only.

``python -I -S shim.py COMMAND...`` runs COMMAND in a session of its own and exits with its exit code (128 + n
after signal n). It stands between the local AWS and the job for two promises that a threaded server cannot keep:

* Standard input is a lifeline. When its other end closes, because the launcher wants the job gone or because the
  launcher itself was killed, however hard, everything the job started is killed.
* Nothing outlives the job. On Linux the shim is the "child subreaper": daemons that the job put into sessions of their
  own become its children and are killed when the job's main process ends. Elsewhere the process group is killed.
"""

# ruff: noqa: PTH123, PTH208 - pathlib would double the start-up time, which every job pays

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

_LIFELINE = 0
_IS_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def main(command: list[str]) -> int:
    """Run ``command`` to its end, leave none of its processes behind and return its exit code."""
    libc = ctypes.CDLL(None) if _IS_LINUX else None
    if libc is not None:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake = _wake_on_child_exit()
    child = os.fork()
    if child == 0:
        _become(command, libc)
    exit_code = os.waitstatus_to_exitcode(_wait(child, wake))
    if _IS_LINUX:
        _kill_children()
    else:
        _kill_group(child)
    return exit_code if exit_code >= 0 else 128 - exit_code


def _wake_on_child_exit() -> int:
    """Return a descriptor that becomes readable whenever a child changes state."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _become(command: list[str], libc: ctypes.CDLL | None) -> None:
    """In the child: turn into ``command``, leading a session of its own. Never returns."""
    try:
        os.setsid()
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), _LIFELINE)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"fairshare: cannot run {command[0]!r}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _wait(child: int, wake: int) -> int:
    """Return the wait status of ``child``; kill it and its group as soon as the lifeline is cut."""
    poller = select.poll()
    poller.register(_LIFELINE, select.POLLIN)
    poller.register(wake, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == wake:
                os.read(wake, 4096)
            else:
                poller.unregister(_LIFELINE)
                os.kill(child, signal.SIGKILL)  # it may not lead a group yet
                _kill_group(child)
        while (reaped := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if reaped[0] == child:
                return reaped[1]


def _kill_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # none left; macOS says EPERM when only zombies are left
        return


def _kill_children() -> None:
    """Kill all children until there are none: what a killed one leaves behind becomes our child in turn."""
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)


def _children() -> list[int]:
    """Pids of our direct children, zombies included, from ``/proc``."""
    me = str(os.getpid()).encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                parent = file.read().rpartition(b")")[2].split()[1]
        except OSError:
            continue
        if parent == me:
            found.append(int(entry))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
