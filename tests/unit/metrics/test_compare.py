from random import Random
from statistics import fmean

import pytest

from fairshare.metrics.compare import Figures, Verdict, chance, compare, figures_of, smallest_chance
from fairshare.metrics.efficiency import judge


def figures(seconds=None, **values):
    names = ("waited_seconds", "gpu_percent", "cpu_percent", "memory_percent", "instance_hours", "idle_device_hours")
    known = dict.fromkeys((*names, "spilled_mib")) | {"failed": 0.0} | values
    return Figures(seconds=seconds, **known)


def difference(before, after, name="duration"):
    return next(one for one in compare(before, after, Random(0)) if one.name == name)


def clock(hours, minutes, seconds):
    return hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (clock(3, 5, 0), clock(0, 36, 4), -80.5),
        (clock(0, 40, 21), clock(0, 36, 4), -10.6),
        (clock(0, 36, 4), clock(0, 40, 21), 11.9),
    ],
)
def test_the_run_times_of_the_tuned_systems(before, after, percent):
    found = difference([figures(before)], [figures(after)])

    assert found.percent == pytest.approx(percent, abs=0.05)
    assert found.verdict is Verdict.SINGLE


def test_use_differs_in_points_and_in_per_cent():
    found = difference([figures(gpu_percent=91.4)], [figures(gpu_percent=96.3)], "gpu_use")

    assert found.absolute == pytest.approx(4.9)
    assert found.percent == pytest.approx(5.36, abs=0.005)


def test_the_chance_of_few_runs_is_exact():
    assert chance([1, 2, 3], [4, 5, 6], Random(0)) == pytest.approx(2 / 20)
    assert chance([1, 2, 3, 4], [5, 6, 7, 8], Random(0)) == pytest.approx(2 / 70)
    assert chance([5, 5, 5], [5, 5, 5], Random(0)) == 1
    assert chance([1], [2, 3], Random(0)) == pytest.approx(2 / 3)
    assert chance([1], [10, 11], Random(0)) == pytest.approx(1 / 3)


def test_three_runs_each_cannot_tell_and_four_can():
    slow, fast = [100.0, 101, 102, 103], [10.0, 11, 12, 13]

    three = difference([figures(s) for s in slow[:3]], [figures(s) for s in fast[:3]])
    four = difference([figures(s) for s in slow], [figures(s) for s in fast])

    assert (three.verdict, four.verdict) == (Verdict.TOO_FEW, Verdict.REAL)


def test_a_difference_within_the_spread_of_the_runs_is_noise():
    found = difference([figures(s) for s in (100, 120, 90, 110, 105)], [figures(s) for s in (95, 115, 108, 99, 101)])

    assert found.verdict is Verdict.NOISE


def test_many_runs_are_drawn_at_random_and_repeat_with_the_seed():
    random = Random(1)
    before = [random.gauss(100, 5) for _ in range(30)]
    after = [random.gauss(90, 5) for _ in range(30)]

    assert chance(before, after, Random(0)) == chance(before, after, Random(0)) < 0.01


def test_equal_groups_seldom_look_different():
    random = Random(2)
    alarms = sum(
        chance([random.gauss(0, 1) for _ in range(5)], [random.gauss(0, 1) for _ in range(5)], random) <= 0.05
        for _ in range(200)
    )

    assert alarms <= 20  # 10 expected


def test_the_smallest_chance_is_reached_by_groups_that_do_not_overlap():
    for first, second in ((2, 2), (2, 3), (1, 4), (4, 4)):
        values = [float(n) for n in range(first + second)]
        values[-1] += 100 * fmean(values)
        assert chance(values[:first], values[first:], Random(0)) >= smallest_chance(first, second)
    assert smallest_chance(4, 4) == pytest.approx(2 / 70)
    assert smallest_chance(1, 19) == pytest.approx(1 / 20)


def test_c38_what_is_not_measured_is_not_zero():
    found = difference([figures(60, gpu_percent=50.0)], [figures(60)], "gpu_use")

    assert (found.candidate, found.absolute, found.percent, found.verdict) == (None, None, None, Verdict.UNKNOWN)


def test_measures_that_nobody_has_are_left_out():
    assert [one.name for one in compare([figures(60)], [figures(50)], Random(0))] == ["duration", "failures"]


def test_nothing_has_no_per_cents():
    found = difference([figures(60, spilled_mib=0)], [figures(60, spilled_mib=512)], "spilled")

    assert (found.absolute, found.percent) == (512, None)


def test_figures_of_a_job(job, measured, phases):
    found = figures_of(judge(measured(job(count=2, status="FAILED"), gpu=[[50] * 60, [70] * 60]), phases()))

    assert (found.seconds, found.waited_seconds, found.failed) == (61 * 60, 300, 1)
    assert found.gpu_percent == pytest.approx(60)
    assert found.instance_hours == pytest.approx(2 * 61 / 60)
    assert found.spilled_mib is None
