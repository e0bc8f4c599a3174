r"""The journal of a run: one file of JSON lines that says what was to be sent, what was tried and what came of it.

``<runs dir>/<run id>.jsonl``, mode 0600, written in this order:

==========  ============================================================================================================
header      format version, run id, time, region, account, queues, waves, number of jobs
job         one for each job: index, wave, and the whole frozen request. Header and jobs appear in one instant (written
            aside, fsynced, renamed): while they are incomplete, nothing has been sent and the run does not exist
intent      fsynced *before* the call that sends a job
outcome     after it: the job's id, or AWS's refusal
==========  ============================================================================================================

So a job without intent was never sent, and an intent without outcome may or may not have arrived: sending the same
request again (same payload, same token) is safe. Each line carries a consecutive ``seq`` and a CRC of itself. A last
line without its newline was torn by a crash and is cut; any other damage is an error that names the line.

Values of secret environment keys (`SecretRef`) are not in the file: the payload holds where each came from, beside the
SHA-256 of the full payload. Values written out in a job file are part of the payload and are kept as they are.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from fairshare.config.jobs import SecretRef
from fairshare.model import FairshareError, InvalidFileError, JobRef, JobRequest, NotFoundError, Problem, UsageError
from fairshare.submit.naming import check_run_id
from fairshare.submit.requests import PlannedJob, RunIdentity, payload_sha256, with_references
from fairshare.submit.waves import Wave

if TYPE_CHECKING:
    from filelock import BaseFileLock

FORMAT: Final = 1
"""Version of the file's format. Files of every version up to this one can be read."""

SUFFIX: Final = ".jsonl"
_CRC: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}$')
_OUTCOME: Final = b'"type":"outcome"'


@dataclass(frozen=True)
class JobRecord:
    """One job of a run, as far as the journal knows. ``request.payload`` has secret values replaced by references."""

    index: int
    wave: int
    request: JobRequest
    payload_sha256: str
    secrets: Mapping[str, SecretRef]
    intended: bool = False
    job_id: str | None = None
    job_arn: str | None = None
    error: str | None = None

    @property
    def state(self) -> str:
        """``sent``, ``failed`` (AWS refused it), ``unknown`` (called, but no outcome is known) or ``waiting``."""
        if self.job_id is not None:
            return "sent"
        if self.error is not None:
            return "failed"
        return "unknown" if self.intended else "waiting"


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
        return _decode(line) if _OUTCOME in line[:40] else {}
    return {}


