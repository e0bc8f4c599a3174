"""A run that is cut off anywhere, in its journal or in its process, goes on and makes every job exactly once."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from fairshare.model import JobDetail, JobRef, JobRequest, JobSummary, NotFoundError, ServiceError
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.calls import CallsInTurn
from fairshare.submit.dispatch import SubmitPlan, dispatch
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.recovery import recover
from fairshare.submit.requests import PlannedJob, RunIdentity, client_token
from fairshare.submit.waves import plan_waves

RUN = "lunar-otter-3f2a"
HOLDER = Holder("test", 0)


class Crash(BaseException):
    """The process ends here."""


class Batch:
    """Batch in memory. ``faults`` decides the fate of each call: None, ``lost``, ``throttled`` or ``error``."""

    def __init__(self, *, rejects: bool = False, faults: Callable[[], str | None] = lambda: None) -> None:
        self.jobs: dict[str, JobRequest] = {}
        self.rejects = rejects
        self.faults = faults

    def submit(self, request: JobRequest) -> JobRef:
        fate = self.faults()
        if fate == "throttled":
            raise ServiceError("Too Many Requests", http_status=429)
        if fate == "error":
            raise ServiceError("internal error", http_status=500)
        is_repeated = request.client_token in self.jobs
        self.jobs[request.client_token] = request
        if fate == "lost":
            raise ServiceError("the connection was reset")
        if is_repeated and self.rejects:
            raise ServiceError("clientToken was used before", http_status=400)
        return JobRef(f"id-{request.client_token}", "arn", request.job_name)

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        tokens = [token for token, request in self.jobs.items() if request.job_name == job_name]
        return JobSummary(f"id-{tokens[0]}", "arn", job_name, "RUNNABLE", 0) if tokens else None

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        found = [(job_id, self.jobs[job_id.removeprefix("id-")]) for job_id in job_ids]
        return {
            job_id: JobDetail(job_id, "arn", request.job_name, "RUNNABLE", 0, tags=request.tags)
            for job_id, request in found
        }

    def list(self, queue: str, statuses: Collection[Any] | None = None) -> list[JobSummary]:
        return []


def plan_of(count: int) -> SubmitPlan:
    jobs = []
    for index in range(count):
        token = client_token(RUN, index, "{}")[:12]
        request = JobRequest(f"jöb-{index}", "q", "{}", token, "SHARE", 0, tags={"fairshare:run": RUN})
        jobs.append(PlannedJob(index, 1, request))
    return SubmitPlan(RunIdentity(RUN, 0, "us-west-2", "111122223333"), plan_waves(count, None, 0, 0), tuple(jobs))


def session(runs: Path, batch: Any, count: int) -> None:
    """What a user does until it works: submit the run under its id, or resume it when it exists."""
    plan, earlier = plan_of(count), None
    try:
        journal = Journal.open(runs / f"{RUN}.jsonl", HOLDER)
    except NotFoundError:
        journal = Journal.create(runs, RUN, HOLDER)
    with journal:
        if journal.record is not None:
            recovery = recover(journal, batch, lambda section, key, reference: [], 0)
            plan, earlier = recovery.plan, recovery.earlier
        pace = Pace(random.Random(0), 0)
        result = dispatch(
            plan, CallsInTurn(batch), journal, VirtualClock(), pace, lambda event: None, lambda: False, earlier
        )
    assert result.error() is None
    assert result.left == ()


def check_complete(runs: Path, batch: Batch, count: int) -> None:
    assert Counter(request.job_name for request in batch.jobs.values()) == Counter(f"jöb-{i}" for i in range(count))
    by_name = {request.job_name: f"id-{token}" for token, request in batch.jobs.items()}
    assert [job.job_id for job in read_run(runs / f"{RUN}.jsonl").jobs] == [by_name[f"jöb-{i}"] for i in range(count)]


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.parametrize("rejects", [False, True], ids=["returned", "rejected"])
def test_c25_for_every_prefix_of_a_journal_resume_gives_the_requested_set(tmp_path: Path, rejects: bool) -> None:
    """The backend is as it was when the last byte of the prefix was written. Until the first call both are the same."""
    count, batch, history = 3, Batch(rejects=rejects), []
    append = Journal._append

    def noting(self: Journal, *arguments: Any, **more: Any) -> None:
        append(self, *arguments, **more)
        history.append((self.path.stat().st_size, dict(batch.jobs)))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Journal, "_append", noting)
        session(tmp_path, batch, count)
    path = tmp_path / f"{RUN}.jsonl"
    whole = path.read_bytes()
    assert history[-1][0] == len(whole)
    assert len(history) == 2 * count

    first_intent = whole.rfind(b"\n", 0, history[0][0] - 1) + 1
    for length in range(first_intent if rejects else 0, len(whole) + 1):
        path.write_bytes(whole[:length])
        later = Batch(rejects=rejects)
        later.jobs = next((dict(jobs) for end, jobs in history if length <= end), dict(batch.jobs))
        session(tmp_path, later, count)
        check_complete(tmp_path, later, count)


def fused(function: Callable[..., Any], pass_point: Callable[[], None]) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        pass_point()
        answer = function(*arguments, **more)
        pass_point()
        return answer

    return call


def sessions(runs: Path, batch: Batch, count: int, points: tuple[int, ...]) -> int:
    """Run a session that ends at each of the points in turn, then one that may finish; return the crashes."""
    crashes = 0
    for point in (*points, 0):
        passed = 0

        def pass_point(point: int = point) -> None:
            nonlocal passed
            passed += 1
            if passed == point:
                raise Crash

        with pytest.MonkeyPatch.context() as patched:
            for name in ("begin", "intend", "sent", "failed", "not_made"):
                patched.setattr(Journal, name, fused(getattr(Journal, name), pass_point))
            patched.setattr(batch, "submit", fused(batch.submit, pass_point))
            try:
                session(runs, batch, count)
            except Crash:
                crashes += 1
    return crashes


@pytest.mark.parametrize("rejects", [False, True], ids=["returned", "rejected"])
def test_c22_two_crashes_at_any_two_points_lose_and_repeat_nothing(tmp_path: Path, rejects: bool) -> None:
    count = 2
    points = 2 + count * 6

    for first in range(1, points + 1):
        for second in range(1, points + 1):
            runs, batch = tmp_path / f"{first}-{second}", Batch(rejects=rejects)
            assert sessions(runs, batch, count, (first, second)) >= 1
            check_complete(runs, batch, count)


@pytest.mark.parametrize("rejects", [False, True], ids=["returned", "rejected"])
def test_c21_c22_three_hundred_jobs_with_faults_and_crashes(tmp_path: Path, rejects: bool) -> None:
    """Replies lost (20 %), 429 (20 %), 500 (5 %), and the process ends again and again."""
    rng, count = random.Random(7), 300
    fates: Counter[str | None] = Counter()

    def fate() -> str | None:
        roll = rng.random()
        chosen = "lost" if roll < 0.2 else "throttled" if roll < 0.4 else "error" if roll < 0.45 else None
        fates[chosen] += 1
        return chosen

    batch = Batch(rejects=rejects, faults=fate)

    crashes = sessions(tmp_path, batch, count, tuple(rng.randint(1, 200) for _ in range(20)))

    assert crashes >= 10
    assert min(fates["lost"], fates["throttled"], fates["error"]) >= 10
    check_complete(tmp_path, batch, count)
