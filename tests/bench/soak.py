"""Long trials of submission, not part of the test suite: ``python tests/bench/soak.py faults|kills|rate [COUNT]``.

======  ==============================================================================================================
faults  10,000 jobs while 20 % of the replies are lost, 20 % of the calls get 429 and 5 % get 500, once with repeated
        tokens answered by the first job and once with them rejected: every job exactly once
kills   a process that sends is killed (SIGKILL) at random moments, 200 times, each while jobs are pending
rate    300 jobs against 5 calls a second, by one process and by two at once: how long, and how many throttled calls
======  ==============================================================================================================

Everything goes over HTTP to a local AWS in a process of its own. Prints one line for each trial; exit code 1 when jobs
were lost or made twice.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairshare.aws.jobs import BatchJobs
from fairshare.aws.session import AwsSession
from fairshare.model import JobRequest, JobSummary, NotFoundError
from fairshare.scheduler.clock import SystemClock, uptime_ms
from fairshare.submit.budget import BudgetKey, SharedBucket, boot_id
from fairshare.submit.calls import open_calls
from fairshare.submit.dispatch import SubmitPlan, dispatch
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, read_run
from fairshare.submit.rate import Pace
from fairshare.submit.recovery import recover
from fairshare.submit.requests import PlannedJob, RunIdentity, client_token
from fairshare.submit.waves import plan_waves

REGION = "us-east-1"
QUEUE = "soak"
PAYLOAD = json.dumps({"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1}})
FAULTS = ("lost_reply=0.2,seed=1", "throttle=0.2,seed=2", "error=0.05,seed=3")


def serve(folder: Path, *rules: str) -> None:
    """Be the local AWS until stdin ends; stdout tells when it answers."""
    from fairshare.local.server import LocalServer

    with LocalServer(state_dir=folder / "aws", ready_file=folder / "ready.json", faults=rules):
        print("ready", flush=True)
        sys.stdin.read()


def session(folder: Path, run_id: str, count: int, rate: float) -> Counter[str]:
    """Submit a run, or go on with it; return how often which event happened."""
    aws = AwsSession.from_ready_file(folder / "ready.json", REGION)
    backend = BatchJobs(aws)
    clock, runs, holder = SystemClock(), folder / "runs", Holder("soak", 0)
    plan, earlier = whole_plan(run_id, count), None
    try:
        journal = Journal.open(runs / f"{run_id}.jsonl", holder)
    except NotFoundError:
        journal = Journal.create(runs, run_id, holder)
    events: Counter[str] = Counter()
    key = BudgetKey(aws.account_id, REGION, aws.endpoint_url, "soak")
    pace = Pace(random.Random(), rate, buckets=SharedBucket(folder / "run", key, uptime_ms, boot_id()))
    with journal:
        if journal.record is not None:
            recovery = recover(journal, backend, lambda section, key, reference: [], clock.now())
            plan, earlier = recovery.plan, recovery.earlier

        def note(event: Any) -> None:
            events[type(event).__name__] += 1
            events["429"] += "Too Many Requests" in getattr(event, "message", "")

        with open_calls(backend, plan.width) as calls:
            result = dispatch(plan, calls, journal, clock, pace, note, lambda: False, earlier)
    if (error := result.error()) is not None:
        raise error
    return events


def whole_plan(run_id: str, count: int) -> SubmitPlan:
    jobs = []
    for index in range(count):
        token = client_token(run_id, index, PAYLOAD)
        tags = {"fairshare:run": run_id}
        jobs.append(PlannedJob(index, 1, JobRequest(f"{run_id}-{index}", QUEUE, PAYLOAD, token, "A", 0, tags=tags)))
    waves = plan_waves(count, None, 0, 0)
    return SubmitPlan(RunIdentity(run_id, 0, REGION, "123456789012"), waves, tuple(jobs))


@contextmanager
def local_aws(*rules: str) -> Iterator[Path]:
    """Yield the folder of a local AWS with a queue."""
    with tempfile.TemporaryDirectory(prefix="fairshare-soak-") as name:
        folder = Path(name)
        command = [sys.executable, __file__, "serve", name, *rules]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            batch = AwsSession.from_ready_file(folder / "ready.json", REGION).client("batch")
            batch.create_service_environment(
                serviceEnvironmentName=QUEUE,
                serviceEnvironmentType="SAGEMAKER_TRAINING",
                capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
            )
            policy = batch.create_scheduling_policy(
                name=QUEUE, fairsharePolicy={"shareDistribution": [{"shareIdentifier": "A", "weightFactor": 1}]}
            )
            batch.create_job_queue(
                jobQueueName=QUEUE,
                priority=1,
                schedulingPolicyArn=policy["arn"],
                serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": QUEUE}],
            )
            yield folder
            server.stdin.close()


def jobs_made(folder: Path) -> list[JobSummary]:
    return BatchJobs(AwsSession.from_ready_file(folder / "ready.json", REGION)).list(QUEUE)


def verdict(jobs: list[JobSummary], wanted: Counter[str]) -> str:
    found = Counter(job.job_name for job in jobs)
    lost, extra = (wanted - found).total(), (found - wanted).total()
    if lost or extra:
        print(f"FAILED: {lost} lost, {extra} made twice")
        sys.exit(1)
    return f"{wanted.total()} jobs, none lost, none twice"


def names(run_id: str, count: int) -> Counter[str]:
    return Counter(f"{run_id}-{index}" for index in range(count))


def trial_faults(count: int) -> None:
    for answer in ("return", "reject"):
        with local_aws(*FAULTS, f"repeated_token={answer}") as folder:
            began = time.monotonic()
            events = session(folder, "faults", count, 0)
            took = time.monotonic() - began
            result = verdict(jobs_made(folder), names("faults", count))
        print(f"faults, repeated_token={answer}: {result}; {events['CallRepeated']} calls repeated, {took:.0f} s")


def trial_kills(count: int) -> None:
    rng, jobs_in_run, kills, wanted, number = random.Random(11), 600, 0, Counter[str](), 0
    with local_aws("lost_reply=0.1,seed=5") as folder:
        while kills < count:
            run_id, number = f"kill{number}", number + 1
            while True:
                command = [sys.executable, __file__, "session", str(folder), run_id, str(jobs_in_run), "0"]
                process = subprocess.Popen(command)
                if kills < count:
                    await_start(folder, run_id, process)
                    time.sleep(rng.uniform(0, 0.6))
                    process.send_signal(signal.SIGKILL)
                code = process.wait()
                if code == 0:
                    break
                if code != -signal.SIGKILL:
                    sys.exit(f"FAILED: a session ended with {code}")
                kills += is_pending(folder, run_id)
            wanted += names(run_id, jobs_in_run)
        print(f"kills: {kills} while jobs were pending; {verdict(jobs_made(folder), wanted)}")


def await_start(folder: Path, run_id: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a session is at work: it holds the run."""
    note = folder / "runs" / f"{run_id}.holder"
    while process.poll() is None:
        if note.exists() and f'"pid": {process.pid}' in note.read_text():
            return
        time.sleep(0.005)


