from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.cli.context import AppContext, Options
from fairshare.cli.submission import PreparedRun
from fairshare.cli.triggers import export_run, script_kind
from fairshare.model import FairshareError, JobRequest, UsageError
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.ports import Upload
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.triggers import ScriptKind
from fairshare.submit.waves import plan_waves


class Payloads:
    """Counts uploads."""

    def __init__(self) -> None:
        self.uploaded = 0

    def build(self, spec: Any) -> Any:
        raise AssertionError("an export builds nothing")

    def upload(self, uploads: Sequence[Upload]) -> int:
        self.uploaded += len(uploads)
        return len(uploads)


REQUEST = JobRequest("train-abc", "lab-train", "{}", "token", "HIGHPRI", 0)


def run_of(request: JobRequest) -> PreparedRun:
    job = PlannedJob(0, 1, request)
    identity = RunIdentity("night", 0, "us-west-2", "111122223333")
    upload = Upload("s3://bucket/train.py", b"x", "source train.py")
    return PreparedRun(SubmitPlan(identity, plan_waves(1, None, 0, 0), (job,), (upload,)), Payloads(), 0)


@pytest.fixture
def run() -> PreparedRun:
    return run_of(REQUEST)


@pytest.fixture
def context(tmp_path: Path) -> AppContext:
    made = AppContext(Options(), {}, tmp_path)
    made.session = SimpleNamespace(endpoint_url=None)  # type: ignore[assignment]
    return made


def test_the_folder_is_named_after_the_run(
    context: AppContext, run: PreparedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export_run(context, run, ScriptKind.BAT, None)
    folder = tmp_path / "triggers-night"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == [
        "requests/00001-train-abc.json",
        "submit.bat",
    ]
    captured = capsys.readouterr()
    assert captured.out == f"{folder / 'submit.bat'}: 1 job in 1 wave; 1 object uploaded, nothing sent\n"
    assert "It may be run again after anything; `fairshare runs` does not know what it sends." in captured.err


@pytest.mark.parametrize("retries", [None, 0, 3])
def test_a_job_of_a_quota_share_is_exported_as_it_would_be_sent(
    context: AppContext, tmp_path: Path, retries: int | None
) -> None:
    request = replace(REQUEST, share_identifier=None, quota_share="TEAMA", preemption_retries=retries)

    export_run(context, run_of(request), ScriptKind.SH, None)

    sent = json.loads((tmp_path / "triggers-night" / "requests" / "00001-train-abc.json").read_text())
    assert (sent["quotaShareName"], sent["schedulingPriority"]) == ("TEAMA", 0)
    assert "shareIdentifier" not in sent
    if retries is None:
        assert "preemptionConfiguration" not in sent, "queued again without limit"
    else:
        assert sent["preemptionConfiguration"] == {"preemptionRetriesBeforeTermination": retries}


def test_a_folder_in_use_is_refused_before_anything_is_uploaded(
    context: AppContext, run: PreparedRun, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"full is not an empty folder"):
        export_run(context, run, ScriptKind.SH, "full")
    with pytest.raises(UsageError, match=r"notes\.txt is not an empty folder"):
        export_run(context, run, ScriptKind.SH, "full/notes.txt")
    assert isinstance(run.payloads, Payloads)
    assert run.payloads.uploaded == 0
    (tmp_path / "empty").mkdir()
    export_run(context, run, ScriptKind.SH, "empty")


def test_a_folder_that_cannot_be_written_is_told(context: AppContext, run: PreparedRun, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FairshareError, match="cannot be written: Not a directory"):
        export_run(context, run, ScriptKind.SH, "file/below")


def test_kinds_of_scripts() -> None:
    assert script_kind(None, None) is None
    assert script_kind("sh", "out") is ScriptKind.SH
    assert script_kind("bat", None) is ScriptKind.BAT
    with pytest.raises(UsageError, match="--export-triggers ps1: there is no such script"):
        script_kind("ps1", None)
    with pytest.raises(UsageError, match="--out needs --export-triggers"):
        script_kind(None, "out")
