"""What holds for quota shares whatever happens. FAIRSHARE_REFERENCE_SCENARIOS=10000 tries as many scenarios."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairshare.model import CapacityLimit, JobStatus, ShareAttributes, SharingStrategy
from fairshare.scheduler.engine import (
    LEGAL_TRANSITIONS,
    Preemption,
    PutEnvironment,
    PutQueue,
    PutQuotaShare,
    RemoveQuotaShare,
)

SCENARIOS = max(25, int(os.environ.get("FAIRSHARE_REFERENCE_SCENARIOS", "0")))

many = settings(max_examples=SCENARIOS)


def settled(workload: Any) -> Any:
    """The workload where shares own all that there is, and nobody changes limits."""
    terms = [change for change in workload.setup if isinstance(change, PutQuotaShare)]
    own: Counter[str] = Counter()
    for limit in (limit for change in terms for limit in change.capacity_limits):
        own[limit.capacity_unit] += limit.max_capacity
    environment = PutEnvironment("env", 0, capacity_limits=tuple(CapacityLimit(n, kind) for kind, n in own.items()))
    return replace(workload, setup=(environment, *workload.setup[1:]), changes=())


def use_by_type(engine: Any) -> dict[str, Counter[str]]:
    """Instances in use, by quota share and type, counted from the jobs."""
    use: dict[str, Counter[str]] = defaultdict(Counter)
    for job in engine.jobs():
        for kind, number in job.demand_by_type if job.status.is_in_use else ():
            use[job.quota_share][kind] += number
    return use


@many
@given(st.data())
def test_limits_hold_at_every_instant(workload_kit: Any, data: st.DataObject) -> None:
    """Not more than there is, not more than own and borrowed, and what is reserved stays with its owner."""
    workload = settled(data.draw(workload_kit.quota_workloads()))
    terms = {change.name: change for change in workload.setup if isinstance(change, PutQuotaShare)}
    own = {name: {limit.capacity_unit: limit.max_capacity for limit in t.capacity_limits} for name, t in terms.items()}
    total = {limit.capacity_unit: limit.max_capacity for limit in workload.setup[0].capacity_limits}
    player = workload_kit.Player(workload)
    while (at := player.engine.next_event_at()) is not None:
        player.settle(at)
        use = use_by_type(player.engine)
        seen = player.engine.snapshot("q").instances_by_quota_share
        assert seen == {name: dict(held) for name, held in use.items()}
        for kind, there_is in total.items():
            held = {name: use[name][kind] for name in terms}
            assert sum(held.values()) <= there_is
            idle = {name: max(0, own[name].get(kind, 0) - held[name]) for name in terms}
            borrowed = {name: max(0, held[name] - own[name].get(kind, 0)) for name in terms}
            assert sum(borrowed.values()) <= sum(
                idle[name] for name, share in terms.items() if share.sharing != SharingStrategy.RESERVE
            )
            for name, share in terms.items():
                if share.sharing != SharingStrategy.LEND_AND_BORROW:
                    assert not borrowed[name]
                elif share.borrow_limit >= 0:
                    assert borrowed[name] * 100 <= own[name].get(kind, 0) * share.borrow_limit


@many
@given(st.data())
def test_jobs_go_legal_ways_and_preemptions_are_accounted_apart(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.quota_workloads())
    player = workload_kit.Player(workload)
    chains = defaultdict(list)
    for entry in player.play():
        chains[entry.job_id].append(entry)
    completed = Counter(notice.job_id for notice in player.engine.take_preemptions() if notice.is_completed)
    for job in player.engine.jobs():
        status = JobStatus.SUBMITTED
        for entry in chains[job.id]:
            assert entry.from_status is status
            assert entry.to_status in LEGAL_TRANSITIONS[status]
            status = entry.to_status
        assert status is job.status
        assert status.is_terminal or status is JobStatus.RUNNABLE
        lacked = sum((entry.reason or "").startswith("CAPACITY:") for entry in chains[job.id])
        assert job.attempt == len(job.attempts) + job.preempted_count + lacked
        assert len(job.attempts) <= job.max_attempts
        assert job.preempted_count == completed[job.id]
        assert job.preemption_retries is None or job.preempted_count <= job.preemption_retries + 1
        assert (job.preemption, job.stop_reason is None or status is JobStatus.FAILED) == (None, True)
    assert player.engine.next_event_at() is None


@many
@given(st.data())
def test_only_borrowers_and_lower_priorities_are_preempted(workload_kit: Any, data: st.DataObject) -> None:
    workload = settled(data.draw(workload_kit.quota_workloads()))
    in_share = {c.name: c.in_share_preemption for c in workload.setup if isinstance(c, PutQuotaShare)}
    own = {
        (change.name, limit.capacity_unit): limit.max_capacity
        for change in workload.setup
        if isinstance(change, PutQuotaShare)
        for limit in change.capacity_limits
    }
    player = workload_kit.Player(workload)
    engine = player.engine
    while (at := engine.next_event_at()) is not None:
        engine.step(at)
        use = use_by_type(engine)
        for notice in engine.take_preemptions():
            if notice.is_completed:
                continue
            victim, winner = engine.job(notice.job_id), engine.job(notice.for_job_id)
            if notice.kind is Preemption.IN_SHARE:
                assert victim.quota_share == winner.quota_share
                assert victim.scheduling_priority < winner.scheduling_priority
                assert in_share[victim.quota_share]
            else:
                assert victim.quota_share != winner.quota_share
                kinds = {kind for kind, _ in victim.demand_by_type} & {kind for kind, _ in winner.demand_by_type}
                assert any(use[victim.quota_share][kind] > own.get((victim.quota_share, kind), 0) for kind in kinds)
        for job in engine.take_starts():
            player.start(job, at)
        for order in engine.take_stops():
            player.stop(engine.job(order.job_id), at)


@many
@given(st.data())
def test_names_of_quota_shares_decide_nothing(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.quota_workloads())
    names = {"QA": "zebra", "QB": "QA", "QC": "m", "QD": "0"}

    def renamed(change: Any) -> Any:
        is_share = isinstance(change, PutQuotaShare | RemoveQuotaShare)
        return replace(change, name=names[change.name]) if is_share else change

    other = replace(
        workload,
        setup=tuple(map(renamed, workload.setup)),
        changes=tuple((at, renamed(change)) for at, change in workload.changes),
        jobs=tuple(
            replace(job, submission=replace(job.submission, quota_share=names[job.submission.quota_share]))
            for job in workload.jobs
        ),
    )
    logs = [workload_kit.Player(each).play() for each in (workload, other)]
    assert logs[0] == logs[1]


@many
@given(st.data())
def test_looking_changes_nothing_and_playing_twice_gives_the_same(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.quota_workloads())
    watched, alone = workload_kit.Player(workload), workload_kit.Player(workload)
    log = []
    for now in sorted(data.draw(st.lists(st.integers(0, 3_000_000), max_size=20))):
        log += watched.settle(now)
        watched.engine.snapshot("q", data.draw(st.integers(0, 5)))
    log += watched.play()
    assert log == alone.play()
    assert repr(list(watched.engine.jobs())) == repr(list(alone.engine.jobs()))


# -- the same workload, changed in a way that must not matter ----------------------------------------------------------


@many
@given(st.data())
def test_more_capacity_never_raises_the_total_wait_of_a_fifo_queue(workload_kit: Any, data: st.DataObject) -> None:
    """Gangs included: in a strict line nobody starts later because there is more room."""
    jobs = data.draw(workload_kit.planned_jobs(("q",)))
    least = max(planned.submission.demand for planned in jobs)
    capacity = data.draw(st.integers(least, 8))
    waits = []
    for instances in (capacity, capacity + data.draw(st.integers(1, 4))):
        setup = (PutEnvironment("env", instances), PutQueue("q", "env"))
        player = workload_kit.Player(workload_kit.Workload(setup=setup, jobs=jobs))
        player.play()
        waits.append(sum((job.scheduled_at or 0) - job.created_at for job in player.engine.jobs()))
    assert waits[1] <= waits[0]


@many
@given(st.data())
def test_the_order_of_calls_in_one_instant_decides_only_ties(workload_kit: Any, data: st.DataObject) -> None:
    """Jobs of a share have different priorities here, and shares different weights: there are no ties."""
    policy = data.draw(workload_kit.policies())
    entries = (ShareAttributes("A", "1"), ShareAttributes("B", "2"), ShareAttributes("User1", "5"))
    policy = replace(policy, share_distribution=entries)
    at = data.draw(st.integers(0, 3)) * 60_000
    jobs = tuple(
        replace(
            planned,
            at=at,
            submission=replace(
                planned.submission, share_identifier=("A", "B", "User1")[index % 3], scheduling_priority=index
            ),
        )
        for index, planned in enumerate(data.draw(workload_kit.planned_jobs(("q",))))
    )
    setup = (PutEnvironment("env", data.draw(st.integers(5, 8))), PutQueue("q", "env", policy=policy))
    starts = []
    for order in (jobs, tuple(data.draw(st.permutations(jobs)))):
        player = workload_kit.Player(workload_kit.Workload(setup=setup, jobs=order))
        player.play()
        starts.append({job.id: job.scheduled_at for job in player.engine.jobs()})
    assert starts[0] == starts[1]
