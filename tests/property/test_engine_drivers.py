"""One engine, many drivers: the log does not depend on who calls, how often and how late."""

from __future__ import annotations

import random
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairshare.scheduler.clock import SystemClock, VirtualClock
from fairshare.scheduler.driver import run
from fairshare.scheduler.engine import PutEnvironment, PutQueue


class LateMachine(threading.Event):
    """A machine that sleeps longer than it was asked to, returns too early now and then, and whose wall clock jumps."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self._elapsed = 0.0

    def wall(self) -> float:
        return self._rng.uniform(-1e6, 1e6) if self._elapsed else 0.0

    def monotonic(self) -> float:
        return 1234.5 + self._elapsed

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._elapsed += timeout * self._rng.choice((0.5, 1, 1, 1)) + self._rng.choice((0, 0, 0.001, 7.3, 2000))
        return False


@given(st.data(), st.randoms(use_true_random=True))
def test_virtual_and_wall_clock_give_equal_logs(workload_kit: Any, data: st.DataObject, rng: random.Random) -> None:
    workload = data.draw(workload_kit.workloads(rich=True))
    machine = LateMachine(rng)
    seen: list[Any] = []
    virtual, wall = workload_kit.Player(workload), workload_kit.Player(workload)
    expected = run(virtual.engine, virtual, VirtualClock())
    log = run(wall.engine, wall, SystemClock(machine, machine.wall, machine.monotonic), seen.append)
    assert log == seen == expected == workload_kit.Player(workload).play()


@given(st.data())
def test_settling_in_many_small_steps_is_settling_once(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.workloads(rich=True))
    stepwise = workload_kit.Player(workload)
    log = []
    for now in sorted(data.draw(st.lists(st.integers(0, 4_000_000), max_size=60))):
        log += stepwise.settle(now)
    log += stepwise.play()
    assert log == workload_kit.Player(workload).play()


@given(st.data())
def test_submitting_when_the_time_comes_is_submitting_ahead(workload_kit: Any, data: st.DataObject) -> None:
    """A simulation loads its workload first, an API submits as calls arrive."""
    setup = (
        PutEnvironment("env", data.draw(st.integers(1, 6))),
        PutQueue("q", "env", policy=data.draw(workload_kit.policies())),
    )
    workload = workload_kit.Workload(setup=setup, jobs=data.draw(workload_kit.planned_jobs(("q",))))
    live = workload_kit.Player(workload, submits=False)
    log = []
    for planned in sorted(workload.jobs, key=lambda planned: planned.at):
        log += live.settle(planned.at - 1)
        live.engine.submit(planned.submission, planned.at)
    log += live.play()
    assert log == workload_kit.Player(workload).play()
