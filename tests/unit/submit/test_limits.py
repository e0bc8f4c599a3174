"""Limits of AWS's own models, to the character and to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairshare.model import JobRequest
from fairshare.submit.limits import (
    channel_findings,
    clean_tag,
    environment_findings,
    hyperparameter_findings,
    size_findings,
    tag_findings,
)
from fairshare.submit.report import Finding
from fairshare.submit.requests import canonical_json


def only(findings: Any) -> Finding:
    found = list(findings)
    assert len(found) == 1, found
    return found[0]


def request(payload: dict[str, Any], tags: dict[str, str] | None = None) -> JobRequest:
    return JobRequest("digits", "q", canonical_json(payload), "t" * 64, tags=tags or {})


def sizes(payload: dict[str, Any], tags: dict[str, str] | None = None) -> list[Finding]:
    return list(size_findings(request(payload, tags), payload))


# ---------------------------------------------------------------------------------------------------------------------
# Hyperparameters


def test_c10_hyperparameters_at_their_limits_pass() -> None:
    values = {f"p{number}": "x" for number in range(98)} | {"n" * 256: "é" * 2500, "": ""}
    del values[""]

    assert list(hyperparameter_findings({**values, "empty": ""})) == []


def test_c10_a_value_of_2501_characters() -> None:
    finding = only(hyperparameter_findings({"labels": "x" * 2501}))

    assert finding == Finding(
        "hyperparameter labels has 2501 characters, at most 2500 are allowed",
        ("hyperparameters", "labels"),
        "put it into a file in S3 or of the source directory",
    )


def test_c10_101_hyperparameters() -> None:
    finding = only(hyperparameter_findings({f"p{number}": "" for number in range(101)}))

    assert (finding.message, finding.at) == ("it has 101 hyperparameters, SageMaker takes 100", ("hyperparameters",))


def test_c10_names_of_hyperparameters() -> None:
    assert only(hyperparameter_findings({"n" * 257: ""})).message == (
        f"hyperparameter {'n' * 37}...: its name has 257 characters, at most 256 are allowed"
    )
    assert only(hyperparameter_findings({"": "x"})).message == "hyperparameter : its name has no characters"


@pytest.mark.parametrize(("value", "kind"), [(5, "int"), (True, "bool"), (None, "NoneType"), ([], "list")])
def test_a_hyperparameter_in_a_request_is_text(value: Any, kind: str) -> None:
    finding = only(hyperparameter_findings({"lr": value}))

    assert (finding.message, finding.hint) == (f"hyperparameter lr must be text, not {kind}", "quote it")


def test_a_line_break_in_a_hyperparameter_is_a_warning() -> None:
    finding = only(hyperparameter_findings({"prompt": "a\nb"}))

    assert finding.severity == "warning"
    assert (
        finding.message
        == "hyperparameter prompt has a line break, which SageMaker's pattern for values, .*, does not match"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Environment


def test_c10_an_environment_at_its_limits_passes() -> None:
    values = {f"V{number}": "" for number in range(98)} | {"_": "é" * 512, "N" * 512: "two\nlines"}

    assert list(environment_findings(values)) == []


def test_c10_a_variable_of_513_characters() -> None:
    finding = only(environment_findings({"HF_TOKEN": "s3cret" * 100}))

    assert finding.message == "environment variable HF_TOKEN has 600 characters, at most 512 are allowed"
    assert finding.at == ("environment", "HF_TOKEN")
    assert only(environment_findings({"X": "x" * 513})).message.startswith("environment variable X has 513 characters")


@pytest.mark.parametrize("name", ["MY-VAR", "1ST", "", "A B", "Ä", "A.B", "A\n"])
def test_c10_names_that_sagemaker_refuses(name: str) -> None:
    finding = only(environment_findings({name: "x"}))

    assert finding.message == f"environment variable {name}: SageMaker takes no such name"
    assert finding.hint == "use letters a-z, digits and _, not beginning with a digit"


def test_c10_too_many_or_too_long_names_of_variables() -> None:
    assert only(environment_findings({f"V{n}": "" for n in range(101)})).message == (
        "it has 101 environment variables, SageMaker takes 100"
    )
    assert "its name has 513 characters" in only(environment_findings({"N" * 513: ""})).message
    assert only(environment_findings({"EPOCHS": 5})).message == "environment variable EPOCHS must be text, not int"


# ---------------------------------------------------------------------------------------------------------------------
# Channels


def test_channels() -> None:
    good = [{"ChannelName": name} for name in ("train", "a.b-c_d", "x" * 64)]

    assert list(channel_findings(good)) == []
    assert only(channel_findings([{"ChannelName": "a b"}])).message == (
        "input 'a b': SageMaker takes no such channel name"
    )
    assert only(channel_findings([{}])).at == ("inputs", "")
    assert only(channel_findings([{"ChannelName": f"c{n}"} for n in range(21)])).message == (
        "it has 21 input channels with those of the SDK, SageMaker takes 20"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Tags


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("owner", "Åsa Öberg"),
        ("empty", ""),
        ("名前", "模型 ٣"),
        ("a_.:/=+-@ b", "a_.:/=+-@ b"),
        ("k" * 128, "v" * 256),
        ("Awsome", "x"),
    ],
)
def test_c13_good_tags(key: str, value: str) -> None:
    assert list(tag_findings({key: value})) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("cmd", "lr=3e-4;bs=(64)", "tag cmd: its value has '(' ')' ';'"),
        ("git", "feat/x #12", "tag git: its value has '#'"),
        ("a,b", "x", "tag a,b: its key has ','"),
        ("face", "😀", "tag face: its value has '😀'"),
        ("tab", "a\tb", r"tag tab: its value has '\t'"),
        ("", "x", "a tag without a key: its key has no characters"),
        ("k" * 129, "", f"tag {'k' * 37}...: its key has 129 characters, at most 128 are allowed"),
        ("long", "v" * 257, "tag long: its value has 257 characters, at most 256 are allowed"),
        ("AWS:x", "y", "tag AWS:x: AWS keeps keys that begin with aws: for itself"),
    ],
)
def test_c13_bad_tags(key: str, value: str, message: str) -> None:
    finding = only(tag_findings({key: value}))

    assert (finding.message, finding.at, finding.severity) == (message, ("tags", key), "error")


def test_c13_fifty_tags_and_no_more() -> None:
    tags = {f"k{number}": "v" for number in range(50)}

    assert list(tag_findings(tags)) == []
    assert only(tag_findings({**tags, "one more": ""})).message == (
        "it has 51 tags with those of the project, the SDK and the run, AWS takes 50"
    )


def test_c13_tags_that_a_program_made_are_cleaned() -> None:
    assert clean_tag("lr=3e-4;bs=(64)") == "lr=3e-4-bs=-64-"
    assert clean_tag("*") == "-"
    assert clean_tag("Åsa") == "Åsa"
    assert clean_tag("x" * 300) == "x" * 256
    assert list(tag_findings({clean_tag("a#b" * 99, 128): clean_tag("c;d" * 99)})) == []


# ---------------------------------------------------------------------------------------------------------------------
# Sizes


@pytest.mark.parametrize("filler", ["a", "é", "名", "😀"])
def test_c10_the_payload_limit_is_exact_and_in_utf8_bytes(filler: str) -> None:
    width = len(filler.encode())
    empty = len(canonical_json({"config": ""}))
    fitting = (10_240 - empty) // width

    assert sizes({"config": filler * fitting}) == []
    (finding,) = sizes({"config": filler * (fitting + 1)})
    size = empty + width * (fitting + 1)
    assert finding.message == f"its training request is {size:,} bytes, Batch takes 10,240 bytes"


def test_c10_quotes_count_as_they_are_written() -> None:
    """A quote takes two bytes in the payload, and four in the request around it."""
    (finding,) = sizes({"config": '"' * 5_200})

    assert finding.message.startswith("its training request is 10,413 bytes")


def test_c10_the_largest_parts_of_a_payload_are_named() -> None:
    payload = {"HyperParameters": {"config": "a" * 9_000, "x": "b" * 1_500}, "Environment": {"E": "e"}, "RoleArn": "r"}

    (finding,) = sizes(payload)

    assert finding.message == "its training request is 10,578 bytes, Batch takes 10,240 bytes"
    assert finding.hint == (
        "largest: HyperParameters.config 9,013 bytes, HyperParameters.x 1,508 bytes, Environment.E 9 bytes; "
        "move long values into a file in S3"
    )


def test_c10_the_whole_request_has_a_limit_too() -> None:
    tags = {f"key{number}": "名" * 256 for number in range(50)}

    (finding,) = sizes({"a": "b"}, tags)

    assert finding.at == ("request",)
    assert finding.message.endswith("bytes, Batch takes 30,720 bytes")
    assert finding.hint.startswith("largest: tags.key49 780 bytes, ")
    assert list(tag_findings(tags)) == [], "each tag alone is within its limits"


def test_c46_findings_hold_no_value() -> None:
    secret = "hunter2 " * 400
    findings = [
        *hyperparameter_findings({"password": secret}),
        *environment_findings({"TOKEN": secret, "A-B": secret}),
        *sizes({"Environment": {f"V{n}": secret for n in range(4)}}),
    ]

    assert len(findings) == 5
    assert "hunter2" not in json.dumps([str(finding) for finding in findings])
