"""Nothing is started or stopped before the disk knows why."""

from __future__ import annotations

from typing import Any

from fairshare.local.held_launcher import HeldLauncher
from fairshare.local.launcher import Attempt, Report
from fairshare.model import JobStatus

SUCCEEDED, RUNNING = JobStatus.SUCCEEDED, JobStatus.RUNNING


class Noting:
    def __init__(self) -> None:
        self.done: list[Any] = []
        self.reports: list[Report] = []

    def start(self, attempt: Attempt, at: int) -> None:
        self.done.append(("start", attempt.job_id, at))

    def stop(self, job_id: str, attempt: int) -> None:
        self.done.append(("stop", job_id))

    def poll(self, now: int) -> list[Report]:
        reports, self.reports = self.reports, []
        return reports

    def close(self) -> None:
        self.done.append("close")


def attempt(job_id: str) -> Attempt:
    return Attempt(job_id, 1, job_id, {}, "us-west-2", "123456789012")


def test_orders_wait_for_their_record_and_keep_their_order():
    seq, inner = 5, Noting()
    launcher = HeldLauncher(lambda: seq)
    launcher.use(inner, foresees=False)
    assert not launcher.has_orders
    launcher.start(attempt("a"), 100)
    launcher.stop("a", 1)
    assert launcher.has_orders
    launcher.carry_out(5)  # records 0 to 4 are on the disk, 5 is not
    assert inner.done == []
    seq = 6
    assert not launcher.has_orders
    launcher.start(attempt("b"), 200)
    launcher.carry_out(6)
    assert inner.done == [("start", "a", 100), ("stop", "a")]
    launcher.carry_out(7)
    assert inner.done[2:] == [("start", "b", 200)]


def test_reports_are_handed_on_when_they_were_written_down():
    inner = Noting()
    launcher = HeldLauncher(lambda: 0)
    launcher.use(inner, foresees=False)
    inner.reports = [Report("a", 1, RUNNING, 10)]
    assert launcher.poll(10) == []
    news = launcher.news(10)
    assert news == [Report("a", 1, RUNNING, 10)]
    launcher.arrive(news)
    assert launcher.poll(11) == news
    assert launcher.poll(12) == []


def test_a_launcher_that_foresees_is_asked_at_once():
    inner = Noting()
    launcher = HeldLauncher(lambda: 0)
    launcher.use(inner, foresees=True)
    launcher.start(attempt("a"), 100)
    inner.reports = [Report("a", 1, SUCCEEDED, 500)]
    assert inner.done == [("start", "a", 100)]
    assert launcher.news(100) == []
    assert launcher.poll(100) == [Report("a", 1, SUCCEEDED, 500)]
    assert not launcher.has_orders
    assert launcher.in_flight(499) == [("a", 1)]
    assert launcher.in_flight(500) == []


def test_in_the_past_nothing_is_done_but_remembered():
    launcher = HeldLauncher(lambda: 0)
    launcher.use(None, foresees=False)
    launcher.start(attempt("a"), 100)
    launcher.start(attempt("b"), 100)
    launcher.stop("b", 1)
    launcher.arrive([Report("a", 1, SUCCEEDED, 200)])
    assert launcher.poll(200) == [Report("a", 1, SUCCEEDED, 200)]
    launcher.carry_out(9)
    launcher.close()
    assert launcher.in_flight(300) == [("b", 1)]


def test_close_ends_the_launcher():
    inner = Noting()
    launcher = HeldLauncher(lambda: 0)
    launcher.use(inner, foresees=False)
    launcher.close()
    assert inner.done == ["close"]
