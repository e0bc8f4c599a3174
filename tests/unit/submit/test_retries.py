"""``retry:`` as an AWS retry strategy."""

from __future__ import annotations

import pytest

from fairshare.config.jobs import RetrySpec
from fairshare.submit.retries import retry_findings, retry_strategy


def patterns(spec: RetrySpec) -> list[str]:
    *rules, last = retry_strategy(spec)["evaluate_on_exit"]
    assert last == {"action": "EXIT", "on_status_reason": "*"}
    assert {rule["action"] for rule in rules} <= {"RETRY"}
    return [rule["on_status_reason"] for rule in rules]


def test_attempts_alone_keep_the_default_patterns() -> None:
    strategy = retry_strategy(RetrySpec(attempts=5))

    assert strategy["attempts"] == 5
    assert strategy["evaluate_on_exit"] == retry_strategy(None)["evaluate_on_exit"]


@pytest.mark.parametrize("name", ["AlgorithmError", "AlgorithmError*"])
def test_the_name_of_an_error_fits_both_spellings_of_aws(name: str) -> None:
    assert patterns(RetrySpec(3, (name,))) == [
        "Received status from SageMaker: AlgorithmError*",
        "Received status from SageMaker:AlgorithmError*",
    ]


def test_other_patterns_are_taken_as_they_are() -> None:
    own = ("Received status from SageMaker: AlgorithmError: exit code 75*", "*out of memory*", "*")

    assert patterns(RetrySpec(3, own)) == list(own)


def test_more_rules_than_aws_takes_are_refused() -> None:
    assert list(retry_findings(RetrySpec(2, ("A", "B")))) == []
    (finding,) = retry_findings(RetrySpec(2, ("A", "B", "x y")))
    assert finding.at == ("retry", "on")
    assert finding.message == "retry.on makes 5 rules, AWS takes 4 beside the last one, EXIT *"
    assert finding.hint.startswith("the name of an error makes two; join names to one pattern with *")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("x" * 513, "a pattern of retry.on has 513 characters, AWS takes 512"),
        ("café *", "a pattern of retry.on has 'é': AWS takes printable ASCII"),
    ],
)
def test_patterns_that_aws_refuses(pattern: str, message: str) -> None:
    assert [finding.message for finding in retry_findings(RetrySpec(2, (pattern,)))] == [message]
