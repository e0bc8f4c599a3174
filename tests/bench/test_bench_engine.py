"""How fast the engine is, as ratios: `pytest tests/bench/test_bench_engine.py -s`. Not part of the test command.

The peer is a ten-line simpy `Container` that serves first in, first out, on Microsoft's Philly trace (82,247 jobs of 15
virtual clusters, 512 GPUs). The engine does fair-share with decay, priorities and gangs on it, and tells every
transition. The trace is not part of the repository: set FAIRSHARE_TRACES to the directory with `philly_adaptdl.csv`.
"""

from __future__ import annotations

import csv
import math
import os
import resource
import statistics
import time
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairshare.model import (
    CapacityLimit,
    FairsharePolicy,
    JobStatus,
    QuotaSharePolicy,
    ShareAttributes,
    SharingStrategy,
)
from fairshare.scheduler.driver import collector_at_rest, settle
from fairshare.scheduler.engine import Engine, EngineJob, JobSubmission, PutEnvironment, PutQueue, PutQuotaShare

simpy = pytest.importorskip("simpy")

TRACE = Path(os.environ.get("FAIRSHARE_TRACES", "../shared/traces")) / "philly_adaptdl.csv"
CAPACITY = 512
RUNS = 5
WEEK = 7 * 86_400_000
GOAL = 1.0
"""Of the ratio to simpy; measured 1.09 on two shared cores."""
QUOTA_GOAL = 0.03
"""Of that ratio with quota shares, of which each has a head of its own to place or to preempt for; measured 0.06."""
MEAN_FIFO_WAIT = 475_770.4
"""Seconds: several independent simulators agree on it."""

needs_the_trace = pytest.mark.skipif(not TRACE.exists(), reason=f"no trace at {TRACE}")


class Row(NamedTuple):
    """A job: arrival and run time in milliseconds, instances, share."""

    at: int
    runs: int
    size: int
    share: str


class Execution:
    """Jobs run as long as the trace says."""

    def __init__(self, engine: Engine, runs: dict[str, int]) -> None:
        self._engine = engine
        self._runs = runs

    def start(self, job: EngineJob, at: int) -> None:
        self._engine.report(job.id, job.attempt, JobStatus.SUCCEEDED, at + self._runs[job.id])

    def stop(self, job: EngineJob, at: int) -> None:
        self._engine.report(job.id, job.attempt, JobStatus.FAILED, at)


def load(copies: int = 1) -> list[Row]:
    """The trace in order of arrival, ``copies`` times in a row."""
    with TRACE.open(encoding="utf-8") as file:
        raw = [(datetime.fromisoformat(row["timestamp"]), row) for row in csv.DictReader(file)]
    raw.sort(key=lambda entry: entry[0])
    first, last = raw[0][0], raw[-1][0]
    once = [
        Row(
            round((at - first).total_seconds() * 1000),
            round(float(row["duration"]) * 1000),
            int(row["num_gpus"]),
            row["cluster"],
        )
        for at, row in raw
    ]
    span = round((last - first).total_seconds() * 1000)
    return [row._replace(at=row.at + copy * span) for copy in range(copies) for row in once]


def with_simpy(rows: list[Row]) -> float:
    """Mean wait in seconds, first in, first out."""
    environment = simpy.Environment()
    pool = simpy.Container(environment, CAPACITY, CAPACITY)
    waits: list[float] = []

    def run(row: Row) -> Any:
        yield environment.timeout(row.at)
        yield pool.get(row.size)
        waits.append(environment.now - row.at)
        yield environment.timeout(row.runs)
        yield pool.put(row.size)

    for row in rows:
        environment.process(run(row))
    environment.run()
    return statistics.fmean(waits) / 1000


def with_engine(rows: list[Row], policy: FairsharePolicy | None) -> float:
    """Mean wait in seconds; every transition is told."""
    engine = Engine()
    engine.reconfigure(PutEnvironment("env", CAPACITY), 0)
    engine.reconfigure(PutQueue("q", "env", policy=policy), 0)
    engine.advance(0)
    runs = {}
    with collector_at_rest():
        for number, row in enumerate(rows):
            job_id = f"job-{number}"
            runs[job_id] = row.runs
            engine.submit(JobSubmission(job_id, "q", row.size, row.share, number % 3), row.at)
    execution, told = Execution(engine, runs), 0
    with collector_at_rest():
        while (at := engine.next_event_at()) is not None:
            told += len(settle(engine, execution, at + WEEK))  # taken week by week, it need not be held at once
    assert told == 5 * len(rows)
    return statistics.fmean((job.scheduled_at or 0) - job.created_at for job in engine.jobs()) / 1000