def is_pending(folder: Path, run_id: str) -> bool:
    try:
        return read_run(folder / "runs" / f"{run_id}.jsonl").count("waiting", "unknown") > 0
    except NotFoundError:
        return True


def trial_rate(count: int) -> None:
    for processes in (1, 2):
        with local_aws("submit_tps=5") as folder:
            command = [sys.executable, __file__, "session", str(folder)]
            running = [
                subprocess.Popen([*command, f"rate{n}", str(count // processes), "4.9"], stdout=subprocess.PIPE)
                for n in range(processes)
            ]
            events = sum((Counter(json.loads(p.communicate()[0])) for p in running), Counter[str]())
            wanted = sum((names(f"rate{n}", count // processes) for n in range(processes)), Counter[str]())
            jobs = jobs_made(folder)
        times = [job.created_at for job in jobs]
        took, share = (max(times) - min(times)) / 1000, 100 * events["429"] / count
        result = verdict(jobs, wanted)
        print(f"rate, {processes} at once: {result}; {took:.1f} s from first to last, {share:.1f} % throttled")


def main() -> None:
    match sys.argv[1:]:
        case ["serve", folder, *rules]:
            serve(Path(folder), *rules)
        case ["session", folder, run_id, count, rate]:
            print(json.dumps(session(Path(folder), run_id, int(count), float(rate))))
        case ["faults", *count]:
            trial_faults(int(count[0]) if count else 10_000)
        case ["kills", *count]:
            trial_kills(int(count[0]) if count else 200)
        case ["rate", *count]:
            trial_rate(int(count[0]) if count else 300)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
