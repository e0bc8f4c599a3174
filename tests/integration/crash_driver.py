"""A submission that dies where it is told: ``crash_driver.py FOLDER MODE WIDTH PLAN`` tries every point.

Batch is a directory: a file for each client token, made in one instant. A child process sends five jobs, or goes on
with the run, and ends itself with ``os._exit`` before or after the n-th journal write or call. In the plan ``flat`` the
jobs are alone; in ``linked`` the first moves to another queue and the others come after one another. Prints JSON: for
each point the exit codes, the names of the jobs that Batch has after a resume, and their states in the journal.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairshare.model import JobDetail, JobRef, JobRequest, JobSummary, NotFoundError, ServiceError
from fairshare.scheduler.clock import SystemClock
from fairshare.submit import sending
from fairshare.submit.calls import open_calls
from fairshare.submit.dispatch import SubmitPlan, dispatch
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.recovery import recover
from fairshare.submit.requests import After, Alternative, PlannedJob, RunIdentity, client_token
from fairshare.submit.watch import LookPace
from fairshare.submit.waves import plan_waves

JOBS = 5
RUN = "crashed"
CRASHED = 17


class Fuse:
    """Counts the points at which a process may die, and dies at one of them."""

    def __init__(self, point: int | None) -> None:
        self.point = point
        self.count = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            self._pass()
            answer = function(*arguments, **more)
            self._pass()
            return answer

        return call

    def _pass(self) -> None:
        self.count += 1
        if self.count == self.point:
            os._exit(CRASHED)


class DirectoryBatch:
    """Jobs as files. ``mode``: what a repeated token gets, ``return`` or ``reject``."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder = folder
        self._mode = mode
        folder.mkdir(exist_ok=True)

    def submit(self, request: JobRequest) -> JobRef:
        path = self._folder / request.client_token
        aside = self._folder / f".{request.client_token}-{os.getpid()}"
        job = {"name": request.job_name, "queue": request.job_queue, "tags": dict(request.tags)}
        aside.write_text(json.dumps(job))
        try:
            os.link(aside, path)
        except FileExistsError:
            if self._mode == "reject":
                raise ServiceError("clientToken was used before", http_status=400) from None
        finally:
            aside.unlink()
        return JobRef(request.client_token[:8], "arn", request.job_name)

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        for token, job in self.jobs().items():
            if job["name"] == job_name:
                return JobSummary(token[:8], "arn", job_name, **_fate(job))
        return None

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        return {
            token[:8]: JobDetail(token[:8], "arn", job["name"], **_fate(job), tags=job["tags"])
            for token, job in self.jobs().items()
            if token[:8] in job_ids
        }

    def list(self, queue: str, statuses: Collection[Any] | None = None) -> list[JobSummary]:
        return []

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {path.name: json.loads(path.read_text()) for path in self._folder.glob("[0-9a-f]*")}


def _fate(job: dict[str, Any]) -> dict[str, Any]:
    """How a job ends, as fields of a summary: the first queue has no room for the first job."""
    if job["name"] == "job-0" and job["queue"] == "queue":
        return {"status": "FAILED", "created_at": 0, "status_reason": "CapacityError: none"}
    return {"status": "SUCCEEDED", "created_at": 0}


def session(folder: Path, mode: str, width: int, plan: SubmitPlan, point: int | None) -> int:
    """Submit the run, or go on with it when it began; return how many points were passed."""
    fuse = Fuse(point)
    batch: Any = DirectoryBatch(folder / "batch", mode)
    batch.submit = fuse.around(batch.submit)
    for name in ("begin", "intend", "sent", "failed", "not_made", "ended", "skipped", "moved"):
        setattr(Journal, name, fuse.around(getattr(Journal, name)))
    sending.LOOK_MS = 2  # type: ignore[misc]
    runs, holder, clock = folder / "runs", Holder("driver", 0), SystemClock()
    try:
        record = read_run(runs / f"{RUN}.jsonl")
    except NotFoundError:
        earlier, journal = None, Journal.create(runs, RUN, holder)
    else:
        journal = Journal.open(record.path, holder)
        recovery = recover(journal, batch, lambda section, key, reference: [], clock.now())
        plan, earlier = recovery.plan, recovery.earlier
    pace = Pace(random.Random(0), 0)
    with journal, open_calls(batch, width, LookPace(1, 2, 0)) as calls:
        result = dispatch(plan, calls, journal, clock, pace, lambda event: None, lambda: False, earlier)
    if (error := result.error()) is not None:
        raise error
    return fuse.count


def whole_plan(kind: str) -> SubmitPlan:
    jobs = []
    for index in range(JOBS):
        token = client_token(RUN, index, "{}")
        request = JobRequest(f"job-{index}", "queue", "{}", token, "SHARE", 0, tags={"fairshare:run": RUN})
        jobs.append(PlannedJob(index, 1, request))
    if kind == "linked":
        jobs[0] = replace(jobs[0], alternatives=(Alternative("other"),))
        after: dict[int, tuple[After, ...]] = {
            2: (((0,), "ok"),),
            3: (((1, 2), "failed"),),
            4: (((3,), "any"),),
        }
        jobs = [replace(job, after=after.get(job.index, ())) for job in jobs]
    return SubmitPlan(RunIdentity(RUN, 0, "us-west-2", "111122223333"), plan_waves(JOBS, None, 0, 0), tuple(jobs))


def in_a_process_of_its_own(work: Callable[[], object]) -> int:
    """Return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    folder, mode, width, plan = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), whole_plan(sys.argv[4])
    outcomes = []
    for point in range(1, 1000):
        place = folder / str(point)
        place.mkdir(parents=True)
        code = in_a_process_of_its_own(lambda place=place, point=point: session(place, mode, width, plan, point))
        if code == 0:
            break
        codes = [code, in_a_process_of_its_own(lambda place=place: session(place, mode, width, plan, None))]
        names = sorted(job["name"] for job in DirectoryBatch(place / "batch", mode).jobs().values())
        states = [job.state for job in read_run(place / "runs" / f"{RUN}.jsonl").jobs]
        outcomes.append({"point": point, "codes": codes, "names": names, "states": states})
        shutil.rmtree(place)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
