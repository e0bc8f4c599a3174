"""Environments, queues and policies: several queues on one environment, and changes while jobs wait and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.model import FairsharePolicy, JobStatus
from fairshare.scheduler.engine import (
    Engine,
    JobSubmission,
    PutEnvironment,
    PutQueue,
    RemoveEnvironment,
    RemoveQueue,
)

MakeLab = Callable[..., Any]
MakePolicy = Callable[..., FairsharePolicy]

# -- two queues on one environment -------------------------------------------------------------------------------------


def test_the_queue_of_higher_priority_is_visited_first_and_then_names_decide(make_lab: MakeLab) -> None:
    lab = make_lab(0)
    lab.put(PutQueue("b", "env", priority=5), PutQueue("a", "env", priority=5), PutQueue("z", "env", priority=9))
    for queue in ("q", "b", "a", "z"):
        lab.submit(f"job-{queue}", queue=queue)
    lab.to(0)
    lab.put(PutEnvironment("env", 4))
    assert lab.started() == ["job-z", "job-a", "job-b", "job-q"]


def test_a_blocked_queue_does_not_block_the_next_one(make_lab: MakeLab) -> None:
    lab = make_lab(4)
    lab.put(PutQueue("first", "env", priority=9))
    lab.submit("running", demand=2)
    lab.to(0)
    lab.submit("large", queue="first", demand=3, at=1)
    lab.submit("small", at=1)
    lab.to(1)
    assert lab.started() == ["running", "small"]


def test_a_queue_moves_when_its_priority_changes(make_lab: MakeLab) -> None:
    lab = make_lab(0)
    lab.put(PutQueue("a", "env", priority=5))
    lab.submit("job-q")
    lab.submit("job-a", queue="a")
    lab.to(0)
    lab.put(PutQueue("q", "env", priority=6), PutEnvironment("env", 1), at=1)
    assert lab.started() == ["job-q"]


def test_environments_do_not_share_capacity(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(PutEnvironment("other", 1), PutQueue("r", "other"))
    for number in range(2):
        lab.submit(f"q-{number}")
        lab.submit(f"r-{number}", queue="r")
    lab.to(0)
    assert lab.started() == ["q-0", "r-0"]
    assert (lab.engine.instances_held("env"), lab.engine.instances_held("other")) == (1, 1)


# -- limits and states of an environment -------------------------------------------------------------------------------


def test_lowering_a_limit_stops_nothing_and_holds_up_new_jobs_until_use_is_below_it(make_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/updating-service-environments.html."""
    lab = make_lab(4)
    for number in range(6):
        lab.submit(f"job-{number}")
    lab.to(0)
    lab.put(PutEnvironment("env", 2), at=1)
    assert (lab.engine.instances_held("env"), lab.stopped) == (4, [])
    lab.finish("job-0", "job-1", at=2)
    assert lab.started() == [f"job-{number}" for number in range(4)]
    lab.finish("job-2", at=3)
    assert lab.started()[-1] == "job-4"
    assert lab.engine.instances_held("env") == 2


