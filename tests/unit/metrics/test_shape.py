from fairshare.metrics.ports import Point
from fairshare.metrics.series import Series
from fairshare.metrics.shape import shape_of


def shape(*values, period=60):
    points = tuple(Point(n * period * 1000, value) for n, value in enumerate(values) if value is not None)
    return shape_of(Series("GPUUtilization", None, "Percent", True, points, period))


def test_warm_up_ends_at_half_of_the_usual_high():
    assert shape(1, 10, 40, 80, 80, 80).warm_up_seconds == 120


def test_a_short_dip_in_the_middle_is_no_tail():
    assert shape(80, 0, 0, 80).idle_tail_seconds == 0


def test_a_job_that_never_worked_is_all_tail_and_never_warmed_up():
    found = shape(1, 2, 1)

    assert (found.idle_tail_seconds, found.warm_up_seconds, found.measured_seconds) == (180, 0, 180)


def test_gaps_count_neither_as_work_nor_as_tail():
    found = shape(80, None, None, 80, 1, None, 1)

    assert (found.measured_seconds, found.idle_tail_seconds) == (240, 120)


def test_without_points_there_is_no_shape():
    assert shape() is None
