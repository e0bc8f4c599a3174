"""The life of one attempt on this machine, from its request to its last report.

Downloading -> running -> uploading, with the texts SageMaker uses when one of them fails. Runs in a thread of its own;
only `AttemptRun.stop` is called from others. Imports boto3 and psutil: loaded only where the process launcher runs.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, Final

from fairshare.local.endpoint import LocalEndpoint
from fairshare.local.launcher import Attempt, Report
from fairshare.local.processes import container
from fairshare.local.processes.allotment import cores
from fairshare.local.processes.container import JobDirectory
from fairshare.local.processes.final_metrics import FinalMetrics
from fairshare.local.processes.job_process import MARK, JobProcess
from fairshare.local.processes.job_python import Interpreter
from fairshare.local.processes.job_storage import JobStorage, UploadError
from fairshare.local.processes.localise import Localiser, mentions_of_container_root
from fairshare.local.processes.log_shipper import LogShipper
from fairshare.local.processes.sampler import MeasuredJob, Sampler
from fairshare.local.processes.training_request import RefusalError, TrainingRequest, read_request
from fairshare.model import FairshareError, JobStatus, partition_of
from fairshare.scheduler.clock import Clock

OWNER_MARK: Final = "FAIRSHARE_JOBS_DIR"
"""Variable in the environment of every process of a launcher; its value is the launcher's jobs directory."""

_log = logging.getLogger(__name__)
_LOOK_AGAIN_SECONDS = 0.2
_SHOWN_LINES = 10
_SHOWN_CHARACTERS = 300
_SHOWN_MENTIONS = 5
_KILLED_CODES = (128 + 9, 256 - 9)  # of the job itself; of the script, as the SDK's driver passes it on
_BEFORE_USER_OUTPUT = "Executing command: "  # what the SDK's driver prints, then starts the script
_AFTER_USER_OUTPUT = "Command failed with exit code "  # and when the script has failed
_SHELL_NOISE = ("+ ", "++ ", "An error occurred with exit code ")


@dataclass(frozen=True)
class Site:
    """What all attempts of a launcher share."""

    endpoint: LocalEndpoint
    jobs_dir: Path
    interpreter: Interpreter
    inherited: Mapping[str, str]
    """Environment variables that jobs get from the local AWS."""
    clock: Clock
    stop_grace_seconds: float
    sampler: Sampler


@dataclass(frozen=True)
class _Ending:
    """How an attempt ended. ``reason`` None means SUCCEEDED."""

    reason: str | None = None
    secondary_status: str | None = None
    model_artifact: str | None = None


_STOPPED = _Ending("The training job was stopped", "Stopped")


class _StoppedError(Exception):
    """The attempt was stopped before its script began."""


