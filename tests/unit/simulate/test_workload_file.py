"""Workload files: what is refused, and what is drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fairshare.model import InvalidFileError, UsageError
from fairshare.simulate.generate import generate
from fairshare.simulate.workload import Workload
from fairshare.simulate.workload_file import load_workload_file

DAY = 24 * 3600


def draw(tmp_path: Path, text: str, seed: int | None = None) -> Workload:
    path = tmp_path / "monday.yaml"
    path.write_text(text)
    return generate(load_workload_file(path), path, seed)


def stream(arrivals: str, rest: str = "run_time: 10m", duration: str = "1d") -> str:
    return f"duration: {duration}\nstreams:\n  A: {{arrivals: {{{arrivals}}}, {rest}}}\n"


def test_every_problem_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "monday.yaml"
    path.write_text(
        "duration: 3d\n"
        "streams:\n"
        "  A: {arrivals: {poisson: {every: 30m}, fixed: {every: 3m}}, run_time: {lognormal: {medain: 4m, sigma: 1}}}\n"
        "  B: {arrivals: {daily: {per_day: 0}}, size: 0, run_time: {uniform: [10m]}}\n"
        "  C: {arrivals: {}, size: {choice: {values: [1, 4], weights: [3]}}, "
        "run_time: {lognormal: {median: 3, sigma: x}}}\n"
    )

    with pytest.raises(InvalidFileError) as refused:
        load_workload_file(path)

    assert [(p.line, p.message) for p in refused.value.problems] == [
        (3, "streams.A.arrivals: must have one of poisson, fixed, bursts, daily; not poisson and fixed"),
        (3, "median is missing in streams.A.run_time.lognormal"),
        (3, 'unknown key "medain" in streams.A.run_time.lognormal'),
        (4, "streams.B.arrivals.daily.per_day: must be at least 1, not 0"),
        (4, "streams.B.size.constant: must be at least 1, not 0"),
        (4, "streams.B.run_time.uniform: must be the smallest and the largest value"),
        (5, "streams.C.arrivals: must have one of poisson, fixed, bursts, daily; it has none of them"),
        (5, "streams.C.size.choice: needs a weight for each of the 2 values, and one above 0"),
        (5, 'streams.C.run_time.lognormal.sigma: must be a number from 0 to 10, not "x"'),
    ]


def test_fixed_arrivals_come_at_even_intervals_from_start_to_stop(tmp_path: Path) -> None:
    drawn = draw(tmp_path, stream("fixed: {every: 10m, start: 1h, stop: 100m}"))

    assert [job.submit_at // 60_000 for job in drawn.jobs] == [60, 70, 80, 90]
    assert {(job.run_time, job.demand, job.share, job.priority) for job in drawn.jobs} == {(600_000, 1, "A", 0)}


def test_bursts_repeat_and_may_spread(tmp_path: Path) -> None:
    drawn = draw(tmp_path, stream("bursts: {every: 12h, jobs: 3, over: 3m}"))

    assert [job.submit_at // 60_000 for job in drawn.jobs] == [0, 1, 2, 720, 721, 722]


def test_poisson_arrivals_have_the_mean_that_was_asked_for(tmp_path: Path) -> None:
    drawn = draw(tmp_path, stream("poisson: {every: 1m}", duration="10d"))

    assert len(drawn.jobs) == pytest.approx(10 * 24 * 60, rel=0.02)


def test_a_daily_pattern_peaks_when_it_should(tmp_path: Path) -> None:
    drawn = draw(tmp_path, stream("daily: {per_day: 1000, peak: 14h, swing: 80%}", duration="20d"))
    by_hour = Counter(job.submit_at // 3_600_000 % 24 for job in drawn.jobs)

    assert len(drawn.jobs) == pytest.approx(20_000, rel=0.03)
    assert by_hour[14] / by_hour[2] == pytest.approx(1.8 / 0.2, rel=0.25)


def test_arrivals_end_with_their_number(tmp_path: Path) -> None:
    assert len(draw(tmp_path, stream("fixed: {every: 1s, limit: 7}")).jobs) == 7


def test_distributions_of_sizes_and_run_times(tmp_path: Path) -> None:
    rest = (
        "size: {choice: {values: [1, 4], weights: [3, 1]}}, "
        "run_time: {lognormal: {median: 40m, sigma: 1, max: 2h}}, priority: 7, share: B"
    )
    drawn = draw(tmp_path, stream("fixed: {every: 20s}", rest))
    sizes = Counter(job.demand for job in drawn.jobs)
    lengths = sorted(job.run_time / 60_000 for job in drawn.jobs)

    assert sizes[4] / len(drawn.jobs) == pytest.approx(0.25, abs=0.03)
    assert lengths[len(lengths) // 2] == pytest.approx(40, rel=0.08)
    assert lengths[-1] == 120
    assert {(job.share, job.priority) for job in drawn.jobs} == {("B", 7)}


def test_uniform_sizes_reach_both_ends_equally(tmp_path: Path) -> None:
    drawn = draw(tmp_path, stream("fixed: {every: 20s}", "size: {uniform: [1, 4]}, run_time: {uniform: [1m, 2m]}"))
    sizes = Counter(job.demand for job in drawn.jobs)

    assert all(count / len(drawn.jobs) == pytest.approx(0.25, abs=0.03) for count in sizes.values())
    assert set(sizes) == {1, 2, 3, 4}


def test_the_same_seed_gives_the_same_jobs_and_another_one_others(tmp_path: Path) -> None:
    text = stream("poisson: {every: 10m}", "run_time: {lognormal: {median: 1h, sigma: 1}}") + "seed: 3\n"

    assert draw(tmp_path, text).jobs == draw(tmp_path, text, seed=3).jobs
    assert draw(tmp_path, text).jobs != draw(tmp_path, text, seed=4).jobs


def test_a_stream_more_does_not_move_the_jobs_of_another(tmp_path: Path) -> None:
    text = stream("poisson: {every: 10m}", "run_time: {lognormal: {median: 1h, sigma: 1}}")
    more = draw(tmp_path, text + "  B: {arrivals: {poisson: {every: 1h}}, run_time: 5m}\n")

    assert [job for job in more.jobs if job.share == "A"] == list(draw(tmp_path, text).jobs)


def test_time_begins_with_the_workload_not_with_its_first_job(tmp_path: Path) -> None:
    assert draw(tmp_path, stream("fixed: {every: 1h, start: 8h}")).jobs[0].submit_at == 8 * 3_600_000


def test_no_job_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="monday has no job that runs"):
        draw(tmp_path, stream("fixed: {every: 1h, start: 2d}"))
