from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import SecretRef
from fairshare.model import FairshareError, JobRef, JobRequest, ServiceError, UsageError
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.calls import CallsInTurn
from fairshare.submit.dispatch import RunResult, SubmitPlan, dispatch
from fairshare.submit.events import WaveStarted
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.records import RunRecord
from fairshare.submit.recovery import FORGOTTEN_MS, Recovery, check_place, recover
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import plan_waves

T0 = 1_764_500_000_000
RUN = "lunar-otter-3f2a"
LOST = ServiceError("the connection was reset", http_status=None)
REPEATED = ServiceError("clientToken was used before", aws_code="ClientException", http_status=400)


def no_values(section: str, key: str, reference: SecretRef) -> Sequence[str]:
    return []


class Desk:
    """A run, its backend and its journal; `begin` starts it, `resume` goes on."""

    def __init__(self, tmp_path: Path, backend: Any, make_planned: Callable[..., PlannedJob]) -> None:
        self.backend = backend
        self.clock = VirtualClock(T0)
        self.runs = tmp_path / "runs"
        self.path = self.runs / f"{RUN}.jsonl"
        self.starts: list[tuple[int, int]] = []
        self.find_values = no_values
        self._make = make_planned

    def plan(self, count: int, size: int | None = None, start_at: int = T0, **job: Any) -> SubmitPlan:
        waves = plan_waves(count, size, 90, start_at)
        jobs = [self._make(i, wave.number, **job) for wave in waves for i in range(wave.first, wave.first + wave.count)]
        return SubmitPlan(RunIdentity(RUN, T0, "us-west-2", "111122223333"), waves, tuple(jobs))

    def begin(self, plan: SubmitPlan, intended: Sequence[int] = (), sent: Sequence[int] = ()) -> None:
        """Leave the run as a crash may: begun, some calls intended, the outcome of some of them noted."""
        with Journal.create(self.runs, RUN, Holder("fairshare submit", T0)) as journal:
            journal.begin(plan.identity, plan.waves, plan.jobs)
            journal.intend([plan.jobs[index] for index in intended], self.clock.now())
            for index in sent:
                journal.sent(index, self.backend.accept(plan.jobs[index].request), self.clock.now())

    def recover(self, *, failed: bool = False) -> Recovery:
        with self.open() as journal:
            return recover(journal, self.backend, self.find_values, self.clock.now(), failed=failed)

    def resume(self, *, failed: bool = False) -> RunResult:
        with self.open() as journal:
            recovery = recover(journal, self.backend, self.find_values, self.clock.now(), failed=failed)
            return dispatch(
                recovery.plan,
                CallsInTurn(self.backend),
                journal,
                self.clock,
                Pace(random.Random(1), 0),
                self._note,
                lambda: False,
                recovery.earlier,
            )

    def open(self) -> Journal:
        return Journal.open(self.path, Holder("fairshare resume", T0))

    def states(self) -> list[str]:
        return [job.state for job in self.record.jobs]

    @property
    def record(self) -> RunRecord:
        return read_run(self.path)

    def _note(self, event: object) -> None:
        if isinstance(event, WaveStarted):
            self.starts.append((event.wave.number, event.at - T0))


@pytest.fixture
def desk(tmp_path: Path, backend: Any, make_planned: Callable[..., PlannedJob]) -> Desk:
    return Desk(tmp_path, backend, make_planned)


def test_what_was_not_sent_is_sent_with_the_same_requests(desk: Desk) -> None:
    plan = desk.plan(4)
    desk.begin(plan, intended=[0, 1], sent=[0, 1])

    result = desk.resume()

    assert desk.backend.calls == [plan.jobs[2].request, plan.jobs[3].request]
    assert desk.states() == ["sent"] * 4
    assert [job.index for job, _ in result.sent] == [2, 3]


def test_c22_a_call_without_outcome_that_made_the_job_is_found(desk: Desk) -> None:
    plan = desk.plan(2)
    desk.begin(plan, intended=[0])
    desk.backend.accept(plan.jobs[0].request)

    recovery = desk.recover()

    assert [(job.index, ref) for job, ref in recovery.found] == [(0, JobRef("id-0", "arn/id-0", "job-0"))]
    assert desk.backend.calls == [], "looking sends nothing"
    assert desk.states() == ["sent", "waiting"]
    assert recovery.earlier.in_doubt == frozenset()


def test_c22_a_job_of_the_same_name_of_another_run_is_not_taken_for_it(desk: Desk) -> None:
    plan = desk.plan(1)
    desk.begin(plan, intended=[0])
    foreign = replace(plan.jobs[0].request, client_token="x", tags={"fairshare:run": "another"})
    desk.backend.accept(foreign)

    desk.resume()

    assert [call.client_token for call in desk.backend.calls] == [plan.jobs[0].request.client_token]


