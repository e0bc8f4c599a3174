from dataclasses import replace

import pytest

from fairshare.insight.wait import (
    FAILED_LOOKS_IN_A_ROW,
    GRACE_LOOKS,
    LOOPBACK_PACE,
    Outcome,
    Pace,
    wait_for_jobs,
)
from fairshare.model import JobAttempt, ServiceError, ThrottledError
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.watch import DESCRIBED_AT_MOST


class RecordingClock(VirtualClock):
    """Remembers each sleep; ``on_sleep`` moves the world on."""

    def __init__(self):
        super().__init__(0)
        self.sleeps = []
        self.on_sleep = lambda now: None

    def sleep_until(self, at):
        self.sleeps.append(at - self.now())
        super().sleep_until(at)
        self.on_sleep(self.now())


@pytest.fixture
def clock():
    return RecordingClock()


def wait(backend, ids, clock, *, queue="q", timeout=None, pace=None, **more):
    return wait_for_jobs(backend, queue, ids, clock=clock, timeout=timeout, pace=pace or Pace(), **more)


def test_looks_back_off_from_two_seconds_to_thirty(batch, job, clock):
    backend = batch([job("a")])

    def end_late(now):
        if now > 100_000:
            backend.jobs["a"] = job("a", status="SUCCEEDED")

    clock.on_sleep = end_late

    assert wait(backend, ["a"], clock).exit_code == 0
    assert clock.sleeps == [2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]


def test_on_this_machine_looks_are_quick(batch, job, clock):
    wait(batch([job("a")]), ["a"], clock, timeout=1_500, pace=LOOPBACK_PACE)

    assert clock.sleeps == [100, 200, 400, 500, 300]


def test_c08_timeout_zero_looks_once(batch, job, clock):
    backend = batch([job("a")])

    result = wait(backend, ["a"], clock, timeout=0)

    assert result.exit_code == 8
    assert (len(backend.calls), clock.sleeps) == (1, [])


def test_c08_timeout_zero_on_an_ended_job_is_its_result(batch, job, clock):
    assert wait(batch([job("a", status="FAILED")]), ["a"], clock, timeout=0).exit_code == 1


def test_c29_a_job_that_appears_at_the_third_look_is_waited_for(batch, job, clock):
    backend = batch()

    def appear(now):
        if now >= 6_000:
            backend.jobs["a"] = job("a", status="SUCCEEDED")

    clock.on_sleep = appear

    assert wait(backend, ["a"], clock).exit_code == 0
    assert clock.sleeps == [2_000, 4_000]


def test_c29_a_job_gone_from_batch_is_unknown_with_its_last_known_state(batch, job, clock):
    result = wait(batch(), ["a"], clock, last_known={"a": job("a", status="RUNNING")})

    (gone,) = result.jobs
    assert gone.outcome is Outcome.UNKNOWN
    assert gone.last_known.status == "RUNNING"
    assert result.exit_code == 4
    assert len(clock.sleeps) == GRACE_LOOKS - 1


def test_c29_a_job_that_vanishes_later_is_unknown_never_succeeded(batch, job, clock):
    backend = batch([job("a", status="RUNNING")])
    clock.on_sleep = lambda now: backend.jobs.clear()

    result = wait(backend, ["a"], clock)

    assert (result.jobs[0].outcome, result.jobs[0].last_known.status) == (Outcome.UNKNOWN, "RUNNING")


def test_c29_the_grace_counts_looks_in_a_row(batch, job, clock):
    backend = batch()

    def blink(now):
        backend.jobs = {} if backend.jobs or now > 60_000 else {"a": job("a")}

    clock.on_sleep = blink

    wait(backend, ["a"], clock)

    assert clock.now() > 60_000


def test_an_outcome_written_down_earlier_needs_no_call(batch, job, clock):
    backend = batch()

    assert wait(backend, ["a"], clock, last_known={"a": job("a", status="SUCCEEDED")}).exit_code == 0
    assert backend.calls == []


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["SUCCEEDED"], 0),
        (["SUCCEEDED", "SUCCEEDED"], 0),
        (["FAILED"], 1),
        (["FAILED", "FAILED"], 1),
        (["FAILED", "SUCCEEDED"], 3),
        (["SUCCEEDED", None], 4),
        (["FAILED", None], 3),
        (["FAILED", "RUNNING"], 8),
    ],
)
def test_exit_codes(batch, job, clock, statuses, code):
    ids = [f"j{number}" for number in range(len(statuses))]
    backend = batch(job(i, status=status) for i, status in zip(ids, statuses, strict=True) if status)

    assert wait(backend, ids, clock, timeout=60_000).exit_code == code


