"""Quota shares: every example of AWS's own texts (QM-1 to QM-9, FS-7 and FS-8 of the project's notes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.model import JobStatus
from fairshare.scheduler.engine import Preemption, PreemptionNotice

MakeLab = Callable[..., Any]

OVER_QUOTA = "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED"
TOO_LARGE = (
    "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE - Service environment(s) associated with the job queue cannot "
    "meet the capacity requirement of the job."
)


def blocked(lab: Any, job_id: str) -> str | None:
    """Why a job waits, once everything that is due has happened; notices say the same."""
    lab.to(1)
    (notice,) = lab.engine.take_notices()
    job = lab.engine.job(job_id)
    assert (job.status, notice.job_id, notice.reason) == (JobStatus.RUNNABLE, job_id, job.status_reason)
    return str(notice.reason)


@pytest.mark.parametrize("sharing", ["RESERVE", "LEND"])
def test_qm_1_a_job_larger_than_its_share_never_runs(make_quota_lab: MakeLab, sharing: str) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/sm_job_stuck_in_runnable_capacity.html and siblings."""
    lab = make_quota_lab(20)
    lab.share("A", 4, sharing)
    lab.share("B", 4, "LEND")
    lab.job("five", "A", 5)
    assert blocked(lab, "five") == f"{OVER_QUOTA} - Job requirements exceed quota share capacity limits."


