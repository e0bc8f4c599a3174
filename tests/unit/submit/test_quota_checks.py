"""Quota shares in what is submitted: defaults and flags, checks before the first call, the request that is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.aws.jobs import submit_request
from fairshare.config.job_file import parse_job_file
from fairshare.config.jobs import JobSpec, RetrySpec
from fairshare.config.project import Project, parse_project
from fairshare.model import JobRequest, Problem
from fairshare.submit.checks import check
from fairshare.submit.naming import JobNames
from fairshare.submit.ports import BuiltPayload
from fairshare.submit.requests import Alternative, PlannedJob, build_request, moved
from fairshare.submit.resolve import Overrides, Queues, resolve

PROJECT = """\
version: 1
stack: lab
service_environments:
  sweep: {capacity_limits: {ml.c5.2xlarge: 8, ml.c4.xlarge: 20}}
  gpu: {capacity: 4, instance_types: [ml.g6.xlarge]}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.c5.2xlarge: 3}, sharing: LEND_AND_BORROW, borrow_limit: 100}
      TEAMB: {capacity_limits: {ml.c5.2xlarge: 2}, sharing: LEND}
      FREE: {capacity_limits: {ml.c5.2xlarge: 3, ml.c4.xlarge: 40}, sharing: LEND_AND_BORROW}
  gpu: {service_environment: gpu, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
  line: {service_environment: gpu, fifo: true}
defaults:
  {queue: sweep, quota_share: TEAMB, share: HIGHPRI, priority: 7, role: R, image: i, instance_type: ml.c5.2xlarge}
"""

Look = Callable[..., list[Problem]]


@pytest.fixture
def lab() -> Project:
    return parse_project(PROJECT, Path("fairshare.yaml"))


@pytest.fixture
def look(lab: Project, make_job: Callable[..., JobSpec]) -> Look:
    """Check a job as it is on its queue."""

    def check_one(**changes: Any) -> list[Problem]:
        job = {"queue": "sweep", "share": None, "quota_share": "TEAMB", "instance_type": "ml.c5.2xlarge"} | changes
        return check([make_job(**job)], Queues(lab), region="us-west-2")

    return check_one


def only(problems: list[Problem]) -> tuple[str, str]:
    (problem,) = problems
    return problem.message, problem.hint


def test_a_job_that_fits_its_quota_share(look: Look) -> None:
    assert look() == []
    assert look(instance_count=2) == []
    assert look(quota_share="TEAMA", instance_count=6) == []


def test_the_share_must_exist_and_be_of_the_right_kind(look: Look) -> None:
    assert only(look(quota_share="TEAMC")) == (
        'job "digits": unknown quota share "TEAMC" in queue sweep',
        "did you mean TEAMB? (quota shares: TEAMA, TEAMB, FREE)",
    )
    assert only(look(quota_share=None)) == (
        'job "digits": queue sweep needs a quota share',
        "say `quota_share:`, --quota-share or defaults.quota_share (quota shares: TEAMA, TEAMB, FREE)",
    )
    assert only(look(share="HIGHPRI")) == (
        'job "digits": share (HIGHPRI) cannot be used: sweep is a queue with quota shares: it takes a quota_share',
        "remove share",
    )
    assert only(look(queue="gpu", share="HIGHPRI", instance_type="ml.g6.xlarge")) == (
        'job "digits": quota_share (TEAMB) cannot be used: gpu is a fair-share queue: it takes a share',
        "remove quota_share",
    )
    assert only(look(queue="line", priority=None, instance_type="ml.g6.xlarge"))[0] == (
        'job "digits": queue line is first-in-first-out and takes no quota_share (TEAMB)'
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"quota_share": "TEAMB", "instance_count": 3},
            "it needs 3 ml.c5.2xlarge at once; quota share TEAMB owns 2 ml.c5.2xlarge: it could never start "
            "(Job requirements exceed quota share capacity limits.)",
        ),
        (
            {"quota_share": "TEAMA", "instance_count": 7},
            "it needs 7 ml.c5.2xlarge at once; quota share TEAMA owns 3 ml.c5.2xlarge, and may borrow up to 100 % of "
            "it: it could never start (Job requirements exceed quota share capacity limits and borrow limits.)",
        ),
        (
            {"quota_share": "TEAMA", "instance_count": 9},
            "it needs 9 instances of ml.c5.2xlarge at once and queue sweep has 8: it could never start",
        ),
        (
            {"quota_share": "FREE", "instance_type": "ml.c4.xlarge", "instance_count": 21},
            "it needs 21 instances of ml.c4.xlarge at once and queue sweep has 20: it could never start",
        ),
        (
            {"quota_share": "TEAMA", "instance_type": "ml.c4.xlarge"},
            "it needs 1 ml.c4.xlarge at once; quota share TEAMA owns 0 ml.c4.xlarge, and may borrow up to 100 % of it: "
            "it could never start (Job requirements exceed quota share capacity limits and borrow limits.)",
        ),
    ],
)
def test_qm1_to_qm3_and_qm8_what_can_never_start_is_not_sent(look: Look, changes: dict[str, Any], message: str) -> None:
    assert only(look(**changes))[0] == f'job "digits": {message}'


def test_an_instance_type_without_a_limit(look: Look) -> None:
    message, hint = only(look(instance_type="ml.c5.xlarge"))
    assert message == 'job "digits": queue sweep is not for instance type ml.c5.xlarge'
    assert hint == "did you mean ml.c5.2xlarge? (instance types: ml.c5.2xlarge, ml.c4.xlarge)"


def test_defaults_reach_only_queues_that_have_such(lab: Project, make_job: Callable[..., JobSpec]) -> None:
    def filled(queue: str) -> tuple[str | None, str | None, int | None]:
        (job,) = resolve([make_job(queue=queue, share=None, quota_share=None, priority=None)], lab, Overrides())
        return job.share, job.quota_share, job.priority

    assert filled("sweep") == (None, "TEAMB", 7)
    assert filled("gpu") == ("HIGHPRI", None, 7)
    assert filled("line") == (None, None, None)


def test_a_job_of_several_queues_takes_on_each_what_that_has(lab: Project, make_job: Callable[..., JobSpec]) -> None:
    (job,) = resolve(
        [make_job(queues=("sweep", "gpu", "line"), queue="sweep", share=None, quota_share=None, priority=None)],
        lab,
        Overrides(),
    )
    placed = Queues(lab).by_queue(job)
    assert [(each.queue, each.share, each.quota_share, each.priority) for each in placed] == [
        ("sweep", None, "TEAMB", 7),
        ("gpu", "HIGHPRI", None, 7),
        ("line", None, None, None),
    ]


def test_flags_beat_the_file(lab: Project, make_job: Callable[..., JobSpec]) -> None:
    written = make_job(queue="sweep", share=None, quota_share="TEAMB", retry=RetrySpec(3, ("AlgorithmError",)))
    (job,) = resolve([written], lab, Overrides(quota_share="TEAMA", preemption_retries=0))
    assert job.quota_share == "TEAMA"
    assert job.retry == RetrySpec(3, ("AlgorithmError",), 0)


def test_the_job_file_says_them(tmp_path: Path) -> None:
    text = "jobs:\n  - {name: a, source: a.py, quota_share: TEAMA, retry: {preemption_retries: 3}}\n"
    (job,) = parse_job_file(text, tmp_path / "jobs.yaml").jobs
    assert job.quota_share == "TEAMA"
    assert job.retry == RetrySpec(preemption_retries=3)


def request_of(lab: Project, job: JobSpec) -> JobRequest:
    queue = Queues(lab).find(job.queue or "")
    assert queue is not None
    built = BuiltPayload({"ResourceConfig": {"InstanceType": "ml.c5.2xlarge", "InstanceCount": 1}}, (), None, ())
    names = JobNames("digits-1", "digits-1")
    return build_request(job, built, queue=queue, names=names, run_id="run", index=0)


def test_the_request_carries_the_quota_share(lab: Project, make_job: Callable[..., JobSpec]) -> None:
    job = make_job(queue="sweep", share=None, quota_share="TEAMA", priority=0, retry=RetrySpec(preemption_retries=0))
    sent = submit_request(request_of(lab, job))
    assert sent["quotaShareName"] == "TEAMA"
    assert sent["preemptionConfiguration"] == {"preemptionRetriesBeforeTermination": 0}
    assert sent["schedulingPriority"] == 0
    assert "shareIdentifier" not in sent

    fair = submit_request(request_of(lab, make_job(queue="gpu", retry=RetrySpec(preemption_retries=0))))
    assert "quotaShareName" not in fair
    assert "preemptionConfiguration" not in fair


def test_a_job_that_moves_leaves_its_quota_share_behind(lab: Project, make_job: Callable[..., JobSpec]) -> None:
    job = make_job(queue="sweep", share=None, quota_share="TEAMA", retry=RetrySpec(preemption_retries=2))
    planned = PlannedJob(0, 1, request_of(lab, job), alternatives=(Alternative("lab-gpu", "HIGHPRI", 7),))
    there = moved(planned, "lab-gpu", 2).request
    assert (there.quota_share, there.share_identifier, there.preemption_retries) == (None, "HIGHPRI", None)


def test_a_forecast_counts_on_what_the_quota_shares_may_hold(lab: Project) -> None:
    queues = Queues(lab)
    sweep, gpu = queues.find("sweep"), queues.find("gpu")
    assert sweep is not None
    assert gpu is not None
    assert sweep.capacity_for(["TEAMB", "TEAMB"]) == 2
    assert sweep.capacity_for(["TEAMA"]) == 6, "3 of its own, and as many borrowed"
    assert sweep.capacity_for(["TEAMA", "TEAMB"]) == 8
    assert sweep.capacity_for(["FREE"]) == 28, "without a borrow limit: all of both types"
    assert gpu.capacity_for([None]) == 4
