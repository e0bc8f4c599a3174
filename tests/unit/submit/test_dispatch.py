from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairshare.local.faults import Faults
from fairshare.model import (
    CredentialsError,
    FairshareError,
    JobRef,
    JobRequest,
    JobSummary,
    PartialError,
    ServiceError,
    ThrottledError,
)
from fairshare.scheduler.clock import SystemClock, VirtualClock
from fairshare.submit.calls import Calls, CallsInTurn, open_calls
from fairshare.submit.dispatch import WIDTH, RunResult, SubmitPlan, dispatch, upload
from fairshare.submit.events import (
    CallRepeated,
    Event,
    JobRefused,
    JobSent,
    UploadsDone,
    UploadsStarted,
    WaveAwaited,
    WaveStarted,
)
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.ports import Upload
from fairshare.submit.rate import DEFAULT_RATE, GIVE_UP_MS, Pace
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.sending import GRACE_MS, LOOK_MS, LOOKS
from fairshare.submit.waves import plan_waves

T0 = 1_764_500_000_000
THROTTLED = ServiceError("Too Many Requests", aws_code="TooManyRequestsException", http_status=429)
LOST = ServiceError("the connection was reset", http_status=None)
NO_QUEUE = ServiceError("JobQueue gone not found.", aws_code="ClientException", http_status=400)


class Desk:
    """Everything a submission needs, in memory; `go` runs it."""

    def __init__(self, tmp_path: Path, backend: Any, payloads: Any, make_planned: Callable[..., PlannedJob]) -> None:
        self.backend = backend
        self.payloads = payloads
        self.clock = VirtualClock(T0)
        self.events: list[Event] = []
        self.runs = tmp_path / "runs"
        self.rate = 0.0
        self.stop: Callable[[], bool] = lambda: False
        self._make = make_planned

    def plan(self, count: int, size: int | None = None, interval: int = 90, **extra: Any) -> SubmitPlan:
        waves = plan_waves(count, size, interval, T0)
        jobs = tuple(self._make(i, wave.number) for wave in waves for i in range(wave.first, wave.first + wave.count))
        return SubmitPlan(RunIdentity("lunar-otter-3f2a", T0, "us-west-2", "111122223333"), waves, jobs, **extra)

    def go(self, plan: SubmitPlan, calls: Calls | None = None) -> RunResult:
        with Journal.create(self.runs, plan.identity.run_id, Holder("fairshare submit", T0)) as journal:
            pace = Pace(random.Random(1), self.rate)
            upload(plan, self.payloads, self.events.append)
            calls = calls or CallsInTurn(self.backend)
            return dispatch(plan, calls, journal, self.clock, pace, self.events.append, lambda: self.stop())

    def states(self) -> list[str]:
        return [job.state for job in read_run(self.runs / "lunar-otter-3f2a.jsonl").jobs]

    def at(self, action: Callable[[], object]) -> Callable[[JobRequest], JobRef]:
        """An answer of the backend that does something first."""

        def answer(request: JobRequest) -> JobRef:
            action()
            return self.backend.accept(request)  # type: ignore[no-any-return]

        return answer


@pytest.fixture
def desk(tmp_path: Path, backend: Any, payloads: Any, make_planned: Callable[..., PlannedJob]) -> Desk:
    return Desk(tmp_path, backend, payloads, make_planned)


