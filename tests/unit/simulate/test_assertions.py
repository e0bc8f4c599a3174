"""Assertions judged by small simulations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairshare.config.policy_tests import parse_policy_test
from fairshare.config.project import parse_project
from fairshare.model import UsageError
from fairshare.scheduler.engine import TimeLimit
from fairshare.simulate.assertions import Verdict, judge
from fairshare.simulate.figures import Figures, figures_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, setting_of, single_pool
from fairshare.simulate.workload import Workload

MakeWorkload = Callable[..., Workload]


@pytest.fixture
def crowded(workload: MakeWorkload, fair: Setting) -> Figures:
    """HIGHPRI and LOWPRI both want four instances for hours; 1 and 5 are their weights."""
    rows = [(n, 600, 1, share) for n in range(60) for share in ("HIGHPRI", "LOWPRI")]
    return figures_of(simulate(workload(*rows), fair))


def verdict(text: str, figures: Figures) -> Verdict:
    return judge(parse_policy_test(text), "monday.yaml", figures)


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("LOWPRI gets >= 10% when busy", True),
        ("LOWPRI gets >= 30% when busy", False),
        ("LOWPRI gets >= 45%", True),
        ("HIGHPRI gets > 60% when busy", True),
        ("HIGHPRI max wait < 4h", True),
        ("LOWPRI max wait < 4h", False),
        ("no share waits > 4h", False),
        ("no share waits > 6h", True),
        ("utilization >= 99% when busy", True),
    ],
)
def test_verdicts(crowded: Figures, text: str, passed: bool) -> None:
    assert verdict(text, crowded).passed is passed


def test_what_was_found_names_the_shares_that_fail(crowded: Figures) -> None:
    assert verdict("no share waits > 4h", crowded).found == "LOWPRI max wait 4 h 49 min"
    assert verdict("HIGHPRI p50 wait < 4h", crowded).found.startswith("HIGHPRI p50 wait ")


def test_a_share_without_jobs_cannot_be_judged(crowded: Figures) -> None:
    with pytest.raises(UsageError, match="the workload has no job of share LOWPRIO") as refused:
        verdict("LOWPRIO gets >= 10%", crowded)
    assert refused.value.hint == "did you mean LOWPRI? (shares: HIGHPRI, LOWPRI)"


PROJECT = """\
version: 1
stack: s
service_environments: {sweep: {capacity_limits: {ml.c5.xlarge: 4}}}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.c5.xlarge: 2}, sharing: LEND_AND_BORROW, borrow_limit: 100}
      TEAMB: {capacity_limits: {ml.c5.xlarge: 2}, sharing: LEND}
"""


@pytest.fixture
def reclaimed(workload: MakeWorkload) -> Figures:
    """TEAMA holds four instances, two of them borrowed, until TEAMB takes its own back, one after the other."""
    rows = [*[(0, 600, 1, "TEAMA")] * 4, (100, 600, 1, "TEAMB"), (200, 600, 1, "TEAMB")]
    quota = setting_of("quota", parse_project(PROJECT, Path("fairshare.yaml")))
    return figures_of(simulate(workload(*rows), quota))


@pytest.mark.parametrize(
    ("text", "passed", "found"),
    [
        ("TEAMA preemptions <= 2", True, "TEAMA was preempted 2 times"),
        ("TEAMA preemptions < 2", False, "TEAMA was preempted 2 times"),
        ("TEAMB preemptions < 1", True, "TEAMB was preempted 0 times"),
        ("preemptions <= 1", False, "2 preemptions"),
        ("TEAMB p95 wait < 1m", True, "TEAMB p95 wait 0 s"),
        ("no share waits > 4h", True, "TEAMA max wait 0 s, TEAMB max wait 0 s"),
    ],
)
def test_verdicts_on_quota_shares(reclaimed: Figures, text: str, passed: bool, found: str) -> None:
    assert verdict(text, reclaimed) == Verdict(parse_policy_test(text), "monday.yaml", passed, found)


@pytest.mark.parametrize("text", ["A p50 wait < 1h", "A max wait < 1h", "no share waits > 4h"])
def test_a_job_that_never_starts_waits_for_ever(workload: MakeWorkload, fair: Setting, text: str) -> None:
    """The queue gives up the first job after ten minutes, as its time limit says."""
    limit = TimeLimit("MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE", 600_000)
    queues = {**fair.queues, "gpu": replace(fair.queues["gpu"], time_limits=(limit,))}
    figures = figures_of(simulate(workload((0, 10, 5, "A"), (0, 10, 1, "A")), replace(fair, queues=queues)))

    assert verdict(text, figures) == Verdict(
        parse_policy_test(text), "monday.yaml", False, "1 of 2 jobs of A never started"
    )


def test_a_pool_that_was_never_busy_fails_rather_than_pass_unseen(workload: MakeWorkload) -> None:
    idle = figures_of(simulate(workload((0, 10, 1, "A")), single_pool(4)))

    for text in ("A gets >= 10% when busy", "utilization >= 10% when busy"):
        assert verdict(text, idle) == Verdict(
            parse_policy_test(text), "monday.yaml", False, "the pool was never busy: nothing to judge"
        )
