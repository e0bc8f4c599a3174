"""Random workloads: figures agree with plain arithmetic, and with each other."""

from __future__ import annotations

from heapq import heappop, heappush
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairshare.config.project import parse_project
from fairshare.simulate.figures import figures_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, setting_of, single_pool, with_capacities
from fairshare.simulate.timeline import divide
from fairshare.simulate.workload import WorkJob, Workload, workload_of

CAPACITY = 6
PROJECT = """\
version: 1
stack: random
service_environments: {pool: {capacity: 6, instance_types: [ml.g6.12xlarge]}}
queues: {jobs: {service_environment: pool, fairshare: {shares: {A: {weight_factor: 1}, B: {weight_factor: 3}}}}}
"""


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 4_000), st.integers(1, 900), st.integers(1, CAPACITY), st.sampled_from("ABC")),
            min_size=1,
            max_size=40,
        )
    )
    jobs = [WorkJob(str(n), at * 1000, run * 1000, size, share) for n, (at, run, size, share) in enumerate(rows)]
    return workload_of("random", jobs)


def fair() -> Setting:
    return setting_of("fair", parse_project(PROJECT, Path("fairshare.yaml")))


def plain_fifo(workload: Workload, capacity: int) -> list[int]:
    now, free, starts = 0, capacity, []
    ends: list[tuple[int, int]] = []
    for job in workload.jobs:
        now = max(now, job.submit_at)
        while ends and (ends[0][0] <= now or free < job.demand):
            end, freed = heappop(ends)
            now, free = max(now, end), free + freed
        free -= job.demand
        heappush(ends, (now + job.run_time, job.demand))
        starts.append(now)
    return starts


@settings(max_examples=60)
@given(workloads())
def test_first_in_first_out_is_a_plain_loop(workload: Workload) -> None:
    assert list(simulate(workload, single_pool(CAPACITY)).first_starts) == plain_fifo(workload, CAPACITY)


@settings(max_examples=40)
@given(workloads(), st.integers(1, 5))
def test_more_instances_never_raise_the_total_wait_of_first_in_first_out(workload: Workload, more: int) -> None:
    small, large = (simulate(workload, single_pool(n)) for n in (CAPACITY, CAPACITY + more))

    assert sum(large.first_starts) <= sum(small.first_starts)


@settings(max_examples=40)
@given(workloads())
def test_what_was_used_is_the_work_and_never_more_than_there_was(workload: Workload) -> None:
    course = simulate(workload, fair())
    figures = figures_of(course)
    work = sum(job.run_time * job.demand for job in workload.jobs) / 1000
    timeline = figures.timeline

    assert figures.utilization * CAPACITY * figures.makespan == pytest.approx(work, rel=1e-4)
    assert sum(timeline.total_used()) * timeline.step / 1000 == pytest.approx(work)
    assert max(timeline.total_used()) <= CAPACITY + 1e-9
    assert figures.unfinished == figures.preempted.attempts == 0
    assert sum(share.capacity_fraction for share in figures.shares) == pytest.approx(1, abs=1e-5)
    assert sum(share.due_fraction for share in figures.shares) == pytest.approx(1, abs=1e-5)
    for used, due, wanted in zip(timeline.used, timeline.due, timeline.wanted, strict=True):
        assert all(0 <= a <= c + 1e-6 and b <= c + 1e-6 for a, b, c in zip(used, due, wanted, strict=True))


@settings(max_examples=30)
@given(workloads())
def test_renaming_shares_renames_the_figures_and_changes_nothing_else(workload: Workload) -> None:
    names = {"A": "A", "B": "B", "C": "zebra"}
    renamed = Workload(workload.name, [job._replace(share=names[job.share]) for job in workload.jobs])
    one, other = (figures_of(simulate(each, fair())) for each in (workload, renamed))

    assert (one.waits, one.share_error, one.jain) == (other.waits, other.share_error, other.jain)
    assert {names[share.name]: share.waits for share in one.shares} == {s.name: s.waits for s in other.shares}


@settings(max_examples=30)
@given(workloads())
def test_the_same_in_gives_the_same_out(workload: Workload) -> None:
    setting = with_capacities(fair(), [(None, CAPACITY + 1)])

    assert figures_of(simulate(workload, setting)) == figures_of(simulate(workload, setting))


@given(
    st.floats(0, 100),
    st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 100)), min_size=1, max_size=6),
)
def test_division_gives_out_all_that_can_be_taken(total: float, members: list[tuple[float, float]]) -> None:
    portions = {number: portion for number, (portion, _) in enumerate(members)}
    caps = {number: cap for number, (_, cap) in enumerate(members)}
    given_out = divide(total, portions, caps)

    assert sum(given_out.values()) == pytest.approx(min(total, sum(caps.values())), abs=1e-6)
    assert all(-1e-9 <= given_out[number] <= caps[number] + 1e-9 for number in caps)
