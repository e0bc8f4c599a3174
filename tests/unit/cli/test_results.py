"""``fairshare results`` on journals, a Batch and a SageMaker as they may be found."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.model import CredentialsError, JobAttempt, JobDetail, JobRef, JobRequest, NotFoundError
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.outcomes import Training
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

NOW = 1_796_061_600_000
LR = (0.1, 0.01, 0.001)
CROSS_SHARE = "Cross-share preemption triggered to reclaim borrowed capacity"


class FakeSageMaker:
    def __init__(self, known: Mapping[str, Training]) -> None:
        self.known = dict(known)
        self.asked: list[str] = []
        self.refusal: Exception | None = None

    def describe(self, names: Collection[str]) -> dict[str, Training]:
        self.asked += names
        if self.refusal is not None:
            raise self.refusal
        return {name: self.known[name] for name in names if name in self.known}


class FakeStore:
    """S3, as far as downloads go."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self._bodies = bodies

    def download(self, uri: str, path: Path) -> None:
        if uri not in self._bodies:
            raise NotFoundError(f"Cannot download {uri}: Not Found", hint="Check the name.")
        path.write_bytes(self._bodies[uri])


def archive(text: str) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as tar:
        info = tarfile.TarInfo("model.txt")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
    return body.getvalue()


def uri(number: int) -> str:
    return f"s3://models/AWSBatch{number}/output/model.tar.gz"


@pytest.fixture
def sagemaker(cli: Any) -> FakeSageMaker:
    """SageMaker knows three training jobs, S3 the models of two."""
    known = {
        f"AWSBatch{number}": Training({"accuracy": number / 10, "loss": 1 - number / 10}, 60, 45, uri(number))
        for number in (1, 2, 3)
    }
    sagemaker = FakeSageMaker(known)
    store = FakeStore({uri(1): archive("first"), uri(2): archive("second")})
    cli.more = {"training_jobs": sagemaker, "objects": store}
    return sagemaker


@pytest.fixture
def run(cli: Any, project: Path, job: Callable[..., JobDetail], sagemaker: FakeSageMaker) -> list[JobDetail]:
    """Run ``lunar-otter``: a sweep of three that succeeded, and one job that was not sent."""
    jobs = []
    for number in (1, 2, 3):
        attempts = (JobAttempt(f"AWSBatch{number}"),) * number
        ended = {"status": "SUCCEEDED", "started_at": NOW, "stopped_at": NOW + 60_000, "attempts": attempts}
        jobs.append(job(number, training_job_name=f"AWSBatch{number}", **ended))
    cli.batch.jobs = {found.job_id: found for found in jobs}
    payloads = [json.dumps({"HyperParameters": {"epochs": "5", "lr": str(lr)}}) for lr in (*LR, 1)]
    names = [*(found.job_name for found in jobs), "unsent"]
    planned = [
        PlannedJob(index, 1, JobRequest(name, "search-gpu", payload, f"token-{name}"))
        for index, (name, payload) in enumerate(zip(names, payloads, strict=True))
    ]
    with Journal.create(project / "state" / "runs", "lunar-otter", Holder("fairshare submit", 0)) as journal:
        journal.begin(RunIdentity("lunar-otter", 0, "eu-west-1", "111122223333"), [Wave(1, 0, 0, 4)], planned)
        for index, found in enumerate(jobs):
            journal.intend([planned[index]], 0)
            journal.sent(index, JobRef(found.job_id, found.job_arn, found.job_name), 0)
    return jobs


def rows(cli: Any) -> list[list[str]]:
    return [line.split() for line in cli.out.splitlines()]


@pytest.mark.usefixtures("run")
def test_a_table_over_what_the_sweep_varied(cli: Any) -> None:
    assert cli("results", "lunar") == 0

    titles, first, second, _, unsent = rows(cli)
    assert titles == ["JOB", "STATUS", "lr", "accuracy", "loss", "TRAINED", "BILLED", "TRIES", "MODEL"]
    assert first == ["train-1", "SUCCEEDED", "0.1", "0.1", "0.9", "1", "min", "45", "s", "1", uri(1)]
    assert second[2:5] == ["0.01", "0.2", "0.8"]
    assert unsent == ["unsent", "NOT_SENT", "1", "-", "-", "-", "-", "-", "-"]
    assert cli.err == "Next: fairshare resume lunar-otter\n"


