"""The process launcher: training jobs as process groups of this machine, under SageMaker's container contract.

`ProcessLauncher` is the face; one `attempt_run.AttemptRun` per attempt does the work in a thread of its own. No
container and no root is needed: see `localise` for what takes the place of ``/opt/ml``.

Imports boto3 and psutil: loaded only by a local AWS that was started with this launcher.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from fairshare.local.endpoint import LocalEndpoint
from fairshare.local.launcher import Attempt, Report
from fairshare.local.processes.allotment import Allotment
from fairshare.local.processes.attempt_run import OWNER_MARK, AttemptRun, Site
from fairshare.local.processes.container import discard_leftovers, inherited_environment
from fairshare.local.processes.gpus import Gpus
from fairshare.local.processes.job_python import Interpreter
from fairshare.local.processes.period import DEFAULT_PERIOD_SECONDS
from fairshare.local.processes.sampler import Sampler
from fairshare.local.processes.tree import kill_marked
from fairshare.model import JobStatus
from fairshare.scheduler.clock import Clock

_CLOSE_GRACE_SECONDS = 5.0


class ProcessLauncher:
    """Runs attempts as processes. An adapter of `fairshare.local.launcher.Launcher`.

    Jobs talk to the local AWS only, with its own key, and inherit no secret of the process that started it. They die
    with it, even when it is killed with SIGKILL.

    Args:
        endpoint_url: where the local AWS listens; channels come from its S3 and logs go to its Logs.
        access_key_id: the key it accepts.
        secret_access_key: its secret.
        jobs_dir: where attempts get their directories; one launcher at a time may use it.
        python: interpreter of the training scripts.
        notify: called from other threads when there is something to `poll`; must not block.
        clock: time stamps of reports and log lines.
        stop_grace_seconds: between SIGTERM and SIGKILL; SageMaker's is 120.
        environ: environment of the local AWS, from which an allow-list is passed on.
        metrics_period: seconds for which one value of each utilisation metric is published; SageMaker's is 60.
        allotment: what utilisation is a part of. Default: what this process may use of the machine.

    Raises:
        UsageError: a period that CloudWatch does not have.
        FairshareError: ``python`` does not work.
    """

    def __init__(  # noqa: PLR0913 - the composition root names each of them once
        self,
        *,
        endpoint_url: str,
        access_key_id: str,
        secret_access_key: str,
        jobs_dir: Path,
        python: Path,
        notify: Callable[[], None],
        clock: Clock,
        stop_grace_seconds: float = 120,
        environ: Mapping[str, str],
        metrics_period: float = DEFAULT_PERIOD_SECONDS,
        allotment: Allotment | None = None,
    ) -> None:
        jobs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        inherited = inherited_environment(environ)
        self._site = Site(
            endpoint=LocalEndpoint(endpoint_url, access_key_id, secret_access_key),
            jobs_dir=jobs_dir.resolve(),
            interpreter=Interpreter.inspect(python, inherited),
            inherited=inherited,
            clock=clock,
            stop_grace_seconds=stop_grace_seconds,
            sampler=Sampler(
                clock,
                metrics_period,
                allotment or Allotment.of_machine(),
                Gpus.find(),
            ),
        )
        self._notify = notify
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, int], tuple[AttemptRun, threading.Thread]] = {}
        self._reports: list[Report] = []
        self._is_closed = False

    @staticmethod
    def reap_strays(jobs_dir: Path) -> int:
        """Kill and clean up after attempts whose launcher was killed; return how many processes were left.

        Call it before the first launcher of a jobs directory starts, never while one is running. Jobs die with their
        launcher, so what is found here are jobs whose supervising process was killed as well.
        """
        killed = kill_marked(OWNER_MARK, str(jobs_dir.resolve()))
        discard_leftovers(jobs_dir)
        return killed

    def start(self, attempt: Attempt, at: int) -> None:
        """Begin an attempt. Returns at once; whatever is wrong with the job is reported."""
        key = (attempt.job_id, attempt.number)
        run = AttemptRun(attempt, at, self._site, self._queue)
        thread = threading.Thread(target=self._run, args=(key, run), name=f"attempt-{attempt.training_job_name}")
        with self._lock:
            if not self._is_closed:
                self._runs[key] = (run, thread)
                thread.start()
                return
        reason = "InternalServerError: the local AWS is stopping"
        self._queue(Report(attempt.job_id, attempt.number, JobStatus.FAILED, at, reason))

    def stop(self, job_id: str, attempt: int) -> None:
        """Send SIGTERM to the training script and, after the grace, SIGKILL to all of it. Ignores unknown attempts."""
        with self._lock:
            run, _ = self._runs.get((job_id, attempt), (None, None))
        if run is not None:
            run.stop()

    def poll(self, now: int) -> list[Report]:
        """Return the reports since the last poll, oldest first."""
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def close(self) -> None:
        """Stop all attempts with a short grace; return when none of their processes and threads is left. Idempotent.

        Call it while the endpoint still answers, and without a lock that the endpoint needs: checkpoints and artefacts
        are uploaded as after any stop. The last reports can still be polled.
        """
        with self._lock:
            self._is_closed = True
            running = list(self._runs.values())
        for run, _ in running:
            run.stop(at_most_seconds=_CLOSE_GRACE_SECONDS)
        for _, thread in running:
            thread.join()
        self._site.sampler.close()
        self._site.endpoint.close()

    def _run(self, key: tuple[str, int], run: AttemptRun) -> None:
        try:
            run.run()
        finally:
            with self._lock:
                del self._runs[key]

    def _queue(self, report: Report) -> None:
        with self._lock:
            self._reports.append(report)
        self._notify()
