"""What the lines of a run's journal say: the records, as they are written and as they are read back.

`fairshare.submit.journal` describes the file. Here is what belongs in each kind of record and what a run is after all
of them: no file is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fairshare.config.jobs import LaunchPeak, SecretRef
from fairshare.model import InvalidFileError, JobRequest, JobStatus, NotFoundError, Problem
from fairshare.submit.conditions import Skip
from fairshare.submit.lines import check_seq
from fairshare.submit.requests import After, Alternative, PlannedJob, RunIdentity, again, payload_sha256
from fairshare.submit.rules import NO_RULES, RunRules, rules_from_json
from fairshare.submit.secrets import with_references
from fairshare.submit.waves import Wave

FORMAT: Final = 3
"""Version of the file's format. Files of every version up to this one can be read.

2 added ``ended``, outcomes without id and error, and attempts after the first. 3 added the rules of the run, what a
job comes after, its launch peak and its queues, ``skipped`` and ``moved``, and more about the end of a job.
"""


@dataclass(frozen=True)
class JobRecord:
    """One job of a run, as far as the journal knows. ``request.payload`` has references in place of secret values.

    ``job_id``, ``job_arn`` and ``error`` are of the latest attempt; ``request`` is of the first, see `as_planned`.
    """

    index: int
    wave: int
    request: JobRequest
    payload_sha256: str
    secrets: Mapping[str, SecretRef]
    attempt: int = 1
    intended_at: int | None = None
    """When the latest intent was noted, in ms since the epoch; None = there is no call without an outcome."""
    job_id: str | None = None
    job_arn: str | None = None
    error: str | None = None
    status: str | None = None
    """``SUCCEEDED`` or ``FAILED`` once somebody has seen it."""
    after: tuple[After, ...] = ()
    launch_peak: LaunchPeak | None = None
    alternatives: tuple[Alternative, ...] = ()
    """Queues that the job may still move to."""
    fallback_after: int | None = None
    skip: Skip | None = None
    """Why the job is not sent; None = it is, or will be."""
    reason: str | None = None
    """AWS's words about the end of the job; so are ``training_job_name``, the times in ms, and ``output``."""
    training_job_name: str | None = None
    started_at: int | None = None
    stopped_at: int | None = None
    output: Mapping[str, Any] | None = None
    """What is known of its results (`fairshare.submit.outcomes`)."""

    @property
    def state(self) -> str:
        """``sent``, ``failed`` (refused, or it ended so), ``skipped``, ``unknown`` (called, no outcome known) or
        ``waiting``."""
        if self.error is not None or self.status == JobStatus.FAILED:
            return "failed"
        if self.skip is not None:
            return "skipped"
        if self.job_id is not None:
            return "sent"
        return "waiting" if self.intended_at is None else "unknown"

    @property
    def has_failed(self) -> bool:
        """Whether it was refused, ended FAILED, or was skipped because of such a job; not when it was not needed."""
        return self.state == "failed" or (self.state == "skipped" and self.skip is not None and self.skip.is_failure)

    def as_planned(self, payload: str | None = None) -> PlannedJob:
        """Return the job as its latest attempt is sent, with a payload that holds its secrets, or with references."""
        request = self.request if payload is None else replace(self.request, payload=payload)
        planned = PlannedJob(
            self.index,
            self.wave,
            request,
            self.secrets,
            after=self.after,
            launch_peak=self.launch_peak,
            alternatives=self.alternatives,
            fallback_after=self.fallback_after,
        )
        return again(planned, self.attempt)


@dataclass(frozen=True)
class RunRecord:
    """A whole run as its journal tells it. Times are milliseconds since the epoch."""

    path: Path
    identity: RunIdentity
    queues: tuple[str, ...]
    waves: tuple[Wave, ...]
    jobs: tuple[JobRecord, ...]
    warnings: tuple[str, ...] = ()
    rules: RunRules = NO_RULES

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.identity.run_id

    def count(self, *states: str) -> int:
        """Return how many jobs are in one of the states of `JobRecord.state`."""
        return sum(job.state in states for job in self.jobs)


def job_fields(job: PlannedJob) -> dict[str, Any]:
    """Return what a ``job`` record says. What is not said is left out."""
    secrets = {key: asdict(reference) for key, reference in job.secrets.items()}
    fields = {"index": job.index, "wave": job.wave, **request_fields(job), "secrets": secrets}
    more = {
        "after": after_fields(job),
        "launch": None if job.launch_peak is None else asdict(job.launch_peak),
        "queues": [asdict(each) for each in job.alternatives],
        "fallback_after": job.fallback_after,
    }
    return fields | {name: value for name, value in more.items() if value not in (None, [])}


def request_fields(job: PlannedJob) -> dict[str, Any]:
    """Return the request as the first attempt would send it: name and token of a later one follow from it."""
    request = job.request if job.base is None else job.base
    frozen = asdict(replace(request, payload=with_references(request.payload, job.secrets)))
    return {"request": frozen, "payload_sha256": payload_sha256(request.payload)}


def after_fields(job: PlannedJob) -> list[dict[str, Any]]:
    """Return what a job comes after: ``jobs`` are their places in the run, each range with its first and its last."""
    return [{"jobs": _as_ranges(indexes), "when": when} for indexes, when in job.after]


