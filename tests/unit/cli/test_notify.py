"""``--notify`` of ``wait``: `submit` and `resume` tell through the same `Notifier`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.cli.notify import Notice, Notifier
from fairshare.model import JobDetail, JobRef, JobRequest, ServiceError
from fairshare.submit.dispatch import RunResult
from fairshare.submit.requests import PlannedJob

TOPIC = "arn:aws:sns:eu-west-1:111122223333:training"
TELL = """\
import json, os, sys
notice = json.load(sys.stdin)
notice["environment"] = {key: value for key, value in os.environ.items() if key.startswith("FAIRSHARE_")}
open("told.json", "w").write(json.dumps(notice))
print("told")
"""


class FakeSession:
    """A session whose only client is SNS."""

    account_id, region, endpoint_url, is_loopback, caller = "111122223333", "eu-west-1", None, False, None

    def __init__(self, refusal: Exception | None = None) -> None:
        self.published: list[dict[str, Any]] = []
        self._refusal = refusal

    def client(self, service: str) -> Any:
        assert service == "sns"
        return self

    def publish(self, **request: Any) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.published.append(request)


@pytest.fixture
def two_jobs(cli: Any, job: Callable[..., JobDetail]) -> None:
    jobs = [job(1, status="SUCCEEDED"), job(2, status="FAILED")]
    cli.batch.jobs = {found.job_id: found for found in jobs}


@pytest.fixture
def tell(project: Path) -> str:
    """A command that writes what it is told to ``told.json``."""
    (project / "tell.py").write_text(TELL)
    return f"cmd:{shlex.quote(sys.executable)} tell.py"


@pytest.mark.usefixtures("two_jobs")
def test_a_command_gets_everything_on_its_stdin(cli: Any, project: Path, tell: str) -> None:
    assert cli("wait", "train-1", "train-2", "--notify", tell, "-o", "json") == 3

    told = json.loads((project / "told.json").read_text())
    assert told.pop("environment").keys() >= {"FAIRSHARE_RUN_ID", "FAIRSHARE_FAILED_JOBS"}
    assert told == {
        "api_version": "fairshare/v1",
        "kind": "Notice",
        "command": "wait",
        "run_id": None,
        "event": "ended",
        "counts": {"succeeded": 1, "failed": 1, "unfinished": 0, "unknown": 0},
        "failed": ["train-2"],
        "seconds": 0,
        "text": "fairshare: 2 jobs ended: 1 succeeded, 1 failed\nfairshare wait took 0 s\nFailed: train-2",
    }
    assert json.loads(cli.out)["kind"] == "WaitResult"
    assert "told\n" in cli.err


@pytest.mark.usefixtures("two_jobs")
def test_a_topic_gets_subject_and_text(cli: Any) -> None:
    session = FakeSession()
    cli.more = {"session": session}

    assert cli("wait", "train-1", "--notify", f"sns:{TOPIC}") == 0

    assert session.published == [
        {
            "TopicArn": TOPIC,
            "Subject": "fairshare: 1 job ended: 1 succeeded",
            "Message": "fairshare: 1 job ended: 1 succeeded\nfairshare wait took 0 s",
        }
    ]


@pytest.mark.usefixtures("two_jobs")
@pytest.mark.parametrize(
    ("target", "warning"),
    [
        ("cmd:/no/such/program", "cannot run /no/such/program: No such file or directory"),
        ("cmd:sh -c 'exit 3'", "sh ended with exit code 3"),
        (f"sns:{TOPIC}", "Cannot publish: throttled"),
    ],
)
def test_a_message_that_cannot_be_delivered_changes_nothing(cli: Any, target: str, warning: str) -> None:
    cli.more = {"session": FakeSession(ServiceError("Cannot publish: throttled"))}

    assert cli("wait", "train-1", "--notify", target) == 0
    assert f"warning: not notified: {warning}\n" in cli.err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mail:me", "--notify mail:me: where to?\n  write sns:ARN of a topic, or cmd:COMMAND"),
        ("cmd:", "--notify cmd:: where to?"),
        ("cmd:sh 'x", "--notify cmd:sh 'x: No closing quotation"),
        ("sns:training", '"training" is not the ARN of an SNS topic'),
        ("", "--notify : where to?"),
    ],
)
def test_c46_where_to_is_checked_before_anything_is_done(cli: Any, target: str, message: str) -> None:
    assert cli("wait", "train-1", "--notify", target) == 2
    assert f"error: {message}" in cli.err
    assert cli.batch.listed == []


def test_many_names_are_counted() -> None:
    names = tuple(f"job-{number}" for number in range(12))
    notice = Notice("submit", "lunar-otter", {"succeeded": 3, "failed": 12}, names, 3_723_000, "ended")

    assert notice.text.splitlines() == [
        "fairshare: run lunar-otter ended: 3 succeeded, 12 failed",
        "fairshare submit took 1 h 2 min",
        "Failed: job-0, job-1, job-2, job-3, job-4, job-5, job-6, job-7, job-8, job-9 and 2 more",
    ]


def test_what_was_sent_is_told_without_waiting(cli: Any, project: Path, tell: str) -> None:
    jobs = [PlannedJob(index, 1, JobRequest(f"job-{index}", "gpu", "{}", "token")) for index in range(3)]
    result = RunResult(
        "lunar-otter", sent=((jobs[0], JobRef("1", "", "job-0")),), refused=((jobs[1], "no"),), left=(jobs[2],)
    )

    Notifier(cli.context(), "submit", tell).tell_result(result)

    told = json.loads((project / "told.json").read_text())
    assert (told["event"], told["run_id"], told["failed"]) == ("sent", "lunar-otter", ["job-1"])
    assert told["counts"] == {"submitted": 1, "refused": 1, "skipped": 0, "not sent": 1}
    assert told["text"].startswith("fairshare: run lunar-otter sent: 1 submitted, 1 refused, 1 not sent\n")
    assert told["environment"]["FAIRSHARE_RUN_ID"] == "lunar-otter"


def test_waiting_that_was_given_up_does_not_claim_an_end(cli: Any, job: Callable[..., JobDetail]) -> None:
    running = job(3, status="RUNNING")
    cli.batch.jobs = {running.job_id: running}
    session = FakeSession()
    cli.more = {"session": session}

    assert cli("wait", "train-3", "--timeout", "5m", "--notify", f"sns:{TOPIC}") == 8

    (message,) = session.published
    assert message["Message"] == "fairshare: 1 job unfinished: 1 unfinished\nfairshare wait took 5 min"
