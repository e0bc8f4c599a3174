r"""The journal of a run: one file of JSON lines that says what was to be sent, what was tried and what came of it.

``<runs dir>/<run id>.jsonl``, mode 0600, written in this order:

==========  ============================================================================================================
header      format version, run id, time, region, account, queues, waves, number of jobs
job         one for each job: index, wave, and the whole frozen request. Header and jobs appear in one instant (written
            aside, fsynced, renamed): while they are incomplete, nothing has been sent and the run does not exist
intent      fsynced *before* the call that sends a job; a batch of them at once
outcome     after it: the job's id, or AWS's refusal, or neither when it is certain that nothing was made
ended       how a job ended, when somebody has seen it: Batch forgets jobs 7 days after their end
==========  ============================================================================================================

So a job without intent was never sent, and an intent without outcome may or may not have arrived: sending the same
request again (same payload, same token) is safe. Each line carries a consecutive ``seq`` and a CRC of itself. A last
line without its newline was torn by a crash and is cut; any other damage is an error that names the line.

Secret values are not in the file: the payload has references in their place (`fairshare.submit.secrets`), beside the
SHA-256 of the full payload.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fairshare.config.jobs import SecretRef
from fairshare.model import (
    FairshareError,
    InvalidFileError,
    JobRef,
    JobRequest,
    JobStatus,
    NotFoundError,
    Problem,
    UsageError,
)
from fairshare.submit.holder import Holder, RunLock
from fairshare.submit.lines import check_seq, decode, encode
from fairshare.submit.naming import check_run_id
from fairshare.submit.requests import PlannedJob, RunIdentity, again, payload_sha256
from fairshare.submit.secrets import with_references
from fairshare.submit.waves import Wave

FORMAT: Final = 2
"""Version of the file's format. Files of every version up to this one can be read.

