import csv
import io
import json

import pytest

from fairshare.cli.main import run


def document(cli):
    return json.loads(cli.out)


def test_the_contract_of_queue_all_as_json(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1), job(2, status="SUCCEEDED")]}

    assert cli("queue", "--all", "-o", "json") == 0

    listed = document(cli)
    assert (listed["api_version"], listed["kind"], len(listed["jobs"])) == ("fairshare/v1", "JobList", 2)
    first = listed["jobs"][0]
    assert {name: first[name] for name in ("job_id", "job_name", "status", "share_identifier", "created_at")} == {
        "job_id": "00000001-0000-4000-8000-000000000000",
        "job_name": "train-1",
        "status": "RUNNABLE",
        "share_identifier": "HIGHPRI",
        "created_at": "2026-11-30T17:59:00.000Z",
    }
    assert first["scheduling_priority"] == 80
    assert cli.err == ""


def test_without_all_ended_jobs_are_left_out(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1), job(2, status="SUCCEEDED")]}

    cli("queue", "-o", "name")

    assert cli.out == "00000001-0000-4000-8000-000000000000\n"


def test_csv_has_one_row_per_job(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1), job(2)]}

    cli("queue", "-o", "csv")

    rows = list(csv.DictReader(io.StringIO(cli.out)))
    assert [row["job_name"] for row in rows] == ["train-2", "train-1"]
    assert rows[0]["position"] == "1"


def test_one_share_is_shown_with_the_numbers_of_the_whole_queue(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1), job(2, share_identifier="LOWPRI")]}

    cli("queue", "--share", "LOWPRI")

    assert "train-2" in cli.out
    assert "train-1" not in cli.out
    assert "2 jobs waiting for 2 instances" in cli.out


def test_c08_priority_zero_is_shown_as_zero(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1, scheduling_priority=0)]}

    cli("queue", "-o", "json")

    assert document(cli)["jobs"][0]["scheduling_priority"] == 0


def test_c47_names_and_shares_of_others_are_shown_as_text_and_aligned(cli, job):
    jobs = [job(1, job_name="模型-训练", share_identifier="LOW\u202e"), job(2, job_name="\x1b[2J\rFAKE")]
    cli.batch.jobs = {j.job_id: j for j in jobs}

    cli("queue")

    assert cli.out.splitlines()[1:3] == [
        "1  \\x1b[2J\\rFAKE  HIGHPRI     80  RUNNABLE     1  2 min   -",
        "2  模型-训练      LOW\\u202e   80  RUNNABLE     1  1 min   -",
    ]
    assert "\x1b" not in cli.out


def test_an_empty_queue_says_so(cli):
    assert cli("queue") == 0
    assert cli.out == "No jobs in queue search-gpu.\n0 of 16 instances in use by 0 jobs.\n"
    assert cli.err == "Next: fairshare queue --all\n"


def test_a_queue_of_others_has_no_known_capacity(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1, status="RUNNING", instances=4)]}

    cli("queue", "-q", "theirs")

    assert cli.out.splitlines()[-1] == "4 instances in use by 1 job."
    assert cli.batch.listed == ["theirs"]


def test_shares_as_json(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1, status="RUNNING", instances=4), job(2)]}

    assert cli("shares", "-o", "json") == 0

    table = document(cli)
    assert (table["kind"], table["queue"], table["capacity"], table["instances_in_use"]) == (
        "ShareList",
        "search-gpu",
        16,
        4,
    )
    assert table["shares"][0] == {
        "share_identifier": "HIGHPRI",
        "weight_factor": "1",
        "policy_entry": "HIGHPRI",
        "target_percent": 65.22,
        "active_target_percent": 100.0,
        "instances_in_use": 4,
        "runnable": 1,
        "oldest_wait_seconds": 120,
        "standing": "at its due",
    }


def test_a_fifo_queue_has_no_shares(cli):
    assert cli("shares", "-q", "fifo") == 2
    assert cli.err == (
        "error: queue fifo has no fair-share policy, so it has no shares\n"
        "  `fairshare queue -q fifo` shows its jobs, first in first out\n"
    )


def test_shares_of_a_queue_that_is_not_there(cli):
    assert cli("shares", "-q", "gone") == 4
    assert "there is no job queue gone" in cli.err


@pytest.mark.parametrize(
    "text", ["train-1", "00000001", "arn:aws:batch:r:1:service-job/00000001-0000-4000-8000-000000000000"]
)
def test_a_job_goes_by_name_prefix_or_arn(cli, job, text):
    cli.batch.jobs = {j.job_id: j for j in [job(1), job(2)]}

    assert cli("job", text, "-o", "json") == 0

    assert (document(cli)["kind"], document(cli)["job_name"]) == ("Job", "train-1")


def test_an_ambiguous_job_lists_the_matches(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1), job(2)]}

    assert cli("job", "0000") == 2
    assert "'0000' fits 2 jobs:" in cli.err
    assert "  00000002-0000-4000-8000-000000000000  train-2  RUNNABLE" in cli.err


def test_an_unknown_job_is_exit_code_4_in_json_too(cli):
    assert cli("job", "nothing", "-o", "json") == 4
    assert document(cli)["error"]["code"] == "NotFound"


def test_c31_a_job_somebody_stopped_is_failed_with_its_reason(cli, job):
    stopped = job(1, status="FAILED", status_reason="Received status from SageMaker: Stopped", is_terminated=True)
    cli.batch.jobs = {stopped.job_id: stopped}

    cli("job", "train-1")

    assert cli.out.startswith("train-1  FAILED (ended by request)\n")
    assert "reason        Received status from SageMaker: Stopped" in cli.out


def test_c46_the_payload_with_its_secrets_is_not_shown(cli, job):
    secret = {"Environment": {"HF_TOKEN": "hf_secret"}, "ResourceConfig": {"InstanceType": "ml.x", "InstanceCount": 1}}
    cli.batch.jobs = {j.job_id: j for j in [job(1, payload=secret)]}

    for format in ("table", "json", "yaml"):
        cli("job", "train-1", "-o", format)
        assert "hf_secret" not in cli.out


def test_c47_a_reason_cannot_clear_the_screen(cli, job):
    cli.batch.jobs = {j.job_id: j for j in [job(1, status_reason="ok\x1b[2J\rFAKE")]}

    cli("job", "train-1")

    assert "ok\\x1b[2J\\rFAKE" in cli.out


def test_the_commands_are_documented_under_their_own_name(capsys):
    assert run(["job", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: fairshare job [OPTIONS] {JOB}")
