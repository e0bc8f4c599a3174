"""Instance time and money."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairshare.metrics.cost import UNIT, AttemptUse, Cost, JobUse, Purpose, by_share, cost_of, instances_of, total
from fairshare.metrics.prices import Price, Prices

HOUR = 3_600_000
G6 = "ml.g6.12xlarge"
PRICES = {G6: Decimal("5.75"), "ml.m5.large": Decimal("0.115")}


def attempt(ms: int | None, purpose: Purpose = Purpose.LAST) -> AttemptUse:
    return AttemptUse({G6: 1}, ms, purpose)


def test_an_hour_of_two_instances_costs_twice_the_price():
    found = cost_of([AttemptUse({G6: 2}, HOUR)], PRICES.get)

    assert found.amount == Decimal("11.50")
    assert found.instance_ms == 2 * HOUR


def test_retried_and_preempted_attempts_are_apart_and_part_of_the_whole():
    attempts = [attempt(HOUR, Purpose.PREEMPTED), attempt(HOUR // 2, Purpose.RETRIED), attempt(2 * HOUR)]

    found = cost_of(attempts, PRICES.get)

    assert found.amount == Decimal("20.125")
    assert found.by_purpose == {
        Purpose.PREEMPTED: Decimal("5.75"),
        Purpose.RETRIED: Decimal("2.875"),
        Purpose.LAST: Decimal("11.5"),
    }


def test_a_cluster_of_two_instance_types_is_the_sum_of_both():
    found = cost_of([AttemptUse({G6: 1, "ml.m5.large": 4}, HOUR)], PRICES.get)

    assert found.amount == Decimal("6.21")


@pytest.mark.parametrize(
    ("use", "unknown"),
    [
        (AttemptUse({"ml.z9.large": 1}, HOUR), "price of ml.z9.large"),
        (AttemptUse({G6: 1}, None), "billable time of the last attempt"),
        (AttemptUse({G6: 1}, None, Purpose.PREEMPTED), "billable time of an attempt that was preempted"),
        (AttemptUse({}, HOUR), "instance type"),
    ],
)
def test_what_is_not_known_is_named_and_never_taken_for_zero(use, unknown):
    found = cost_of([use, attempt(HOUR)], PRICES.get)

    assert found.unknown == (unknown,)
    assert found.amount is None
    assert found.known_amount == Decimal("5.75")


def test_an_attempt_that_was_billed_nothing_needs_no_price():
    assert cost_of([AttemptUse({"ml.z9.large": 1}, 0)], PRICES.get).amount == 0


def test_one_that_runs_makes_the_sum_grow():
    assert cost_of([AttemptUse({G6: 1}, 0, is_running=True)], PRICES.get).is_running
    assert not cost_of([attempt(HOUR)], PRICES.get).is_running


def test_an_amount_is_rounded_once_and_half_to_even():
    one_second = cost_of([AttemptUse({"ml.m5.large": 1}, 1000)], PRICES.get)

    assert one_second.amount == Decimal("0.000032")
    assert cost_of([attempt(1)], lambda name: Decimal("1.8")).amount == Decimal("0.000000")
    assert cost_of([attempt(3)], lambda name: Decimal("1.8")).amount == Decimal("0.000002")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**10),
            st.integers(1, 64),
            st.sampled_from(list(Purpose)),
            st.sampled_from(["A", "B", None]),
        ),
        max_size=12,
    ),
    st.decimals("0", "999", places=7),
)
def test_sums_of_jobs_and_of_shares_equal_the_total_exactly(written, price):
    jobs = [
        (
            use := JobUse(str(n), "job", share, "SUCCEEDED", (AttemptUse({G6: count}, ms, purpose),)),
            cost_of(use.attempts, lambda name: price),
        )
        for n, (ms, count, purpose, share) in enumerate(written)
    ]

    whole = total(found for _, found in jobs)

    assert whole == cost_of([each for use, _ in jobs for each in use.attempts], lambda name: price)
    assert sum((found.known_amount for _, found in jobs), Decimal(0)) == whole.known_amount
    assert sum((found.known_amount for found in by_share(jobs).values()), Decimal(0)) == whole.known_amount
    assert sum(whole.by_purpose.values(), Decimal(0)) == whole.known_amount
    assert whole.known_amount % UNIT == 0
    exact = sum(Decimal(ms) * count * price / HOUR for ms, count, _, _ in written)
    assert abs(whole.known_amount - exact) <= UNIT * max(1, len(written))


def test_shares_come_by_cost():
    jobs = [
        (JobUse(name, name, share, "SUCCEEDED", ()), Cost(known_amount=Decimal(amount)))
        for name, share, amount in (("a", "LOW", 1), ("b", "HIGH", 5), ("c", None, 5), ("d", "LOW", 1))
    ]

    assert {share: found.known_amount for share, found in by_share(jobs).items()} == {None: 5, "HIGH": 5, "LOW": 2}
    assert list(by_share(jobs)) == [None, "HIGH", "LOW"]


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        ({"InstanceType": G6, "InstanceCount": 4}, {G6: 4}),
        ({"InstanceType": G6}, {G6: 1}),
        (
            {
                "InstanceGroups": [
                    {"InstanceType": G6, "InstanceCount": 2},
                    {"InstanceType": "ml.m5.large", "InstanceCount": 1},
                    {"InstanceType": G6, "InstanceCount": 1},
                ]
            },
            {G6: 3, "ml.m5.large": 1},
        ),
        ({}, {}),
        (None, {}),
    ],
)
def test_instances_of_a_training_request(resources, found):
    assert instances_of({"ResourceConfig": resources}) == found


def test_the_table_wins_and_the_list_is_asked_once_for_each_type():
    asked: list[str] = []

    def ask(name: str) -> Price | None:
        asked.append(name)
        return Price(Decimal("0.5"), "list") if name == "ml.m5.large" else None

    prices = Prices("USD", {G6: Decimal("5.75")}, ask)

    assert [prices(name) for name in (G6, "ml.m5.large", "ml.z9.large", "ml.m5.large", "ml.z9.large")] == [
        Decimal("5.75"),
        Decimal("0.5"),
        None,
        Decimal("0.5"),
        None,
    ]
    assert asked == ["ml.m5.large", "ml.z9.large"]
    assert prices.known[G6] == Price(Decimal("5.75"), "fairshare.yaml")


def test_without_a_list_what_the_table_lacks_is_unknown():
    assert Prices("EUR", {})(G6) is None