class AttemptRun:
    """One attempt. `run` does all of it and returns when nothing of it is left but its log.

    Args:
        attempt: what to run.
        at: when the scheduler dispatched it, in ms; no report is earlier.
        site: what the launcher's attempts share.
        report: receives every report. It must not block.
    """

    def __init__(self, attempt: Attempt, at: int, site: Site, report: Callable[[Report], None]) -> None:
        self._attempt = attempt
        self._last_report_at = at
        self._site = site
        self._send = report
        self._grace_seconds = site.stop_grace_seconds
        self._metrics = FinalMetrics(())
        self._stop_wanted = Event()
        self._wake = Event()

    def stop(self, at_most_seconds: float = math.inf) -> None:
        """Ask the script to end, and kill it after the launcher's grace or ``at_most_seconds``. Returns at once."""
        self._grace_seconds = min(self._grace_seconds, at_most_seconds)
        self._stop_wanted.set()
        self._wake.set()

    def run(self) -> None:
        """Run the attempt and report it. Never raises."""
        self._report(JobStatus.STARTING, secondary_status="Downloading")
        try:
            ending = self._run()
        except _StoppedError:
            ending = _STOPPED
        except RefusalError as error:
            ending = _Ending(str(error))
        except FairshareError as error:
            ending = _Ending(f"ClientError: {error.message}. {error.hint or ''}".rstrip())
        except Exception as error:
            _log.debug("attempt %s failed inside the launcher", self._attempt.training_job_name, exc_info=True)
            ending = _Ending(f"InternalServerError: {type(error).__name__}: {error}")
        self._report(
            JobStatus.SUCCEEDED if ending.reason is None else JobStatus.FAILED,
            reason=ending.reason,
            secondary_status=ending.secondary_status,
            model_artifact=ending.model_artifact,
        )

    def _run(self) -> _Ending:
        request = read_request(self._attempt.training_job_name, self._attempt.training_job)
        self._metrics = FinalMetrics(request.metric_definitions)
        directory = JobDirectory.create(self._site.jobs_dir, request.name)
        log = LogShipper(self._client("logs"), request.name, directory.log, self._site.clock, self._metrics.read)
        storage = JobStorage(self._client("s3"), self._raise_if_stopped)
        localiser = Localiser(directory.root, directory.environment_file, _free_port())
        ending = _Ending()
        try:
            self._prepare(request, directory, storage, localiser)
            ending = self._train(request, directory, localiser, log)
            self._report(JobStatus.RUNNING, secondary_status="Uploading")
            ending = replace(ending, model_artifact=_upload(request, directory, storage, localiser))
            directory.discard()
        except UploadError as error:
            directory.keep()
            problem = f"ClientError: Artifact upload failed: {error}. The job's files are kept in {directory.root}."
            log.note(problem)
            return ending if ending.reason is not None else _Ending(problem)
        except RefusalError as error:
            log.note(str(error))
            directory.discard()
            raise
        except Exception:
            directory.discard()
            raise
        finally:
            log.close()
        return ending

    def _prepare(
        self, request: TrainingRequest, directory: JobDirectory, storage: JobStorage, localiser: Localiser
    ) -> None:
        """Fill the job's directory with all that the script will find there."""
        for channel in request.channels:
            (directory.data / channel.name).mkdir(exist_ok=True)
            storage.download_channel(channel, directory.data / channel.name)
        if request.checkpoint is not None:
            path = localiser.path(request.checkpoint.path)
            path.mkdir(parents=True, exist_ok=True)
            storage.restore_checkpoint(request.checkpoint, path)
        localiser.drivers(directory.drivers)
        container.write_configuration(directory, request, localiser)

    def _train(
        self, request: TrainingRequest, directory: JobDirectory, localiser: Localiser, log: LogShipper
    ) -> _Ending:
        """Run the script to its end, or stop it."""
        _warn(directory, log)
        environment = self._environment(request, directory, localiser)
        self._client("cloudwatch")  # made before the job begins: its first second is measured as well
        self._raise_if_stopped()
        self._report(JobStatus.RUNNING)
        with (
            JobProcess(
                [localiser.text(word) for word in request.command],
                environment=environment,
                directory=directory.working,
                read_output=log.pump,
                on_exit=self._wake.set,
            ) as process,
            self._site.sampler.measuring(self._measured(request, directory, process)),
        ):
            stopped = self._supervise(process, request.max_runtime_seconds)
        return stopped or _ending_of(process.exit_code, directory.failure(), log.tail())

    def _measured(self, request: TrainingRequest, directory: JobDirectory, process: JobProcess) -> MeasuredJob:
        """Return what the sampler needs to know of a job that has begun."""
        return MeasuredJob(
            training_job_name=request.name,
            cloudwatch=self._client("cloudwatch"),
            pid=process.pid,
            instance_type=request.instance_type,
            volume_bytes=request.volume_bytes or shutil.disk_usage(directory.root).total,
            directories=(directory.root, directory.temporary),
            cpu_seconds=lambda: process.cpu_seconds,
        )

    def _supervise(self, process: JobProcess, max_runtime_seconds: int) -> _Ending | None:
        """Return when the process has ended: None when it did so by itself, else how it was stopped."""
        limit = time.monotonic() + max_runtime_seconds
        stopped, since = None, limit
        while True:
            self._wake.clear()
            if process.exit_code is not None:
                return stopped
            now = time.monotonic()
            if stopped is None and self._stop_wanted.is_set():
                stopped, since = _STOPPED, now
            elif stopped is None and now >= limit:
                stopped, since = _max_runtime_exceeded(max_runtime_seconds), now
            if stopped is None:
                self._wake.wait(limit - now)
                continue
            if now < since + self._grace_seconds:
                process.terminate()
            else:
                process.kill()
            self._wake.wait(_LOOK_AGAIN_SECONDS)

    def _environment(self, request: TrainingRequest, directory: JobDirectory, localiser: Localiser) -> dict[str, str]:
        """Make the job's virtual environment and return all variables of the job."""
        attempt, site = self._attempt, self._site
        packages = site.interpreter.derive(directory.venv, site.inherited)
        arn = f"arn:{partition_of(attempt.region)}:sagemaker:{attempt.region}:{attempt.account_id}:training-job"
        environment = {
            **site.inherited,
            **container.default_environment(cores(), localiser.master_port),
            **container.requested_environment(request, localiser),
            **container.aws_environment(site.endpoint, attempt.region),
            "TRAINING_JOB_NAME": request.name,
            "TRAINING_JOB_ARN": f"{arn}/{request.name}",
            "TMPDIR": str(directory.temporary),
            "VIRTUAL_ENV": str(directory.venv),
            MARK: f"{attempt.job_id}:{attempt.number}",
            OWNER_MARK: str(site.jobs_dir),
        }
        programs = (directory.venv / "bin", site.interpreter.executable.parent, environment.get("PATH"))
        environment["PATH"] = _search_path(*programs)
        # For commands of the chosen interpreter, such as torchrun: their first line names it, not the job's own.
        environment["PYTHONPATH"] = _search_path(environment.get("PYTHONPATH"), packages)
        return environment

    def _client(self, service: str) -> Any:
        return self._site.endpoint.client(service, self._attempt.region)

    def _raise_if_stopped(self) -> None:
        if self._stop_wanted.is_set():
            raise _StoppedError

    def _report(
        self,
        status: JobStatus,
        *,
        reason: str | None = None,
        secondary_status: str | None = None,
        model_artifact: str | None = None,
    ) -> None:
        self._last_report_at = max(self._last_report_at, self._site.clock.now())
        attempt = self._attempt
        self._send(
            Report(
                attempt.job_id,
                attempt.number,
                status,
                self._last_report_at,
                reason,
                secondary_status,
                model_artifact,
                self._metrics.values() if status.is_terminal else {},
            )
        )


