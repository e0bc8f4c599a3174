from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fairshare.local.processes import shim

TIMEOUT_SECONDS = 30
SLEEPER = 'import os, signal; os.write(1, b"%d\\n" % os.getpid()); signal.pause()'
"""Tells its id in one write: two of them may share a pipe."""


def start(*command: str, **options: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", shim.__file__, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def run(*command: str) -> tuple[int, str]:
    with start(*command, stderr=subprocess.STDOUT) as shim:
        assert shim.stdout is not None
        return shim.wait(TIMEOUT_SECONDS), shim.stdout.read()


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)],
)
def test_the_exit_code_is_the_commands(command: str, exit_code: int) -> None:
    assert run("/bin/sh", "-c", command) == (exit_code, "")


def test_a_command_that_cannot_be_run_is_said() -> None:
    assert run("/no/such") == (127, "fairshare: cannot run '/no/such': No such file or directory\n")


def test_the_command_cannot_see_the_lifeline() -> None:
    assert run("readlink", "/proc/self/fd/0") == (0, "/dev/null\n")


def test_the_command_ignores_no_signal_that_python_ignores() -> None:
    _, output = run("grep", "SigIgn", "/proc/self/status")
    assert output.split() == ["SigIgn:", "0" * 16]


def test_the_command_leads_a_session_of_its_own() -> None:
    _, output = run(sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid() == os.getpgid(0))")
    assert output == "True\n"


@pytest.mark.parametrize("wrapper", ["", "setsid", "env -i setsid -f"])
def test_c43_a_daemon_ends_with_the_command(wrapper: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    daemon = f"{wrapper} {sys.executable} -c '{SLEEPER}' > {tmp_path}/pid &"
    exit_code, output = run("/bin/sh", "-c", f"{daemon} read pid < {tmp_path}/pid; echo $pid; exit 5")
    assert exit_code == 5
    assert not psutil.pid_exists(int(output))


def test_cutting_the_lifeline_kills_everything() -> None:
    nested = f"setsid {sys.executable} -c '{SLEEPER}' & {sys.executable} -c '{SLEEPER}'"
    with start("/bin/sh", "-c", nested) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        pids = [int(shim.stdout.readline()) for _ in range(2)]
        assert all(psutil.pid_exists(pid) for pid in pids)
        shim.stdin.close()
        assert shim.wait(TIMEOUT_SECONDS) == 128 + 9
        assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_lifeline_cut_at_once_kills_as_well() -> None:
    """The command may not lead its session yet."""
    for _ in range(5):
        with start(sys.executable, "-c", "import signal; signal.pause()") as shim:
            assert shim.stdin is not None
            shim.stdin.close()
            assert shim.wait(TIMEOUT_SECONDS) == 128 + 9


def test_the_command_dies_with_a_shim_that_is_killed() -> None:
    with start(sys.executable, "-c", SLEEPER) as shim:
        assert shim.stdout is not None
        process = psutil.Process(int(shim.stdout.readline()))
        os.kill(shim.pid, 9)
        assert shim.wait(TIMEOUT_SECONDS) == -9
        assert psutil.wait_procs([process], timeout=TIMEOUT_SECONDS)[1] == []
