"""The local AWS as a process of its own: start it in the background, find it by its ready file, stop it.

The process is an ordinary ``fairshare local start --foreground`` in a new session; its output goes to ``server.log`` in
the state directory. Who is running is read from the ready file, and believed only if that process still is one of ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairshare.model import FairshareError, NotFoundError, WaitTimeoutError
from fairshare.scheduler.clock import Clock

_LOOK_MS: Final = 20
_START_MS: Final = 300_000
"""A server repeats what it did before, a few hundred calls a second."""

_STOP_MS: Final = 180_000
"""Jobs that save a checkpoint when they are stopped may take SageMaker's 120 s."""


@dataclass(frozen=True)
class RunningServer:
    """What the ready file of a server that is alive says."""

    endpoint_url: str
    pid: int
    launcher: str
    ready_file: Path


def find_server(ready_file: Path) -> RunningServer | None:
    """Return the server that wrote a ready file, or None when there is no such file or no such process any more."""
    try:
        ready = json.loads(ready_file.read_text())
        found = RunningServer(ready["endpoint_url"], ready["pid"], ready["launcher"], ready_file)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if _is_ours(found.pid) else None


def start_server(arguments: Sequence[str], *, ready_file: Path, log_file: Path, clock: Clock) -> RunningServer:
    """Start a server in the background and return once it answers.

    Args:
        arguments: those of ``fairshare local start``.
        ready_file: written by the server when it is up.
        log_file: where its output goes.
        clock: for waiting.

    Raises:
        FairshareError: a server with that ready file runs already, or the new one ended at once; its last output is in
            the message.
        WaitTimeoutError: it is not up after five minutes; it is ended.
    """
    running = find_server(ready_file)
    if running is not None:
        raise FairshareError(
            f"a local AWS runs already: {running.endpoint_url} (process {running.pid}, {running.launcher} launcher)",
            hint="`fairshare local stop` ends it",
        )
    log_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log_file.open("wb") as log:
        command = [sys.executable, "-m", "fairshare", "local", "start", "--foreground", *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, close_fds=True
        )
    deadline = clock.now() + _START_MS
    while clock.now() < deadline:
        if process.poll() is not None:
            tail = log_file.read_text(errors="replace").strip().splitlines()[-5:]
            raise FairshareError(
                "the local AWS did not start:\n" + "\n".join(tail), hint=f"its output is in {log_file}"
            )
        server = find_server(ready_file)
        if server is not None and server.pid == process.pid:
            return server
        clock.sleep_until(clock.now() + _LOOK_MS)
    process.kill()
    process.wait()
    raise WaitTimeoutError(
        "the local AWS was not up after five minutes and was ended", hint=f"its output is in {log_file}"
    )


def stop_server(ready_file: Path, clock: Clock) -> RunningServer:
    """End the server of a ready file, with its training jobs, and return once it is gone.

    Raises:
        NotFoundError: none runs.
        WaitTimeoutError: it is still there after three minutes.
    """
    import psutil

    server = find_server(ready_file)
    if server is None:
        raise NotFoundError("no local AWS is running", hint="`fairshare local start` starts one")
    try:
        process = psutil.Process(server.pid)
        process.terminate()
        deadline = clock.now() + _STOP_MS
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            if clock.now() >= deadline:
                raise WaitTimeoutError(
                    f"process {server.pid} has not ended after {_STOP_MS // 1000} s", hint="see its server.log"
                )
            clock.sleep_until(clock.now() + _LOOK_MS)
    except psutil.NoSuchProcess:
        pass
    return server


def _is_ours(pid: int) -> bool:
    """Whether a process is a local AWS and not another one that was given the number of one that has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        words = process.cmdline()
        return process.status() != psutil.STATUS_ZOMBIE and "local" in words and "start" in words
    except psutil.Error:
        return False
