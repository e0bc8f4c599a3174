"""Waves that find their own size, against a local AWS where launches trip over each other. Time is virtual."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairshare.aws.jobs import BatchJobs
from fairshare.aws.session import AwsSession
from fairshare.config.jobs import AutoWaves, LaunchPeak, Limits
from fairshare.local.testkit import LocalAWS
from fairshare.model import JobDetail, JobRequest
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.calls import CallsInTurn
from fairshare.submit.dispatch import SubmitPlan, dispatch
from fairshare.submit.events import Event, JobSent
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.launches import LaunchControl, predict_auto
from fairshare.submit.launching import launch_of
from fairshare.submit.rate import Pace
from fairshare.submit.requests import PlannedJob, RunIdentity, client_token
from fairshare.submit.rules import RunRules
from fairshare.submit.watch import LookPace
from fairshare.submit.waves import plan_waves

K = 8
JOBS = 60
LAUNCH_SECONDS = 120
RUN_SECONDS = 60
CONTENTION = f"contention={K},launch_seconds={LAUNCH_SECONDS},contention_failure=0.5"
SLOWEST = LookPace(10_000, 10_000)
"""AWS is never looked at less often."""

EIGHT_AT_ONCE = RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=K))


@dataclass
class World:
    """A local AWS with one FIFO queue, and what sending to it needs."""

    aws: LocalAWS
    clock: VirtualClock
    runs: Path
    backend: BatchJobs

    def make_queue(self, capacity: int) -> None:
        batch = self.aws.client("batch")
        limits = [{"maxCapacity": capacity, "capacityUnit": "NUM_INSTANCES"}]
        environment = batch.create_service_environment(
            serviceEnvironmentName="gpu", serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits
        )
        order = [{"order": 1, "serviceEnvironment": environment["serviceEnvironmentArn"]}]
        batch.create_job_queue(
            jobQueueName="gpu", jobQueueType="SAGEMAKER_TRAINING", priority=1, serviceEnvironmentOrder=order
        )

    def send(self, jobs: list[PlannedJob], rules: RunRules) -> list[Event]:
        """Send a run; time passes as long as sending takes."""
        events: list[Event] = []
        now = self.clock.now()
        identity = RunIdentity("contended", now, "us-east-1", "123456789012")
        plan = SubmitPlan(identity, plan_waves(len(jobs), None, 0, now), tuple(jobs), rules=rules)
        with Journal.create(self.runs, "contended", Holder("test", now)) as journal:
            pace = Pace(random.Random(0), 0)
            result = dispatch(
                plan, CallsInTurn(self.backend, SLOWEST), journal, self.clock, pace, events.append, lambda: False
            )
        assert result.error() is None
        assert len(result.sent) == len(jobs)
        return events

    def finish(self, events: list[Event]) -> list[JobDetail]:
        """Let time pass until every job has ended; return the jobs."""
        ids = [event.ref.job_id for event in events if isinstance(event, JobSent)]
        while any(job.status not in ("SUCCEEDED", "FAILED") for job in self.backend.list("gpu")):
            self.clock.advance(LAUNCH_SECONDS * 1000)
        return list(self.backend.describe(ids).values())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = VirtualClock(1_790_000_000_000)
    with LocalAWS(clock=clock) as aws:
        yield World(aws, clock, tmp_path / "runs", BatchJobs(AwsSession(region="us-east-1")))


def jobs_of(count: int, *, run_seconds: int = RUN_SECONDS, peak: LaunchPeak | None = None) -> list[PlannedJob]:
    planned = []
    for index in range(count):
        payload = {
            "TrainingJobName": f"job-{index}",
            "AlgorithmSpecification": {"TrainingImage": "image:1", "TrainingInputMode": "File"},
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
            "Environment": {"FAIRSHARE_SIM_SECONDS": str(run_seconds)},
        }
        text = json.dumps(payload)
        request = JobRequest(
            f"job-{index}", "gpu", text, client_token("contended", index, text), tags={"fairshare:run": "contended"}
        )
        planned.append(PlannedJob(index, 1, request, launch_peak=peak))
    return planned


def total_seconds(jobs: list[JobDetail]) -> float:
    return (max(job.stopped_at or 0 for job in jobs) - min(job.created_at for job in jobs)) / 1000


def most_launching(jobs: list[JobDetail]) -> int:
    """How many jobs were at most between their dispatch and their run."""
    spans = [(job.scheduled_at or 0, job.started_at or job.stopped_at or 0) for job in jobs]
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


def test_sixty_jobs_at_once_trip_over_each_other(world: World) -> None:
    world.make_queue(JOBS)
    world.aws.faults(CONTENTION)

    jobs = world.finish(world.send(jobs_of(JOBS), RunRules()))

    assert sum(job.status == "FAILED" for job in jobs) >= JOBS // 4
    assert most_launching(jobs) == JOBS


def test_waves_auto_lets_no_launch_fail_and_loses_little_time(world: World) -> None:
    """Even at the slowest pace of looks; the forecast says what happens."""
    world.make_queue(JOBS)
    world.aws.faults(CONTENTION)
    planned = jobs_of(JOBS)

    jobs = world.finish(world.send(planned, EIGHT_AT_ONCE))

    assert {job.status for job in jobs} == {"SUCCEEDED"}
    assert most_launching(jobs) == K
    ideal = LAUNCH_SECONDS * JOBS / K + RUN_SECONDS
    assert ideal <= total_seconds(jobs) <= 1.15 * ideal
    launches, control = [launch_of(job) for job in planned], LaunchControl(EIGHT_AT_ONCE.limits)
    forecast = predict_auto(launches, control, LAUNCH_SECONDS, JOBS, run_seconds=[RUN_SECONDS] * JOBS)
    assert forecast.finish_at == 8 * LAUNCH_SECONDS * 1000 + RUN_SECONDS * 1000
    assert total_seconds(jobs) <= 1.05 * forecast.finish_at / 1000


def test_memory_of_one_machine_holds_launches_back_by_their_peaks(world: World) -> None:
    world.make_queue(JOBS)
    world.aws.faults(CONTENTION)
    rules = replace(EIGHT_AT_ONCE, limits=Limits(concurrent_launches=K, memory=24))

    jobs = world.finish(world.send(jobs_of(12, peak=LaunchPeak(memory=8)), rules))

    assert most_launching(jobs) == 3


def test_without_limits_the_window_is_found_and_slow_launches_halve_it(world: World) -> None:
    """Nothing fails here: launches beyond the eighth only take four times as long."""
    world.make_queue(200)
    world.aws.faults(f"contention={K},launch_seconds=60,contention_failure=0,contention_slowdown=4")

    jobs = world.finish(world.send(jobs_of(80), RunRules(auto=AutoWaves())))

    assert {job.status for job in jobs} == {"SUCCEEDED"}
    launches = sorted((job.started_at or 0) - (job.scheduled_at or 0) for job in jobs)
    assert launches[len(launches) * 3 // 4] == 60_000
    assert K <= most_launching(jobs) <= 2 * K


def test_with_a_full_queue_waiting_jobs_hold_no_wave(world: World) -> None:
    """Four instances, two launches at once: everything is sent as soon as the first four jobs have launched."""
    world.make_queue(4)
    world.aws.faults(f"contention=2,launch_seconds={LAUNCH_SECONDS}")
    begin = world.clock.now()
    rules = RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=2))

    events = world.send(jobs_of(30, run_seconds=3600), rules)

    assert sum(isinstance(event, JobSent) for event in events) == 30
    assert world.clock.now() - begin <= 4 * LAUNCH_SECONDS * 1000


def test_hold_runnable_keeps_waiting_jobs_back(world: World) -> None:
    world.make_queue(4)
    world.aws.faults(f"contention=2,launch_seconds={LAUNCH_SECONDS}")
    begin = world.clock.now()
    rules = RunRules(auto=AutoWaves(hold_runnable=True), limits=Limits(concurrent_launches=2))

    events = world.send(jobs_of(10, run_seconds=600), rules)
    sent_after = world.clock.now() - begin
    jobs = world.finish(events)

    assert sent_after >= 600 * 1000
    assert {job.status for job in jobs} == {"SUCCEEDED"}
    assert most_launching(jobs) <= 2
