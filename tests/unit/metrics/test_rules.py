"""Every rule has a series that fires it and a series, close to it, that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.metrics.efficiency import judge
from fairshare.metrics.rules import RULES

MINUTE = 60_000
SWINGING = [5, 70, 60, 10] * 15
BUSY = [92, 95, 97, 96] * 15
CPU_ONLY = "ml.c5.2xlarge"


def flat(value, minutes=60):
    return [value] * minutes


def rising(first, last, minutes=60):
    return [first + (last - first) * minute / (minutes - 1) for minute in range(minutes)]


CASES = {
    "memory-pressure": (
        {"gpu": BUSY, "memory": [*flat(70, 50), *flat(96, 10)]},
        {"gpu": BUSY, "memory": flat(85)},
    ),
    "memory-growth": (
        {"gpu": BUSY, "memory": rising(20, 60)},
        {"gpu": BUSY, "memory": [*rising(20, 60, 15), *flat(60, 45)]},
    ),
    "object-store-spill": (
        {"gpu": BUSY, "spilled": 2280},
        {"gpu": BUSY, "spilled": 0},
    ),
    "disk-fills": (
        {"gpu": BUSY, "disk": rising(20, 80), "memory": flat(80)},
        {"gpu": BUSY, "disk": rising(20, 80), "memory": flat(30)},
    ),
    "idle-gpu": (
        {"gpu": flat(0.4), "cpu": flat(40)},
        {"gpu": [*flat(0.4, 50), *flat(60, 10)], "cpu": flat(40)},
    ),
    "idle": (
        {"type": CPU_ONLY, "cpu": flat(0.4)},
        {"type": CPU_ONLY, "cpu": flat(7)},
    ),
    "input-starves-gpu": (
        {"gpu": SWINGING, "cpu": flat(97)},
        {"gpu": BUSY, "cpu": flat(97)},
    ),
    "input-waits": (
        {"gpu": SWINGING, "cpu": flat(20)},
        {"gpu": flat(60), "cpu": flat(20)},
    ),
    "input-waits-cpu": (
        {"type": CPU_ONLY, "cpu": [2, 90, 3, 60] * 15},
        {"type": CPU_ONLY, "cpu": [92, 98, 97, 96] * 15},
    ),
    "cpu-bound": (
        {"type": CPU_ONLY, "cpu": [97, 99, 98, 100] * 15},
        {"type": CPU_ONLY, "cpu": [97, 60, 98, 50] * 15},
    ),
    "over-allocated": (
        {"gpu": [24, 25, 24, 23] * 15},
        {"gpu": [84, 85, 84, 83] * 15},
    ),
    "over-allocated-cpu": (
        {"type": CPU_ONLY, "cpu": [24, 25, 26, 25] * 15},
        {"type": CPU_ONLY, "cpu": [74, 75, 76, 75] * 15},
    ),
    "odd-host": (
        {"gpu": [flat(90), flat(90), flat(45), flat(90)], "count": 4},
        {"gpu": [flat(90), flat(90), flat(80), flat(90)], "count": 4},
    ),
    "idle-after-training": (
        {"gpu": [*flat(95, 40), *flat(0, 20)]},
        {"gpu": [*flat(95, 57), *flat(0, 3)]},
    ),
    "launch-dominated": (
        {"gpu": flat(95, 10), "launching": 12 * MINUTE, "training": 10 * MINUTE},
        {"gpu": flat(95, 30), "launching": 12 * MINUTE, "training": 30 * MINUTE},
    ),
}


@pytest.fixture
def diagnosed(job, measured, phases):
    def diagnose(case):
        values = dict(case)
        times = {name: values.pop(name) for name in ("launching", "training") if name in values}
        spilled = values.pop("spilled", None)
        subject = job(
            instance_type=values.pop("type", "ml.g6.12xlarge"),
            count=values.pop("count", 1),
            status=values.pop("status", "SUCCEEDED"),
        )
        found = judge(measured(subject, **values), phases(**times), spilled_mib=spilled)
        return {diagnosis.id: diagnosis for diagnosis in found.diagnoses}

    return diagnose


def test_every_rule_has_a_positive_and_a_negative_series():
    assert list(CASES) == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_fires_on_its_series_with_evidence_and_advice(rule, diagnosed):
    found = diagnosed(CASES[rule][0])

    assert rule in found
    text = f"{found[rule].evidence} {found[rule].advice}"
    assert "None" not in text
    assert "{" not in text.replace("{torchrun: {}}", "")


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_stays_silent_on_a_series_that_is_close(rule, diagnosed):
    assert rule not in diagnosed(CASES[rule][1])


@pytest.mark.parametrize("rule", [rule for rule in CASES if rule not in {"over-allocated"}])
def test_one_cause_is_one_diagnosis(rule, diagnosed):
    assert list(diagnosed(CASES[rule][0])) == [rule]


@pytest.mark.parametrize("values", [[53, 47, 12], [12, 53, 47, 12], [8, 52, 50, 51, 49, 8]])
def test_the_parts_of_a_period_in_which_a_script_begins_and_ends_are_no_swing(values, diagnosed):
    assert diagnosed({"type": "ml.m5.large", "cpu": values}) == {}
    assert diagnosed({"gpu": values, "cpu": flat(20, len(values))}).keys() <= {"over-allocated"}


def test_five_values_are_enough_for_a_swing(diagnosed):
    assert "input-waits" in diagnosed({"gpu": [50, 10, 70, 10, 50], "cpu": flat(20, 5)})


def test_a_job_that_works_well_gets_no_diagnosis(diagnosed):
    case = {"gpu": BUSY, "cpu": flat(45), "memory": flat(60), "disk": flat(30), "gpu_memory": flat(88), "spilled": 0}

    assert diagnosed(case) == {}


def test_c38_a_job_without_data_is_never_called_idle(diagnosed):
    assert diagnosed({}) == {}
    assert diagnosed({"gpu": [None] * 60}) == {}


def test_the_advice_names_the_setting_and_a_type_of_the_family(diagnosed):
    starved = diagnosed(CASES["input-starves-gpu"][0])["input-starves-gpu"]

    assert starved.evidence == "CPU is at 97 % while GPU use averages 37 % (p10 5, p95 70)."
    assert starved.advice.startswith("Set compute.instance_type to ml.g6.24xlarge, which has more vCPUs per GPU")


def test_the_advice_names_no_type_where_the_family_has_no_larger_one(diagnosed):
    largest = diagnosed({"type": "ml.p4d.24xlarge", "gpu": SWINGING, "cpu": flat(97)})["input-starves-gpu"]

    assert largest.advice.startswith("Prepare the data once, before training")


def test_over_allocation_names_the_smallest_type_that_is_enough(diagnosed):
    found = diagnosed(CASES["over-allocated"][0] | {"cpu": flat(10)})["over-allocated"]

    assert found.evidence == "GPU use is steady at 24 %: as if 1 of 4 GPUs worked."
    assert found.advice.startswith("Set compute.instance_type to ml.g6.2xlarge, or let every GPU work")


def test_the_odd_host_is_named(diagnosed):
    found = diagnosed(CASES["odd-host"][0])["odd-host"]

    assert found.evidence == "algo-3 averages 45 % GPU use, the others 90 %."


def test_of_two_hosts_the_slower_one_is_the_odd_one(diagnosed):
    found = diagnosed({"gpu": [flat(90), flat(50)], "count": 2})["odd-host"]

    assert found.evidence == "algo-2 averages 50 % GPU use, the others 90 %."


def test_an_idle_end_is_not_taken_for_a_slow_input(diagnosed):
    found = diagnosed({"gpu": [*flat(95, 40), *flat(0, 20)], "cpu": [*flat(50, 40), *flat(1, 20)]})

    assert list(found) == ["idle-after-training"]
    assert found["idle-after-training"].evidence == (
        "After 40 min of work the GPUs were idle for the last 20 min (33 % of the run)."
    )


def test_a_process_that_fills_not_even_one_vcpu_waits(diagnosed):
    found = diagnosed({"type": CPU_ONLY, "cpu": flat(7)})

    assert list(found) == ["input-waits-cpu"]


def test_a_job_that_still_trains_may_yet_train_longer_than_it_launched(diagnosed):
    assert "launch-dominated" not in diagnosed(CASES["launch-dominated"][0] | {"status": "RUNNING"})


def test_memory_that_grows_explains_a_processor_that_waits(diagnosed):
    found = diagnosed({"type": CPU_ONLY, "cpu": flat(7), "memory": rising(10, 60)})

    assert list(found) == ["memory-growth"]


def test_a_rule_is_only_explained_by_rules_that_exist():
    ids = {rule.id for rule in RULES}

    assert all(ids.issuperset(rule.unless) for rule in RULES)


def test_c35_memory_is_judged_on_an_unknown_instance_type_too(diagnosed):
    found = diagnosed({"type": "ml.x9.large", "cpu": flat(97), "memory": flat(96)})

    assert list(found) == ["memory-pressure"]
    assert "None" not in found["memory-pressure"].advice


def test_every_rule_is_documented():
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()

    assert [rule.id for rule in RULES if f"`{rule.id}`" not in page] == []


@pytest.mark.parametrize("end", [0, 6])
def test_processors_that_only_began_and_ended_the_program_were_idle(diagnosed, end):
    found = diagnosed({"type": CPU_ONLY, "cpu": [22, *flat(0, 39), end]})

    assert list(found) == ["idle"]
    idle = 39 if end else 40
    assert found["idle"].evidence == f"For {idle} min of 41 min, the 8 vCPUs were less than 5 % busy."


def test_processors_that_worked_for_longer_were_not_idle_but_held_too_long(diagnosed):
    assert "idle-after-training" in diagnosed({"type": CPU_ONLY, "cpu": [*flat(90, 3), *flat(0, 57)]})


def test_a_script_that_only_keeps_things_is_not_called_idle(diagnosed):
    case = {"type": CPU_ONLY, "cpu": [17, *flat(1, 13)], "memory": [2, *rising(10, 45, 12), 2]}

    assert list(diagnosed(case)) == ["memory-growth"]


def test_no_rule_knows_a_job_by_its_name(measured, job, phases):
    cases = [
        [
            one.id
            for one in judge(measured(job(job_name=name, instance_type=CPU_ONLY), cpu=flat(98)), phases()).diagnoses
        ]
        for name in ("idle", "memory-grows", "x")
    ]

    assert cases == [["cpu-bound"]] * 3
