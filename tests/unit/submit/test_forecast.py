from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import AutoWaves, LaunchPeak, Limits
from fairshare.config.times import load_zone, parse_window
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.forecast import (
    Prediction,
    RunTimes,
    finish_at,
    known_run_times,
    plan_lines,
    predict,
    recent_runs,
)
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal
from fairshare.submit.records import JobRecord, RunRecord
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.rules import RunRules
from fairshare.submit.waves import plan_waves
from fairshare.submit.windows import Gate

T0 = 1_796_061_600_000
QUEUE = "search-ml-gpu"
MINUTE = 60_000

MakePlan = Callable[..., SubmitPlan]


def payload(seconds: str | None = None, instances: int = 1) -> str:
    environment = {} if seconds is None else {"FAIRSHARE_SIM_SECONDS": seconds}
    resources = {"InstanceCount": instances, "InstanceType": "ml.m5.large"}
    return json.dumps({"Environment": environment, "ResourceConfig": resources})


@pytest.fixture
def make_plan(make_planned: Callable[..., PlannedJob]) -> MakePlan:
    def make(*payloads: str, size: int | None = None, interval: int = 60, **changes: Any) -> SubmitPlan:
        waves = plan_waves(len(payloads), size, interval, T0)
        numbers = [wave.number for wave in waves for _ in range(wave.count)]
        jobs = tuple(
            make_planned(i, number, payload=text, job_name=f"train-{i}-abc123")
            for i, (number, text) in enumerate(zip(numbers, payloads, strict=True))
        )
        plan = SubmitPlan(RunIdentity("lunar-otter", T0, "us-west-2", "111122223333"), waves, jobs)
        return replace(plan, **{"capacities": {QUEUE: 4}, **changes})

    return make


def times(*minutes: int) -> RunTimes:
    return RunTimes(tuple(each * MINUTE for each in minutes), "told by the test")


# ---------------------------------------------------------------------------------------------------------------------
# Run times


def test_simulated_run_times_are_known_on_this_machine_only(make_plan: MakePlan) -> None:
    plan = make_plan(payload("90"), payload("0.5"))
    assert known_run_times(plan, [], is_simulated=True) == RunTimes((90_000, 500), "FAIRSHARE_SIM_SECONDS")
    assert known_run_times(plan, [], is_simulated=False) is None


@pytest.mark.parametrize("other", [None, "soon", "1/0"])
def test_run_times_are_those_of_all_jobs_or_not_known(make_plan: MakePlan, other: str | None) -> None:
    assert known_run_times(make_plan(payload("90"), payload(other)), [], is_simulated=True) is None


@pytest.fixture
def yesterday(make_plan: MakePlan) -> RunRecord:
    """A run of three jobs of the same names, two of which succeeded after 10 and 20 minutes."""
    plan = make_plan(payload(), payload(), payload())
    jobs = [
        JobRecord(
            job.index,
            1,
            replace(job.request, job_name=f"train-{job.index}-999999"),
            "",
            {},
            status=status,
            started_at=T0,
            stopped_at=T0 + (job.index + 1) * 10 * MINUTE,
        )
        for job, status in zip(plan.jobs, ("SUCCEEDED", "SUCCEEDED", "FAILED"), strict=True)
    ]
    return RunRecord(Path("x"), replace(plan.identity, run_id="brisk-fox"), (QUEUE,), plan.waves, tuple(jobs))


def test_run_times_are_measured_where_the_same_jobs_ran_before(make_plan: MakePlan, yesterday: RunRecord) -> None:
    older = replace(yesterday, identity=replace(yesterday.identity, run_id="older"), jobs=())
    measured = RunTimes((600_000, 1_200_000), "measured in run brisk-fox")
    assert known_run_times(make_plan(payload(), payload()), [older, yesterday], is_simulated=True) == measured
    three = make_plan(payload(), payload(), payload())
    assert known_run_times(three, [yesterday], is_simulated=False) is None


