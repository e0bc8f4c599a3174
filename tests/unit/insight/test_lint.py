"""Traps: a fixture for each, what is told, and silence where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairshare.config.job_file import load_job_file, parse_job_file
from fairshare.config.project import load_project, parse_project
from fairshare.insight.lint import find_traps
from fairshare.insight.traps import Trap

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
SNIPPETS = [
    pytest.param(text if "version:" in text else f"version: 1\nstack: docs\n{text}", id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, text in enumerate(
        re.findall(r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    if "service_environments:" in text
]

SOUND = """\
version: 1
stack: search
service_environments: {gpu: {capacity: 16, instance_types: [ml.g6.12xlarge]}}
queues:
  gpu:
    service_environment: gpu
    fairshare:
      share_decay_seconds: 86400
      compute_reservation: 10
      shares: {HIGHPRI: {weight_factor: 1}, MIDPRI: {weight_factor: 3}, LOWPRI: {weight_factor: 5}}
    time_limits: {misconfiguration: 10m}
defaults: {max_runtime: 2h, share: LOWPRI}
"""

JOB = """\
jobs:
  - name: bert
    compute: {instance_type: ml.g6.12xlarge, instance_count: 4}
    share: HIGHPRI
    retry: {attempts: 3, on: [InternalServerError, ResourceLimitExceeded]}
"""


def traps(project: str = SOUND, job: str = JOB) -> list[Trap]:
    return find_traps(parse_project(project, Path("fairshare.yaml")), [parse_job_file(job, Path("jobs.yaml"))])


def test_a_sound_policy_has_no_traps() -> None:
    assert traps() == []


@pytest.mark.parametrize("folder", sorted(path.parent for path in EXAMPLES.glob("*/fairshare.yaml")), ids=str)
def test_the_examples_have_no_traps(folder: Path) -> None:
    files = [load_job_file(path) for path in folder.glob("jobs*.yaml")]

    assert find_traps(load_project(folder / "fairshare.yaml"), files) == []


def test_there_are_snippets_of_project_files_to_check() -> None:
    assert len(SNIPPETS) >= 2


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_project_files_in_the_docs_have_no_traps(snippet: str) -> None:
    assert find_traps(parse_project(snippet, Path("fairshare.yaml"))) == []


def test_inverted_weights() -> None:
    (trap,) = traps(SOUND.replace("HIGHPRI: {weight_factor: 1}", "HIGHPRI: {weight_factor: 10}"))

    assert (trap.code, trap.steps) == ("P01", ("queues", "gpu", "fairshare", "shares", "HIGHPRI"))
    assert "gives HIGHPRI less than LOWPRI" in trap.message
    assert "HIGHPRI (10) gets 16 % and LOWPRI (5) 32 % when all are busy" in trap.message
    assert trap.change.startswith("swap them: a lower weight factor is a larger part")


def test_a_reservation_that_eats_the_pool() -> None:
    (trap,) = traps(SOUND.replace("compute_reservation: 10", "compute_reservation: 50"))

    assert (trap.code, trap.steps[-1]) == ("P02", "compute_reservation")
    assert "leaves 8 of 16 instances idle while one share is active, and 4 while two are" in trap.message


def test_a_share_that_is_due_next_to_nothing() -> None:
    (trap,) = traps(SOUND.replace("LOWPRI: {weight_factor: 5}", "LOWPRI: {weight_factor: 100}"))

    assert trap.code == "P03"
    assert trap.message.startswith("LOWPRI is due 0.12 of 16 instances of queue gpu when all shares are busy")


def test_use_that_is_forgotten_before_jobs_end() -> None:
    (given,) = traps(SOUND.replace("share_decay_seconds: 86400", "share_decay_seconds: 3600"))
    (default,) = traps(SOUND.replace("      share_decay_seconds: 86400\n", ""))

    assert (given.code, given.steps[-1]) == ("P04", "share_decay_seconds")
    assert "forgets use after 1 h, and jobs may run for 2 h" in given.message
    assert (default.code, default.steps[-1]) == ("P04", "fairshare")
    assert "forgets use after 10 min" in default.message


def test_a_job_that_never_starts() -> None:
    (large,) = traps(job=JOB.replace("instance_count: 4", "instance_count: 17").replace("share", "share"))
    (alone,) = traps(job=JOB.replace("instance_count: 4", "instance_count: 15"))

    assert (large.code, alone.code) == ("P05", "P05")
    assert "job bert needs 17 instances at once, and queue gpu lets a share that is alone use 14 of 16" in large.message
    assert alone.change.endswith("or lower compute_reservation")
    assert alone.origin is not None
    assert (alone.origin.file, alone.origin.line) == ("jobs.yaml", 3)


def test_a_job_too_large_for_a_fifo_queue() -> None:
    fifo = SOUND[: SOUND.index("    fairshare:")] + "    fifo: true\n    time_limits: {misconfiguration: 10m}\n"
    job = JOB.replace("    share: HIGHPRI\n", "").replace("instance_count: 4", "instance_count: 17")
    (trap,) = traps(fifo, job)

    assert "queue gpu has 16: it never starts" in trap.message


def test_a_share_that_the_policy_does_not_list() -> None:
    (trap,) = traps(job=JOB.replace("share: HIGHPRI", "share: HIGHPRIO"))

    assert trap.code == "P06"
    assert "it weighs 1, and gets 39 % when all are busy" in trap.message
    assert trap.change == "did you mean HIGHPRI? (shares: HIGHPRI, MIDPRI, LOWPRI); or list it"


def test_rules_that_forget_the_quota() -> None:
    (trap,) = traps(job=JOB.replace(", ResourceLimitExceeded", ""))

    assert (trap.code, trap.change) == ("P07", "add ResourceLimitExceeded to retry.on")
    assert traps(job=JOB.replace("[InternalServerError, ResourceLimitExceeded]", '["*"]')) == []


def test_a_queue_without_time_limits() -> None:
    (trap,) = traps(SOUND.replace("    time_limits: {misconfiguration: 10m}\n", ""))

    assert (trap.code, trap.steps) == ("P08", ("queues", "gpu"))
    assert trap.message.startswith("a job that can never start blocks the head of queue gpu for ever")
    assert "time_limits: {misconfiguration: 10m}" in trap.change


QUOTAS = """\
version: 1
stack: search
service_environments: {sweep: {capacity_limits: {ml.c5.2xlarge: 8}}}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.c5.2xlarge: 5}, sharing: LEND_AND_BORROW, borrow_limit: 60}
      TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}, sharing: LEND}
    time_limits: {misconfiguration: 10m}
