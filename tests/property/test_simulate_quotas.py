"""Random workloads on random quota shares: whatever happens, the figures say what happened."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairshare.model import CapacityLimit, QuotaSharePolicy, SharingStrategy
from fairshare.scheduler.engine import EngineOptions, PutEnvironment, PutQueue, PutQuotaShare, TimeLimit, VictimRule
from fairshare.simulate.course import NOT_YET, Course
from fairshare.simulate.figures import figures_of
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, first_in_first_out
from fairshare.simulate.workload import WorkJob, Workload, workload_of

TYPES = ("ml.c5.xlarge", "ml.p4d.24xlarge")
SHARES = ("A", "B", "C")

CODES = ("MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE", "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED")


@st.composite
def quota_settings(draw: st.DrawFn) -> Setting:
    """One queue, two instance types, three shares that own all that there is; what can never start is ended."""
    shares = [
        PutQuotaShare(
            name=name,
            queue="q",
            capacity_limits=tuple(CapacityLimit(draw(st.integers(1, 3)), kind) for kind in TYPES),
            sharing=draw(st.sampled_from((*SharingStrategy, SharingStrategy.LEND_AND_BORROW))),
            in_share_preemption=draw(st.sampled_from((True, True, False))),
        )
        for name in SHARES
    ]
    total: Counter[str] = Counter()
    for limit in (limit for share in shares for limit in share.capacity_limits):
        total[limit.capacity_unit] += limit.max_capacity
    limits = tuple(CapacityLimit(number, kind) for kind, number in total.items())
    return Setting(
        name="random",
        environments={"env": PutEnvironment("env", total.total(), capacity_limits=limits)},
        queues={
            "q": PutQueue(
                "q", "env", policy=QuotaSharePolicy(), time_limits=tuple(TimeLimit(c, 600_000) for c in CODES)
            )
        },
        queue="q",
        weights={"q": dict.fromkeys(SHARES, "1")},
        options=EngineOptions(victim_rule=draw(st.sampled_from(VictimRule))),
        quota_shares={"q": shares},
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    row = st.tuples(
        *(st.integers(0, 30), st.integers(5, 60), st.sampled_from((1, 1, 1, 2, 2, 4))),
        *(st.sampled_from(SHARES), st.integers(0, 2), st.sampled_from((TYPES[0], *TYPES))),
    )
    rows = draw(st.lists(row, min_size=8, max_size=24))
    return workload_of(
        "random",
        [
            WorkJob(str(number), at * 60_000, run * 60_000, size, share, priority, "", kind)
            for number, (at, run, size, share, priority, kind) in enumerate(rows)
        ],
    )


def most_in_use(course: Course) -> dict[str, int]:
    """The most instances of each type that were ever in use; what ends at an instant is free for what begins then."""
    changes: dict[str, list[tuple[int, int]]] = {kind: [] for kind in TYPES}
    for each in course.attempts():
        job = course.workload.jobs[each.job]
        if each.end > each.start:
            changes[job.instance_type] += [(each.start, job.demand), (each.end, -job.demand)]
    return {kind: max(accumulate(n for _, n in sorted(steps)), default=0) for kind, steps in changes.items()}


few = settings(max_examples=25)


@few
@given(workloads(), quota_settings())
def test_every_job_is_accounted_for_exactly_once(workload: Workload, setting: Setting) -> None:
    course = simulate(workload, setting)
    figures = figures_of(course)
    done = Counter(each.job for each in course.attempts() if not each.is_preempted)
    ended = {job for job, end in enumerate(course.last_ends) if end != NOT_YET}

    assert done == Counter(ended)
    assert ended.isdisjoint(course.given_up)
    assert len(ended) + len(course.given_up) + figures.unfinished == len(workload.jobs)
    assert figures.unfinished == 0
    assert {job for job, start in enumerate(course.first_starts) if start != NOT_YET} == ended
    for each in course.attempts():
        ran = each.end - each.start
        assert (0 <= ran < workload.jobs[each.job].run_time) if each.is_preempted else True
        assert each.is_preempted or ran == workload.jobs[each.job].run_time
    assert sum(share.given_up for share in figures.shares) == sum(figures.given_up.values()) == len(course.given_up)


@few
@given(workloads(), quota_settings())
def test_lost_work_is_that_of_the_preempted_attempts(workload: Workload, setting: Setting) -> None:
    course = simulate(workload, setting)
    figures = figures_of(course)
    lost = [(each.end - each.start) * workload.jobs[each.job].demand for each in course.attempts() if each.is_preempted]
    work = sum(workload.jobs[job].run_time * workload.jobs[job].demand for job in set(course.jobs))
    used = figures.utilization * setting.capacity_of("q") * figures.makespan

    assert figures.preempted.lost == sum(lost) / 1000
    assert figures.preempted.attempts == len(lost) == sum(figures.preempted.by_kind.values())
    assert sum(share.preempted.lost for share in figures.shares) == pytest.approx(figures.preempted.lost)
    assert sum((Counter(share.preempted.by_kind) for share in figures.shares), Counter()) == +Counter(
        figures.preempted.by_kind
    )
    assert used == pytest.approx(work / 1000 + figures.preempted.lost, rel=1e-3, abs=1)


@few
@given(workloads(), quota_settings())
def test_no_more_of_a_type_is_in_use_than_there_is(workload: Workload, setting: Setting) -> None:
    for each in (setting, first_in_first_out(setting)):
        course = simulate(workload, each)
        limits = each.limits_of("q")
        assert all(number <= limits[kind] for kind, number in most_in_use(course).items())
        assert 0 <= figures_of(course).utilization <= 1


@few
@given(workloads(), quota_settings())
def test_the_same_in_gives_the_same_out(workload: Workload, setting: Setting) -> None:
    once, again = simulate(workload, setting), simulate(workload, setting)

    assert (once.jobs, once.starts, once.ends, once.preempted) == (
        again.jobs,
        again.starts,
        again.ends,
        again.preempted,
    )
    assert (once.kinds, once.given_up, once.pressure) == (again.kinds, again.given_up, again.pressure)
    assert figures_of(once) == figures_of(again)
