"""What ``submit`` is told to send: a script, a job file, a Python target or raw requests, each as a `JobFile`.

Flags that change what every job says are merged in here, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.cli.context import AppContext
from fairshare.cli.submit_flags import JobFlags, TargetFlags
from fairshare.model import NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.config.jobs import JobFile, JobSpec

JOB_FILE: Final = "jobs.yaml"
STDIN: Final = "-"
_STDIN_NAME: Final = "<stdin>"
_COMMAND_LINE: Final = "command line"
_KINDS: Final = "a script (.py), a job file (.yaml), module.py:name or - for stdin"
_MAY_BE_SECRET: Final = ("--env", "--hp")
"""Flags whose values no message repeats (case C46)."""

_NUMBER: Final = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RANGE: Final = re.compile(rf"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?")


def read_target(context: AppContext, target: str | None, flags: TargetFlags, jobs: JobFlags) -> JobFile:
    """Return the jobs that the command line means, with its flags in them, and the waves and limits of their file.

    Raises:
        NotFoundError: there is no such file.
        InvalidFileError: the file is wrong.
        UsageError: the target is nothing that can be submitted, or a flag does not go with it.
    """
    file = _read(context, target, flags)
    return replace(file, jobs=tuple(_with_flags(spec, flags, jobs) for spec in file.jobs))


def _read(context: AppContext, target: str | None, flags: TargetFlags) -> JobFile:
    from fairshare.submit.payload_target import SUFFIXES, read_jobs, read_payloads

    if flags.payload is not None and target is not None:
        raise UsageError(f"--payload and {target} are two targets", hint="submit one after the other")
    is_script = target is not None and target.endswith(".py") and ":" not in Path(target).name
    if target is not None and is_script:
        return _script(context.cwd / target, name=flags.name, requirements=flags.requirements)
    for flag, value in (("--name", flags.name), ("--requirements", flags.requirements)):
        if value is not None:
            raise UsageError(f"{flag} is for a script, not for {target or JOB_FILE}", hint="write it in the job file")
    if flags.payload is not None:
        return read_payloads(*_text(context, flags.payload))
    if target is not None and ":" in target:
        return _python(context, target)
    path = _default_target(context) if target is None else target
    if path != STDIN and Path(path).suffix not in SUFFIXES:
        raise UsageError(f"{target}: what is it?", hint=f"name {_KINDS}")
    return read_jobs(*_text(context, path), folder=context.cwd if path == STDIN else None)


def _default_target(context: AppContext) -> str:
    """The job file beside the project file."""
    if context.project is None:
        raise UsageError("nothing to submit", hint=f"name {_KINDS}")
    return str(context.project.file.absolute().parent / JOB_FILE)


def _text(context: AppContext, path: str) -> tuple[str, Path]:
    """Return the text of a file or of stdin, and its name for messages."""
    from fairshare.config.yaml_source import read_text

    if path == STDIN:
        return sys.stdin.read().removeprefix("\ufeff"), Path(_STDIN_NAME)
    file = context.cwd / path
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}", hint=f"name {_KINDS}")
    return read_text(file), file


def _python(context: AppContext, target: str) -> JobFile:
    from fairshare.cli.submission import bucket_of
    from fairshare.config.jobs import JobFile
    from fairshare.trainer.targets import load_target

    session = context.session
    jobs = load_target(
        target,
        region=session.region,
        account_id=session.account_id,
        bucket=bucket_of(context),
        boto_session=session.boto_session,
    )
    return JobFile(tuple(jobs))


def _script(path: Path, *, name: str | None, requirements: str | None) -> JobFile:
    from fairshare.config.jobs import JobFile, JobSpec, Origin
    from fairshare.submit.naming import clean_label

    if not path.is_file():
        raise NotFoundError(f"there is no script {path}", hint="the path is relative to the working directory")
    spec = JobSpec(
        name=name if name is not None else clean_label(path.stem),
        origin=Origin(_COMMAND_LINE),
        source_dir=path.absolute().parent,
        entry=path.name,
        requirements=requirements,
    )
    return JobFile((spec,))


# ---------------------------------------------------------------------------------------------------------------------
# Flags


def _with_flags(spec: JobSpec, target: TargetFlags, jobs: JobFlags) -> JobSpec:
    """Merge ``--hp``, ``--env``, ``--input``, ``--sweep`` and ``--array`` over what a job says."""
    given = {
        "--hp": jobs.hp,
        "--env": jobs.env,
        "--input": jobs.input,
        "--sweep": target.sweep,
        "--array": target.array,
    }
    refused = [flag for flag, value in given.items() if value and not _can_take(spec, flag)]
    if refused:
        owner = "ModelTrainer" if spec.trainer is not None else "training request"
        raise UsageError(
            f'{", ".join(refused)} cannot be applied to job "{spec.name}": its own {owner} says it',
            hint=f"set it in the {owner}",
        )
    swept = _with_sweep(spec, target.sweep or [])
    return replace(
        swept,
        hyperparameters={**spec.hyperparameters, **_pairs("--hp", jobs.hp or [])},
        environment={**spec.environment, **_pairs("--env", jobs.env or [])},
        inputs={**spec.inputs, **_pairs("--input", jobs.input or [])},
        array=spec.array if target.array is None else _checked_array(target.array),
    )


def _can_take(spec: JobSpec, flag: str) -> bool:
    """Nothing is put into a ModelTrainer of the user's own; a raw request takes values, but no channels."""
    return spec.trainer is None and (spec.payload is None or flag != "--input")


def _pairs(flag: str, texts: Sequence[str], example: str = "lr=0.1") -> dict[str, str]:
    pairs = {}
    for number, text in enumerate(texts, start=1):
        key, separator, value = text.partition("=")
        if not separator or not key:
            what = f"{flag} number {number}" if flag in _MAY_BE_SECRET else f"{flag} {text!r}"
            raise UsageError(f"{what} is not KEY=VALUE", hint=f"for example {flag} {example}")
        pairs[key] = value
    return pairs


def _checked_array(size: int) -> int:
    from fairshare.config.sweeps import MAX_POINTS

    if not 1 <= size <= MAX_POINTS:
        raise UsageError(f"--array {size} is not between 1 and {MAX_POINTS:,}", hint="an array of N has N jobs")
    return size


def _with_sweep(spec: JobSpec, texts: Sequence[str]) -> JobSpec:
    """Return the job with the swept values of the command line, key by key over those of its file."""
    from fairshare.config.errors import WrongValue
    from fairshare.config.sweeps import Sweep

    sweep = spec.sweep or Sweep(())
    for key, text in _pairs("--sweep", texts, "lr=0.1,0.01 or --sweep seed=0:8").items():
        try:
            sweep = sweep.with_values(key, _values(text))
        except WrongValue as error:
            raise UsageError(f"--sweep {key}={text}: {error}", hint=error.hint) from None
    return replace(spec, sweep=sweep) if texts else spec


def _values(text: str) -> Sequence[Any]:
    """``0:8`` and ``0:1:0.25`` are half-open ranges, ``0.1,0.01`` is a list; each value is typed as in a job file."""
    from fairshare.config.errors import WrongValue
    from fairshare.config.fields import read_hyperparameter
    from fairshare.config.sweeps import read_range
    from fairshare.config.yaml_source import Scalar

    if _RANGE.fullmatch(text):
        return read_range([Scalar(bound, False, 0, 0) for bound in text.split(":")])
    if not all(text.split(",")):
        raise WrongValue("a value is empty", hint="separate values with single commas, as in 0.1,0.01")
    return [read_hyperparameter(Scalar(value, False, 0, 0)) for value in text.split(",")]
