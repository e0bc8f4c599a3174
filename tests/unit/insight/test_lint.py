"""Traps: a fixture for each, what is told, and silence where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.config.job_file import load_job_file, parse_job_file
from fairshare.config.project import load_project, parse_project
from fairshare.insight.lint import Trap, find_traps

EXAMPLES = Path(__file__).parents[3] / "examples"

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
    fifo = SOUND[: SOUND.index("    fairshare:")] + "    fifo: true\n"
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
