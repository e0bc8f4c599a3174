"""Simulations of queues with quota shares, and of one line over several instance types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fairshare.config.project import parse_project
from fairshare.model import InfeasibleError, UsageError
from fairshare.scheduler.engine import VictimRule
from fairshare.simulate.course import NOT_YET, Course
from fairshare.simulate.figures import figures_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, first_in_first_out, setting_of, with_capacities
from fairshare.simulate.workload import WorkJob, workload_of

PROJECT = """\
version: 1
stack: s
service_environments:
  sweep: {capacity_limits: {ml.c5.xlarge: 4, ml.p4d.24xlarge: 2}}
  one: {capacity_limits: {ml.g5.xlarge: 3}}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.c5.xlarge: 2, ml.p4d.24xlarge: 2}, sharing: LEND_AND_BORROW, in_share_preemption: true}
      TEAMB: {capacity_limits: {ml.c5.xlarge: 2}, sharing: LEND}
  qm4:
    service_environment: one
    quota_shares:
      QS1: {capacity_limits: {ml.g5.xlarge: 1}, sharing: LEND_AND_BORROW, borrow_limit: 200, in_share_preemption: true}
      QS2: {capacity_limits: {ml.g5.xlarge: 1}, sharing: LEND}
      QS3: {capacity_limits: {ml.g5.xlarge: 1}, sharing: RESERVE}
    time_limits: {misconfiguration: 10m}
