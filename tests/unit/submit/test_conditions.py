"""Which jobs are free, and which are skipped, after others have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairshare.submit.conditions import Changes, Conditions, End, Skip
from fairshare.submit.requests import After, PlannedJob

MakeConditions = Callable[..., Conditions]


@pytest.fixture
def conditions(make_planned: Callable[..., PlannedJob]) -> MakeConditions:
    """Conditions of jobs, given what each comes after: ``{2: [((0, 1), "ok")]}``."""

    def make(after: dict[int, list[After]]) -> Conditions:
        jobs = [replace(make_planned(index), after=tuple(each)) for index, each in after.items()]
        return Conditions(jobs, lambda index: f"job-{index}")

    return make


def test_ok_holds_when_all_have_succeeded(conditions: MakeConditions) -> None:
    waits = conditions({2: [((0, 1), "ok")]})

    assert waits.is_waiting(2)
    assert waits.ended(0, End.SUCCEEDED) == Changes()
    assert waits.ended(1, End.SUCCEEDED) == Changes(free=[2])
    assert (waits.waiting, waits.is_waiting(2)) == (0, False)


def test_ok_cannot_hold_any_more_after_the_first_failure(conditions: MakeConditions) -> None:
    waits = conditions({2: [((0, 1), "ok")]})

    assert waits.ended(1, End.FAILED) == Changes(skipped=[(2, Skip("job-1 failed"))])
    assert waits.ended(0, End.SUCCEEDED) == Changes()


@pytest.mark.parametrize("end", list(End))
def test_any_holds_when_all_have_ended_however(conditions: MakeConditions, end: End) -> None:
    waits = conditions({2: [((0, 1), "any")]})

    assert waits.ended(0, end) == Changes()
    assert waits.ended(1, End.FAILED) == Changes(free=[2])


def test_failed_holds_when_all_have_ended_and_one_failed(conditions: MakeConditions) -> None:
    waits = conditions({2: [((0, 1), "failed")]})

    assert waits.ended(0, End.FAILED) == Changes(), "the other may still run"
    assert waits.ended(1, End.SUCCEEDED) == Changes(free=[2])


def test_a_job_for_failures_is_not_needed_when_all_went_well(conditions: MakeConditions) -> None:
    waits = conditions({2: [((0, 1), "failed")], 3: [((2,), "ok")], 4: [((2,), "failed")], 5: [((2,), "any")]})

    waits.ended(0, End.SUCCEEDED)
    changes = waits.ended(1, End.SUCCEEDED)

    assert changes.free == [5]
    assert changes.skipped == [
        (2, Skip("nothing before it failed", is_failure=False)),
        (3, Skip("job-2 was not needed", is_failure=False)),
        (4, Skip("nothing before it failed", is_failure=False)),
    ]


def test_a_skip_goes_through_all_that_come_after_and_a_clean_up_still_runs(conditions: MakeConditions) -> None:
    waits = conditions({1: [((0,), "ok")], 2: [((1,), "ok")], 3: [((2,), "failed")], 4: [((1, 2), "any")]})

    changes = waits.ended(0, End.FAILED)

    assert changes.skipped == [(1, Skip("job-0 failed")), (2, Skip("job-1 failed"))]
    assert sorted(changes.free) == [3, 4]


def test_all_conditions_of_a_job_must_hold(conditions: MakeConditions) -> None:
    waits = conditions({3: [((0,), "ok"), ((1, 2), "any")]})

    assert waits.ended(2, End.FAILED) == Changes()
    assert waits.ended(0, End.SUCCEEDED) == Changes()
    assert waits.ended(1, End.SUCCEEDED) == Changes(free=[3])


def test_a_job_that_is_skipped_for_one_reason_is_not_skipped_for_another(conditions: MakeConditions) -> None:
    waits = conditions({2: [((0,), "ok"), ((1,), "ok")]})

    assert len(waits.ended(0, End.FAILED).skipped) == 1
    assert waits.ended(1, End.FAILED) == Changes()


def test_how_a_forgotten_job_ended_is_not_guessed(conditions: MakeConditions) -> None:
    waits = conditions({1: [((0,), "ok")]})

    assert waits.ended(0, End.UNKNOWN).skipped == [(1, Skip("how job-0 ended is not known any more"))]


def test_a_second_end_of_the_same_job_changes_nothing(conditions: MakeConditions) -> None:
    waits = conditions({2: [((0, 1), "ok")]})

    waits.ended(0, End.SUCCEEDED)
    assert waits.ended(0, End.FAILED) == Changes()
    assert waits.ended(1, End.SUCCEEDED) == Changes(free=[2])


def test_only_jobs_that_somebody_waits_for_matter(conditions: MakeConditions) -> None:
    waits = conditions({2: [((0, 1), "ok")]})

    assert (waits.matters(0), waits.matters(1), waits.matters(2)) == (True, True, False)
    waits.ended(0, End.FAILED)
    assert not waits.matters(1), "what came after it is skipped already"


def test_jobs_after_one_that_was_given_up_are_left(conditions: MakeConditions) -> None:
    waits = conditions({1: [((0,), "any")], 2: [((1,), "ok")], 4: [((3,), "ok")]})

    assert sorted(waits.strand(0)) == [1, 2]
    assert waits.waiting == 1


def test_a_thousand_jobs_after_a_thousand_take_no_million_steps(conditions: MakeConditions) -> None:
    """Each of the later jobs has the same condition: it is kept and counted once."""
    before = tuple(range(1000))
    waits = conditions({index: [(before, "ok")] for index in range(1000, 2000)})

    assert len({id(each) for index in before for each in waits._about[index]}) == 1
    for index in before[:-1]:
        assert waits.ended(index, End.SUCCEEDED) == Changes()
    assert waits.ended(999, End.SUCCEEDED).free == list(range(1000, 2000))
