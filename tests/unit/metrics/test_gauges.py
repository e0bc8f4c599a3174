"""The table of gauges, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.metrics.gauges import GAUGES, QueueGauges, dimensions, gauge_data

PAGE = Path(__file__).parents[3] / "docs" / "gauges.md"


def test_the_page_shows_the_table_as_it_is():
    rows = [
        f"| `{gauge.name}` | {gauge.unit} | {'yes' if gauge.of_queue else ''} | {'yes' if gauge.of_share else ''} "
        f"| {gauge.meaning} |"
        for gauge in GAUGES
    ]

    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")


def test_names_are_unique_and_every_gauge_is_of_something():
    assert len({gauge.name for gauge in GAUGES}) == len(GAUGES)
    assert all(gauge.of_queue or gauge.of_share for gauge in GAUGES)


def test_a_queue_of_others_has_a_stack_too_because_cloudwatch_takes_no_empty_value():
    assert dimensions("", "q") == (("Stack", "none"), ("Queue", "q"))


def test_values_are_data_in_the_order_of_the_table():
    gauges = QueueGauges("q", "s", {"CapacityUsed": 3, "RunnableJobs": 1}, {"B": {"Blocked": 0}, "A": {"Blocked": 1}})

    data = gauge_data(gauges, 5)

    assert [(datum.name, datum.value, datum.unit, datum.at) for datum in data] == [
        ("RunnableJobs", 1, "Count", 5),
        ("CapacityUsed", 3, "Count", 5),
        ("Blocked", 1, "Count", 5),
        ("Blocked", 0, "Count", 5),
    ]
    assert dict(data[2].dimensions)["Share"] == "A"


def test_a_value_without_a_gauge_of_its_name_is_a_mistake_of_ours():
    with pytest.raises(KeyError, match="Depth"):
        gauge_data(QueueGauges("q", "s", {"Depth": 1}), 0)