def kinds(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_all_jobs_are_sent_in_order(desk: Desk) -> None:
    plan = desk.plan(3)

    result = desk.go(plan)

    assert desk.backend.calls == [job.request for job in plan.jobs]
    assert [(job.index, ref.job_id) for job, ref in result.sent] == [(0, "id-0"), (1, "id-1"), (2, "id-2")]
    assert desk.states() == ["sent"] * 3
    assert result.error() is None
    assert result.summary() == "3 submitted"


def test_the_result_as_json(desk: Desk) -> None:
    desk.backend.answers = [desk.backend.accept, NO_QUEUE]

    document = desk.go(desk.plan(2, size=1)).to_json()

    assert document == {
        "api_version": "fairshare/v1",
        "kind": "Run",
        "run_id": "lunar-otter-3f2a",
        "jobs": [
            {
                "job_name": "job-0",
                "job_id": "id-0",
                "share_identifier": "LOWPRI",
                "quota_share": None,
                "scheduling_priority": 20,
                "wave": 1,
            }
        ],
        "refused": [{"job_name": "job-1", "message": "JobQueue gone not found."}],
        "skipped": [],
        "not_sent": [],
    }


def test_uploads_come_before_the_first_call_and_before_the_run_exists(desk: Desk) -> None:
    upload = Upload("s3://bucket/a", b"12345", "source of digits")
    seen: list[tuple[bool, int]] = []
    put = desk.payloads.upload
    desk.payloads.upload = lambda uploads: (
        seen.append(((desk.runs / "lunar-otter-3f2a.jsonl").exists(), len(desk.backend.calls))) or put(uploads)
    )

    desk.go(desk.plan(1, uploads=(upload,)))

    assert seen == [(False, 0)]
    assert desk.payloads.uploaded == [upload]
    assert desk.events[:2] == [UploadsStarted(1, 5), UploadsDone(1)]


def test_a_failed_upload_sends_nothing_and_leaves_no_run(desk: Desk) -> None:
    def refuse(uploads: Sequence[Upload]) -> int:
        raise CredentialsError("Access Denied")

    desk.payloads.upload = refuse
    with pytest.raises(CredentialsError):
        desk.go(desk.plan(1, uploads=(Upload("s3://b/a", b"", "x"),)))

    assert desk.backend.calls == []
    assert not (desk.runs / "lunar-otter-3f2a.jsonl").exists()


def test_the_intent_is_in_the_journal_during_the_call(desk: Desk) -> None:
    seen: list[list[str]] = []
    desk.backend.answers = [desk.at(lambda: seen.append(desk.states())) for _ in range(2)]

    desk.go(desk.plan(3))

    assert seen == [["unknown", "waiting", "waiting"], ["sent", "unknown", "waiting"]]


def test_waves_start_at_their_times(desk: Desk) -> None:
    starts = {}
    desk.clock.advance(0)

    desk.go(desk.plan(5, size=2))

    starts = {event.wave.number: event.at for event in desk.events if isinstance(event, WaveStarted)}
    assert starts == {1: T0, 2: T0 + 90_000, 3: T0 + 180_000}
    awaited = [event for event in desk.events if isinstance(event, WaveAwaited)]
    assert awaited[0] == WaveAwaited(awaited[0].wave, starts_at=T0 + 90_000, now=T0)
    assert awaited[0].wave.number == 2


def test_a_late_wave_keeps_its_distance_to_the_next(desk: Desk) -> None:
    """An answered prompt, a slow upload or a slow wave must not make the following waves pile up."""
    desk.clock.advance(1_000_000)
    desk.backend.answers = [desk.at(lambda: desk.clock.advance(120_000))]

    desk.go(desk.plan(3, size=1))

    starts = [event.at - T0 for event in desk.events if isinstance(event, WaveStarted)]
    assert starts == [1_000_000, 1_120_000, 1_210_000]


def test_calls_keep_to_the_rate(desk: Desk) -> None:
    desk.rate = 4.9
    times: list[int] = []
    desk.backend.answers = [desk.at(lambda: times.append(desk.clock.now() - T0)) for _ in range(50)]

    desk.go(desk.plan(50))

    assert times[:3] == [0, 205, 409]
    assert times[49] == 10_000


def test_three_hundred_jobs_take_what_aws_allows_and_are_hardly_throttled(desk: Desk) -> None:
    """Against the bucket of the local AWS: 5 calls a second, bursts of five."""
    desk.rate = DEFAULT_RATE
    faults = Faults(["submit_tps=5"])
    accepted: list[int] = []

    def answer(request: JobRequest) -> JobRef:
        if faults.fate_of_call("SubmitServiceJob", desk.clock.now()).refusal is not None:
            raise THROTTLED
        accepted.append(desk.clock.now())
        return desk.backend.accept(request)  # type: ignore[no-any-return]

    desk.backend.answers = [answer] * 310

    result = desk.go(desk.plan(300))

    assert len(accepted) == len(set(desk.backend.jobs)) == 300
    assert accepted[-1] - accepted[0] <= 63_000
    assert result.repeated_calls < 3


def test_c21_passing_failures_are_retried_with_the_same_token(desk: Desk) -> None:
    desk.backend.answers = [desk.backend.accept, *[THROTTLED] * 4, ServiceError("oops", http_status=503), LOST]

    result = desk.go(desk.plan(50))

    tokens = [call.client_token for call in desk.backend.calls]
    assert len(result.sent) == len(desk.backend.jobs) == 50
    assert tokens[1:8] == [tokens[1]] * 7
    assert len(set(tokens)) == 50
    assert result.repeated_calls == 6
    assert result.error() is None
    waits = [event.wait for event in desk.events if isinstance(event, CallRepeated)]
    assert len(set(waits)) > 1
    assert all(0 <= wait <= 20_000 for wait in waits)
    assert desk.clock.now() - T0 == sum(waits)


def test_c21_retries_keep_to_the_rate_too(desk: Desk) -> None:
    desk.rate = 1
    times: list[int] = []
    submit = desk.backend.submit
    desk.backend.submit = lambda request: times.append(desk.clock.now()) or submit(request)
    desk.backend.answers = [THROTTLED] * 5

    desk.go(desk.plan(4))

    assert len(times) == 9
    assert min(later - earlier for earlier, later in pairwise(times)) >= 1_000


def test_c21_throttling_that_never_ends_stops_and_keeps_progress(desk: Desk) -> None:
    desk.backend.answers = [desk.backend.accept, *[THROTTLED] * 1000]

    result = desk.go(desk.plan(3))

    assert [len(result.sent), len(result.refused), len(result.left)] == [1, 0, 2]
    assert desk.states() == ["sent", "waiting", "waiting"], "429 certainly made no job"
    assert desk.clock.now() - T0 <= GIVE_UP_MS
    error = result.error()
    assert isinstance(error, ThrottledError)
    assert error.message == (
        "no call was accepted for 5 minutes: Too Many Requests (1 submitted, 2 not sent of run lunar-otter-3f2a)"
    )
    assert error.hint == (
        "another program may use up the account's 5 calls a second; lower --rate\n"
        "`fairshare resume lunar-otter-3f2a` sends the rest"
    )


def test_a_service_that_never_answers_stops_too(desk: Desk) -> None:
    desk.backend.answers = [LOST] * 1000

    error = desk.go(desk.plan(1)).error()

    assert isinstance(error, ServiceError)
    assert error.message.startswith("no call was accepted for 5 minutes: the connection was reset")


def test_c22_a_lost_reply_makes_no_second_job(desk: Desk) -> None:
    def accept_and_lose(request: JobRequest) -> JobRef:
        desk.backend.accept(request)
        raise LOST

    desk.backend.answers = [accept_and_lose]

    result = desk.go(desk.plan(2))

    assert len(desk.backend.calls) == 3
    assert len(desk.backend.jobs) == 2
    assert [ref.job_id for _, ref in result.sent] == ["id-0", "id-1"]


def test_c22_a_repeated_token_that_is_rejected_is_a_success(desk: Desk) -> None:
    """AWS documents that the second request with a token is rejected."""

    def accept_and_lose(request: JobRequest) -> JobRef:
        desk.backend.accept(request)
        raise LOST

    desk.backend.answers = [accept_and_lose, ServiceError("clientToken was used before", http_status=400)]

    result = desk.go(desk.plan(1))

    assert [ref for _, ref in result.sent] == [JobRef("id-0", "arn/id-0", "job-0")]
    assert desk.states() == ["sent"]


def test_a_refusal_after_a_lost_call_that_made_nothing_is_a_refusal(desk: Desk) -> None:
    desk.backend.answers = [LOST, *[NO_QUEUE] * LOOKS]

    result = desk.go(desk.plan(1))

    assert [message for _, message in result.refused] == ["JobQueue gone not found."]
    assert len(desk.backend.calls) == 1 + LOOKS, "a job just made may not be listed yet"


def test_a_plain_refusal_is_believed_without_a_look(desk: Desk) -> None:
    def find(queue: str, job_name: str) -> JobSummary:
        raise AssertionError("nothing to look for")

    desk.backend.find = find
    desk.backend.answers = [NO_QUEUE]

    assert len(desk.go(desk.plan(1)).refused) == 1


def test_a_refused_job_does_not_stop_the_others(desk: Desk) -> None:
    desk.backend.answers = [desk.backend.accept, NO_QUEUE]

    result = desk.go(desk.plan(4))

    assert desk.states() == ["sent", "failed", "sent", "sent"]
    assert len(desk.backend.calls) == 4, "a permanent error is not retried"
    assert any(isinstance(event, JobRefused) and event.job.index == 1 for event in desk.events)
    error = result.error()
    assert isinstance(error, PartialError)
    assert error.exit_code == 3
    assert error.message == "3 submitted, 1 refused of run lunar-otter-3f2a\njob-1: JobQueue gone not found."


def test_when_all_are_refused_that_is_a_failure(desk: Desk) -> None:
    desk.backend.answers = [NO_QUEUE] * 2

    error = desk.go(desk.plan(2)).error()

    assert error is not None
    assert error.exit_code == 1


def test_c24_expired_credentials_stop_at_once_and_nothing_is_failed(desk: Desk) -> None:
    expired = CredentialsError("The token has expired", hint="Log in for profile ml, then run the same command again.")
    desk.backend.answers = [*[desk.backend.accept] * 6, expired]

    result = desk.go(desk.plan(12))

    assert len(desk.backend.calls) == 7, "no retry storm"
    assert [len(result.sent), len(result.refused), len(result.left)] == [6, 0, 6]
    assert desk.states() == ["sent"] * 6 + ["waiting"] * 6
    error = result.error()
    assert isinstance(error, CredentialsError)
    assert error.hint == "Log in for profile ml, then run `fairshare resume lunar-otter-3f2a`."


def test_c23_stop_in_a_wait_is_heard_within_a_second(desk: Desk) -> None:
    desk.stop = lambda: desk.clock.now() >= T0 + 100_500

    result = desk.go(desk.plan(12, size=4))

    assert desk.clock.now() <= T0 + 101_500
    assert result.interrupted
    assert result.summary() == "8 submitted, 4 not sent"
    assert result.error() is None, "the caller knows the signal and reports it"
    assert desk.states() == ["sent"] * 8 + ["waiting"] * 4


def test_c23_stop_during_a_call_keeps_its_result(desk: Desk) -> None:
    stopped: list[bool] = []
    desk.stop = lambda: bool(stopped)
    desk.backend.answers = [*[desk.backend.accept] * 5, desk.at(lambda: stopped.append(True))]

    result = desk.go(desk.plan(12, size=4))

    assert result.summary() == "6 submitted, 6 not sent"
    assert desk.states() == ["sent"] * 6 + ["waiting"] * 6
    assert len(result.to_json()["not_sent"]) == 6


def test_c23_stop_during_back_off(desk: Desk) -> None:
    desk.backend.answers = [THROTTLED] * 100
    desk.stop = lambda: desk.clock.now() >= T0 + 5_000

    result = desk.go(desk.plan(2))

    assert result.interrupted
    assert desk.clock.now() <= T0 + 5_200
    assert desk.states() == ["waiting", "waiting"]


def hanging(desk: Desk, release: threading.Event) -> Callable[[JobRequest], JobRef]:
    """An answer that comes when it is released; SIGINT has been heard meanwhile."""

    def answer(request: JobRequest) -> JobRef:
        desk.stop = lambda: True
        release.wait(10)
        return desk.backend.accept(request)  # type: ignore[no-any-return]

    return answer


def test_c23_a_call_that_hangs_does_not_keep_the_program_from_ending(desk: Desk) -> None:
    release = threading.Event()
    desk.backend.answers = [hanging(desk, release)]
    desk.clock = SystemClock()  # type: ignore[assignment]
    before = desk.clock.now()

    with open_calls(desk.backend, 2) as calls:
        result = desk.go(desk.plan(3), calls)
        took = desk.clock.now() - before
        release.set()

    assert result.interrupted
    assert GRACE_MS <= took < GRACE_MS + 2 * LOOK_MS
    assert desk.states()[0] == "unknown", "it may have arrived"


def test_c23_a_call_under_way_may_still_answer(desk: Desk) -> None:
    release = threading.Event()
    desk.backend.answers = [hanging(desk, release)]
    desk.clock = SystemClock()  # type: ignore[assignment]
    timer = threading.Timer(0.2, release.set)

    with open_calls(desk.backend, 2) as calls:
        timer.start()
        result = desk.go(desk.plan(1), calls)

    assert result.interrupted
    assert result.summary() == "1 submitted"
    assert desk.states() == ["sent"]


def test_calls_overlap_and_a_batch_of_intents_is_one_write(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    intend = Journal.intend
    monkeypatch.setattr(Journal, "intend", lambda self, jobs, at: batches.append(len(jobs)) or intend(self, jobs, at))
    together = threading.Barrier(4, timeout=10)
    desk.backend.accept = lambda request: together.wait() >= 0 and JobRef(request.job_name, "arn", request.job_name)
    desk.clock = SystemClock()  # type: ignore[assignment]

    with open_calls(desk.backend, 4) as calls:
        result = desk.go(desk.plan(8), calls)

    assert [job.index for job, _ in result.sent] == list(range(8)), "in the order of the plan, however they answered"
    assert batches[0] == 4
    assert sum(batches) == 8
    assert desk.states() == ["sent"] * 8


def test_c21_one_job_that_never_gets_through_does_not_hold_up_the_others(desk: Desk) -> None:
    def answer(request: JobRequest) -> JobRef:
        if request.job_name == "job-1":
            raise ServiceError("internal error", http_status=500)
        desk.clock.advance(60_000)
        return desk.backend.accept(request)  # type: ignore[no-any-return]

    desk.backend.answers = [answer] * 1_000
    calls = CallsInTurn(desk.backend)
    calls.width = 2

    result = desk.go(desk.plan(20), calls)

    assert len(result.sent) == 19
    assert [job.index for job in result.left] == [1]
    assert desk.states()[1] == "unknown"
    error = result.error()
    assert isinstance(error, ServiceError)
    assert error.message.endswith("internal error (19 submitted, 1 not sent of run lunar-otter-3f2a)")


def test_order_is_kept_where_the_queue_is_first_in_first_out(
    desk: Desk, make_planned: Callable[..., PlannedJob]
) -> None:
    assert desk.plan(3).width == WIDTH
    fifo = replace(desk.plan(3), jobs=(make_planned(0, share_identifier=None), make_planned(1)))
    assert fifo.width == 1


def test_c46_a_refusal_that_repeats_a_secret_is_told_without_it(
    desk: Desk, make_planned: Callable[..., PlannedJob]
) -> None:
    job = make_planned(0, payload='{"Environment":{"API_KEY":"hf_secret"}}')
    desk.backend.answers = [ServiceError("bad payload: API_KEY=hf_secret", http_status=400)]

    result = desk.go(replace(desk.plan(1), jobs=(job,)))

    assert [message for _, message in result.refused] == ["bad payload: API_KEY=***"]
    assert "hf_secret" not in (desk.runs / "lunar-otter-3f2a.jsonl").read_text()
    assert "hf_secret" not in repr(desk.events[-1].message)  # type: ignore[union-attr]


def test_c25_every_job_under_way_that_could_not_be_noted_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Journal, index: int, ref: JobRef, at: int) -> None:
        raise FairshareError("No space left on device", hint="free some space")

    monkeypatch.setattr(Journal, "sent", full)
    desk.clock = SystemClock()  # type: ignore[assignment]
    together = threading.Barrier(2, timeout=10)
    desk.backend.accept = lambda request: together.wait() >= 0 and JobRef(request.job_name, "arn", request.job_name)

    with open_calls(desk.backend, 2) as calls:
        error = desk.go(desk.plan(6), calls).error()

    assert error is not None
    assert "job job-0 was sent as job-0, and that could not be noted" in error.message
    assert "job job-1 was sent as job-1, and that could not be noted" in error.message
    assert desk.states() == ["unknown"] * 2 + ["waiting"] * 4


def test_c25_a_job_that_could_not_be_noted_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Journal, index: int, ref: JobRef, at: int) -> None:
        raise FairshareError("cannot write the journal: No space left on device", hint="free some space")

    monkeypatch.setattr(Journal, "sent", full)

    result = desk.go(desk.plan(3))

    assert len(desk.backend.calls) == 1, "sending stops at once"
    assert [len(result.sent), len(result.left)] == [1, 2]
    error = result.error()
    assert error is not None
    assert error.message.startswith("job job-0 was sent as id-0, and that could not be noted: cannot write the journal")
    assert desk.states() == ["unknown", "waiting", "waiting"]


