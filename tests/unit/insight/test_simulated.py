"""Gauges of a simulation, minute by minute, and alarms over them."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.insight.simulated import MINUTE, QueuePlace, SimulatedGauges, backtest_simulation, policy_of
from fairshare.metrics.backtest import queries_of
from fairshare.metrics.ports import AlarmState, MetricQuery
from fairshare.model import AlarmDefinition, AlarmMetric, UsageError

WHERE = (("Stack", "lab"), ("Queue", "lab-gpu"))


def start(job: str, share: str, size: int, submit: int, begin: int, end: int | None, *, preempted: bool = False) -> Any:
    """One entry of ``starts``; times in minutes."""
    return {
        "job": job,
        "share": share,
        "instances": size,
        "submit_seconds": submit * 60.0,
        "start_seconds": begin * 60.0,
        "end_seconds": None if end is None else end * 60.0,
        "preempted": preempted,
    }


POLICY: dict[str, Any] = {
    "name": "fairshare",
    "queue": "gpu",
    "capacity": {"gpu": 4, "another": 12},
    "starts": [
        start("a", "HIGH", 4, 0, 0, 3, preempted=True),
        start("b", "LOW", 2, 1, 3, 8),
        start("a", "HIGH", 2, 0, 8, 10),
    ],
}


def place(key: str) -> QueuePlace:
    return QueuePlace(f"lab-{key}", "gpu", ("HIGH", "LOW", "QUIET"))


def values(
    name: str,
    share: str | None = None,
    period: int = 60,
    statistic: str = "Average",
    policy: dict[str, Any] = POLICY,
) -> list[float]:
    gauges = SimulatedGauges(policy, "lab", place)
    where = WHERE if share is None else (*WHERE, ("Share", share))
    query = MetricQuery("fairshare", name, where, period, statistic)
    return [point.value for point in gauges.series([query], 0, gauges.end)[query]]


def test_gauges_are_those_that_the_collector_would_have_seen() -> None:
    assert values("CapacityUsed") == [4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 0]
    assert values("RunnableJobs") == [0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    assert values("RunningJobs") == [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]
    assert values("CapacityUtilization") == [100, 100, 100, 50, 50, 50, 50, 50, 50, 50, 0]
    assert values("IdleCapacityWhileWaiting") == [0, 0, 0, 2, 2, 2, 2, 2, 0, 0, 0]
    assert values("SucceededJobs") == [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    assert values("CapacityLimit") == [4] * 11
    assert values("CollectorRuns") == [1] * 11
    assert values("FailedJobs") == [0] * 11


def test_gauges_of_a_share() -> None:
    assert values("CapacityUsed", "LOW") == [0, 0, 0, 2, 2, 2, 2, 2, 0, 0, 0]
    assert values("UsageShare", "HIGH") == [100, 100, 100, 0, 0, 0, 0, 0, 100, 100, 0]
    assert values("OldestWaitSeconds", "LOW") == [0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0]
    waits = values("OldestWaitSeconds", "HIGH")
    assert waits == [0, 0, 0, 180, 240, 300, 360, 420, 0, 0, 0], "a preempted job waits again, since it was submitted"


def test_a_share_without_jobs_has_gauges_at_zero() -> None:
    assert values("OldestWaitSeconds", "QUIET") == values("UsageShare", "QUIET") == [0] * 11


def test_what_is_reserved_is_not_idle() -> None:
    """Half of 4 while one share is active, three quarters while two are: b waits with 4 used, then a with 2."""
    reserved = {**POLICY, "compute_reservation": {"gpu": 50}}
    assert values("IdleCapacityWhileWaiting", policy=reserved) == [0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0]


def test_what_another_queue_of_the_environment_holds_is_not_idle() -> None:
    other = start("c", "other/HIGH", 1, 0, 4, 6)
    assert values("IdleCapacityWhileWaiting", policy={**POLICY, "starts": [*POLICY["starts"], other]}) == [
        *(0, 0, 0, 2, 1, 1, 2, 2, 0, 0, 0)
    ]


def test_preemptions_are_told_as_aws_batch_tells_them() -> None:
    gauges = SimulatedGauges(POLICY, "lab", place)
    query = MetricQuery("AWS/Batch", "JobsPreempted", (("JobQueueName", "lab-gpu"),), 60, "Sum")

    assert [(point.at, point.value) for point in gauges.series([query], 0, gauges.end)[query]] == [(3 * MINUTE, 1)]


def test_periods_and_statistics() -> None:
    assert values("CapacityUsed", period=300) == [(4 + 4 + 4 + 2 + 2) / 5, 2, 0]
    assert values("CapacityUsed", period=300, statistic="Maximum") == [4, 2, 0]
    assert values("CapacityUsed", period=300, statistic="Minimum") == [2, 2, 0]
    assert values("SucceededJobs", period=600, statistic="Sum") == [1, 1]


def test_what_a_simulation_does_not_know_has_no_points() -> None:
    assert values("WeightedUsage", "HIGH") == []
    assert values("CapacityUsed", "NOBODY") == []
    assert values("CapacityUsed", statistic="p90") == []


def alarm(name: str, threshold: float, share: str | None = None, periods: int = 3) -> AlarmDefinition:
    where = WHERE if share is None else (*WHERE, ("Share", share))
    metric = AlarmMetric("m1", "fairshare", name, where, "Maximum", 60)
    return AlarmDefinition(
        metrics=(metric,),
        comparison_operator="GreaterThanThreshold",
        threshold=threshold,
        evaluation_periods=periods,
        datapoints_to_alarm=periods,
        treat_missing_data="missing",
    )


def test_an_alarm_fires_at_the_minute_at_which_it_would_have() -> None:
    gauges = SimulatedGauges(POLICY, "lab", place)
    alarms = [
        ("waits", alarm("OldestWaitSeconds", 200, "HIGH")),
        ("never", alarm("OldestWaitSeconds", 10_000, "HIGH")),
        ("gpu", alarm("GPUUtilization", 1)),
    ]
    waits, never, gpu = backtest_simulation(
        gauges, alarms, lambda each: list(queries_of(each).values()), lambda each: each
    )

    assert waits.replayed is not None
    (firing,) = waits.replayed.firings
    assert (firing.state, firing.begin) == (AlarmState.ALARM, 7 * MINUTE), "minutes 4, 5 and 6 are above 200 s"
    assert never.replayed is not None
    assert never.replayed.firings == ()
    assert (gpu.replayed, gpu.note) == (None, "a simulation does not tell GPUUtilization")


def test_a_document_says_which_policy() -> None:
    several = {"kind": "Simulation", "policies": [POLICY, {**POLICY, "name": "fifo"}]}
    assert policy_of(several, "fifo")["name"] == "fifo"
    assert policy_of({"kind": "Simulation", "policies": [POLICY]}, None)["name"] == "fairshare"
    with pytest.raises(UsageError, match="several policies: fairshare, fifo"):
        policy_of(several, None)
    with pytest.raises(UsageError, match="no policy fofi"):
        policy_of(several, "fofi")
    with pytest.raises(UsageError, match="this is no simulation"):
        policy_of({"kind": "Run"}, None)
    bare = {key: value for key, value in POLICY.items() if key != "starts"}
    with pytest.raises(UsageError) as refused:
        SimulatedGauges(bare, "lab", place)
    assert refused.value.hint == "make it with `fairshare simulate ... --starts -o json`"


def test_nothing_is_known_of_the_time_before_but_that_the_collector_ran() -> None:
    gauges = SimulatedGauges(POLICY, "lab", place)
    used, runs = (MetricQuery("fairshare", name, WHERE, 60) for name in ("CapacityUtilization", "CollectorRuns"))
    found = gauges.series([used, runs], -10 * MINUTE, 2 * MINUTE)
    assert [point.at for point in found[used]] == [0, MINUTE]
    assert len(found[runs]) == 12