2 added ``ended``, outcomes without id and error, and attempts after the first.
"""

SUFFIX: Final = ".jsonl"
_OUTCOME: Final = b'"type":"outcome"'


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

    @property
    def state(self) -> str:
        """``sent``, ``failed`` (refused, or it ended so), ``unknown`` (called, no outcome known) or ``waiting``."""
        if self.error is not None or self.status == JobStatus.FAILED:
            return "failed"
        if self.job_id is not None:
            return "sent"
        return "waiting" if self.intended_at is None else "unknown"

    def as_planned(self, payload: str | None = None) -> PlannedJob:
        """Return the job as its latest attempt is sent, with a payload that holds its secrets, or with references."""
        request = self.request if payload is None else replace(self.request, payload=payload)
        return again(PlannedJob(self.index, self.wave, request, self.secrets), self.attempt)


@dataclass(frozen=True)
class RunRecord:
    """A whole run as its journal tells it. Times are milliseconds since the epoch."""

    path: Path
    identity: RunIdentity
    queues: tuple[str, ...]
    waves: tuple[Wave, ...]
    jobs: tuple[JobRecord, ...]
    warnings: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.identity.run_id

    def count(self, *states: str) -> int:
        """Return how many jobs are in one of the states of `JobRecord.state`."""
        return sum(job.state in states for job in self.jobs)


def journal_path(runs_dir: Path, run_id: str) -> Path:
    """Return where the journal of a run is kept; `UsageError` for a run id that cannot be a file name."""
    check_run_id(run_id)
    return runs_dir / f"{run_id}{SUFFIX}"


def read_run(path: Path) -> RunRecord:
    """Return what a journal says. Changes nothing; a torn last line becomes a warning.

    Raises:
        NotFoundError: no such file, or one that ends before its last ``job`` record: nothing was sent.
        InvalidFileError: damage other than a torn last line; names the line.
    """
    return _read(path)[0]


def list_runs(runs_dir: Path, on_damage: Callable[[InvalidFileError], None] | None = None) -> list[RunRecord]:
    """Return the runs in a directory, newest first. Runs that never began are left out.

    Args:
        runs_dir: need not exist.
        on_damage: told of each journal that cannot be read, which is then left out; without it the error is raised.
    """
    runs = []
    for path in sorted(runs_dir.glob(f"*{SUFFIX}")):
        try:
            runs.append(read_run(path))
        except NotFoundError:
            continue
        except InvalidFileError as error:
            if on_damage is None:
                raise
            on_damage(error)
    return sorted(runs, key=lambda run: (-run.identity.created_at, run.run_id))


def find_run(runs_dir: Path, text: str) -> RunRecord:
    """Return the run whose id is ``text`` or, when unique, begins with it.

    Raises:
        NotFoundError: there is none.
        UsageError: several begin with it.
    """
    names = sorted(path.name.removesuffix(SUFFIX) for path in runs_dir.glob(f"*{SUFFIX}"))
    matches = [name for name in names if name == text] or [name for name in names if text and name.startswith(text)]
    if len(matches) > 1:
        raise UsageError(f'"{text}" fits {len(matches)} runs: {", ".join(matches)}', hint="give more of the run id")
    if not matches:
        raise NotFoundError(f'no run goes by "{text}" in {runs_dir}', hint="`fairshare submit` prints the id of a run")
    return read_run(runs_dir / f"{matches[0]}{SUFFIX}")


def jobs_by_id(runs_dir: Path) -> dict[str, int]:
    """Return the scheduling priority of every job that was sent from this machine, by job id.

    ListServiceJobs does not carry it. Reads outcomes only and skips what it cannot read: a damaged journal must not
    keep `fairshare queue` from showing the queue. Jobs of FIFO queues have no priority and are left out.
    """
    priorities = {}
    for path in runs_dir.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            for line in path.read_bytes().split(b"\n")[:-1]:
                record = _outcome(line)
                if record.get("job_id") is not None and record.get("scheduling_priority") is not None:
                    priorities[record["job_id"]] = record["scheduling_priority"]
    return priorities


def _outcome(line: bytes) -> dict[str, Any]:
    """The record of a line when it is a sound outcome, else an empty one. Other lines are not even parsed."""
    with suppress(ValueError):
        return decode(line) if _OUTCOME in line[:40] else {}
    return {}


class Journal:
    """A run's journal, open for writing and locked: at most one process holds a run. A context manager."""

    def __init__(self, path: Path, lock: RunLock) -> None:
        self.path = path
        self.record: RunRecord | None = None
        """What the journal said when it was opened; None for a new run."""
        self._lock = lock
        self._file: int | None = None
        self._seq = 0
        self._priorities: dict[int, int | None] = {}

    @classmethod
    def create(cls, runs_dir: Path, run_id: str, holder: Holder) -> Journal:
        """Reserve a run id and lock it. Nothing is written before `begin`.

        Args:
            runs_dir: of the journals; made when missing.
            run_id: of the run.
            holder: this process, for others to read.

        Raises:
            RunHeldError: another process holds the run.
            UsageError: the run exists, or the id cannot be a file name.
        """
        path = journal_path(runs_dir, run_id)
        journal = cls(path, RunLock.acquire(path, holder))
        try:
            read_run(path)
        except NotFoundError:
            return journal
        except FairshareError:
            journal.close()
            raise
        journal.close()
        hint = f"`fairshare resume {run_id}` sends what is left of it; a new run needs another --run-id, or none"
        raise UsageError(f'run "{run_id}" exists already', hint=hint)

    @classmethod
    def open(cls, path: Path, holder: Holder) -> Journal:
        """Lock the journal of a run that began, cut a torn last line, and go on behind it.

        Raises as `read_run` does, and RunHeldError when another process holds the run.
        """
        if not path.exists():
            raise _no_run(path)
        journal = cls(path, RunLock.acquire(path, holder))
        try:
            record, sound, journal._seq = _read(path)
            journal.record = record
            journal._priorities = {job.index: job.request.scheduling_priority for job in record.jobs}
            journal._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.ftruncate(journal._file, sound)
            os.fsync(journal._file)
        except BaseException:
            journal.close()
            raise
        return journal

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with the file when it was opened, and is repaired."""
        return self.record.warnings if self.record else ()

    def begin(self, identity: RunIdentity, waves: Sequence[Wave], jobs: Sequence[PlannedJob]) -> None:
        """Write the header and every job, all or nothing, and be ready for intents.

        Raises:
            FairshareError: the disk is full or the directory cannot be written. Nothing was sent.
        """
        queues = sorted({job.request.job_queue for job in jobs})
        header = {"format": FORMAT, **asdict(identity), "total": len(jobs), "queues": queues}
        header["waves"] = [asdict(wave) for wave in waves]
        records = [("header", header), *(("job", _job_fields(job)) for job in jobs)]
        text = b"".join(encode(seq, kind, fields) for seq, (kind, fields) in enumerate(records))
        try:
            _write_whole(self.path, text)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise FairshareError(
                f"cannot write the journal {self.path}: {error.strerror}; nothing was sent",
                hint="free some space, or set FAIRSHARE_STATE_DIR to a directory that can be written",
            ) from error
        self._seq = len(records)
        self._priorities = {job.index: job.request.scheduling_priority for job in jobs}

    def intend(self, jobs: Sequence[PlannedJob], at: int) -> None:
        """Note, on the disk, that these jobs are about to be sent."""
        records = []
        for job in jobs:
            fields = {"index": job.index, "at": at}
            records.append(("intent", fields if job.attempt == 1 else {**fields, "attempt": job.attempt}))
        self._append(records, sync=True)

    def sent(self, index: int, ref: JobRef, at: int) -> None:
        """Note the job that a call made."""
        fields = {"index": index, "at": at, "job_id": ref.job_id, "job_arn": ref.job_arn}
        self._append([("outcome", {**fields, "scheduling_priority": self._priorities[index]})])

    def failed(self, index: int, message: str, at: int) -> None:
        """Note that AWS refused a job for good."""
        self._append([("outcome", {"index": index, "at": at, "error": message})])

    def not_made(self, index: int, at: int) -> None:
        """Note that the intended call certainly made no job: it was throttled, or its credentials were refused."""
        self._append([("outcome", {"index": index, "at": at})])

    def ended(self, index: int, status: str, at: int) -> None:
        """Note how a job ended, as somebody has seen at ``at``: ``SUCCEEDED`` or ``FAILED``."""
        self._append([("ended", {"index": index, "at": at, "status": status})])

    def close(self) -> None:
        """Put everything on the disk and let the run go. Idempotent."""
        if self._file is not None:
            with suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = None
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, records: Sequence[tuple[str, Mapping[str, Any]]], *, sync: bool = False) -> None:
        if self._file is None:
            raise RuntimeError("the journal has not begun")
        text = b"".join(encode(seq, kind, fields) for seq, (kind, fields) in enumerate(records, start=self._seq))
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, text) != len(text):
                os.ftruncate(self._file, before)
                raise OSError(0, "the disk is full")
            if sync:
                os.fsync(self._file)
        except OSError as error:
            raise FairshareError(
                f"cannot write the journal {self.path}: {error.strerror}", hint="free some space on that disk"
            ) from error
        self._seq += len(records)


def _write_whole(path: Path, text: bytes) -> None:
    """Make a file appear with its whole content, on the disk, or not at all."""
    aside = path.with_suffix(".new")
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _job_fields(job: PlannedJob) -> dict[str, Any]:
    request = asdict(replace(job.request, payload=with_references(job.request.payload, job.secrets)))
    secrets = {key: asdict(reference) for key, reference in job.secrets.items()}
    digest = payload_sha256(job.request.payload)
    return {"index": job.index, "wave": job.wave, "request": request, "payload_sha256": digest, "secrets": secrets}


def _read(path: Path) -> tuple[RunRecord, int, int]:
    """Return the run, the length of the sound part of the file in bytes, and the next ``seq``."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise _no_run(path) from None
    end = content.rfind(b"\n") + 1
    lines = content[:end].split(b"\n")[:-1]
    reader = _Reader(path)
    for number, line in enumerate(lines, start=1):
        try:
            reader.take(decode(line), number - 1)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            what = str(error) if isinstance(error, ValueError) else f"a field is missing or wrong: {error}"
            hint = "the run cannot be trusted; `fairshare queue` shows what is in the queue"
            raise InvalidFileError([Problem(str(path), number, 1, f"damaged journal: {what}", hint=hint)]) from None
    return reader.result(torn=len(content) - end), end, len(lines)


