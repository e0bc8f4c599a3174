from fractions import Fraction

import pytest

from fairshare.insight.shares import share_table

WEIGHTS = {"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}


@pytest.fixture
def running(job):
    """Build one running job of a share that holds some instances."""
    return lambda share, instances: job(f"{share}-run", share_identifier=share, status="RUNNING", instances=instances)


@pytest.fixture
def waiting(job):
    """Build one RUNNABLE job of a share."""
    return lambda share, created_at=0: job(f"{share}-{created_at}", share_identifier=share, created_at=created_at)


def by_share(table):
    return {row.share_identifier: row for row in table.rows}


def test_a_quiet_queue_shows_every_share_with_its_target(job):
    table = share_table("q", WEIGHTS, [], now=0)

    assert [(row.share_identifier, row.weight_factor, row.target, row.active_target) for row in table.rows] == [
        ("HIGHPRI", "1", Fraction(15, 23), None),
        ("MIDPRI", "3", Fraction(5, 23), None),
        ("LOWPRI", "5", Fraction(3, 23), None),
    ]
    assert {row.standing for row in table.rows} == {"idle, its portion goes to the others"}


def test_the_active_target_leaves_idle_shares_out(running):
    rows = by_share(share_table("q", WEIGHTS, [running("HIGHPRI", 3), running("MIDPRI", 1)], now=0))

    assert rows["HIGHPRI"].active_target == Fraction(3, 4)
    assert rows["HIGHPRI"].target == Fraction(15, 23)
    assert rows["HIGHPRI"].standing == "at its due"
    assert rows["LOWPRI"].active_target is None


def test_counts_are_of_what_has_not_ended(running, waiting, job):
    jobs = [
        running("HIGHPRI", 4),
        waiting("HIGHPRI", 1_000),
        waiting("HIGHPRI", 3_000),
        job("sent", status="SUBMITTED"),
        job("done", status="SUCCEEDED", instances=50),
    ]

    table = share_table("q", WEIGHTS, jobs, now=61_000)
    row = by_share(table)["HIGHPRI"]

    assert (row.instances, row.runnable, row.oldest_wait) == (4, 2, 60_000)
    assert table.instances_in_use == 4


def test_a_share_over_its_due_waits_for_those_that_are_owed(running, waiting):
    jobs = [
        running("HIGHPRI", 14),
        waiting("HIGHPRI"),
        running("MIDPRI", 1),
        waiting("MIDPRI"),
        running("LOWPRI", 1),
        waiting("LOWPRI"),
    ]

    rows = by_share(share_table("q", WEIGHTS, jobs, now=0))

    assert rows["HIGHPRI"].standing == "over by 22 points, waits for MIDPRI and LOWPRI"
    assert rows["MIDPRI"].standing == "under by 15 points"
    assert rows["LOWPRI"].standing == "under by 7 points"


def test_a_share_that_asks_for_no_more_holds_nobody_up(running, waiting):
    jobs = [running("HIGHPRI", 15), waiting("HIGHPRI"), running("MIDPRI", 1)]

    rows = by_share(share_table("q", WEIGHTS, jobs, now=0))

    assert rows["HIGHPRI"].standing == "over by 19 points"
    assert rows["MIDPRI"].standing == "under by 19 points, asks for no more"


def test_one_point_is_singular(running):
    rows = by_share(share_table("q", {"A": "1", "B": "1"}, [running("A", 51), running("B", 49)], now=0))

    assert rows["A"].standing == "over by 1 point"


def test_nothing_running_is_no_division_by_zero(waiting, job):
    jobs = [waiting("HIGHPRI"), job("sent", share_identifier="LOWPRI", status="SUBMITTED")]

    rows = by_share(share_table("q", WEIGHTS, jobs, now=0))

    assert rows["HIGHPRI"].standing == "waits, nothing runs yet"
    assert rows["LOWPRI"].standing == "nothing runs yet"


def test_a_share_the_policy_does_not_list_is_shown_with_weight_one(running):
    rows = by_share(share_table("q", {"LOWPRI": "3"}, [running("SURPRISE", 1)], now=0))

    assert (rows["SURPRISE"].weight_factor, rows["SURPRISE"].entry) == ("1", None)
    assert rows["SURPRISE"].target == Fraction(3, 4)
    assert rows["LOWPRI"].entry == "LOWPRI"


def test_c03_identifiers_under_a_prefix_entry_divide_its_portion(running):
    jobs = [running("TEAMX7", 1), running("TEAMY", 1), running("OTHER", 1)]

    table = share_table("q", {"TEAM*": "0.5"}, jobs, now=0)
    rows = by_share(table)

    assert set(rows) == {"TEAMX7", "TEAMY", "OTHER"}
    assert (rows["TEAMX7"].weight_factor, rows["TEAMX7"].entry) == ("0.5", "TEAM*")
    assert rows["TEAMX7"].target == rows["TEAMY"].target == Fraction(1, 3)
    assert sum(row.target for row in table.rows) == 1


def test_a_prefix_entry_nobody_uses_is_shown_as_it_is(running):
    assert "TEAM*" in by_share(share_table("q", {"TEAM*": "0.5"}, [running("OTHER", 1)], now=0))


def test_a_clock_behind_batchs_shows_no_negative_wait(waiting):
    assert by_share(share_table("q", WEIGHTS, [waiting("HIGHPRI", 500)], now=0))["HIGHPRI"].oldest_wait == 0
