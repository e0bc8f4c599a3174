"""kill -9 of a real server under load: what it acknowledged is there afterwards, and no script runs twice."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.exceptions import BotoCoreError, ClientError

REGION = "us-west-2"
RESTARTED = "Received status from SageMaker: InternalServerError: the local AWS was restarted"
COMPLETED = "Received status from SageMaker: Training job completed"

MakeServer = Callable[..., Any]
ScriptRequest = Callable[..., dict[str, Any]]
WaitFor = Callable[[Callable[[], bool]], None]


def set_up(batch: Any, capacity: int) -> None:
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": capacity, "capacityUnit": "NUM_INSTANCES"}],
    )
    batch.create_job_queue(
        jobQueueName="gpu", priority=1, serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}]
    )


def submit(batch: Any, name: str, payload: dict[str, Any], **more: Any) -> str:
    request = {"jobName": name, "jobQueue": "gpu", "serviceJobType": "SAGEMAKER_TRAINING", "clientToken": name}
    return str(batch.submit_service_job(**request, serviceRequestPayload=json.dumps(payload), **more)["jobId"])


def simulated(seconds: float) -> dict[str, Any]:
    return {
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)},
    }


class Load:
    """Threads that submit until the server is gone."""

    def __init__(self, batch: Any, payload: Callable[[str], dict[str, Any]], prefix: str, threads: int = 4) -> None:
        self.acknowledged: dict[str, str] = {}
        self.unanswered: list[str] = []
        self._batch = batch
        self._payload = payload
        self._threads = [threading.Thread(target=self._run, args=(f"{prefix}-{n}",)) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, prefix: str) -> None:
        for number in range(10_000):
            name = f"{prefix}-{number}"
            try:
                self.acknowledged[name] = submit(self._batch, name, self._payload(name))
            except (BotoCoreError, ClientError, KeyError):  # KeyError: the answer broke off after its headers
                self.unanswered.append(name)
                return

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def test_every_acknowledged_job_survives_kill_9(make_server: MakeServer, wait_for: WaitFor) -> None:
    server = make_server("--launcher", "simulated", "--speed", "100")
    server.start()
    set_up(server.client("batch"), capacity=2)
    acknowledged: dict[str, str] = {}
    for round_number in range(2):
        load = Load(server.client("batch"), lambda name: simulated(20), f"r{round_number}")
        wait_for(lambda load=load: len(load.acknowledged) >= 30)
        server.kill()
        load.join()
        acknowledged |= load.acknowledged
        server.start()
        batch = server.client("batch")
        for name, job in acknowledged.items():
            described = batch.describe_service_job(jobId=job)
            assert described["jobName"] == name
            assert described["status"] != "FAILED"
        # The same token again finds the same job: a client that never got its answer can ask.
        name = next(iter(load.acknowledged))
        assert submit(batch, name, simulated(20)) == load.acknowledged[name]
    assert len(set(acknowledged.values())) == len(acknowledged) >= 60


def test_no_script_runs_twice(
    make_server: MakeServer, wait_for: WaitFor, script_request: ScriptRequest, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    server = make_server("--launcher", "process")
    server.start()
    set_up(server.client("batch"), capacity=3)
    server.client("s3").create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    acknowledged: dict[str, str] = {}
    ended: dict[str, str] = {}

    def payload(name: str) -> dict[str, Any]:
        return script_request(name, f"echo {name} >> {ran}; sleep 0.2")

    for round_number in range(2):
        load = Load(server.client("batch"), payload, f"r{round_number}", threads=2)
        lines = count_lines(ran)
        wait_for(lambda lines=lines: count_lines(ran) >= lines + 4)
        server.kill()
        load.join()
        acknowledged |= load.acknowledged
        server.start()
        batch = server.client("batch")
        # Who got no answer asks again: the job is found by its token, or was never begun.
        acknowledged |= {name: submit(batch, name, payload(name)) for name in load.unanswered}
        for job in acknowledged.values():
            described = batch.describe_service_job(jobId=job)
            if described["status"] in ("SUCCEEDED", "FAILED"):
                assert described["statusReason"] in (RESTARTED, COMPLETED)
                assert ended.setdefault(job, described["status"]) == described["status"]
    wait_for(lambda: count_lines(ran) >= lines + 8)  # what was waiting goes on by itself
    server.kill()
    times = Counter(ran.read_text().split())
    assert set(times.values()) == {1}
    assert {"SUCCEEDED", "FAILED"} <= set(ended.values())
    assert not [process for process in psutil.process_iter() if is_of(process, tmp_path)]


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def is_of(process: psutil.Process, folder: Path) -> bool:
    """Whether a process is a job of a server of this test: they end with it, if not at once."""
    try:
        gone = wait_gone(process) if str(folder) in process.environ().get("FAIRSHARE_JOBS_DIR", "") else True
    except psutil.Error:
        return False
    return not gone


def wait_gone(process: psutil.Process) -> bool:
    try:
        process.wait(10)
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_retry_strategy_takes_up_what_the_kill_ended(
    make_server: MakeServer, wait_for: WaitFor, script_request: ScriptRequest, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    server = make_server("--launcher", "process")
    server.start()
    set_up(server.client("batch"), capacity=2)
    server.client("s3").create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    text = f"echo started >> {ran}; test $(wc -l < {ran}) -ge 3 || sleep 600"
    rules = [
        {"onStatusReason": "Received status from SageMaker: InternalServerError*", "action": "RETRY"},
        {"onStatusReason": "*", "action": "EXIT"},
    ]
    again = {"retryStrategy": {"attempts": 2, "evaluateOnExit": rules}}
    retried = submit(server.client("batch"), "retried", script_request("retried", text), **again)
    once = submit(server.client("batch"), "once", script_request("once", text))
    wait_for(lambda: count_lines(ran) == 2)
    server.kill()
    server.start()
    batch = server.client("batch")
    wait_for(lambda: batch.describe_service_job(jobId=retried)["status"] == "SUCCEEDED")
    described = batch.describe_service_job(jobId=once)
    assert (described["status"], described["statusReason"]) == ("FAILED", RESTARTED)
    assert count_lines(ran) == 3
    first, second = batch.describe_service_job(jobId=retried)["attempts"]
    assert (first["statusReason"], second["statusReason"]) == (RESTARTED, COMPLETED)


def test_logs_and_artefacts_of_ended_jobs_can_be_read_after_a_kill(
    make_server: MakeServer, wait_for: WaitFor, script_request: ScriptRequest
) -> None:
    server = make_server("--launcher", "process")
    server.start()
    set_up(server.client("batch"), capacity=1)
    server.client("s3").create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    job = submit(
        server.client("batch"), "one", script_request("one", "echo hello; echo weights > /opt/ml/model/weights.txt")
    )
    batch = server.client("batch")
    wait_for(lambda: batch.describe_service_job(jobId=job)["status"] in ("SUCCEEDED", "FAILED"))
    before = batch.describe_service_job(jobId=job)
    server.kill()
    server.start()
    after = server.client("batch").describe_service_job(jobId=job)
    assert {**after, "ResponseMetadata": None} == {**before, "ResponseMetadata": None}
    name = after["latestAttempt"]["serviceResourceId"]["value"].rsplit("/", 1)[-1]
    group = "/aws/sagemaker/TrainingJobs"
    events = server.client("logs").filter_log_events(logGroupName=group, logStreamNamePrefix=f"{name}/")["events"]
    assert "hello" in [event["message"] for event in events]
    uri = server.client("sagemaker").describe_training_job(TrainingJobName=name)["ModelArtifacts"]["S3ModelArtifacts"]
    key = uri.removeprefix("s3://bucket/")
    assert server.client("s3").get_object(Bucket="bucket", Key=key)["Body"].read().startswith(b"\x1f\x8b")


def test_what_waited_at_an_orderly_stop_runs_after_it_and_once(
    tmp_path: Path, session: boto3.session.Session, wait_for: WaitFor, script_request: ScriptRequest
) -> None:
    """A job that was stopped frees its place while another still saves its work; nothing may seem to begin there."""
    from fairshare.local.server import LocalServer

    ran = tmp_path / "ran"
    saves = "trap 'kill $!; sleep 0.5; echo saved; exit 1' TERM; sleep 600 & wait"
    jobs: list[str] = []
    for _ in range(2):
        with LocalServer(state_dir=tmp_path / "local", launcher="process") as server:
            batch = session.client(
                "batch",
                endpoint_url=server.address.endpoint_url,
                aws_access_key_id=server.address.access_key_id,
                aws_secret_access_key=server.address.secret_access_key,
            )
            if not jobs:
                set_up(batch, capacity=2)
                for name, text in (("quick", "sleep 600"), ("slow", saves), ("next", "true")):
                    jobs.append(submit(batch, name, script_request(name, f"echo {name} >> {ran}; {text}")))
                wait_for(lambda: count_lines(ran) == 2)
            else:
                wait_for(lambda batch=batch: batch.describe_service_job(jobId=jobs[2])["status"] == "SUCCEEDED")
                stopped = [batch.describe_service_job(jobId=job)["statusReason"] for job in jobs[:2]]
    assert sorted(ran.read_text().split()) == ["next", "quick", "slow"]
    assert stopped == [RESTARTED, RESTARTED]
