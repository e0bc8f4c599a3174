"""Stopping: the script may save its work, and whatever it does nothing of it survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from fairshare.local.launcher import Attempt, Report
from fairshare.local.processes.attempt_run import OWNER_MARK, AttemptRun
from fairshare.local.processes.launcher import ProcessLauncher
from fairshare.model import JobStatus

MEET = """
import os, pathlib, signal, socket, subprocess, sys
ml = pathlib.Path.cwd().parents[2]
def meet(text="here"):
    with socket.create_connection(("127.0.0.1", {port})) as s:
        s.sendall(text.encode())
"""

SAVE_ON_TERM = """
signalled, on_signal = os.pipe()
os.set_blocking(on_signal, False)
signal.set_wakeup_fd(on_signal)  # a signal that comes before the script waits wakes it too, unlike signal.pause()
def save(*_):
    (ml / "model" / "last.txt").write_text("epoch 3")
    (ml / "checkpoints" / "epoch-3").write_text("state")
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
meet()
os.read(signalled, 1)
"""

IGNORE_TERM = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
meet()
while True: signal.pause()
"""

STOPPED = (JobStatus.FAILED, "The training job was stopped", "Stopped")


def outcome(report: Report) -> tuple[JobStatus, str | None, str | None]:
    return report.status, report.reason, report.secondary_status


def script(rendezvous: Any, text: str) -> str:
    return MEET.format(port=rendezvous.port) + text


def shell(request: dict[str, Any], command: str) -> dict[str, Any]:
    """Let the container run a shell command in the code directory."""
    request["AlgorithmSpecification"]["ContainerArguments"] = [f"cd /opt/ml/input/data/code; {command}"]
    return request


def test_a_script_that_is_stopped_saves_its_work(bench: Any, rendezvous: Any) -> None:
    checkpoint = {"S3Uri": "s3://training-data/checkpoints"}
    attempt = bench.start(bench.request(script(rendezvous, SAVE_ON_TERM), CheckpointConfig=checkpoint))
    rendezvous.wait()
    bench.stop(attempt)
    report = bench.end(attempt)
    assert outcome(report) == STOPPED
    assert bench.get("s3://training-data/checkpoints/epoch-3") == b"state"
    assert bench.unpack(report.model_artifact) == {"last.txt": "epoch 3"}
    assert bench.log(attempt) == ["saved"]


def test_a_script_that_ignores_sigterm_is_killed_after_the_grace(bench: Any, rendezvous: Any) -> None:
    bench.configure(stop_grace_seconds=0.3)
    attempt = bench.start(bench.request(script(rendezvous, IGNORE_TERM)))
    rendezvous.wait()
    bench.stop(attempt)
    assert outcome(bench.end(attempt)) == STOPPED
    assert bench.processes() == []


def test_c43_grandchildren_that_ignore_sigterm_are_killed_as_well(bench: Any, rendezvous: Any) -> None:
    bench.configure(stop_grace_seconds=0.3)
    request = shell(bench.request(script(rendezvous, IGNORE_TERM)), "sh -c 'python3 train.py & wait'")
    attempt = bench.start(request)
    rendezvous.wait()
    assert len(bench.processes()) >= 3
    bench.stop(attempt)
    assert outcome(bench.end(attempt)) == STOPPED
    assert bench.processes() == []


def test_c43_the_script_below_a_shell_gets_the_signal_and_can_save(bench: Any, rendezvous: Any) -> None:
    attempt = bench.start(
        shell(bench.request(script(rendezvous, SAVE_ON_TERM)), "sh -c 'python3 train.py; echo after; exit 0'")
    )
    rendezvous.wait()
    bench.stop(attempt)
    assert bench.end(attempt).model_artifact is not None
    assert bench.log(attempt) == ["saved", "after"]


def test_a_shell_that_traps_the_signal_gets_it(bench: Any, rendezvous: Any) -> None:
    command = "trap 'echo trapped; exit 0' TERM; python3 train.py"
    attempt = bench.start(shell(bench.request(script(rendezvous, "meet()\nsignal.pause()")), command))
    rendezvous.wait()
    bench.stop(attempt)
    assert outcome(bench.end(attempt)) == STOPPED
    assert "trapped" in bench.log(attempt)


def test_a_command_that_starts_after_the_stop_gets_the_signal_too(bench: Any, rendezvous: Any) -> None:
    command = "python3 train.py; python3 train.py"
    attempt = bench.start(shell(bench.request(script(rendezvous, SAVE_ON_TERM)), command))
    rendezvous.wait()
    bench.stop(attempt)
    rendezvous.wait()
    assert outcome(bench.end(attempt)) == STOPPED


DAEMON = """
code = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
daemon = subprocess.Popen([*{how}, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
meet(daemon.stdout.readline())
"""