defaults: {quota_share: TEAMB, max_runtime: 2h, instance_type: ml.c5.2xlarge}
"""
QUOTA_JOB = "jobs: [{name: bert, quota_share: TEAMA, checkpoint: 's3://b/c', compute: {instance_count: 8}}]\n"


def quota_traps(old: str = "", new: str = "", job: str = QUOTA_JOB) -> list[Trap]:
    assert not old or QUOTAS.count(old) == 1
    return traps(QUOTAS.replace(old, new) if old else QUOTAS, job)


def test_sound_quota_shares_have_no_traps() -> None:
    assert quota_traps() == []


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (
            "{ml.c5.2xlarge: 3}",
            "{ml.c5.2xlarge: 5}",
            "P09",
            "quota shares of queue sweep own 10 ml.c5.2xlarge, and the service environment has 8: when all are busy, "
            "who comes first keeps what the others are owed",
        ),
        (
            "{sweep: {capacity_limits: {ml.c5.2xlarge: 8}}}",
            "{sweep: {capacity_limits: {ml.c5.2xlarge: 12}}}",
            "P10",
            "quota shares of queue sweep own 8 of 12 ml.c5.2xlarge: only what a share owns is used or lent, so 4 stay "
            "idle whoever waits",
        ),
        (
            "sharing: LEND}",
            "sharing: RESERVE}",
            "",
            "",
        ),
    ],
)
def test_what_quota_shares_own(old: str, new: str, code: str, message: str) -> None:
    found = quota_traps(old, new, "jobs: [{name: bert, quota_share: TEAMA, checkpoint: 's3://b/c'}]\n")
    assert [(trap.code, trap.message) for trap in found] == ([(code, message)] if code else [])


@pytest.mark.parametrize(
    ("sharing", "reason"),
    [("RESERVE", "every share reserves what it does not use"), ("LEND", "shares lend, and none of them borrows")],
)
def test_idle_instances_that_nobody_may_use(sharing: str, reason: str) -> None:
    text = QUOTAS.replace("LEND_AND_BORROW, borrow_limit: 60", sharing).replace(
        "sharing: LEND}", f"sharing: {sharing}}}"
    )
    (trap,) = traps(text, "jobs: [{name: bert, quota_share: TEAMA}]\n")

    assert (trap.code, trap.steps) == ("P11", ("queues", "sweep", "quota_shares", "TEAMA", "sharing"))
    assert f"of another: {reason}. When TEAMA is idle, its 5 are, too" in trap.message


def test_a_borrower_that_may_borrow_nothing() -> None:
    (trap,) = quota_traps("borrow_limit: 60", "borrow_limit: 0", "jobs: [{name: a, quota_share: TEAMB}]\n")

    assert (trap.code, trap.steps) == ("P12", ("queues", "sweep", "quota_shares", "TEAMA", "borrow_limit"))
    assert "never holds more than its own 5" in trap.message
    assert "up to 10 in all" in trap.change


def test_a_quota_share_that_can_never_start_a_job() -> None:
    (trap,) = quota_traps("borrow_limit: 60", "borrow_limit: 20")

    assert trap.code == "P05"
    assert "needs 8 ml.c5.2xlarge at once, and quota share TEAMA owns 5" in trap.message
    assert trap.origin is not None


def test_a_quota_share_that_does_not_exist() -> None:
    (trap,) = quota_traps(job="jobs: [{name: a, quota_share: TEAMC}]\n")

    assert (trap.code, trap.change) == ("P06", "did you mean TEAMB? (quota shares: TEAMA, TEAMB)")


def test_a_long_run_that_may_be_preempted_without_a_checkpoint() -> None:
    (trap,) = quota_traps(job="jobs: [{name: a, quota_share: TEAMA}]\n")

    assert trap.code == "P13"
    assert "may run for 2 h and be preempted when it runs on borrowed instances; it has no checkpoint" in trap.message
    assert quota_traps(job="jobs: [{name: a, quota_share: TEAMA, max_runtime: 30m}]\n") == []
    assert quota_traps(job="jobs: [{name: a, quota_share: TEAMB}]\n") == []


def test_a_preempted_job_that_is_not_queued_again() -> None:
    job = "jobs: [{name: a, quota_share: TEAMA, checkpoint: 's3://b/c', retry: {preemption_retries: 0}}]\n"
    (trap,) = quota_traps(job=job)

    assert trap.code == "P14"
    assert "may be preempted when it runs on borrowed instances, and preemption_retries 0 ends it" in trap.message
    assert trap.origin is not None
    assert quota_traps(job=job.replace("retries: 0", "retries: 3")) == []
    assert quota_traps(job=job.replace("TEAMA", "TEAMB")) == []
