r"""The journal of a run: one file of JSON lines that says what was to be sent, what was tried and what came of it.

``<runs dir>/<run id>.jsonl``, mode 0600, written in this order:

==========  ============================================================================================================
header      format version, run id, time, region, account, queues, waves, number of jobs
job         one for each job: index, wave, and the whole frozen request. Header and jobs appear in one instant (written
            aside, fsynced, renamed): while they are incomplete, nothing has been sent and the run does not exist
intent      fsynced *before* the call that sends a job; a batch of them at once
outcome     after it: the job's id, or AWS's refusal, or neither when it is certain that nothing was made
ended       how a job ended, when somebody has seen it: Batch forgets jobs 7 days after their end
skipped     a job that is not sent because of how those it comes after ended
moved       fsynced: a job goes on on another queue, with this request, once its attempt before has ended
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
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fairshare.model import (
    FairshareError,
    InvalidFileError,
    JobRef,
    NotFoundError,
    Problem,
    UsageError,
)
from fairshare.submit.conditions import Skip
from fairshare.submit.holder import Holder, RunLock
from fairshare.submit.lines import decode, encode
from fairshare.submit.naming import check_run_id
from fairshare.submit.records import FORMAT, RunReader, RunRecord, job_fields, no_run, request_fields
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.rules import NO_RULES, RunRules
from fairshare.submit.waves import Wave

SUFFIX: Final = ".jsonl"
_OUTCOME: Final = b'"type":"outcome"'


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
            raise no_run(path)
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

    def begin(
        self, identity: RunIdentity, waves: Sequence[Wave], jobs: Sequence[PlannedJob], rules: RunRules = NO_RULES
    ) -> None:
        """Write the header and every job, all or nothing, and be ready for intents.

        Raises:
            FairshareError: the disk is full or the directory cannot be written. Nothing was sent.
        """
        queues = {job.request.job_queue for job in jobs} | {to.job_queue for job in jobs for to in job.alternatives}
        header = {"format": FORMAT, **asdict(identity), "total": len(jobs), "queues": sorted(queues)}
        header["waves"] = [asdict(wave) for wave in waves]
        header["rules"] = rules.to_json()
        records = [("header", header), *(("job", job_fields(job)) for job in jobs)]
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

    def ended(
        self,
        index: int,
        status: str,
        at: int,
        *,
        reason: str | None = None,
        training_job_name: str | None = None,
        started_at: int | None = None,
        stopped_at: int | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        """Note how a job ended, as somebody has seen at ``at``: ``SUCCEEDED`` or ``FAILED``. None = not known."""
        details = {
            "reason": reason,
            "training_job_name": training_job_name,
            "started_at": started_at,
            "stopped_at": stopped_at,
            "output": output or None,
        }
        known = {name: value for name, value in details.items() if value is not None}
        self._append([("ended", {"index": index, "at": at, "status": status, **known})])

    def skipped(self, index: int, skip: Skip, at: int) -> None:
        """Note that a job is not sent because of how those it comes after ended."""
        self._append([("skipped", {"index": index, "at": at, **asdict(skip)})])

    def moved(self, job: PlannedJob, at: int) -> None:
        """Note, on the disk, that a job whose attempt has ended is sent next as ``job``, on another queue."""
        fields = {"index": job.index, "at": at, "attempt": job.attempt, "queue": job.request.job_queue}
        self._priorities[job.index] = job.request.scheduling_priority
        self._append([("moved", {**fields, **request_fields(job)})], sync=True)

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


def _read(path: Path) -> tuple[RunRecord, int, int]:
    """Return the run, the length of the sound part of the file in bytes, and the next ``seq``."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise no_run(path) from None
    end = content.rfind(b"\n") + 1
    lines = content[:end].split(b"\n")[:-1]
    reader = RunReader(path)
    for number, line in enumerate(lines, start=1):
        try:
            reader.take(decode(line), number - 1)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            what = str(error) if isinstance(error, ValueError) else f"a field is missing or wrong: {error}"
            hint = "the run cannot be trusted; `fairshare queue` shows what is in the queue"
            raise InvalidFileError([Problem(str(path), number, 1, f"damaged journal: {what}", hint=hint)]) from None
    return reader.result(torn=len(content) - end), end, len(lines)
