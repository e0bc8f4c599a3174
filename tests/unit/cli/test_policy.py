"""``fairshare policy test`` and ``fairshare policy lint``."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "quota"
EMPTY_HANDED = "TEAMB: {capacity_limits: {ml.c5.2xlarge: 1}"
"""TEAMB's jobs of two instances are to borrow one."""

STREAMS = """\
duration: 12h
streams:
  HIGHPRI: {arrivals: {fixed: {every: 30m}}, size: 4, run_time: 50m}
  LOWPRI: {arrivals: {bursts: {every: 6h, jobs: 30, over: 1m}}, run_time: 2h}
"""

ASSERTIONS = """\
policy_tests:
  - HIGHPRI p95 wait < 10h on scenarios/monday.yaml
  - no share waits > 1s
"""


@pytest.fixture
def asserted(cli) -> None:
    (cli.cwd / "scenarios").mkdir()
    (cli.cwd / "scenarios" / "monday.yaml").write_text(STREAMS)
    with (cli.cwd / "fairshare.yaml").open("a") as file:
        file.write(ASSERTIONS)


@pytest.mark.usefixtures("asserted")
def test_assertions_as_a_table(cli):
    assert cli("policy", "test") == 5
    head, passed, failed, *rest = cli.out.splitlines()

    assert head.split() == ["ASSERTION", "WORKLOAD", "FOUND"]
    assert passed.split()[:6] == ["ok", "HIGHPRI", "p95", "wait", "<", "10h"]
    assert failed.split()[:6] == ["FAILED", "no", "share", "waits", ">", "1s"]
    assert "HIGHPRI max wait" in failed
    assert rest[-1].startswith("Model 1.0: history_weight 0.9, blocking queue")
    assert cli.err == "1 of 2 assertions failed\n"


@pytest.mark.usefixtures("asserted")
def test_assertions_as_a_document_and_as_junit(cli):
    cli("policy", "test", "-o", "json")
    found = json.loads(cli.out)
    assert (found["kind"], found["passed"]) == ("PolicyTests", False)
    assert [(each["workload"], each["passed"]) for each in found["assertions"]] == [
        ("monday.yaml", True),
        ("monday.yaml", False),
    ]

    assert cli("policy", "test", "-o", "junit") == 5
    suite = ElementTree.fromstring(cli.out)[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is None for case in suite] == [True, False]


@pytest.mark.usefixtures("asserted")
def test_more_workloads_are_for_assertions_that_name_none(cli):
    quiet = cli.cwd / "quiet.yaml"
    quiet.write_text("duration: 1h\nstreams: {HIGHPRI: {arrivals: {fixed: {every: 1h}}, run_time: 1m}}\n")
    cli("policy", "test", str(quiet), "-o", "json")

    assert [(each["workload"], each["passed"]) for each in json.loads(cli.out)["assertions"]] == [
        ("monday.yaml", True),
        ("quiet.yaml", True),
        ("monday.yaml", False),
    ]


def test_nothing_is_asserted(cli):
    assert cli("policy", "test") == 2
    assert "asserts nothing: it has no policy_tests" in cli.err


def test_an_assertion_without_any_workload(cli):
    with (cli.cwd / "fairshare.yaml").open("a") as file:
        file.write("policy_tests: [no share waits > 4h]\n")

    assert cli("policy", "test") == 2
    assert '"no share waits > 4h": on which workload?' in cli.err


def test_assertions_about_quota_shares(cli):
    for name in ("fairshare.yaml", "scenarios/day.yaml"):
        (cli.cwd / name).parent.mkdir(exist_ok=True)
        (cli.cwd / name).write_text((EXAMPLE / name).read_text())
    assert cli("policy", "test") == 0
    assert "TEAMA was preempted 18 times" in cli.out

    path = cli.cwd / "fairshare.yaml"
    path.write_text(path.read_text().replace("TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}", EMPTY_HANDED))
    assert cli("policy", "test", "-o", "json") == 5
    found = json.loads(cli.out)["assertions"]
    assert [each["passed"] for each in found] == [False, True, True]


