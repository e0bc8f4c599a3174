"""What GetJobQueueSnapshot answers: dispatch order, since when, and capacity in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairshare.scheduler.engine import PutEnvironment

MakeLab = Callable[..., Any]


def front(lab: Any, limit: int = 100) -> list[str]:
    return [job_id for job_id, _ in lab.engine.snapshot("q", limit).front]


def since(lab: Any, limit: int = 100) -> dict[str, float]:
    return {job_id: at / 1000 for job_id, at in lab.engine.snapshot("q", limit).front}


def test_an_empty_queue(make_lab: MakeLab) -> None:
    snapshot = make_lab(1, {}).engine.snapshot("q")
    assert (snapshot.front, snapshot.instances_in_use, snapshot.instances_by_share) == ((), 0, {})


def test_the_order_is_the_one_in_which_jobs_would_start_now(make_lab: MakeLab) -> None:
    lab = make_lab(0, {"H": "1", "M": "3", "L": "5"})
    for share in "LMH":
        for number in range(23):
            lab.submit(f"{share}-{number}", share, priority=number % 3)
    lab.to(0)
    predicted = front(lab, limit=23)
    lab.put(PutEnvironment("env", 23))
    assert lab.started() == predicted
    assert lab.start_order() == "HMLHHHMHHLHMHHHMHLHHMHH"


def test_it_tells_the_order_also_of_jobs_that_do_not_fit(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for job_id, demand in (("huge", 50), ("small", 1)):
        lab.submit(job_id, demand=demand)
    lab.to(0)
    assert front(lab) == ["huge", "small"]


def test_it_holds_runnable_jobs_only_and_at_most_the_limit(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for number in range(150):
        lab.submit(f"job-{number}")
    lab.submit("later", at=1000)
    lab.engine.terminate("job-3", "not needed", 0)
    lab.to(0)
    assert front(lab) == [f"job-{number}" for number in range(1, 102) if number != 3]
    assert front(lab, limit=1) == ["job-1"]


def test_capacity_in_use_is_of_the_queue_and_counts_instances(make_lab: MakeLab) -> None:
    lab = make_lab(9, {"A": "1", "B": "1"})
    lab.burst({"A": 1, "B": 9}, demand={"A": 5, "B": 1})
    lab.to(0)
    snapshot = lab.engine.snapshot("q")
    assert (snapshot.instances_in_use, snapshot.instances_by_share) == (9, {"A": 5, "B": 4})
    lab.finish("A-0", *[f"B-{number}" for number in range(4)], at=1)
    assert lab.engine.snapshot("q").instances_by_share == {"B": 5}


def test_looking_changes_nothing(make_lab: MakeLab) -> None:
    logs = []
    for looks in (False, True):
        lab = make_lab(3, {"A": "1", "B": "2"})
        for number in range(12):
            lab.submit(f"a-{number}", "A", at=number * 7, runs=100 + number)
            lab.submit(f"b-{number}", "B", at=number * 9, runs=90 - number)
        for second in range(0, 1200, 13):
            lab.to(second)
            if looks:
                front(lab, limit=second % 5)
        logs.append(lab.log)
    assert logs[0] == logs[1]
    assert len(logs[0]) == 24 * 5


# -- since when --------------------------------------------------------------------------------------------------------


def test_a_position_dates_from_the_last_change_of_the_queue(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for number in range(3):
        lab.submit(f"job-{number}", at=number)
    lab.to(50)
    assert since(lab) == {"job-1": 2, "job-2": 2}


def test_a_job_that_stays_where_it_is_keeps_its_date(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for number in range(3):
        lab.submit(f"job-{number}", at=number)
    lab.to(50)
    before = since(lab)
    lab.submit("job-3", at=60)
    lab.to(70)
    assert since(lab) == {**before, "job-3": 60}
    lab.finish("job-0", at=80)
    assert since(lab) == {"job-2": 80, "job-3": 80}


def test_a_job_overtaken_and_the_one_that_overtakes_have_moved(make_lab: MakeLab) -> None:
    lab = make_lab(0, {"S": "1"})
    for job_id in ("a", "b", "c"):
        lab.submit(job_id, "S")
    lab.to(10)
    assert since(lab) == {"a": 0, "b": 0, "c": 0}
    lab.engine.update("c", 1, 20_000)
    lab.to(30)
    assert since(lab) == {"c": 20, "a": 20, "b": 20}
    lab.engine.update("c", 1, 40_000)
    lab.to(50)
    assert since(lab) == {"c": 20, "a": 20, "b": 20}


def test_a_move_that_only_time_caused_dates_from_after_the_last_look(make_lab: MakeLab) -> None:
    """Use fades: A used more than B, longer ago. No event marks the instant at which their order turns."""
    lab = make_lab(3, {"A": "1", "B": "1"})
    lab.submit("a-past", "A", runs=100)
    lab.submit("b-past", "B", at=500, runs=10)
    lab.submit("blocker", "C", demand=3, at=530)
    lab.submit("a", "A", at=531)
    lab.submit("b", "B", at=531)
    lab.to(535)
    assert since(lab) == {"b": 531, "a": 531}
    assert front(lab) == ["b", "a"]
    lab.to(590)
    assert since(lab) == {"b": 531, "a": 531}
    lab.to(650)
    assert since(lab) == {"a": 590, "b": 590}
    assert front(lab) == ["a", "b"]