def test_c25_an_intent_that_could_not_be_noted_sends_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Journal, jobs: Sequence[PlannedJob], at: int) -> None:
        raise FairshareError("cannot write the journal: No space left on device", hint="free some space")

    monkeypatch.setattr(Journal, "intend", full)

    result = desk.go(desk.plan(3))

    assert desk.backend.calls == []
    assert len(result.left) == 3
    error = result.error()
    assert error is not None
    assert error.message.startswith("cannot write the journal: No space left on device (0 submitted, 3 not sent")
    assert error.hint == "free some space\n`fairshare resume lunar-otter-3f2a` sends the rest"
    assert desk.states() == ["waiting"] * 3


def test_an_error_of_the_program_itself_is_not_swallowed(desk: Desk) -> None:
    desk.backend.answers = [ZeroDivisionError()]

    with pytest.raises(ZeroDivisionError):
        desk.go(desk.plan(1))
    assert desk.states() == ["unknown"]


def test_progress_is_told_in_order(desk: Desk) -> None:
    desk.backend.answers = [THROTTLED]

    desk.go(desk.plan(2, size=1, interval=0))

    assert kinds(desk.events) == [
        "UploadsStarted",
        "UploadsDone",
        "WaveStarted",
        "CallRepeated",
        "JobSent",
        "WaveStarted",
        "JobSent",
    ]
    assert isinstance(desk.events[4], JobSent)
    assert desk.events[4].ref.job_id == "id-0"
