"""Rules of what goes wrong: how they are written, and how often they strike."""

from __future__ import annotations

import re

import pytest

from fairshare.local.faults import (
    CAPACITY_REASON,
    CONTENTION_REASON,
    AttemptFate,
    CallFate,
    Faults,
    Rule,
    as_text,
    parse_rule,
)
from fairshare.model import UsageError

SUBMIT = "SubmitServiceJob"


def test_a_rule_is_read():
    rule = parse_rule("lost_reply=0.2, throttle=0.2,error=0.05,latency_ms=5,submit_tps=5,seed=7")
    assert rule == Rule(lost_reply=0.2, throttle=0.2, error=0.05, latency_ms=5, submit_tps=5, seed=7)
    assert rule.is_about(SUBMIT)
    assert not rule.is_about("TerminateServiceJob")


def test_ops_name_other_operations():
    rule = parse_rule("error=1,ops=TerminateServiceJob+PutObject")
    assert [rule.is_about(name) for name in (SUBMIT, "TerminateServiceJob", "PutObject")] == [False, True, True]
    assert parse_rule("error=1,ops=all").is_about("Anything")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "lostreply=0.2",
            'faults "lostreply=0.2": there is no fault "lostreply"',
            "did you mean lost_reply? (faults: ",
        ),
        ("error", 'faults "error": "error" has no value', "write key=value, joined by commas"),
        ("error=2", 'faults "error=2": error is "2", not a rate from 0 to 1', "error=0.2 for instance"),
        ("error=nan", 'faults "error=nan": error is "nan", not a rate from 0 to 1', "error=0.2 for instance"),
        ("latency_ms=-1", 'latency_ms is "-1", not a number of at least 0', "latency_ms=5"),
        ("seed=x", 'seed is "x", not a whole number of at least 0', "seed=5"),
        ("seed=1.5", 'seed is "1.5", not a whole number of at least 0', "seed=5"),
        ("contention=2.5", 'contention is "2.5", not a whole number of at least 0', "contention=5"),
        (
            "contention_slowdown=0.5",
            'contention_slowdown is "0.5", not a number of at least 1',
            "contention_slowdown=5",
        ),
        (
            "contention_failure=2",
            'contention_failure is "2", not a rate from 0 to 1',
            "contention_failure=0.2 for instance",
        ),
        ("repeated_token=refuse", 'repeated_token is "refuse"', "write return or reject"),
        (
            "error=1,ops=SubmitServiceJobs",
            'ops names "SubmitServiceJobs", which is no operation served here',
            "did you mean SubmitServiceJob?",
        ),
        ("error=1,ops=", 'ops names "", which is no operation served here', "SubmitServiceJob for instance"),
    ],
)
def test_a_wrong_rule_is_a_clear_error(text, message, hint):
    with pytest.raises(UsageError, match=re.escape(message)) as wrong:
        parse_rule(text)
    assert hint in str(wrong.value.hint)


def test_a_rule_can_be_written_from_keywords():
    text = as_text({"lost_reply": 0.5, "ops": ["SubmitServiceJob", "TerminateServiceJob"], "seed": 7})
    assert text == "lost_reply=0.5,ops=SubmitServiceJob+TerminateServiceJob,seed=7"
    assert as_text({"ops": "all"}) == "ops=all"


def test_rates_are_met_and_repeatable():
    def draw(seed: int) -> list[CallFate]:
        faults = Faults([f"lost_reply=0.2,throttle=0.1,error=0.05,expired_token=0.02,seed={seed}"])
        return [faults.fate_of_call(SUBMIT, 0) for _ in range(5_000)]

    fates = draw(7)
    assert fates == draw(7) != draw(8)
    codes = [fate.refusal.code if fate.refusal else "" for fate in fates]
    assert sum(fate.loses_reply for fate in fates) / 5_000 == pytest.approx(0.2, abs=0.02)
    assert codes.count("TooManyRequestsException") / 5_000 == pytest.approx(0.1, abs=0.015)
    assert codes.count("ServerException") / 5_000 == pytest.approx(0.045, abs=0.01)
    assert codes.count("ExpiredTokenException") / 5_000 == pytest.approx(0.02, abs=0.007)
    assert {fate.refusal.status for fate in fates if fate.refusal} == {
        "429 Too Many Requests",
        "500 Internal Server Error",
        "403 Forbidden",
    }


