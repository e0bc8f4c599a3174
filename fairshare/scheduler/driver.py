"""Drivers: the loop that moves an engine and an executor forward together, on whatever clock it is given.

Real time is a driver, not a mode: the engine never learns whether its instants come from a virtual clock, the machine's
clock, or the moment an API call arrives.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from fairshare.scheduler.clock import Clock
from fairshare.scheduler.engine import Engine, Transition
from fairshare.scheduler.queues import EngineJob


class Executor(Protocol):
    """Carries out what the engine decides, and reports back through `Engine.report`."""

    def start(self, job: EngineJob, at: int) -> None:
        """Begin the job's present attempt at ``at`` ms."""

    def stop(self, job: EngineJob, at: int) -> None:
        """Ask the job's present attempt to end."""


def settle(engine: Engine, executor: Executor, now: int) -> list[Transition]:
    """Advance to ``now`` ms one instant at a time, so that reports of what an instant started take part in time.

    Returns the transitions in order. Calling it late, or in several steps, gives the same ones.
    """
    with collector_at_rest():
        while engine.step(now):
            for job in engine.take_starts():
                executor.start(job, engine.now)
            _pass_on_stops(engine, executor)
    transitions = engine.advance(now)
    _pass_on_stops(engine, executor)
    return transitions


def _pass_on_stops(engine: Engine, executor: Executor) -> None:
    for order in engine.take_stops():
        executor.stop(engine.job(order.job_id), order.at)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Look for no garbage meanwhile: an engine makes much that stays and no cycles. A quarter of a long run's time.

    `settle` does so by itself; who loads a large workload into an engine does it around that as well.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run(
    engine: Engine,
    executor: Executor,
    clock: Clock,
    on_transition: Callable[[Transition], None] = lambda transition: None,
) -> list[Transition]:
    """Drive the engine until nothing more will happen by itself; sleep on ``clock`` between instants.

    Returns early when the clock ends a sleep early: someone wants the loop to stop.
    """
    log: list[Transition] = []
    while (at := engine.next_event_at()) is not None:
        clock.sleep_until(at)
        if (now := clock.now()) < at:
            break
        for transition in settle(engine, executor, now):
            on_transition(transition)
            log.append(transition)
    return log