def test_recent_runs_are_the_latest_that_can_be_read(tmp_path: Path, make_plan: MakePlan) -> None:
    for number in range(7):
        run_id = f"run-{number}"
        plan = make_plan(payload())
        with Journal.create(tmp_path, run_id, Holder("test", T0)) as journal:
            journal.begin(replace(plan.identity, run_id=run_id), plan.waves, plan.jobs, plan.rules)
        if number == 5:
            (tmp_path / f"{run_id}.jsonl").write_text("damaged\n")
        os.utime(tmp_path / f"{run_id}.jsonl", (number, number))
    assert [run.run_id for run in recent_runs(tmp_path)] == ["run-6", "run-4", "run-3", "run-2"]
    assert list(recent_runs(tmp_path / "none")) == []


# ---------------------------------------------------------------------------------------------------------------------
# The finish


def test_jobs_take_turns_on_the_instances_there_are(make_plan: MakePlan) -> None:
    plan = make_plan(*[payload()] * 6)
    assert finish_at(plan, 0, times(10, 10, 10, 10, 10, 10)) == T0 + 20 * MINUTE
    assert finish_at(plan, 0, times(30, 1, 1, 1, 1, 1)) == T0 + 30 * MINUTE
    assert finish_at(replace(plan, capacities={QUEUE: 6}), 0, times(*[10] * 6)) == T0 + 10 * MINUTE
    assert finish_at(replace(plan, capacities={}), 0, times(*[10] * 6)) == T0 + 10 * MINUTE


def test_a_job_of_several_instances_holds_up_those_behind_it(make_plan: MakePlan) -> None:
    plan = make_plan(payload(), payload(instances=4), payload())
    assert finish_at(plan, 0, times(10, 5, 1)) == T0 + 16 * MINUTE
    plan = make_plan(payload(), payload(), payload(instances=3), payload())
    assert finish_at(plan, 0, times(10, 20, 5, 1)) == T0 + 20 * MINUTE


def test_sending_and_waves_take_time_too(make_plan: MakePlan) -> None:
    plan = make_plan(*[payload()] * 4, size=2, interval=60)
    assert finish_at(plan, 0, times(1, 1, 1, 1)) == T0 + 2 * MINUTE
    assert finish_at(plan, 0.02, times(1, 1, 1, 1)) == T0 + 150_000 + MINUTE


def test_jobs_come_after_others(make_plan: MakePlan) -> None:
    plan = make_plan(payload(), payload())
    first, second = plan.jobs
    chained = replace(plan, jobs=(first, replace(second, after=(((0,), "ok"),))))
    assert finish_at(chained, 0, times(10, 5)) == T0 + 15 * MINUTE
    backwards = replace(plan, jobs=(replace(first, after=(((1,), "ok"),)), second))
    assert finish_at(backwards, 0, times(10, 5)) is None
    assert finish_at(replace(plan, rules=RunRules(max_in_flight=1)), 0, times(10, 5)) is None


# ---------------------------------------------------------------------------------------------------------------------
# In words


def test_a_plan_says_when_all_will_be_done_and_how_that_is_known(make_plan: MakePlan) -> None:
    plan = make_plan(*[payload("600")] * 8, size=4, interval=90)
    assert plan_lines(plan, 4, now=T0, zone=load_zone("Europe/Berlin"), is_simulated=True) == [
        "  wave   starts        jobs",
        "  1      now           4",
        "  2      +1 min 30 s   4",
        "  Expected: all sent in 1 min 31 s",
        "  Prediction: all done by 2026-11-30 19:20 +0100, in 20 min (run times: FAIRSHARE_SIM_SECONDS; 4 instances, "
        "nobody else in the queue)",
    ]


def test_a_plan_that_took_a_while_to_make_ends_later(make_plan: MakePlan) -> None:
    [*_, last] = plan_lines(make_plan(payload("600")), 4, now=T0 + MINUTE, zone=UTC, is_simulated=True)
    assert last.startswith("  Prediction: all done by 2026-11-30 18:11 +0000, in 10 min ")


