"""What the SDK's scripts in the container cannot carry (that they cannot: tests/contract/test_payload_drivers.py)."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.model import InfeasibleError
from fairshare.trainer.drivers import Launch, check_drivers_can_carry, printed_secrets

BREAKS = "holds a ' (single quote), which the SDK's scripts in the container break on"
NEEDS = "the SDK's scripts in the container need a name of letters, digits and _"


def payload(hyperparameters: dict[str, str] | None = None, *channels: str) -> dict[str, Any]:
    return {
        "HyperParameters": hyperparameters or {},
        "InputDataConfig": [{"ChannelName": name} for name in (*channels, "code", "sm_drivers")],
    }


@pytest.mark.parametrize(
    ("request_", "launch", "problem"),
    [
        (
            payload({"note": "it's"}),
            Launch(),
            f"hyperparameter note: its value {BREAKS}",
        ),
        (
            payload({"opt": '{"name": "it\'s"}'}),
            Launch(),
            f"hyperparameter opt: its value {BREAKS}",
        ),
        (
            payload({"optimizer.lr": "0.1"}),
            Launch(),
            f"hyperparameter optimizer.lr: {NEEDS} (or -)",
        ),
        (
            payload({}, "my-data"),
            Launch(),
            f"input my-data: {NEEDS}",
        ),
        (
            payload(),
            Launch(entry="it's.py"),
            f"source entry it's.py: {BREAKS}",
        ),
        (
            payload(),
            Launch(requirements="my reqs.txt"),
            "source requirements my reqs.txt: the SDK's scripts in the container do not quote this path",
        ),
        (
            payload(),
            Launch(options={"mpi_additional_options": ["-x", "A='b'"]}),
            f"launcher: an option {BREAKS}",
        ),
    ],
)
def test_what_would_end_the_job_before_the_script_is_refused(
    request_: dict[str, Any], launch: Launch, problem: str
) -> None:
    with pytest.raises(InfeasibleError) as caught:
        check_drivers_can_carry(request_, launch)
    assert caught.value.message == problem
    assert "put it into a file of the source directory" in str(caught.value.hint)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InfeasibleError) as caught:
        check_drivers_can_carry(payload({"a.b": "it's"}, "c.d"), Launch(entry="'"))
    assert len(caught.value.message.splitlines()) == 4


def test_what_the_scripts_carry_passes() -> None:
    request = payload({"learning-rate": "0.1", "note": 'say "hi" $HOME `x` \\ \n', "0": "ü"}, "train_1")
    check_drivers_can_carry(request, Launch("a b/train.py", "requirements.txt", {"process_count_per_node": 2}))


def test_an_algorithm_without_the_scripts_may_take_anything() -> None:
    request = {"HyperParameters": {"a.b": "it's"}, "InputDataConfig": [{"ChannelName": "my-data"}]}
    check_drivers_can_carry(request, Launch())


def test_a_secret_under_a_plain_name_would_be_printed() -> None:
    assert printed_secrets(["HF_TOKEN", "api_key", "DB_PASSWORD_FILE"]) == []
    (warning,) = printed_secrets(["DB_LOGIN", "HF_TOKEN"])
    assert warning.startswith("environment DB_LOGIN: the SDK prints a job's environment to the training log")
