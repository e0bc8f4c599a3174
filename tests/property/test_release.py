"""Any runs with dependencies, failures, limits and interruptions: order, exactly once, never too many at once."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairshare.config.jobs import AutoWaves, Limits
from fairshare.model import JobDetail, JobRef, JobRequest, JobStatus, JobSummary, ServiceError
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.calls import CallsInTurn
from fairshare.submit.dispatch import RunResult, SubmitPlan, dispatch
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.recovery import recover
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.rules import RunRules
from fairshare.submit.watch import LookPace
from fairshare.submit.waves import plan_waves

RUN = "lunar-otter-3f2a"
HOLDER = Holder("test", 0)
LAUNCH_MS = 3_000


@dataclass
class Fate:
    """What becomes of a job: refused by Batch, or run for so many ms after its launch and ended so."""

    refused: bool = False
    waits: int = 0
    runs: int = 0
    ends: str = "SUCCEEDED"


@dataclass
class Batch:
    """Batch in memory; a job's life follows from its fate. Every second acceptance is a lost reply."""

    clock: VirtualClock
    fates: list[Fate]
    loses: bool = False
    accepted: dict[int, int] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)
    requests: dict[int, JobRequest] = field(default_factory=dict)

    def submit(self, request: JobRequest) -> JobRef:
        index = int(request.job_name.split("-")[1])
        if self.fates[index].refused:
            raise ServiceError("no such queue", http_status=400)
        is_new = index not in self.accepted
        self.accepted.setdefault(index, self.clock.now())
        self.requests[index] = request
        self.calls[index] += 1
        if is_new and self.loses and index % 2:
            raise ServiceError("the connection was reset")
        return JobRef(f"id-{index}", "arn", request.job_name)

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        index = int(job_name.split("-")[1])
        return self.seen(index) if index in self.accepted else None

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        indexes = [int(each.removeprefix("id-")) for each in job_ids]
        return {f"id-{index}": self.seen(index) for index in indexes if index in self.accepted}

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        found = [self.seen(index) for index in self.accepted]
        return [job for job in found if statuses is None or job.status in statuses]

    def launched(self, index: int) -> int:
        return self.accepted[index] + self.fates[index].waits

    def ended(self, index: int) -> int:
        return self.launched(index) + LAUNCH_MS + self.fates[index].runs

    def seen(self, index: int) -> JobDetail:
        now, launched = self.clock.now(), self.launched(index)
        steps = ((self.ended(index), self.fates[index].ends), (launched + LAUNCH_MS, "RUNNING"), (launched, "STARTING"))
        status = next((status for at, status in steps if now >= at), "RUNNABLE")
        tags = self.requests[index].tags
        return JobDetail(f"id-{index}", "arn", self.requests[index].job_name, status, self.accepted[index], tags=tags)

    def most(self, spans: list[tuple[int, int]]) -> int:
        return max((sum(begin <= at < end for begin, end in spans) for at, _ in spans), default=0)


durations = st.integers(0, 20).map(lambda n: n * 1_000)
fates = st.builds(
    Fate,
    refused=st.sampled_from([False] * 7 + [True]),
    waits=st.sampled_from([0, 0, 5_000]),
    runs=durations,
    ends=st.sampled_from(["SUCCEEDED"] * 3 + ["FAILED"]),
)


@st.composite
def runs(draw: st.DrawFn, dependent: bool = True) -> tuple[list[Fate], list[PlannedJob]]:
    """Some jobs, each after some of those before it in any order of the plan, so that there is no cycle."""
    lot = draw(st.lists(fates, min_size=1, max_size=8))
    ranks = draw(st.permutations(range(len(lot))))
    jobs = []
    for index in range(len(lot)):
        earlier = [other for other in range(len(lot)) if ranks[other] < ranks[index]]
        after = []
        if earlier and dependent:
            some = st.lists(st.sampled_from(earlier), min_size=1, max_size=3, unique=True).map(sorted).map(tuple)
            after = draw(st.lists(st.tuples(some, st.sampled_from(["ok", "any", "failed"])), max_size=2))
        request = JobRequest(f"job-{index}", "q", "{}", f"token-{index}", "SHARE", 0, tags={"fairshare:run": RUN})
        jobs.append(PlannedJob(index, 1, request, after=tuple(after)))
    return lot, jobs


def session(runs_dir: Path, batch: Batch, jobs: list[PlannedJob], rules: RunRules, stop_at: int | None) -> RunResult:
    """Submit the run, or go on with it when it began."""
    earlier: tuple[Any, ...] = ()
    if (runs_dir / f"{RUN}.jsonl").exists():
        journal = Journal.open(runs_dir / f"{RUN}.jsonl", HOLDER)
        recovery = recover(journal, batch, lambda section, key, reference: [], batch.clock.now())  # type: ignore[arg-type]
        plan, earlier = recovery.plan, (recovery.earlier,)
    else:
        journal = Journal.create(runs_dir, RUN, HOLDER)
        identity = RunIdentity(RUN, 0, "us-west-2", "111122223333")
        plan = SubmitPlan(identity, plan_waves(len(jobs), None, 0, 0), tuple(jobs), rules=rules)
    calls = CallsInTurn(batch, LookPace(100, 200, 0))  # type: ignore[arg-type]
    calls.width = 3
    with journal:
        return dispatch(
            plan,
            calls,
            journal,
            batch.clock,
            Pace(random.Random(0), 0),
            lambda event: None,
            lambda: stop_at is not None and batch.clock.now() >= stop_at,
            *earlier,
        )