def _as_ranges(indexes: Sequence[int]) -> list[list[int]]:
    """Write the indexes of a sweep's jobs, which follow each other, as ``[first, last]``."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ranges


def no_run(path: Path) -> NotFoundError:
    """Return the error of a journal that is not there, or never began."""
    return NotFoundError(
        f'there is no run "{path.stem}": nothing was sent', hint=f"journals are in {path.parent}; submit it again"
    )


class RunReader:
    """Builds a `RunRecord` from records in file order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: dict[str, Any] | None = None
        self._jobs: list[JobRecord] = []

    def take(self, record: dict[str, Any], seq: int) -> None:
        """Add one record; ValueError, KeyError, TypeError or IndexError when it does not belong there."""
        check_seq(record, seq)
        kind = record["type"]
        if (kind == "header") != (seq == 0):
            raise ValueError("a header belongs on the first line and nowhere else")
        if kind == "header":
            if record["format"] > FORMAT:
                message = f"this journal has format {record['format']}, this fairshare reads up to {FORMAT}"
                raise InvalidFileError([Problem(str(self._path), 1, 1, message, hint="upgrade fairshare")])
            self._header = record
        elif kind == "job":
            self._jobs.append(_job_record(record, index=len(self._jobs)))
        elif kind in ("intent", "outcome", "ended", "skipped", "moved"):
            self._jobs[record["index"]] = self._updated(record, kind)
        else:
            raise ValueError(f'unknown record "{kind}"')

    def _updated(self, record: dict[str, Any], kind: str) -> JobRecord:
        index = int(record["index"])
        if not 0 <= index < len(self._jobs):
            raise ValueError(f"there is no job {index}")
        job = self._jobs[index]
        match kind:
            case "intent":
                attempt = record.get("attempt", 1)
                job = replace(job if attempt == job.attempt else _at_attempt(job, attempt), skip=None)
                return replace(job, intended_at=record["at"])
            case "outcome":
                job = replace(job, job_id=record.get("job_id"), job_arn=record.get("job_arn"), intended_at=None)
                return replace(job, error=record.get("error"))
            case "skipped":
                return replace(job, skip=Skip(record["reason"], record["is_failure"]))
            case "moved":
                request, digest = JobRequest(**record["request"]), record["payload_sha256"]
                job = replace(_at_attempt(job, record["attempt"]), request=request, payload_sha256=digest)
                return replace(job, alternatives=_after_queue(job.alternatives, record["queue"]))
            case _:
                details: Any = {name: record.get(name) for name in _END_DETAILS}
                return replace(job, status=record["status"], **details)

    def result(self, *, torn: int) -> RunRecord:
        """Return the run; ``torn`` bytes stood behind the last whole line."""
        header = self._header
        if header is None or len(self._jobs) < header["total"]:
            raise no_run(self._path)
        warning = f"{self._path}: the last record was torn by a crash and is ignored ({torn} bytes)"
        return RunRecord(
            path=self._path,
            identity=RunIdentity(
                header["run_id"],
                header["created_at"],
                header["region"],
                header["account_id"],
                header.get("job_file"),
            ),
            queues=tuple(header["queues"]),
            waves=tuple(Wave(**wave) for wave in header["waves"]),
            jobs=tuple(self._jobs),
            warnings=(warning,) if torn else (),
            rules=rules_from_json(header.get("rules")),
        )


_END_DETAILS: Final = ("reason", "training_job_name", "started_at", "stopped_at", "output")


def _at_attempt(job: JobRecord, attempt: int) -> JobRecord:
    """A job that begins anew: what was known of its attempt before does not count."""
    fresh: Any = dict.fromkeys(("job_id", "job_arn", "error", "status", "intended_at", *_END_DETAILS))
    return replace(job, attempt=attempt, **fresh)


def _job_record(record: dict[str, Any], index: int) -> JobRecord:
    if record["index"] != index:
        raise ValueError(f"job {record['index']} stands where job {index} belongs")
    secrets = {key: SecretRef(**reference) for key, reference in record["secrets"].items()}
    launch = record.get("launch")
    return JobRecord(
        index,
        record["wave"],
        JobRequest(**record["request"]),
        record["payload_sha256"],
        secrets,
        after=tuple(_after(each) for each in record.get("after", ())),
        launch_peak=None if launch is None else LaunchPeak(**launch),
        alternatives=tuple(Alternative(**each) for each in record.get("queues", ())),
        fallback_after=record.get("fallback_after"),
    )


def _after_queue(alternatives: Sequence[Alternative], queue: str) -> tuple[Alternative, ...]:
    """What is left to a job that has moved to one of its queues; ValueError when that is none of them."""
    names = [each.job_queue for each in alternatives]
    return tuple(alternatives[names.index(queue) + 1 :])


def _after(record: Mapping[str, Any]) -> After:
    return _expanded(tuple((first, last) for first, last in record["jobs"])), record["when"]


@lru_cache(maxsize=256)
def _expanded(ranges: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """The jobs of a sweep that come after another share one tuple: there may be a thousand of each."""
    return tuple(index for first, last in ranges for index in range(first, last + 1))