def test_a_program_is_told_the_same(make_plan: MakePlan) -> None:
    plan = make_plan(*[payload("600")] * 8, size=4, interval=90)
    basis = "FAIRSHARE_SIM_SECONDS"
    assert predict(plan, 4, is_simulated=True) == Prediction(T0 + 91_000, T0 + 20 * MINUTE + 750, basis)
    assert predict(plan, 4) == Prediction(T0 + 91_000, None, None)
    assert predict(replace(plan, rules=RunRules(max_in_flight=4)), 4, is_simulated=True) == Prediction(
        None, None, basis
    )
    auto = replace(make_plan(payload("600")), rules=RunRules(auto=AutoWaves()))
    assert predict(auto, 4, is_simulated=True) == Prediction(None, T0 + 11 * MINUTE, basis)
    assert predict(make_plan(), 4) == Prediction(None, None, None)


def test_jobs_that_may_be_held_are_sent_then_at_the_earliest(make_plan: MakePlan) -> None:
    plan = make_plan(*[payload()] * 4, size=2, interval=60, rules=RunRules(max_in_flight=1))
    assert "  Expected: all sent in 1 min at the earliest" in plan_lines(plan, 0, now=T0, zone=UTC)
    first, *others = make_plan(*[payload()] * 4, size=2, interval=60).jobs
    chained = replace(plan, jobs=(first, *(replace(job, after=(((0,), "ok"),)) for job in others)), rules=RunRules())
    assert "  Expected: all sent in 1 min at the earliest" in plan_lines(chained, 0, now=T0, zone=UTC)


def test_what_is_not_known_is_not_guessed(make_plan: MakePlan) -> None:
    [*_, last] = plan_lines(make_plan(payload("600")), 4, now=T0, zone=UTC)
    assert last == ("  Prediction: the finish is not known, since no run times are; max_runtime ends a job after 1 d")
    waits = make_plan(payload("600"), rules=RunRules(max_in_flight=1))
    [*_, last] = plan_lines(waits, 4, now=T0, zone=UTC, is_simulated=True)
    assert last == "  Prediction: the finish is not known, since jobs wait for others"
    assert plan_lines(make_plan(), 4, now=T0, zone=UTC) == []


def test_a_window_shows_its_own_zone(make_plan: MakePlan) -> None:
    window = parse_window("20:00-06:00 Asia/Tokyo")
    waves = plan_waves(1, None, 0, T0, window)
    plan = make_plan(payload("60"), waves=waves, rules=RunRules(Gate(window=window)))
    lines = plan_lines(plan, 0, now=T0, zone=UTC, is_simulated=True)
    assert lines[1] == "  1      now      2026-12-01 03:00:00 +0900   1"
    assert "all done by 2026-12-01 03:01 +0900" in lines[-1]


def test_waves_that_follow_the_launches_say_what_they_assume(make_plan: MakePlan) -> None:
    rules = RunRules(auto=AutoWaves(hold_runnable=True), limits=Limits(concurrent_launches=2))
    lines = plan_lines(make_plan(*[payload("60")] * 4, rules=rules), 0, now=T0, zone=UTC, is_simulated=True)
    assert lines[0] == "  wave   starts   jobs"
    assert lines[1] == "  1      now      2"
    assert lines[-3:] == [
        "  Waves follow the launches, at first 2 at once; jobs that wait in the queue count as launching and may lose "
        "their place",
        "  Prediction: all launched in 2 min (a launch is taken to last 1 min; resources.launch_peak.for says better)",
        "  Prediction: all done by 2026-11-30 18:03 +0000, in 3 min (run times: FAIRSHARE_SIM_SECONDS; 4 instances, "
        "nobody else in the queue)",
    ]


def test_declared_launches_are_not_assumed(make_plan: MakePlan) -> None:
    plan = make_plan(*[payload()] * 2, rules=RunRules(auto=AutoWaves(first=1)))
    peak = LaunchPeak(seconds=30)
    plan = replace(plan, jobs=tuple(replace(job, launch_peak=peak) for job in plan.jobs))
    lines = plan_lines(plan, 0, now=T0, zone=UTC)
    assert "  Prediction: all launched in 1 min (launches as long as resources.launch_peak.for says)" in lines