defaults: {queue: sweep}
"""  # noqa: E501


@pytest.fixture
def quota() -> Setting:
    return setting_of("quota", parse_project(PROJECT, Path("fairshare.yaml")))


def run(setting: Setting, *jobs: WorkJob) -> Course:
    return simulate(workload_of("jobs", jobs, from_first=False), setting)


def job(
    name: str, at: int, seconds: int, demand: int, share: str, kind: str = "ml.c5.xlarge", priority: int = 0
) -> WorkJob:
    return WorkJob(name, at * 1000, seconds * 1000, demand, share, priority, "", kind)


def pieces(course: Course) -> list[tuple[str, int, int, bool]]:
    """Return (job, start, end, preempted) of each attempt, in seconds."""
    return [
        (course.workload.jobs[each.job].id, each.start // 1000, each.end // 1000, each.is_preempted)
        for each in course.attempts()
    ]


def test_lent_instances_come_back_and_the_work_is_lost(quota: Setting) -> None:
    course = run(quota, job("big", 0, 100, 4, "TEAMA"), job("owner", 40, 10, 2, "TEAMB"))

    assert pieces(course) == [("big", 0, 40, True), ("owner", 40, 50, False), ("big", 50, 150, False)]
    figures = figures_of(course)
    assert (figures.preemptions, figures.lost, figures.unfinished) == (1, 160.0, 0)
    assert figures.makespan == 150


def test_a_higher_priority_displaces_in_its_share(quota: Setting) -> None:
    course = run(
        quota,
        job("low", 0, 100, 2, "TEAMA", "ml.p4d.24xlarge", 1),
        job("high", 10, 20, 2, "TEAMA", "ml.p4d.24xlarge", 5),
    )
    assert pieces(course) == [("low", 0, 10, True), ("high", 10, 30, False), ("low", 30, 130, False)]


def test_the_rule_of_victims_decides_whose_work_is_lost(quota: Setting) -> None:
    jobs = (
        job("old", 0, 100, 2, "TEAMA", priority=1),
        job("young", 10, 100, 2, "TEAMA", priority=2),
        job("owner", 20, 10, 2, "TEAMB"),
    )

    team_a, team_b = quota.quota_shares["sweep"]
    calm = replace(quota, quota_shares={"sweep": [replace(team_a, in_share_preemption=False), team_b]})

    def stopped(rule: VictimRule) -> list[str]:
        course = run(replace(calm, options=replace(calm.options, victim_rule=rule)), *jobs)
        return [name for name, _, _, is_preempted in pieces(course) if is_preempted]

    assert stopped(VictimRule.LOWEST_PRIORITY) == ["old"]
    assert stopped(VictimRule.LATEST_START) == ["young"]


def test_qm4_the_notebook(quota: Setting) -> None:
    course = run(
        replace(quota, queue="qm4"),
        *(WorkJob(name, 0, 600_000, 1, "QS1", n) for name, n in (("high", 3), ("med", 2), ("low", 1))),
        WorkJob("owner", 60_000, 600_000, 1, "QS2", 1),
    )
    assert pieces(course)[:3] == [("high", 0, 600, False), ("med", 0, 60, True), ("owner", 60, 660, False)]


def test_first_in_first_out_over_two_families_waits_for_the_head(quota: Setting) -> None:
    jobs = (
        job("gpu-1", 0, 100, 2, "TEAMA", "ml.p4d.24xlarge"),
        job("gpu-2", 1, 100, 2, "TEAMA", "ml.p4d.24xlarge"),
        job("cpu", 2, 10, 1, "TEAMB", priority=9),
    )
    line = first_in_first_out(quota)
    assert [(name, start) for name, start, _, _ in pieces(run(line, *jobs))] == [
        ("gpu-1", 0),
        ("gpu-2", 100),
        ("cpu", 100),
    ]
    assert [(name, start) for name, start, _, _ in pieces(run(quota, *jobs))] == [
        ("gpu-1", 0),
        ("cpu", 2),
        ("gpu-2", 100),
    ]


def test_what_each_share_is_due_is_what_it_owns(quota: Setting) -> None:
    weights = {name: float(weight) for name, weight in quota.weights["sweep"].items()}
    assert weights["TEAMB"] / weights["TEAMA"] == pytest.approx(2.0, rel=1e-3)


def test_capacity_of_one_type_is_a_what_if(quota: Setting) -> None:
    larger = with_capacities(quota, [("sweep/ml.c5.xlarge", 8)])
    assert larger.limits_of("sweep") == {"ml.c5.xlarge": 8, "ml.p4d.24xlarge": 2}
    assert larger.capacity_of("sweep") == 10
    assert with_capacities(quota, [("one", 9)]).limits_of("qm4") == {"ml.g5.xlarge": 9}
    with pytest.raises(UsageError) as refused:
        with_capacities(quota, [("sweep", 8)])
    assert refused.value.message == "--capacity: service environment sweep counts instances by type"
    assert refused.value.hint == "write --capacity sweep/ml.c5.xlarge=8 (types: ml.c5.xlarge, ml.p4d.24xlarge)"
    with pytest.raises(UsageError, match=r"service environment sweep has no ml\.m5\.large"):
        with_capacities(quota, [("sweep/ml.m5.large", 8)])


def test_jobs_that_the_quotas_cannot_take_are_refused(quota: Setting) -> None:
    with pytest.raises(UsageError) as refused:
        run(quota, job("a", 0, 1, 1, "TEAMC"))
    assert refused.value.message == "job a is of quota share TEAMC, which queue sweep does not have"
    assert refused.value.hint == "did you mean TEAMB? (quota shares: TEAMA, TEAMB)"
    with pytest.raises(UsageError, match="names no instance type that queue sweep has"):
        run(quota, job("a", 0, 1, 1, "TEAMA", ""))
    with pytest.raises(InfeasibleError) as infeasible:
        run(quota, job("a", 0, 1, 3, "TEAMB"))
    assert infeasible.value.message == (
        "job a needs 3 instances of ml.c5.xlarge; its quota share TEAMB could never start it: "
        "Job requirements exceed quota share capacity limits."
    )
    with pytest.raises(InfeasibleError, match="the environment has 2"):
        run(quota, job("a", 0, 1, 3, "TEAMA", "ml.p4d.24xlarge"))


def test_every_job_is_accounted_for(quota: Setting) -> None:
    jobs = [
        job(f"{share}{n}", n, 7 + 5 * n % 11, 1 + n % 2, share, priority=n % 3)
        for n in range(40)
        for share in ("TEAMA", "TEAMB")
    ]
    course = run(quota, *jobs)
    assert all(end != NOT_YET for end in course.last_ends)
    assert figures_of(course).unfinished == 0
    assert figures_of(course).preemptions > 0
    done = [each for each in course.attempts() if not each.is_preempted]
    assert sorted(each.job for each in done) == list(range(80))
    for each in done:
        assert each.end - each.start == course.workload.jobs[each.job].run_time
    assert pieces(course) == pieces(run(quota, *jobs))
