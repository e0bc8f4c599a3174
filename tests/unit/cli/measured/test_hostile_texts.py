"""Case C47 on the screens of metrics, efficiency, comparison, cost and results: names, reasons and log lines of others.

Every screen is looked at as a whole: whatever a table, a sentence or a remark holds, no character moves the cursor.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.model import JobDetail, JobRef, JobRequest
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

ESCAPES = "\x1b[2J\rFAKE\x1b]8;;http://x\x07\u202e"
NAME = f"bert{ESCAPES}漢字"
SHOWN = "\\x1b[2J\\rFAKE\\x1b]8;;http://x\\x07\\u202e"


def moves_the_cursor(text: str) -> set[str]:
    """Control and format characters in a text, except for the ends of its lines."""
    return {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} and char != "\n"}


class NoTrainingJobs:
    """A SageMaker that has forgotten all."""

    def describe(self, names: object) -> dict[str, object]:
        return {}


@pytest.fixture
def hostile(measured: Any, project: Path) -> Any:
    """Two jobs whose names, share, reason and log are not meant well; both were starved and spilled."""
    with (project / "fairshare.yaml").open("a") as file:
        file.write("prices: {ml.g6.12xlarge: 5.75, currency: USD}\n")
    jobs = [measured.add_job(number, NAME, gpu=[5.0, 70.0, 60.0, 10.0] * 15, cpu=[97.0] * 60) for number in (1, 2)]
    measured.cli.more["training_jobs"] = NoTrainingJobs()
    batch: dict[str, JobDetail] = measured.cli.batch.jobs
    for job in jobs:
        batch[job.job_id] = replace(job, share_identifier=f"LOW{ESCAPES}", status_reason=f"ok{ESCAPES}")
        measured.cli.logs.add(job.training_job_name, f"(raylet) Spilled 12345 MiB, 8 objects {ESCAPES}")
    return measured


@pytest.mark.parametrize(
    "command",
    [
        ("metrics", "00000001"),
        ("metrics", "--share", f"LOW{ESCAPES}"),
        ("efficiency", "00000001"),
        ("efficiency", "--share", f"LOW{ESCAPES}"),
        ("compare", "00000001", "00000002"),
        ("cost", "00000001"),
        ("cost",),
    ],
    ids=" ".join,
)
def test_c47_no_screen_lets_a_text_of_others_through(hostile: Any, command: tuple[str, ...]) -> None:
    code = hostile(*command)

    assert code in (0, 3), hostile.err
    assert moves_the_cursor(hostile.out) == set()
    assert moves_the_cursor(hostile.err) == set()
    assert SHOWN in hostile.out + hostile.err


@pytest.mark.parametrize("command", ["metrics", "efficiency", "cost"])
def test_c47_json_keeps_what_others_wrote_escaped(hostile: Any, command: str) -> None:
    assert hostile(command, "00000001", "-o", "json") in (0, 3)
    assert moves_the_cursor(hostile.out) == set()
    assert "bert\\u001b[2J\\rFAKE" in hostile.out


def test_c47_csv_is_safe_to_look_at(hostile: Any) -> None:
    hostile("efficiency", "--share", f"LOW{ESCAPES}", "-o", "csv")

    assert moves_the_cursor(hostile.out) == set()


def test_c47_results_show_parameters_metrics_and_jobs_as_text(cli: Any, project: Path, job: Any) -> None:
    found = job(1, job_name=NAME, status="FAILED", status_reason=f"no{ESCAPES}", stopped_at=1_796_061_600_000)
    cli.batch.jobs = {found.job_id: found}
    payload = json.dumps({"HyperParameters": {f"lr{ESCAPES}": f"0.1{ESCAPES}"}})
    planned = PlannedJob(0, 1, JobRequest(NAME, "search-gpu", payload, "token"))
    with Journal.create(project / "state" / "runs", "lunar-otter", Holder("fairshare submit", 0)) as journal:
        journal.begin(RunIdentity("lunar-otter", 0, "eu-west-1", "111122223333"), [Wave(1, 0, 0, 1)], [planned])
        journal.intend([planned], 0)
        journal.sent(0, JobRef(found.job_id, found.job_arn, found.job_name), 0)

    assert cli("results", "lunar-otter") == 0
    assert moves_the_cursor(cli.out + cli.err) == set()
    assert f"bert{SHOWN}" in cli.out
