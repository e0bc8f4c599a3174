"""Gauges of a queue and its shares."""

from __future__ import annotations

import pytest

from fairshare.insight.queue_state import History, QueueFacts, gauges_of, gauges_of_end
from fairshare.metrics.gauges import GAUGES, gauge_data
from fairshare.metrics.ports import Point

MINUTE = 60_000
NOW = 100 * MINUTE
WEIGHTS = {"HIGHPRI": "1", "LOWPRI": "3"}
FACTS = QueueFacts("search-gpu", 4, stack="search", environments=("e",), weights=WEIGHTS)


@pytest.fixture
def jobs(job):
    """HIGHPRI holds 3 of 4 instances and waits with one job for 10 minutes, LOWPRI holds 1."""
    return [
        job("a", status="RUNNING", instances=2, created_at=0),
        job("b", status="SCHEDULED", instances=1, created_at=0),
        job("c", created_at=NOW - 10 * MINUTE),
        job("d", status="STARTING", created_at=0, share_identifier="LOWPRI"),
    ]


def watched(**shares: list[float]) -> History:
    """One value a minute over the last ten minutes."""
    begin = NOW - 10 * MINUTE

    def points(values: list[float]) -> tuple[Point, ...]:
        return tuple(Point(begin + n * MINUTE, value) for n, value in enumerate(values))

    return History(begin, NOW, 60, points([1] * 10), {share: points(values) for share, values in shares.items()})


def test_a_queue_in_numbers(jobs):
    assert gauges_of(FACTS, jobs, now=NOW).values == {
        "RunnableJobs": 1,
        "LaunchingJobs": 2,
        "RunningJobs": 1,
        "OldestWaitSeconds": 600,
        "CapacityUsed": 4,
        "CapacityLimit": 4,
        "CapacityUtilization": 100,
        "IdleCapacityWhileWaiting": 0,
        "Blocked": 0,
        "CollectorRuns": 1,
    }


def test_quota_shares_in_numbers(job):
    jobs = [
        job("a", status="RUNNING", instances=3, share_identifier=None, quota_share="TEAMA"),
        job("b", status="RUNNING", instances=1, share_identifier=None, quota_share="TEAMB"),
        job("c", created_at=NOW - 5 * MINUTE, share_identifier=None, quota_share="TEAMB"),
    ]
    gone = [job("d", status="FAILED", share_identifier=None, quota_share="TEAMC")]
    shares = gauges_of(QueueFacts("q", 8), jobs, now=NOW, ended=gone).shares

    assert {name: (each["CapacityUsed"], each["UsageShare"]) for name, each in shares.items()} == {
        "TEAMA": (3, 75),
        "TEAMB": (1, 25),
        "TEAMC": (0, 0),
    }
    assert (shares["TEAMB"]["RunnableJobs"], shares["TEAMB"]["OldestWaitSeconds"]) == (1, 300)
    assert (shares["TEAMC"]["FailedJobs"], shares["TEAMB"]["FailedJobs"]) == (1, 0)
    assert "TargetShare" not in shares["TEAMA"]
    (quiet,) = gauges_of(QueueFacts("q", 8, quota_shares=("TEAMD",)), [], now=NOW).shares.values()
    assert (quiet["RunnableJobs"], quiet["OldestWaitSeconds"], quiet["CapacityUsed"], quiet["UsageShare"]) == (0,) * 4
    assert gauges_of_end("q", "search", gone[0]).shares == {"TEAMC": {"SucceededJobs": 0, "FailedJobs": 1}}


def test_shares_in_numbers(jobs):
    shares = gauges_of(FACTS, jobs, now=NOW, ended=[]).shares

    assert shares["HIGHPRI"]["UsageShare"] == 75
    assert shares["HIGHPRI"]["TargetShare"] == 75
    assert shares["LOWPRI"]["TargetShare"] == 25
    assert shares["LOWPRI"]["OldestWaitSeconds"] == 0
    assert shares["LOWPRI"]["FailedJobs"] == 0


def test_every_value_has_a_gauge_of_its_name_and_scope(jobs):
    found = gauges_of(FACTS, jobs, now=NOW, history=watched(), ended=[])

    assert set(found.values) == {gauge.name for gauge in GAUGES if gauge.of_queue}
    assert set(found.shares["LOWPRI"]) == {gauge.name for gauge in GAUGES if gauge.of_share}
    data = gauge_data(found, NOW)
    assert {datum.namespace for datum in data} == {"fairshare"}
    assert data[0].dimensions == (("Stack", "search"), ("Queue", "search-gpu"))
    assert data[-1].dimensions == (("Stack", "search"), ("Queue", "search-gpu"), ("Share", "LOWPRI"))


def test_without_history_and_without_a_cursor_what_is_not_known_is_left_out(jobs):
    found = gauges_of(FACTS, jobs, now=NOW)

    assert "FailedJobs" not in found.values
    assert "WeightedUsage" not in found.shares["HIGHPRI"]


def test_a_fifo_queue_has_no_shares(jobs):
    found = gauges_of(QueueFacts("fifo", 4), jobs, now=NOW, ended=[])

    assert found.shares == {}
    assert found.values["FailedJobs"] == 0


@pytest.mark.parametrize(
    ("reason", "blocked"),
    [
        ("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Unable to provision requested compute resources", 1),
        ("MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE - cannot meet the capacity requirement", 1),
        ("Preempted once", 0),
        (None, 0),
    ],
)
def test_a_queue_is_blocked_when_aws_gives_a_reason(job, reason, blocked):
    found = gauges_of(FACTS, [job("a", status_reason=reason)], now=NOW)

    assert found.values["Blocked"] == blocked
    assert found.shares["HIGHPRI"]["Blocked"] == blocked
    assert found.shares["LOWPRI"]["Blocked"] == 0


