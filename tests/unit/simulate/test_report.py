"""The HTML report and its charts, without a browser (tests/integration has one)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace

import pytest

from fairshare.model import FairsharePolicy
from fairshare.scheduler.engine import Preemption
from fairshare.simulate.charts import Axes, Series, axis_top, clock_label, duration_label, line_chart, time_ticks
from fairshare.simulate.figures import figures_of
from fairshare.simulate.gantt import Span, busiest_span, gantt_chart
from fairshare.simulate.report import report_page, share_colours
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, first_in_first_out, single_pool
from fairshare.simulate.workload import Workload

MakeWorkload = Callable[..., Workload]
HOUR = 3_600_000
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


def page(jobs: Workload, *settings: Setting) -> str:
    courses = [simulate(jobs, setting) for setting in settings]
    return report_page(jobs, [(course, figures_of(course)) for course in courses], ["Model 1.0 <note>."])


def test_the_page_holds_everything_and_asks_for_nothing(workload: MakeWorkload, fair: Setting) -> None:
    rows = [(60 * n, 900, 1 + n % 3, ("HIGHPRI", "LOWPRI")[n % 2]) for n in range(30)]
    text = page(workload(*rows), first_in_first_out(fair), fair)

    assert not re.search(r"https?://|<script|@import|url\(|\bsrc=", text)
    assert "default-src 'none'" in text
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "prefers-color-scheme: dark" in text
    for title in (
        "At a glance",
        "Jobs waiting",
        "How long jobs wait",
        "Use by share",
        "The busiest day",
        "Waits by size",
    ):
        assert title in text
    assert "Model 1.0 &lt;note&gt;." in text
    drawings = SVG.findall(text)
    assert len(drawings) == 1 + 1 + 2 * 2 + 2
    for drawing in drawings:
        ET.fromstring(drawing)


def test_names_cannot_become_markup(workload: MakeWorkload) -> None:
    jobs = workload((0, 600, 1, '"><img src=x>'), (0, 600, 1, "A"))
    text = page(replace(jobs, name="<b>trace</b>"), replace(single_pool(2), name="<i>fifo</i>"))

    assert "<img" not in text
    assert "<b>" not in text
    assert "<i>" not in text


def test_the_same_simulation_gives_the_same_page(workload: MakeWorkload, fair: Setting) -> None:
    jobs = workload((0, 600, 1, "HIGHPRI"), (0, 600, 4, "LOWPRI"))

    assert page(jobs, fair) == page(jobs, fair)


def test_one_job_under_one_policy_is_enough_for_a_page(workload: MakeWorkload) -> None:
    text = page(workload((0, 600, 1, "A")), single_pool(1))

    assert "1 jobs of" not in text
    assert "1 job of 1 share" in text


def test_jobs_that_all_wait_equally_long(workload: MakeWorkload) -> None:
    for rows, capacity in (([(0, 600, 20, "A"), *[(0, 60, 1, "A")] * 20], 20), ([(0, 60, 1, "A")] * 4, 4)):
        assert "How long jobs wait" in page(workload(*rows), single_pool(capacity))


def test_jobs_that_never_start(workload: MakeWorkload, fair: Setting) -> None:
    policy = fair.queues["gpu"].policy
    assert isinstance(policy, FairsharePolicy)
    queue = replace(fair.queues["gpu"], policy=replace(policy, compute_reservation=50))
    text = page(workload((0, 600, 4, "A"), (9, 600, 4, "A")), replace(fair, queues={"gpu": queue}))

    assert "The busiest day" in text


def test_many_shares_keep_six_colours_and_the_others_are_grey(workload: MakeWorkload) -> None:
    figures = figures_of(simulate(workload(*[(0, 600 + n, 1, f"user{n}") for n in range(9)]), single_pool(4)))
    colours = share_colours(figures)

    assert [colours[f"user{n}"] for n in range(8, -1, -1)] == ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c6", "c6"]


def test_a_chart_draws_steps_and_leaves_gaps() -> None:
    chart = line_chart("use", [Series("A", "c0", [1.0, None, 2.0, 2.0])], Axes(2.0, [], []), ["one", "two"])

    assert 'd="M0.0 150.0V150.0H250.0M500.0 0.0V0.0H750.0V0.0H1000.0"' in chart
    assert chart.count('class="hover"') == 2


def test_an_area_is_closed_at_the_bottom() -> None:
    chart = line_chart("use", [Series("A", "c0", [1.0, None], "area")], Axes(2.0, [], []))

    assert 'd="M0.0 300.0V150.0H500.0V300Z"' in chart


@pytest.mark.parametrize(
    ("largest", "top"), [(0.0, 1), (0.4, 1), (1, 1), (3, 4), (9, 10), (10, 10), (101, 200), (12_000, 20_000)]
)
def test_scales_end_at_round_numbers(largest: float, top: float) -> None:
    assert axis_top([largest, None]) == top


def test_ticks_of_time_are_round_and_few() -> None:
    assert time_ticks(0, 24 * HOUR) == [
        *((0.0, "day 1"), (1 / 6, "04:00"), (2 / 6, "08:00"), (0.5, "12:00"), (4 / 6, "16:00"), (5 / 6, "20:00")),
        (1.0, "day 2"),
    ]
    assert [label for _, label in time_ticks(5 * HOUR, 100 * 24 * HOUR, most=4)] == ["day 31", "day 61", "day 91"]
    assert all(len(time_ticks(0, span)) <= 8 for span in (1, 60_000, HOUR, 50 * HOUR, 3000 * 24 * HOUR))


def test_times_as_text() -> None:
    assert [duration_label(seconds) for seconds in (1, 90, 600, 21_600, 345_600)] == [
        *("1 s", "1.5 min", "10 min", "6 h", "4 d"),
    ]
    assert clock_label(26 * HOUR + 5 * 60_000) == "day 2, 02:05"


def test_a_gantt_chart_has_a_bar_for_each_piece_of_a_job(workload: MakeWorkload) -> None:
    """Job 2 gets rows 0 and 2, which are free, around job 1 on row 1."""
    jobs = workload((0, 3600, 1, "A"), (0, 7200, 1, "A"), (0, 3600, 1, "A"), (3600, 3600, 2, "B"))
    course = simulate(jobs, single_pool(3))
    chart = gantt_chart(course, "pool", Span(0, 2 * HOUR), {"A": "c0", "B": "c1"})

    assert chart.count("<rect") == 3 + 2
    assert '<g class="c1"><title>job-3, B, 2 of 3: day 1, 01:00, ran 1 h, came 0 s before</title>' in chart
    assert '<rect x="500.0" y="0" width="500.0" height="1"/><rect x="500.0" y="2" width="500.0" height="1"/>' in chart


def test_what_was_preempted_is_pale_and_ends_with_a_line(workload: MakeWorkload) -> None:
    jobs = workload((0, 7200, 2, "A"), (0, 1800, 1, "A"), (1800, 1800, 1, "B"))
    course = simulate(jobs, single_pool(3))
    course.preempted[:] = b"\1\1\0"
    course.kinds.update({0: Preemption.CROSS_SHARE, 1: Preemption.IN_SHARE})
    chart = gantt_chart(course, "pool", Span(0, HOUR), {"A": "c0", "B": "c1"})
    plain, cut_by_the_edge, cut = re.findall("<g .*?</g>", chart)

    assert cut_by_the_edge == (
        '<g class="c0 cut"><title>job-0, A, 2 of 3: day 1, 00:00, ran 2 h, came 0 s before; '
        'preempted to give lent instances back, and lost</title><rect x="0.0" y="0" width="1000.0" height="2"/></g>'
    )
    assert "preempted for a higher priority, and lost" in cut
    assert cut.endswith('height="1"/><path d="M500.0 2v1"/></g>')
    assert plain.startswith('<g class="c1">')


def test_who_was_preempted_is_a_table_and_the_mark_is_explained(workload: MakeWorkload) -> None:
    jobs = workload((0, 7200, 2, "A<"), (0, 1800, 1, "B"))
    course = simulate(jobs, single_pool(3))
    legend = "pale, with a line at the end: preempted, its work lost"
    calm = report_page(jobs, [(course, figures_of(course))], [])
    assert "<h2>Preemptions</h2>" not in calm
    assert legend not in calm

    course.preempted[0] = 1
    course.kinds[0] = Preemption.IN_SHARE
    text = report_page(jobs, [(course, figures_of(course))], [])
    assert '<td>A&lt;</td><td class="word">fifo</td><td>1</td><td>0</td><td>1</td><td>4 h</td></tr>' in text
    assert legend in text


def test_the_busiest_day_is_that_in_which_most_was_wanted(workload: MakeWorkload) -> None:
    day = 24 * 3600
    jobs = workload((0, 3600, 1, "A"), *[(day, 3600, 1, "A")] * 5, (3 * day, 3600, 1, "A"))
    course = simulate(jobs, single_pool(1))

    assert busiest_span([course], [figures_of(course).timeline]) == Span(24 * HOUR, 48 * HOUR)


def test_too_many_bars_for_a_day_shorten_it(workload: MakeWorkload) -> None:
    course = simulate(workload(*[(20 * n, 20, 1, "A") for n in range(4000)]), single_pool(1))

    assert busiest_span([course], [figures_of(course).timeline]).hours == 6
