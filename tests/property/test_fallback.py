"""A job that moves between queues has at most one live attempt at any instant, wherever the process ends."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import SecretRef
from fairshare.model import JobDetail, JobRef, JobRequest, JobStatus, JobSummary, NotFoundError, ServiceError
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.calls import CallsInTurn
from fairshare.submit.dispatch import SubmitPlan, dispatch
from fairshare.submit.events import Event, JobMoved
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.recovery import recover
from fairshare.submit.requests import Alternative, PlannedJob, RunIdentity, client_token
from fairshare.submit.waves import plan_waves

RUN = "lunar-otter-3f2a"
HOLDER = Holder("test", 0)
PAYLOAD = '{"ResourceConfig":{"InstanceType":"ml.p5.48xlarge"},"TrainingJobName":"a"}'
CAPACITY = "Received status from SageMaker: ResourceLimitExceeded: none left"


class Crash(BaseException):
    """The process ends here."""


@dataclass
class Attempt:
    request: JobRequest
    created_at: int
    status: str = "RUNNABLE"
    reason: str | None = None


class Batch:
    """Batch in memory with one job name for each attempt; notes when two attempts of one job live at once.

    Jobs wait for ever in queue ``p5``, fail for capacity in ``p4`` and run in ``spare``.
    """

    def __init__(self, clock: VirtualClock, *, rejects: bool) -> None:
        self.attempts: dict[str, Attempt] = {}
        self._clock = clock
        self._rejects = rejects

    def submit(self, request: JobRequest) -> JobRef:
        job_id = f"id-{request.client_token[:8]}"
        if job_id in self.attempts and self._rejects:
            raise ServiceError("clientToken was used before", http_status=400)
        if job_id not in self.attempts:
            self.attempts[job_id] = Attempt(request, self._clock.now())
            assert len(self.live(request.job_name.split("-try")[0])) == 1
            if request.job_queue == "p4":
                self.attempts[job_id].status, self.attempts[job_id].reason = "FAILED", CAPACITY
            if request.job_queue == "spare":
                self.attempts[job_id].status = "RUNNING"
        return JobRef(job_id, "arn", request.job_name)

    def live(self, name: str) -> list[Attempt]:
        return [
            each
            for each in self.attempts.values()
            if each.request.job_name.split("-try")[0] == name and each.status not in ("FAILED", "SUCCEEDED")
        ]

    def terminate(self, job_id: str, reason: str) -> None:
        self.attempts[job_id].status, self.attempts[job_id].reason = "FAILED", reason

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        return next((job for job in self.list(queue) if job.job_name == job_name), None)

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        return {job_id: self._detail(job_id) for job_id in job_ids if job_id in self.attempts}

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        jobs = [self._detail(job_id) for job_id, each in self.attempts.items() if each.request.job_queue == queue]
        return [job for job in jobs if statuses is None or job.status in statuses]

    def _detail(self, job_id: str) -> JobDetail:
        each = self.attempts[job_id]
        request = each.request
        fields: dict[str, Any] = {"status_reason": each.reason, "tags": request.tags, "job_queue": request.job_queue}
        return JobDetail(job_id, "arn", request.job_name, each.status, each.created_at, **fields)


def plan_of(count: int, payload: str = PAYLOAD) -> SubmitPlan:
    jobs = []
    secrets = {"HF_TOKEN": SecretRef(from_env="HF_TOKEN")} if "HF_TOKEN" in payload else {}
    for index in range(count):
        token = client_token(RUN, index, payload)
        request = JobRequest(f"job-{index}", "p5", payload, token, "SHARE", 0, tags={"fairshare:run": RUN})
        alternatives = (
            Alternative("p4", None, None, "ml.p4d.24xlarge"),
            Alternative("spare", "SHARE", 7, "ml.p5.48xlarge"),
        )
        jobs.append(PlannedJob(index, 1, request, secrets, alternatives=alternatives, fallback_after=60))
    return SubmitPlan(RunIdentity(RUN, 0, "us-west-2", "111122223333"), plan_waves(count, None, 0, 0), tuple(jobs))


def session(
    runs: Path, batch: Any, clock: VirtualClock, count: int, *, failed: bool = False, payload: str = PAYLOAD
) -> list[Event]:
    """Submit the run under its id, or resume it when it exists; return what happened."""
    plan, earlier, events = plan_of(count, payload), None, []
    try:
        journal = Journal.open(runs / f"{RUN}.jsonl", HOLDER)
    except NotFoundError:
        journal = Journal.create(runs, RUN, HOLDER)
    with journal:
        if journal.record is not None:
            recovery = recover(
                journal, batch, lambda section, key, reference: ["hf_secret"], clock.now(), failed=failed
            )
            plan, earlier = recovery.plan, recovery.earlier
        pace = Pace(random.Random(0), 0)
        result = dispatch(plan, CallsInTurn(batch), journal, clock, pace, events.append, lambda: False, earlier)
    assert result.error() is None
    assert result.left == ()
    return events


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


def fused(function: Callable[..., Any], pass_point: Callable[[], None]) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        pass_point()
        answer = function(*arguments, **more)
        pass_point()
        return answer

    return call


def crashing_session(runs: Path, batch: Batch, clock: VirtualClock, count: int, point: int) -> bool:
    """A session that ends before or after the ``point``-th journal write or call; return whether it did."""
    passed = 0

    def pass_point() -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            raise Crash

    with pytest.MonkeyPatch.context() as patched:
        for name in ("begin", "intend", "sent", "failed", "not_made", "ended", "moved"):
            patched.setattr(Journal, name, fused(getattr(Journal, name), pass_point))
        for name in ("submit", "terminate"):
            patched.setattr(batch, name, fused(getattr(batch, name), pass_point))
        try:
            session(runs, batch, clock, count)
        except Crash:
            return True
    return False


def check_moved(runs: Path, batch: Batch, count: int) -> None:
    """Each job has been in each queue exactly once, and runs in the last one, which the journal knows."""
    places = sorted((each.request.job_name, each.request.job_queue, each.status) for each in batch.attempts.values())
    assert places == sorted(
        place
        for index in range(count)
        for place in (
            (f"job-{index}", "p5", "FAILED"),
            (f"job-{index}-try2", "p4", "FAILED"),
            (f"job-{index}-try3", "spare", "RUNNING"),
        )
    )
    for job in read_run(runs / f"{RUN}.jsonl").jobs:
        last = batch.attempts[job.job_id or ""].request
        assert last == job.as_planned().request
        assert (last.job_queue, last.scheduling_priority, last.payload) == ("spare", 7, PAYLOAD)


def test_jobs_move_from_queue_to_queue_until_they_run(tmp_path: Path) -> None:
    clock = VirtualClock()
    batch = Batch(clock, rejects=False)

    events = session(tmp_path, batch, clock, 3)

    check_moved(tmp_path, batch, 3)
    moves = [(event.from_queue, event.job.request.job_queue) for event in events if isinstance(event, JobMoved)]
    assert sorted(moves) == [("p4", "spare")] * 3 + [("p5", "p4")] * 3
    assert clock.now() >= 60_000


@pytest.mark.parametrize("rejects", [False, True], ids=["returned", "rejected"])
def test_a_crash_at_any_point_leaves_one_live_attempt_and_a_resume_goes_on_with_the_moves(
    tmp_path: Path, rejects: bool
) -> None:
    point, crashed = 0, True
    while crashed:
        point += 1
        clock = VirtualClock()
        runs, batch = tmp_path / str(point), Batch(clock, rejects=rejects)
        crashed = crashing_session(runs, batch, clock, 2, point)
        session(runs, batch, clock, 2)
        check_moved(runs, batch, 2)
    assert point > 2 * (1 + 2 * (3 * 3 + 1 + 2))


def test_an_end_that_somebody_else_noted_is_still_a_move(tmp_path: Path) -> None:
    """`fairshare wait` notes ends, too; the job that was ended in order to move must not count as failed then."""
    clock = VirtualClock()
    batch = Batch(clock, rejects=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Journal, "moved", fused(Journal.moved, _end_here))
        with pytest.raises(Crash):
            session(tmp_path, batch, clock, 1)
    (ended,) = batch.attempts.values()
    with Journal.open(tmp_path / f"{RUN}.jsonl", HOLDER) as journal:
        journal.ended(0, ended.status, clock.now(), reason=ended.reason)

    session(tmp_path, batch, clock, 1)

    check_moved(tmp_path, batch, 1)


def test_c46_a_job_that_moves_after_a_resume_has_its_secrets_and_the_journal_has_none(tmp_path: Path) -> None:
    clock = VirtualClock()
    batch = Batch(clock, rejects=False)
    payload = '{"Environment":{"HF_TOKEN":"hf_secret"},"ResourceConfig":{"InstanceType":"ml.p5.48xlarge"}}'
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch, "terminate", fused(batch.terminate, _end_here))
        with pytest.raises(Crash):
            session(tmp_path, batch, clock, 1, payload=payload)

    session(tmp_path, batch, clock, 1)

    assert [each.request.payload for each in batch.attempts.values()] == [
        payload,
        payload.replace("p5.48", "p4d.24"),
        payload,
    ]
    assert "hf_secret" not in (tmp_path / f"{RUN}.jsonl").read_text()


def _end_here() -> None:
    raise Crash


def test_resume_failed_sends_a_job_again_that_failed_in_its_last_queue(tmp_path: Path) -> None:
    clock = VirtualClock()
    batch = Batch(clock, rejects=False)
    session(tmp_path, batch, clock, 1)
    (running,) = batch.live("job-0")
    running.status, running.reason = "FAILED", CAPACITY

    session(tmp_path, batch, clock, 1, failed=True)

    (running,) = batch.live("job-0")
    assert (running.request.job_name, running.request.job_queue) == ("job-0-try4", "spare")