@pytest.mark.parametrize("how", ["setsid", "env -i setsid"])
def test_c43_a_daemon_does_not_survive_its_job_nor_hold_up_its_end(bench: Any, rendezvous: Any, how: str) -> None:
    attempt = bench.start(bench.request(script(rendezvous, DAEMON.format(how=how.split()))))
    pid = int(rendezvous.wait())
    assert bench.end(attempt).status is JobStatus.SUCCEEDED
    assert not psutil.pid_exists(pid)


def test_an_attempt_stopped_before_it_began_never_runs(bench: Any) -> None:
    reports: list[Report] = []
    attempt = Attempt("job", 1, "early", bench.request("print('never')"), "us-west-2", "123456789012")
    run = AttemptRun(attempt, 1, bench.launcher._site, reports.append)
    run.stop()
    run.run()
    assert [report.status for report in reports] == [JobStatus.STARTING, JobStatus.FAILED]
    assert outcome(reports[-1]) == STOPPED
    assert list((bench.jobs_dir / "early").iterdir()) == [bench.jobs_dir / "early" / "log"]


def test_stopping_an_attempt_that_is_unknown_or_over_does_nothing(bench: Any) -> None:
    attempt = bench.start(bench.request(""))
    assert bench.end(attempt).status is JobStatus.SUCCEEDED
    bench.stop(attempt)
    bench.launcher.stop("unknown", 1)
    assert len(bench.of(attempt)) == 4


def test_close_stops_everything_and_can_be_called_again(bench: Any, rendezvous: Any) -> None:
    attempts = [bench.start(bench.request(script(rendezvous, SAVE_ON_TERM))) for _ in range(2)]
    for _ in attempts:
        rendezvous.wait()
    bench.launcher.close()
    assert bench.processes() == []
    assert [outcome(bench.end(attempt)) for attempt in attempts] == [STOPPED] * 2
    bench.launcher.close()
    late = bench.start({})
    assert bench.end(late).reason == "InternalServerError: the local AWS is stopping"


def test_close_does_not_wait_for_an_unreachable_endpoint(bench: Any, rendezvous: Any) -> None:
    attempt = bench.start(bench.request(script(rendezvous, SAVE_ON_TERM)))
    rendezvous.wait()
    for client in ("s3", "logs"):
        bench.launcher._site.endpoint.client(client, "us-west-2")._endpoint.host = "http://127.0.0.1:9"
    bench.launcher.close()
    assert outcome(bench.end(attempt)) == STOPPED
    bench.endpoint.close()


def test_a_job_whose_supervisor_is_killed_is_reported_and_leaves_nothing(bench: Any, rendezvous: Any) -> None:
    attempt = bench.start(
        shell(bench.request(script(rendezvous, "meet()\nsignal.pause()")), "python3 train.py; exit 0")
    )
    rendezvous.wait()
    (shim,) = [process for process in bench.processes() if "processes/shim.py" in " ".join(process.cmdline())]
    shim.kill()
    assert bench.end(attempt).reason == (
        "AlgorithmError: the job wrote no failure file (it was killed, as happens when memory runs out), exit code: 137"
    )
    assert bench.processes() == []


PARENT = """
import os, pathlib, sys, threading
from fairshare.local.launcher import Attempt
from fairshare.local.processes.launcher import ProcessLauncher
from fairshare.scheduler.clock import SystemClock
import json
url, jobs_dir, request = sys.argv[1:]
launcher = ProcessLauncher(
    endpoint_url=url, access_key_id="AKIALOCAL", secret_access_key="s", jobs_dir=pathlib.Path(jobs_dir),
    python=pathlib.Path(sys.executable), notify=lambda: None, clock=SystemClock(), environ=dict(os.environ),
)
launcher.start(Attempt("job", 1, "orphan", json.loads(request), "us-west-2", "123456789012"), 1)
threading.Event().wait()
"""


def test_jobs_die_with_a_launcher_that_is_killed(bench: Any, rendezvous: Any) -> None:
    request = json.dumps(bench.request(script(rendezvous, IGNORE_TERM.replace("meet()", "meet(os.environ['TMPDIR'])"))))
    arguments = [sys.executable, "-c", PARENT, bench.endpoint.url, str(bench.jobs_dir), request]
    with subprocess.Popen(arguments) as parent:
        scratch = Path(rendezvous.wait()).parent
        orphans = bench.processes()
        assert len(orphans) >= 2
        parent.kill()
    assert psutil.wait_procs(orphans, timeout=30)[1] == []

    assert ProcessLauncher.reap_strays(bench.jobs_dir) == 0
    assert not scratch.exists()
    assert [path.name for path in (bench.jobs_dir / "orphan").iterdir()] == ["log"]


def test_strays_are_found_by_their_mark(tmp_path: Path) -> None:
    jobs_dir = tmp_path / "jobs"
    jobs_dir.mkdir()
    pause = [sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"]

    def start(mark: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, OWNER_MARK: str(mark)}
        process = subprocess.Popen(pause, env=environment, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"ready\n"  # a process that has just begun shows no environment yet
        return process

    stray, other = start(jobs_dir), start(tmp_path)
    assert ProcessLauncher.reap_strays(jobs_dir) == 1
    assert stray.wait() == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()
