"""Where the values of secrets are looked for when a run goes on: the journal has references only (case C46)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairshare.config.jobs import SecretRef
from fairshare.model import FairshareError

if TYPE_CHECKING:
    from fairshare.config.jobs import JobFile, JobSpec


def value_finder(environ: Mapping[str, str], job_file: str | None) -> Callable[[str, str, SecretRef], Sequence[str]]:
    """Return the `fairshare.submit.secrets.FindValues` of a run.

    A reference that says where a value came from is followed. Else the value was written out: it may stand in a
    variable of the same name, or in the job file.

    Args:
        environ: environment variables.
        job_file: path of the job file that was submitted, when it was one.
    """

    @cache
    def jobs() -> tuple[JobSpec, ...]:
        file = _read(job_file)
        return file.jobs if file else ()

    def find(section: str, key: str, reference: SecretRef) -> Sequence[str]:
        from fairshare.trainer.encode import encode_hyperparameters, resolve_environment

        if reference != SecretRef():
            return [resolve_environment({key: reference}, environ)[0][key]]
        found = [environ[key]] if key in environ else []
        for job in jobs():
            if section == "HyperParameters":
                found += [encode_hyperparameters({key: value})[key] for value in _hyperparameter(job, key)]
            elif isinstance(value := job.environment.get(key), str):
                found.append(value)
            raw = ((job.payload or {}).get(section) or {}).get(key)
            found += [raw] if isinstance(raw, str) else []
        return list(dict.fromkeys(found))

    return find


def _read(job_file: str | None) -> JobFile | None:
    from fairshare.config.yaml_source import read_text
    from fairshare.submit.payload_target import read_jobs

    try:
        return read_jobs(read_text(Path(job_file)), Path(job_file)) if job_file is not None else None
    except FairshareError:
        return None  # that the value is missing is told, and says more


def _hyperparameter(job: JobSpec, key: str) -> Iterator[Any]:
    if key in job.hyperparameters:
        yield job.hyperparameters[key]
    if job.sweep is not None:
        yield from job.sweep.values_of(key)
