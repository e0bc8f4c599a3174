"""``submit``, ``resume`` and ``runs`` as a user types them, against a local AWS where things go wrong."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.local.server import LocalServer
from fairshare.submit.journal import Journal

JOBS = """\
jobs:
  - name: digits
    source: {dir: src, entry: train.py}
    environment: {FAIRSHARE_SIM_SECONDS: 1}
    sweep: {seed: {range: [0, 12]}}
waves: {size: 4, interval: 1s}
"""
SLOW = ("--wave-size", "4", "--interval", "1h")
TIMEOUT_SECONDS = 120
"""Only a process that hangs takes so long."""

Fairshare = Callable[..., tuple[int, Any]]


@pytest.fixture
def project(write_project: Callable[[str, str], Path], lab: str) -> Path:
    """The working directory is in it."""
    return write_project(lab, JOBS)


@pytest.fixture
def server(project: Path, fast_server: LocalServer) -> LocalServer:
    """A local AWS for the project."""
    return fast_server


@pytest.fixture
def fairshare(server: LocalServer, on_local: Fairshare) -> Fairshare:
    """Run one command line; the queue is set up."""
    assert on_local("setup", "--yes")[0] == 0
    return on_local


def start(*argv: str) -> subprocess.Popen[str]:
    """Start a command line in a process of its own."""
    command = [sys.executable, "-m", "fairshare", *argv, "--local"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read what the process says on stderr up to a text."""
    assert process.stderr is not None
    said = ""
    while text not in said:
        line = process.stderr.readline()
        assert line, f"ended before it said {text!r}: {said}"
        said += line
    return said


def names_in_queue(fairshare: Fairshare) -> Counter[str]:
    return Counter(job["job_name"].rsplit("-", 1)[0] for job in fairshare("queue", "--all")[1]["jobs"])


def all_once() -> Counter[str]:
    return Counter(f"digits-seed{seed}" for seed in range(12))


def test_the_runs_of_this_machine(fairshare: Fairshare) -> None:
    assert fairshare("runs")[1]["runs"] == []
    fairshare("submit", "--run-id", "first", "--interval", "0")

    code, listed = fairshare("runs")

    assert (code, listed["kind"], listed["api_version"]) == (0, "RunList", "fairshare/v1")
    (first,) = listed["runs"]
    assert {key: first[key] for key in ("run_id", "total", "submitted", "pending", "failed")} == {
        "run_id": "first",
        "total": 12,
        "submitted": 12,
        "pending": 0,
        "failed": 0,
    }
    code, shown = fairshare("runs", "show", "fir")
    assert (code, shown["kind"], len(shown["jobs"])) == (0, "RunDetail", 12)
    assert {job["state"] for job in shown["jobs"]} == {"sent"}
    assert fairshare("runs", "show", "second")[0] == 4


def test_a_run_that_is_complete_has_nothing_left(fairshare: Fairshare, server: LocalServer) -> None:
    fairshare("submit", "--run-id", "first", "--interval", "0")
    server.call_log.clear()

    code, resumed = fairshare("resume", "first")

    assert (code, resumed["jobs"], resumed["not_sent"]) == (0, [], [])
    assert server.call_log.writes() == []
    code, again = fairshare("submit", "--run-id", "first")
    assert (code, again["error"]["message"]) == (2, 'run "first" exists already')
    assert "`fairshare resume first --local`" in again["error"]["hint"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_c23_an_interrupted_run_says_what_was_sent_and_goes_on(fairshare: Fairshare, number: int, code: int) -> None:
    process = start("submit", "--run-id", "cut", *SLOW)
    read_until(process, "Wave 1 of 3")
    while fairshare("runs", "show", "cut")[1].get("jobs", [{}] * 12)[3].get("state") != "sent":
        pass
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_SECONDS)

    assert process.returncode == code
    assert "stopped: 4 submitted, 8 not sent of run cut" in err
    assert "`fairshare resume cut --local` sends the rest" in err
    assert sum(names_in_queue(fairshare).values()) == 4
    assert fairshare("runs")[1]["runs"][0]["pending"] == 8


