import pytest

from fairshare.metrics.victims import PastJob, start_times, victims_of
from fairshare.model import FairsharePolicy, ShareAttributes

MINUTE = 60_000
POLICY = FairsharePolicy((ShareAttributes("HIGHPRI", "1"), ShareAttributes("LOWPRI", "5")))
LATER = 10_000 * MINUTE


def past(name, created, held, *, instances=1, share="LOWPRI", priority=10):
    return PastJob(name, name, share, priority, instances, created * MINUTE, held * MINUTE)


def found(victims):
    return {victim.job_id: victim.delay // MINUTE for victim in victims}


def test_the_job_that_waited_for_idle_capacity_is_named_with_its_delay():
    history = [past("idler", 0, 60, instances=4), past("waiter", 10, 30, instances=4)]

    assert found(victims_of("idler", 22 * MINUTE, history, 4, POLICY, until=LATER)) == {"waiter": 22}


def test_delays_are_handed_on_to_those_behind():
    history = [past("idler", 0, 60), past("next", 10, 30), past("last", 20, 30, share="HIGHPRI")]

    assert found(victims_of("idler", 20 * MINUTE, history, 1, POLICY, until=LATER)) == {"last": 20, "next": 20}


def test_nobody_waited_when_there_was_room():
    history = [past("idler", 0, 60), past("other", 10, 30)]

    assert victims_of("idler", 30 * MINUTE, history, 2, POLICY, until=LATER) == []


def test_a_job_that_came_after_the_idle_job_would_have_ended_waited_less_than_the_waste():
    history = [past("idler", 0, 60), past("late", 50, 5)]

    assert found(victims_of("idler", 30 * MINUTE, history, 1, POLICY, until=LATER)) == {"late": 10}


def test_what_lies_in_the_future_has_delayed_nobody_yet():
    history = [past("idler", 0, 60), past("waiter", 10, 30)]

    assert found(victims_of("idler", 30 * MINUTE, history, 1, POLICY, until=45 * MINUTE)) == {"waiter": 15}


def test_no_waste_has_no_victims_and_an_unknown_job_neither():
    history = [past("idler", 0, 60), past("waiter", 10, 30)]

    assert victims_of("idler", 0, history, 1, POLICY, until=LATER) == []
    assert victims_of("stranger", MINUTE, history, 1, POLICY, until=LATER) == []


def test_a_fifo_queue_has_no_shares():
    history = [past("idler", 0, 60, share=None), past("waiter", 10, 30, share=None)]

    assert found(victims_of("idler", 15 * MINUTE, history, 1, None, until=LATER)) == {"waiter": 15}


def test_the_longest_delay_is_first():
    history = [past("idler", 0, 60), past("a", 50, 5), past("b", 5, 5, priority=90)]

    victims = victims_of("idler", 30 * MINUTE, history, 1, POLICY, until=LATER)

    assert [victim.job_id for victim in victims] == ["b", "a"]


def test_jobs_larger_than_the_queue_are_left_out_and_the_order_of_the_list_does_not_matter():
    history = [past("waiter", 10, 30), past("huge", 1, 1, instances=99), past("idler", 0, 60)]

    assert found(victims_of("idler", 30 * MINUTE, history, 1, POLICY, until=LATER)) == {"waiter": 30}


def test_c08_priority_zero_is_a_priority():
    history = [past("first", 0, 10), past("zero", 1, 10, priority=0), past("one", 2, 10, priority=1)]

    starts = start_times(history, 1, POLICY)

    assert [starts[name] // MINUTE for name in ("first", "one", "zero")] == [0, 10, 20]


@pytest.mark.parametrize("count", [400])
def test_hundreds_of_jobs_are_replayed(count):
    history = [past("idler", 0, 60), *(past(f"job-{n:03}", n % 50, 3) for n in range(count))]

    assert len(victims_of("idler", 30 * MINUTE, history, 4, POLICY, until=LATER)) > 0
