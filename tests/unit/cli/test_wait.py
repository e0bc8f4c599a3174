import json
from dataclasses import replace

import pytest

from fairshare.model import JobAttempt, JobRef, JobRequest
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

CROSS_SHARE = "Cross-share preemption triggered to reclaim borrowed capacity"


@pytest.fixture
def with_jobs(cli, job):
    """Put jobs in the queue and return them."""

    def put(*statuses, **changes):
        jobs = [job(number, status=status, **changes) for number, status in enumerate(statuses, start=1)]
        cli.batch.jobs = {found.job_id: found for found in jobs}
        return jobs

    return put


def journal_run(project, jobs, *, unsent=0, region="eu-west-1"):
    """Write the journal of run ``lunar-otter``: these jobs sent, some not."""
    runs = project / "state" / "runs"
    requests = [JobRequest(job.job_name, "search-gpu", "{}", f"token-{job.job_name}", "HIGHPRI", 0) for job in jobs]
    requests += [JobRequest(f"unsent-{number}", "search-gpu", "{}", f"u{number}") for number in range(unsent)]
    planned = [PlannedJob(index, 1, request) for index, request in enumerate(requests)]
    with Journal.create(runs, "lunar-otter", Holder("fairshare submit", 0)) as journal:
        journal.begin(RunIdentity("lunar-otter", 0, region, "111122223333"), [Wave(1, 0, 0, len(planned))], planned)
        for index, job in enumerate(jobs):
            journal.intend([planned[index]], 0)
            journal.sent(index, JobRef(job.job_id, job.job_arn, job.job_name), 0)


def test_wait_for_one_job_tells_changes_and_ends_with_its_result(cli, with_jobs):
    (job,) = with_jobs("RUNNABLE")
    steps = iter(["RUNNING", "SUCCEEDED"])
    cli.clock.on_sleep = lambda: cli.batch.jobs.update({job.job_id: replace(job, status=next(steps))})

    assert cli("wait", "train-1") == 0
    assert cli.err == "train-1  RUNNABLE\ntrain-1  RUNNING\ntrain-1  SUCCEEDED\nNext: fairshare queue --all\n"
    assert cli.out.splitlines()[-1] == "1 job: 1 succeeded."


@pytest.mark.parametrize(
    ("statuses", "code"), [(["SUCCEEDED"], 0), (["FAILED"], 1), (["FAILED", "SUCCEEDED"], 3), (["RUNNING"], 8)]
)
def test_exit_codes(cli, with_jobs, statuses, code):
    jobs = with_jobs(*statuses)

    assert cli("wait", *[job.job_name for job in jobs], "--timeout", "5m", "-o", "json") == code
    assert json.loads(cli.out)["exit_code"] == code


def test_c08_timeout_zero_looks_once(cli, with_jobs, now):
    with_jobs("RUNNING")

    assert cli("wait", "train-1", "--timeout", "0") == 8
    assert cli.clock.now() == now


def test_c29_a_job_that_is_not_there_yet_is_waited_for(cli, job):
    new = job(7, status="SUCCEEDED")
    looks = iter([{}, {new.job_id: new}])
    cli.clock.on_sleep = lambda: setattr(cli.batch, "jobs", next(looks))

    assert cli("wait", new.job_id) == 0


def test_c29_a_job_of_nine_days_ago_is_unknown_not_succeeded(cli, job):
    gone = job(7)

    assert cli("wait", gone.job_id, "-o", "json") == 4

    (found,) = json.loads(cli.out)["jobs"]
    assert (found["outcome"], found["job_id"]) == ("UNKNOWN", gone.job_id)
    assert cli("wait", gone.job_id) == 4
    assert "UNKNOWN" in cli.out
    assert "no longer kept by Batch, last known as sent" in cli.out


def test_wait_for_a_run_of_the_journal(cli, with_jobs, project):
    jobs = with_jobs("SUCCEEDED", "FAILED", status_reason="AlgorithmError: exit code: 1")
    journal_run(project, jobs)

    assert cli("wait", "--run", "lunar") == 3
    assert "train-2  FAILED   " in cli.out
    assert cli.out.splitlines()[-1] == "2 jobs: 1 succeeded, 1 failed."
    assert cli.err.endswith("Next: fairshare logs train-2\n")


def test_jobs_of_a_run_that_were_not_sent_are_mentioned(cli, with_jobs, project):
    journal_run(project, with_jobs("SUCCEEDED"), unsent=2)

    assert cli("wait", "--run", "lunar-otter") == 0
    assert "warning: 2 jobs of run lunar-otter not sent" in cli.err


def test_c18_a_run_of_another_region_is_not_looked_for_here(cli, with_jobs, project):
    journal_run(project, with_jobs("SUCCEEDED"), region="us-west-2")

    assert cli("wait", "--run", "lunar-otter") == 2
    assert cli.err == ("error: run lunar-otter was sent to us-west-2, not eu-west-1\n  add --region us-west-2\n")


