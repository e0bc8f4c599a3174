"""Screens as a whole, compared with ``tests/golden/cli/*.txt``: what was run, then stdout, then stderr.

``FAIRSHARE_UPDATE_GOLDEN=1`` in pytest's environment writes the files anew; read the difference before you keep it.
"""

import os
import time
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "cli"
UPDATE = os.environ.get("FAIRSHARE_UPDATE_GOLDEN") == "1"

SCREENS = {
    "queue": ("queue",),
    "queue-narrow": ("queue", "--all"),
    "queue-share-yaml": ("queue", "--share", "LOWPRI", "-o", "yaml"),
    "shares": ("shares",),
    "shares-narrow": ("shares",),
    "job-running": ("job", "bert-large-7"),
    "job-failed": ("job", "bert-large-6"),
    "wait-timeout": ("wait", "bert-large-6", "bert-large-7", "--timeout", "0"),
    "cancel-dry-run": ("cancel", "--share", "HIGHPRI", "--dry-run"),
    "logs": ("logs", "bert-large-7"),
    "no-such-job": ("job", "bert-large-77"),
    "invalid-project": ("queue", "--file", "broken.yaml"),
    "help": ("--help",),
    "help-exit-codes": ("help", "exit-codes"),
    "help-wait": ("wait", "--help"),
    "help-submit": ("submit", "--help"),
    "help-resume": ("resume", "--help"),
}


@pytest.fixture
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def busy(cli, job, now, project, monkeypatch):
    """A busy queue: 16 instances held by three shares, and jobs waiting in two of them."""
    minute = 60_000

    def running(number, name, share, instances, minutes, **changes):
        return job(
            number,
            **{
                "job_name": name,
                "share_identifier": share,
                "status": "RUNNING",
                "instances": instances,
                "created_at": now - (minutes + 3) * minute,
                "scheduled_at": now - (minutes + 1) * minute,
                "started_at": now - minutes * minute,
                "training_job_name": f"AWSBatch{name}0123456789abcdef0123456789abcdef",
            }
            | changes,
        )

    jobs = [
        running(1, "bert-large-7", "HIGHPRI", 10, 72),
        running(2, "vision-lr0.01-batch256-seed17-warmup", "MIDPRI", 4, 20, scheduling_priority=50),
        running(3, "sweep-lr1-s3", "LOWPRI", 2, 51, scheduling_priority=0),
        job(4, job_name="bert-large-8", instances=4, created_at=now - 9 * minute),
        job(5, job_name="模型-训练", share_identifier="LOWPRI", scheduling_priority=20, created_at=now - 8 * minute),
        job(6, job_name="bert-large-9", instances=4, status="SUBMITTED", created_at=now - 500),
        running(
            7,
            "bert-large-6",
            "HIGHPRI",
            4,
            200,
            status="FAILED",
            stopped_at=now - 100 * minute,
            status_reason="Received status from SageMaker: AlgorithmError: CUDA out of memory, exit code: 1",
        ),
    ]
    cli.batch.jobs = {found.job_id: found for found in jobs}
    cli.logs.add(jobs[0].training_job_name, "epoch 1 loss 0.7", "epoch 2 loss 0.5 \x1b[2J")
    monkeypatch.chdir(project)
    (project / "broken.yaml").write_text(
        "version: 1\nstack: s\nservice_environments:\n  gpu: {capacity: 4, instance_types: [ml.g6.12xlarge]}\n"
        "queues:\n  gpu: {service_environment: gpuu, fairshare: {shares: {HIGHPRI: {weight: 1}}}}\n"
    )
    return cli


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", SCREENS)
def test_screen(busy, name):
    busy.width = 80 if name.endswith("narrow") else None

    code = busy(*SCREENS[name])

    text = f"$ fairshare {' '.join(SCREENS[name])}\n{busy.out}--- stderr, exit code {code}\n{busy.err}"
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_narrow_terminal_is_never_exceeded():
    from fairshare.cli.render import display_width

    for name in ("queue-narrow", "shares-narrow"):
        lines = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        assert max(map(display_width, lines)) <= 80


def test_every_golden_file_belongs_to_a_screen():
    assert {path.stem for path in GOLDEN.glob("*")} == SCREENS.keys()
