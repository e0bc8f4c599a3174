"""The SDK's own scripts, run as the container runs them: they fail on what we refuse, and carry what we let through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairshare.model import InfeasibleError
from fairshare.trainer.drivers import Launch, check_drivers_can_carry
from fairshare.trainer.sdk import quiet_sdk

ENVIRONMENT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import environment
job = json.loads(sys.argv[3])
resources = {"current_host": "algo-1", "hosts": ["algo-1"], "current_instance_type": "ml.m5.large",
             "network_interface_name": "lo"}
environment.set_env(resources, {name: {} for name in job["channels"]}, job["hyperparameters"], sys.argv[2])
"""


@pytest.fixture
def drivers() -> Path:
    with quiet_sdk():
        from sagemaker.train.constants import SM_DRIVERS_LOCAL_PATH
    return Path(SM_DRIVERS_LOCAL_PATH)


def survives(drivers: Path, tmp_path: Path, hyperparameters: dict[str, str], channels: list[str]) -> bool:
    """Whether the file that environment.py writes can be sourced as sm_train.sh does it."""
    written = tmp_path / "sm_training.env"
    job = json.dumps({"hyperparameters": hyperparameters, "channels": channels})
    arguments = [sys.executable, "-c", ENVIRONMENT, str(drivers / "scripts"), str(written), job]
    environ = {"TRAINING_JOB_NAME": "x", "PATH": os.environ["PATH"]}
    subprocess.run(arguments, check=True, capture_output=True, env=environ, timeout=60)
    script = ["/bin/bash", "-c", 'set -e; source "$0"; echo "$SM_HPS"', str(written)]
    done = subprocess.run(script, capture_output=True, env={}, text=True, timeout=60, check=False)
    return done.returncode == 0 and set(json.loads(done.stdout)) == set(hyperparameters)


@pytest.mark.parametrize(
    ("hyperparameters", "channels", "carried"),
    [
        ({"learning-rate": "0.1", "note": 'say "hi" $HOME `x` \\ \n end', "0": "ü"}, ["train_1", "code"], True),
        ({}, [], True),
        ({"note": "it's"}, [], False),
        ({"opt": '{"name": "it\'s"}'}, [], False),
        ({"optimizer.lr": "0.1"}, [], False),
        ({"größe": "1"}, [], False),
        ({}, ["my-data"], False),
        ({}, ["my.data"], False),
    ],
)
def test_we_refuse_what_the_scripts_fail_on(
    drivers: Path, tmp_path: Path, hyperparameters: dict[str, str], channels: list[str], carried: bool
) -> None:
    payload: dict[str, Any] = {
        "HyperParameters": hyperparameters,
        "InputDataConfig": [{"ChannelName": name} for name in [*channels, "sm_drivers"]],
    }
    assert survives(drivers, tmp_path, hyperparameters, channels) is carried
    if carried:
        check_drivers_can_carry(payload, Launch())
    else:
        with pytest.raises(InfeasibleError):
            check_drivers_can_carry(payload, Launch())


def test_the_scripts_hide_the_words_we_say_they_hide(drivers: Path) -> None:
    from fairshare.trainer.drivers import _MASKED

    text = (drivers / "scripts/environment.py").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("SENSITIVE_KEYWORDS")]
    assert tuple(json.loads(line.partition("=")[2])) == _MASKED