def sessions(lot: list[Fate], jobs: list[PlannedJob], rules: RunRules, stops: Iterable[int], *, loses: bool) -> Batch:
    """Run sessions that are stopped at these times, and one that may finish; check that each job is settled once."""
    batch = Batch(VirtualClock(), lot, loses)
    with tempfile.TemporaryDirectory() as folder:
        for stop_at in (*sorted(stops), None):
            result = session(Path(folder), batch, jobs, rules, stop_at)
        assert result.left == ()
        check(Path(folder), batch, jobs)
    return batch


def check(runs_dir: Path, batch: Batch, jobs: list[PlannedJob]) -> None:
    """Each job is settled once, in the journal as in Batch, and came after what it names."""
    record = read_run(runs_dir / f"{RUN}.jsonl")
    states = {job.index: job.state for job in record.jobs}
    for index, fate in enumerate(batch.fates):
        was_made = index in batch.accepted
        assert was_made == (record.jobs[index].job_id is not None)
        assert states[index] in ({"sent", "failed"} if was_made else {"skipped", "failed" if fate.refused else ""})
    check_order(batch, jobs)


def check_order(batch: Batch, jobs: list[PlannedJob]) -> None:
    """A job that was made came after all that its conditions name, and they had ended as they must."""
    for job in jobs:
        if job.index not in batch.accepted:
            continue
        for indexes, when in job.after:
            ends = [batch.fates[each].ends if each in batch.accepted else "NOT MADE" for each in indexes]
            made = [each for each in indexes if each in batch.accepted]
            assert all(batch.ended(each) <= batch.accepted[job.index] for each in made)
            if when == "ok":
                assert ends == ["SUCCEEDED"] * len(indexes)
            if when == "failed":
                assert "FAILED" in ends or "NOT MADE" in ends


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


few = settings(max_examples=25, deadline=None)


@few
@given(run=runs(), stops=st.lists(st.integers(0, 60_000), max_size=2), loses=st.booleans())
def test_every_job_is_settled_once_and_in_order(
    run: tuple[list[Fate], list[PlannedJob]], stops: list[int], loses: bool
) -> None:
    batch = sessions(*run, RunRules(), stops, loses=loses)

    assert all(count == 1 or (loses and index % 2) for index, count in batch.calls.items())


@few
@given(run=runs(), most=st.integers(1, 3), stops=st.lists(st.integers(0, 60_000), max_size=1))
def test_never_more_in_flight_than_allowed(
    run: tuple[list[Fate], list[PlannedJob]], most: int, stops: list[int]
) -> None:
    batch = sessions(*run, RunRules(max_in_flight=most), stops, loses=False)

    assert batch.most([(batch.accepted[index], batch.ended(index)) for index in batch.accepted]) <= most


@few
@given(run=runs(dependent=False), most=st.integers(1, 3))
def test_launches_stay_within_their_limit_when_no_job_waits(
    run: tuple[list[Fate], list[PlannedJob]], most: int
) -> None:
    lot, jobs = run
    for fate in lot:
        fate.waits = 0
    batch = sessions(lot, jobs, RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=most)), [], loses=False)

    spans = [(batch.launched(index), batch.launched(index) + LAUNCH_MS) for index in batch.accepted]
    assert batch.most(spans) <= most


@few
@given(run=runs(dependent=False), most=st.integers(1, 3))
def test_jobs_that_wait_in_the_queue_never_hold_a_launch(run: tuple[list[Fate], list[PlannedJob]], most: int) -> None:
    lot, jobs = run
    for fate in lot:
        fate.waits = 10**9
    batch = sessions(lot, jobs, RunRules(auto=AutoWaves(), limits=Limits(concurrent_launches=most)), [], loses=False)

    assert batch.clock.now() <= 300 * len(lot), "each is sent at the first look after those before it"


class Crash(BaseException):
    """The process ends here."""


WRITES = ("begin", "intend", "sent", "failed", "not_made", "ended", "skipped")


def crash_at(point: int, patched: pytest.MonkeyPatch, batch: Batch) -> None:
    """Let the process end before or after a write or a call, at the ``point``-th of these instants."""
    passed = 0

    def pass_point() -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            raise Crash

    def fused(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            pass_point()
            answer = function(*arguments, **more)
            pass_point()
            return answer

        return call

    for name in WRITES:
        patched.setattr(Journal, name, fused(getattr(Journal, name)))
    patched.setattr(batch, "submit", fused(batch.submit))


def test_c22_a_crash_at_any_point_loses_no_end_and_no_skip(tmp_path: Path) -> None:
    """One job succeeds, one fails; two come after them, one is skipped, and one runs although it was."""
    lot = [Fate(), Fate(ends="FAILED"), Fate(), Fate(), Fate()]
    afters = [(), (), (((0,), "ok"),), (((1,), "ok"),), (((2, 3), "any"),)]
    jobs = []
    for index, after in enumerate(afters):
        request = JobRequest(f"job-{index}", "q", "{}", f"token-{index}", "SHARE", 0, tags={"fairshare:run": RUN})
        jobs.append(PlannedJob(index, 1, request, after=after))
    crashes = 0

    for point in range(1, 100):
        folder, batch = tmp_path / str(point), Batch(VirtualClock(), lot)
        try:
            with pytest.MonkeyPatch.context() as patched:
                crash_at(point, patched, batch)
                session(folder, batch, jobs, RunRules(), None)
        except Crash:
            crashes += 1
            assert session(folder, batch, jobs, RunRules(), None).left == ()
        check(folder, batch, jobs)
        assert sorted(batch.accepted) == [0, 1, 2, 4]
        assert batch.calls.total() <= len(batch.accepted) + 3, "what was in doubt may be called again"
        if crashes < point:
            break

    assert crashes >= 2 * (1 + 4 + 4 + 3 + 1), "writes and calls, before and after"