def test_raising_a_limit_starts_jobs_at_once(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    for number in range(3):
        lab.submit(f"job-{number}")
    lab.to(0)
    lab.put(PutEnvironment("env", 2), at=7)
    assert [(entry.job_id, entry.at) for entry in lab.log[-1:]] == [("job-1", 7000)]


def test_a_disabled_environment_places_nothing_and_lets_jobs_run(make_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/service-environment-states.html."""
    lab = make_lab(2)
    lab.submit("running")
    lab.to(0)
    lab.put(PutEnvironment("env", 2, enabled=False), at=1)
    lab.submit("waiting", at=2)
    lab.to(2)
    assert (lab.status("running"), lab.status("waiting")) == (JobStatus.SCHEDULED, JobStatus.RUNNABLE)
    lab.finish("running", at=3)
    assert lab.status("waiting") is JobStatus.RUNNABLE
    lab.put(PutEnvironment("env", 2), at=4)
    assert lab.status("waiting") is JobStatus.SCHEDULED


# -- deleting ----------------------------------------------------------------------------------------------------------


def test_deleting_a_queue_ends_its_waiting_jobs(make_lab: MakeLab) -> None:
    lab = make_lab(0, {})
    lab.burst({"A": 2, "B": 1})
    lab.to(0)
    lab.put(RemoveQueue("q"), at=1)
    assert {job.status for job in lab.engine.jobs()} == {JobStatus.FAILED}
    assert {job.status_reason for job in lab.engine.jobs()} == {"Job queue deleted"}
    with pytest.raises(KeyError, match="q"):
        lab.submit("too late")


def test_deleting_a_queue_ends_jobs_that_are_still_to_come(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("later", at=50)
    lab.submit("later still", at=60)
    lab.put(RemoveQueue("q"), at=1)
    lab.to(100)
    assert [(entry.job_id, entry.to_status, entry.at) for entry in lab.log] == [
        ("later", JobStatus.FAILED, 1000),
        ("later still", JobStatus.FAILED, 1000),
    ]


def test_a_deleted_queue_stays_until_its_last_job_has_ended(make_lab: MakeLab) -> None:
    lab = make_lab(2)
    for job_id in ("running-0", "running-1", "waiting"):
        lab.submit(job_id)
    lab.to(0)
    lab.put(RemoveQueue("q"), at=1)
    lab.put(RemoveQueue("q"), at=2)
    assert lab.stopped == [("running-0", 1), ("running-1", 1)]
    assert lab.status("waiting") is JobStatus.FAILED
    with pytest.raises(ValueError, match=r"^queue q is being deleted$"):
        lab.submit("new")
    with pytest.raises(ValueError, match=r"^queue q is being deleted$"):
        lab.put(PutQueue("q", "env"), at=2)
    lab.finish("running-0", at=3)
    assert lab.engine.snapshot("q").instances_in_use == 1
    lab.finish("running-1", at=4)
    assert lab.status("running-1") is JobStatus.FAILED
    assert lab.engine.instances_held("env") == 0
    with pytest.raises(KeyError, match="q"):
        lab.engine.snapshot("q")


def test_a_name_can_be_used_again_once_its_queue_is_gone(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("old")
    lab.to(0)
    lab.put(RemoveQueue("q"), at=1)
    lab.finish("old", at=2)
    lab.put(PutQueue("q", "env"), at=3)
    lab.submit("new", at=3)
    lab.to(3)
    lab.put(RemoveQueue("q"), at=4)
    assert lab.started() == ["old", "new"]
    assert lab.stopped == [("old", 1), ("new", 4)]


def test_deleting_what_is_not_there_does_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.put(RemoveQueue("nothing"), RemoveEnvironment("nothing"))
    assert lab.log == []


def test_an_environment_goes_after_its_queues(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    with pytest.raises(ValueError, match=r"^environment env still has queues$"):
        lab.put(RemoveEnvironment("env"))
    lab.put(RemoveQueue("q"), RemoveEnvironment("env"))
    with pytest.raises(KeyError, match="env"):
        lab.engine.instances_held("env")


# -- another policy while jobs wait and run ----------------------------------------------------------------------------


def test_new_weights_decide_from_the_next_job_on(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    lab = make_lab(8, {"A": "1", "B": "1"})
    lab.burst({"A": 20, "B": 20})
    lab.to(0)
    assert lab.held() == {"A": 4, "B": 4}
    lab.put(PutQueue("q", "env", policy=make_policy({"A": "3", "B": "1"})), at=1)
    lab.finish("A-0", "A-1", at=2)
    assert lab.held() == {"A": 2, "B": 6}
    assert lab.stopped == []


def test_a_longer_window_keeps_what_the_old_one_remembers(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    """A used more, but 10 to 15 minutes ago. Only a window that was long enough by then still knows."""

    def next_share(decay_then: int, decay_now: int) -> str:
        lab = make_lab(2, {"A": "1", "B": "1"}, decay=decay_then)
        lab.submit("A-0", "A", runs=300)
        lab.submit("B-0", "B", at=840, runs=60)
        lab.to(900)
        lab.put(PutQueue("q", "env", policy=make_policy({"A": "1", "B": "1"}, decay_now)), at=900)
        lab.put(PutEnvironment("env", 1), at=900)
        lab.submit("B-1", "B", at=900)
        lab.submit("A-1", "A", at=900)
        lab.to(900)
        return str(lab.start_order()[-1])

    assert next_share(decay_then=3600, decay_now=3600) == "B"
    assert next_share(decay_then=600, decay_now=3600) == "A"
    assert next_share(decay_then=3600, decay_now=600) == "A"


def test_a_shorter_window_lets_shares_go_inactive_earlier(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    lab = make_lab(8, {}, decay=3600, reservation=50)
    lab.submit("b", "B", runs=1)
    lab.to(1000)
    lab.put(PutQueue("q", "env", policy=make_policy({}, 0, reservation=50)), at=1000)
    lab.burst({"A": 8}, at=1000)
    lab.to(1000)
    assert lab.held() == {"A": 4}


def test_a_longer_window_does_not_make_a_forgotten_share_active_again(
    make_lab: MakeLab, make_policy: MakePolicy
) -> None:
    lab = make_lab(8, {}, reservation=50)
    lab.submit("b", "B", runs=1)
    lab.to(1000)
    lab.put(PutQueue("q", "env", policy=make_policy({}, decay=3600, reservation=50)), at=1000)
    lab.burst({"A": 8}, at=1000)
    lab.to(1000)
    assert lab.held() == {"A": 4}


def test_a_new_reservation_applies_to_the_next_pass(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    lab = make_lab(8, {}, reservation=50)
    lab.burst({"A": 8})
    lab.to(0)
    assert lab.held() == {"A": 4}
    lab.put(PutQueue("q", "env", policy=make_policy({}, reservation=25)), at=1)
    assert lab.held() == {"A": 6}
    lab.put(PutQueue("q", "env", policy=make_policy({}, reservation=99)), at=2)
    assert lab.held() == {"A": 6}


def test_a_share_joins_and_leaves_a_prefix_entry(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    lab = make_lab(6, {"X": "1"})
    lab.burst({"X": 20, "User1": 20, "User2": 20})
    lab.to(0)
    assert lab.held() == {"X": 2, "User1": 2, "User2": 2}
    lab.put(PutQueue("q", "env", policy=make_policy({"X": "1", "User*": "1"})), PutEnvironment("env", 8), at=1)
    assert lab.held() == {"X": 4, "User1": 2, "User2": 2}


# -- changes that cannot be made ---------------------------------------------------------------------------------------


def test_a_queue_keeps_its_kind(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    """API_UpdateJobQueue: a scheduling policy can be replaced, never added or removed."""
    message = "^queue q keeps its kind: a policy can be replaced, never added or removed$"
    with pytest.raises(ValueError, match=message):
        make_lab(1, {}).put(PutQueue("q", "env"))
    with pytest.raises(ValueError, match=message):
        make_lab(1).put(PutQueue("q", "env", policy=make_policy({})))


def test_a_queue_keeps_its_environment(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    with pytest.raises(ValueError, match=r"^queue q cannot move to another environment while the engine runs$"):
        lab.put(PutEnvironment("other", 1), PutQueue("q", "other"))


def test_a_queue_needs_an_environment(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    with pytest.raises(KeyError, match="nowhere"):
        lab.put(PutQueue("r", "nowhere"))
    with pytest.raises(KeyError, match="r"):
        lab.submit("j", queue="r")


def test_a_policy_with_a_wrong_weight_changes_nothing(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    lab = make_lab(4, {"A": "1", "B": "3"})
    with pytest.raises(ValueError, match=r"^1000000 is outside"):
        lab.put(PutQueue("q", "env", policy=make_policy({"A": "3", "B": "1000000"}), priority=7))
    with pytest.raises(ValueError, match=r"^0 is outside"):
        lab.put(PutQueue("r", "env", policy=make_policy({"A": "0"})))
    lab.burst({"A": 4, "B": 4})
    lab.to(0)
    assert lab.held() == {"A": 3, "B": 1}
    with pytest.raises(KeyError, match="r"):
        lab.submit("j", "A", queue="r")


def test_the_engine_goes_on_after_a_change_that_cannot_be_made() -> None:
    engine = Engine()
    engine.reconfigure(PutEnvironment("env", 1), 0)
    engine.reconfigure(PutQueue("q", "env"), 0)
    engine.advance(0)
    engine.submit(JobSubmission("before", "q"), 1)
    engine.reconfigure(PutQueue("q", "nowhere"), 1)
    engine.submit(JobSubmission("after", "q"), 1)
    with pytest.raises(KeyError, match="nowhere"):
        engine.advance(5)
    log = engine.advance(5)
    assert [(entry.job_id, entry.to_status, entry.at) for entry in log] == [
        ("before", JobStatus.RUNNABLE, 1),
        ("before", JobStatus.SCHEDULED, 1),
        ("after", JobStatus.RUNNABLE, 1),
    ]


# -- state of a queue --------------------------------------------------------------------------------------------------


def test_a_disabled_queue_takes_no_jobs_and_finishes_those_it_has(make_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdateJobQueue.html (state)."""
    lab = make_lab(1)
    lab.submit("running")
    lab.submit("waiting", attempts=2)
    lab.submit("later", at=50)
    lab.to(0)
    lab.put(PutQueue("q", "env", enabled=False), at=1)
    with pytest.raises(ValueError, match=r"^queue q is disabled: it takes no new jobs$"):
        lab.submit("new")
    lab.finish("running", at=2)
    lab.fail("waiting", at=3)
    lab.finish("waiting", at=60)
    lab.finish("later", at=70)
    assert lab.started() == ["running", "waiting", "waiting", "later"]
    lab.put(PutQueue("q", "env"), at=80)
    lab.submit("new", at=80)
    lab.to(80)
    assert lab.status("new") is JobStatus.SCHEDULED


def test_a_queue_being_deleted_retries_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("failing", attempts=10)
    lab.to(0)
    lab.put(RemoveQueue("q"), at=1)
    lab.fail("failing", at=2, reason="CapacityError")
    assert (lab.status("failing"), lab.engine.job("failing").status_reason) == (JobStatus.FAILED, "Job queue deleted")
    with pytest.raises(KeyError, match="q"):
        lab.engine.snapshot("q")


def test_a_lowered_limit_holds_for_jobs_that_are_tried_again(make_lab: MakeLab) -> None:
    lab = make_lab(4)
    for number in range(4):
        lab.submit(f"job-{number}", attempts=2)
    lab.to(0)
    lab.put(PutEnvironment("env", 2), at=1)
    lab.fail("job-0", "job-1", at=2)
    assert lab.engine.instances_held("env") == 2
    lab.finish("job-2", at=3)
    assert lab.started()[4:] == ["job-0"]


def test_jobs_tried_again_in_a_disabled_environment_wait(make_lab: MakeLab) -> None:
    lab = make_lab(1)
    lab.submit("j", attempts=2)
    lab.to(0)
    lab.put(PutEnvironment("env", 1, enabled=False), at=1)
    lab.fail("j", at=2)
    assert lab.status("j") is JobStatus.RUNNABLE
    lab.put(PutEnvironment("env", 1), at=3)
    assert lab.status("j") is JobStatus.SCHEDULED


def test_three_queues_go_on_by_priority_as_capacity_comes_and_goes(make_lab: MakeLab, make_policy: MakePolicy) -> None:
    """The first queue takes all it can use; a lower one gets what its blocked head leaves."""
    lab = make_lab(6)
    lab.put(PutQueue("fair", "env", priority=5, policy=make_policy({"A": "1", "B": "1"})))
    lab.put(PutQueue("top", "env", priority=9))
    lab.submit("top-4", demand=4, queue="top", runs=10)
    lab.submit("top-3", demand=3, queue="top", runs=10)
    for share in "AB":
        lab.submit(f"{share}-0", share, queue="fair", runs=20)
    lab.submit("q-1", runs=5)
    lab.to(0)
    assert lab.started() == ["top-4", "A-0", "B-0"]
    lab.to(10)
    assert lab.started()[3:] == ["top-3", "q-1"]
    assert lab.engine.instances_held("env") == 6
