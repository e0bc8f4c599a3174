"""How many calls a look at a large queue costs (case C49): 10,000 jobs have ended, 300 have not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from moto.batch.models import batch_backends

from fairshare.cli.context import AppContext, Options
from fairshare.cli.main import run
from fairshare.insight.collect import CALLS
from fairshare.insight.jobs import PAST_CALLS
from fairshare.local.region import Region
from fairshare.local.service_jobs import submit_service_job
from fairshare.local.testkit import START, LocalAWS
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.watch import look_in_queue

FINISHED, ACTIVE, CAPACITY = 10_000, 300, 16
PROJECT = """\
version: 1
stack: search
region: us-east-1
service_environments:
  gpu: {capacity: 16, instance_types: [ml.g5.xlarge]}
queues:
  gpu:
    service_environment: gpu
    fairshare: {shares: {HIGHPRI: {weight_factor: 1}, LOWPRI: {weight_factor: 3}}}
"""


@dataclass
class LargeQueue:
    """Queue ``search-gpu`` of a local AWS, and the command line in front of it."""

    aws: LocalAWS
    clock: VirtualClock
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *argv: str) -> Any:
        """Run a command line; return its document."""
        code = run([*argv, "-o", "json"], self.context)
        out, err = self.capsys.readouterr()
        assert code == 0, err + out
        return json.loads(out)

    def context(self, options: Options) -> AppContext:
        environment = {**self.aws.environment(), "FAIRSHARE_STATE_DIR": str(self.folder / "state")}
        context = AppContext(options, environment, self.folder)
        context.__dict__["clock"] = self.clock
        return context

    def calls_of(self, action: Callable[[], Any]) -> Counter[str]:
        """Count the calls of an action by operation."""
        before = len(self.aws.calls)
        action()
        return Counter(call.operation for call in self.aws.calls[before:])

    def with_region(self, change: Callable[[Region], None]) -> None:
        with batch_backends["123456789012"]["us-east-1"].operation() as region:
            change(region)


def request(name: str, seconds: int, share: str = "HIGHPRI") -> dict[str, Any]:
    payload = {
        "TrainingJobName": name,
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)},
    }
    return {
        "jobName": name,
        "jobQueue": "search-gpu",
        "serviceJobType": "SAGEMAKER_TRAINING",
        "shareIdentifier": share,
        "schedulingPriority": 7,
        "clientToken": name,
        "serviceRequestPayload": json.dumps(payload),
    }


def make_queue(batch: Any) -> None:
    """What `fairshare setup` makes of the project."""
    kind = "SAGEMAKER_TRAINING"
    shares = [("HIGHPRI", 1), ("LOWPRI", 3)]
    batch.create_service_environment(
        serviceEnvironmentName="search-gpu",
        serviceEnvironmentType=kind,
        capacityLimits=[{"maxCapacity": CAPACITY, "capacityUnit": "NUM_INSTANCES"}],
    )
    policy = batch.create_scheduling_policy(
        name="search-gpu",
        fairsharePolicy={
            "shareDistribution": [{"shareIdentifier": name, "weightFactor": weight} for name, weight in shares]
        },
    )
    batch.create_job_queue(
        jobQueueName="search-gpu",
        jobQueueType=kind,
        priority=1,
        schedulingPolicyArn=policy["arn"],
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "search-gpu"}],
        tags={"fairshare:stack": "search"},
    )


def add_finished(region: Region, count: int) -> None:
    """Copy the only job of the queue, which has ended, so many times."""
    queue = region.queues["search-gpu"]
    done = queue.jobs[0]
    state = region.engine._jobs[done.id]
    for number in range(count):
        job_id = f"{number:08x}-0000-4000-8000-000000000000"
        region.jobs[job_id] = replace(done, id=job_id, arn=region.arn(f"service-job/{job_id}"), sequence=number + 1)
        queue.jobs.append(region.jobs[job_id])
        region.engine._jobs[job_id] = copy(state)
        region.engine._jobs[job_id].id = job_id


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[LargeQueue]:
    (tmp_path / "fairshare.yaml").write_text(PROJECT)
    clock = VirtualClock(START)
    with LocalAWS(clock=clock) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        found = LargeQueue(aws, clock, tmp_path, capsys)
        make_queue(aws.client("batch"))
        found.with_region(lambda region: submit_service_job(region, request("first", 60)) and None)
        aws.advance(600)
        found.with_region(lambda region: add_finished(region, FINISHED - 1))
        aws.advance(60)
        for number in range(ACTIVE):
            wanted = request(f"train-{number}", 36_000, "LOWPRI" if number % 3 else "HIGHPRI")
            found.with_region(lambda region, wanted=wanted: submit_service_job(region, wanted) and None)
            aws.advance(0.2)
        aws.advance(60)
        yield found


def end_some(large: LargeQueue, count: int) -> None:
    """End jobs that run."""
    batch = large.aws.client("batch")
    running = batch.list_service_jobs(jobQueue="search-gpu", jobStatus="RUNNING")["jobSummaryList"]
    for job in running[:count]:
        batch.terminate_service_job(jobId=job["jobId"], reason="enough")
    large.aws.advance(30)


def test_c49_queue_costs_ten_calls_however_many_jobs_have_ended(large):
    first = large.calls_of(lambda: large("queue"))
    again = large.calls_of(lambda: large("queue"))
    document = large("queue")

    assert first == again + Counter(DescribeServiceJob=100)
    assert again.total() <= CALLS
    assert set(again) == {"ListServiceJobs", "GetJobQueueSnapshot"}
    assert len(document["jobs"]) == ACTIVE
    assert [job["scheduling_priority"] for job in document["jobs"]] == [7] * 100 + [None] * 200


def test_c49_metrics_publish_costs_ten_calls_and_counts_the_ends(large):
    first = large.calls_of(lambda: large("metrics", "publish"))
    large.aws.advance(60)
    end_some(large, 3)
    documents: list[Any] = []
    again = large.calls_of(lambda: documents.append(large("metrics", "publish")))

    assert first.total() <= CALLS
    assert again.total() <= CALLS
    [queue] = documents[0]["queues"]
    assert queue["gauges"]["RunnableJobs"] + queue["gauges"]["RunningJobs"] + queue["gauges"]["LaunchingJobs"] == 297
    assert queue["gauges"]["CapacityUtilization"] == 100
    assert queue["gauges"]["FailedJobs"] == 3


def test_c49_a_burst_of_ends_is_counted_once_and_whole(large):
    large("metrics", "publish")
    end_some(large, CAPACITY)
    ended: list[str] = []
    for _ in range(3):
        documents: list[Any] = []
        calls = large.calls_of(lambda documents=documents: documents.append(large("metrics", "publish")))
        assert calls.total() <= CALLS
        ended += documents[0]["queues"][0]["ended_job_ids"]
        large.aws.advance(60)

    assert len(ended) == len(set(ended)) == CAPACITY


def test_c49_one_poll_of_wait_costs_ten_calls(large):
    context = large.context(Options())
    ids = [job["job_id"] for job in large("queue")["jobs"]]

    calls = large.calls_of(lambda: look_in_queue(context.jobs, "search-gpu", ids))

    assert calls.total() <= CALLS


def test_c49_efficiency_lists_few_pages_and_describes_a_hundred_jobs(large):
    documents: list[Any] = []
    calls = large.calls_of(lambda: documents.append(large("efficiency", "--since", "1h")))

    assert len(documents[0]["jobs"]) == 100
    assert calls["DescribeServiceJob"] == 100
    assert calls["ListServiceJobs"] <= PAST_CALLS + 1
    assert calls["GetMetricData"] <= 2
    assert calls.total() <= 100 + 100 + PAST_CALLS + 5  # 100 training jobs, too
