"""The processes of one running training job: start, notice the end at once, ask to stop, kill whole.

Imports psutil: loaded only where the process launcher runs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from fairshare.local.processes import shim
from fairshare.local.processes.tree import kill_marked, user_processes

MARK: Final = "FAIRSHARE_ATTEMPT"
"""Variable in the environment of every process of an attempt; its value is unique to the attempt."""


class JobProcess:
    """A command below a `shim`, in a session of its own. Leaving the context ends it whole.

    Args:
        command: program and arguments.
        environment: the whole environment; must hold `MARK`.
        directory: working directory.
        read_output: called in a thread of its own with the descriptor of standard output and error, and with a
            descriptor that becomes readable once the job is over; see `LogShipper.pump`.
        on_exit: called in another thread when the command, and all it started, has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        read_output: Callable[[int, int], None],
        on_exit: Callable[[], None],
    ) -> None:
        self.exit_code: int | None = None
        """None while it runs; 128 + n when signal n ended it."""
        self.cpu_seconds: float | None = None
        """Processor time of all its processes, once it has ended."""
        self._mark = environment[MARK]
        self._on_exit = on_exit
        self._asked: set[psutil.Process] = set()
        self._shim = subprocess.Popen(
            [sys.executable, "-I", "-S", shim.__file__, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
        assert self._shim.stdout is not None
        self._ended_reader, self._ended_writer = os.pipe()
        self._reader = threading.Thread(
            target=read_output, args=(self._shim.stdout.fileno(), self._ended_reader), daemon=True
        )
        self._waiter = threading.Thread(target=self._wait)
        self._reader.start()
        self._waiter.start()

    @property
    def pid(self) -> int:
        """The root of all its processes."""
        return self._shim.pid

    def terminate(self) -> None:
        """Send SIGTERM to the topmost user processes that did not have it yet. Call again for those still to come."""
        for process in user_processes(self._shim.pid):
            if process not in self._asked:
                self._asked.add(process)
                with contextlib.suppress(psutil.Error):
                    process.terminate()

    def kill(self) -> None:
        """Kill every process of the job: by the shim, or one by one when called again because that did not help."""
        assert self._shim.stdin is not None
        if self._shim.stdin.closed:
            kill_marked(MARK, self._mark)
        self._shim.stdin.close()

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left, read the rest of the output, free all descriptors."""
        self.kill()
        self._waiter.join()
        kill_marked(MARK, self._mark)
        os.write(self._ended_writer, b"\0")
        self._reader.join()
        assert self._shim.stdout is not None
        self._shim.stdout.close()
        os.close(self._ended_reader)
        os.close(self._ended_writer)

    def _wait(self) -> None:
        # The shim waits for all that the job starts, so it has the time of all.
        _, status, used = os.wait4(self._shim.pid, 0)
        code = self._shim.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = used.ru_utime + used.ru_stime
        self.exit_code = code if code >= 0 else 128 - code
        self._on_exit()