@pytest.fixture
def limited(cli) -> None:
    """The project, whose queue has a time limit for jobs that can never start."""
    path = cli.cwd / "fairshare.yaml"
    queue = "    service_environment: gpu\n"
    path.write_text(path.read_text().replace(queue, f"{queue}    time_limits: {{misconfiguration: 10m}}\n"))


@pytest.mark.usefixtures("limited")
def test_a_policy_without_traps(cli):
    assert cli("policy", "lint") == 0
    assert cli.out == "No traps found.\n"
    assert cli("policy", "lint", "-o", "junit") == 0
    assert ElementTree.fromstring(cli.out)[0].get("failures") == "0"


@pytest.mark.usefixtures("limited")
def test_traps_with_their_places(cli):
    path = cli.cwd / "fairshare.yaml"
    path.write_text(path.read_text().replace("HIGHPRI: {weight_factor: 1}", "HIGHPRI: {weight_factor: 9}"))
    jobs = cli.cwd / "jobs.yaml"
    jobs.write_text("jobs: [{name: a, compute: {instance_type: ml.g6.12xlarge, instance_count: 20}, share: MIDPRI}]\n")

    assert cli("policy", "lint", str(jobs)) == 5
    weights, swap, large, _, total = cli.out.splitlines()
    assert weights.startswith(f"{path}:12:9: P01: queue gpu gives HIGHPRI less than LOWPRI")
    assert swap.startswith("  swap them")
    assert large.startswith(f"{jobs}:1:75: P05: job a needs 20 instances at once, and queue gpu has 16")
    assert total == "2 findings."

    assert cli("policy", "lint", "-o", "json") == 5
    assert [each["code"] for each in json.loads(cli.out)["findings"]] == ["P01"]


def test_other_answers_are_not_tests(cli):
    assert cli("queue", "-o", "junit") == 2
    assert "this answer cannot be printed as junit" in cli.err


def test_assertions_on_quota_shares(cli):
    (cli.cwd / "fairshare.yaml").write_text(
        "version: 1\nstack: s\n"
        "service_environments: {pool: {capacity_limits: {ml.c5.2xlarge: 8}}}\n"
        "queues:\n  q:\n    service_environment: pool\n    quota_shares:\n"
        "      TEAMA: {capacity_limits: {ml.c5.2xlarge: 5}, sharing: LEND_AND_BORROW}\n"
        "      TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}, sharing: LEND}\n"
        "policy_tests: [TEAMB max wait < 1s on day.yaml, TEAMA max wait < 1s on day.yaml]\n"
    )
    (cli.cwd / "day.yaml").write_text(
        "duration: 10h\nstreams:\n"
        "  TEAMA: {arrivals: {bursts: {every: 10h, jobs: 20}}, run_time: 1h}\n"
        "  TEAMB: {arrivals: {fixed: {every: 2h, start: 90m}}, run_time: 30m, size: 3}\n"
    )
    assert cli("policy", "test", "-o", "json") == 5
    # TEAMB gets back what it lent as soon as it asks; TEAMA has more jobs than instances.
    assert [each["passed"] for each in json.loads(cli.out)["assertions"]] == [True, False]


def test_preemptions_where_nothing_is_preempted(cli):
    (cli.cwd / "fairshare.yaml").write_text(
        "version: 1\nstack: s\n"
        "service_environments: {pool: {capacity_limits: {ml.c5.2xlarge: 8}}, cpu: "
        "{capacity: 8, instance_types: [ml.c5.2xlarge]}}\n"
        "queues:\n  line: {service_environment: cpu, fifo: true}\n  q:\n    service_environment: pool\n"
        "    quota_shares: {TEAMA: {capacity_limits: {ml.c5.2xlarge: 5}, sharing: LEND}}\n"
        "defaults: {queue: line}\npolicy_tests: [preemptions < 1 on day.yaml]\n"
    )
    (cli.cwd / "day.yaml").write_text(
        "duration: 1h\nstreams: {TEAMA: {arrivals: {fixed: {every: 30m}}, run_time: 1m}}\n"
    )
    assert cli("policy", "test") == 2
    assert '"preemptions < 1 on day.yaml": the jobs of day.yaml go to line, where nothing is ever preempted' in cli.err
    assert "choose a queue with quota shares: -q q" in cli.err
    assert cli("policy", "test", "-q", "q") == 0
