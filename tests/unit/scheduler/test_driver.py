"""The loop that moves engine and executor forward. `tests/property` runs it on two clocks with random workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairshare.model import JobStatus
from fairshare.scheduler.clock import VirtualClock
from fairshare.scheduler.driver import run, settle

MakeLab = Callable[..., Any]


def test_settling_late_gives_what_settling_on_time_gives(make_lab: MakeLab) -> None:
    """What an instant starts ends in time, although nobody looked in between."""
    logs = []
    for steps in (range(0, 1001), [1000]):
        lab = make_lab(2, {"A": "1", "B": "3"})
        for number in range(20):
            lab.submit(f"a-{number}", "A", runs=31)
            lab.submit(f"b-{number}", "B", at=number, runs=17)
        for second in steps:
            lab.to(second)
        logs.append(lab.log)
    assert logs[0] == logs[1]
    assert sum(entry.to_status is JobStatus.SUCCEEDED for entry in logs[0]) == 40


def test_a_job_may_end_in_the_instant_in_which_it_starts(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for number in range(3):
        lab.submit(f"job-{number}", runs=0)
    lab.to(0)
    assert lab.started() == ["job-0", "job-1", "job-2"]
    assert {entry.at for entry in lab.log} == {0}
    assert lab.engine.instances_held("env") == 0


def test_stop_orders_reach_the_executor_in_time(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.stop_takes = 20
    lab.submit("j", runs=1000)
    lab.submit("next", runs=10)
    lab.engine.terminate("j", "not needed", 5000)
    lab.to(500)
    assert lab.stopped == [("j", 5)]
    assert [(entry.job_id, entry.to_status, entry.at) for entry in lab.log if entry.at == 25_000] == [
        ("j", JobStatus.FAILED, 25_000),
        ("next", JobStatus.SCHEDULED, 25_000),
    ]


def test_settling_moves_the_engine_to_the_present_even_without_events(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    assert settle(lab.engine, lab, 77) == []
    assert lab.engine.now == 77


def test_run_ends_when_nothing_more_happens_by_itself(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("ends", runs=10)
    lab.submit("does not", at=3)
    clock = VirtualClock()
    seen: list[Any] = []
    log = run(lab.engine, lab, clock, seen.append)
    assert seen == log
    assert clock.now() == 10_000
    assert (lab.status("ends"), lab.status("does not")) == (JobStatus.SUCCEEDED, JobStatus.SCHEDULED)


def test_run_ends_when_its_sleep_is_ended_early(make_lab: MakeLab) -> None:
    class WokenAt20(VirtualClock):
        def sleep_until(self, at: int) -> None:
            super().sleep_until(min(at, 20_000))

    lab = make_lab(1)
    for number in range(5):
        lab.submit(f"job-{number}", runs=15)
    log = run(lab.engine, lab, WokenAt20())
    assert log[-1].at == 15_000
    assert lab.engine.now == 15_000
    assert lab.status("job-1") is JobStatus.SCHEDULED