def test_a_run_nobody_knows(cli):
    assert cli("wait", "--run", "solar-badger") == 4
    assert "solar-badger" in cli.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [((), "name jobs, or a run with --run"), (("train-1", "--run", "lunar"), "name jobs or a run, not both")],
)
def test_what_to_wait_for_must_be_said_once(cli, argv, message):
    assert cli("wait", *argv) == 2
    assert cli.err.startswith(f"error: {message}\n")


def test_c28_a_timeout_that_cannot_be_read_is_never_no_timeout(cli):
    assert cli("wait", "train-1", "--timeout", "1:30") == 2
    assert cli.err.startswith('error: --timeout: "1:30" is not a duration')


def test_ctrl_c_stops_waiting_not_the_jobs(cli, with_jobs):
    with_jobs("RUNNING")

    def interrupt():
        raise KeyboardInterrupt

    cli.clock.on_sleep = interrupt

    assert cli("wait", "train-1") == 130
    assert cli.err.endswith("stopped waiting; the jobs go on\n  `fairshare wait train-1` waits again\n")
    assert cli.batch.terminated == []


@pytest.mark.parametrize("argv", [("--run", "lunar-otter"), ("train-1", "train-2")])
def test_how_jobs_ended_is_kept_in_the_journal_of_their_run(cli, with_jobs, project, argv):
    reason = "AlgorithmError: exit code: 1"
    jobs = with_jobs("SUCCEEDED", "FAILED", status_reason=reason, started_at=5, training_job_name="AWSBatchx")
    journal_run(project, jobs)

    assert cli("wait", *argv) == 3

    kept = read_run(project / "state" / "runs" / "lunar-otter.jsonl").jobs
    assert [job.status for job in kept] == ["SUCCEEDED", "FAILED"]
    assert (kept[1].reason, kept[1].started_at, kept[1].training_job_name) == (reason, 5, "AWSBatchx")


def preempted(job, times, **changes):
    attempts = (JobAttempt("AWSBatch1", status_reason=CROSS_SHARE),)
    return replace(job, preemptions=times, preempted_attempts=attempts, **changes)


def test_a_preemption_is_told_once_and_shown_at_the_end(cli, with_jobs):
    (job,) = with_jobs("RUNNING", share_identifier=None, quota_share="TEAMA")
    steps = iter(
        [
            preempted(job, 1, status="RUNNABLE"),
            preempted(job, 1),
            preempted(job, 2),  # it waited and ran again between two looks
            preempted(job, 2, status="SUCCEEDED"),
        ]
    )
    cli.clock.on_sleep = lambda: cli.batch.jobs.update({job.job_id: next(steps)})

    assert cli("wait", "train-1") == 0
    assert cli.err.splitlines()[:-1] == [
        "train-1  RUNNING",
        f"train-1  RUNNABLE  preempted 1 time, lately: {CROSS_SHARE}",
        "train-1  RUNNING",
        f"train-1  RUNNING  preempted 2 times, lately: {CROSS_SHARE}",
        "train-1  SUCCEEDED",
    ]
    assert f"preempted 2 times, lately: {CROSS_SHARE}" in cli.out


def test_the_document_tells_of_preemptions(cli, with_jobs):
    job, _ = with_jobs("FAILED", "SUCCEEDED")
    cli.batch.jobs[job.job_id] = preempted(job, 3, status_reason="its preemption retries are used up")

    assert cli("wait", "train-1", "train-2", "-o", "json") == 3
    found = [(job["preemptions"], job["preemption_reason"]) for job in json.loads(cli.out)["jobs"]]
    assert found == [(3, CROSS_SHARE), (0, None)]
    assert cli("wait", "train-1") == 1
    assert f"its preemption retries are used up; preempted 3 times, lately: {CROSS_SHARE}" in cli.out


@pytest.mark.parametrize(("status", "shown"), [("RUNNABLE", "RUNNABLE; "), ("FAILED", "")])
def test_a_reason_that_is_that_of_the_preemption_is_said_once(cli, with_jobs, status, shown):
    (job,) = with_jobs(status)
    cli.batch.jobs[job.job_id] = preempted(job, 1, status_reason=CROSS_SHARE)

    cli("wait", "train-1", "--timeout", "0")

    assert cli.err.splitlines()[0] == f"train-1  {status}  preempted 1 time, lately: {CROSS_SHARE}"
    assert cli.out.splitlines()[1].endswith(f"  {shown}preempted 1 time, lately: {CROSS_SHARE}")


def test_a_journal_that_cannot_be_written_does_not_change_the_result(cli, with_jobs, project):
    journal_run(project, with_jobs("SUCCEEDED"))
    path = project / "state" / "runs" / "lunar-otter.jsonl"
    path.write_bytes(path.read_bytes()[10:])

    assert cli("wait", "train-1") == 0
    assert "warning: how jobs ended is not kept: " in cli.err
    assert "damaged journal" in cli.err