@pytest.mark.parametrize("is_rejected", [False, True], ids=["returned", "rejected"])
def test_c22_a_job_that_is_not_listed_yet_is_not_made_twice(
    desk: Desk, is_rejected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list lags behind the call: the token tells AWS, whichever of its two answers it gives."""
    plan = desk.plan(1)
    desk.begin(plan, intended=[0])
    desk.backend.accept(plan.jobs[0].request)
    find, looks = desk.backend.find, []

    def lagging(queue: str, job_name: str) -> Any:
        looks.append(job_name)
        return find(queue, job_name) if len(looks) > 2 else None

    monkeypatch.setattr(desk.backend, "find", lagging)
    desk.backend.answers = [REPEATED] * 2 if is_rejected else []

    result = desk.resume()

    assert [ref.job_id for _, ref in result.sent] == ["id-0"]
    assert len(desk.backend.jobs) == 1
    assert desk.states() == ["sent"]


def test_a_call_of_more_than_seven_days_ago_is_not_repeated_blindly(desk: Desk) -> None:
    desk.begin(desk.plan(1), intended=[0])
    desk.clock.advance(FORGOTTEN_MS)

    desk.resume()

    assert desk.backend.calls == []
    assert "Batch may have forgotten it" in str(desk.record.jobs[0].error)
    desk.resume(failed=True)
    assert len(desk.backend.calls) == 1, "only when asked for"


def test_a_second_resume_has_nothing_to_do(desk: Desk) -> None:
    desk.begin(desk.plan(3))
    desk.resume()

    result = desk.resume()

    assert len(desk.backend.calls) == 3
    assert (result.sent, result.left) == ((), ())


def test_failed_jobs_are_sent_again_only_when_asked(desk: Desk) -> None:
    plan = desk.plan(3)
    desk.begin(plan, intended=[0, 1, 2], sent=[0, 2])
    with desk.open() as journal:
        journal.failed(1, "no such queue", T0)
    desk.backend.failed = ["id-1"]  # job 2: the second that was accepted

    assert desk.resume().sent == ()
    result = desk.resume(failed=True)

    names = [call.job_name for call in desk.backend.calls]
    assert names == ["job-1-try2", "job-2-try2"]
    assert len({call.client_token for call in desk.backend.calls} | {plan.jobs[1].request.client_token}) == 3
    assert [(job.index, job.attempt) for job, _ in result.sent] == [(1, 2), (2, 2)]
    assert desk.states() == ["sent"] * 3
    assert [job.attempt for job in desk.record.jobs] == [1, 2, 2]


def test_a_second_attempt_that_has_no_outcome_is_looked_for_under_its_own_name(desk: Desk) -> None:
    plan = desk.plan(1)
    desk.begin(plan, intended=[0], sent=[0])
    desk.backend.failed = ["id-0"]

    def accept_and_die(request: JobRequest) -> JobRef:
        desk.backend.accept(request)
        raise KeyboardInterrupt

    desk.backend.answers = [accept_and_die]
    with pytest.raises(KeyboardInterrupt):
        desk.resume(failed=True)
    assert desk.states() == ["unknown"]
    recovery = desk.recover()

    assert [ref.job_name for _, ref in recovery.found] == ["job-0-try2"]
    assert desk.record.jobs[0].job_id == "id-1"
    assert len(desk.backend.jobs) == 2


def test_waves_that_are_late_keep_their_distances_from_now_on(desk: Desk) -> None:
    desk.begin(desk.plan(7, size=2), intended=[0, 1, 2], sent=[0, 1, 2])
    desk.clock.advance(1_000_000)

    desk.resume()

    assert desk.starts == [(2, 1_000_000), (3, 1_090_000), (4, 1_180_000)]


def test_waves_that_lie_ahead_keep_their_times(desk: Desk) -> None:
    desk.begin(desk.plan(6, size=2), intended=[0, 1], sent=[0, 1])
    desk.clock.advance(30_000)

    desk.resume()

    assert desk.starts == [(2, 90_000), (3, 180_000)]


def test_c46_secrets_are_filled_in_again(desk: Desk) -> None:
    payload = '{"Environment":{"HF_TOKEN":"hf_secret"},"TrainingJobName":"j"}'
    plan = desk.plan(1, payload=payload, secrets={"HF_TOKEN": SecretRef(from_env="HF_TOKEN")})
    desk.begin(plan)
    desk.find_values = lambda section, key, reference: ["hf_secret"]

    desk.resume()

    assert "hf_secret" not in desk.path.read_text()
    assert desk.backend.calls == [plan.jobs[0].request]


def test_c46_a_changed_secret_stops_before_anything_is_sent(desk: Desk) -> None:
    payload = '{"Environment":{"HF_TOKEN":"hf_secret"},"TrainingJobName":"j"}'
    desk.begin(desk.plan(3, payload=payload, secrets={"HF_TOKEN": SecretRef(from_env="HF_TOKEN")}))
    desk.find_values = lambda section, key, reference: ["hf_other"]

    with pytest.raises(UsageError) as caught:
        desk.resume()

    assert (
        caught.value.message == "job job-0: the value of HF_TOKEN is not the one that was submitted\nnothing was sent"
    )
    assert caught.value.hint == (
        "set HF_TOKEN in the environment to the value that was submitted, or submit the jobs as a new run"
    )
    assert desk.backend.calls == []


def test_a_run_goes_on_where_it_began(desk: Desk) -> None:
    desk.begin(desk.plan(1))

    check_place(desk.record, "us-west-2", "111122223333")
    with pytest.raises(UsageError, match="was sent to us-west-2, not eu-west-1") as caught:
        check_place(desk.record, "eu-west-1", "111122223333")
    assert caught.value.hint == "add --region us-west-2"
    with pytest.raises(FairshareError, match="was sent to account 111122223333, not 999999999999"):
        check_place(desk.record, "us-west-2", "999999999999")
