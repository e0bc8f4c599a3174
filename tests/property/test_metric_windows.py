"""Whatever is asked for, CloudWatch is asked for whole bins that it still keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairshare.metrics.ports import Point
from fairshare.metrics.series import Series, in_order
from fairshare.metrics.window import MAX_POINTS, choose_window

NOW = 1_796_061_637_123
DAY = 86_400_000
PERIODS = st.none() | st.sampled_from((1, 5, 10, 20, 30)) | st.integers(1, 200).map(lambda n: 60 * n)


@given(
    age=st.integers(0, 500 * DAY),
    length=st.integers(0, 500 * DAY),
    period=PERIODS,
    queries=st.integers(1, 500),
    finest=st.sampled_from((1, 60)),
)
def test_a_window_is_whole_bins_that_are_kept_and_never_empty(age, length, period, queries, finest):
    start = NOW - age

    window = choose_window(start, start + length, NOW, period=period, queries=queries, finest=finest)

    step = window.period * 1000
    assert window.start % step == window.end % step == 0
    assert window.start < window.end <= max(NOW, window.start + step)
    kept = next(p for days, p in ((0.125, 1), (15, 60), (63, 300), (500, 3600)) if min(age, 455 * DAY) <= days * DAY)
    assert window.period % kept == 0
    if period is None:
        assert (window.end - window.start) // step * queries <= MAX_POINTS + 2 * queries


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 100)), max_size=60))
def test_gaps_are_filled_with_nothing_and_no_value_is_lost(pairs):
    points = in_order(Point(minute * 60_000, value) for minute, value in pairs)
    line = Series("CPUUtilization", None, "Percent", True, points, 60).with_gaps()

    assert [Point(at, value) for at, value in line if value is not None] == list(points)
    assert [at for at, _ in line] == list(range(points[0].at, points[-1].at + 1, 60_000)) if points else line == []
