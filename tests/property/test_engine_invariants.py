"""What holds whatever happens: capacity, life cycles, shares and priorities, exactness."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairshare.model import FairsharePolicy, JobStatus, ShareAttributes
from fairshare.scheduler.engine import LEGAL_TRANSITIONS, JobSubmission, PutEnvironment, PutQueue, RemoveQueue
from fairshare.scheduler.policy import usable_instances


@given(st.data())
def test_capacity_is_never_exceeded_by_a_placement(workload_kit: Any, data: st.DataObject) -> None:
    """More than the limit is in use only after the limit was lowered, and then nothing new is placed."""
    workload = data.draw(workload_kit.workloads(rich=True))
    demand = {planned.submission.job_id: planned.submission.demand for planned in workload.jobs}
    environments = [(at, change) for at, change in workload.changes if isinstance(change, PutEnvironment)]
    limits = [(0, workload.setup[0]), *sorted(environments, key=lambda entry: entry[0])]
    held = 0
    for entry in workload_kit.Player(workload).play():
        limit = [change for at, change in limits if at <= entry.at][-1]
        if entry.to_status is JobStatus.SCHEDULED:
            held += demand[entry.job_id]
            assert held <= limit.max_capacity
            assert limit.enabled
        elif entry.from_status.is_in_use and not entry.to_status.is_in_use:
            held -= demand[entry.job_id]
    assert held == 0


@given(st.data())
def test_every_job_goes_legal_ways_and_ends_once(workload_kit: Any, data: st.DataObject) -> None:
    """No job is lost: each has one chain of transitions, and one that does not end waits behind what cannot fit."""
    workload = data.draw(workload_kit.workloads(rich=True))
    player = workload_kit.Player(workload)
    chains = defaultdict(list)
    for entry in player.play():
        chains[entry.job_id].append(entry)
    for planned in workload.jobs:
        job = player.engine.job(planned.submission.job_id)
        status = JobStatus.SUBMITTED
        for entry in chains[job.id]:
            assert entry.from_status is status
            assert entry.to_status in LEGAL_TRANSITIONS[status]
            status = entry.to_status
        assert status is job.status
        assert status.is_terminal or status is JobStatus.RUNNABLE
        assert [entry.at for entry in chains[job.id]] == sorted(entry.at for entry in chains[job.id])
        assert job.attempt == sum(entry.to_status is JobStatus.SCHEDULED for entry in chains[job.id])
    assert player.engine.next_event_at() is None


@given(st.data())
def test_attempts_are_dispatches_that_did_not_end_for_lack_of_capacity(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.workloads(rich=True))
    player = workload_kit.Player(workload)
    log = player.play()
    for job in player.engine.jobs():
        ends = [
            entry
            for entry in log
            if entry.job_id == job.id and entry.from_status.is_in_use and not entry.to_status.is_in_use
        ]
        used = [entry for entry in ends if not (entry.reason or "").startswith("CAPACITY:")]
        assert [(attempt.number, attempt.stopped_at, attempt.reason) for attempt in job.attempts] == [
            (entry.attempt, entry.at, entry.reason) for entry in used
        ]
        assert len(job.attempts) <= job.max_attempts
        assert all(entry.to_status is JobStatus.RUNNABLE for entry in ends[:-1])
        for attempt in job.attempts:
            assert attempt.scheduled_at <= (attempt.started_at or attempt.scheduled_at) <= attempt.stopped_at


@given(st.data())
def test_the_books_are_right_at_every_event(workload_kit: Any, data: st.DataObject) -> None:
    """What an environment holds is what its jobs in use hold, and use grows only below the limit."""
    workload = data.draw(workload_kit.workloads(rich=True))
    player = workload_kit.Player(workload)
    engine = player.engine
    held = 0
    while (at := engine.next_event_at()) is not None:
        log = player.settle(at)
        before, held = held, sum(job.demand for job in engine.jobs() if job.status.is_in_use)
        assert engine.instances_held("env") == held
        if any(entry.to_status is JobStatus.SCHEDULED for entry in log):
            assert held <= max(before, 8)
        for job in engine.jobs():
            assert job.status is not JobStatus.RUNNABLE or (job.scheduled_at, job.started_at) == (None, None)
            assert job.stop_reason is None or job.status.is_in_use or job.status is JobStatus.FAILED
            assert (job.stopped_at is not None) == job.status.is_terminal


@given(st.data())
def test_who_waits_for_ever_waits_behind_a_job_that_cannot_fit(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.workloads(rich=data.draw(st.booleans())))
    player = workload_kit.Player(workload)
    player.play()
    changes = [*workload.setup, *(change for _, change in sorted(workload.changes, key=lambda entry: entry[0]))]
    limit = [change for change in changes if isinstance(change, PutEnvironment)][-1]
    for name in ("q", "other", "third"):
        waiting = [job.demand for job in player.engine.jobs() if job.queue == name and job.status is JobStatus.RUNNABLE]
        policies = [change.policy for change in changes if isinstance(change, PutQueue) and change.name == name]
        reservation = max((policy.compute_reservation for policy in policies if policy), default=0)
        if waiting and limit.enabled:
            assert max(waiting) > usable_instances(limit.max_capacity, reservation, 1)


@given(st.data())
def test_only_people_and_time_outs_stop_jobs(workload_kit: Any, data: st.DataObject) -> None:
    """Fair-share never stops a running job, whoever arrives: only people do, and limits on an attempt's duration."""
    workload = data.draw(workload_kit.workloads(rich=True))
    player = workload_kit.Player(workload)
    player.play()
    asked = {job_id for _, job_id in workload.terminations}
    asked |= {job.id for job in player.engine.jobs() if job.attempt_duration_ms is not None}
    if any(isinstance(change, RemoveQueue) for _, change in workload.changes):
        asked |= {job.id for job in player.engine.jobs() if job.queue == "other"}
    assert set(player.stopped) <= asked
    assert len(player.stopped) == len(set(player.stopped))


