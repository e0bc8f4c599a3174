from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fairshare.model import CredentialsError, FairshareError, JobRef, JobRequest, ServiceError, ThrottledError
from fairshare.submit.calls import CallsInThreads, CallsInTurn, Failed, Looked, Made, open_calls
from fairshare.submit.requests import PlannedJob
from fairshare.submit.watch import LOOPBACK_LOOKS, Watched

MakePlanned = Callable[..., PlannedJob]
REFUSED = ServiceError("clientToken was used before", http_status=400)


@pytest.mark.parametrize(
    ("error", "is_definite"),
    [
        (ServiceError("no answer"), False),
        (ServiceError("internal", http_status=500), False),
        (ServiceError("throttled", http_status=429), True),
        (ServiceError("bad request", http_status=400), True),
        (CredentialsError("expired"), True),
        (FairshareError("the request cannot be sent"), True),
        (ZeroDivisionError(), False),
    ],
)
def test_c21_whether_a_failed_call_may_have_made_the_job(
    make_planned: MakePlanned, error: Exception, is_definite: bool
) -> None:
    assert Failed(make_planned(0), error).is_definite is is_definite


def test_a_program_error_in_a_call_is_handed_over(backend: Any, make_planned: MakePlanned) -> None:
    backend.answers = [ZeroDivisionError()]
    calls = CallsInTurn(backend)
    calls.start(make_planned(0), is_doubtful=False)

    (answer,) = calls.wait(0)

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, ZeroDivisionError)


def test_being_throttled_while_looking_counts_as_throttled(
    backend: Any, make_planned: MakePlanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    def throttled(queue: str, job_name: str) -> None:
        raise ThrottledError("Too Many Requests")

    monkeypatch.setattr(backend, "find", throttled)
    backend.answers = [REFUSED]
    calls = CallsInTurn(backend)
    calls.start(make_planned(0), is_doubtful=True)

    (answer,) = calls.wait(0)

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, ServiceError)
    assert answer.error.http_status == 429


def test_calls_in_threads_overlap_and_all_answers_come(backend: Any, make_planned: MakePlanned) -> None:
    together = threading.Barrier(3, timeout=10)
    jobs = [make_planned(index) for index in range(3)]

    def meet(request: JobRequest) -> JobRef:
        together.wait()
        return JobRef(request.job_name, "arn", request.job_name)

    backend.answers = [meet] * 3
    with open_calls(backend, 3) as calls:
        assert calls.width == 3
        for job in jobs:
            calls.start(job, is_doubtful=False)
        answers = []
        while len(answers) < 3:
            answers += calls.wait(10_000)

    assert {answer.job.index for answer in answers} == {0, 1, 2}
    assert all(isinstance(answer, Made) for answer in answers)


def test_waiting_ends_without_an_answer(backend: Any, make_planned: MakePlanned) -> None:
    release = threading.Event()
    backend.answers = [lambda request: release.wait(10) and backend.accept(request)]
    calls = CallsInThreads(backend, 2)
    calls.start(make_planned(0), is_doubtful=False)

    assert calls.wait(1) == []
    release.set()
    assert len(calls.wait(10_000)) == 1
    calls.close()


def test_one_call_at_a_time_needs_no_thread(backend: Any) -> None:
    with open_calls(backend, 1) as calls:
        assert isinstance(calls, CallsInTurn)


def test_a_slow_look_holds_up_no_call(backend: Any, make_planned: MakePlanned) -> None:
    release = threading.Event()
    backend.describe = lambda job_ids: release.wait(10) and {}
    calls = CallsInThreads(backend, 1)
    calls.look([Watched(0, "id-0", "q")])
    calls.start(make_planned(0), is_doubtful=False)

    (made,) = calls.wait(10_000)
    release.set()
    (looked,) = calls.wait(10_000)
    calls.close()

    assert isinstance(made, Made)
    assert looked == Looked({})


def test_a_look_that_fails_hands_over_its_error(backend: Any) -> None:
    error = ServiceError("internal error", http_status=500)

    def fail(job_ids: object) -> None:
        raise error

    backend.describe = fail
    calls = CallsInTurn(backend)
    calls.look([Watched(0, "id-0", "q")])

    assert calls.wait(0) == [Looked({}, error)]


def test_with_looks_a_single_call_has_a_thread_of_its_own(backend: Any) -> None:
    with open_calls(backend, 1, LOOPBACK_LOOKS) as calls:
        assert isinstance(calls, CallsInThreads)
        assert calls.looks == LOOPBACK_LOOKS
