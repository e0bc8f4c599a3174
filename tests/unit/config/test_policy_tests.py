"""Assertions about policies, as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.config.policy_tests import PolicyTest, parse_policy_test
from fairshare.config.project import parse_project
from fairshare.model import InvalidFileError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A p95 wait < 10m on s/mon day.yaml", PolicyTest("", "p95", "<", 600, "A", workload="s/mon day.yaml")),
        ("team-7 mean wait <= 90", PolicyTest("", "mean", "<=", 90, "team-7")),
        ("no share waits > 4h", PolicyTest("", "max", ">", 14_400, is_refused=True)),
        ("LOWPRI gets >=10% when  busy", PolicyTest("", "portion", ">=", 0.1, "LOWPRI", when_busy=True)),
        ("LOWPRI gets < 33.3%", PolicyTest("", "portion", "<", 0.333, "LOWPRI")),
        ("utilization >= 80% when busy on a.swf", PolicyTest("", "utilization", ">=", 0.8, None, True, False, "a.swf")),
        ("utilisation > 50%", PolicyTest("", "utilization", ">", 0.5)),
        ("TEAMA preemptions <= 5", PolicyTest("", "preemptions", "<=", 5, "TEAMA")),
        ("preemptions < 20 on a.swf", PolicyTest("", "preemptions", "<", 20, None, workload="a.swf")),
    ],
)
def test_what_can_be_asserted(text: str, expected: PolicyTest) -> None:
    read = parse_policy_test(text)

    assert read.text == " ".join(text.split())
    assert PolicyTest("", *list(vars(read).values())[1:]) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HIGHPRI p95 wait < soon", '"soon" is not a duration'),
        ("HIGHPRI p90 wait < 10m", "is not an assertion that can be tested"),
        ("LOWPRI gets >= 10", '"10" is not a part: write per cent, as in 10%'),
        ("LOWPRI gets >= 110%", '"110%" is not a part'),
        ("no share waits < 4h", "is not an assertion that can be tested"),
        ("no share waits > 4h when busy", 'leave "when busy" out'),
        ("A preemptions < 3 when busy", 'leave "when busy" out'),
        ("A preemptions < 10%", "is not an assertion that can be tested"),
        ("A max wait < 4h on ", "is not an assertion that can be tested"),
        ("", "must be an assertion"),
    ],
)
def test_what_cannot_be_asserted_is_told_with_its_place(text: str, message: str) -> None:
    project = f'version: 1\nstack: a\npolicy_tests:\n  - utilization > 5%\n  - "{text}"\n'

    with pytest.raises(InvalidFileError) as refused:
        parse_project(project, Path("fairshare.yaml"))

    (problem,) = refused.value.problems
    assert (problem.line, problem.key) == (5, "policy_tests[1]")
    assert message in problem.message
    assert "HIGHPRI p95 wait < 10m, no share waits > 4h" in problem.hint


def test_a_bound_that_is_reached() -> None:
    assert parse_policy_test("A max wait <= 10").holds(10)
    assert not parse_policy_test("A max wait < 10").holds(10)
    assert parse_policy_test("no share waits > 10").holds(10)
    assert not parse_policy_test("no share waits >= 10").holds(10)


QUEUES = """\
version: 1
stack: a
service_environments: {gpu: {capacity: 1, instance_types: [ml.g6.xlarge]}, sweep: {capacity_limits: {ml.g6.xlarge: 1}}}
queues:
  gpu: {service_environment: gpu, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
"""
QUOTAS = """\
  sweep:
    service_environment: sweep
    quota_shares: {TEAMA: {capacity_limits: {ml.g6.xlarge: 1}, sharing: LEND}}
"""


@pytest.mark.parametrize(
    "claim", ["TEAMA preemptions <= 5", "sweep/TEAMA preemptions < 1", "preemptions <= 5 on a.yaml"]
)
def test_preemptions_can_be_asserted_of_quota_shares(claim: str) -> None:
    assert parse_project(f"{QUEUES}{QUOTAS}policy_tests: [{claim}]\n", Path("fairshare.yaml")).policy_tests


@pytest.mark.parametrize(
    ("queues", "claim", "message", "hint"),
    [
        (
            QUEUES,
            "HIGHPRI preemptions <= 5",
            '"HIGHPRI preemptions <= 5": nothing is ever preempted on a fair-share or FIFO queue, and this file has no '
            "others",
            "remove it, or give a queue quota_shares",
        ),
        (QUEUES, "preemptions <= 5", "nothing is ever preempted on a fair-share or FIFO queue", "remove it"),
        (
            QUEUES + QUOTAS,
            "HIGHPRI preemptions <= 5",
            '"HIGHPRI preemptions <= 5": HIGHPRI is no quota share, and nothing else is ever preempted',
            "quota shares: TEAMA",
        ),
        (QUEUES + QUOTAS, "TEAM preemptions <= 5", "TEAM is no quota share", "did you mean TEAMA?"),
    ],
)
def test_preemptions_of_what_is_never_preempted(queues: str, claim: str, message: str, hint: str) -> None:
    text = f"{queues}policy_tests:\n  - utilization > 5%\n  - {claim}\n"
    with pytest.raises(InvalidFileError) as refused:
        parse_project(text, Path("fairshare.yaml"))

    (problem,) = refused.value.problems
    assert (problem.line, problem.column, problem.key) == (text.count("\n"), 5, "policy_tests[1]")
    assert message in problem.message
    assert hint in problem.hint
