from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from fairshare.config.jobs import SecretRef
from fairshare.model import UsageError
from fairshare.submit.requests import canonical_json, payload_sha256
from fairshare.submit.secrets import masked, restored, secret_values, with_references, without_values

PAYLOAD = canonical_json(
    {
        "Environment": {
            "HF_TOKEN": "hf_example",
            "WANDB_API_KEY": "abc",
            "CONFIG": "c0nfig",
            "TRACKING": "https://me:pa55@host/x",
            "PLAIN": "4",
        },
        "HyperParameters": {"password": "p", "max_tokens": "512", "url": "https://h/f?X-Amz-Signature=fe12&a=b"},
        "RoleArn": "é",
    }
)
DECLARED = {"CONFIG": SecretRef(from_env="CONFIG"), "HF_TOKEN": SecretRef(from_file="/run/token")}
VALUES = {
    "HF_TOKEN": "hf_example",
    "WANDB_API_KEY": "abc",
    "CONFIG": "c0nfig",
    "TRACKING": "https://me:pa55@host/x",
    "password": "p",
    "url": "https://h/f?X-Amz-Signature=fe12&a=b",
}


def values(**changed: Sequence[str]) -> Callable[[str, str, SecretRef], Sequence[str]]:
    return lambda section, key, reference: changed[key] if key in changed else [VALUES[key]]


def test_c46_secrets_are_those_declared_and_those_that_look_like_one() -> None:
    assert sorted(secret_values(PAYLOAD, DECLARED)) == sorted(VALUES.values())


def test_c46_they_are_masked_for_display() -> None:
    assert masked(PAYLOAD, DECLARED) == {
        "Environment": dict.fromkeys(["HF_TOKEN", "WANDB_API_KEY", "CONFIG", "TRACKING"], "***") | {"PLAIN": "4"},
        "HyperParameters": {"password": "***", "max_tokens": "512", "url": "***"},
        "RoleArn": "é",
    }


@pytest.mark.parametrize(
    ("section", "key", "value", "is_secret"),
    [
        ("HyperParameters", "tokenizer", "bpe", False),
        ("HyperParameters", "db-secret", "6", True),
        ("HyperParameters", "CONFIG", "7", False),
        ("Environment", "S3", "s3://bucket/a@b", False),
        ("Environment", "GIT", "https://user@host/repo", False),
        ("Environment", "GIT", "https://user:token@host/repo", True),
        ("Environment", "GIT", "https://ghp_0123456789abcdefghij@host/repo", True),
        ("Environment", "BLOB", "https://h/f?se=1&sig=x", True),
        ("Environment", "PGPASSWORD", "8", True),
        ("Environment", "MYSQL_PWD", "9", True),
        ("Environment", "PWD", "/opt/ml", False),
        ("HyperParameters", "wandb", '{"entity": "lab", "wandb_api_key": "10"}', True),
        ("HyperParameters", "wandb", '{"entity": "token", "tokens": 11}', False),
    ],
)
def test_c46_what_looks_like_a_secret(section: str, key: str, value: str, is_secret: bool) -> None:
    payload = canonical_json({section: {key: value}})

    assert (secret_values(payload, DECLARED) == [value]) is is_secret


def test_c46_a_reference_says_where_a_value_came_from() -> None:
    kept = json.loads(with_references(PAYLOAD, DECLARED))

    assert kept["Environment"] == {
        "HF_TOKEN": {"from_file": "/run/token"},
        "WANDB_API_KEY": {},
        "CONFIG": {"from_env": "CONFIG"},
        "TRACKING": {},
        "PLAIN": "4",
    }
    assert kept["HyperParameters"] == {"password": {}, "max_tokens": "512", "url": {}}
    assert with_references('{"Environment":{"A":"1"}}', {"GONE": SecretRef()}) == '{"Environment":{"A":"1"}}'


def test_c46_the_payload_comes_back_from_its_references() -> None:
    kept = with_references(PAYLOAD, DECLARED)

    assert restored(kept, payload_sha256(PAYLOAD), values()) == PAYLOAD
    several = values(password=["x", "p"], WANDB_API_KEY=["", "abcd", "abc"])
    assert restored(kept, payload_sha256(PAYLOAD), several) == PAYLOAD
    assert restored("{}", payload_sha256("{}"), values()) == "{}"


def test_c46_a_changed_value_is_refused_without_showing_any() -> None:
    kept = with_references(PAYLOAD, DECLARED)

    with pytest.raises(UsageError) as caught:
        restored(kept, payload_sha256(PAYLOAD), values(HF_TOKEN=["hf_another"]))
    assert caught.value.message.endswith("is not the one that was submitted")
    assert "HF_TOKEN" in caught.value.message
    assert "hf_another" not in caught.value.message + str(caught.value.hint)


def test_c46_a_value_that_is_nowhere_is_asked_for() -> None:
    kept = with_references(canonical_json({"Environment": {"API_KEY": "k"}}), {})

    with pytest.raises(UsageError) as caught:
        restored(kept, "0" * 64, values(API_KEY=[]))
    assert caught.value.message == "the value of API_KEY is not known any more"
    assert caught.value.hint == (
        "set API_KEY in the environment to the value that was submitted, or submit the jobs as a new run"
    )


def test_a_payload_that_is_not_the_one_of_the_hash_is_refused() -> None:
    with pytest.raises(UsageError):
        restored("{}", "0" * 64, values())


def test_c46_a_message_goes_without_the_values() -> None:
    message = "invalid value hf_example in {hf_example_2}, key abc"

    assert without_values(message, ["hf_example", "hf_example_2", "abc"]) == "invalid value *** in {***}, key abc"
