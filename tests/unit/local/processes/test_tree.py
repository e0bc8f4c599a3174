from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fairshare.local.processes.tree import kill_marked, marked_processes, user_processes

PAUSE = "import os, signal; print(os.getpid(), flush=True); signal.pause()"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process; it and its children are killed at the end."""
    started = []

    def start(*command: str, **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def pids(process: subprocess.Popen[str], count: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def supervised(start: Start, tmp_path: Path, script: str) -> subprocess.Popen[str]:
    """A process that runs ``script`` as the SDK's start script."""
    drivers = tmp_path / "sm_drivers"
    drivers.mkdir(exist_ok=True)
    (drivers / "sm_train.sh").write_text(script)
    code = f"import subprocess, sys; subprocess.run(['/bin/bash', '{drivers}/sm_train.sh'])"
    return start(sys.executable, "-c", code)


def test_the_script_below_start_script_and_driver_is_found(start: Start, tmp_path: Path) -> None:
    driver = tmp_path / "sm_drivers" / "driver.py"
    driver.parent.mkdir()
    driver.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {PAUSE!r}])")
    supervisor = supervised(start, tmp_path, f"{sys.executable} {driver}; true")
    script = pids(supervisor, 1)
    assert [process.pid for process in user_processes(supervisor.pid)] == script


def test_only_the_topmost_of_the_users_processes_is_found(start: Start, tmp_path: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PAUSE!r}])"
    supervisor = supervised(start, tmp_path, f'{sys.executable} -c "{code}"; true')
    (worker,) = pids(supervisor, 1)
    assert [process.pid for process in user_processes(supervisor.pid)] == [psutil.Process(worker).ppid()]


def test_shells_are_looked_through(start: Start, tmp_path: Path) -> None:
    supervisor = supervised(start, tmp_path, f"sh -c \"{sys.executable} -c '{PAUSE}' & wait; true\"; true")
    script = pids(supervisor, 1)
    assert [process.pid for process in user_processes(supervisor.pid)] == script


def test_a_shell_that_traps_the_signal_is_found_as_well(start: Start, tmp_path: Path) -> None:
    supervisor = supervised(
        start, tmp_path, f"bash -c \"trap 'exit 0' TERM; {sys.executable} -c '{PAUSE}'; true\"; true"
    )
    (script,) = pids(supervisor, 1)
    found = {process.pid for process in user_processes(supervisor.pid)}
    assert found == {script, psutil.Process(script).ppid()}


def test_before_the_script_has_begun_there_is_nothing_to_find(start: Start, tmp_path: Path) -> None:
    supervisor = supervised(start, tmp_path, "echo 1; read line < <(exec -a /x/sm_drivers/y sleep 1000)")
    pids(supervisor, 1)
    assert user_processes(supervisor.pid) == []


def test_a_supervisor_that_is_gone_has_no_processes(start: Start) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert user_processes(gone.pid) == []


def test_processes_are_found_by_their_mark_and_killed(start: Start) -> None:
    marked = start("setsid", sys.executable, "-c", PAUSE, FAIRSHARE_TEST="a")
    other = start(sys.executable, "-c", PAUSE, FAIRSHARE_TEST="ab")
    (pid,), _ = pids(marked, 1), pids(other, 1)
    assert [process.pid for process in marked_processes("FAIRSHARE_TEST", "a")] == [pid]
    assert kill_marked("FAIRSHARE_TEST", "a") == 1
    assert kill_marked("FAIRSHARE_TEST", "a") == 0
    assert other.poll() is None


def test_the_exit_status_of_a_killed_child_is_left_to_its_parent(start: Start) -> None:
    child = start(sys.executable, "-c", PAUSE, FAIRSHARE_TEST="mine")
    pids(child, 1)
    kill_marked("FAIRSHARE_TEST", "mine")
    assert child.wait() == -9
