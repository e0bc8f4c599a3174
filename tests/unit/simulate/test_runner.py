"""Simulations: small ones by hand, excerpts of traces against a plain loop and against fixed figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairshare.model import InfeasibleError, JobStatus, UsageError
from fairshare.scheduler.engine import Blocking, Engine, PutEnvironment
from fairshare.simulate import runner
from fairshare.simulate.columns import parse_map
from fairshare.simulate.course import NOT_YET, Course
from fairshare.simulate.figures import figures_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, first_in_first_out, single_pool
from fairshare.simulate.trace import TraceFormat, load_trace
from fairshare.simulate.workload import Workload

MakeWorkload = Callable[..., Workload]
PHILLY = "submit=timestamp,duration=duration,size=num_gpus,share=cluster"


def started(course: Course) -> list[tuple[str, float]]:
    """Return (job, start in seconds) in the order of the scheduler."""
    return [(course.workload.jobs[each.job].id, each.start / 1000) for each in course.attempts()]


def test_first_in_first_out_the_head_holds_up_all(workload: MakeWorkload) -> None:
    course = simulate(workload((0, 10, 3, "A"), (1, 10, 4, "A"), (2, 1, 1, "B")), single_pool(4))

    assert started(course) == [("job-0", 0), ("job-1", 10), ("job-2", 20)]
    assert [end / 1000 for end in course.last_ends] == [10, 20, 21]


def test_without_blocking_small_jobs_pass(workload: MakeWorkload) -> None:
    setting = single_pool(4)
    setting = replace(setting, options=replace(setting.options, blocking=Blocking.NONE))
    course = simulate(workload((0, 10, 3, "A"), (1, 10, 4, "A"), (2, 1, 1, "B")), setting)

    assert started(course) == [("job-0", 0), ("job-2", 2), ("job-1", 10)]


def test_fair_share_takes_turns_by_weight(workload: MakeWorkload, fair: Setting) -> None:
    rows = [(0, 100, 4, "LOWPRI"), *[(1, 100, 1, share) for share in ("LOWPRI", "MIDPRI", "HIGHPRI") for _ in range(4)]]
    course = simulate(workload(*rows), fair)
    first = [course.workload.jobs[each.job].share for each in list(course.attempts())[1:5]]

    assert sorted(first) == ["HIGHPRI", "HIGHPRI", "HIGHPRI", "MIDPRI"]


def test_jobs_may_name_another_queue(workload: MakeWorkload, fair: Setting) -> None:
    jobs = workload((0, 10, 4, "A"), (0, 10, 4, "A"), (0, 10, 8, "A"))
    jobs = replace(jobs, jobs=[*jobs.jobs[:2], jobs.jobs[2]._replace(queue="batch")])
    course = simulate(jobs, fair)

    assert [start / 1000 for start in course.first_starts] == [0, 10, 0]
    assert course.shares == ["batch/A", "gpu/A"]


def test_a_queue_that_does_not_exist(workload: MakeWorkload, fair: Setting) -> None:
    jobs = workload((0, 10, 4, "A"))
    jobs = replace(jobs, jobs=[jobs.jobs[0]._replace(queue="gpus")])

    with pytest.raises(UsageError, match="job job-0 goes to queue gpus, which policy fair does not have") as refused:
        simulate(jobs, fair)
    assert refused.value.hint == "did you mean gpu? (queues: gpu, batch)"


def test_a_job_larger_than_the_pool_is_refused_with_numbers(workload: MakeWorkload, fair: Setting) -> None:
    with pytest.raises(InfeasibleError) as refused:
        simulate(workload((0, 10, 5, "A"), (0, 10, 6, "A"), (0, 10, 1, "A")), fair)

    assert refused.value.message == (
        "2 of 3 jobs of rows need up to 6 instances; gpu has 4, so they would block queue gpu for ever"
    )
    assert refused.value.hint == "give --capacity gpu=6, or count in larger units with --unit"


def test_jobs_that_a_reservation_never_lets_start_are_counted_not_averaged(
    workload: MakeWorkload, fair: Setting
) -> None:
    queue = fair.queues["gpu"]
    assert queue.policy is not None
    held_back = replace(queue, policy=replace(queue.policy, compute_reservation=50))
    setting = replace(fair, queues={**fair.queues, "gpu": held_back})
    figures = figures_of(simulate(workload((0, 10, 2, "A"), (0, 10, 4, "A")), setting))

    assert (figures.unfinished, figures.waits.jobs, figures.waits.max) == (1, 1, 0)


def test_a_stopped_attempt_starts_over_and_its_work_is_lost(
    workload: MakeWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopsOnce(Engine):
        """Takes the first attempt's instances away after 4 s, as it would when a host is lost."""

        def report(self, job_id: str, attempt: int, status: JobStatus, at: int, reason: str | None = None) -> None:
            if attempt == 1:
                super().report(job_id, attempt, JobStatus.FAILED, 4_000, "CapacityError: gone")
            else:
                super().report(job_id, attempt, status, at, reason)

    monkeypatch.setattr(runner, "Engine", StopsOnce)
    course = simulate(workload((0, 10, 2, "A")), single_pool(2))
    figures = figures_of(course)

    assert [(each.start, each.end, each.is_preempted) for each in course.attempts()] == [
        (0, 4_000, True),
        (5_000, 15_000, False),
    ]
    assert (figures.preempted.attempts, figures.preempted.lost) == (1, 8.0)
    assert sum(figures.preempted.by_kind.values()) == 0  # it was lost, not preempted by the scheduler
    assert (figures.makespan, figures.waits.max) == (15.0, 0.0)