def test_c23_c22_interrupted_inside_a_call_the_job_is_found_again(
    fairshare: Fairshare, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(server.clock, "sleep_until", lambda at: goes_on.wait(2 * TIMEOUT_SECONDS))
    server.set_faults(("latency_ms=1,ops=SubmitServiceJob",))
    process = start("submit", "--run-id", "hung", "--wave-size", "1", "--interval", "1h")
    read_until(process, "Wave 1 of 12")
    while fairshare("runs", "show", "hung")[1].get("jobs", [{}])[0].get("state") != "unknown":
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_SECONDS)  # the answer would take longer

    assert process.returncode == 130
    assert "stopped: 0 submitted, 12 not sent of run hung" in err
    goes_on.set()
    server.set_faults(())
    while sum(names_in_queue(fairshare).values()) == 0:
        pass
    process = start("resume", "hung")
    assert "0 of 12 jobs sent before, 1 found that had no answer" in read_until(process, "sent before")
    process.terminate()
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert names_in_queue(fairshare)["digits-seed0"] == 1


def test_c23_interrupted_while_uploading_nothing_was_sent(
    fairshare: Fairshare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fairshare.submit.dispatch.upload", interrupt)

    code, stopped = fairshare("submit", "--run-id", "early")

    assert (code, stopped["error"]["message"]) == (130, "interrupted while uploading: nothing was sent")
    assert fairshare("runs")[1]["runs"] == []


def test_c24_expired_credentials_leave_the_job_not_submitted(
    fairshare: Fairshare, server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.set_faults(("expired_token=1",))

    code, failed = fairshare("submit", "--run-id", "expired", "--interval", "0")

    assert code == 6
    assert "expired" in failed["error"]["message"]
    assert "0 submitted, 12 not sent of run expired" in failed["error"]["message"]
    assert "`fairshare resume expired --local`" in failed["error"]["hint"]
    assert {job["state"] for job in fairshare("runs", "show", "expired")[1]["jobs"]} == {"waiting"}
    server.set_faults(())
    code, resumed = fairshare("resume", "expired")
    assert (code, len(resumed["jobs"])) == (0, 12)
    assert names_in_queue(fairshare) == all_once()


def test_c24_credentials_that_expire_between_waves_stop_the_run_and_a_new_login_goes_on(
    fairshare: Fairshare, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count(1)

    def expire_after_the_first_wave(at: int) -> None:
        if next(calls) == 4:
            server.set_faults(("expired_token=1",))

    monkeypatch.setattr(server.clock, "sleep_until", expire_after_the_first_wave)
    server.set_faults(("latency_ms=1,ops=SubmitServiceJob",))
    process = start("submit", "--run-id", "late", "--wave-size", "4", "--interval", "1s")
    _, err = process.communicate(timeout=TIMEOUT_SECONDS)

    assert process.returncode == 6
    assert "(4 submitted, 8 not sent of run late)" in err
    assert "`fairshare resume late --local`" in err
    server.set_faults(())
    code, resumed = fairshare("resume", "late")
    assert (code, len(resumed["jobs"])) == (0, 8)
    assert names_in_queue(fairshare) == all_once()


@pytest.mark.parametrize("kind", ["lost_reply=0.3", "throttle=0.3", "error=0.2"])
def test_c21_c22_faults_are_absorbed(fairshare: Fairshare, server: LocalServer, kind: str) -> None:
    server.set_faults((f"{kind},seed=3",))

    code, _ = fairshare("submit", "--run-id", "rough", "--interval", "0")

    server.set_faults(())
    assert code == 0
    assert names_in_queue(fairshare) == all_once()


def test_c25_a_full_disk_stops_at_once_and_names_the_job(fairshare: Fairshare, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path.cwd() / "jobs.yaml").write_text(JOBS.replace("size: 4", "size: 1"))
    write, full = os.write, [False]
    sent = Journal.sent

    def on_third(self: Journal, index: int, *rest: Any) -> None:
        full[0] = index == 2
        sent(self, index, *rest)

    def writing(file: int, text: bytes) -> int:
        if full[0] and b'"outcome"' in text:
            raise OSError(28, os.strerror(28))
        return write(file, text)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "sent", on_third)
        patched.setattr(os, "write", writing)
        code, failed = fairshare("submit", "--run-id", "full", "--interval", "0")

    assert code == 1, failed
    assert "was sent as " in failed["err"]
    assert "and that could not be noted: cannot write the journal" in failed["err"]
    assert fairshare("resume", "full")[0] == 0
    assert names_in_queue(fairshare) == all_once()


def test_c26_two_processes_at_once_send_a_run_once(fairshare: Fairshare) -> None:
    processes = [start("submit", "--run-id", "both", "--interval", "1s") for _ in range(2)]
    ended = [(process.communicate(timeout=TIMEOUT_SECONDS), process.returncode) for process in processes]

    (won, lost) = sorted(ended, key=lambda each: each[1])
    assert (won[1], lost[1] != 0) == (0, True)
    assert 'run "both" is held by process' in lost[0][1] or 'run "both" exists already' in lost[0][1]
    assert "(`fairshare submit`)" in lost[0][1] or "exists already" in lost[0][1]
    assert names_in_queue(fairshare) == all_once()


def test_c26_a_run_that_is_being_sent_cannot_be_resumed(fairshare: Fairshare) -> None:
    process = start("submit", "--run-id", "held", *SLOW)
    read_until(process, "Wave 1 of 3")

    code, refused = fairshare("resume", "held")

    assert (code, refused["error"]["code"]) == (1, "Busy")
    assert f"is held by process {process.pid} on " in refused["error"]["message"]
    process.terminate()
    process.communicate(timeout=TIMEOUT_SECONDS)


def test_a_resume_may_have_a_limit_in_flight_of_its_own(fairshare: Fairshare, server: LocalServer) -> None:
    server.set_faults(("expired_token=1",))
    fairshare("submit", "--run-id", "tight", "--interval", "0")
    server.set_faults(())

    assert fairshare("resume", "tight", "--max-in-flight", "0")[1]["error"]["message"] == (
        "0 jobs in flight are too few: not even one could be sent"
    )
    code, resumed = fairshare("resume", "tight", "--max-in-flight", "5", "--wait")

    assert (code, len(resumed["jobs"])) == (0, 12)
    assert "5 jobs in flight" in resumed["err"]


def test_refused_jobs_are_sent_again_when_asked(fairshare: Fairshare, project: Path, server: LocalServer) -> None:
    import boto3

    address = server.address
    batch = boto3.client(
        "batch",
        region_name="us-east-1",
        endpoint_url=address.endpoint_url,
        aws_access_key_id=address.access_key_id,
        aws_secret_access_key=address.secret_access_key,
    )
    batch.update_job_queue(jobQueue="lab-train", state="DISABLED")
    code, refused = fairshare("submit", "--run-id", "refused", "--interval", "0")
    assert (code, refused["kind"]) == (1, "Error")
    assert "`fairshare resume refused --failed --local`" in refused["error"]["hint"]
    batch.update_job_queue(jobQueue="lab-train", state="ENABLED")

    assert fairshare("resume", "refused")[1]["jobs"] == []
    code, resumed = fairshare("resume", "refused", "--failed", "--wait")

    assert (code, len(resumed["jobs"])) == (0, 12)
    assert {job["outcome"] for job in resumed["jobs"]} == {"SUCCEEDED"}
    assert fairshare("runs")[1]["runs"][0]["failed"] == 0


def test_c46_planted_secrets_are_nowhere_and_a_resume_needs_them_again(
    fairshare: Fairshare, project: Path, tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_pl4nted_1")
    (project / "jobs.yaml").write_text(
        JOBS.replace(
            "{FAIRSHARE_SIM_SECONDS: 1}",
            '{HF_TOKEN: {from_env: HF_TOKEN}, WANDB_API_KEY: pl4nted_2, URL: "https://me:pl4nted_3@host/x"}\n'
            "    hyperparameters: {password: pl4nted_4}",
        )
    )
    server.set_faults(("expired_token=1",))
    said = [fairshare("submit", "--dry-run")[1], fairshare("submit", "--run-id", "secret", "--debug")[1]]
    server.set_faults(())
    said += [fairshare("runs", "show", "secret")[1]]
    monkeypatch.setenv("HF_TOKEN", "hf_pl4nted_0")
    code, refused = fairshare("resume", "secret")
    assert code == 2
    assert "is not the one that was submitted" in refused["error"]["message"]
    monkeypatch.setenv("HF_TOKEN", "hf_pl4nted_1")
    code, resumed = fairshare("resume", "secret", "--debug")
    assert (code, len(resumed["jobs"])) == (0, 12)

    journal = (tmp_path / "state" / "runs" / "secret.jsonl").read_text()
    for text in (journal, *(json.dumps(each) for each in (*said, refused, resumed))):
        assert "pl4nted" not in text