@pytest.mark.usefixtures("run")
def test_the_document(cli: Any) -> None:
    assert cli("results", "lunar-otter", "-o", "json") == 0

    document = json.loads(cli.out)
    assert (document["kind"], document["api_version"]) == ("Results", "fairshare/v1")
    assert (document["run_id"], document["parameters"]) == ("lunar-otter", ["lr"])
    assert document["metrics"] == ["accuracy", "loss"]
    third = document["jobs"][2]
    assert {key: third[key] for key in list(third)[:8]} == {
        "job_name": "train-3",
        "status": "SUCCEEDED",
        "parameters": {"lr": 0.001},
        "metrics": {"accuracy": 0.3, "loss": 0.7},
        "training_seconds": 60,
        "billable_seconds": 45,
        "attempts": 3,
        "model_artifacts": uri(3),
    }
    assert document["jobs"][3]["metrics"] == {"accuracy": None, "loss": None}


@pytest.mark.usefixtures("run")
def test_csv_has_a_column_for_each_parameter_and_metric(cli: Any) -> None:
    assert cli("results", "lunar-otter", "-o", "csv") == 0

    assert cli.out.splitlines()[:2] == [
        "job_name,status,lr,accuracy,loss,training_seconds,billable_seconds,attempts,model_artifacts,job_id,"
        "training_job_name,reason,preemptions,preemption_reason,not_known",
        f"train-1,SUCCEEDED,0.1,0.1,0.9,60,45,1,{uri(1)},00000001-0000-4000-8000-000000000000,AWSBatch1,,0,,",
    ]


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--sort", "accuracy"), ["train-3", "train-2", "train-1", "unsent"]),
        (("--sort", "loss", "--lowest-first", "--best", "1"), ["train-3"]),
        (("--sort", "lr", "--best", "2"), ["unsent", "train-1"]),
    ],
)
def test_sorted_and_the_best_only(cli: Any, flags: tuple[str, ...], names: list[str]) -> None:
    assert cli("results", "lunar-otter", *flags, "-o", "name") == 0
    assert cli.out.split() == names


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--best", "1"), 2, "--best of what? Run lunar-otter: it has accuracy, loss\n  add --sort NAME"),
        (("--lowest-first",), 2, "--lowest-first of what?"),
        (("--best", "0"), 2, "--best 0 is less than 1"),
        (("--force",), 2, "--force is for --get"),
        (("--sort", "acuracy"), 4, 'has no metric or parameter "acuracy"\n  did you mean accuracy?'),
    ],
)
def test_what_cannot_be_shown(cli: Any, flags: tuple[str, ...], code: int, message: str) -> None:
    assert cli("results", "lunar-otter", *flags) == code
    assert message in cli.err


def test_c29_a_run_of_last_month_is_shown_from_its_journal_alone(
    cli: Any, run: list[JobDetail], sagemaker: FakeSageMaker
) -> None:
    cli("results", "lunar-otter", "-o", "json")
    before = cli.out
    cli.batch.jobs.clear()
    sagemaker.known.clear()
    sagemaker.asked.clear()
    sagemaker.refusal = AssertionError("nobody is to be asked")

    assert cli("results", "lunar-otter", "-o", "json") == 0

    assert cli.out == before
    assert sagemaker.asked == []


def test_c29_what_nobody_knows_any_more_is_said(cli: Any, run: list[JobDetail], sagemaker: FakeSageMaker) -> None:
    del cli.batch.jobs[run[0].job_id]
    del sagemaker.known["AWSBatch2"]

    assert cli("results", "lunar-otter") == 0

    assert [row[1] for row in rows(cli)[1:]] == ["UNKNOWN", "SUCCEEDED", "SUCCEEDED", "NOT_SENT"]
    assert "2 jobs: no longer known: status, metrics, training_seconds, billable_seconds, attempts" in cli.err