def test_the_reason_of_a_job_that_runs_again_blocks_nothing(job):
    reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Unable to provision requested compute resources"

    assert gauges_of(FACTS, [job("a", status="RUNNING", status_reason=reason)], now=NOW).values["Blocked"] == 0


@pytest.mark.parametrize(
    ("reservation", "others", "idle"),
    [(0, 0, 3), (0, 2, 1), (0, 9, 0), (50, 0, 1)],
)
def test_idle_capacity_is_what_a_waiting_job_could_have(job, reservation, others, idle):
    facts = QueueFacts("q", 4, weights=WEIGHTS, compute_reservation=reservation)
    jobs = [job("a", status="RUNNING"), job("b", instances=9)]

    found = gauges_of(facts, jobs, now=NOW, used_by_others=others)

    assert found.values["IdleCapacityWhileWaiting"] == idle
    assert gauges_of(facts, jobs[:1], now=NOW).values["IdleCapacityWhileWaiting"] == 0


def test_weighted_usage_of_constant_use_is_use_times_weight(job):
    jobs = [job("a", status="RUNNING", share_identifier="LOWPRI", instances=2)]

    found = gauges_of(FACTS, jobs, now=NOW, history=watched(LOWPRI=[2] * 10, HIGHPRI=[0] * 10))

    assert found.shares["LOWPRI"]["WeightedUsage"] == pytest.approx(6)
    assert found.shares["HIGHPRI"]["WeightedUsage"] == 0


def test_recent_use_weighs_more_than_old_use():
    old, recent = watched(HIGHPRI=[4] * 5 + [0] * 5), watched(HIGHPRI=[0] * 5 + [4] * 5)

    values = [
        gauges_of(FACTS, [], now=NOW, history=history).shares["HIGHPRI"]["WeightedUsage"] for history in (old, recent)
    ]

    assert values == pytest.approx([0.9 * 1, 0.9 * 3])


def test_identifiers_of_one_prefix_entry_divide_its_target_and_raise_their_weight(job):
    facts = QueueFacts("q", 8, weights={"TEAM*": "2", "SOLO": "2"})
    jobs = [job(share, status="RUNNING", share_identifier=share) for share in ("TEAMA", "TEAMB", "SOLO")]
    history = watched(TEAMA=[1] * 10, TEAMB=[1] * 10, SOLO=[1] * 10)

    shares = gauges_of(facts, jobs, now=NOW, history=history).shares

    assert {share: values["TargetShare"] for share, values in shares.items()} == {"TEAMA": 25, "TEAMB": 25, "SOLO": 50}
    assert shares["TEAMA"]["WeightedUsage"] == pytest.approx(2 * shares["SOLO"]["WeightedUsage"])


def test_a_prefix_entry_that_nobody_uses_has_no_gauges():
    assert gauges_of(QueueFacts("q", 8, weights={"TEAM*": "2"}), [], now=NOW).shares == {}


def test_a_share_is_starved_when_it_waited_for_the_window_and_used_nothing_in_it(job):
    waiting = [job("a", created_at=NOW - 10 * MINUTE)]

    def starved(history: History | None, jobs=waiting):
        return gauges_of(FACTS, jobs, now=NOW, history=history).shares["HIGHPRI"].get("StarvedShare")

    assert starved(watched(HIGHPRI=[0] * 10)) == 1
    assert starved(watched()) == 1
    assert starved(watched(HIGHPRI=[0] * 4 + [1] + [0] * 5)) == 0
    assert starved(watched(), [job("a", created_at=NOW - 9 * MINUTE)]) == 0
    assert starved(watched(), [*waiting, job("b", status="RUNNING")]) == 0
    assert starved(watched(), []) == 0


def test_c38_nobody_is_called_starved_for_a_time_that_nobody_watched(job):
    begin = NOW - 10 * MINUTE
    silent = History(begin, NOW, 60, queue=tuple(Point(begin + n * MINUTE, 1) for n in (0, 8, 9)))

    found = gauges_of(FACTS, [job("a", created_at=0)], now=NOW, history=silent)

    assert "StarvedShare" not in found.shares["HIGHPRI"]


def test_a_value_counts_until_the_next_one_but_not_for_ever():
    history = watched(HIGHPRI=[2, 2])

    assert history.steps(history.shares["HIGHPRI"]) == [
        (NOW - 10 * MINUTE, NOW - 9 * MINUTE, 2),
        (NOW - 9 * MINUTE, NOW - 4 * MINUTE, 2),
    ]


def test_ends_are_counted_by_status_also_of_a_share_without_other_jobs(job):
    ended = [
        job("a", status="SUCCEEDED"),
        job("b", status="FAILED"),
        job("c", status="FAILED", share_identifier="GUEST"),
    ]

    found = gauges_of(FACTS, [], now=NOW, ended=ended)

    assert (found.values["SucceededJobs"], found.values["FailedJobs"]) == (1, 2)
    assert found.shares["GUEST"] == {"SucceededJobs": 0, "FailedJobs": 1}


def test_the_end_of_one_job_alone(job):
    found = gauges_of_end("q", "search", job("a", status="FAILED", share_identifier=None))

    assert (found.values, found.shares) == ({"SucceededJobs": 0, "FailedJobs": 1}, {})
