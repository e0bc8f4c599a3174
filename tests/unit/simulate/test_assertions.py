"""Assertions judged by small simulations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairshare.config.policy_tests import parse_policy_test
from fairshare.model import UsageError
from fairshare.simulate.assertions import Verdict, judge
from fairshare.simulate.figures import Figures, figures_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, single_pool
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


def test_a_pool_that_was_never_busy_fails_rather_than_pass_unseen(workload: MakeWorkload) -> None:
    idle = figures_of(simulate(workload((0, 10, 1, "A")), single_pool(4)))

    for text in ("A gets >= 10% when busy", "utilization >= 10% when busy"):
        assert verdict(text, idle) == Verdict(
            parse_policy_test(text), "monday.yaml", False, "the pool was never busy: nothing to judge"
        )
