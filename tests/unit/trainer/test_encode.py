"""Hyperparameters, environment values and raw fields on their way into a request."""

from __future__ import annotations

import copy
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshare.config.jobs import SecretRef
from fairshare.model import UsageError
from fairshare.trainer.encode import deep_merge, encode_hyperparameters, merge_request, resolve_environment


def test_c09_values_become_the_strings_sagemaker_takes() -> None:
    values = {
        "lr": 0.0001,
        "amp": True,
        "resume": None,
        "layers": [64, 64],
        "opt": {"name": "adamw", "betas": [0.9, 0.999]},
        "tag": "007",
        "note": 'say "hi"',
        "empty": "",
        "epochs": 0,
    }
    before = copy.deepcopy(values)
    encoded = encode_hyperparameters(values)
    assert encoded == {
        "lr": "0.0001",
        "amp": "true",
        "resume": "null",
        "layers": "[64, 64]",
        "opt": '{"name": "adamw", "betas": [0.9, 0.999]}',
        "tag": "007",
        "note": 'say "hi"',
        "empty": "",
        "epochs": "0",
    }
    assert values == before
    assert encode_hyperparameters(values) == encoded


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1, float("-inf")], {"a": float("nan")}])
def test_c09_nan_and_infinity_are_refused(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        encode_hyperparameters({"lr": value})
    assert caught.value.message == (f"hyperparameter lr is {value!r}: JSON has no NaN and no infinity")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.5), "0.5"),
        (np.int64(3), "3"),
        (np.bool_(True), "true"),
        ([np.bool_(False), np.float32(1.5)], "[false, 1.5]"),
        (Path("/opt/ml/input"), "/opt/ml/input"),
        ({"at": Path("a/b")}, '{"at": "a/b"}'),
        ((1, 2), "[1, 2]"),
    ],
)
def test_c09_numpy_scalars_and_paths_are_what_they_stand_for(value: object, text: str) -> None:
    assert encode_hyperparameters({"x": value}) == {"x": text}


@pytest.mark.parametrize("value", [datetime.date(2026, 11, 30), {1, 2}, b"raw", object(), [object()]])
def test_c09_python_text_is_never_sent_for_json(value: object) -> None:
    kind = type(value[0] if isinstance(value, list) else value).__name__
    with pytest.raises(UsageError) as caught:
        encode_hyperparameters({"x": value})
    assert caught.value.message == f"hyperparameter x: a value of type {kind} cannot be written as JSON"
    assert caught.value.hint == "give text, a number, true, false, null, a list or a map"


def test_secrets_are_filled_in_and_named_in_the_order_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    values: dict[str, str | SecretRef] = {
        "B": "plain",
        "HF_TOKEN": SecretRef(from_env="MY_TOKEN"),
        "API_KEY": SecretRef(from_file=str(tmp_path / "key")),
        "EMPTY": SecretRef(from_env="NOTHING"),
    }
    resolved, secret = resolve_environment(values, {"MY_TOKEN": "hf_1", "NOTHING": ""})
    assert list(resolved.items()) == [("B", "plain"), ("HF_TOKEN", "hf_1"), ("API_KEY", "from a file"), ("EMPTY", "")]
    assert secret == ("HF_TOKEN", "API_KEY", "EMPTY")


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (SecretRef(from_env="GONE"), "environment T: the variable GONE is not set here"),
        (SecretRef(from_file="/no/such"), "environment T: /no/such cannot be read: No such file or directory"),
        (SecretRef(), "environment T: neither from_env nor from_file is given"),
    ],
)
def test_a_secret_that_is_not_there_is_named_and_others_are_not_shown(ref: SecretRef, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_environment({"T": ref}, {"OTHER": "hunter2"})
    assert caught.value.message == message
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"


def test_a_secret_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read: it is not UTF-8 text"):
        resolve_environment({"T": SecretRef(from_file=str(tmp_path / "key"))}, {})


def test_raw_fields_merge_deep_and_none_takes_away() -> None:
    base: dict[str, Any] = {"A": {"x": 1, "y": {"z": 2}}, "L": [1, 2], "Gone": {"k": 1}}
    extra: dict[str, Any] = {"A": {"y": {"w": 3}}, "L": [9], "Gone": None, "New": {"Deep": {"n": 0}}, "NotThere": None}
    before = json.dumps([base, extra])
    assert deep_merge(base, extra) == {"A": {"x": 1, "y": {"z": 2, "w": 3}}, "L": [9], "New": {"Deep": {"n": 0}}}
    assert json.dumps([base, extra]) == before


def test_raw_channels_merge_by_name_so_that_the_source_is_not_lost() -> None:
    request = {"InputDataConfig": [{"ChannelName": "train", "InputMode": "File"}, {"ChannelName": "code"}]}
    raw = {"InputDataConfig": [{"ChannelName": "train", "InputMode": "FastFile"}, {"ChannelName": "extra"}]}
    before = json.dumps([request, raw])
    assert merge_request(request, raw) == {
        "InputDataConfig": [
            {"ChannelName": "train", "InputMode": "FastFile"},
            {"ChannelName": "code"},
            {"ChannelName": "extra"},
        ]
    }
    assert json.dumps([request, raw]) == before
    assert merge_request({}, raw) == raw
    assert merge_request(request, {"InputDataConfig": None}) == {}
