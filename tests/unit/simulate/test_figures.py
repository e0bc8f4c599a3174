"""Figures and timelines, by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairshare.simulate.document import flat_rows, policy_document
from fairshare.simulate.figures import figures_of, percentile
from fairshare.simulate.meter import Meter
from fairshare.simulate.notes import notes_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, first_in_first_out, single_pool
from fairshare.simulate.timeline import divide, timeline_of
from fairshare.simulate.workload import Workload

MakeWorkload = Callable[..., Workload]


def test_percentiles_are_nearest_rank() -> None:
    values = list(range(1, 21))

    assert [percentile(values, percent) for percent in (5, 50, 51, 95, 96, 100)] == [1, 10, 11, 19, 20, 20]
    assert percentile([7], 50) == 7
    assert percentile([], 50) == 0


def test_figures_of_a_small_course(workload: MakeWorkload) -> None:
    """Two of four instances for 10 s, then all four, then one: 20 + 40 + 10 of 4 * 30 instance-seconds."""
    figures = figures_of(simulate(workload((0, 10, 2, "A"), (0, 10, 4, "B"), (5, 10, 1, "A")), single_pool(4)))

    assert (figures.makespan, figures.utilization) == (30.0, round(70 / 120, 6))
    assert figures.utilization_at_peak == 0.75  # jobs wait until 20 s: 60 of 80
    assert (figures.waits.p50, figures.waits.p95, figures.waits.max, figures.waits.mean) == (10.0, 15.0, 15.0, 8.333333)
    assert figures.slowdown == round((1 + 2 + 2.5) / 3, 3)
    assert figures.jobs_per_hour == 360.0
    assert (figures.starvation, figures.starved_share) == (10.0, "B")
    shares = {share.name: share for share in figures.shares}
    assert shares["A"].capacity_fraction == round(30 / 70, 6)
    assert [(size.smallest, size.largest, size.waits.max) for size in figures.sizes] == [
        (1, 1, 15.0),
        (2, 2, 0.0),
        (4, 4, 10.0),
    ]


def test_a_pool_where_nobody_waits_has_no_peak(workload: MakeWorkload) -> None:
    figures = figures_of(simulate(workload((0, 10, 2, "A"), (20, 10, 2, "A")), single_pool(4)))

    assert (figures.utilization_at_peak, figures.share_error, figures.jain, figures.starvation) == (None, None, None, 0)


def test_short_jobs_count_as_ten_seconds_in_slowdown(workload: MakeWorkload) -> None:
    figures = figures_of(simulate(workload((0, 50, 4, "A"), (0, 1, 1, "A")), single_pool(4)))

    assert figures.slowdown == round((1 + 5.1) / 2, 3)


def test_a_timeline_adds_up_to_what_was_used(workload: MakeWorkload, fair: Setting) -> None:
    rows = [(3 * n, 37 + n, 1 + n % 4, ("HIGHPRI", "LOWPRI")[n % 2]) for n in range(40)]
    course = simulate(workload(*rows), fair)
    timeline = timeline_of(course, steps=50)
    used = sum(sum(series) for series in timeline.used) * timeline.step / 1000
    waited = sum(timeline.waiting) * timeline.step / 1000

    assert used == pytest.approx(sum(run * demand for _, run, demand, _ in rows))
    starts = zip(course.first_starts, course.workload.jobs, strict=True)
    assert waited == pytest.approx(sum(start - job.submit_at for start, job in starts) / 1000)
    assert all(sum(step) <= 4 + 1e-9 for step in zip(*timeline.used, strict=True))
    assert timeline.total_used() == [sum(step) for step in zip(*timeline.used, strict=True)]


def test_what_is_due_goes_by_weight_and_never_beyond_what_was_wanted() -> None:
    portions = {0: 0.5, 1: 0.3, 2: 0.2}

    assert divide(10, portions, {0: 10, 1: 10, 2: 10}) == pytest.approx({0: 5, 1: 3, 2: 2})
    assert divide(10, portions, {0: 1, 1: 10, 2: 10}) == pytest.approx({0: 1, 1: 5.4, 2: 3.6})
    assert divide(10, portions, {0: 0, 1: 0, 2: 10}) == pytest.approx({0: 0, 1: 0, 2: 10})
    assert divide(0, portions, {0: 1, 1: 1, 2: 1}) == pytest.approx({0: 0, 1: 0, 2: 0})


def test_first_in_first_out_is_measured_by_the_weights_of_its_file(workload: MakeWorkload, fair: Setting) -> None:
    """LOWPRI fills the queue before HIGHPRI comes, and has all instances where a sixth of them was due to it."""
    rows = [*[(0, 100, 1, "LOWPRI")] * 8, *[(1, 100, 1, "HIGHPRI")] * 8]
    fifo, shared = (figures_of(simulate(workload(*rows), each)) for each in (first_in_first_out(fair), fair))

    assert fifo.share_error is not None
    assert shared.share_error is not None
    assert fifo.share_error > 1.5 * shared.share_error
    assert (fifo.starvation, fifo.starved_share) == (199.0, "HIGHPRI")


def test_members_of_a_prefix_entry_divide_its_portion(workload: MakeWorkload, fair: Setting) -> None:
    setting = replace(fair, weights={"gpu": {"team*": "1", "solo": "1"}})
    rows = [(0, 100, 1, share) for share in ("team1", "team2", "solo", "solo") for _ in range(4)]
    timeline = timeline_of(simulate(workload(*rows), setting), steps=4)
    due = {name: series[0] for name, series in zip(timeline.shares, timeline.due, strict=True)}

    assert due == pytest.approx({"team1": 1, "team2": 1, "solo": 2})


def test_a_meter_knows_who_starved() -> None:
    meter = Meter(2)
    meter.waits(0, 0)
    meter.starts(0, 2, 0)
    meter.waits(1, 10)
    meter.waits(0, 12)
    meter.stops(0, 2, 30)
    meter.starts(1, 2, 30)
    pressure = meter.read(100, ["A", "B"])

    assert (pressure.longest_starvation, pressure.starved_share) == (70, "A")
    assert (pressure.waiting_time, pressure.used_while_waiting) == (90, 180)


def test_the_document_has_the_fields_of_the_contract(workload: MakeWorkload, fair: Setting) -> None:
    course = simulate(workload((0, 10, 2, "A"), (0, 10, 4, "B")), fair)
    document = policy_document(course, figures_of(course), with_starts=True, with_timeline=True)

    assert {
        *("name", "jobs", "mean_wait_seconds", "max_wait_seconds", "utilization", "makespan_seconds", "preemptions"),
        *("shares", "starts"),
    } <= set(document)
    assert {"wait_p50_seconds", "wait_p95_seconds", "wait_max_seconds", "capacity_fraction"} <= set(
        document["shares"]["A"]
    )
    assert document["options"] == document["options"] | {"history_weight": 0.9, "blocking": "queue"}
    assert document["starts"][1] == {
        "job": "job-1",
        "share": "B",
        "instances": 4,
        "submit_seconds": 0.0,
        "start_seconds": 10.0,
        "end_seconds": 20.0,
        "preempted": False,
    }
    assert len(document["timeline"]["shares"]["A"]["due_instances"]) == 240
    assert [(row["name"], row["share"]) for row in flat_rows([document])] == [
        ("fair", ""),
        ("fair", "A"),
        ("fair", "B"),
    ]


def test_notes_name_the_model_the_switches_and_what_was_assumed(workload: MakeWorkload, fair: Setting) -> None:
    jobs = replace(workload((0, 10, 2, "A"), (0, 1, 1, "HIGHPRI")), left_out=1200, assumptions=("seed 7",))
    notes = notes_of(jobs, [fair, first_in_first_out(fair)])

    assert notes[0].startswith("Model 1.0, not AWS itself: history_weight 0.9, blocking queue, capacity_backoff_ms 0")
    assert notes[1:] == [
        "seed 7.",
        "1,200 jobs of the workload never ran and are left out.",
        "fair: 1 share is not in the policy and weighs 1 (A).",
    ]
