from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import AutoWaves, SecretRef
from fairshare.config.times import parse_window
from fairshare.model import JobRequest, UsageError
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.requests import Alternative, PlannedJob, RunIdentity
from fairshare.submit.rules import RunRules
from fairshare.submit.triggers import ScriptKind, check_exportable, export_triggers, script_name
from fairshare.submit.waves import Wave, plan_waves
from fairshare.submit.windows import Gate

T0 = 1_796_061_600_000
GOLDEN = Path(__file__).with_name("triggers.bat")
NIGHTS = parse_window("20:00-06:00 UTC")
"""T0 is 18:00 UTC."""


def body(request: JobRequest) -> dict[str, Any]:
    return {"jobName": request.job_name, "clientToken": request.client_token, "payload": request.payload}


@pytest.fixture
def make_plan(make_planned: Callable[..., PlannedJob]) -> Callable[..., SubmitPlan]:
    def make(count: int, size: int | None = None, interval: int = 90, **waves: Any) -> SubmitPlan:
        planned = plan_waves(count, size, interval, waves.pop("start_at", T0), **waves)
        rules = RunRules(Gate(planned[0].starts_at if waves.get("timed") else None, waves.get("window")))
        jobs = tuple(
            make_planned(i, wave.number) for wave in planned for i in range(wave.first, wave.first + wave.count)
        )
        return SubmitPlan(RunIdentity("lunar-otter", T0, "us-west-2", "111122223333"), planned, jobs, rules=rules)

    return make


def with_request(plan: SubmitPlan, **changes: Any) -> SubmitPlan:
    """The plan, with its first job's request changed."""
    first = plan.jobs[0]
    return replace(plan, jobs=(replace(first, request=replace(first.request, **changes)), *plan.jobs[1:]))


# ---------------------------------------------------------------------------------------------------------------------
# What is written


def test_each_request_is_a_file_and_the_script_comes_last(make_plan: Callable[..., SubmitPlan]) -> None:
    plan = make_plan(3, 2)
    files = export_triggers(plan, ScriptKind.SH, body)
    *requests, script = files
    assert script == script_name(ScriptKind.SH) == "submit.sh"
    assert [json.loads(files[name]) for name in requests] == [body(job.request) for job in plan.jobs]
    assert requests[0] == f"requests/00001-{plan.jobs[0].request.job_name}.json"


def test_files_are_ascii_because_windows_guesses_encodings(make_plan: Callable[..., SubmitPlan]) -> None:
    plan = with_request(make_plan(1), payload='{"HyperParameters":{"name":"Zürich 東京"}}', job_queue="größe")
    for kind in ScriptKind:
        assert all(content.isascii() for content in export_triggers(plan, kind, body).values())


def test_the_batch_file_is_golden(make_plan: Callable[..., SubmitPlan]) -> None:
    plan = make_plan(3, 2, start_at=T0 + 7_200_000, window=NIGHTS, timed=True)
    nasty = ("lr=0.1 100% & del *", 'say "hi" ^| (really)', "größer > kleiner")
    jobs = [
        replace(job, request=replace(job.request, job_name=name, job_queue='my 50% "queue" & more'))
        for job, name in zip(plan.jobs, nasty, strict=True)
    ]
    plan = replace(plan, jobs=tuple(jobs))
    files = export_triggers(plan, ScriptKind.BAT, body, endpoint_url="https://proxy/a%20b?x=1&y=2")
    text = files["submit.bat"]
    assert text.count(b"\r\n") == text.count(b"\n")
    assert text.replace(b"\r\n", b"\n").decode() == GOLDEN.read_text()
    assert list(files)[:3] == [
        "requests/00001-lr_0_1_100____del__.json",
        "requests/00002-say__hi______really_.json",
        "requests/00003-gr__er___kleiner.json",
    ]


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(
    ("payload", "secrets", "key"),
    [
        ('{"Environment":{"HF_TOKEN":"hf_planted"}}', {}, "HF_TOKEN"),
        ('{"HyperParameters":{"db":"https://me:planted@host/"}}', {}, "db"),
        ('{"Environment":{"PLAIN":"planted"}}', {"PLAIN": SecretRef(from_env="X")}, "PLAIN"),
    ],
)
def test_secrets_are_never_written_into_files(
    make_plan: Callable[..., SubmitPlan], payload: str, secrets: dict[str, SecretRef], key: str
) -> None:
    plan = with_request(make_plan(2), payload=payload)
    plan = replace(plan, jobs=(replace(plan.jobs[0], secrets=secrets), plan.jobs[1]))
    with pytest.raises(UsageError) as caught:
        export_triggers(plan, ScriptKind.SH, body)
    name = plan.jobs[0].request.job_name
    assert caught.value.message == f"job {name}: {key} is secret, and would stand in a file"
    assert "planted" not in f"{caught.value.message}{caught.value.hint}"
    assert "fairshare submit" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"after": (((1,), "ok"),)}, "comes after others, and a script does not look at jobs"),
        ({"alternatives": (Alternative("p4"),)}, "may move to another queue, and a script does not look at jobs"),
    ],
)
def test_what_must_be_watched_cannot_be_exported(
    make_plan: Callable[..., SubmitPlan], change: dict[str, Any], why: str
) -> None:
    plan = make_plan(2)
    with pytest.raises(UsageError, match=why):
        check_exportable(replace(plan, jobs=(replace(plan.jobs[0], **change), plan.jobs[1])))