def test_other_operations_have_no_faults():
    faults = Faults(["error=1"])
    assert faults.fate_of_call("DescribeJobQueues", 0) == CallFate()


def test_a_bucket_lets_a_burst_through_and_then_the_rate():
    faults = Faults(["submit_tps=5"])
    burst = [faults.fate_of_call(SUBMIT, 1_000).refusal is None for _ in range(7)]
    assert burst == [True] * 5 + [False] * 2
    later = [faults.fate_of_call(SUBMIT, at).refusal is None for at in (1_100, 1_200, 1_300, 1_400, 1_500)]
    assert later == [False, True, False, True, False]
    assert [faults.fate_of_call(SUBMIT, 60_000).refusal is None for _ in range(6)] == [True] * 5 + [False]


def test_a_slow_bucket_still_holds_one():
    faults = Faults(["submit_tps=0.5"])
    assert [faults.fate_of_call(SUBMIT, at).refusal is None for at in (0, 1_000, 2_000, 3_000)] == [
        True,
        False,
        True,
        False,
    ]


def test_several_rules_act_together():
    faults = Faults(["latency_ms=5", "latency_ms=7,error=1,ops=all"])
    fate = faults.fate_of_call(SUBMIT, 0)
    assert fate.latency_ms == 12
    assert fate.refusal is not None
    assert faults.fate_of_call("PutObject", 0).latency_ms == 7


def test_the_fate_of_an_attempt_follows_from_its_job_and_number():
    faults, again = Faults(["capacity_error=0.5,launch_slowdown_ms=250,seed=3"]), Faults([])
    fates = [faults.fate_of_attempt(f"job-{n}", 1) for n in range(200)]
    assert {fate.delay_ms for fate in fates} == {250}
    assert 70 < sum(fate.reason == CAPACITY_REASON for fate in fates) < 130
    again.replace(("capacity_error=0.5,launch_slowdown_ms=250,seed=3",))
    assert [again.fate_of_attempt(f"job-{n}", 1) for n in reversed(range(200))] == fates[::-1]
    assert len({faults.fate_of_attempt("job-1", n) for n in range(20)}) == 2


def test_a_wrong_rule_changes_nothing():
    faults = Faults(["error=1"])
    with pytest.raises(UsageError):
        faults.replace(("throttle=1", "nonsense=1"))
    assert faults.rules == ("error=1",)
    faults.replace(())
    assert faults.fate_of_call(SUBMIT, 0) == CallFate()
    assert faults.fate_of_attempt("job", 1) == AttemptFate()


def test_launches_above_the_contention_are_slow_and_may_fail():
    faults = Faults(["contention=8,launch_seconds=10,contention_slowdown=3,contention_failure=0.25,seed=3"])
    assert {faults.fate_of_attempt(f"job-{n}", 1, 8) for n in range(50)} == {AttemptFate(launch_ms=10_000)}
    fates = [faults.fate_of_attempt(f"job-{n}", 1, 9) for n in range(400)]
    assert {fate.launch_ms for fate in fates} == {30_000}
    assert 70 < sum(fate.launch_failure == CONTENTION_REASON for fate in fates) < 130
    assert [faults.fate_of_attempt(f"job-{n}", 1, 9) for n in reversed(range(400))] == fates[::-1]


def test_contention_alone_is_felt_and_launch_seconds_alone_are_not_limited():
    crowded = [Faults(["contention=1"]).fate_of_attempt(f"job-{n}", 1, 2).launch_failure for n in range(100)]
    assert 30 < crowded.count(None) < 70
    assert Faults(["launch_seconds=2"]).fate_of_attempt("job", 1, 1_000) == AttemptFate(launch_ms=2_000)


def test_repeated_tokens_are_returned_unless_a_rule_rejects_them():
    faults = Faults(["lost_reply=0.1", "repeated_token=reject"])
    assert faults.reject_repeated_tokens
    faults.replace(("repeated_token=return",))
    assert not faults.reject_repeated_tokens
