from __future__ import annotations

import pytest

from fairshare.local.metric_store import MetricStore, Sample, SeriesKey

KEY = SeriesKey("fairshare", "Blocked", frozenset({("Queue", "ml-gpu"), ("Stack", "ml")}))


@pytest.fixture
def store() -> MetricStore:
    """Two values in the first period, statistics of four in the third, in any order of arrival."""
    found = MetricStore()
    found.add(KEY, Sample(130, 1, 9, 20, 4))
    found.add(KEY, Sample(10, 6, 6, 6, 1))
    found.add(KEY, Sample(0, 2, 2, 2, 1))
    return found


@pytest.mark.parametrize(
    ("statistic", "points"),
    [
        ("Average", [(0, 4), (120, 5)]),
        ("Sum", [(0, 8), (120, 20)]),
        ("Minimum", [(0, 2), (120, 1)]),
        ("Maximum", [(0, 6), (120, 9)]),
        ("SampleCount", [(0, 2), (120, 4)]),
        ("p50", [(0, 2), (120, 5)]),
        ("p99.9", [(0, 6), (120, 5)]),
    ],
)
def test_statistics_of_periods_and_gaps_in_between(store, statistic, points):
    assert list(store.points(KEY, statistic, 60, 0, 180)) == points


def test_the_end_is_exclusive_and_periods_begin_where_they_are_asked_to(store):
    assert list(store.points(KEY, "Sum", 60, 0, 130)) == [(0, 8)]
    assert list(store.points(KEY, "Sum", 60, 5, 131)) == [(5, 6), (125, 20)]


def test_a_metric_is_matched_whole(store):
    turned = SeriesKey("fairshare", "Blocked", frozenset({("Stack", "ml"), ("Queue", "ml-gpu")}))
    assert len(list(store.points(turned, "Sum", 60, 0, 180))) == 2
    assert list(store.points(KEY._replace(namespace="other"), "Sum", 60, 0, 180)) == []
    assert list(store.points(KEY._replace(dimensions=frozenset()), "Sum", 60, 0, 180)) == []


def test_a_statistic_that_does_not_exist_is_refused(store):
    with pytest.raises(ValueError, match="the local AWS has no statistic tm90"):
        list(store.points(KEY, "tm90", 60, 0, 180))