@given(st.data())
def test_the_same_workload_gives_the_same_log(workload_kit: Any, data: st.DataObject) -> None:
    """Bit for bit: transitions, notices and the records of all jobs."""
    workload = data.draw(workload_kit.workloads(rich=True))
    runs = []
    for _ in range(2):
        player = workload_kit.Player(workload)
        runs.append(repr((player.play(), player.engine.take_notices(), list(player.engine.jobs()))).encode())
    assert runs[0] == runs[1]


@given(st.data())
def test_priority_never_crosses_shares(workload_kit: Any, data: st.DataObject) -> None:
    """Jobs of a share are alike but for their priority: whatever it is, the same shares get the same instants.

    Weights differ, so that no tie between shares comes down to the age of their heads.
    """
    weights = {"A": "0.5", "unlisted": "1", "B": data.draw(st.sampled_from(("2", "3", "0.125")))}
    policy = replace(
        data.draw(workload_kit.policies()),
        share_distribution=tuple(ShareAttributes(share, weight) for share, weight in weights.items()),
    )
    course = {share: data.draw(workload_kit.courses()) for share in weights}
    demand = {share: data.draw(st.integers(1, 3)) for share in weights}
    arrivals = data.draw(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(sorted(weights))), max_size=25))
    setup = (PutEnvironment("env", data.draw(st.integers(1, 6))), PutQueue("q", "env", policy=policy))
    logs = []
    for priorities in (st.just(0), st.integers(0, 99)):
        jobs = tuple(
            workload_kit.PlannedJob(
                JobSubmission(f"job-{number}", "q", demand[share], share, data.draw(priorities)),
                at * 30_000,
                (course[share],),
            )
            for number, (at, share) in enumerate(arrivals)
        )
        player = workload_kit.Player(workload_kit.Workload(setup=setup, jobs=jobs))
        placed = [entry for entry in player.play() if entry.to_status is JobStatus.SCHEDULED]
        logs.append([(player.engine.job(entry.job_id).share_identifier, entry.at) for entry in placed])
    assert logs[0] == logs[1]


