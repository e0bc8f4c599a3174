import json
from dataclasses import replace

import pytest


@pytest.fixture
def running(cli, job):
    """A job that runs as ``AWSBatchtrain`` and has printed two lines."""
    found = job(1, status="RUNNING", training_job_name="AWSBatchtrain", started_at=0)
    cli.batch.jobs = {found.job_id: found}
    cli.logs.add("AWSBatchtrain", "epoch 1\n", "epoch 2")
    return found


def become(cli, job, **changes):
    cli.batch.jobs[job.job_id] = replace(cli.batch.jobs[job.job_id], **changes)


def test_lines_go_to_stdout(cli, running):
    assert cli("logs", "train-1") == 0
    assert cli.out == "epoch 1\nepoch 2\n"
    assert cli.err == "Next: fairshare job train-1\n"


def test_lines_as_json(cli, running):
    assert cli("logs", "train-1", "-o", "json") == 0

    log = json.loads(cli.out)
    assert (log["kind"], log["training_job_name"]) == ("Log", "AWSBatchtrain")
    assert log["lines"][1] == {
        "timestamp": "2026-11-30T18:00:00.000Z",
        "stream": "AWSBatchtrain/algo-1-1796061600",
        "message": "epoch 2",
    }


def test_c47_a_log_line_cannot_forge_a_link_or_overwrite_a_row(cli, running):
    cli.logs.lines.clear()
    cli.logs.add("AWSBatchtrain", "\x1b]8;;http://evil\x07ok\x1b]8;;\x07", "loss 0.1\rFAKE", "a\tb", "")

    cli("logs", "train-1")

    assert cli.out.splitlines() == ["\\x1b]8;;http://evil\\x07ok\\x1b]8;;\\x07", "loss 0.1\\rFAKE", "a\tb", ""]


def test_a_job_without_a_training_job_says_so(cli, job):
    waiting = job(1)
    cli.batch.jobs = {waiting.job_id: waiting}

    assert cli("logs", "train-1") == 0
    assert cli.out == ""
    assert cli.err.startswith("train-1 has no log yet: it is RUNNABLE. `fairshare logs train-1 -f` waits for it.\n")
    assert cli("logs", "train-1", "-o", "json") == 0
    assert json.loads(cli.out)["lines"] == []


def test_a_job_that_printed_nothing_says_so(cli, running):
    cli.logs.lines.clear()

    assert cli("logs", "train-1") == 0
    assert (cli.out, cli.err.splitlines()[0]) == ("", "train-1 is RUNNING and has printed nothing")


def test_a_job_that_never_started_tells_its_reason(cli, job):
    failed = job(1, status="FAILED", status_reason="ended by fairshare cancel")
    cli.batch.jobs = {failed.job_id: failed}

    cli("logs", "train-1")

    assert cli.err.startswith("train-1 never started, so there is no log: ended by fairshare cancel\n")


def test_following_waits_for_the_job_to_start_and_to_end(cli, job):
    waiting = job(1)
    cli.batch.jobs = {waiting.job_id: waiting}
    cli.logs.add("AWSBatchtrain", "epoch 1")
    steps = iter([{"status": "SCHEDULED"}, {"status": "RUNNING", "training_job_name": "AWSBatchtrain"}])
    cli.clock.on_sleep = lambda: become(cli, waiting, **next(steps))
    follow = cli.logs.follow

    def follow_and_end(name, is_done, clock):
        yield from follow(name, lambda: become(cli, waiting, status="SUCCEEDED") or is_done(), clock)

    cli.logs.follow = follow_and_end

    assert cli("logs", "train-1", "-f") == 0
    assert cli.out == "epoch 1\n"
    assert cli.err.splitlines()[:2] == ["train-1 is RUNNABLE; waiting for it to start", "train-1 SUCCEEDED"]


def test_following_goes_on_with_the_next_attempt(cli, running):
    cli.logs.add("AWSBatchagain", "second attempt")
    steps = iter([{"training_job_name": "AWSBatchagain"}, {"status": "FAILED", "status_reason": "exit code: 1"}])
    follow = cli.logs.follow

    def follow_and_step(name, is_done, clock):
        yield from follow(name, lambda: become(cli, running, **next(steps)) or is_done(), clock)

    cli.logs.follow = follow_and_step

    assert cli("logs", "train-1", "-f") == 0
    assert cli.out == "epoch 1\nepoch 2\nsecond attempt\n"
    assert "train-1 FAILED: exit code: 1" in cli.err


def test_following_as_json_is_one_object_a_line(cli, running):
    become(cli, running, status="SUCCEEDED")

    assert cli("logs", "train-1", "-f", "-o", "json") == 0
    assert [json.loads(line)["message"] for line in cli.out.splitlines()] == ["epoch 1\n", "epoch 2"]


def test_following_a_job_that_never_starts_ends(cli, job):
    failed = job(1, status="FAILED")
    cli.batch.jobs = {failed.job_id: failed}

    assert cli("logs", "train-1", "-f") == 0
    assert "never started" in cli.err


def test_followed_lines_cannot_be_csv(cli, running):
    assert cli("logs", "train-1", "-f", "-o", "csv") == 2
    assert cli.err == "error: lines that are followed cannot be printed as csv\n  use -o json\n"


def test_lines_of_a_second_host_are_marked(cli, running):
    cli.logs.add("AWSBatchtrain", "hello", host="algo-2")

    cli("logs", "train-1")

    assert cli.out == "epoch 1\nepoch 2\nalgo-2 | hello\n"


def test_the_project_file_has_only_its_long_flag_here(cli, running, project):
    assert cli("logs", "train-1", "--file", str(project / "fairshare.yaml")) == 0
