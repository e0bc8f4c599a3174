"""Names: of runs, of Batch jobs and of the SageMaker jobs behind them. Two different rules and one bottleneck.

A Batch ``jobName`` has up to 128 of ``A-Z a-z 0-9 _ -`` and begins with a letter or a digit. A ``TrainingJobName``
has up to 63, no underscore and no hyphen at its end. Batch puts ``AWSBatch`` before and 32 hex digits after the
latter, so only its first 23 characters are sure to be seen in SageMaker
(https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitServiceJob.html and API_CreateTrainingJob).

The rule (case C12): a name a user wrote is never changed behind their back, a bad one is an error that names the
character (`name_problem`); labels made by us, such as a sweep's, are cleaned (`clean_label`). Every job name ends in a
token of its run, so that two runs never share a name, whatever the clock says. Case is ignored when names are compared,
as Batch's own ``JOB_NAME`` filter does.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fairshare.model import UsageError

MAX_BATCH_NAME: Final = 128
MAX_TRAINING_JOB_NAME: Final = 63
SURVIVING: Final = 23
"""Characters of a TrainingJobName that Batch is sure to keep: 63 - len("AWSBatch") - 32."""

_TOKEN_LENGTH: Final = 6
MAX_NAME: Final = MAX_BATCH_NAME - _TOKEN_LENGTH - 1
"""Longest name a user may give a job: a hyphen and the run's token come after it."""

_HEAD: Final = 8
"""Characters kept of the beginning of a name that is too long for SageMaker; the rest is its end."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_ADJECTIVES: Final = (
    "amber bold brave brisk calm clever cosmic crisp dapper deft eager early fabled gentle glad golden happy honest "
    "humble keen lively lucid lunar merry mighty nimble noble patient placid polar proud quick quiet rapid silent "
    "silver sleek solar steady sunny swift tidal vivid warm wise witty"
)
_ANIMALS: Final = (
    "ant badger bear beaver bee bison cat crane crow deer dolphin dove eagle falcon ferret finch fox gecko goose hare "
    "hawk heron ibis jay koala lark lemur lion lynx magpie marten mole moose newt orca otter owl panda puffin raven "
    "robin seal shrew stork swan tapir tern tiger toad trout vole walrus weasel whale wolf wren yak zebra"
)


@dataclass(frozen=True)
class JobNames:
    """The names of one job: ``job_name`` in Batch, ``training_job_name`` in the CreateTrainingJob request."""

    job_name: str
    training_job_name: str


def new_run_id(rng: random.Random) -> str:
    """Return a run id that people can say: ``lunar-otter-3f2a``."""
    return f"{rng.choice(_ADJECTIVES.split())}-{rng.choice(_ANIMALS.split())}-{rng.getrandbits(16):04x}"


def check_run_id(run_id: str) -> None:
    """Refuse a run id that cannot be a file name and a tag value.

    Raises:
        UsageError: not 1 to 64 letters, digits, hyphens and underscores that begin with a letter or a digit.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(
            f"{run_id!r} cannot be a run id",
            hint="use 1 to 64 letters, digits, - and _, the first one a letter or a digit",
        )


def name_problem(name: str) -> str | None:
    """Return what is wrong with a job name that a user wrote, or None (case C12)."""
    if not name:
        return "its name is empty"
    if len(name) > MAX_NAME:
        return (
            f"its name has {len(name)} characters, at most {MAX_NAME} are allowed "
            f"(Batch takes {MAX_BATCH_NAME}, the run's token {_TOKEN_LENGTH + 1} of them)"
        )
    if bad := _ILLEGAL.search(name):
        return f"its name has {bad.group()!r} at position {bad.start() + 1}: use letters a-z, digits, - and _"
    if not _NAME.fullmatch(name):
        return f"its name begins with {name[0]!r}: the first character must be a letter or a digit"
    return None


def clean_label(text: str) -> str:
    """Return ``text`` as it may stand in a job name: each run of illegal characters becomes one hyphen.

    Legal names are returned as they are; the answer may be empty.
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).lstrip("-_").rstrip("-")


def unique(names: Iterable[str]) -> list[str]:
    """Return the names in order, later ones that repeat an earlier one (ignoring case) numbered from 2: ``a-2``."""
    written = list(names)
    taken = {name.lower() for name in written}
    seen: set[str] = set()
    counters: dict[str, Iterator[int]] = {}
    result = []
    for name in written:
        key = name.lower()
        if key in seen:
            numbers = counters.setdefault(key, itertools.count(2))
            name = next(new for number in numbers if (new := f"{name}-{number}").lower() not in taken)
            taken.add(name.lower())
        seen.add(key)
        result.append(name)
    return result


def assign_names(run_id: str, labels: Sequence[str]) -> list[JobNames]:
    """Return the names of a run's jobs, in order.

    Job names are distinct within the run and differ from those of every other run. Training job names are distinct in
    the characters that survive Batch (`SURVIVING`) and begin like the job's label, as far as it fits: of a label that
    is too long the beginning and the end are kept (``bert-large-pretraining-lr0-1-seed3`` gives
    ``bert-lar-lr0-1-seed3``).
    """
    token = _token_of(run_id)
    batch = _Distinct(token, limit=MAX_NAME, compared=MAX_BATCH_NAME)
    sagemaker = _Distinct(token, limit=SURVIVING, compared=SURVIVING)
    return [
        JobNames(
            job_name=batch.add(clean_label(label) or "job"),
            training_job_name=sagemaker.add(_shorten(re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-") or "job")),
        )
        for label in labels
    ]


def label_of(job_name: str, run_id: str) -> str:
    """Return what a job name says beside the token of its run: equal for equal labels, whatever the run."""
    return job_name.removesuffix(f"-{_token_of(run_id)}")


def _token_of(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:_TOKEN_LENGTH]


def _shorten(name: str) -> str:
    """Cut a name to `SURVIVING` characters: its beginning, and its end from a hyphen on where there is one."""
    if len(name) <= SURVIVING:
        return name
    tail = name[-(SURVIVING - _HEAD - 1) :]
    _, hyphen, whole_parts = tail.partition("-")
    return f"{name[:_HEAD].rstrip('-')}-{whole_parts if hyphen else tail}"


class _Distinct:
    """Appends the run's token to names and keeps them distinct in their first ``compared`` characters."""

    def __init__(self, token: str, *, limit: int, compared: int) -> None:
        self._token = token
        self._limit = limit
        self._compared = compared
        self._taken: set[str] = set()
        self._counters: dict[str, Iterator[int]] = {}

    def add(self, stem: str) -> str:
        """Return ``stem-token``, or ``stem-N-token`` with the smallest N from 2 on that is new."""
        numbers = self._counters.setdefault(stem[: self._limit].lower(), itertools.count(1))
        name = next(new for number in numbers if self._key(new := self._numbered(stem, number)) not in self._taken)
        self._taken.add(self._key(name))
        return name

    def _numbered(self, stem: str, number: int) -> str:
        suffix = "" if number == 1 else f"-{number}"
        return f"{stem[: self._limit - len(suffix)].rstrip('-')}{suffix}-{self._token}"

    def _key(self, name: str) -> str:
        return name.lower()[: self._compared].rstrip("-")
