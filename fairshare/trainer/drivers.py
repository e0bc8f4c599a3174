"""What the SageMaker SDK's scripts in the container cannot carry: known before anything is sent.

In the container the SDK's ``environment.py`` writes one line ``export SM_HP_<NAME>='<value>'`` per hyperparameter, one
``export SM_CHANNEL_<NAME>='<path>'`` per channel and so on into a file that ``sm_train.sh`` sources under ``set -e``.
Nothing is escaped, so a single quote in a value, or a name that is no shell identifier, ends the job before the user's
script starts: after the wait in the queue, with an exit code and no reason. Values of ``Environment`` do not take that
way and may hold anything; but the script prints them to the training log.

Source: sagemaker-train 1.27, ``train/container_drivers/scripts/environment.py`` and ``train/templates.py``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairshare.model import InfeasibleError

_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_]+")
_MASKED: Final = ("SECRET", "PASSWORD", "KEY", "TOKEN", "PRIVATE", "CREDS", "CREDENTIALS")
"""Words in the name of a variable that make the SDK's script print stars instead of the value."""

_BREAKS: Final = "holds a ' (single quote), which the SDK's scripts in the container break on"
_NEEDS: Final = "the SDK's scripts in the container need a name of letters, digits and _"

DRIVERS_CHANNEL: Final = "sm_drivers"


@dataclass(frozen=True)
class Launch:
    """What the SDK's scripts start: paths in the source, and the options of torchrun or MPI."""

    entry: str | None = None
    requirements: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def check_drivers_can_carry(payload: Mapping[str, Any], launch: Launch) -> None:
    """Refuse a request that the SDK's scripts would fail on. Requests without those scripts pass.

    Args:
        payload: the CreateTrainingJob request.
        launch: what they start.

    Raises:
        InfeasibleError: one line per problem.
    """
    channels = [channel["ChannelName"] for channel in payload.get("InputDataConfig", ())]
    if DRIVERS_CHANNEL not in channels:
        return
    problems = [
        *_hyperparameter_problems(payload.get("HyperParameters", {})),
        *(f"input {name}: {_NEEDS}" for name in channels if not _IDENTIFIER.fullmatch(name)),
        *_launch_problems(launch),
    ]
    if problems:
        raise InfeasibleError(
            "\n".join(problems),
            hint="change the name or the value, or put it into a file of the source directory and read it from there",
        )


def _hyperparameter_problems(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if not _IDENTIFIER.fullmatch(name.replace("-", "_")):
            yield f"hyperparameter {name}: {_NEEDS} (or -)"
        if "'" in str(value):
            yield f"hyperparameter {name}: its value {_BREAKS}"


def _launch_problems(launch: Launch) -> Iterator[str]:
    if launch.entry is not None and "'" in launch.entry:
        yield f"source entry {launch.entry}: {_BREAKS}"
    if launch.requirements is not None and shlex.quote(launch.requirements) != launch.requirements:
        yield f"source requirements {launch.requirements}: the SDK's scripts in the container do not quote this path"
    if "'" in json.dumps(launch.options, default=str):
        yield f"launcher: an option {_BREAKS}"


def printed_secrets(names: Iterable[str]) -> list[str]:
    """Return warnings for secret variables that the SDK's script would print to the training log in clear."""
    return [
        f"environment {name}: the SDK prints a job's environment to the training log, and hides only values whose name "
        f"holds one of {', '.join(_MASKED)}; give the variable such a name"
        for name in names
        if not any(word in name.upper() for word in _MASKED)
    ]