def test_many_jobs_cost_one_listing_per_look(batch, job, clock):
    ids = [f"j{number}" for number in range(50)]
    backend = batch(job(i, status="RUNNING") for i in ids)

    def end(now):
        backend.jobs = {i: replace(done, status="SUCCEEDED") for i, done in backend.jobs.items()}

    clock.on_sleep = end

    assert wait(backend, ids, clock).exit_code == 0
    assert [name for name, _ in backend.calls] == ["list", "list", "walk"], "active; active, then the newest"


def test_the_few_that_left_the_listing_are_described(batch, job, clock):
    ids = [f"j{number}" for number in range(DESCRIBED_AT_MOST + 1)]
    backend = batch(job(i, status="SUCCEEDED" if i == "j3" else "RUNNING") for i in ids)

    wait(backend, ids, clock, timeout=0)

    assert backend.calls[1:] == [("describe", ("j3",))]


def test_many_jobs_of_no_known_queue_are_described(batch, job, clock):
    ids = [f"j{number}" for number in range(DESCRIBED_AT_MOST + 1)]
    backend = batch(job(i, status="SUCCEEDED") for i in ids)

    assert wait(backend, ids, clock, queue=None).exit_code == 0


def test_changes_are_told_once_each(batch, job, clock):
    backend = batch([job("a")])
    steps = iter(["RUNNABLE", "RUNNING", "RUNNING", "SUCCEEDED"])
    clock.on_sleep = lambda now: backend.jobs.update(a=job("a", status=next(steps)))
    told = []

    wait(backend, ["a"], clock, on_change=lambda seen: told.append(seen.status))

    assert told == ["RUNNABLE", "RUNNING", "SUCCEEDED"]


def test_a_listed_job_that_fell_back_is_described_to_see_whether_it_was_preempted(batch, job, clock):
    ids = [f"j{number}" for number in range(DESCRIBED_AT_MOST + 1)]
    share = {"share_identifier": None, "quota_share": "TEAMA"}
    backend = batch(job(i, status="RUNNING", **share) for i in ids)
    backend.preemptions = {"j3": (JobAttempt("t-1", status_reason="In-share preemption"),)}
    statuses = iter(["RUNNABLE", "RUNNING", "RUNNING"])
    clock.on_sleep = lambda now: backend.jobs.update(j3=job("j3", status=next(statuses), **share))
    told = []

    result = wait(backend, ids, clock, timeout=14_000, on_change=told.append)

    assert [ids for name, ids in backend.calls if name == "describe"] == [("j3",)]
    _, waits, again = (seen for seen in told if seen.job_id == "j3")
    assert (waits.status, waits.preemptions, waits.preemption_reason) == ("RUNNABLE", 1, "In-share preemption")
    assert again.status == "RUNNING"
    assert [found.detail and found.detail.preemptions for found in result.jobs if found.job_id in ("j2", "j3")] == [
        None,
        1,
    ]


def test_a_throttled_look_is_tried_again(batch, job, clock):
    backend = batch([job("a", status="SUCCEEDED")])
    errors = [ThrottledError("slow down"), ServiceError("no answer")]
    backend.before_call = lambda _: (_ for _ in ()).throw(errors.pop()) if errors else None

    assert wait(backend, ["a"], clock).exit_code == 0
    assert len(clock.sleeps) == 2


def test_looks_that_keep_failing_end_the_wait(batch, clock):
    def fail(_):
        raise ThrottledError("slow down")

    backend = batch()
    backend.before_call = fail

    with pytest.raises(ThrottledError, match="slow down"):
        wait(backend, ["a"], clock)
    assert len(backend.calls) == FAILED_LOOKS_IN_A_ROW


@pytest.mark.parametrize("error", [ServiceError("refused", http_status=400), ThrottledError("slow down")])
def test_a_refusal_or_a_failed_last_look_is_raised_not_hidden(batch, clock, error):
    def fail(_):
        raise error

    backend = batch()
    backend.before_call = fail

    with pytest.raises(type(error)):
        wait(backend, ["a"], clock, timeout=0)
    assert len(backend.calls) == 1
