"""Screens as a whole, compared with ``tests/golden/cli/*.txt``: what was run, then stdout, then stderr.

``FAIRSHARE_UPDATE_GOLDEN=1`` in pytest's environment writes the files anew; read the difference before you keep it.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairshare.model import (
    CapacityLimit,
    JobAttempt,
    JobQueue,
    JobRef,
    JobRequest,
    QuotaShare,
    SchedulingPolicy,
    ServiceEnvironment,
    SharingStrategy,
)
from fairshare.provision.observed import Observed
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.outcomes import Training
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import Wave

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

QUOTA_SCREENS = {
    "quota-queue": ("queue",),
    "quota-shares": ("shares",),
    "quota-shares-narrow": ("shares",),
    "quota-shares-yaml": ("shares", "-o", "yaml"),
    "quota-job-preempted": ("job", "guest-1"),
    "quota-wait": ("wait", "--run", "lunar-otter", "--timeout", "0"),
    "quota-results": ("results", "lunar-otter"),
}
"""Of a queue with quota shares, one of which borrowed what its owner wanted back."""

TYPE = "ml.g6.12xlarge"


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


@dataclass(frozen=True)
class Quotas:
    """Queue ``search-gpu`` of three quota shares, as AWS has it."""

    arn: str = "arn:aws:batch:eu-west-1:111122223333:"

    def observe(self, names, stack):
        environment = ServiceEnvironment("search-gpu", f"{self.arn}service-environment/search-gpu", (self._limit(10),))
        policy = SchedulingPolicy("search-gpu", f"{self.arn}scheduling-policy/search-gpu", None)
        queue = JobQueue("search-gpu", f"{self.arn}job-queue/search-gpu", 1, (environment.arn,), policy.arn)
        shares = [
            QuotaShare("search-gpu/GUEST", "g", (self._limit(2),), SharingStrategy.LEND_AND_BORROW, borrow_limit=100),
            QuotaShare("search-gpu/OWNER", "o", (self._limit(6),), SharingStrategy.LEND, in_share_preemption=True),
            QuotaShare("search-gpu/SPARE", "s", (self._limit(2),), SharingStrategy.LEND),
        ]
        by_name = {share.name: share for share in shares}
        return Observed({"search-gpu": environment}, {"search-gpu": policy}, {"search-gpu": queue}, by_name)

    def _limit(self, instances):
        return CapacityLimit(instances, TYPE)


class OneTrained:
    """SageMaker, which knows how the job of OWNER that has ended did."""

    def describe(self, names):
        return {name: Training({"loss": 0.25}, 1_800, 1_800) for name in names if name == "AWSBatchowner1"}


@pytest.fixture
def quotas(cli, job, now, project, monkeypatch):
    """Run ``lunar-otter``: of GUEST, one job that was preempted waits again, the other borrows and runs; of OWNER, one
    has ended and was preempted by the other, which runs."""
    minute = 60_000

    def lost(name, reason, begin, end):
        return JobAttempt(f"AWSBatch{name}", now - begin * minute, now - end * minute, reason)

    cross, within = (
        "Cross-share preemption triggered to reclaim borrowed capacity",
        "In-share preemption triggered by a higher priority job",
    )
    shared = {"share_identifier": None, "instances": 2, "created_at": now - 95 * minute}
    ran = shared | {"status": "RUNNING", "scheduled_at": now - 31 * minute, "started_at": now - 30 * minute}
    jobs = [
        job(
            1,
            **shared | {"quota_share": "GUEST", "job_name": "guest-1", "scheduling_priority": 10, "preemptions": 2},
            preempted_attempts=(lost("guest1a", cross, 90, 70), lost("guest1b", cross, 60, 39)),
        ),
        job(
            2,
            **ran
            | {"quota_share": "GUEST", "job_name": "guest-2", "instances": 4, "training_job_name": "AWSBatchguest2"},
        ),
        job(
            3,
            **ran | {"quota_share": "OWNER", "job_name": "owner-1", "status": "SUCCEEDED", "stopped_at": now - minute},
            training_job_name="AWSBatchowner1",
            attempts=(JobAttempt("AWSBatchowner1"),),
            preemptions=1,
            preempted_attempts=(lost("owner1a", within, 80, 50),),
        ),
        job(4, **ran | {"quota_share": "OWNER", "job_name": "owner-2", "instances": 6, "scheduling_priority": 90}),
    ]
    cli.batch.jobs = {found.job_id: found for found in jobs}
    cli.more = {"provisioner": Quotas(), "training_jobs": OneTrained()}
    (project / "fairshare.yaml").write_text(
        f"version: 1\nstack: search\nregion: eu-west-1\n"
        f"service_environments:\n  gpu: {{capacity_limits: {{{TYPE}: 10}}}}\n"
        "queues:\n  gpu:\n    service_environment: gpu\n    quota_shares:\n"
        f"      GUEST: {{capacity_limits: {{{TYPE}: 2}}, sharing: LEND_AND_BORROW, borrow_limit: 100}}\n"
        f"      OWNER: {{capacity_limits: {{{TYPE}: 6}}, sharing: LEND, in_share_preemption: true}}\n"
        f"      SPARE: {{capacity_limits: {{{TYPE}: 2}}, sharing: LEND}}\n"
    )
    monkeypatch.chdir(project)
    requests = [
        JobRequest(found.job_name, "search-gpu", "{}", found.job_id, quota_share=found.quota_share) for found in jobs
    ]
    planned = [PlannedJob(index, 1, request) for index, request in enumerate(requests)]
    with Journal.create(project / "state" / "runs", "lunar-otter", Holder("fairshare submit", 0)) as journal:
        journal.begin(RunIdentity("lunar-otter", 0, "eu-west-1", "111122223333"), [Wave(1, 0, 0, 4)], planned)
        journal.intend(planned, 0)
        for index, found in enumerate(jobs):
            journal.sent(index, JobRef(found.job_id, found.job_arn, found.job_name), 0)
    return cli


def check_screen(cli, name, argv):
    cli.width = 80 if name.endswith("narrow") else None

    code = cli(*argv)

    text = f"$ fairshare {' '.join(argv)}\n{cli.out}--- stderr, exit code {code}\n{cli.err}"
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", SCREENS)
def test_screen(busy, name):
    check_screen(busy, name, SCREENS[name])


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", QUOTA_SCREENS)
def test_screen_of_quota_shares(quotas, name):
    check_screen(quotas, name, QUOTA_SCREENS[name])


def test_a_narrow_terminal_is_never_exceeded():
    from fairshare.cli.render import display_width

    for name in ("queue-narrow", "shares-narrow", "quota-shares-narrow"):
        lines = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        assert max(map(display_width, lines)) <= 80


def test_every_golden_file_belongs_to_a_screen():
    assert {path.stem for path in GOLDEN.glob("*")} == SCREENS.keys() | QUOTA_SCREENS.keys()
