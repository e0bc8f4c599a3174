"""The simulator and the local AWS with its simulated launcher start the same jobs, at the same time, in the same order.

One submits through boto3 while a clock is moved, the other never leaves the scheduler. Jobs of the scenarios arrive at
different milliseconds, as calls of an API do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.project import parse_project
from fairshare.local.inprocess import local_aws
from fairshare.local.launcher import Attempt
from fairshare.local.simulated import SECONDS_VARIABLE, SimulatedLauncher
from fairshare.model import FairsharePolicy, SharingStrategy, snake_to_camel
from fairshare.scheduler.clock import VirtualClock
from fairshare.simulate.generate import generate
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, setting_of
from fairshare.simulate.workload import Workload
from fairshare.simulate.workload_file import load_workload_file

BEGIN = 1_767_225_600_000

PROJECT = """\
version: 1
stack: same
service_environments: {{pool: {pool}}}
queues: {{jobs: {{service_environment: pool, {kind}}}}}
"""

COUNTED = "{capacity: 6, instance_types: [ml.g6.12xlarge]}"
BY_TYPE = "{capacity_limits: {ml.g6.12xlarge: 6}}"
QUOTAS = """\
quota_shares:
      {HIGHPRI: {capacity_limits: {ml.g6.12xlarge: 3}, sharing: LEND_AND_BORROW, in_share_preemption: true},
       MIDPRI: {capacity_limits: {ml.g6.12xlarge: 2}, sharing: LEND_AND_BORROW, borrow_limit: 100},
       LOWPRI: {capacity_limits: {ml.g6.12xlarge: 1}, sharing: LEND_AND_BORROW}}"""
FAIR = "fairshare: {{share_decay_seconds: {decay}, compute_reservation: {reserved}, shares: {shares}}}"
SHARES = "{HIGHPRI: {weight_factor: 1}, MIDPRI: {weight_factor: 3}, LOWPRI: {weight_factor: 5}}"

STREAMS = """\
duration: 6h
seed: 11
streams:
  HIGHPRI:
    arrivals: {poisson: {every: 20m}}
    size: {choice: {values: [1, 4], weights: [3, 1]}}
    run_time: {lognormal: {median: 40m, sigma: 0.7, max: 3h}}
    priority: 40
  urgent:
    share: HIGHPRI
    arrivals: {fixed: {every: 70m, start: 1801}} # not when another ends: an API hears of one after the other
    run_time: 10m
    priority: 90
  MIDPRI:
    arrivals: {daily: {per_day: 80}}
    size: {uniform: [1, 3]}
    run_time: {uniform: [5m, 90m]}
  LOWPRI:
    arrivals: {bursts: {every: 3h, jobs: 12, over: 2m}}
    run_time: 25m
"""


class Recorder(SimulatedLauncher):
    """Remembers what was started, in order: name of the training job's sender and ms since the begin."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[tuple[str, int]] = []

    def start(self, attempt: Attempt, at: int) -> None:
        self.starts.append((attempt.training_job["Environment"]["NAME"], at - BEGIN))
        super().start(attempt, at)


def make_queue(batch: Any, setting: Setting) -> None:
    queue = setting.queues["jobs"]
    batch.create_service_environment(
        serviceEnvironmentName="pool",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[
            {
                "maxCapacity": setting.capacity_of("jobs"),
                "capacityUnit": "ml.g6.12xlarge" if setting.quota_shares else "NUM_INSTANCES",
            }
        ],
    )
    policy = {}
    if setting.quota_shares:
        quotas = {"idleResourceAssignmentStrategy": "FIFO"}
        policy = {"schedulingPolicyArn": batch.create_scheduling_policy(name="p", quotaSharePolicy=quotas)["arn"]}
    elif isinstance(queue.policy, FairsharePolicy):
        shares = [
            {"shareIdentifier": entry.share_identifier, "weightFactor": float(entry.weight_factor)}
            for entry in queue.policy.share_distribution
        ]
        numbers = {
            snake_to_camel(name): getattr(queue.policy, name) for name in ("share_decay_seconds", "compute_reservation")
        }
        made = batch.create_scheduling_policy(name="p", fairsharePolicy={**numbers, "shareDistribution": shares})
        policy = {"schedulingPolicyArn": made["arn"]}
    batch.create_job_queue(
        jobQueueName="jobs",
        priority=1,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "pool"}],
        **policy,
    )
    for share in setting.quota_shares.get("jobs", ()):
        borrows = {"borrowLimit": share.borrow_limit} if share.sharing is SharingStrategy.LEND_AND_BORROW else {}
        batch.create_quota_share(
            quotaShareName=share.name,
            jobQueue="jobs",
            capacityLimits=[
                {"maxCapacity": limit.max_capacity, "capacityUnit": limit.capacity_unit}
                for limit in share.capacity_limits
            ],
            resourceSharingConfiguration={"strategy": share.sharing.value, **borrows},
            preemptionConfiguration={"inSharePreemption": "ENABLED" if share.in_share_preemption else "DISABLED"},
        )


def starts_in_the_local_aws(workload: Workload, setting: Setting) -> list[tuple[str, int]]:
    clock, recorder = VirtualClock(BEGIN), Recorder()
    with local_aws(clock, recorder) as aws:
        batch = aws.client("batch")
        make_queue(batch, setting)
        for job in workload.jobs:
            clock.sleep_until(BEGIN + job.submit_at)
            payload = {
                "TrainingJobName": job.id,
                "ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": job.demand},
                "Environment": {SECONDS_VARIABLE: str(job.run_time / 1000), "NAME": job.id},
            }
            name = "quotaShareName" if setting.quota_shares else "shareIdentifier"
            share = {name: job.share, "schedulingPriority": job.priority}
            batch.submit_service_job(
                jobName=job.id,
                jobQueue="jobs",
                serviceJobType="SAGEMAKER_TRAINING",
                serviceRequestPayload=json.dumps(payload),
                **(share if setting.queues["jobs"].policy is not None else {}),
            )
        clock.advance(30 * 24 * 3_600_000)
        batch.list_service_jobs(jobQueue="jobs")
    return recorder.starts


@pytest.mark.parametrize(
    ("kind", "pool"),
    [
        ("fifo: true", COUNTED),
        (FAIR.format(decay=3600, reserved=0, shares=SHARES), COUNTED),
        (
            FAIR.format(decay=0, reserved=30, shares="{HIGHPRI: {weight_factor: 0.5}, LOWPRI: {weight_factor: 2}}"),
            COUNTED,
        ),
        (QUOTAS, BY_TYPE),
    ],
    ids=["fifo", "fair-share", "reservation and an unlisted share", "quota shares"],
)
def test_the_same_jobs_start_at_the_same_time_in_the_same_order(tmp_path: Path, kind: str, pool: str) -> None:
    path = tmp_path / "day.yaml"
    path.write_text(STREAMS)
    workload = generate(load_workload_file(path), path)
    setting = setting_of("same", parse_project(PROJECT.format(kind=kind, pool=pool), Path("fairshare.yaml")))
    course = simulate(workload, setting)
    simulated = [(workload.jobs[each.job].id, each.start) for each in course.attempts()]

    assert len(simulated) == len(workload.jobs) + sum(course.preempted)
    assert len(workload.jobs) > 50
    assert any(course.preempted) is (kind == QUOTAS)
    assert max(start - job.submit_at for start, job in zip(course.first_starts, workload.jobs, strict=True)) > 3_600_000
    assert len({job.submit_at for job in workload.jobs}) == len(workload.jobs)
    assert starts_in_the_local_aws(workload, setting) == simulated
