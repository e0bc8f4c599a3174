"""The simulated launcher."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fairshare.local.launcher import Attempt
from fairshare.local.simulated import SimulatedLauncher
from fairshare.model import JobStatus, UsageError


def attempt(number: int = 1, **environment: str) -> Attempt:
    return Attempt("job", number, f"AWSBatchx{number}", {"Environment": environment}, "us-west-2", "123456789012")


def reports(launcher: SimulatedLauncher, now: int = 0) -> list[tuple[Any, ...]]:
    return [(report.status.value, report.at, report.reason) for report in launcher.poll(now)]


@pytest.mark.parametrize(
    ("environment", "speed", "end"),
    [({}, 1, 60_000), ({"FAIRSHARE_SIM_SECONDS": "2.5"}, 1, 2_500), ({"FAIRSHARE_SIM_SECONDS": "90"}, 60, 1_500)],
)
def test_a_run_is_reported_whole_with_its_end_in_the_future(environment, speed, end):
    launcher = SimulatedLauncher(speed)
    launcher.start(attempt(**environment), 1_000)
    assert reports(launcher) == [("STARTING", 1_000, None), ("RUNNING", 1_000, None), ("SUCCEEDED", 1_000 + end, None)]
    assert reports(launcher) == []


def test_a_payload_without_environment_runs_the_default_time():
    launcher = SimulatedLauncher()
    launcher.start(Attempt("job", 1, "AWSBatchx", {}, "us-west-2", "123456789012"), 0)
    assert reports(launcher)[-1] == ("SUCCEEDED", 60_000, None)


def test_a_run_can_fail_on_purpose():
    launcher = SimulatedLauncher()
    launcher.start(attempt(FAIRSHARE_SIM_SECONDS="1", FAIRSHARE_SIM_EXIT_CODE="3"), 0)
    reason = "AlgorithmError: the job asked to fail (FAIRSHARE_SIM_EXIT_CODE), exit code: 3"
    assert reports(launcher)[-1] == ("FAILED", 1_000, reason)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (
            {"FAIRSHARE_SIM_SECONDS": "5m"},
            "ClientError: FAIRSHARE_SIM_SECONDS is '5m', not a number of seconds; write for instance 2.5.",
        ),
        (
            {"FAIRSHARE_SIM_SECONDS": "-1"},
            "ClientError: FAIRSHARE_SIM_SECONDS is '-1', not a number of seconds; write for instance 2.5.",
        ),
        (
            {"FAIRSHARE_SIM_SECONDS": "inf"},
            "ClientError: FAIRSHARE_SIM_SECONDS is 'inf', not a number of seconds; write for instance 2.5.",
        ),
        (
            {"FAIRSHARE_SIM_EXIT_CODE": "256"},
            "ClientError: FAIRSHARE_SIM_EXIT_CODE is '256', not an exit code; write 0 to 255.",
        ),
    ],
)
def test_what_cannot_be_read_fails_the_attempt_at_once(environment, reason):
    launcher = SimulatedLauncher()
    launcher.start(attempt(**environment), 7)
    assert reports(launcher) == [("FAILED", 7, reason)]


def test_a_stop_ends_the_attempt_at_the_next_poll():
    launcher = SimulatedLauncher()
    launcher.start(attempt(2), 0)
    launcher.poll(0)
    launcher.stop("job", 2)
    (report,) = launcher.poll(5_000)
    assert (report.job_id, report.attempt, report.status, report.at) == ("job", 2, JobStatus.FAILED, 5_000)


@pytest.mark.parametrize("speed", [0, -1, math.nan, math.inf])
def test_speed_is_a_positive_number(speed):
    with pytest.raises(UsageError, match=f"speed is {speed}"):
        SimulatedLauncher(speed)


def test_nothing_is_left_after_close():
    launcher = SimulatedLauncher()
    launcher.start(attempt(), 0)
    launcher.stop("job", 1)
    launcher.close()
    assert launcher.poll(0) == []


def failing(number: int, failures: str, **environment: str) -> list[tuple[Any, ...]]:
    launcher = SimulatedLauncher()
    launcher.start(attempt(number, FAIRSHARE_SIM_FAILURES=failures, **environment), 0)
    return reports(launcher)


def test_failures_are_scripted_one_for_each_dispatch():
    failures = '["CapacityError: no p5", "InternalServerError: x", "ResourceLimitExceeded: y"]'
    assert failing(1, failures) == [("FAILED", 0, "CapacityError: no p5")]
    assert failing(2, failures)[-1] == ("FAILED", 60_000, "InternalServerError: x")
    assert [status for status, *_ in failing(2, failures)] == ["STARTING", "RUNNING", "FAILED"]
    assert failing(3, failures) == [("FAILED", 0, "ResourceLimitExceeded: y")]
    assert failing(4, failures)[-1] == ("SUCCEEDED", 60_000, None)


def test_after_the_scripted_failures_the_exit_code_counts():
    assert failing(1, '["CapacityError: x"]', FAIRSHARE_SIM_EXIT_CODE="1") == [("FAILED", 0, "CapacityError: x")]
    assert failing(2, '["CapacityError: x"]', FAIRSHARE_SIM_EXIT_CODE="1")[-1][0] == "FAILED"


@pytest.mark.parametrize("text", ["CapacityError", "{}", "[1]", '[""]', "[" * 100_000])
def test_failures_that_cannot_be_read_fail_the_attempt_with_an_example(text):
    ((status, at, reason),) = failing(1, text)
    assert (status, at) == ("FAILED", 0)
    assert reason.startswith("ClientError: FAIRSHARE_SIM_FAILURES is ")
    assert reason.endswith('write for instance ["CapacityError: no p5", "InternalServerError: x"].')


def test_a_run_longer_than_max_runtime_is_stopped_then():
    launcher = SimulatedLauncher(speed=2)
    training_job = {"Environment": {}, "StoppingCondition": {"MaxRuntimeInSeconds": 30}}
    launcher.start(Attempt("job", 1, "AWSBatchx", training_job, "us-west-2", "123456789012"), 0)
    *_, last = launcher.poll(0)
    assert (last.status, last.at, last.secondary_status) == (JobStatus.FAILED, 15_000, "MaxRuntimeExceeded")
    assert last.reason == "MaxRuntimeExceeded: the training job ran longer than its 30 s and was stopped"