def test_qm_2_a_job_larger_than_its_share_may_borrow_to_never_runs(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(20)
    lab.share("A", 2, borrow_limit=100)
    lab.share("B", 10, "LEND")
    lab.job("four", "A", 4, runs=0)
    lab.job("five", "A", 5)
    assert blocked(lab, "five") == (
        f"{OVER_QUOTA} - Job requirements exceed quota share capacity limits and borrow limits."
    )
    assert lab.status("four") is JobStatus.SUCCEEDED


def test_qm_3_a_job_larger_than_all_that_can_be_borrowed_never_runs(make_quota_lab: MakeLab) -> None:
    """4 + 4 is all there is, although the environment has more: what belongs to no share is not lent."""
    lab = make_quota_lab(10)
    lab.share("A", 4, borrow_limit=200)
    lab.share("B", 4, borrow_limit=200)
    lab.job("eight", "A", 8, runs=0)
    lab.job("ten", "A", 10)
    assert blocked(lab, "ten") == (
        f"{OVER_QUOTA} - Job requires borrowing that exceeds all configured borrowable capacity."
    )
    assert lab.status("eight") is JobStatus.SUCCEEDED


def test_qm_4_the_notebook_of_the_sdk(make_quota_lab: MakeLab) -> None:
    """sm-training-queues_quota-management.ipynb of the SageMaker SDK: lending, reclaiming, and a priority raised."""
    lab = make_quota_lab(3)
    lab.share("QS1", 1, borrow_limit=200, preempts=True)
    lab.share("QS2", 1, "LEND")
    lab.share("QS3", 1, "RESERVE")
    for job_id, priority in (("low", 1), ("med", 2), ("high", 3)):
        lab.job(job_id, "QS1", priority=priority)
    lab.to(0)
    assert (lab.started(), lab.status("low")) == (["high", "med"], JobStatus.RUNNABLE)

    lab.job("qs2-job", "QS2", priority=1, at=100)
    lab.to(100)
    assert lab.engine.job("med").status_reason == (
        "PREEMPTION_IN_PROGRESS: Cross-share preemption triggered to reclaim borrowed capacity"
    )
    assert lab.status("qs2-job") is JobStatus.RUNNABLE
    lab.to(120)
    assert (lab.status("med"), lab.status("qs2-job")) == (JobStatus.RUNNABLE, JobStatus.SCHEDULED)
    assert lab.engine.job("med").status_reason == "Cross-share preemption triggered to reclaim borrowed capacity"

    lab.engine.update("low", 4, 200_000)
    lab.to(220)
    assert lab.in_use() == {"low", "qs2-job"}
    assert lab.engine.job("high").status_reason == "In-share preemption triggered by a higher priority job"
    cross, in_share = Preemption.CROSS_SHARE, Preemption.IN_SHARE
    assert lab.engine.take_preemptions() == [
        PreemptionNotice("med", 1, cross, 100_000, "qs2-job"),
        PreemptionNotice("med", 1, cross, 120_000, "qs2-job", is_completed=True),
        PreemptionNotice("high", 1, in_share, 200_000, "low"),
        PreemptionNotice("high", 1, in_share, 220_000, "low", is_completed=True),
    ]


def test_qm_5_utilisation_by_share_and_type(make_quota_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/track-capacity-utilization-service-jobs.html."""
    lab = make_quota_lab({"ml.m5.large": 10})
    lab.share("first", {"ml.m5.large": 5}, "RESERVE")
    lab.share("second", {"ml.m5.large": 5}, "RESERVE")
    for number in range(6):
        lab.job(f"first-{number}", "first", {"ml.m5.large": 1})
    lab.job("second-0", "second", {"ml.m5.large": 4})
    lab.to(0)
    snapshot = lab.engine.snapshot("q")
    assert snapshot.instances_in_use == 9
    assert snapshot.instances_by_share == {"first": 5, "second": 4}
    assert snapshot.instances_by_quota_share == {"first": {"ml.m5.large": 5}, "second": {"ml.m5.large": 4}}
    assert snapshot.front_of_quota_shares == {"first": ("first-5", 0)}


def test_qm_6_the_shares_of_the_cli_sample(make_quota_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/create-quota-shares.html: 5 that may borrow 5, 8 lent."""
    kind = "ml.m6i.large"
    lab = make_quota_lab({kind: 15})
    lab.share("lend_and_borrow_qs", {kind: 5}, borrow_limit=100, preempts=True)
    lab.share("lend_qs", {kind: 8}, "LEND")
    lab.share("reserved_qs", {kind: 2}, "RESERVE")
    for share in ("lend_and_borrow_qs", "reserved_qs"):
        for number in range(20):
            lab.job(f"{share}-{number}", share, {kind: 1})
    lab.to(0)
    assert lab.use() == {"lend_and_borrow_qs": {kind: 10}, "reserved_qs": {kind: 2}}
    lab.job("lend-0", "lend_qs", {kind: 8}, at=10)
    lab.to(30)
    assert lab.use() == {"lend_and_borrow_qs": {kind: 5}, "lend_qs": {kind: 8}, "reserved_qs": {kind: 2}}


def test_qm_7_a_share_with_two_instance_types_borrows_each_by_itself(make_quota_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateQuotaShare.html, example: borrow limit 200."""
    large, xlarge = "ml.m5.large", "ml.m5.xlarge"
    lab = make_quota_lab({large: 100, xlarge: 100})
    lab.share("TeamAShare", {large: 10, xlarge: 5}, borrow_limit=200, preempts=True)
    lab.share("TeamBShare", {large: 90, xlarge: 95}, "LEND")
    for number in range(30):
        lab.job(f"large-{number}", "TeamAShare", {large: 1})
    for number in range(16):
        lab.job(f"xlarge-{number}", "TeamAShare", {xlarge: 1})
    lab.to(0)
    assert lab.use() == {"TeamAShare": {large: 30, xlarge: 15}}
    assert lab.status("xlarge-15") is JobStatus.RUNNABLE


def test_qm_8_a_job_larger_than_the_environment_has_another_reason(make_quota_lab: MakeLab) -> None:
    lab = make_quota_lab(10)
    lab.share("A", 12)
    lab.job("twelve", "A", 12)
    assert blocked(lab, "twelve") == TOO_LARGE


@pytest.mark.parametrize("size", [1, 5], ids=["qm_9", "qm_9_with_gangs"])
def test_fs_7_and_qm_9_borrowed_capacity_comes_back(make_quota_lab: MakeLab, size: int) -> None:
    """The Amazon Search blog: 60 and 40 of 100; ProdExp2 uses 25, so ProdExp1 runs 75, until ProdExp2 needs 40."""
    lab = make_quota_lab(100)
    lab.share("ProdExp1", 60)
    lab.share("ProdExp2", 40)
    for number in range(25 // size):
        lab.job(f"two-{number}", "ProdExp2", size)
    for number in range(100 // size):
        lab.job(f"one-{number}", "ProdExp1", size, at=1)
    lab.to(1)
    assert lab.use() == {"ProdExp1": {"g5": 75}, "ProdExp2": {"g5": 25}}
    for number in range(15 // size):
        lab.job(f"two-more-{number}", "ProdExp2", size, at=100)
    lab.to(100)
    assert len(lab.preempted()) == 15 // size
    assert lab.use() == {"ProdExp1": {"g5": 75}, "ProdExp2": {"g5": 25}}
    lab.to(120)
    assert lab.use() == {"ProdExp1": {"g5": 60}, "ProdExp2": {"g5": 40}}
    lab.to(1000)
    assert lab.preempted() == []


def test_fs_8_a_higher_priority_displaces_the_lowest_of_its_share(make_quota_lab: MakeLab) -> None:
    """The Amazon Search blog: at its 60 instances a share stops D (10) for a job of priority 90, and stays at 60."""
    lab = make_quota_lab(100)
    lab.share("ProdExp1", 60, preempts=True)
    lab.share("ProdExp2", 40, "RESERVE")
    for job_id, priority in (("A", 80), ("B", 50), ("C", 30), ("D", 10)):
        lab.job(job_id, "ProdExp1", 15, priority=priority)
    lab.job("urgent", "ProdExp1", 15, priority=90, at=60)
    lab.to(60)
    assert lab.preempted() == ["D"]
    lab.to(80)
    assert lab.in_use() == {"A", "B", "C", "urgent"}
    assert lab.use() == {"ProdExp1": {"g5": 60}}
    assert lab.status("D") is JobStatus.RUNNABLE