def test_what_never_ended_has_no_end(workload: MakeWorkload, fair: Setting) -> None:
    course = simulate(workload((0, 10, 2, "A")), fair)

    assert NOT_YET not in course.last_ends


@pytest.mark.parametrize(
    ("file", "how", "capacity", "mean", "longest", "makespan"),
    [
        ("kth-400.swf", TraceFormat(), 100, 80_024.9975, 213_872, 867_242),
        ("atlas-400.swf", TraceFormat(unit=8), 1_152, 5_233.651685, 15_821, 166_474),
        ("philly-400.csv", TraceFormat(mapped=parse_map(PHILLY)), 64, 5_121.515, 12_118, 1_052_729),
    ],
)
def test_excerpts_of_traces_wait_as_long_as_in_a_plain_loop(
    data: Path,
    fifo_starts: Callable[..., list[int]],
    file: str,
    how: TraceFormat,
    capacity: int,
    mean: float,
    longest: float,
    makespan: float,
) -> None:
    trace = load_trace(data / file, how)
    course = simulate(trace, single_pool(capacity))
    figures = figures_of(course)

    assert list(course.first_starts) == fifo_starts(trace.jobs, capacity)
    assert (figures.waits.mean, figures.waits.max, figures.makespan) == (mean, longest, makespan)


def test_the_same_in_gives_the_same_out(data: Path, fair: Setting) -> None:
    trace = load_trace(data / "philly-400.csv", TraceFormat(mapped=parse_map(PHILLY)))
    setting = replace(fair, environments={**fair.environments, "gpu": PutEnvironment("gpu", 64)})
    once, again = (simulate(trace, setting) for _ in range(2))

    assert list(once.attempts()) == list(again.attempts())
    assert figures_of(once) == figures_of(again)


def test_fifo_knows_no_priority(workload: MakeWorkload, fair: Setting) -> None:
    jobs = workload((0, 10, 4, "A"), (1, 10, 4, "A"), (2, 10, 4, "A"))
    jobs = replace(jobs, jobs=[*jobs.jobs[:2], jobs.jobs[2]._replace(priority=9)])

    assert [job for job, _ in started(simulate(jobs, fair))] == ["job-0", "job-2", "job-1"]
    assert [job for job, _ in started(simulate(jobs, first_in_first_out(fair)))] == ["job-0", "job-1", "job-2"]
