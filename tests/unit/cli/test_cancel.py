import json

import pytest

from fairshare.model import CredentialsError, ServiceError


@pytest.fixture
def three(cli, job):
    """Two jobs of HIGHPRI, one of them running, and one of LOWPRI; a fourth has ended."""
    jobs = [
        job(1, status="RUNNING", instances=4),
        job(2),
        job(3, share_identifier="LOWPRI"),
        job(4, status="SUCCEEDED"),
    ]
    cli.batch.jobs = {found.job_id: found for found in jobs}
    return jobs


def ended(cli):
    return [cli.batch.jobs[job_id].job_name for job_id, _ in cli.batch.terminated]


def test_jobs_by_name(cli, three):
    assert cli("cancel", "train-1", "train-2", "--yes") == 0

    assert ended(cli) == ["train-1", "train-2"]
    assert {reason for _, reason in cli.batch.terminated} == {"ended by fairshare cancel"}
    assert cli.out == "Asked AWS to end 2 jobs; running ones may take a few minutes to stop.\n"


def test_a_share(cli, three):
    assert cli("cancel", "--share", "HIGHPRI", "--yes", "--reason", "make room") == 0

    assert sorted(ended(cli)) == ["train-1", "train-2"]
    assert {reason for _, reason in cli.batch.terminated} == {"make room"}


def test_account_region_queue_and_jobs_are_shown_before_it_asks(cli, three, at_terminal):
    at_terminal("y\n")

    assert cli("cancel", "--share", "HIGHPRI") == 0

    assert cli.err.splitlines()[0] == "To end in account 111122223333, eu-west-1, queue search-gpu: 2 jobs"
    assert "  That frees 4 instances.\n" in cli.err
    assert "End 2 jobs? [y/N]" in cli.err


def test_waiting_jobs_free_nothing(cli, three):
    cli("cancel", "train-2", "--dry-run")

    assert "That frees no instance, since none has started." in cli.err


def test_no_means_no(cli, three, at_terminal):
    at_terminal("n\n")

    assert cli("cancel", "train-1") == 1
    assert ended(cli) == []
    assert cli.err.endswith("error: not confirmed, nothing was changed\n")


def test_without_a_terminal_it_refuses_instead_of_asking(cli, three):
    assert cli("cancel", "train-1") == 2
    assert ended(cli) == []
    assert "add --yes if you are sure" in cli.err


def test_a_dry_run_changes_nothing_and_needs_no_yes(cli, three):
    assert cli("cancel", "--share", "HIGHPRI", "--dry-run", "-o", "json") == 0

    assert ended(cli) == []
    document = json.loads(cli.out)
    assert (document["kind"], document["dry_run"]) == ("Cancellation", True)
    assert {(job["job_name"], job["action"]) for job in document["jobs"]} == {
        ("train-1", "would_terminate"),
        ("train-2", "would_terminate"),
    }


def test_what_has_ended_is_left_alone(cli, three):
    assert cli("cancel", "train-4", "--yes") == 0
    assert ended(cli) == []
    assert cli.out == "Nothing to cancel: no such job is waiting or running.\n"


def test_a_whole_id_that_does_not_exist_is_not_found(cli, job):
    assert cli("cancel", job(9).job_id, "--yes") == 4
    assert f"no job goes by '{job(9).job_id}'" in cli.err


def test_one_that_cannot_be_asked_does_not_stop_the_others(cli, three):
    def refuse(job_id):
        if job_id == three[0].job_id:
            raise ServiceError("AWS said no")

    cli.batch.on_terminate = refuse

    assert cli("cancel", "train-1", "train-2", "--yes", "-o", "json") == 3

    assert ended(cli) == ["train-2"]
    jobs = {job["job_name"]: (job["action"], job["error"]) for job in json.loads(cli.out)["jobs"]}
    assert jobs == {"train-1": ("failed", "AWS said no"), "train-2": ("terminated", None)}


def test_all_refused_is_exit_code_1(cli, three):
    def refuse(job_id):
        raise ServiceError("AWS said no")

    cli.batch.on_terminate = refuse

    assert cli("cancel", "train-1", "--yes") == 1


def test_expired_credentials_stop_at_once(cli, three):
    asked = []

    def refuse(job_id):
        asked.append(job_id)
        raise CredentialsError("expired", hint="log in")

    cli.batch.on_terminate = refuse

    assert cli("cancel", "train-1", "train-2", "--yes") == 6
    assert len(asked) == 1


def test_ctrl_c_says_how_far_it_came(cli, three):
    def interrupt(job_id):
        if job_id == three[1].job_id:
            raise KeyboardInterrupt

    cli.batch.on_terminate = interrupt

    assert cli("cancel", "train-1", "train-2", "--yes") == 130
    assert "stopped after 1 of 2 jobs; those end, the others go on" in cli.err


def test_many_jobs_are_found_by_one_listing_and_previewed_in_part(cli, job):
    jobs = [job(number) for number in range(30)]
    cli.batch.jobs = {found.job_id: found for found in jobs}

    assert cli("cancel", *[found.job_id for found in jobs], "--yes") == 0

    assert len(cli.batch.terminated) == 30
    assert cli.batch.listed == ["search-gpu"]
    assert "  and 10 more" in cli.err


def test_a_share_goes_alone(cli):
    assert cli("cancel", "train-1", "--share", "LOWPRI") == 2
    assert "--share goes without jobs and without --run" in cli.err
