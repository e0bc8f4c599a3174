import pytest

from fairshare.metrics.ports import Point
from fairshare.metrics.series import Sample, Series, in_order, spacing, sparkline, summarise


def series(*points, period=60):
    return Series("CPUUtilization", "algo-1", "Percent", True, tuple(Point(*point) for point in points), period)


def test_c36_points_in_any_order_come_oldest_first_and_pairs_stay_together():
    points = in_order([Point(125, 50), Point(123, 10), Point(124, 30)])

    assert [value for _, value in points] == [10, 30, 50]
    assert series(*points).latest == 50


def test_c36_a_point_that_two_pages_hold_counts_once():
    assert in_order([Point(1, 10), Point(2, 20), Point(2, 20)]) == (Point(1, 10), Point(2, 20))


def test_c38_gaps_are_gaps_and_means_rest_on_what_there_is():
    line = series((0, 40), (60_000, 60), (240_000, 80))

    assert line.with_gaps() == [(0, 40), (60_000, 60), (120_000, None), (180_000, None), (240_000, 80)]
    assert (line.use.mean, line.use.points) == (60, 3)


def test_c38_a_series_without_data_has_neither_a_mean_nor_a_latest_value():
    empty = series()

    assert (empty.latest, empty.use, empty.with_gaps()) == (None, None, [])


def test_points_published_less_often_than_asked_for_are_no_gaps():
    points = [Point(0, 1), Point(60_000, 2), Point(120_000, 3), Point(300_000, 4)]

    assert spacing(points, 1) == 60
    assert spacing(points[:1], 5) == 5


def test_two_points_far_apart_are_a_gap_and_not_a_longer_period():
    points = [Point(0, 1), Point(600_000, 2)]

    assert (spacing(points, 60), spacing(points, 5)) == (60, 60)


def test_quantiles_are_values_that_were_measured():
    use = summarise([Sample(value) for value in range(1, 101)])

    assert (use.p10, use.p50, use.p95, use.mean) == (10, 50, 95, 50.5)


def test_samples_count_by_their_weight():
    use = summarise([Sample(80, 8), Sample(40, 1)])

    assert use.mean == pytest.approx(75.56, abs=0.005)
    assert use.p10 == 40
    assert use.p50 == 80


def test_a_sparkline_shows_gaps_and_stays_within_its_width():
    assert sparkline([0, 50, None, 100], 10, 100) == "▁▅ █"
    assert sparkline([0] * 50 + [100] * 50, 4, 100) == "▁▁██"
    assert sparkline([7, 7], 4, 0) == "▁▁"
    assert sparkline([], 4, 100) == ""
