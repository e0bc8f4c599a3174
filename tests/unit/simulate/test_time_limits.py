"""Jobs that can never start and are ended by a time limit of their queue: told as that, and in the way of no figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairshare.config.project import parse_project
from fairshare.model import FairsharePolicy, InfeasibleError
from fairshare.scheduler.engine import Blocking
from fairshare.simulate.course import GivenUp
from fairshare.simulate.document import policy_document
from fairshare.simulate.figures import Figures, figures_of
from fairshare.simulate.notes import notes_of
from fairshare.simulate.report import report_page
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, first_in_first_out, setting_of
from fairshare.simulate.workload import WorkJob, Workload, workload_of

MakeWorkload = Callable[..., Workload]
TOO_LARGE = "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE"
OVER_QUOTA = "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED"
PROJECT = """\
version: 1
stack: s
service_environments:
  gpu: {capacity: 4, instance_types: [ml.g6.12xlarge]}
  typed: {capacity_limits: {ml.c5.xlarge: 3}}
queues:
  gpu: {service_environment: gpu, fairshare: {shares: {A: {weight_factor: 1}}}, time_limits: {misconfiguration: 10m}}
  typed:
    service_environment: typed
    quota_shares:
      A: {capacity_limits: {ml.c5.xlarge: 2}, sharing: LEND_AND_BORROW}
      B: {capacity_limits: {ml.c5.xlarge: 1}, sharing: LEND}
    time_limits: {misconfiguration: 10m}
defaults: {queue: gpu}
"""


@pytest.fixture
def limited() -> Setting:
    """A fair-share queue on 4 instances that ends what is too large after 10 minutes, and one with quota shares."""
    return setting_of("limited", parse_project(PROJECT, Path("fairshare.yaml")))


def unmoved(figures: Figures) -> object:
    """The figures that a job which never started must not change."""
    return (figures.waits, figures.utilization, figures.utilization_at_peak, figures.makespan, figures.slowdown)


@pytest.mark.parametrize("blocking", Blocking)
def test_a_job_that_is_too_large_is_ended_and_told_as_that(
    workload: MakeWorkload, limited: Setting, blocking: Blocking
) -> None:
    jobs = workload((0, 100, 4, "A"), (50, 100, 5, "A"), (60, 10, 1, "A"))
    setting = replace(limited, options=replace(limited.options, blocking=blocking))
    course = simulate(jobs, setting)
    figures = figures_of(course)

    assert course.given_up == {1: GivenUp(650_000, TOO_LARGE)}
    assert (figures.given_up, figures.unfinished, figures.waits.jobs) == ({TOO_LARGE: 1}, 0, 2)
    (share,) = figures.shares
    assert (share.jobs, share.waits.jobs, share.given_up, share.unfinished) == (3, 2, 1, 0)
    assert figures.waits.max == (40 if blocking is Blocking.NONE else 590)
    assert figures.jobs_per_hour == pytest.approx(2 * 3600 / figures.makespan, abs=1e-5)


def test_what_it_held_up_waits_and_it_does_not_itself(workload: MakeWorkload, limited: Setting) -> None:
    """From 100 s to 650 s instances are free and one job waits for them behind the one that never starts."""
    figures = figures_of(simulate(workload((0, 100, 4, "A"), (50, 100, 5, "A"), (60, 10, 4, "A")), limited))

    assert (figures.makespan, figures.utilization) == (660, round((400 + 40) / (4 * 660), 6))
    assert figures.utilization_at_peak == round(160 / (4 * 590), 6)  # from 60 s on
    assert figures.starvation == 550
    assert max(figures.timeline.waiting) == 2
    assert max(series for (series,) in zip(*figures.timeline.wanted, strict=True)) == 8


def test_a_job_that_is_given_up_after_the_last_end_changes_no_figure(workload: MakeWorkload, limited: Setting) -> None:
    rows = [(0, 100, 4, "A"), (10, 100, 2, "A")]
    usual = figures_of(simulate(workload(*rows), limited))
    late = figures_of(simulate(workload(*rows, (50, 100, 9, "A"), (5_000, 100, 5, "A")), limited))

    assert unmoved(late) == unmoved(usual)
    assert late.given_up == {TOO_LARGE: 2}
    assert max(late.timeline.waiting) == 2
    assert sum(late.timeline.wanted[0]) == pytest.approx(sum(usual.timeline.wanted[0]))


def test_a_quota_that_a_job_exceeds_has_a_code_of_its_own(limited: Setting) -> None:
    jobs = [WorkJob(f"{share}{n}", 0, 1000, n, share, queue="typed") for share in "AB" for n in (2, 4)]
    course = simulate(workload_of("jobs", jobs), limited)

    reasons = {jobs[index].id: given_up.reason for index, given_up in course.given_up.items()}
    assert reasons == {"A4": TOO_LARGE, "B2": OVER_QUOTA, "B4": TOO_LARGE}
    assert figures_of(course).given_up == {OVER_QUOTA: 1, TOO_LARGE: 2}
    line = simulate(workload_of("jobs", jobs), first_in_first_out(limited))
    assert {jobs[index].id for index in line.given_up} == {"A4", "B4"}


def test_a_time_limit_for_another_reason_ends_nothing(workload: MakeWorkload, limited: Setting) -> None:
    (misconfigured,) = limited.queues["gpu"].time_limits
    other = replace(misconfigured, reason="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
    queue = replace(limited.queues["gpu"], time_limits=(other,))

    with pytest.raises(InfeasibleError, match="1 of 1 jobs of rows need up to 5 instances; gpu has 4"):
        simulate(workload((0, 100, 5, "A")), replace(limited, queues={"gpu": queue}))


def test_notes_and_documents_tell_them_apart_from_jobs_that_never_ended(
    workload: MakeWorkload, limited: Setting
) -> None:
    """Half of the pool is held back: what needs 3 instances never starts, and no time limit is for that."""
    policy = limited.queues["gpu"].policy
    assert isinstance(policy, FairsharePolicy)
    queue = replace(limited.queues["gpu"], policy=replace(policy, compute_reservation=50))
    setting = replace(limited, queues={**limited.queues, "gpu": queue})
    jobs = workload((0, 100, 2, "A"), (50, 100, 5, "A"), (9_000, 100, 3, "A"), (9_001, 100, 3, "A"))
    course = simulate(jobs, setting)
    figures = figures_of(course)

    assert notes_of(jobs, [setting], [figures])[1:] == [
        f"limited: 1 job was ended by a time limit ({TOO_LARGE}) and never started; no wait counts them.",
        "limited: 2 jobs never ended; no wait counts what never started.",
    ]
    document = policy_document(course, figures)
    assert (document["time_limited_jobs"], document["unfinished_jobs"]) == (1, 2)
    assert document["time_limited_by_reason"] == {TOO_LARGE: 1}
    assert document["shares"]["A"]["time_limited_jobs"] == 1
    assert (figures.makespan, figures.utilization) == (100, 0.5)
    assert sum(figures.timeline.waiting) * figures.timeline.step == pytest.approx(50_000)
    assert sum(figures.timeline.wanted[0]) * figures.timeline.step == pytest.approx(200_000)


def test_a_page_without_a_single_start(workload: MakeWorkload, limited: Setting) -> None:
    jobs = workload((0, 100, 5, "A"), (5, 100, 6, "A"))
    course = simulate(jobs, limited)
    figures = figures_of(course)

    assert (figures.makespan, figures.utilization, figures.waits.jobs, figures.given_up) == (0, 0, 0, {TOO_LARGE: 2})
    assert "jobs ended by a time limit</td>" in report_page(jobs, [(course, figures)], [])