class Journal:
    """A run's journal, open for writing and locked: at most one process holds a run. A context manager."""

    def __init__(self, path: Path, lock: BaseFileLock) -> None:
        self.path = path
        self.warnings: tuple[str, ...] = ()
        self._lock = lock
        self._file: int | None = None
        self._seq = 0
        self._priorities: dict[int, int | None] = {}

    @classmethod
    def create(cls, runs_dir: Path, run_id: str) -> Journal:
        """Reserve a run id and lock it. Nothing is written before `begin`.

        Raises:
            UsageError: the run exists or another process holds it; or the id cannot be a file name.
        """
        path = journal_path(runs_dir, run_id)
        journal = cls(path, _lock(path))
        try:
            read_run(path)
        except NotFoundError:
            return journal
        except FairshareError:
            journal.close()
            raise
        journal.close()
        hint = "choose another run id, or leave it out to get a new one"
        raise UsageError(f'run "{run_id}" exists already', hint=hint)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Lock the journal of a run that began, cut a torn last line, and go on behind it.

        Raises as `read_run` does, and UsageError when another process holds the run.
        """
        if not path.exists():
            raise _no_run(path)
        journal = cls(path, _lock(path))
        try:
            record, sound, journal._seq = _read(path)
            journal.warnings = record.warnings
            journal._priorities = {job.index: job.request.scheduling_priority for job in record.jobs}
            journal._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.ftruncate(journal._file, sound)
            os.fsync(journal._file)
        except BaseException:
            journal.close()
            raise
        return journal

    def begin(self, identity: RunIdentity, waves: Sequence[Wave], jobs: Sequence[PlannedJob]) -> None:
        """Write the header and every job, all or nothing, and be ready for intents.

        Raises:
            FairshareError: the disk is full or the directory cannot be written. Nothing was sent.
        """
        queues = sorted({job.request.job_queue for job in jobs})
        header = {"format": FORMAT, **asdict(identity), "total": len(jobs), "queues": queues}
        header["waves"] = [asdict(wave) for wave in waves]
        records = [("header", header), *(("job", _job_fields(job)) for job in jobs)]
        text = b"".join(_encode(seq, kind, fields) for seq, (kind, fields) in enumerate(records))
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

    def intend(self, indexes: Sequence[int], at: int) -> None:
        """Note, on the disk, that these jobs are about to be sent."""
        self._append([("intent", {"index": index, "at": at}) for index in indexes], sync=True)

    def sent(self, index: int, ref: JobRef, at: int) -> None:
        """Note the job that a call made."""
        fields = {"index": index, "at": at, "job_id": ref.job_id, "job_arn": ref.job_arn}
        self._append([("outcome", {**fields, "scheduling_priority": self._priorities[index]})])

    def failed(self, index: int, message: str, at: int) -> None:
        """Note that AWS refused a job for good."""
        self._append([("outcome", {"index": index, "at": at, "error": message})])

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
        text = b"".join(_encode(seq, kind, fields) for seq, (kind, fields) in enumerate(records, start=self._seq))
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


def _lock(path: Path) -> BaseFileLock:
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(path.with_suffix(".lock"), mode=0o600)
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(
            f'run "{path.stem}" is held by another fairshare process', hint="wait for it to end, or stop it first"
        ) from None
    except OSError as error:
        raise FairshareError(
            f"cannot keep runs in {path.parent}: {error.strerror}",
            hint="set FAIRSHARE_STATE_DIR to a directory that can be written",
        ) from error
    return lock


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


# ---------------------------------------------------------------------------------------------------------------------
# Lines. A line is one JSON object: seq and type first, crc (of all that stands before it) last.


def _encode(seq: int, kind: str, fields: Mapping[str, Any]) -> bytes:
    record = {"seq": seq, "type": kind, **fields}
    body = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def _decode(line: bytes) -> dict[str, Any]:
    """Return the record of a line without its newline; ValueError tells what is wrong with it."""
    match = _CRC.search(line)
    if match is None:
        raise ValueError("it is not a record of a journal")
    if zlib.crc32(line[: match.start()]) != int(match[1], 16):
        raise ValueError("its checksum is wrong")
    record: dict[str, Any] = json.loads(line)
    return record


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
            reader.take(_decode(line), number - 1)
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
        if record["seq"] != seq:
            raise ValueError(f"seq is {record['seq']}, expected {seq}")
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
        elif kind in ("intent", "outcome"):
            self._update(record, kind)
        else:
            raise ValueError(f'unknown record "{kind}"')

    def _update(self, record: dict[str, Any], kind: str) -> None:
        index = record["index"]
        if not 0 <= index < len(self._jobs):
            raise ValueError(f"there is no job {index}")
        job = self._jobs[index]
        if kind == "intent":
            self._jobs[index] = replace(job, intended=True)
        else:
            ids = {name: record.get(name) for name in ("job_id", "job_arn", "error")}
            self._jobs[index] = replace(job, **ids)

    def result(self, *, torn: int) -> RunRecord:
        """Return the run; ``torn`` bytes stood behind the last whole line."""
        header = self._header
        if header is None or len(self._jobs) < header["total"]:
            raise _no_run(self._path)
        warning = f"{self._path}: the last record was torn by a crash and is ignored ({torn} bytes)"
        return RunRecord(
            path=self._path,
            identity=RunIdentity(header["run_id"], header["created_at"], header["region"], header["account_id"]),
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