def _no_run(path: Path) -> NotFoundError:
    return NotFoundError(
        f'there is no run "{path.stem}": nothing was sent', hint=f"journals are in {path.parent}; submit it again"
    )


class _Reader:
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
        elif kind in ("intent", "outcome", "ended"):
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
                if attempt > job.attempt:
                    job = replace(job, attempt=attempt, job_id=None, job_arn=None, error=None, status=None)
                return replace(job, intended_at=record["at"])
            case "outcome":
                job = replace(job, job_id=record.get("job_id"), job_arn=record.get("job_arn"), intended_at=None)
                return replace(job, error=record.get("error"))
            case _:
                return replace(job, status=record["status"])

    def result(self, *, torn: int) -> RunRecord:
        """Return the run; ``torn`` bytes stood behind the last whole line."""
        header = self._header
        if header is None or len(self._jobs) < header["total"]:
            raise _no_run(self._path)
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
        )


def _job_record(record: dict[str, Any], index: int) -> JobRecord:
    if record["index"] != index:
        raise ValueError(f"job {record['index']} stands where job {index} belongs")
    secrets = {key: SecretRef(**reference) for key, reference in record["secrets"].items()}
    request = JobRequest(**record["request"])
    return JobRecord(index, record["wave"], request, record["payload_sha256"], secrets)