def with_quota_shares(rows: list[Row]) -> int:
    """Each share owns what it asks for in the whole trace, lends, borrows and displaces; returns the preemptions."""
    kind = "ml.p4d.24xlarge"
    asked = dict.fromkeys(sorted({row.share for row in rows}), 0)
    for row in rows:
        asked[row.share] += row.size * row.runs
    engine = Engine()
    engine.reconfigure(PutEnvironment("env", 0, capacity_limits=(CapacityLimit(CAPACITY, kind),)), 0)
    engine.reconfigure(PutQueue("q", "env", policy=QuotaSharePolicy()), 0)
    for share, instance_ms in asked.items():
        own = CapacityLimit(max(1, CAPACITY * instance_ms // sum(asked.values())), kind)
        sharing = SharingStrategy.LEND_AND_BORROW
        engine.reconfigure(PutQuotaShare(share, "q", (own,), sharing=sharing, in_share_preemption=True), 0)
    engine.advance(0)
    runs = {}
    for number, row in enumerate(rows):
        job_id = f"job-{number}"
        runs[job_id] = row.runs
        job = JobSubmission(
            job_id,
            "q",
            row.size,
            scheduling_priority=number % 3,
            quota_share=row.share,
            demand_by_type=((kind, row.size),),
        )
        engine.submit(job, row.at)
    execution, preemptions = Execution(engine, runs), 0
    with collector_at_rest():
        while (at := engine.next_event_at()) is not None:
            settle(engine, execution, at + WEEK)
            preemptions += len(engine.take_preemptions())
    assert all(job.status is JobStatus.SUCCEEDED for job in engine.jobs())
    return preemptions


def policy_of(rows: list[Row]) -> FairsharePolicy:
    """Weights 1 to 5 over the shares of the trace, and a window of a day."""
    shares = sorted({row.share for row in rows})
    return FairsharePolicy(
        tuple(ShareAttributes(share, str(1 + index % 5)) for index, share in enumerate(shares)), 86_400
    )


def cpu_seconds(work: Any, *args: Any) -> float:
    """Of this process: others on the machine do not count."""
    begin = time.process_time()
    work(*args)
    return time.process_time() - begin


@needs_the_trace
def test_both_give_the_reference_waits_first_in_first_out() -> None:
    rows = load()
    assert with_simpy(rows) == pytest.approx(MEAN_FIFO_WAIT, abs=0.1)
    assert with_engine(rows, None) == pytest.approx(MEAN_FIFO_WAIT, abs=0.1)


@needs_the_trace
def test_fair_share_against_simpy_first_in_first_out() -> None:
    """The median of interleaved runs."""
    rows = load()
    policy = policy_of(rows)
    ratios = []
    for _ in range(RUNS):
        peer = cpu_seconds(with_simpy, rows)
        ours = cpu_seconds(with_engine, rows, policy)
        ratios.append(peer / ours)
        print(f"simpy {len(rows) / peer:,.0f} jobs/s, engine {len(rows) / ours:,.0f} jobs/s, ratio {ratios[-1]:.2f}")
    print(f"median {statistics.median(ratios):.2f}, goal {GOAL}")
    assert statistics.median(ratios) >= GOAL


@needs_the_trace
def test_a_million_jobs_cost_no_more_than_n_log_n_and_fit_in_1_5_gb() -> None:
    per_unit = []
    for copies in (1, 4, 13):
        rows = load(copies)
        seconds = cpu_seconds(with_engine, rows, policy_of(rows))
        per_unit.append(seconds / (len(rows) * math.log2(len(rows))))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{len(rows):,} jobs: {len(rows) / seconds:,.0f} jobs/s, at most {peak:,.0f} MB")
    assert per_unit[-1] <= 1.5 * per_unit[0]
    assert peak <= 1536


def test_waiting_shares_cost_linearly() -> None:
    """All shares always have jobs waiting; at 500, the most that AWS allows, 1,500 jobs/s at least."""
    speed = {}
    for shares in (50, 500):
        names = [f"share{number}" for number in range(shares)]
        rows = [Row(0, 60_000 + 1000 * (index % 50), 1, names[index % shares]) for index in range(20_000)]
        speed[shares] = len(rows) / cpu_seconds(with_engine, rows, policy_of(rows))
        print(f"{shares} waiting shares: {speed[shares]:,.0f} jobs/s")
    assert speed[500] >= 1500
    assert speed[50] / speed[500] <= 12


@needs_the_trace
def test_quota_shares_with_preemption_against_simpy_first_in_first_out() -> None:
    """The first 20,000 jobs, of which thousands wait: a pass must not scan what waits or runs."""
    rows = load()[:20_000]
    ratios = []
    for _ in range(RUNS):
        peer = cpu_seconds(with_simpy, rows)
        ours = cpu_seconds(with_quota_shares, rows)
        ratios.append(peer / ours)
        print(f"simpy {len(rows) / peer:,.0f} jobs/s, engine {len(rows) / ours:,.0f} jobs/s, ratio {ratios[-1]:.3f}")
    assert statistics.median(ratios) >= QUOTA_GOAL