@pytest.mark.usefixtures("run")
def test_aws_that_cannot_be_asked_is_a_warning(cli: Any, sagemaker: FakeSageMaker) -> None:
    sagemaker.refusal = CredentialsError("Cannot describe training job: not authorized", hint="Ask for it.")

    assert cli("results", "lunar-otter") == 0

    assert [row[1] for row in rows(cli)[1:]] == ["SUCCEEDED"] * 3 + ["NOT_SENT"]
    warning = "warning: shown is what this machine knows of the run: Cannot describe training job: not authorized"
    assert cli.err.startswith(f"{warning}\n  Ask for it.\n")


def test_failed_jobs_say_why(cli: Any, run: list[JobDetail]) -> None:
    reason = "AlgorithmError: exit code: 1\nLast log lines:\n  oops"
    cli.batch.jobs[run[1].job_id] = replace(run[1], status="FAILED", status_reason=reason)

    assert cli("results", "lunar-otter") == 0

    assert "train-2  FAILED  AlgorithmError: exit code: 1\n" in cli.err


def preempt(cli: Any, job: JobDetail, times: int, reason: str | None = CROSS_SHARE, **changes: Any) -> None:
    attempts = (JobAttempt("AWSBatchlost", status_reason=reason),)
    cli.batch.jobs[job.job_id] = replace(job, preemptions=times, preempted_attempts=attempts, **changes)


def test_preempted_jobs_say_how_often_and_why_the_last_time(cli: Any, run: list[JobDetail]) -> None:
    preempt(cli, run[0], 2)
    preempt(cli, run[1], 1, status="RUNNING", stopped_at=None)

    assert cli("results", "lunar-otter") == 0

    assert rows(cli)[0][-3:] == ["TRIES", "PREEMPTED", "MODEL"]
    assert [row[-2] for row in rows(cli)[1:]] == ["2", "1", "0", "-"]
    assert f"2 jobs preempted, lately: {CROSS_SHARE}\n" in cli.err


def test_preemptions_are_in_the_document_also_when_batch_has_forgotten_them(cli: Any, run: list[JobDetail]) -> None:
    preempt(cli, run[0], 2)
    preempt(cli, run[2], 11, reason=None)
    for _ in range(2):
        assert cli("results", "lunar-otter", "-o", "json") == 0
        found = [(job["preemptions"], job["preemption_reason"]) for job in json.loads(cli.out)["jobs"]]
        assert found == [(2, CROSS_SHARE), (0, None), (11, None), (None, None)]
        assert cli.err == ""
        cli.batch.jobs.clear()


@pytest.mark.usefixtures("run")
def test_models_are_downloaded_and_unpacked(cli: Any, project: Path) -> None:
    flags = ("--sort", "accuracy", "--lowest-first", "--best", "2", "--get", "models")

    assert cli("results", "lunar-otter", *flags, "-o", "json") == 0

    folders = [project / "models" / f"train-{number}" for number in (1, 2)]
    assert [(folder / "model.txt").read_text() for folder in folders] == ["first", "second"]
    assert [job["directory"] for job in json.loads(cli.out)["jobs"]] == [str(folder) for folder in folders]
    assert cli.err == f"{folders[0]}\n{folders[1]}\n"
    assert cli("results", "lunar-otter", *flags) == 0
    assert f"{folders[0]}  is there already (--force replaces it)\n" in cli.err


@pytest.mark.usefixtures("run")
def test_a_model_that_is_not_there_does_not_keep_the_others_away(cli: Any, project: Path) -> None:
    assert cli("results", "lunar-otter", "--get", "models") == 3

    assert sorted(path.name for path in (project / "models").iterdir() if path.name[0] != ".") == ["train-1", "train-2"]
    assert f"error: not every model could be fetched\ntrain-3: Cannot download {uri(3)}: Not Found" in cli.err


def test_a_run_nobody_knows(cli: Any) -> None:
    assert cli("results", "solar-badger") == 4
    assert 'no run goes by "solar-badger"' in cli.err