@pytest.mark.parametrize(
    ("rules", "what"),
    [(RunRules(auto=AutoWaves()), "waves: auto"), (RunRules(max_in_flight=4), "a limit of jobs in flight")],
)
def test_a_run_that_paces_itself_cannot_be_exported(
    make_plan: Callable[..., SubmitPlan], rules: RunRules, what: str
) -> None:
    with pytest.raises(UsageError, match=f"{what} cannot be exported: a script does not look at jobs"):
        check_exportable(replace(make_plan(2), rules=rules))


def test_no_jobs_are_no_export(make_plan: Callable[..., SubmitPlan]) -> None:
    with pytest.raises(UsageError, match="there are no jobs to export"):
        check_exportable(make_plan(0))


# ---------------------------------------------------------------------------------------------------------------------
# The shell script at work, on a machine whose clock is a file


class Machine:
    """A PATH with a fake ``aws``, ``date`` and ``sleep``: sleeping moves the clock, and every call is recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.clock = folder / "clock"
        self.calls = folder / "calls"
        self.calls.touch()
        self.tell(T0 // 1000)
        self._tool("date", f'cat "{self.clock}"')
        self._tool(
            "sleep", f'echo $(($(cat "{self.clock}") + $1)) >"{self.clock}.new"; mv "{self.clock}.new" "{self.clock}"'
        )
        self.accepting()

    def _tool(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)

    def tell(self, seconds: int) -> None:
        self.clock.write_text(f"{seconds}\n")

    def accepting(self, refused: str = "never") -> None:
        """``aws`` takes every job but those whose file has ``refused`` in its name; each call takes a second."""
        self._tool(
            "aws",
            f'echo "$(cat "{self.clock}") $AWS_REGION $*" >>"{self.calls}"\n'
            f'case "$*" in *{refused}*) echo "An error occurred (ClientException)" >&2; exit 254;; esac\n'
            'echo "{\\"jobId\\": \\"id\\"}"\n'
            "sleep 1",
        )

    def export(self, plan: SubmitPlan, **options: Any) -> Path:
        folder = self.folder / "out folder"
        for name, content in export_triggers(plan, ScriptKind.SH, body, **options).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder / "submit.sh"

    def run(self, script: Path) -> subprocess.CompletedProcess[str]:
        path = f"{self.bin}:{os.defpath}"
        return subprocess.run(
            ["/bin/sh", script], env={"PATH": path}, cwd="/", capture_output=True, text=True, check=False, timeout=20
        )

    def sent(self) -> list[tuple[int, str]]:
        """Seconds since T0 and the number of the job, for each call."""
        lines = [line.split() for line in self.calls.read_text().splitlines()]
        return [(int(line[0]) - T0 // 1000, line[-1].partition("requests/")[2][:5]) for line in lines]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_script_runs_the_waves_at_their_offsets(machine: Machine, make_plan: Callable[..., SubmitPlan]) -> None:
    plan = make_plan(5, 2, 200)
    done = machine.run(machine.export(plan))
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.sent() == [(0, "00001"), (1, "00002"), (200, "00003"), (201, "00004"), (400, "00005")]
    names = [job.request.job_name for job in plan.jobs]
    assert done.stdout.splitlines() == [
        "wave 1 of 3: 2 to send",
        f"  1 of 5  00001-{names[0]}",
        f"  2 of 5  00002-{names[1]}",
        "wave 2 of 3 in 198 s",
        "wave 2 of 3: 2 to send",
        f"  3 of 5  00003-{names[2]}",
        f"  4 of 5  00004-{names[3]}",
        "wave 3 of 3 in 198 s",
        "wave 3 of 3: 1 to send",
        f"  5 of 5  00005-{names[4]}",
        "all 5 jobs are sent",
    ]
    call = machine.calls.read_text().splitlines()[0]
    expected = f"us-west-2 batch submit-service-job --cli-input-json file://requests/00001-{names[0]}.json"
    assert call == f"{T0 // 1000} {expected}"


def test_the_script_keeps_its_distances_when_a_wave_is_slow(
    machine: Machine, make_plan: Callable[..., SubmitPlan]
) -> None:
    plan = replace(make_plan(12), waves=(Wave(1, T0, 0, 10), Wave(2, T0 + 5_000, 10, 1), Wave(3, T0 + 10_000, 11, 1)))
    machine.run(machine.export(plan))
    assert [at for at, _ in machine.sent()] == [*range(10), 10, 15]


def test_the_script_stops_at_a_failure_and_goes_on_when_it_is_run_again(
    machine: Machine, make_plan: Callable[..., SubmitPlan]
) -> None:
    script = machine.export(make_plan(4, 2, 100))
    machine.accepting(refused="00003")
    failed = machine.run(script)
    assert failed.returncode == 1
    assert "An error occurred (ClientException)" in failed.stderr
    assert "was not accepted; if AWS says that its token was used before" in failed.stderr
    assert f"2 of 4 jobs are sent; run {script} again for the rest" in failed.stderr
    assert [job for _, job in machine.sent()] == ["00001", "00002", "00003"]
    machine.calls.write_text("")
    machine.accepting()
    machine.tell(T0 // 1000 + 5_000)
    again = machine.run(script)
    assert again.returncode == 0
    assert machine.sent() == [(5_000, "00003"), (5_001, "00004")]
    assert again.stdout.endswith("all 4 jobs are sent\n")
    assert machine.run(script).returncode == 0
    assert len(machine.sent()) == 2


def test_the_script_waits_for_an_absolute_start(machine: Machine, make_plan: Callable[..., SubmitPlan]) -> None:
    plan = make_plan(2, 1, 60, start_at=T0 + 600_000, timed=True)
    machine.run(machine.export(plan))
    assert machine.sent() == [(600, "00001"), (660, "00002")]


def test_the_script_starts_no_wave_outside_its_window(machine: Machine, make_plan: Callable[..., SubmitPlan]) -> None:
    plan = make_plan(2, 1, 60, window=parse_window("18:10-06:00 UTC"))
    script = machine.export(plan)
    machine.tell(T0 // 1000 + 13 * 3600)
    late = machine.run(script)
    assert late.returncode == 1
    assert "the window of wave 1 has closed; export the run again" in late.stderr
    assert machine.sent() == []
    machine.tell(T0 // 1000)
    assert machine.run(script).returncode == 0
    assert machine.sent() == [(600, "00001"), (660, "00002")]


def test_the_script_says_that_the_aws_cli_is_missing(machine: Machine, make_plan: Callable[..., SubmitPlan]) -> None:
    script = machine.export(make_plan(1))
    (machine.bin / "aws").unlink()
    done = machine.run(script)
    assert done.returncode == 1
    assert "stopped: the AWS CLI (aws) is not on the PATH" in done.stderr