@given(st.data())
def test_scaling_all_weights_changes_nothing(workload_kit: Any, data: st.DataObject) -> None:
    """By any rational: ``numerator / denominator`` of the two written decimals. Every identifier must be listed."""
    jobs = data.draw(workload_kit.planned_jobs(("q",)))
    environment = PutEnvironment("env", data.draw(st.integers(1, 6)))
    base = {share: data.draw(st.integers(1, 20)) for share in ("A", "B", "User*", "unlisted")}
    logs = []
    for scale in (data.draw(st.integers(1, 4000)), data.draw(st.integers(1, 4000))):
        entries = tuple(ShareAttributes(share, f"{weight * scale / 100:.2f}") for share, weight in base.items())
        setup = (environment, PutQueue("q", "env", policy=FairsharePolicy(entries)))
        logs.append(workload_kit.Player(workload_kit.Workload(setup=setup, jobs=jobs)).play())
    assert logs[0] == logs[1]


@given(st.data())
def test_looking_at_the_queue_changes_nothing(workload_kit: Any, data: st.DataObject) -> None:
    workload = data.draw(workload_kit.workloads(rich=True))
    watched, alone = workload_kit.Player(workload), workload_kit.Player(workload)
    log = []
    for now in sorted(data.draw(st.lists(st.integers(0, 3_000_000), max_size=20))):
        log += watched.settle(now)
        front = watched.engine.snapshot("q", data.draw(st.integers(0, 5))).front
        assert all(watched.engine.job(job_id).status is JobStatus.RUNNABLE for job_id, _ in front)
        assert all(watched.engine.job(job_id).created_at <= since <= now for job_id, since in front)
    log += watched.play()
    assert log == alone.play()


@given(st.data())
def test_the_snapshot_is_what_would_be_placed_with_room_for_all(workload_kit: Any, data: st.DataObject) -> None:
    policy = data.draw(st.one_of(st.none(), workload_kit.policies(reservations=(0,))))
    setup = (PutEnvironment("env", data.draw(st.integers(0, 6))), PutQueue("q", "env", policy=policy))
    workload = workload_kit.Workload(setup=setup, jobs=data.draw(workload_kit.planned_jobs(("q",))))
    player = workload_kit.Player(workload)
    now = data.draw(st.integers(0, 2_000_000))
    player.settle(now)
    front = [job_id for job_id, _ in player.engine.snapshot("q").front]
    player.engine.reconfigure(PutEnvironment("env", 1000), now)
    assert [entry.job_id for entry in player.engine.advance(now)] == front


@given(st.data())
def test_shares_that_are_alike_but_for_their_name_change_places(workload_kit: Any, data: st.DataObject) -> None:
    """Names decide nothing: exchange two shares of one weight, and their jobs exchange what happens to them."""
    weight = data.draw(st.sampled_from(("1", "3")))
    policy = FairsharePolicy(
        (ShareAttributes("A", weight), ShareAttributes("unlisted", "5"), ShareAttributes("B", weight))
    )
    jobs = data.draw(workload_kit.planned_jobs(("q",)))
    setup = (PutEnvironment("env", data.draw(st.integers(1, 6))), PutQueue("q", "env", policy=policy))
    swap = {"A": "B", "B": "A"}
    swapped = tuple(
        replace(
            planned,
            submission=replace(
                planned.submission,
                share_identifier=swap.get(planned.submission.share_identifier, planned.submission.share_identifier),
            ),
        )
        for planned in jobs
    )
    logs = [workload_kit.Player(workload_kit.Workload(setup=setup, jobs=both)).play() for both in (jobs, swapped)]
    assert logs[0] == logs[1]
