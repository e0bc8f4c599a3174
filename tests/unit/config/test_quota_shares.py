"""Quota shares, limits by type and time limits of a project file: what they become, and what is refused where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairshare.config.project import Project, QuotaShareConfig
from fairshare.model import CapacityLimit, SharingStrategy

Read = Callable[[str], Project]
Problems = Callable[[str], list[str]]

TEAMA = "{capacity_limits: {ml.c5.2xlarge: 5}, sharing: LEND_AND_BORROW, borrow_limit: 100, in_share_preemption: true}"
TEXT = f"""\
version: 1
stack: lab
service_environments:
  sweep: {{capacity_limits: {{ml.c5.2xlarge: 8, ml.c4.xlarge: 1}}}}
  gpu: {{capacity: 4, instance_types: [ml.g6.xlarge]}}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {TEAMA}
      TEAMB: {{capacity_limits: {{ml.c5.2xlarge: 3}}, sharing: LEND}}
    time_limits: {{insufficient_capacity: 4h, misconfiguration: 10m}}
  line: {{service_environment: gpu, fifo: true, time_limits: {{misconfiguration: 1d}}}}
defaults: {{queue: sweep, quota_share: TEAMB}}
"""


@pytest.fixture
def vary() -> Callable[[str, str], str]:
    def varied(old: str, new: str) -> str:
        assert TEXT.count(old) == 1, old
        return TEXT.replace(old, new)

    return varied


def test_a_queue_with_quota_shares(read_project: Read) -> None:
    project = read_project(TEXT)
    queue, environment = project.queues["sweep"], project.service_environments["sweep"]

    assert queue.quota_shares == {
        "TEAMA": QuotaShareConfig(
            capacity_limits={"ml.c5.2xlarge": 5},
            sharing=SharingStrategy.LEND_AND_BORROW,
            borrow_limit=100,
            in_share_preemption=True,
        ),
        "TEAMB": QuotaShareConfig(capacity_limits={"ml.c5.2xlarge": 3}, sharing=SharingStrategy.LEND),
    }
    assert queue.has_quota_shares
    assert not queue.is_fifo
    assert queue.fairshare is None
    assert environment.by_type
    assert environment.instances == 9
    assert environment.instance_types == ("ml.c5.2xlarge", "ml.c4.xlarge")
    assert environment.limits == (CapacityLimit(1, "ml.c4.xlarge"), CapacityLimit(8, "ml.c5.2xlarge"))
    assert project.service_environments["gpu"].limits == (CapacityLimit(4),)
    assert project.defaults.quota_share == "TEAMB"
    assert project.warnings == ()


def test_a_misconfiguration_has_a_second_reason_where_there_are_quotas(read_project: Read) -> None:
    project = read_project(TEXT)
    assert project.queues["sweep"].time_limits == {
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": 14_400,
        "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE": 600,
        "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED": 600,
    }
    assert project.queues["line"].time_limits == {"MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE": 86_400}


@pytest.mark.parametrize(("written", "limit"), [("100%", 100), ("0", 0), ("-1", -1), ("250 %", 250)])
def test_a_borrow_limit_is_in_per_cent(
    read_project: Read, vary: Callable[[str, str], str], written: str, limit: int
) -> None:
    project = read_project(vary("borrow_limit: 100", f"borrow_limit: {written}"))
    shares = project.queues["sweep"].quota_shares
    assert shares is not None
    assert shares["TEAMA"].borrow_limit == limit


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "    time_limits: {insuff",
            "    fifo: true\n    time_limits: {insuff",
            "7:3 queues.sweep: must have exactly one of fairshare, fifo: true and quota_shares | "
            "AWS can never turn one into the other",
        ),
        ("sharing: LEND}", "sharing: lend}", "did you mean LEND? (choices: RESERVE, LEND, LEND_AND_BORROW)"),
        (
            "sharing: LEND}",
            "sharing: RESERVE, borrow_limit: 50}",
            "a share that is RESERVE does not borrow | remove it, or write sharing: LEND_AND_BORROW",
        ),
        ("borrow_limit: 100", "borrow_limit: -2", "must be at least -1, not -2"),
        ("borrow_limit: 100", "borrow_limit: half", 'must be a whole number, not "half"'),
        ("in_share_preemption: true", "in_share_preemption: ENABLED", 'must be true or false, not "ENABLED"'),
        ("borrow_limit: 100", "borrow_limit: 2147483648", "must be at most 2147483647, not 2147483648"),
        (
            "sweep: {capacity_limits: {ml.c5.2xlarge: 8,",
            "sweep: {capacity_limits: {ml.c5.2xlarge: 2147483648,",
            "4:44 service_environments.sweep.capacity_limits.ml.c5.2xlarge: must be at most 2147483647, not 2147483648",
        ),
        (
            "TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}",
            "TEAMB: {capacity_limits: {ml.c5.2xlarge: 3000000000}",
            "11:48 queues.sweep.quota_shares.TEAMB.capacity_limits.ml.c5.2xlarge: must be at most 2147483647, not "
            "3000000000",
        ),
        (
            "TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}, sharing: LEND}",
            "TEAMB: {sharing: LEND}",
            "capacity_limits is missing",
        ),
        ("TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}", "TEAMB: {capacity_limits: {}", "must not be empty"),
        (
            "TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}",
            "TEAMB: {capacity_limits: {ml.c5.2xlarge: 0}",
            "must be at least 1, not 0",
        ),
        ("TEAMB: {", "TEAM/B: {", '"TEAM/B" is not a name: letters, digits, - and _ only'),
        (
            "TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}",
            "TEAMB: {capacity_limits: {ml.c5.xlarge: 3}",
            "11:33 quota share TEAMB has ml.c5.xlarge, and service environment sweep has none | "
            "did you mean ml.c5.2xlarge? (instance types: ml.c5.2xlarge, ml.c4.xlarge)",
        ),
        (
            "{capacity_limits: {ml.c5.2xlarge: 8, ml.c4.xlarge: 1}}",
            "{capacity: 9, capacity_limits: {ml.c5.2xlarge: 8}}",
            "4:3 service_environments.sweep: has capacity_limits and also capacity",
        ),
        (
            "{capacity: 4, instance_types: [ml.g6.xlarge]}",
            "{instance_types: [ml.g6.xlarge]}",
            "must have either capacity or capacity_limits",
        ),
        ("{capacity: 4, instance_types: [ml.g6.xlarge]}", "{capacity_limits: 4}", "must be a mapping, not 4"),
        (
            "    service_environment: sweep",
            "    service_environment: gpu",
            "8:26 queue sweep has quota shares, and service environment gpu has no limits by type | "
            "give gpu capacity_limits: {ml.c5.2xlarge: 8} instead of capacity and instance_types",
        ),
        (
            "line: {service_environment: gpu",
            "line: {service_environment: sweep",
            "13:31 queue line has no quota shares, and service environment sweep has limits by type",
        ),
        (
            "line: {service_environment: gpu, fifo: true,",
            "line: {service_environment: sweep, quota_shares: "
            "{ALL: {capacity_limits: {ml.c4.xlarge: 1}, sharing: LEND}},",
            "queues sweep and line share service environment sweep | "
            "an environment with limits by type serves one queue only; give each its own",
        ),
        ("quota_share: TEAMB", "quota_share: TEAMC", 'unknown quota share "TEAMC" in queue sweep | did you mean'),
        (
            "insufficient_capacity: 4h",
            "insufficient_capacity: 5m",
            "12:42 queues.sweep.time_limits.insufficient_capacity: must be between 10m and 24h, not 5 min",
        ),
        ("insufficient_capacity: 4h", "insufficient_capacity: 2d", "must be between 10m and 24h, not 2 d"),
        ("insufficient_capacity: 4h", "insuficient_capacity: 4h", "did you mean insufficient_capacity?"),
    ],
)
def test_what_is_refused(
    project_problems: Problems, vary: Callable[[str, str], str], old: str, new: str, expected: str
) -> None:
    problems = project_problems(vary(old, new))
    assert any(expected in problem for problem in problems), problems


def test_a_queue_has_at_most_20_quota_shares(project_problems: Problems, vary: Callable[[str, str], str]) -> None:
    share = "{capacity_limits: {ml.c5.2xlarge: 1}, sharing: LEND}"
    more = "".join(f"      T{number}: {share}\n" for number in range(19))
    text = vary("    time_limits: {insuff", f"{more}    time_limits: {{insuff")
    assert project_problems(text) == [
        "9:5 queues.sweep.quota_shares: has 21 entries; at most 20 are possible",
    ]


def test_a_name_is_at_most_128_characters(project_problems: Problems, vary: Callable[[str, str], str]) -> None:
    assert (
        project_problems(vary("defaults: {queue: sweep, quota_share: TEAMB}\n", "").replace("TEAMB", "B" * 128)) == []
    )
    assert project_problems(vary("defaults: {queue: sweep, quota_share: TEAMB}\n", "").replace("TEAMB", "B" * 129)) == [
        "11:7 quota share BBBBBBBBBBBBBBBBBBBB... has 129 characters; AWS accepts 128"
    ]


def test_a_default_quota_share_without_any_is_warned_about(read_project: Read) -> None:
    project = read_project("version: 1\nstack: s\ndefaults: {quota_share: TEAMA}\n")
    assert [warning.message for warning in project.warnings] == [
        "defaults.quota_share has no effect: no queue of this file has quota shares"
    ]
