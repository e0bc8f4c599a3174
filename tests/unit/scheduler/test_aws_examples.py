"""Numbers that AWS publishes, and what follows from them, through the engine.

Every scheduling example found in AWS's own texts (FS-1 to FS-11 of the project's notes; FS-7 and FS-8 belong to quota
management). Shares submit in the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from fairshare.model import JobStatus
from fairshare.scheduler.engine import EngineOptions

MakeLab = Callable[..., Any]
CURRENT_USE_ONLY = EngineOptions(history_weight=Fraction(0))

both_usage_rules = pytest.mark.parametrize("options", [EngineOptions(), CURRENT_USE_ONLY], ids=["model", "current"])
"""From a cold start the default usage rule must give what the published examples, which know current use only, give."""


@pytest.mark.parametrize(("reservation", "reserved"), [(50, (50, 25, 12.5)), (25, (25, 6.25, 1.5625))])
def test_fs1_reserved_per_cent_for_1_2_and_3_active_shares(
    make_lab: MakeLab, reservation: int, reserved: tuple[float, ...]
) -> None:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_FairsharePolicy.html (computeReservation)."""
    lab = make_lab(6400, {}, reservation=reservation)
    in_use = []
    for share in "ABC":
        lab.burst({share: 400}, demand=16)
        lab.to(0)
        in_use.append(sum(lab.held().values()))
    assert in_use == [6400 * (100 - percent) / 100 // 16 * 16 for percent in reserved]


@pytest.mark.parametrize(
    ("reservation", "capacity", "usable"),
    [(25, 64, [48, 60, 63, 63, 63]), (50, 16, [8, 12, 14, 15, 15]), (75, 64, [16, 28, 37, 43, 48])],
)
def test_fs1_usable_instances_with_1_to_5_active_shares(
    make_lab: MakeLab, reservation: int, capacity: int, usable: list[int]
) -> None:
    lab = make_lab(capacity, {}, reservation=reservation)
    in_use = []
    for share in "ABCDE":
        lab.burst({share: capacity})
        lab.to(0)
        in_use.append(sum(lab.held().values()))
    assert in_use == usable


def test_fs2_reservation_as_shares_arrive(make_lab: MakeLab) -> None:
    """https://github.com/aws/aws-cdk-rfcs/blob/main/text/0485-aws-batch.md: 75 %, 56.25 %, 42.1875 % held back."""
    capacity = 6400
    lab = make_lab(capacity, {}, reservation=75)
    lab.burst({"A": capacity})
    lab.to(0)
    assert sum(lab.held().values()) == capacity * Fraction("0.25")
    lab.burst({"B": capacity}, at=1)
    lab.to(1)
    assert sum(lab.held().values()) == capacity * Fraction("0.4375")
    lab.submit("another job of A", "A", at=2)
    lab.to(2)
    assert sum(lab.held().values()) == capacity * Fraction("0.4375")
    lab.burst({"C": capacity}, at=3)
    lab.to(3)
    assert sum(lab.held().values()) == capacity * Fraction("0.578125")


@both_usage_rules
@pytest.mark.parametrize(
    ("weight_a", "weight_b", "held", "a_jobs_per_b_job"),
    [
        ("1", "1", {"A": 192, "B": 192}, 2),
        ("0.5", "1", {"A": 256, "B": 128}, 4),
        ("1", "0.5", {"A": 128, "B": 256}, 1),
    ],
)
def test_fs3_jobs_of_different_size(
    make_lab: MakeLab,
    options: EngineOptions,
    weight_a: str,
    weight_b: str,
    held: dict[str, int],
    a_jobs_per_b_job: int,
) -> None:
    """The CDK's example with jobs of 32 and 64 vCPU, here on 384 units."""
    lab = make_lab(384, {"A": weight_a, "B": weight_b}, options=options)
    lab.burst({"A": 12, "B": 12}, demand={"A": 32, "B": 64})
    lab.to(0)
    assert lab.held() == held
    assert held["A"] / 32 == a_jobs_per_b_job * held["B"] / 64


def test_fs4_a_queue_with_a_decay_of_60_s_has_a_window_of_600_s(make_lab: MakeLab) -> None:
    """API_FairsharePolicy: 600 s is the shortest window, so use 2 minutes old still counts and 10 minutes old does not.

    A used the instance for a minute, B after it for a second. While the window remembers, B goes first; once it has
    forgotten, both are new again and the job submitted first goes first.
    """

    def next_share(seconds: int) -> str:
        lab = make_lab(1, {"A": "1", "B": "1"}, decay=60)
        lab.submit("A-0", "A", runs=60)
        lab.submit("B-0", "B", at=60, runs=1)
        lab.submit("A-1", "A", at=seconds)
        lab.submit("B-1", "B", at=seconds)
        lab.to(seconds)
        return str(lab.start_order()[-1])

    assert next_share(2 * 60) == "B"
    assert next_share(10 * 60) == "B"
    assert next_share(11 * 60 + 1) == "A"


@both_usage_rules
def test_fs5_a_weight_of_0_125_gets_8_times_what_1_gets(make_lab: MakeLab, options: EngineOptions) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/fair-share-scheduling.html."""
    lab = make_lab(9, {"A": "0.125", "B": "1"}, options=options)
    lab.burst({"A": 9, "B": 9})
    lab.to(0)
    assert lab.held() == {"A": 8, "B": 1}
    assert lab.start_order() == "ABAAAAAAA"


@pytest.mark.parametrize(("members", "own_weight"), [(2, "2"), (5, "5")])
def test_fs6_the_members_of_a_prefix_entry_share_its_weight(make_lab: MakeLab, members: int, own_weight: str) -> None:
    """The user guide's example: UserA* of weight 1 with 2 members makes each weigh 2, with 5 each 5."""
    users = [f"UserA{number}" for number in range(members)]
    by_prefix = make_lab(24, {"Other": "1", "UserA*": "1"})
    one_by_one = make_lab(24, {"Other": "1", **dict.fromkeys(users, own_weight)})
    for lab in (by_prefix, one_by_one):
        lab.burst({"Other": 40, **dict.fromkeys(users, 40)})
        lab.to(0)
        lab.finish(*lab.started()[::2], at=90)
        lab.finish(*lab.started()[1::2], at=700)
    assert by_prefix.log == one_by_one.log
    assert len(by_prefix.started()) == 24 + 12 + 18


def test_fs9_one_instance_three_priorities(make_lab: MakeLab) -> None:
    """AWS's sample notebook: LOWPRI first, MIDPRI overtakes what is left of it, HIGHPRI submitted last goes next."""
    lab = make_lab(1, {"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}, decay=3600)
    for number in range(3):
        lab.submit(f"low-{number}", "LOWPRI", at=number, runs=600)
    for number in range(2):
        lab.submit(f"mid-{number}", "MIDPRI", at=100 + number, runs=600)
    lab.submit("high-0", "HIGHPRI", at=700, runs=600)
    lab.to(10_000)
    assert lab.started()[:3] == ["low-0", "mid-0", "high-0"]
    assert sorted(lab.started()[3:]) == ["low-1", "low-2", "mid-1"]


def test_fs9_high_priority_goes_first_also_when_nobody_but_lowpri_has_run(make_lab: MakeLab) -> None:
    lab = make_lab(1, {"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}, decay=3600)
    lab.submit("low-0", "LOWPRI", runs=600)
    lab.submit("low-1", "LOWPRI", at=1, runs=600)
    lab.submit("mid-0", "MIDPRI", at=2, runs=600)
    lab.submit("high-0", "HIGHPRI", at=3, runs=600)
    lab.to(10_000)
    assert lab.started() == ["low-0", "high-0", "mid-0", "low-1"]


def test_fs10_utilisation_of_two_shares(make_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/track-capacity-utilization-service-jobs.html."""
    lab = make_lab(9, {"team-a": "1", "team-b": "1"})
    lab.burst({"team-a": 5, "team-b": 9})
    lab.to(0)
    snapshot = lab.engine.snapshot("q")
    assert snapshot.instances_in_use == 9
    assert snapshot.instances_by_share == {"team-a": 5, "team-b": 4}


def test_fs11_the_sixth_job_of_10_instances_waits_for_50(make_lab: MakeLab) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/what-are-service-environments.html."""
    lab = make_lab(50)
    for number in range(6):
        lab.submit(f"job-{number}", demand=10)
    lab.to(0)
    assert lab.started() == [f"job-{number}" for number in range(5)]
    assert lab.status("job-5") is JobStatus.RUNNABLE
    assert lab.engine.instances_held("env") == 50


@both_usage_rules
@pytest.mark.parametrize(
    ("capacity", "weights", "held", "order"),
    [
        (8, {"a": "1", "b": "1"}, {"a": 4, "b": 4}, "abababab"),
        (9, {"A": "0.125", "B": "1"}, {"A": 8, "B": 1}, "ABAAAAAAA"),
        (10, {"A": "1", "B": "1.5"}, {"A": 6, "B": 4}, "ABABAABABA"),
        (23, {"H": "1", "M": "3", "L": "5"}, {"H": 15, "M": 5, "L": 3}, "HMLHHHMHHLHMHHHMHLHHMHH"),
        (103, {"H": "1", "M": "50", "L": "99"}, {"H": 100, "M": 2, "L": 1}, None),
    ],
)
def test_derived_table(
    make_lab: MakeLab,
    options: EngineOptions,
    capacity: int,
    weights: dict[str, str],
    held: dict[str, int],
    order: str | None,
) -> None:
    """A cold start of endless one-instance jobs fills the pool in this order and leaves it divided like this."""
    lab = make_lab(capacity, weights, options=options)
    lab.burst(dict.fromkeys(weights, capacity))
    lab.to(0)
    assert lab.held() == held
    assert order is None or lab.start_order() == order


@both_usage_rules
def test_derived_table_with_a_prefix_entry(make_lab: MakeLab, options: EngineOptions) -> None:
    lab = make_lab(9, {"X": "1", "UserA*": "1"}, options=options)
    lab.burst({"X": 9, "UserA1": 9, "UserA2": 9})
    lab.to(0)
    assert lab.held() == {"X": 5, "UserA1": 2, "UserA2": 2}


# -- field case C33: which way weights and reservation work ------------------------------------------------------------


@both_usage_rules
def test_c33_the_lower_weight_gets_more(make_lab: MakeLab, options: EngineOptions) -> None:
    """20 instances, HIGHPRI 0.25 and LOWPRI 1, endless equal jobs of one instance: 16 to 4, also in the long run."""
    lab = make_lab(20, {"HIGHPRI": "0.25", "LOWPRI": "1"}, options=options)
    for number in range(1000):
        for share in ("LOWPRI", "HIGHPRI"):
            lab.submit(f"{share}-{number}", share, runs=60)
    lab.to(0)
    assert lab.held() == {"HIGHPRI": 16, "LOWPRI": 4}
    lab.to(60 * 50)
    shares = [lab.engine.job(job_id).share_identifier for job_id in lab.started()]
    assert shares.count("HIGHPRI") / len(shares) == pytest.approx(0.8, abs=0.01)


def test_c33_the_reserve_shrinks_with_each_active_share(make_lab: MakeLab) -> None:
    """40 instances and a reservation of 50: 20, 10 and 5 are kept free for 1, 2 and 3 active shares."""
    lab = make_lab(40, {}, reservation=50)
    reserved = []
    for share in "ABC":
        lab.burst({share: 40})
        lab.to(0)
        reserved.append(40 - sum(lab.held().values()))
    assert reserved == [20, 10, 5]


def test_c33_decay_0_is_the_window_of_600_seconds(make_lab: MakeLab) -> None:
    """Not "no memory": A's use of 9 minutes ago still counts, and exactly as long as with 600 written out."""

    def first(at: int, decay: int) -> str:
        lab = make_lab(1, {"A": "1", "B": "5"}, decay=decay)
        lab.submit("A-0", "A", runs=10)
        lab.submit("blocker", "C", at=at - 5, runs=5)
        lab.submit("A-1", "A", at=at - 1)
        lab.submit("B-1", "B", at=at - 1)
        lab.to(at)
        return str(lab.started()[-1])

    for decay in (0, 600):
        assert [first(at, decay) for at in (550, 608, 700)] == ["B-1", "B-1", "A-1"]
    assert first(700, 3600) == "B-1"
