"""Simulations of queues with quota shares, and of one line over several instance types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fairshare.config.project import parse_project
from fairshare.model import InfeasibleError, InvalidFileError, UsageError
from fairshare.scheduler.engine import Preemption, VictimRule
from fairshare.simulate.course import NOT_YET, Course
from fairshare.simulate.document import flat_rows, policy_document
from fairshare.simulate.figures import Preempted, figures_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import (
    Comparison,
    Setting,
    first_in_first_out,
    setting_of,
    settings_of,
    with_capacities,
)
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
    assert (figures.preempted.attempts, figures.preempted.lost, figures.unfinished) == (1, 160.0, 0)
    assert figures.makespan == 150


def test_preemptions_and_lost_work_are_told_by_kind_and_share(quota: Setting) -> None:
    course = run(
        quota,
        job("guest", 0, 100, 4, "TEAMA"),
        job("owner", 40, 10, 2, "TEAMB"),
        job("low", 0, 100, 2, "TEAMA", "ml.p4d.24xlarge", 1),
        job("high", 10, 20, 2, "TEAMA", "ml.p4d.24xlarge", 5),
    )
    figures = figures_of(course)
    kinds = {Preemption.CROSS_SHARE: 1, Preemption.IN_SHARE: 1}
    assert figures.preempted == Preempted(2, kinds, 4 * 40.0 + 2 * 10.0)
    of_team_a, of_team_b = (share.preempted for share in figures.shares)
    assert of_team_a == figures.preempted
    assert of_team_b == Preempted(0, dict.fromkeys(kinds, 0), 0.0)

    document = policy_document(course, figures)
    told = {
        "preemptions": 2,
        "preemptions_by_kind": {"CROSS_SHARE": 1, "IN_SHARE": 1},
        "lost_instance_seconds": 180.0,
    }
    assert document["shares"]["TEAMA"].items() >= told.items()
    assert document.items() >= told.items()
    rows = {row["share"]: row for row in flat_rows([document])}
    for share, numbers in {"": (2, 1, 1, 180.0), "TEAMA": (2, 1, 1, 180.0), "TEAMB": (0, 0, 0, 0.0)}.items():
        columns = ("preemptions", "preemptions_cross_share", "preemptions_in_share", "lost_instance_seconds")
        assert tuple(rows[share][column] for column in columns) == numbers


def test_in_one_line_a_job_still_needs_the_only_type_of_its_share(quota: Setting) -> None:
    jobs = (job("a", 0, 9, 1, "TEAMB", ""), job("b", 0, 9, 1, "TEAMA", "ml.p4d.24xlarge"))
    line = first_in_first_out(quota)
    assert [line.only_type_of("sweep", share) for share in ("TEAMA", "TEAMB")] == ["", "ml.c5.xlarge"]
    assert pieces(run(line, *jobs)) == pieces(run(quota, *jobs)) == [("a", 0, 9, False), ("b", 0, 9, False)]


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


TEAM_A = "queues.sweep.quota_shares.TEAMA"
TEAM_B = "queues.sweep.quota_shares.TEAMB"


@pytest.fixture
def quota_file(tmp_path: Path) -> Path:
    path = tmp_path / "quota.yaml"
    path.write_text(PROJECT)
    return path


def test_a_borrow_limit_is_a_what_if(quota_file: Path) -> None:
    changes = [(f"{TEAM_A}.borrow_limit", "50"), (f"{TEAM_A}.borrow_limit", "100")]
    narrow, wide = settings_of(Comparison(policies=[], changes=changes), quota_file)[2:]
    jobs = [job(str(number), 0, 100, 1, "TEAMA") for number in range(4)]

    assert (narrow.name, wide.name) == ("quota TEAMA.borrow_limit=50", "quota TEAMA.borrow_limit=100")
    assert [start for _, start, _, _ in pieces(run(narrow, *jobs))] == [0, 0, 0, 100]
    assert [start for _, start, _, _ in pieces(run(wide, *jobs))] == [0, 0, 0, 0]


def test_the_limit_of_one_type_is_a_what_if(quota_file: Path) -> None:
    """TEAMA holds all four. If three are its own, stopping what it borrowed makes no room for two, and nobody is."""
    key = f"{TEAM_A}.capacity_limits.ml.c5.xlarge"
    _, before, after = settings_of(Comparison(changes=[(key, "3")]), quota_file)
    jobs = (*(job(str(number), 0, 100, 1, "TEAMA") for number in range(4)), job("owner", 40, 10, 2, "TEAMB"))

    assert after.name == "quota TEAMA.ml.c5.xlarge=3"
    assert [figures_of(run(each, *jobs)).preempted.attempts for each in (before, after)] == [2, 0]


def test_a_type_is_added_and_removed_by_its_whole_name(quota_file: Path) -> None:
    more = ("service_environments.sweep.capacity_limits.ml.m5.large", "7")
    less = (f"{TEAM_A}.capacity_limits.ml.p4d.24xlarge", "")
    changed = settings_of(Comparison(changes=[more, less]), quota_file)[-1]

    assert changed.limits_of("sweep") == {"ml.c5.xlarge": 4, "ml.p4d.24xlarge": 2, "ml.m5.large": 7}
    assert changed.only_type_of("sweep", "TEAMA") == "ml.c5.xlarge"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (f"{TEAM_A}.borow_limit", "50", 'unknown key "borow_limit" in queues.sweep.quota_shares.TEAMA'),
        (f"{TEAM_A}.borrow_limit", "much", f'{TEAM_A}.borrow_limit: must be a whole number, not "much"'),
        (f"{TEAM_B}.borrow_limit", "50", f"{TEAM_B}.borrow_limit: a share that is LEND does not borrow"),
        (
            f"{TEAM_A}.capacity_limits.ml.c5.tiny",
            "4",
            "quota share TEAMA has ml.c5.tiny, and service environment sweep has none",
        ),
    ],
)
def test_a_quota_that_cannot_be_is_refused_where_it_would_stand(
    quota_file: Path, key: str, value: str, message: str
) -> None:
    with pytest.raises(InvalidFileError) as refused:
        settings_of(Comparison(changes=[(key, value)]), quota_file)
    (problem,) = refused.value.problems
    assert problem.message == message
    assert (problem.file, problem.line) == (str(quota_file), 10 if "TEAMA" in key else 11)


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
    assert figures_of(course).preempted.attempts > 0
    done = [each for each in course.attempts() if not each.is_preempted]
    assert sorted(each.job for each in done) == list(range(80))
    for each in done:
        assert each.end - each.start == course.workload.jobs[each.job].run_time
    assert pieces(course) == pieces(run(quota, *jobs))