def _upload(request: TrainingRequest, directory: JobDirectory, storage: JobStorage, localiser: Localiser) -> str | None:
    """Put checkpoints and artefacts into S3, whatever the outcome; return the URI of the model if there is one."""
    if request.checkpoint is not None:
        storage.save_checkpoint(request.checkpoint, localiser.path(request.checkpoint.path))
    storage.upload_archive(directory.output_data, request.output.join("output.tar.gz"), directory.scratch)
    if request.compress_model:
        location = request.output.join("model.tar.gz")
        return location.uri if storage.upload_archive(directory.model, location, directory.scratch) else None
    location = request.output.join("model")
    return f"{location.uri}/" if storage.upload_files(directory.model, location) else None


def _ending_of(exit_code: int | None, failure: str, log_lines: list[str]) -> _Ending:
    """What the exit code, the failure file and the log say, in SageMaker's words."""
    if exit_code == 0:
        return _Ending()
    cause = failure or "the job wrote no failure file"
    if exit_code in _KILLED_CODES:
        cause += " (it was killed, as happens when memory runs out)"
    evidence = "".join(f"\n  {line}" for line in _last_user_lines(log_lines))
    return _Ending(
        f"AlgorithmError: {cause}, exit code: {exit_code}" + (f"\nLast log lines:{evidence}" if evidence else "")
    )


def _last_user_lines(lines: list[str]) -> list[str]:
    """The last lines of the user's script, without those that the SDK's scripts print before and after it."""
    end = next((n for n, line in enumerate(lines) if line.startswith(_AFTER_USER_OUTPUT)), len(lines))
    begin = max((n + 1 for n, line in enumerate(lines[:end]) if line.startswith(_BEFORE_USER_OUTPUT)), default=0)
    own = [line[:_SHOWN_CHARACTERS] for line in lines[begin:end] if not line.startswith(_SHELL_NOISE)]
    return own[-_SHOWN_LINES:]


def _max_runtime_exceeded(seconds: int) -> _Ending:
    return _Ending(
        f"MaxRuntimeExceeded: the training job ran longer than its MaxRuntimeInSeconds of {seconds} and was stopped",
        "MaxRuntimeExceeded",
    )


def _warn(directory: JobDirectory, log: LogShipper) -> None:
    """Say in the job's log what may surprise."""
    if directory.private != directory.home:
        log.note(f"{directory.home} has characters that break SageMaker's scripts; running in {directory.private}")
    mentions = list(itertools.islice(mentions_of_container_root(directory.code), _SHOWN_MENTIONS))
    if mentions:
        text = (
            f"the code names /opt/ml in {', '.join(mentions)}; on this machine the job's files are elsewhere. Read "
            "SM_MODEL_DIR, SM_OUTPUT_DATA_DIR and SM_CHANNEL_<NAME> instead: they are right here and in the cloud"
        )
        log.note(f"warning: {text}")
        _log.warning("%s: %s", directory.home.name, text)


def _search_path(*folders: Path | str | None) -> str:
    return os.pathsep.join(str(folder) for folder in folders if folder)


def _free_port() -> int:
    """A port of the loopback address that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
